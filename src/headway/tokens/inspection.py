"""What a tokeniser is, and what it makes of a text: counts, unknowns, what is never used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.base.showing import Table, escaped
from headway.tokens.codec import Codec
from headway.tokens.lossless import is_byte_level
from headway.tokens.specials import File, find_specials
from headway.tokens.tokenizer import Tokenizer

SHOWN = 10  # how many of the longest, the most frequent, the unknown are kept


@dataclass(frozen=True)
class Piece:
    """A token: its id, how it is shown, and how often it was seen."""

    id: int
    piece: str
    count: int = 0


@dataclass(frozen=True)
class Unknown:
    """A text that the tokeniser does not know, how often it occurs, and in which line first."""

    text: str
    count: int
    line: int


@dataclass(frozen=True)
class TokenizerFacts:
    """What a tokeniser is.

    `losses` are the reasons why decoding may not give a text back; there are none if it always
    does. `roles` are the special tokens by what they are for, `specials` the ids of all of them.
    """

    kind: str
    size: int
    losses: tuple[str, ...]
    roles: dict[str, str]
    specials: dict[str, int]
    longest: tuple[Piece, ...]

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"lossless": not self.losses}

    def _repr_html_(self) -> str:
        facts = {
            "ids": f"{self.size:,}",
            "lossless": f"no: {'; '.join(self.losses)}" if self.losses else "yes",
            "special tokens": ", ".join(f"{token} {id}" for token, id in self.specials.items()),
            "longest tokens": "  ".join(each.piece for each in self.longest),
        }
        return Table([self.kind, ""], list(facts.items()))._repr_html_()


@dataclass(frozen=True)
class TextFacts:
    """What a tokeniser makes of some lines; end symbols are not counted.

    Words stand between blanks. `unknown` counts tokens, `never_used` are the ids that no line has,
    special tokens apart.
    """

    lines: int
    words: int
    characters: int
    bytes: int
    tokens: int
    unknown: int
    most_unknown: tuple[Unknown, ...]
    most_used: tuple[Piece, ...]
    never_used: tuple[int, ...]

    def rates(self) -> dict[str, float]:
        """Characters and bytes a token, tokens a word (the fertility), the unknown share."""
        tokens, words = max(1, self.tokens), max(1, self.words)
        return {
            "characters_per_token": self.characters / tokens,
            "bytes_per_token": self.bytes / tokens,
            "tokens_per_word": self.tokens / words,
            "unknown_share": self.unknown / tokens,
        }

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it, with the rates."""
        return asdict(self) | self.rates()

    def _repr_html_(self) -> str:
        rates = self.rates()
        facts = {
            "tokens": f"{self.tokens:,} in {self.lines:,} lines",
            "tokens a word": f"{rates['tokens_per_word']:.2f}",
            "characters a token": f"{rates['characters_per_token']:.2f}",
            "unknown tokens": f"{rates['unknown_share']:.2%}",
            "unknown": ", ".join(f"{each.text} ({each.count:,})" for each in self.most_unknown)
            or "–",
            "most used": "  ".join(f"{each.piece} ({each.count:,})" for each in self.most_used),
            "never used": f"{len(self.never_used):,} ids",
        }
        return Table(["text", ""], list(facts.items()))._repr_html_()


@dataclass(frozen=True)
class Cuts:
    """Lines in pieces, without the end symbol; `unknown` is the piece that stands for what is not
    known.
    """

    lines: tuple[tuple[str, ...], ...]
    unknown: str

    def __str__(self) -> str:
        return "\n".join("|".join(line) for line in self.lines)

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div>{''.join(self._piece(*each) for each in enumerate(line))}</div>"
            for line in self.lines
        )
        return f'<div style="font-family:monospace;line-height:1.9">{lines}</div>'

    def _piece(self, place: int, piece: str) -> str:
        back = "#e0484866" if piece == self.unknown else ("#2f78c433", "#b06a0033")[place % 2]
        return (
            f'<span style="background:{back};padding:2px 1px;white-space:pre">{escaped(piece)}'
            "</span>"
        )


def inspect_tokenizer(tokenizer: Codec) -> TokenizerFacts:
    """Kind, size, losses, special tokens and the longest tokens of a tokeniser."""
    file = json.loads(tokenizer.to_json())
    specials = {added["content"]: added["id"] for added in file["added_tokens"] if added["special"]}
    ordinary = tokenizer.ordinary()
    pieces = zip(ordinary, tokenizer.pieces(ordinary), strict=True)
    longest = sorted(pieces, key=lambda each: (-len(each[1]), each[0]))[:SHOWN]
    return TokenizerFacts(
        kind=_kind(file),
        size=len(tokenizer),
        losses=tokenizer.losses,
        roles=find_specials(file),
        specials=specials,
        longest=tuple(Piece(id, piece) for id, piece in longest),
    )


def inspect_cuts(tokenizer: Tokenizer, lines: Sequence[str]) -> Cuts:
    """How `tokenizer` cuts each of `lines`."""
    cut = (tokenizer.pieces(ids) for ids, _ in tokenizer.cut(lines))
    return Cuts(tuple(map(tuple, cut)), tokenizer.pieces([tokenizer.unk])[0])


def inspect_texts(tokenizer: Codec, lines: Iterable[str]) -> TextFacts:
    """Count what `tokenizer` makes of `lines`, read once; memory grows with distinct unknowns."""
    seen = _Seen(lines)
    used, lost, first = Counter[int](), Counter[str](), dict[str, int]()
    for number, (ids, unknown) in enumerate(tokenizer.cut(seen.texts()), 1):
        used.update(ids)
        for text in unknown:
            first.setdefault(text, number)
        lost.update(unknown)
    common = sorted(used.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]
    strange = sorted(lost.items(), key=lambda each: (-each[1], first[each[0]]))[:SHOWN]
    pieces = tokenizer.pieces([id for id, _ in common])
    return TextFacts(
        lines=seen.lines,
        words=seen.words,
        characters=seen.characters,
        bytes=seen.bytes,
        tokens=used.total(),
        unknown=lost.total(),
        most_unknown=tuple(Unknown(text, count, first[text]) for text, count in strange),
        most_used=tuple(
            Piece(id, piece, count) for piece, (id, count) in zip(pieces, common, strict=True)
        ),
        never_used=tuple(id for id in tokenizer.ordinary() if id not in used),
    )


class _Seen:
    """Lines as they pass, counted."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.source = lines
        self.lines = self.words = self.characters = self.bytes = 0

    def texts(self) -> Iterable[str]:
        for line in self.source:
            self.lines += 1
            self.words += len(line.split())
            self.characters += len(line)
            self.bytes += len(line.encode("utf-8", "surrogatepass"))
            yield line


def _kind(file: File) -> str:
    model = file["model"]
    if model["type"] == "BPE":
        if is_byte_level(file):
            return "byte-level BPE"
        return "BPE" if model["merges"] else "character"
    return {"WordLevel": "word", "WordPiece": "WordPiece", "Unigram": "unigram"}[model["type"]]
