"""Models from and to Hugging Face folders, so that other tools open what was made here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.base.errors import UserError, visible
from headway.base.files import atomic_folder, to_json
from headway.checkpoint.exchange import bert, ctranslate, longformer, marian
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.families import FAMILIES, Family, family_of
from headway.checkpoint.exchange.folders import (
    CONFIG,
    SAFETENSORS,
    read_config,
    read_folder_tensors,
    refuse_twice,
)
from headway.checkpoint.exchange.names import Form, Row, row, to_ours, to_theirs
from headway.checkpoint.weights import adopt, on_meta, write_foreign
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier, Encoder, MaskedLanguageModel
from headway.models.seq2seq import Transformer
from headway.nn.dropout import number_places
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    StackSettings,
    TransformerSettings,
)


def read_model(folder: Path) -> tuple[nn.Module, Any]:
    """The model of a Hugging Face folder, in float32, and its settings.

    Gives a `Decoder`, an `Encoder` (alone, or in a `MaskedLanguageModel` or a `Classifier` where
    the folder has such a head) or a `Transformer`. Raises UserError for a family that Headway
    lacks, a value of the config that it does not compute, and tensors that are missing, left over,
    quantised or of another shape.
    """
    config = read_config(folder)
    family = family_of(config)
    if config.table.get("quantization_config") is not None:
        what = "'quantization_config' says that its weights are quantised"
        raise UserError(what, where=config.where, todo=_PLAIN)
    tensors = _by_name(read_folder_tensors(folder), family, folder)
    settings = _as_found(family, family.settings(config), tensors, folder)
    _refuse_unequal_copies(tensors, folder)
    model = on_meta(
        lambda: _build(family, settings, config, tensors),
        _n_layers(settings),
        [tensor.numel() for tensor in tensors.values()],
        where=config.where,
    )
    if isinstance(settings, TransformerSettings):
        marian.refuse_other_positions(tensors, settings.d_model, str(folder))
    body, heads = _rows(family, settings, model, config)
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    found = to_ours(
        body + heads,
        {name: tensor.shape for name, tensor in tensors.items()},
        tensors.__getitem__,
        shapes,
        ignored=family.ignored,
        where=str(folder),
    )
    adopt(model, {name: tensor.float() for name, tensor in found.items()})
    number_places(model)
    return model.eval(), settings


def write_model(
    folder: Path, model: nn.Module, settings: Any, *, extra: Mapping[str, Any] | None = None
) -> str:
    """Write config.json and model.safetensors into a new folder; gives the family's name.

    Raises UserError as `fill_folder` does; then nothing is written.
    """
    with atomic_folder(folder) as place:
        return fill_folder(place, model, settings, extra=extra)


def fill_folder(
    folder: Path, model: nn.Module, settings: Any, *, extra: Mapping[str, Any] | None = None
) -> str:
    """Write config.json and model.safetensors into a folder; gives the family's name.

    `extra` is added to the config: the ids of special tokens, the names of classes. Raises
    UserError if no family computes what the settings say. Use it in `atomic_folder`.
    """
    name = family_for(settings)
    family, wanted = FAMILIES[name], _canonical(settings)
    table = family.config(wanted, *_sizes(model)) | {
        "architectures": [family.architecture(model)],
        "dtype": "float32",
    }
    if isinstance(model, Classifier):
        table["id2label"] = {n: f"LABEL_{n}" for n in range(model.head.out_features)}
    table |= dict(extra or {})
    config = Config(table, CONFIG)
    if before := family.before(config):
        table["max_position_embeddings"] = wanted.max_length + before
    body, heads = _rows(family, wanted, model, config)
    tensors = dict(model.state_dict())
    if isinstance(model, Transformer):
        tensors.setdefault("head.bias", torch.zeros(model.head.out_features))
    prefix = family.prefix if not isinstance(model, Encoder) else ""
    body = [Row(each.ours, prefix + each.theirs, each.form) for each in body]
    (folder / CONFIG).write_text(to_json(table), encoding="utf-8")
    write_foreign(folder / SAFETENSORS, to_theirs(body + heads, tensors))
    return name


def family_for(settings: Any) -> str:
    """The family whose config.json can say these settings. Raises UserError if there is none."""
    wanted = _canonical(settings)
    differing: dict[str, dict[str, str]] = {}
    for name, family in FAMILIES.items():
        if not isinstance(wanted, family.kind):
            continue
        try:
            found = family.settings(Config(family.config(wanted, 1, 1), name))
        except UserError:
            continue
        mine, theirs = wanted.to_table(), _canonical(found).to_table()
        keys = sorted((mine.keys() | theirs.keys()) - _FREE)
        differing[name] = {
            key: f"{key} = {theirs.get(key)!r}, not {mine.get(key)!r}"
            for key in keys
            if mine.get(key) != theirs.get(key)
        }
        if not differing[name]:
            return name
    what, todo = "no Hugging Face model computes what these settings say", None
    if differing:
        nearest = min(differing, key=lambda name: len(differing[name]))
        what += f"; '{nearest}' has {', '.join(differing[nearest].values())}"
        todo = "train it as that has it"
    if isinstance(settings, TransformerSettings) and not ctranslate.not_computed(settings):
        todo = f"{todo}, or write --format ctranslate2" if todo else "write --format ctranslate2"
    raise UserError(what, where="model", todo=todo)


# What does not change the function that is computed
_FREE = {"dropout", "attention_dropout", "activation_dropout", "pooler", "from"}


def _canonical(settings: Any) -> Any:
    """The same function, with what follows from other settings written out."""
    if isinstance(settings, TransformerSettings):
        settings = settings.model_copy(update={"head_bias": True})  # of zeros, if it has none
    if not isinstance(settings, StackSettings):
        raise UserError("only Transformers have a Hugging Face form", where="model.kind")
    plain: dict[str, Any] = {"n_kv_heads": settings.kv_heads, "d_head": settings.head_width}
    if isinstance(settings, DecoderSettings | EncoderSettings):
        plain["reach"] = _shortest(settings.reach, settings.n_layers)
    if isinstance(settings, EncoderSettings):
        plain["dilation"] = _shortest(settings.dilation, settings.n_layers)
    return settings.model_copy(update=plain | {"attention_bias": settings.biases_attention})


def _shortest(pattern: Sequence[int], n: int) -> tuple[int, ...]:
    """The shortest pattern that gives `n` layers, taken in turn, the same."""
    every = [pattern[layer % len(pattern)] for layer in range(n)]
    p = next(p for p in range(1, n + 1) if all(every[i] == every[i % p] for i in range(n)))
    return tuple(every[:p])


def _by_name(found: dict[str, Tensor], family: Family, folder: Path) -> dict[str, Tensor]:
    """The tensors by the names that the family's rows have."""
    tensors: dict[str, Tensor] = {}
    for theirs, tensor in found.items():
        name = theirs.removeprefix(family.prefix)
        if family.kind is EncoderSettings:
            name = bert.named_today(name)
        refuse_twice({name} & tensors.keys(), folder)
        if tensor.dtype not in _NUMBERS and not _NO_WEIGHT.search(name):
            kind = str(tensor.dtype).removeprefix("torch.")
            what = f"'{visible(name)}' holds {kind}, not float16, bfloat16, float32 or float64"
            raise UserError(what, where=str(folder), todo=_PLAIN)
        tensors[name] = tensor
    return family.heads.without_idle_pooler(tensors, str(folder)) if family.heads else tensors


