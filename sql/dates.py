"""Dates as Spark writes them: proleptic Gregorian, years from -9999999 to 9999999.

``datetime.date`` ends at the years 1 and 9999; a date outside of them is held as days since 1970-01-01.
"""

from __future__ import annotations

import datetime
import re

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH_ORDINAL
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH_ORDINAL
# The Gregorian calendar repeats every 400 years.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097

#: What Spark trims of a text that it casts: white space and control characters of ASCII.
BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
#: What Java trims of a text that it reads as a double or decimal: Spark trims DEL, too, of all others.
JAVA_BLANKS = "".join(map(chr, range(0x21)))

# What Spark casts to DATE: the month and day may be left out, and a time after a blank or T is ignored.
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)


def date_from_days(days: int) -> datetime.date | int:
    """The date of a day number since 1970-01-01; the number itself where ``datetime.date`` cannot hold it."""
    if _FIRST_DAY <= days <= _LAST_DAY:
        return datetime.date.fromordinal(days + _EPOCH_ORDINAL)
    return days


def days_from_date(year: int, month: int, day: int) -> int | None:
    """Count days since 1970-01-01 to a date of any year; None for no such day."""
    # a year of the same place in the cycle that datetime can hold: 2000..2399
    cycles, year_of_cycle = divmod(year - 2000, _CYCLE_YEARS)
    try:
        date = datetime.date(2000 + year_of_cycle, month, day)
    except ValueError:
        return None
    return date.toordinal() - _EPOCH_ORDINAL + cycles * _CYCLE_DAYS


def parse_date(text: str) -> datetime.date | int | None:
    """The date that Spark reads from a string, or None where it is not a date.

    Source: Spark's cast of STRING to DATE: ``[+-]yyyy[-[m]m[-[d]d[( |T)...]]]`` with up to seven year digits.
    """
    match = _DATE.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    sign, digits, month, day = match.groups()
    year = -int(digits) if sign == "-" else int(digits)
    days = days_from_date(year, int(month or 1), int(day or 1))
    return None if days is None else date_from_days(days)


def format_date(value: datetime.date | int) -> str:
    """The text that :func:`parse_date` reads back: ``2020-02-29``, ``-0044-03-15``, ``+10000-01-01``."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    cycles, day_in_cycle = divmod(value + _EPOCH_ORDINAL - datetime.date(2000, 1, 1).toordinal(), _CYCLE_DAYS)
    near = datetime.date.fromordinal(day_in_cycle + datetime.date(2000, 1, 1).toordinal())
    year = near.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{near.month:02d}-{near.day:02d}"
