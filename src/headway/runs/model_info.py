"""What a model from elsewhere is, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from headway.checkpoint.exchange.gguf_file import GGUF, STORAGES
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.checkpoint.exchange.huggingface import read_model
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer
from headway.tokens.folder_files import TOKENIZER
from headway.tokens.text import TextTokenizer


def describe_model(path: Path) -> dict[str, str]:
    """Name -> value, for people, of a Hugging Face folder or a .gguf file.

    Raises UserError for one that Headway does not compute.
    """
    file = GGUF(path) if path.suffix == ".gguf" else None
    model, settings = read_model(path) if file is None else read_gguf_model(file)
    table = settings.to_table()
    facts = {
        "model": settings_in_words(table),
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,}",
    }
    if file is not None:
        kinds = Counter(STORAGES[tensor.kind].name for tensor in file.tensors.values())
        facts["tensors"] = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        facts |= _tokens(file_tokenizer(file))
    elif (path / TOKENIZER).is_file():
        facts |= _tokens(folder_tokenizer(path))
    return facts


def settings_in_words(settings: Mapping[str, object]) -> str:
    """The settings of a model in a line."""
    said = {key: value for key, value in settings.items() if value is not None}
    kind = said.pop("kind", "")
    return f"{kind}: {', '.join(f'{key} {value}' for key, value in said.items())}"


def _tokens(tokenizer: TextTokenizer) -> dict[str, str]:
    roles = tokenizer.roles
    return {
        "vocabulary": f"{len(tokenizer):,} ids",
        "ends with": ", ".join(tokenizer.token(id) for id in sorted(roles.ends)) or "nothing",
        "chat template": "yes" if roles.template is not None else "no",
    }
