"""Which locales the built-in corpus can be made for, and a message for those it cannot."""

from __future__ import annotations

from functools import cache
from typing import Final

from babel import Locale, UnknownLocaleError

from headway.base.errors import unknown

# Written without spaces between words, so that a count of spaces says nothing about length.
UNSPACED: Final = frozenset({"ja", "th"})


def locales() -> list[str]:
    """Name the locales that both babel and num2words have, in alphabetical order."""
    return list(_known())


def parse_locale(name: str, *, where: str) -> Locale:
    """Give the babel locale called `name` ("fr", "pt_BR" or "pt-BR").

    Raises:
        UserError: babel or num2words lacks it; the nearest name and all others are given.
    """
    wanted = name.replace("-", "_")
    if wanted not in _known():
        raise unknown("locale", name, _known(), where=where)
    return Locale.parse(wanted)


def count_words(text: str, locale: Locale) -> int:
    """Count the words between white space; two letters are a word where none is written."""
    if locale.language in UNSPACED:
        return (len(text) + 1) // 2
    return len(text.split())


def has_locale(name: str) -> bool:
    """Say whether babel has a locale of this name."""
    try:
        Locale.parse(name)
    except (UnknownLocaleError, ValueError):
        return False
    return True


@cache
def _known() -> tuple[str, ...]:
    from num2words import CONVERTER_CLASSES

    return tuple(sorted(name for name in CONVERTER_CLASSES if has_locale(name)))
