"""How the states of a text become one vector: what folders and GGUF files say of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.base.errors import UserError
from headway.base.files import read_json
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.runs.text_tokenizers import read_table

Pooling = Literal["mean", "first", "last"]
_MODES: dict[str, Pooling] = {"mean": "mean", "cls": "first", "lasttoken": "last"}
_OLD_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}
_GGUF_MODES: dict[int, Pooling] = {0: "mean", 1: "mean", 2: "first", 3: "last"}  # 0: it is open
_KNOWN = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class Manner:
    """How one vector is made of a text, of which at most `longest` tokens are read."""

    longest: int
    pooling: Pooling = "mean"
    normalizes: bool = True


def folder_manner(folder: Path, longest: int) -> Manner:
    """As the folder's modules.json says, which sentence-transformers writes; else the mean.

    Raises UserError for what it says that Headway does not compute.
    """
    modules = sentence_modules(folder)
    for kind, _ in modules:
        if kind not in _KNOWN:
            raise UserError(
                f"a module '{kind}'; Headway computes {', '.join(_KNOWN)}",
                where=str(folder / "modules.json"),
                todo="this model cannot be imported",
            )
    path = folder / "sentence_bert_config.json"
    said = Config(read_table(path), str(path))
    said.need("do_lower_case", False, default=False)
    asked = said.take("max_seq_length", int, longest)
    if asked < 1:
        raise UserError(f"'max_seq_length' is {asked}", where=str(path))
    poolings = [
        _pooling(folder / place / "config.json") for kind, place in modules if kind == "Pooling"
    ]
    return Manner(
        longest=min(longest, asked),
        pooling=poolings[0] if poolings else "mean",
        normalizes=not modules or any(kind == "Normalize" for kind, _ in modules),
    )


def sentence_modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and folder of what sentence-transformers puts one after the other; none if it wrote
    nothing there. Raises UserError for a modules.json that is no list of them.
    """
    path = folder / "modules.json"
    found = read_json(path) if path.is_file() else []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UserError("not a list of modules", where=str(path))
    return [
        (str(each.get("type", "")).rpartition(".")[2], str(each.get("path", ""))) for each in found
    ]


def gguf_pooling(file: GGUF) -> Pooling:
    """What a GGUF file says; the mean if that is nothing. Raises UserError for another way."""
    said = Config(file.metadata, str(file.path))
    return said.choose(
        f"{said.take('general.architecture', str)}.pooling_type", _GGUF_MODES, default=1
    )


def _pooling(path: Path) -> Pooling:
    table = read_table(path)
    on = [name for name, value in table.items() if value is True]
    modes = [_OLD_MODES.get(name, name) for name in on if name.startswith("pooling_mode_")]
    if isinstance(table.get("pooling_mode"), str):
        modes = [table["pooling_mode"]]
    if len(modes) != 1 or modes[0] not in _MODES:
        told = f"pooling by {', '.join(modes) or 'nothing'}"
        known = ", ".join(_MODES)
        raise UserError(f"{told}; Headway pools by one of {known}", where=str(path))
    return _MODES[modes[0]]
