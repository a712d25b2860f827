"""Opening a model: a run, a Hugging Face folder or a .gguf file."""

from __future__ import annotations

from pathlib import Path

from headway.base.errors import UserError
from headway.base.runtime import pick_device
from headway.checkpoint.exchange.families import family_of
from headway.checkpoint.exchange.folders import CONFIG, read_config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.runs.embedder import Embedder
from headway.runs.language_model import LanguageModel
from headway.runs.load import load as open_run
from headway.runs.marian import open_marian
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer
from headway.runs.translator import Translator
from headway.settings.model import DecoderSettings, TransformerSettings


def load(path: str | Path, *, device: str = "auto") -> Translator | LanguageModel | Embedder:
    """Open a run, a Hugging Face folder or a .gguf file.

    A run or a Marian gives a `Translator`, a GPT or a Llama a `LanguageModel`, an encoder an
    `Embedder`. Raises UserError if there is no model at that place, or one that Headway does not
    compute.
    """
    place = Path(path)
    if place.suffix == ".gguf":
        return open_language_model(place, device=device)
    if not is_foreign(place):
        return open_run(place, device=device)
    kind = family_of(read_config(place)).kind
    if issubclass(kind, DecoderSettings):
        return open_language_model(place, device=device)
    if issubclass(kind, TransformerSettings):
        return open_translator(place, device=device)
    return open_embedder(place, device=device)


def is_foreign(folder: Path) -> bool:
    """Whether the folder's config.json is another tool's: ours says no `model_type`."""
    return (folder / CONFIG).is_file() and "model_type" in read_config(folder).table


def open_translator(path: str | Path, *, device: str = "auto") -> Translator:
    """A run or a Marian folder. Raises UserError if there is none at that place."""
    place = Path(path)
    if is_foreign(place):
        return open_marian(place, pick_device(device))
    return open_run(place, device=device)


def open_language_model(path: str | Path, *, device: str = "auto") -> LanguageModel:
    """A model that continues text. Raises UserError if there is none at that place."""
    place, chosen = Path(path), pick_device(device)
    if place.suffix == ".gguf":
        file = GGUF(place)
        tokenizer = file_tokenizer(file)
        model, settings = read_gguf_model(file)
        return LanguageModel(model, tokenizer, settings, chosen)
    found, settings = read_model(place)
    if not isinstance(found, Decoder):
        raise UserError(
            f"a {settings.kind} does not continue text",
            where=str(place),
            todo="name a GPT or a Llama",
        )
    return LanguageModel(found, folder_tokenizer(place), settings, chosen)


def open_embedder(path: str | Path, *, device: str = "auto") -> Embedder:
    """An encoder that gives a vector a text. Raises UserError if there is none at that place."""
    place, chosen = Path(path), pick_device(device)
    found, settings = read_model(place)
    encoder = found if isinstance(found, Encoder) else getattr(found, "encoder", None)
    if not isinstance(encoder, Encoder):
        raise UserError(
            f"a {settings.kind} does not embed text", where=str(place), todo="name an encoder"
        )
    return Embedder.of_folder(encoder, settings, place, chosen)
