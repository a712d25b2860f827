"""A model written for another tool, whole or not at all, and held against that tool if asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from headway.base.errors import UserError, unknown
from headway.base.files import atomic_file, atomic_folder
from headway.checkpoint.exchange.ctranslate import fill_ctranslate2
from headway.checkpoint.exchange.gguf_writer import StorageName, write_gguf
from headway.checkpoint.exchange.huggingface import fill_folder
from headway.models.decoder import Decoder
from headway.models.seq2seq import Transformer
from headway.runs.portable import Portable
from headway.runs.verify import Verified, runtime, verify_written
from headway.settings.model import DecoderSettings, TransformerSettings
from headway.tokens.folder_files import GENERATION_CONFIG, TOKENIZER_CONFIG
from headway.tokens.gguf import CUTS
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.tokenizer import check_fits

Format = Literal["hf", "gguf", "ctranslate2"]
Storage = Literal["f32", "f16", "q8_0"]
_STORAGES: dict[str, StorageName] = {"f32": "F32", "f16": "F16", "q8_0": "Q8_0"}


def export(
    source: str | Path,
    destination: str | Path,
    *,
    format: Format,
    type: Storage | None = None,
    verify: bool = False,
    pre: str | None = None,
) -> Verified | None:
    """Write the model at `source` (a run, a Hugging Face folder, a .gguf file) for another tool.

    `format` "hf" is a Hugging Face folder for transformers, "gguf" a file for llama.cpp whose
    matrices are stored as `type` says (f16 if not set), "ctranslate2" a folder for CTranslate2.
    With `verify` what was written is opened by that tool and compared, before it takes its name.
    `pre` names the rule by which the tokeniser of a .gguf file cuts text, where its own is unknown
    or wrong.

    Raises UserError if there is something at `destination`, for a model that the format cannot
    hold, if the tool to verify with is missing, and if it computes something else; then nothing is
    written.
    """
    if format not in get_args(Format):
        raise unknown("format", format, get_args(Format), where="format")
    if type is not None and type not in _STORAGES:
        raise unknown("type", type, _STORAGES, where="type")
    if type is not None and format != "gguf":
        raise UserError("only GGUF files store numbers in several ways", where="type")
    _refuse_rule(pre, Path(source))
    if verify:
        runtime(format)
    _refuse_occupied(Path(destination), format)
    portable = Portable.open(Path(source), pre=pre)
    return write_portable(
        portable, Path(destination), format=format, type=type or "f16", verify=verify
    )


def write_portable(
    portable: Portable,
    destination: Path,
    *,
    format: Format,
    type: Storage = "f16",
    verify: bool = False,
) -> Verified | None:
    """`export` of a model that is open already."""
    for name, tensor in portable.model.state_dict().items():
        if not bool(tensor.isfinite().all()):
            raise UserError(
                f"'{name}' has numbers that are not finite",
                where="model",
                todo="export an earlier checkpoint, or a whole file",
            )
    with _place(destination, format) as place:
        if format == "hf":
            fill_folder(place, portable.model, portable.settings, extra=portable.ids)
            _write_beside(place, portable)
        elif format == "gguf":
            _write_gguf(place, portable, _STORAGES[type])
        else:
            _write_ctranslate2(place, portable)
        return verify_written(place, portable, format) if verify else None


def _refuse_rule(pre: str | None, source: Path) -> None:
    """Raise UserError for the name of a rule of cutting that is unknown, or has no use."""
    if pre is not None and source.suffix != ".gguf":
        raise UserError("only GGUF files name the rule that cuts text", where="pre")
    if pre is not None and pre not in CUTS:
        raise unknown("pre", pre, CUTS, where="pre")


def _refuse_occupied(path: Path, format: Format) -> None:
    """Raise UserError unless the model can be written there without losing anything."""
    if format == "gguf" and path.suffix != ".gguf":
        raise UserError("a GGUF file's name ends with .gguf", where=str(path))
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        what = "there is something already"
        raise UserError(what, where=str(path), todo="delete it, or choose another name")


@contextlib.contextmanager
def _place(destination: Path, format: Format) -> Iterator[Path]:
    """Where to write, so that it takes its name only when it is whole."""
    with (atomic_file if format == "gguf" else atomic_folder)(destination) as place:
        yield place


def _write_beside(place: Path, portable: Portable, *without: str) -> None:
    """The files of the tokeniser."""
    for name, content in portable.files.items():
        if name not in without:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)


def _write_gguf(place: Path, portable: Portable, storage: StorageName) -> None:
    model, settings = portable.model, portable.settings
    if not isinstance(model, Decoder) or not isinstance(settings, DecoderSettings):
        raise UserError(
            "GGUF is written for Llama models", where="model", todo="write the format hf"
        )
    if portable.text is None:
        raise UserError("a GGUF file needs a tokeniser, and there is no tokenizer.json")
    metadata = gguf_metadata(portable.text, model.n_tokens)
    write_gguf(place, model, settings, metadata, storage=storage)


def _write_ctranslate2(place: Path, portable: Portable) -> None:
    model, settings, sides = portable.model, portable.settings, portable.sides
    if (
        not isinstance(model, Transformer)
        or not isinstance(settings, TransformerSettings)
        or sides is None
    ):
        what = "CTranslate2 is written for encoder–decoder Transformers"
        raise UserError(what, where="model", todo="write the format hf")
    rows = model.vocabulary_sizes()
    check_fits(sides.source, rows[0], "source embedding")
    check_fits(sides.target, rows[1], "target embedding")
    source, target = (
        [f"<{id}>" if token is None else token for id, token in enumerate(padded)]
        for padded in (
            tokens + [None] * (n - len(tokens))
            for tokens, n in zip((sides.source.tokens(), sides.target.tokens()), rows, strict=True)
        )
    )
    ids = {"bos": sides.target.bos, "eos": sides.target.eos, "unk": sides.target.unk}
    symbols = {name: target[id] for name, id in ids.items()}
    fill_ctranslate2(place, model, settings, (source, target), symbols)
    _write_beside(place, portable, GENERATION_CONFIG, TOKENIZER_CONFIG)
