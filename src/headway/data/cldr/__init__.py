"""The built-in corpus: aligned expressions in two locales, made from CLDR and num2words.

Dates, times, spans, numbers, money, measures, names, and lists of them. Nothing is downloaded
and nothing is stored: babel writes each expression in both locales, num2words spells numbers.
"""

from __future__ import annotations

from headway.data.cldr.locales import locales
from headway.data.cldr.pairs import cldr_pairs

__all__ = ["cldr_pairs", "locales"]
