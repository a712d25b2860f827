"""A model apart from the place that it came from: what an export writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from headway.base.files import to_json
from headway.checkpoint.exchange.folders import CONFIG, is_foreign, read_config
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.decoder import Decoder
from headway.models.seq2seq import Transformer
from headway.runs.classifier import TextClassifier
from headway.runs.load import open_run
from headway.runs.marian import SOURCE, TARGET, marian_tokenizers
from headway.runs.pooling import sentence_modules
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer
from headway.runs.tokenizers import Tokenizers
from headway.runs.translator import Translator
from headway.settings.model import StackSettings
from headway.tokens.folder_files import (
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    text_files,
    translator_files,
)
from headway.tokens.sides import Sides
from headway.tokens.text import TextTokenizer

# What goes from one Hugging Face folder to another as it is
_BESIDE = (
    TOKENIZER,
    TOKENIZER_CONFIG,
    GENERATION_CONFIG,
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model"),
    *("source.spm", "target.spm", "target_vocab.json"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *(f"{side}/{name}" for side in (SOURCE, TARGET) for name in (TOKENIZER, TOKENIZER_CONFIG)),
)
_KEPT = (  # keys of a config that say nothing of what is computed
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("forced_eos_token_id", "bad_words_ids", "num_beams"),
    *("id2label", "label2id", "problem_type"),
)


@dataclass(frozen=True)
class Portable:
    """A model and its settings, with what goes along with it.

    `files` are those of its tokeniser, as a Hugging Face folder has them beside the model; `ids`
    are keys for its config.json. `text` is the tokeniser of a language model or an encoder, if it
    can be read, `sides` are those of a translator.
    """

    model: nn.Module
    settings: StackSettings
    files: Mapping[str, bytes] = field(default_factory=dict)
    ids: Mapping[str, Any] = field(default_factory=dict)
    text: TextTokenizer | None = None
    sides: Sides | None = None

    @classmethod
    def of_text_model(
        cls, model: nn.Module, settings: StackSettings, tokenizer: TextTokenizer
    ) -> Portable:
        """A language model or an encoder."""
        continues = isinstance(model, Decoder)
        files, ids = text_files(tokenizer, max_length=settings.max_length, continues=continues)
        return cls(model, settings, _encoded(files), ids, text=tokenizer)

    @classmethod
    def of_translator(cls, translator: Translator) -> Portable:
        """A translator that was trained here. One that is recurrent can be exported nowhere."""
        settings: Any = translator.recipe.model
        sides, target = translator.tokenizers, translator.tokenizers.target
        files: dict[str, str] = {}
        if isinstance(sides, Tokenizers):
            joint = sides.source is sides.target
            parts = {"": sides.source} if joint else {SOURCE: sides.source, TARGET: sides.target}
            for name, tokenizer in parts.items():
                made = translator_files(tokenizer, max_length=settings.max_length)
                files |= {f"{name}/{file}".lstrip("/"): text for file, text in made.items()}
        ids = {f"{role}_token_id": getattr(target, role) for role in ("pad", "bos", "eos")}
        # transformers would put another end symbol at the longest length, Marian's
        ids |= {"decoder_start_token_id": target.bos, "forced_eos_token_id": None}
        search = {
            "bad_words_ids": [[id] for id in sorted({target.pad, target.unk, target.bos})],
            "num_beams": translator.recipe.evaluate.beam,
            "max_length": settings.max_length,
        }
        files[GENERATION_CONFIG] = to_json(ids | search)
        return cls(translator.model, settings, _encoded(files), ids, sides=sides)

    @classmethod
    def of_folder(cls, folder: Path) -> Portable:
        """The model of a Hugging Face folder, and the files beside it as they are."""
        model, settings = read_model(folder)
        config = read_config(folder)
        ids = {key: config.table[key] for key in _KEPT if key in config.table}
        files = {
            name: (folder / name).read_bytes()
            for name in (*_BESIDE, *_poolings(folder))
            if (folder / name).is_file()
        }
        if isinstance(model, Transformer):
            sides = marian_tokenizers(folder, config)
            return cls(model, settings, files, ids, sides=sides)
        text = folder_tokenizer(folder) if TOKENIZER in files else None
        return cls(model, settings, files, ids, text=text)

    @classmethod
    def open(cls, path: Path, *, pre: str | None = None) -> Portable:
        """What is at a place: a run, a Hugging Face folder or a .gguf file.

        With `pre` the text of a .gguf file is cut by the rule of that name, whatever the file says.
        """
        if path.suffix == ".gguf":
            file = GGUF(path)
            tokenizer = file_tokenizer(file, pre=pre)
            return cls.of_text_model(*read_gguf_model(file), tokenizer)
        if is_foreign(path):
            return cls.of_folder(path)
        return cls.of_run(open_run(path, device="cpu"))

    @classmethod
    def of_run(cls, opened: Any) -> Portable:
        """What a run opened as."""
        if isinstance(opened, Translator):
            return cls.of_translator(opened)
        made = cls.of_text_model(opened.model, opened.settings, opened.tokenizer)
        if isinstance(opened, TextClassifier):
            labels = opened.labels or ["LABEL_0"]
            named: dict[str, Any] = {"id2label": {str(n): name for n, name in enumerate(labels)}}
            named["label2id"] = {name: n for n, name in enumerate(labels)}
            if opened.labels is None:
                named["problem_type"] = "regression"
            return replace(made, ids={**made.ids, **named})
        return made


def _encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode("utf-8") for name, text in files.items()}


def _poolings(folder: Path) -> list[str]:
    """The config files of the modules that sentence-transformers puts behind an encoder."""
    paths = [path for _, path in sentence_modules(folder)]
    return [f"{path}/{CONFIG}" for path in paths if path and Path(path).name == path]
