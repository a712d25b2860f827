"""Tensors that are spread over ranks: each rank writes its part, any number of ranks reads them.

torch.distributed.checkpoint with its safetensors storage, since its usual one writes a pickle. The
tensors of the optimiser stand beside the weights, as `weight's name/part`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn


def untied(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor under its first name; its other names, and which is their first."""
    first: dict[int, str] = {}
    names = {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}
    kept = {name: tensors[name] for name in first.values()}
    return kept, {name: known for name, known in names.items() if name != known}


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write this rank's parts of the tensors into a folder; all ranks must ask.

    Raises OSError on all of them where the disk refuses one.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    try:
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(dict(tensors), storage_writer=writer)
    except CheckpointException as error:
        first, _ = next(iter(error.failures.values()))
        raise first from error


def read_shards(folder: Path, *, optimizer: bool) -> dict[str, Tensor]:
    """The weights in a folder, or the optimiser's tensors, whole; no other rank is needed."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder))
    known = reader.read_metadata().state_dict_metadata
    tensors = {
        name: torch.empty(each.size, dtype=each.properties.dtype)
        for name, each in known.items()
        if isinstance(each, TensorStorageMetadata) and ("/" in name) == optimizer
    }
    with warnings.catch_warnings(action="ignore"):  # that there are no ranks is known
        load(dict(tensors), storage_reader=reader, no_dist=True)
    return tensors


def load_shards(folder: Path, model: nn.Module) -> dict[str, Tensor]:
    """Fill a model that is spread over ranks; returns the optimiser's tensors, spread like it.

    All ranks must ask, as many as there are; each reads its parts. The files may be those of any
    number of ranks, or of one.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder))
    weights: dict[str, Tensor] = {name: w.detach() for name, w in model.named_parameters()}
    weights |= {name: value for name, value in model.named_buffers() if name in model.state_dict()}
    state: dict[str, Tensor] = {}
    for name, known in reader.read_metadata().state_dict_metadata.items():
        weight = weights.get(name.rpartition("/")[0])
        if weight is not None and isinstance(known, TensorStorageMetadata):
            whole = known.size == weight.shape
            state[name] = torch.zeros_like(weight) if whole else torch.zeros(known.size)
    load({**weights, **state}, storage_reader=reader)
    return state