_NUMBERS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_NO_WEIGHT = re.compile(r"position_ids$|\.attn\.(bias|masked_bias)$")  # of old files: not read
_PLAIN = "take the model with its plain weights"


def _as_found(family: Family, settings: Any, tensors: dict[str, Tensor], folder: Path) -> Any:
    """The settings, corrected by what the folder holds beside its config."""
    if family.heads is not None:
        return settings.model_copy(update={"pooler": family.heads.has_pooler(tensors)})
    head = tensors.get("lm_head.weight")
    if head is not None and isinstance(settings, DecoderSettings) and settings.tie == "output":
        embedding = next((each for name, each in tensors.items() if name in _EMBEDDINGS), head)
        if not torch.equal(head, embedding):
            warnings.warn(
                f"{folder}: {CONFIG} says that output and embedding are one, but their tensors "
                "differ; both are kept",
                stacklevel=3,
            )
            return settings.model_copy(update={"tie": "none"})
    return settings


def _refuse_unequal_copies(tensors: dict[str, Tensor], folder: Path) -> None:
    """Raise UserError if a tensor that is written twice is not the same both times."""
    for copy, original in _COPIES:
        both = tensors.get(copy), tensors.get(original)
        if both[0] is not None and both[1] is not None and not torch.equal(both[0], both[1]):
            what = f"'{copy}' and '{original}' must be the same, but they differ"
            raise UserError(what, where=str(folder), todo="this model cannot be imported")


