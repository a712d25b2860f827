"""Opening a model: a run, a Hugging Face folder or a .gguf file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.exchange.families import family_of
from headway.checkpoint.exchange.folders import is_foreign, read_config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier, Encoder, MaskedLanguageModel
from headway.runs.classifier import TextClassifier
from headway.runs.embedder import Embedder
from headway.runs.filler import Filler
from headway.runs.language_model import LanguageModel
from headway.runs.load import load as open_translator_run
from headway.runs.load import open_run
from headway.runs.marian import open_marian
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer
from headway.runs.translator import Translator
from headway.settings.model import DecoderSettings, TransformerSettings

Opened = Translator | LanguageModel | TextClassifier | Filler | Embedder


def load(path: str | Path, *, device: str = "auto") -> Opened:
    """Open a run, a Hugging Face folder or a .gguf file.

    A translator, ours or a Marian, gives a `Translator`, a GPT or a Llama a `LanguageModel`, an
    encoder that was fine-tuned on labels a `TextClassifier`, one with a head for masked tokens a
    `Filler`, any other an `Embedder`. Raises UserError if there is no model at that place, or one
    that Headway does not compute.
    """
    place = Path(path)
    if place.suffix == ".gguf":
        return open_language_model(place, device=device)
    if not is_foreign(place):
        opened: Opened = open_run(place, device=device)
        return opened
    config = read_config(place)
    if issubclass(family_of(config).kind, DecoderSettings):
        return open_language_model(place, device=device)
    if issubclass(family_of(config).kind, TransformerSettings):
        return open_translator(place, device=device)
    if "BertForSequenceClassification" in (config.table.get("architectures") or ()):
        return open_classifier(place, device=device)
    found, settings = read_model(place)
    if isinstance(found, MaskedLanguageModel):
        return Filler(found, folder_tokenizer(place), settings, pick_device(device))
    return _embedder(found, settings, place, device)


def open_translator(path: str | Path, *, device: str = "auto") -> Translator:
    """A run or a Marian folder. Raises UserError if there is none at that place."""
    place = Path(path)
    if is_foreign(place):
        return open_marian(place, pick_device(device))
    return open_translator_run(place, device=device)


def open_language_model(path: str | Path, *, device: str = "auto") -> LanguageModel:
    """A model that continues text. Raises UserError if there is none at that place."""
    place, chosen = Path(path), pick_device(device)
    if place.suffix == ".gguf":
        file = GGUF(place)
        tokenizer = file_tokenizer(file)
        model, settings = read_gguf_model(file)
        return LanguageModel(model, tokenizer, settings, chosen)
    if not is_foreign(place):
        opened = open_run(place, device=device)
        if not isinstance(opened, LanguageModel):
            raise UserError(
                f"{opened!r} does not continue text", where=str(place), todo="name a language model"
            )
        return opened
    found, settings = read_model(place)
    if not isinstance(found, Decoder):
        raise UserError(
            f"a {settings.kind} does not continue text",
            where=str(place),
            todo="name a GPT or a Llama",
        )
    return LanguageModel(found, folder_tokenizer(place), settings, chosen)


def open_filler(path: str | Path, *, device: str = "auto") -> Filler:
    """A model that guesses what is masked. Raises UserError if there is none at that place."""
    place = Path(path)
    if not is_foreign(place):
        opened = open_run(place, device=device)
        if not isinstance(opened, Filler):
            raise UserError(
                f"{opened!r} does not fill masks",
                where=str(place),
                todo="name the run of a masked language model",
            )
        return opened
    found, settings = read_model(place)
    if not isinstance(found, MaskedLanguageModel):
        raise UserError(
            f"a {settings.kind} without a head for masked tokens",
            where=str(place),
            todo="name a BERT that was exported with it",
        )
    return Filler(found, folder_tokenizer(place), settings, pick_device(device))


def open_embedder(path: str | Path, *, device: str = "auto") -> Embedder:
    """An encoder that gives a vector a text. Raises UserError if there is none at that place."""
    place = Path(path)
    if not is_foreign(place):
        opened = open_run(place, device=device)
        if not isinstance(opened, Filler):
            raise UserError(
                f"{opened!r} does not embed text", where=str(place), todo="name an encoder"
            )
        return opened.embedder()
    found, settings = read_model(place)
    return _embedder(found, settings, place, device)


def _embedder(found: Any, settings: Any, place: Path, device: str) -> Embedder:
    encoder = found if isinstance(found, Encoder) else getattr(found, "encoder", None)
    if not isinstance(encoder, Encoder):
        raise UserError(
            f"a {settings.kind} does not embed text", where=str(place), todo="name an encoder"
        )
    return Embedder.of_folder(encoder, settings, place, pick_device(device))


def open_classifier(path: str | Path, *, device: str = "auto") -> TextClassifier:
    """A model that tells labels: a run, or a Hugging Face folder whose labels have names.

    Raises UserError if there is none at that place.
    """
    place = Path(path)
    if not is_foreign(place):
        opened = open_run(place, device=device)
        if not isinstance(opened, TextClassifier):
            raise UserError(f"not a classifier but {opened!r}", where=str(place))
        return opened
    model, settings = read_model(place)
    if not isinstance(model, Classifier):
        raise UserError(
            f"a {settings.kind} without a classifier",
            where=str(place),
            todo="fine-tune it: headway finetune RECIPE --from PATH",
        )
    n = model.head.out_features
    names = read_config(place).table.get("id2label")
    known = names if isinstance(names, dict) else {}
    labels = [str(known.get(str(number), f"LABEL_{number}")) for number in range(n)]
    return TextClassifier(
        model,
        folder_tokenizer(place),
        settings,
        None if n == 1 else labels,
        longest=settings.max_length,
        device=pick_device(device),
    )
