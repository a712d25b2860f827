"""Names of countries, languages and currencies."""

from __future__ import annotations

import datetime as dt
from functools import cache
from typing import Final

from babel import Locale
from babel.core import get_global
from babel.languages import get_official_languages
from babel.numbers import get_territory_currencies

from headway.data.cldr.locales import has_locale
from headway.data.cldr.tables import Table

# Codes for tests, for "unknown" and for "outlying Oceania": no place on a map.
NOT_PLACES: Final = frozenset({"XA", "XB", "ZZ", "QO"})
# Currencies are those in use on this day, so that the corpus does not change with the calendar.
CURRENCY_DAY: Final = dt.date(2024, 1, 1)


@cache
def _places() -> tuple[str, ...]:
    """Give the two-letter codes of territories, sorted."""
    codes = map(str, Locale.parse("en").territories)
    return tuple(sorted(code for code in codes if code.isalpha() and code not in NOT_PLACES))


@cache
def current_currencies() -> tuple[str, ...]:
    """Give the codes of the currencies in use on `CURRENCY_DAY`, sorted."""
    in_use = get_global("territory_currencies")
    codes = {
        code
        for place in _places()
        if place in in_use
        for code in get_territory_currencies(place, CURRENCY_DAY, CURRENCY_DAY)
    }
    return tuple(sorted(codes))


def countries(locale: Locale) -> Table:
    """Name countries and other territories."""
    known = locale.territories
    return {("name", code): known[code] for code in _places() if code in known}


def languages(locale: Locale) -> Table:
    """Name languages, and languages as spoken in a country ("français (Canada)")."""
    known = locale.languages
    table: Table = {
        ("name", code): known[code] for code in sorted(known) if len(code) == 2 and code.isalpha()
    }
    for place in _places():
        for code in sorted(get_official_languages(place, de_facto=True)):
            if code in known and place in locale.territories and has_locale(f"{code}_{place}"):
                name = Locale.parse(f"{code}_{place}").get_display_name(locale)
                if name:
                    table["regional", (code, place)] = name
    return table


def currencies(locale: Locale) -> Table:
    """Name currencies; a currency whose locale has only its code is left out."""
    known = locale.currencies
    return {
        ("name", code): known[code]
        for code in current_currencies()
        if known.get(code, code) != code
    }
