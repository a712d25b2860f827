"""The files of a Hugging Face folder: config.json, and tensors in one file or in several."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError, visible
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
    there are none, a file is missing or broken, two have the same name, or a pickle holds anything
    else.
    """
    for name, read in ((SAFETENSORS, read_tensors), (_PICKLED, read_pickled)):
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f"{name}.index.json").is_file():
            found: dict[str, Tensor] = {}
            for part in _parts(folder / f"{name}.index.json"):
                more = read(part)
                refuse_twice(found.keys() & more.keys(), folder)
                found |= more
            return found
    raise UserError(
        f"there is no {SAFETENSORS}", where=str(folder), todo="name a Hugging Face folder"
    )


def refuse_twice(names: Collection[str], folder: Path) -> None:
    """Raise UserError if there are names that more than one tensor has."""
    if names:
        what = f"named twice: {visible(min(names))}"
        raise UserError(what, where=str(folder), todo="the folder must hold one model")


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that torch.save wrote; nothing else is unpickled.

    Raises UserError for a file that holds more than tensors, or none, or one that is not each of
    its numbers in memory.
    """
    todo = "convert it to safetensors where it comes from"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a crafted file makes it raise anything; torch's advice is unsafe
        what = "not a file of tensors alone, or broken"
        raise UserError(what, where=str(path), todo=todo) from error
    table = found if isinstance(found, dict) else {}
    odd = [name for name, each in table.items() if not (isinstance(name, str) and _is_plain(each))]
    if odd or not table:
        told = f": {odd[0]!r}" if odd else ""
        raise UserError(f"not a table of plain tensors{told}", where=str(path), todo=todo)
    return table


def _is_plain(tensor: Any) -> bool:
    """Whether it is a tensor that has each of its numbers in memory."""
    return (
        isinstance(tensor, Tensor)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_quantized or tensor.is_nested)
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def _parts(index: Path) -> list[Path]:
    """The files that an index names, which must stand beside it."""
    table = read_json(index)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict) or not names:
        raise UserError("there is no 'weight_map' in it", where=str(index))
    found = []
    for name in dict.fromkeys(map(str, names.values())):
        path = index.parent / name
        if Path(name).name != name or not os.path.isfile(path):  # whatever a name is made of
            raise UserError(f"names what is no file beside it: {name!r}", where=str(index))
        found.append(path)
    return found
