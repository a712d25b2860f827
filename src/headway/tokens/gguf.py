"""The tokeniser inside a GGUF file, as the `tokenizers` library computes it.

The file has tokens, merges or scores, and of the rule that cuts text before merging only a name. A
wrong rule gives other ids without any error, so a name that is not known here is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError, unknown

_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # Radford 2019
)
_ONE_DIGIT = (r"\p{N}", *_GPT2)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
# `tokenizer.ggml.pre` -> the rules by which text is cut, one after the other
CUTS: dict[str, tuple[str, ...]] = {
    "gpt-2": _GPT2,
    "smollm": _ONE_DIGIT,
    "starcoder": _ONE_DIGIT,
    "refact": _ONE_DIGIT,
    "command-r": _ONE_DIGIT,
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
}
WHOLE_WORDS = {"llama-bpe", "llama-v3", "llama3"}  # a word that is a token is not merged anew
_CONTROL, _USER_DEFINED, _UNKNOWN, _BYTE = 3, 4, 2, 6
_BLANK = "▁"
KEY = "tokenizer.ggml"
PROBES = "headway.tokenizer.probes"  # JSON: texts with their ids, to be compared when it is read


def gguf_tokenizer(metadata: Mapping[str, Any], where: str) -> Backend:
    """The tokeniser that a file's metadata describe.

    Raises UserError for a kind or a rule that Headway does not know, and for lists that do not go
    together.
    """
    kinds = {"gpt2": _byte_level, "llama": _sentence_piece}
    kind = str(metadata.get(f"{KEY}.model"))
    if kind not in kinds:
        raise unknown(f"{KEY}.model", kind, kinds, where=where)
    tokens = _texts(metadata, "tokens", where)
    vocab = {token: id for id, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        raise UserError("the same token twice", where=f"{where}, {KEY}.tokens")
    made = kinds[kind](metadata, vocab, where)
    if f"{KEY}.token_type" in metadata:
        types = _numbers(metadata, "token_type", where)
        if len(types) != len(tokens):
            raise UserError("not as many types as tokens", where=f"{where}, {KEY}.token_type")
        special = [token for token, type in zip(tokens, types, strict=True) if type == _CONTROL]
        user = [token for token, type in zip(tokens, types, strict=True) if type == _USER_DEFINED]
        made.add_special_tokens([AddedToken(each, normalized=False) for each in special])
        made.add_tokens([AddedToken(each, normalized=False) for each in user])
    _compare(made, metadata, where)
    return made


def _compare(made: Backend, metadata: Mapping[str, Any], where: str) -> None:
    """Raise UserError if the file has texts with ids, and they come out otherwise."""
    if PROBES not in metadata:
        return
    made.encode_special_tokens = True
    try:
        differs = any(not same_ids(made, text, ids) for text, ids in json.loads(metadata[PROBES]))
    except (ValueError, TypeError, RecursionError):
        raise UserError("not texts with their ids", where=f"{where}, {PROBES}") from None
    if differs:
        raise UserError(
            "its tokeniser does not give the ids that it was written with",
            where=where,
            todo="the name of its rule, its tokens or its merges were changed: copy the file again",
        )


def same_ids(made: Backend, text: str, ids: Sequence[int]) -> bool:
    """Whether the tokeniser gives a text these ids."""
    found: list[int] = made.encode(text, add_special_tokens=False).ids
    return found == ids


def _byte_level(metadata: Mapping[str, Any], vocab: dict[str, int], where: str) -> Backend:
    """GPT-2's kind: pieces by a rule, bytes as letters, merges in their order."""
    pre = str(metadata.get(f"{KEY}.pre"))
    if pre not in CUTS:
        raise unknown(f"{KEY}.pre", pre, CUTS, where=where)
    merges = [_pair(merge, where) for merge in _texts(metadata, "merges", where)]
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            raise UserError(f"the merge '{left} {right}' is of no tokens", where=where)
    made = Backend(models.BPE(vocab, merges, ignore_merges=pre in WHOLE_WORDS))
    space = bool(metadata.get(f"{KEY}.add_space_prefix", False))
    made.pre_tokenizer = byte_level_cut(CUTS[pre], space=space)
    made.decoder = decoders.ByteLevel()
    return made


def byte_level_cut(rules: Sequence[str], *, space: bool = False) -> pre_tokenizers.Sequence:
    """Words by the rules, one after the other, and their bytes as letters."""
    return pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(rule), "isolated") for rule in rules),
            pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=False),
        ]
    )


def _sentence_piece(metadata: Mapping[str, Any], vocab: dict[str, int], where: str) -> Backend:
    """SentencePiece's BPE (Llama 1 and 2): the neighbours of the best score are merged first."""
    scores = _numbers(metadata, "scores", where)
    types = _numbers(metadata, "token_type", where)
    if not len(scores) == len(types) == len(vocab):
        raise UserError("not as many scores or types as tokens", where=f"{where}, {KEY}.scores")
    unknowns = [token for token, id in vocab.items() if types[id] == _UNKNOWN]
    has_bytes = any(type == _BYTE for type in types)
    made = Backend(
        models.BPE(
            vocab,
            _merges(vocab, scores),
            unk_token=unknowns[0] if unknowns else None,
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    )
    space = bool(metadata.get(f"{KEY}.add_space_prefix", True))
    before = [normalizers.Prepend(_BLANK)] if space else []
    made.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", _BLANK)])
    made.decoder = decoders.Sequence(
        [
            decoders.Replace(_BLANK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if space else []),
        ]
    )
    return made


def _merges(vocab: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to make a token of two others: the best token first, then the better parts."""
    found = []
    for token, id in vocab.items():
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [pair for pair in halves if pair[0] in vocab and pair[1] in vocab]
        known.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        found += [(-float(scores[id]), pair) for pair in known]
    found.sort(key=lambda each: each[0])
    return [pair for _, pair in found]


def _texts(metadata: Mapping[str, Any], name: str, where: str) -> list[str]:
    found = metadata.get(f"{KEY}.{name}")
    if isinstance(found, Sequence) and not isinstance(found, str):
        texts = list(found)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise UserError(f"there is no list of texts '{KEY}.{name}'", where=where)


def _numbers(metadata: Mapping[str, Any], name: str, where: str) -> list[float]:
    found = np.asarray(metadata.get(f"{KEY}.{name}"))
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise UserError(f"there is no list of numbers '{KEY}.{name}'", where=where)
    numbers: list[float] = found.tolist()
    return numbers


def _pair(merge: str, where: str) -> tuple[str, str]:
    left, blank, right = merge.partition(" ")
    if not (left and blank and right):
        raise UserError(f"'{merge}' is no merge of two tokens", where=f"{where}, {KEY}.merges")
    return left, right
