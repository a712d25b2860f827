"""Numbers in words and in figures, percentages, amounts of money, and measures."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, Literal

from babel import Locale, units
from babel.numbers import (
    format_compact_decimal,
    format_currency,
    format_decimal,
    format_percent,
    get_currency_precision,
)

from headway.data.cldr.tables import Table, fixed_draws, spread_integers

# Every currency and every unit is written with the same counts, so that two that share a name
# or a symbol meet in the inventory and are left out.
COUNTS: Final = (*range(1, 31), *range(35, 100, 5), *range(100, 1000, 100), 1000, 1500, 2000, 2500)
FRACTIONS: Final = tuple(
    Decimal(text) for text in ("0.5", "1.5", "2.5", "3.2", "4.8", "7.25", "12.5", "36.6", "99.9")
)
PRICES: Final = tuple(
    Decimal(text) for text in ("0.99", "1.50", "4.75", "9.99", "12.40", "49.95", "120.80", "999.90")
)
# num2words spells ordinals wrongly in a number of languages; these two were read through.
ORDINAL_LANGUAGES: Final = ("en", "fr")
SYMBOLS: Final = (
    *("USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "CNY", "INR", "BRL", "MXN", "KRW"),
    *("SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "TRY", "ZAR"),
)
UNITS: Final = (
    *("angle-degree", "angle-radian", "area-hectare", "area-square-kilometer", "area-square-meter"),
    *("area-square-centimeter", "area-square-mile", "area-acre", "digital-bit", "digital-byte"),
    *("digital-kilobyte", "digital-megabyte", "digital-gigabyte", "digital-terabyte"),
    *("electric-ampere", "electric-ohm", "electric-volt", "energy-calorie", "energy-joule"),
    *("energy-kilowatt-hour", "frequency-hertz", "frequency-kilohertz", "frequency-megahertz"),
    *("force-newton", "graphics-pixel", "graphics-megapixel", "length-kilometer", "length-meter"),
    *("length-centimeter", "length-millimeter", "length-mile", "length-foot", "length-inch"),
    *("length-nautical-mile", "length-light-year", "mass-tonne", "mass-kilogram", "mass-gram"),
    *("mass-milligram", "mass-pound", "mass-ounce", "mass-carat", "power-kilowatt", "power-watt"),
    *("power-megawatt", "pressure-bar", "pressure-pascal", "pressure-hectopascal"),
    *("speed-kilometer-per-hour", "speed-meter-per-second", "speed-mile-per-hour", "speed-knot"),
    *("temperature-celsius", "temperature-fahrenheit", "temperature-kelvin"),
    *("volume-liter", "volume-centiliter", "volume-milliliter", "volume-hectoliter"),
    *("volume-cubic-meter", "volume-cubic-kilometer", "volume-gallon", "volume-pint"),
    *("volume-tablespoon", "volume-teaspoon", "volume-barrel", "volume-cup"),
)


def spelled(locale: Locale) -> Table:
    """Spell numbers: whole ones below a million, round ones beyond, and some with a decimal."""
    whole = [*range(1001), *spread_integers("spelled", count=2500, digits=6)]
    whole += [number * scale for scale in (10**6, 10**9) for number in range(1, 100)]
    draws = fixed_draws("spelled decimals")
    tenths = [Decimal(draws.randrange(1, 1000)) / 10 for _ in range(400)]
    broken = [number for number in tenths if number % 1]
    table = _in_words("cardinal", whole, locale)
    return table | _in_words("decimal", broken, locale, to="cardinal")


def ordinals(locale: Locale) -> Table:
    """Spell the ordinal numbers below a hundred, in the languages where they are right.

    Eighty is left out: num2words writes "quatre-vingtsième" for "quatre-vingtième".
    """
    if locale.language not in ORDINAL_LANGUAGES:
        return {}
    return _in_words("ordinal", [*range(1, 80), *range(81, 100)], locale)


def decimals(locale: Locale) -> Table:
    """Write whole numbers up to ten million, and numbers with one to three decimals, in figures."""
    draws = fixed_draws("decimals")
    whole = [*range(1000), *spread_integers("decimals", count=2000, digits=7)]
    broken = [
        Decimal(draws.randrange(1, 10 ** (3 + places))).scaleb(-places)
        for places in (1, 2, 3)
        for _ in range(700)
    ]
    return {
        ("figures", Decimal(number)): format_decimal(number, locale=locale)
        for number in [*whole, *broken]
    }


def percentages(locale: Locale) -> Table:
    """Write percentages with at most one decimal."""
    permille = [*range(10, 1001, 10), *range(1, 1000, 3)]
    return {
        ("percent", number): format_percent(
            Decimal(number) / 1000, locale=locale, decimal_quantization=False
        )
        for number in permille
    }


def large_numbers(locale: Locale) -> Table:
    """Write large numbers in figures with their scale in words ("12,5 millions")."""
    draws = fixed_draws("large numbers")
    table: Table = {}
    for _ in range(1500):
        number = draws.randrange(1, 1000) * 10 ** draws.choice((3, 5, 6, 8, 9))
        table["compact", number] = format_compact_decimal(
            number, format_type="long", fraction_digits=1, locale=locale
        )
    return table


def money(locale: Locale) -> Table:
    """Write amounts of money, with the symbol and with the name of the currency.

    A currency without a smaller coin gets whole amounts only: babel would round "1.50" to "2".
    """
    table: Table = {}
    forms: tuple[Literal["standard", "name"], ...] = ("standard", "name")
    for form in forms:
        for currency in SYMBOLS:
            prices = PRICES if get_currency_precision(currency) else ()
            for amount in (*COUNTS, *prices):
                table[form, (currency, amount)] = format_currency(
                    amount, currency, locale=locale, format_type=form
                )
    return table


def measures(locale: Locale) -> Table:
    """Write measures with the unit's name and with its symbol."""
    table: Table = {}
    lengths: tuple[Literal["long", "short"], ...] = ("long", "short")
    for length in lengths:
        for unit in UNITS:
            for count in (*COUNTS, *FRACTIONS):
                table[length, (unit, count)] = units.format_unit(
                    count, unit, length=length, locale=locale
                )
    return table


def _in_words(
    form: str, numbers: Iterable[int | Decimal], locale: Locale, *, to: str | None = None
) -> Table:
    """Spell numbers with num2words; those that its converter cannot spell are left out."""
    from num2words import num2words

    table: Table = {}
    for number in numbers:
        try:
            table[form, number] = num2words(number, lang=str(locale), to=to or form)
        except (  # the library has many ways to say that it cannot, and no common one
            ArithmeticError,
            AttributeError,
            LookupError,
            NotImplementedError,
            TypeError,
            ValueError,
        ):
            continue
    return table
