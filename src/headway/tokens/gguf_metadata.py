"""A tokeniser as the metadata of a GGUF file, so that llama.cpp cuts text as it does.

Such a file has only the name of a rule that cuts text into words. A tokeniser whose rule has no
name there is refused, since under another name the ids would differ without any error. What is
written is read back and compared, and goes with some texts and their ids for whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.tokens.gguf import (
    CUTS,
    KEY,
    PROBES,
    WHOLE_WORDS,
    byte_level_cut,
    gguf_tokenizer,
    named_ends,
    same_ids,
)
from headway.tokens.specials import File, vocabulary
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
# Some names stand for one rule; these are the ones that are written, the commonest first
_NAMES = ("gpt-2", "smollm", "llama-bpe")
_MORE_ENDS = ("eot", "eom")  # of a turn, and of a message that a tool is to answer
_LEAST = -1e6  # the score of a piece that no merge makes
TEXTS = (
    "Café déjà vu — 123 😊",
    "  x\t\n\n y \r\n",
    "3.14 1234567 ٣٤ ½ x²",
    "I'm, you'LL, don't; O'Neil's",
    "def f(x):\n    return x**2 != '__a'  # 漢字 한국어",
    "e\u0301 Å １２ \u00a0\u200b<s></s> http://a.b/c?d=e&f",
    "русский العربية हिन्दी THE CamelCase foo_bar ===",
)


def gguf_metadata(tokenizer: TextTokenizer, n_tokens: int) -> dict[str, Any]:
    """The `tokenizer.*` keys for a model that has rows for `n_tokens` ids.

    Ends that have no key are known by their names. Raises UserError for ids that the model has no
    row for, for a kind of tokeniser that such files cannot hold, and for a rule of cutting
    that has no name in them.
    """
    check_fits(tokenizer, n_tokens, tokenizer.where)
    file, roles = json.loads(tokenizer.to_json()), tokenizer.roles
    model = file["model"]
    if model["type"] != "BPE" or not model["merges"]:
        kind = "BPE without merges" if model["type"] == "BPE" else model["type"]
        what = f"GGUF files hold tokenisers of the kind BPE with merges, this one is {kind}"
        raise UserError(what, where=tokenizer.where)
    tokens = _tokens(tokenizer, n_tokens)
    if model.get("byte_fallback"):
        made = _sentence_piece(file, tokens) | {"add_space_prefix": _puts_space(tokenizer, tokens)}
    else:
        made = _byte_level(file, tokenizer)
    table: dict[str, Any] = {
        **made,
        "tokens": tokens,
        "token_type": _types(file, tokens),
        "add_bos_token": roles.adds_bos,
        "add_eos_token": roles.closes,
    }
    named = named_ends({token: id for id, token in enumerate(tokens)}.get)
    others = sorted(roles.ends - {roles.end}, key=lambda id: (id in named, id))
    if set(others[len(_MORE_ENDS) :]) - named:
        what = f"GGUF files hold {len(_MORE_ENDS) + 1} end symbols, this tokeniser has more"
        raise UserError(what, where=tokenizer.where)
    ids = {"bos": roles.bos, "eos": roles.end, "padding": roles.pad}
    ids |= dict(zip(_MORE_ENDS, others, strict=False))
    ids["unknown"] = vocabulary(file).get(str(model.get("unk_token")))
    table |= {f"{name}_token_id": id for name, id in ids.items() if id is not None}
    found = {f"{KEY}.{name}": value for name, value in table.items()}
    if roles.template is not None:
        found["tokenizer.chat_template"] = roles.template
    pairs = list(zip(TEXTS, tokenizer.encode(TEXTS), strict=True))
    _refuse_other_ids(found, pairs, tokenizer.where)
    return found | {PROBES: json.dumps(pairs)}


def _refuse_other_ids(
    found: Mapping[str, Any], pairs: list[tuple[str, list[int]]], where: str
) -> None:
    """Raise UserError if what a reader makes of the metadata cuts the texts otherwise."""
    made = gguf_tokenizer(found, where)
    made.encode_special_tokens = True
    differing = next((text for text, ids in pairs if not same_ids(made, text, ids)), None)
    if differing is not None:
        what = f"GGUF files cannot say how this tokeniser cuts text: {differing!r} would differ"
        raise UserError(what, where=where)


def _byte_level(file: File, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Merges, and the name of the rule by which words are cut before them."""
    made = Backend.from_str(json.dumps(file))
    whole = bool(file["model"].get("ignore_merges"))
    for name in _NAMES:
        rule = byte_level_cut(CUTS[name])
        if (name in WHOLE_WORDS) == whole and all(
            _pieces(made.pre_tokenizer, text) == _pieces(rule, text) for text in TEXTS
        ):
            return {"model": "gpt2", "pre": name, "merges": _merges(file)}
    known = ", ".join(_NAMES)
    raise UserError(
        "the rule by which this tokeniser cuts text into words has no name in GGUF files",
        where=tokenizer.where,
        todo=f"those with a name: {known} (train with tokenizer.rule = 'gpt2' to go there)",
    )


def _sentence_piece(file: File, tokens: list[str]) -> dict[str, Any]:
    """Scores, by which the pieces that are merged first are the best."""
    scores = dict[str, float]()
    for place, pair in enumerate(_merges(file)):
        scores.setdefault(pair.replace(" ", ""), -float(place))
    return {"model": "llama", "scores": [scores.get(token, _LEAST) for token in tokens]}


def _puts_space(tokenizer: TextTokenizer, tokens: list[str]) -> bool:
    """Whether a text is cut as if a space stood before it."""
    ((first, *_),) = tokenizer.encode(["a"])
    return tokens[first].startswith("▁")


def _merges(file: File) -> list[str]:
    return [" ".join(pair) for pair in file["model"]["merges"]]


def _pieces(cut: Any, text: str) -> list[str]:
    return [piece for piece, _ in cut.pre_tokenize_str(text)] if cut is not None else [text]


def _tokens(tokenizer: TextTokenizer, n_tokens: int) -> list[str]:
    """One token a row of the model: rows that no token has get a name, as llama.cpp gives it."""
    found = tokenizer.tokens()
    rows = found + [None] * (n_tokens - len(found))
    return [_unused(id) if token is None else token for id, token in enumerate(rows)]


def _unused(id: int) -> str:
    return f"[PAD{id}]"


def _types(file: File, tokens: list[str]) -> list[int]:
    known, unknown = vocabulary(file), file["model"].get("unk_token")
    added = {each["content"]: each["special"] for each in file["added_tokens"]}
    falls_back = file["model"].get("byte_fallback")

    def type_of(id: int, token: str) -> int:
        if token not in known or token == _unused(id):
            return _UNUSED
        if token == unknown:
            return _UNKNOWN
        if token in added:
            return _CONTROL if added[token] else _USER_DEFINED
        is_byte = falls_back and len(token) == 6 and token.startswith("<0x") and token[-1] == ">"
        return _BYTE if is_byte else _NORMAL

    return [type_of(id, token) for id, token in enumerate(tokens)]
