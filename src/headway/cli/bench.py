"""headway bench"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Device, JsonFile, refuse_inputs, write_json

bench = typer.Typer(help="Measure what a machine can do.", no_args_is_help=True)


@bench.callback()
def _measured() -> None:
    """Measure what a machine can do."""


@bench.command()
def machine(
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What plans are to call it: --machine NAME.")
    ] = "here",
    hardware: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table of your own to keep it in; your cache if not set."
        ),
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Time matrix products, memory and attention here, and keep them for `headway plan`.

    It takes a minute. Products are what no training exceeds; what trainings reach is learnt from
    finished ones, by `headway plan --calibrate`.

    Example: headway bench machine
    """
    refuse_inputs(json, hardware)
    from headway.base.runtime import pick_device
    from headway.scaling.hardware import keep_machine, load_hardware, refuse_name
    from headway.scaling.machine import measure

    refuse_name(name, "--name")
    if hardware is not None and hardware.exists():
        load_hardware(hardware)  # a mistake there is told before a minute has gone
    found = measure(pick_device(device))
    entry = found.entry()
    place = keep_machine(name, entry, hardware)
    print(f"{entry['name']}, {entry['memory']:,} GB")
    for dtype, rate in found.products.items():
        print(f"products in {dtype:<9} {rate:10,.1f} GFLOP/s")
    print(f"reading memory        {found.reading:10,.1f} GB/s")
    print(f"copying               {found.copying:10,.1f} GB/s")
    for each in found.crossings:
        tokens = f"from {each['tokens']:,} tokens on" if each["tokens"] else "nowhere up to 1,024"
        print(f"fused attention is faster in {each['work']}, {each['dtype']}: {tokens}")
    print(f"kept in {place}: headway plan --hours 2 --machine {name}")
    write_json(json, asdict(found))


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(bench, name="bench")
