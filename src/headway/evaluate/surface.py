"""What text looks like before it is scored: subword marks, detached punctuation, its script."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from headway.base.errors import UserError

_SUBWORD = re.compile(r"@@(?= |$)|▁|(?:^|(?<=\s))##(?=\w)")
# A full stop or a comma on its own is a tokeniser's work in any language written with spaces.
# French puts a space before ? ! : ; and so these prove nothing. The rest are escapes of Moses.
_DETACHED = re.compile(r"\w [.,](?= |$)|&(?:apos|quot|#91|#93|#124);|\w @-@ \w| n't\b")
_DETACHED_SHARE = 0.1  # a line or two may be like that by nature

_SPACELESS = (  # scripts whose words BLEU's usual tokeniser (13a) cannot find
    ("char", re.compile(r"[\u3040-\u30ff\uac00-\ud7af\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
)
_SPACELESS_SHARE = 0.2


def warn_if_not_text(texts: Sequence[str], *, what: str) -> None:
    """Warn where `texts` (named `what`) hold subword marks or look pre-tokenised.

    BLEU of such text cannot be compared with anybody's: the same sentence gives 32.5 tokenised
    and 66.1 as it is written.
    """
    for number, text in enumerate(texts, start=1):
        mark = _SUBWORD.search(text)
        if mark:
            warnings.warn(
                f"{what}, line {number}: subword mark '{mark.group()}' in '{_short(text)}'; "
                "scores are meant for plain text: join the pieces first",
                stacklevel=3,
            )
            break
    detached = [number for number, text in enumerate(texts, start=1) if _DETACHED.search(text)]
    if detached and len(detached) >= _DETACHED_SHARE * len(texts):
        warnings.warn(
            f"{what}: {len(detached)} of {len(texts)} lines look pre-tokenised, such as line "
            f"{detached[0]}: '{_short(texts[detached[0] - 1])}'; BLEU tokenises by itself: "
            "give it text as people write it",
            stacklevel=3,
        )


def bleu_tokenizer(references: Sequence[str]) -> str:
    """The name of sacreBLEU's tokeniser that fits the script of `references`.

    `13a` for what is written with spaces, `zh` for Chinese, `char` for Japanese, Korean, Thai and
    their like: those would need a segmenter that is not installed with Headway. The signature
    says which one it was.
    """
    text = "".join(references)
    letters = sum(map(str.isalpha, text))
    for name, script in _SPACELESS:
        if len(script.findall(text)) > _SPACELESS_SHARE * letters:
            return name
    return "13a"


def same_length(translations: Sequence[str], references: Sequence[str]) -> None:
    """Raise UserError with both counts, and the line where they seem to part, if they differ."""
    if len(translations) == len(references):
        return
    line = _parting(translations, references)
    hint = f"they seem to part at line {line}: " if line else ""
    raise UserError(
        f"{len(translations)} translations for {len(references)} references",
        todo=f"{hint}give one translation a reference, in the same order",
    )


def _parting(translations: Sequence[str], references: Sequence[str]) -> int | None:
    """The first line that shares no word with its own reference and some with a neighbour's."""
    bags = [set(text.lower().split()) for text in references]
    for row, text in enumerate(translations):
        words = set(text.lower().split())
        near = [bags[i] for i in (row - 1, row + 1) if 0 <= i < len(bags)]
        own = bags[row] if row < len(bags) else set()
        if not words & own and any(words & bag for bag in near):
            return row + 1
    return None


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
