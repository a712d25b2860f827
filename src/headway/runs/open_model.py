"""Opening a model: a run, a Hugging Face folder or a .gguf file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import torch

from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.exchange.families import family_of
from headway.checkpoint.exchange.folders import is_foreign, read_config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier, Encoder, MaskedLanguageModel
from headway.nn.quantized import Bits
from headway.runs.classifier import TextClassifier
from headway.runs.embedder import Embedder
from headway.runs.filler import Filler
from headway.runs.language_model import LanguageModel
from headway.runs.load import open_run
from headway.runs.marian import open_marian
from headway.runs.pooling import Manner, Pooling, folder_manner, gguf_pooling
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer
from headway.runs.translator import Translator
from headway.settings.model import StackSettings, TransformerSettings

Opened = Translator | LanguageModel | TextClassifier | Filler | Embedder
M = TypeVar("M", Translator, LanguageModel, TextClassifier, Filler)


def load(path: str | Path, *, device: str = "auto", quantize: Bits | None = None) -> Opened:
    """Open a run, a Hugging Face folder or a .gguf file.

    A translator, ours or a Marian, gives a `Translator`, a GPT or a Llama a `LanguageModel`, an
    encoder that was fine-tuned on labels a `TextClassifier`, one with a head for masked tokens a
    `Filler`, any other an `Embedder`. With `quantize` the weights of a language model have 8 or 4
    bits (`LanguageModel.quantize`). Raises UserError if there is no model at that place, or one
    that Headway does not compute, and for another kind that is to be quantised.
    """
    opened = _load(path, device)
    if quantize is not None:
        if not isinstance(opened, LanguageModel):
            raise _other(opened.what, path, "compute with fewer bits", "open it without quantize")
        opened.quantize(quantize)
    return opened


def _load(path: str | Path, device: str) -> Opened:
    place, chosen = Path(path), pick_device(device)
    if place.suffix == ".gguf":
        file = GGUF(place)
        tokenizer = file_tokenizer(file)
        model, settings = read_gguf_model(file)
        return LanguageModel(model, tokenizer, settings, chosen)
    if not is_foreign(place):
        opened: Opened = open_run(place, device=device)
        return opened
    if issubclass(family_of(read_config(place)).kind, TransformerSettings):
        return open_marian(place, chosen)
    found, settings = read_model(place)
    return _at_work(found, settings, place, chosen)


def _at_work(found: Any, settings: Any, folder: Path, device: torch.device) -> Opened:
    """A model of a Hugging Face folder with the tokeniser beside it."""
    if isinstance(found, Encoder):
        return _folder_embedder(found, settings, folder, device)
    tokenizer = folder_tokenizer(folder)
    if isinstance(found, Decoder):
        return LanguageModel(found, tokenizer, settings, device)
    if isinstance(found, MaskedLanguageModel):
        return Filler(found, tokenizer, settings, device)
    assert isinstance(found, Classifier), "there are no other kinds of folder"
    n = found.head.out_features
    names = read_config(folder).table.get("id2label")
    known = names if isinstance(names, dict) else {}
    labels = [str(known.get(str(number), f"LABEL_{number}")) for number in range(n)]
    return TextClassifier(
        found,
        tokenizer,
        settings,
        None if n == 1 else labels,
        longest=settings.max_length,
        device=device,
    )


def open_translator(path: str | Path, *, device: str = "auto") -> Translator:
    """A run or a Marian folder. Raises UserError if there is none at that place."""
    return _only(Translator, path, device, "translate", "name a translator's run, or a Marian")


def open_judged(path: str | Path, *, device: str = "auto") -> Translator:
    """A translator, for which there may be pairs. Raises UserError for another kind of model."""
    todo = "name a run, or a task: --tasks NAME for a language model, --task NAME for a classifier"
    return _only(Translator, path, device, "have data of its own to be judged on", todo)


def open_language_model(
    path: str | Path, *, device: str = "auto", quantize: Bits | None = None
) -> LanguageModel:
    """A model that continues text. Raises UserError if there is none at that place."""
    opened = _only(LanguageModel, path, device, "continue text", "name a GPT or a Llama")
    if quantize is not None:
        opened.quantize(quantize)
    return opened


def open_filler(path: str | Path, *, device: str = "auto") -> Filler:
    """A model that guesses what is masked. Raises UserError if there is none at that place."""
    todo = "name a BERT that has its head for masked tokens"
    return _only(Filler, path, device, "fill masks", todo)


def open_classifier(path: str | Path, *, device: str = "auto") -> TextClassifier:
    """A model that tells labels. Raises UserError if there is none at that place."""
    todo = "fine-tune it first: headway finetune RECIPE --from PATH"
    return _only(TextClassifier, path, device, "tell labels", todo)


def open_embedder(path: str | Path, *, device: str = "auto") -> Embedder:
    """A model that gives a vector a text: an encoder, whatever heads are on it, or a decoder.

    How, a Hugging Face folder or a .gguf file can say; else it is the mean of the states, of length
    1. Raises UserError if there is no such model at that place.
    """
    place, chosen = Path(path), pick_device(device)
    todo = "name an encoder or a language model"
    if place.suffix != ".gguf" and is_foreign(place):
        found, settings = read_model(place)
        model = getattr(found, "encoder", found)
        if isinstance(model, Encoder | Decoder):
            return _folder_embedder(model, settings, place, chosen)
        raise _other(f"a {settings.kind}", place, "embed text", todo)
    opened = load(place, device=device)
    if not isinstance(opened, LanguageModel | TextClassifier | Filler):
        raise _other(opened.what, place, "embed text", todo)
    model = opened.model if isinstance(opened, LanguageModel) else opened.model.encoder
    pooling: Pooling = gguf_pooling(GGUF(place)) if place.suffix == ".gguf" else "mean"
    manner = Manner(longest=opened.settings.max_length, pooling=pooling)
    return Embedder(model, opened.tokenizer, manner, chosen)


def _folder_embedder(
    model: Encoder | Decoder, settings: StackSettings, folder: Path, device: torch.device
) -> Embedder:
    manner = folder_manner(folder, settings.max_length)
    return Embedder(model, folder_tokenizer(folder), manner, device)


def _only(kind: type[M], path: str | Path, device: str, does: str, todo: str) -> M:
    opened = load(path, device=device)
    if isinstance(opened, kind):
        return opened
    raise _other(opened.what, path, does, todo)


def _other(what: str, path: str | Path, does: str, todo: str) -> UserError:
    return UserError(f"{what} does not {does}", where=str(path), todo=todo)