_COPIES = [
    ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ("lm_head.decoder.weight", "embeddings.word_embeddings.weight"),
    ("lm_head.decoder.bias", "lm_head.bias"),
    ("encoder.embed_tokens.weight", "shared.weight"),
    ("decoder.embed_tokens.weight", "shared.weight"),
    ("lm_head.weight", "shared.weight"),
]


def _n_layers(settings: Any) -> int:
    """Of all stacks together."""
    if isinstance(settings, TransformerSettings):
        return settings.n_encoder_layers + settings.n_decoder_layers
    return int(settings.n_layers)


_EMBEDDINGS = {"wte.weight", "tokens_embed.weight", "embed_tokens.weight"}


def _build(family: Family, settings: Any, config: Config, tensors: dict[str, Tensor]) -> nn.Module:
    """The network that these settings and tensors are of."""
    n_tokens = config.take("vocab_size", int)
    n_target = config.take("decoder_vocab_size", int, n_tokens)
    if min(n_tokens, n_target) < 1:
        raise UserError(f"'vocab_size' is {min(n_tokens, n_target)}", where=config.where)
    if isinstance(settings, TransformerSettings):
        return Transformer(settings, n_tokens, n_target)
    if isinstance(settings, DecoderSettings):
        return Decoder(settings, n_tokens)
    assert family.heads is not None, "an encoder's family has heads"
    if family.heads.bias in tensors:
        return MaskedLanguageModel(settings, n_tokens)
    n_classes = family.heads.n_classes(config, tensors, family.architectures[Classifier])
    if n_classes is not None:
        return Classifier(settings, n_tokens, n_classes)
    return Encoder(settings, n_tokens)


def _sizes(model: nn.Module) -> tuple[int, ...]:
    """How many ids the model has rows for, as a config needs them."""
    if isinstance(model, Transformer):
        return model.vocabulary_sizes()
    if isinstance(model, MaskedLanguageModel | Classifier):
        model = model.encoder
    return (int(model.n_tokens),)  # type: ignore[arg-type]


def _rows(
    family: Family, settings: Any, model: nn.Module, config: Config
) -> tuple[list[Row], list[Row]]:
    """The rows of the body, and of what the model has above it."""
    body = family.body(settings)
    if isinstance(model, Decoder):
        tied = settings.tie == "output"
        return body, [] if tied else [row("head.weight", "lm_head.weight")]
    if isinstance(model, Transformer):
        return body, marian.head()
    assert family.heads is not None, "an encoder's family has heads"
    if any(settings.reach):
        longformer.check_global(config, model)
    shifted = Form(before=family.before(config))
    body = [
        Row(each.ours, each.theirs, shifted) if each.ours == _POSITIONS else each for each in body
    ]
    return family.heads.rows(body, settings, model)


_POSITIONS = ("embedding.positions.weight",)
