"""Parts of dates and timestamps, and days added to them, in the proleptic Gregorian calendar of any year."""

from __future__ import annotations

import numpy as np

from hindex.expr.vector import Numbers, Vector, of_numbers
from hindex.keys import MICROS_PER_DAY
from hindex.orc.metadata.types import OrcType

_MICROS_PER_SECOND = 1_000_000
#: Days from 0000-03-01, where the leap day ends a year, to 1970-01-01.
_TO_MARCH = 719_468
_CYCLE_DAYS = 146_097


def civil(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Years, months from 1 and days from 1 of days since 1970-01-01.

    >>> [part.tolist() for part in civil(np.array([-1, 0]))]
    [[1969, 1970], [12, 1], [31, 1]]

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``.
    """
    cycle, day = np.divmod(days.astype(np.int64) + _TO_MARCH, _CYCLE_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // (_CYCLE_DAYS - 1)) // 365
    day_of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    in_month = day_of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    return year + 400 * cycle + (month <= 2), month, in_month


def days_from_civil(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days since 1970-01-01: the inverse of :func:`civil`."""
    year = year - (month <= 2)
    cycle, of_cycle = np.divmod(year, 400)
    shifted = np.where(month > 2, month - 3, month + 9)
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    days: Numbers = cycle * _CYCLE_DAYS + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + day_of_year
    return days - _TO_MARCH


def _first_of_year(year: Numbers) -> Numbers:
    return days_from_civil(year, np.ones_like(year), np.ones_like(year))


def year(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil(date.numbers)[0], date.valid)


def month(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil(date.numbers)[1], date.valid)


def day(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil(date.numbers)[2], date.valid)


def quarter(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, (civil(date.numbers)[1] + 2) // 3, date.valid)


def dayofyear(data_type: OrcType, date: Vector) -> Vector:
    days = date.numbers.astype(np.int64)
    return of_numbers(data_type, days - _first_of_year(civil(days)[0]) + 1, date.valid)


def weekday(data_type: OrcType, date: Vector) -> Vector:
    """0 is Monday; 1970-01-01 was a Thursday."""
    return of_numbers(data_type, _weekday(date.numbers), date.valid)


def dayofweek(data_type: OrcType, date: Vector) -> Vector:
    """1 is Sunday."""
    return of_numbers(data_type, (_weekday(date.numbers) + 1) % 7 + 1, date.valid)


def weekofyear(data_type: OrcType, date: Vector) -> Vector:
    """The ISO week: that of the Thursday of the same week."""
    days = date.numbers.astype(np.int64)
    thursday = days - _weekday(days) + 3
    return of_numbers(data_type, (thursday - _first_of_year(civil(thursday)[0])) // 7 + 1, date.valid)


def last_day(data_type: OrcType, date: Vector) -> Vector:
    years, months, _ = civil(date.numbers)
    following = days_from_civil(
        years + (months == 12), np.where(months == 12, 1, months + 1), np.ones_like(years)
    )
    return of_numbers(data_type, following - 1, date.valid)


def hour(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers % MICROS_PER_DAY // (3600 * _MICROS_PER_SECOND), time.valid)


def minute(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers // (60 * _MICROS_PER_SECOND) % 60, time.valid)


def second(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers // _MICROS_PER_SECOND % 60, time.valid)


def date_add(data_type: OrcType, date: Vector, days: Vector) -> Vector:
    return _moved(data_type, date, days.numbers.astype(np.int64), days)


def date_sub(data_type: OrcType, date: Vector, days: Vector) -> Vector:
    return _moved(data_type, date, -days.numbers.astype(np.int64), days)


def _moved(data_type: OrcType, date: Vector, by: Numbers, days: Vector) -> Vector:
    # what is beyond 32 bits wraps around, as in Spark
    found = date.numbers.astype(np.int64) + by
    return of_numbers(data_type, found.astype(np.int32), date.valid & days.valid)


def datediff(data_type: OrcType, end: Vector, start: Vector) -> Vector:
    found = end.numbers.astype(np.int64) - start.numbers
    return of_numbers(data_type, found.astype(np.int32), end.valid & start.valid)


def _weekday(days: Numbers) -> Numbers:
    found: Numbers = (days.astype(np.int64) + 3) % 7
    return found
