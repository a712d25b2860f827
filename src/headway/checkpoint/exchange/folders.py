"""The files of a Hugging Face folder: config.json, and tensors in one file or in several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.weights import read_tensors

CONFIG = "config.json"
SAFETENSORS, _PICKLED = "model.safetensors", "pytorch_model.bin"


def read_config(folder: Path) -> Config:
    """The folder's config.json. Raises UserError if there is none or it is no table."""
    path = folder / CONFIG
    if not path.is_file():
        raise UserError(
            f"there is no {CONFIG}", where=str(folder), todo="name a Hugging Face folder"
        )
    table = read_json(path)
    if not isinstance(table, dict):
        raise UserError("not a table", where=str(path))
    return Config(table, str(path))


def is_foreign(folder: Path) -> bool:
    """Whether the folder's config.json is another tool's: ours says no `model_type`."""
    return (folder / CONFIG).is_file() and "model_type" in read_config(folder).table


def read_folder_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder, whatever files they are in.

    Safetensors come first; a .bin is a pickle, of which only tensors are read. Raises UserError if
    there are none, a file is missing or broken, or a pickle holds anything else.
    """
    for name, read in ((SAFETENSORS, read_tensors), (_PICKLED, read_pickled)):
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f"{name}.index.json").is_file():
            found: dict[str, Tensor] = {}
            for part in _parts(folder / f"{name}.index.json"):
                found |= read(part)
            return found
    raise UserError(
        f"there is no {SAFETENSORS}", where=str(folder), todo="name a Hugging Face folder"
    )


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that torch.save wrote; nothing else is unpickled.

    Raises UserError for a file that holds more than tensors, or none.
    """
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a crafted file makes the unpickler raise anything
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"not a file of tensors alone: {said}",
            where=str(path),
            todo="convert it to safetensors where it comes from",
        ) from error
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise UserError("not a table of tensors", where=str(path))
    return found


def _parts(index: Path) -> list[Path]:
    """The files that an index names, which must stand beside it."""
    table = read_json(index)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict) or not names:
        raise UserError("there is no 'weight_map' in it", where=str(index))
    found = []
    for name in sorted({str(each) for each in names.values()}):
        if Path(name).name != name:
            raise UserError(f"names a file elsewhere: {name!r}", where=str(index))
        found.append(index.with_name(name))
    return found
