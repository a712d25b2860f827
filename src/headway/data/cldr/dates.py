"""Dates, times of day, stretches between two dates, and spans of time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final, Literal

from babel import Locale, units
from babel.dates import (
    format_date,
    format_interval,
    format_skeleton,
    format_time,
    format_timedelta,
    get_datetime_format,
    get_day_names,
    get_month_names,
)

from headway.data.cldr.tables import Table, fixed_draws

FIRST_DAY: Final = dt.date(1950, 1, 1)
LAST_DAY: Final = dt.date(2049, 12, 31)
N_DAYS: Final = 2500  # a form
N_TIMES: Final = 1200  # with seconds
N_MOMENTS: Final = 1200  # a date and a time
N_INTERVALS: Final = 500  # a form

# From the most explicit form to the least: where two read alike in the source ("4 mars 2020" is
# both long and medium in French), the first one decides.
WHOLE_DATES: Final = ("full", "long", "medium", "yMd")
SPAN_UNITS: Final = {
    "duration-second": 59,
    "duration-minute": 99,
    "duration-hour": 99,
    "duration-day": 99,
    "duration-week": 60,
    "duration-month": 60,
    "duration-year": 99,
    "duration-decade": 9,
    "duration-century": 20,
}
# A second, minute, hour, day, week, month and year as babel counts them, and how many of each
# stay below the next unit.
SECONDS: Final = {
    1: 59,
    60: 59,
    3600: 23,
    86_400: 6,
    604_800: 4,
    2_592_000: 11,
    31_536_000: 60,
}


def whole_dates(locale: Locale) -> Table:
    """Write dates with their year in the full, long, medium and numeric forms."""
    table: Table = {}
    for form in WHOLE_DATES:
        if not _has(form, locale) or _loses_the_century(form, locale):
            continue
        # The same days in each form, so that the earlier form decides on every day and not on some.
        for day in _days("whole dates", N_DAYS):
            table[form, day] = write_date(day, form, locale)
    return table


def parts_of_dates(locale: Locale) -> Table:
    """Write months and quarters of a year, days of a year, and the names of months and weekdays."""
    table: Table = {}
    for month, name in get_month_names("wide", "stand-alone", locale).items():
        table["month", month] = name
    for weekday, name in get_day_names("wide", "stand-alone", locale).items():
        table["weekday", weekday] = name
    months = [dt.date(year, month, 1) for year in range(1950, 2050) for month in range(1, 13)]
    leap_year = [dt.date(2000, 1, 1) + dt.timedelta(days) for days in range(366)]
    for form, days in (
        ("yMMMM", months),
        ("yQQQQ", months[::3]),
        ("MMMMd", leap_year),
        ("MMMMEd", list(_days("MMMMEd", 800))),
    ):
        if not _has(form, locale):
            continue
        for day in days:
            year_matters = form.startswith("y")
            value = day if year_matters else (day.month, day.day, "E" in form and day.weekday())
            table[form, value] = write_date(day, form, locale)
    return table


def times(locale: Locale) -> Table:
    """Write times of day with and without seconds, alone and after a date."""
    draws = fixed_draws("times")
    table: Table = {}
    for minute in range(24 * 60):
        time = dt.time(minute // 60, minute % 60)
        table["short", time] = format_time(time, "short", locale=locale)
    for _ in range(N_TIMES):
        time = dt.time(draws.randrange(24), draws.randrange(60), draws.randrange(60))
        table["medium", time] = format_time(time, "medium", locale=locale)
    glues: tuple[tuple[Literal["long", "short"], str], ...] = (("long", "long"), ("short", "yMd"))
    for form, date_form in glues:
        if not _has(date_form, locale) or _loses_the_century(date_form, locale):
            continue
        glue = str(get_datetime_format(form, locale=locale)).replace("'", "")
        for day in _days(f"moments {form}", N_MOMENTS):
            time = dt.time(draws.randrange(24), draws.randrange(60))
            date_text = write_date(day, date_form, locale)
            time_text = format_time(time, "short", locale=locale)
            moment = dt.datetime.combine(day, time)
            table[form, moment] = glue.replace("{0}", time_text).replace("{1}", date_text)
    return table


def intervals(locale: Locale) -> Table:
    """Write the stretch from one date to another ("8–11 janv. 1950")."""
    draws = fixed_draws("intervals")
    table: Table = {}
    for form, longest in (("yMMMM", 900), ("yMMMd", 40)):
        for start in _days(f"intervals {form}", N_INTERVALS):
            end = start + dt.timedelta(1 + draws.randrange(longest))
            value = (start, end) if form == "yMMMd" else (start.replace(day=1), end.replace(day=1))
            if value[0] == value[1] or not _has(form, locale):
                continue
            table[form, value] = format_interval(start, end, form, locale=locale)
    return table


def spans(locale: Locale) -> Table:
    """Write spans of time, and how long ago or ahead something is."""
    table: Table = {}
    for unit, most in SPAN_UNITS.items():
        for count in range(1, most + 1):
            table["span", (unit, count)] = units.format_unit(count, unit, locale=locale)
    for seconds, most in SECONDS.items():
        for count in range(1, most + 1):
            for sign in (1, -1):
                delta = dt.timedelta(seconds=sign * count * seconds)
                table["from now", delta] = format_timedelta(
                    delta, threshold=1, add_direction=True, locale=locale
                )
    return table


def write_date(day: dt.date, form: str, locale: Locale) -> str:
    """Write a date in one of CLDR's four lengths or after a skeleton ("yMMMM")."""
    if form in ("full", "long", "medium"):
        return format_date(day, form, locale)
    return format_skeleton(form, dt.datetime.combine(day, dt.time()), locale=locale)


def _has(form: str, locale: Locale) -> bool:
    return form in locale.date_formats or form in locale.datetime_skeletons


def _loses_the_century(form: str, locale: Locale) -> bool:
    """Say whether a form writes two years 400 apart alike: same weekdays, same last digits."""
    early, late = dt.date(1620, 7, 4), dt.date(2020, 7, 4)
    return write_date(early, form, locale) == write_date(late, form, locale)


def _days(name: str, count: int) -> Iterator[dt.date]:
    draws = fixed_draws(f"days {name}")
    n_days = (LAST_DAY - FIRST_DAY).days + 1
    for _ in range(count):
        yield FIRST_DAY + dt.timedelta(draws.randrange(n_days))
