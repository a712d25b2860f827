"""Pages of plans and sweeps: one file that needs nothing else, every text in it escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.base.files import write_atomic


def write_template(name: str, path: Path, **values: Any) -> None:
    """Fill a template of this folder; it may include those of the reports."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("headway.scaling"), jinja2.PackageLoader("headway.runs")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    write_atomic(path, environment.get_template(name).render(**values))
