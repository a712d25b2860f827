"""Numbers as people write them, 7B, 1.5T, 10k, and as they read them."""

from __future__ import annotations

import re

from headway.base.errors import UserError

_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "G": 1e9, "B": 1e9, "b": 1e9}
_MULTIPLES |= {"T": 1e12, "t": 1e12}
_WORDS = {1e12: "T", 1e9: "B", 1e6: "M", 1e3: "k"}
_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)"  # a comma parts thousands: 1,5 may be meant as 1.5
_NUMBER = re.compile(rf"\s*[$€]?\s*({_WHOLE}(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\s*(\w*)\s*")
_UNITS = "k (10^3), M (10^6), B or G (10^9), T (10^12)"
_GREATEST = 1e40  # of any quantity here
_DURATIONS = {"": 1.0, "h": 1.0, "m": 1 / 60, "min": 1 / 60, "s": 1 / 3600, "d": 24.0, "w": 168.0}


def quantity(text: str, *, where: str) -> float:
    """A number above 0 with a multiple behind it: "7B", "1.5T", "10k", "3e9", "250,000".

    Raises UserError for anything else, naming the multiples.
    """
    return _read(text, where, _MULTIPLES, f"multiples are {_UNITS}")


def hours(text: str, *, where: str) -> float:
    """A time above 0 in hours: "36", "36h", "2d", "90min". Raises UserError for anything else."""
    return _read(text, where, _DURATIONS, "units are s, min, h (if none is said), d, w")


def _read(text: str, where: str, units: dict[str, float], known: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UserError(f"'{text}' is not a number", where=where, todo=f"such as 7B; {known}")
    if match[2] not in units:
        raise UserError(f"'{text}' has an unknown unit, '{match[2]}'", where=where, todo=known)
    value = float(re.sub("[,_]", "", match[1])) * units[match[2]]
    if value == 0.0:
        raise UserError(f"'{text}' must be a number above 0", where=where)
    if not 1 / _GREATEST < value < _GREATEST:
        raise UserError(f"'{text}' is beyond all that can be planned", where=where)
    return value


def short(value: float, digits: int = 3) -> str:
    """A number with a multiple: 1.24e9 -> "1.24B", 5.2e22 -> "5.2e+22"."""
    if value == 0.0 or not 1e-2 <= abs(value) < 9.995e14:
        return f"{value:.{digits}g}"
    size = next((size for size in _WORDS if abs(value) >= size * (1 - 0.5 * 10**-digits)), 1.0)
    return f"{float(f'{value / size:.{digits}g}'):g}{_WORDS.get(size, '')}"


def money(value: float) -> str:
    """Dollars: "$0.42", "$1,250", "$3.2M"."""
    if value < 10:
        return f"${value:.2f}" if value >= 0.005 else f"${value:.1g}"
    return f"${value:,.0f}" if value < 1e6 else f"${short(value)}"


def duration(value: float) -> str:
    """Hours as people say them: "12 s", "3.5 min", "7.2 h", "12 days", "3.1 years"."""
    for name, size, most in (("s", 1 / 3600, 90), ("min", 1 / 60, 90), ("h", 1.0, 72)):
        if value < most * size:
            return f"{value / size:.3g} {name}"
    days = value / 24
    return f"{days:.3g} days" if days < 730 else f"{short(days / 365.25)} years"
