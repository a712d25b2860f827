"""A tokeniser in a Hugging Face folder: the files by which other tools find and use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headway.base.files import to_json
from headway.tokens.specials import File
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import Tokenizer

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
GENERATION_CONFIG = "generation_config.json"


def text_files(
    tokenizer: TextTokenizer, *, max_length: int, continues: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    """File name -> content, and the ids of special tokens for the config.json beside them.

    A model that `continues` texts reads them as `whole` gives them; another in the file's frame.
    """
    file, roles, names = json.loads(tokenizer.to_json()), tokenizer.roles, tokenizer.tokens()
    ids = {"bos": roles.bos, "eos": roles.end, "pad": roles.pad, "mask": roles.mask}
    inputs = ["input_ids", "attention_mask"]
    if continues:
        file["post_processor"] = _frame(
            names, roles.bos if roles.adds_bos else None, roles.end if roles.closes else None
        )
    else:
        ((frame, _),) = tokenizer.framed([""])
        if len(frame) == 2:  # BERT's
            ids["cls"], ids["sep"] = frame
        inputs.insert(1, "token_type_ids")
    said: dict[str, Any] = {
        f"{role}_token": None if id is None else names[id] for role, id in ids.items()
    }
    said["unk_token"] = file["model"].get("unk_token")
    if continues and roles.closes:
        said["add_eos_token"] = True
    if roles.template is not None:
        said["chat_template"] = roles.template
    found = _files(file, said | {"model_input_names": inputs}, max_length)
    ends = sorted(roles.ends)
    kept = {
        "bos_token_id": roles.bos,
        "eos_token_id": ends if len(ends) > 1 else ids["eos"],
        "pad_token_id": roles.pad,
    }
    if continues:
        found[GENERATION_CONFIG] = to_json(kept)
    return found, kept


def translator_files(tokenizer: Tokenizer, *, max_length: int) -> dict[str, str]:
    """File name -> content, for the tokeniser of one side of a translator, or of both."""
    names = tokenizer.tokens()
    said = {f"{role}_token": names[getattr(tokenizer, role)] for role in _ROLES}
    inputs = ["input_ids", "attention_mask"]
    return _files(json.loads(tokenizer.to_json()), said | {"model_input_names": inputs}, max_length)


_ROLES = ("pad", "unk", "bos", "eos")


def _files(file: File, said: Mapping[str, Any], max_length: int) -> dict[str, str]:
    table = {
        # any other class builds its own rules, and does not look at those of the file
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **said,  # those that are none too: else names would be looked for
    }
    return {TOKENIZER: to_json(file), TOKENIZER_CONFIG: to_json(table)}


def _frame(names: list[str | None], first: int | None, last: int | None) -> dict[str, Any] | None:
    """The frame of a text between two symbols, of which either may be missing."""
    ids = {names[id]: id for id in (first, last) if id is not None}
    if not ids:
        return None
    before, after = (
        [] if id is None else [{"SpecialToken": {"id": names[id], "type_id": 0}}]
        for id in (first, last)
    )
    one, other = ({"Sequence": {"id": part, "type_id": 0}} for part in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [*before, one, *after],
        "pair": [*before, one, other, *after],
        "special_tokens": {
            name: {"id": name, "ids": [id], "tokens": [name]} for name, id in ids.items()
        },
    }
