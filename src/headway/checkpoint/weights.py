"""Named tensors in one safetensors file: plain names, tied weights once, nothing unpickled."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from headway.base.errors import UserError

M = TypeVar("M", bound=nn.Module)
# Metadata: {name: the name that holds its tensor}, as JSON. It is the only key, because safetensors
# writes several in an order that changes, and equal tensors should be equal files.
_TIED = "tied"
_SYSTEM_ERROR = re.compile(r"(?:os error|code:) (\d+)")


def plain_name(name: str) -> str:
    """The name that a tensor has without torch.compile and DistributedDataParallel around it."""
    parts = [part for part in name.split(".") if part != "_orig_mod"]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors under their plain names; names of one tensor are written once, as aliases.

    Not atomic: use it in `atomic_file` or `atomic_folder`. Raises OSError with the system's
    number where the disk refuses, ValueError where two tensors have the same plain name.
    """
    kept, tied = _without_ties(_plain(tensors))
    try:
        _save(path, kept, tied or None)
    except safetensors.SafetensorError as error:
        number = _SYSTEM_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), str(error)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; tied names come back as one tensor.

    Raises UserError where the file is missing, cut short or not safetensors.
    """
    todo = "it was cut short or changed: copy it again, or go back to a checkpoint before it"
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tied = json.loads((file.metadata() or {}).get(_TIED, "{}"))
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors | {alias: tensors[name] for alias, name in tied.items()}
    except FileNotFoundError:  # safetensors says so whatever the system refuses
        what = "cannot be read" if path.exists() else "there is no such file"
        raise UserError(what, where=str(path)) from None
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"no weights to read: {error}", where=str(path), todo=todo) from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UserError("its list of tied weights is broken", where=str(path), todo=todo) from error


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of plain names and numbers: the same for what is written and read again."""
    found = hashlib.sha256()
    for name, tensor in sorted(_plain(tensors).items()):
        value = tensor.detach().cpu().contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def fill(module: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Copy tensors of plain names into a module, compiled or distributed or neither.

    Raises UserError where a name is missing or left over, or a shape differs.
    """
    own = {plain_name(name): (name, tensor) for name, tensor in module.state_dict().items()}
    todo = "these weights belong to a model of other settings"
    if odd := sorted(own.keys() ^ tensors.keys()):
        verb = "lack" if odd[0] in own else "have a surplus"
        more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        raise UserError(f"the weights {verb} '{odd[0]}'{more}", where=where, todo=todo)
    for name, (_, tensor) in own.items():
        if tensor.shape != tensors[name].shape:
            shapes = f"{tuple(tensors[name].shape)}, the model has {tuple(tensor.shape)}"
            raise UserError(f"'{name}' has the shape {shapes}", where=where, todo=todo)
    module.load_state_dict({full: tensors[name] for name, (full, _) in own.items()})


def write_foreign(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as other tools expect them: no names of ours, and the framework's in the head.

    Not atomic: use it in `atomic_folder`.
    """
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    _save(path, kept, {"format": "pt"})


def adopt(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make these tensors, one a parameter, the weights of a module on the meta device.

    Nothing is copied. Parameters that were one stay one.
    """
    names: dict[int, list[str]] = {}
    for name, weight in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    for same in names.values():
        weight = nn.Parameter(tensors[same[0]])
        for name in same:
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, weight)


def on_meta(make: Callable[[], M], n_layers: int, sizes: Collection[int], *, where: str) -> M:
    """A network without memory for its weights, which `adopt` gives it.

    `sizes` are how many numbers each tensor has that there is. Raises UserError for more layers
    than tensors, before they are made, and for a weight that is larger than all tensors together:
    so nothing is allocated for sizes that a file only claims.
    """
    what = f"{n_layers:,} layers, but {len(sizes):,} tensors"
    if n_layers <= len(sizes):
        try:
            with torch.device("meta"):
                made = make()
        except (RuntimeError, OverflowError, TypeError) as error:  # by how far it is too large
            what = f"sizes that no tensor can have ({str(error).splitlines()[0]})"
        else:
            largest = max((weight.numel() for weight in made.parameters()), default=0)
            if largest <= sum(sizes):
                return made
            what = f"a weight of {largest:,} numbers, but all tensors have {sum(sizes):,}"
    raise UserError(what, where=where, todo="copy the files again")


def _save(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> None:
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that only their owner may read
    safetensors.torch.save_file(tensors, path, metadata)
    path.chmod(mode)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    plain = {plain_name(name): tensor for name, tensor in tensors.items()}
    if len(plain) != len(tensors):
        raise ValueError("two tensors have the same name without their wrappers")
    return plain


def _without_ties(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, in memory of its own, and the metadata that says which names it has."""
    kept: dict[str, Tensor] = {}
    first: dict[tuple[object, ...], str] = {}
    storages: set[int] = set()
    tied: dict[str, str] = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        same = (storage, tensor.device, tensor.dtype, tensor.storage_offset(), tensor.shape)
        if tensor.numel() and (known := first.setdefault((*same, tensor.stride()), name)) != name:
            tied[name] = known
            continue
        value = tensor.detach().cpu().contiguous()
        memory = value.untyped_storage().data_ptr()
        # safetensors refuses views of one memory, and tied weights are not the only such ones
        kept[name] = value.clone() if memory in storages else value
        storages.add(memory)
    return kept, {_TIED: json.dumps(tied)} if tied else {}
