"""Parts of dates and timestamps, and days added to them, in the proleptic Gregorian calendar of any year."""

from __future__ import annotations

import numpy as np

from hindex.expr.vector import Numbers, Vector, of_numbers
from hindex.orc.calendars import MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days, days_from_civil
from hindex.orc.metadata.types import OrcType


def _first_of_year(year: Numbers) -> Numbers:
    return days_from_civil(year, np.ones_like(year), np.ones_like(year))


def year(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil_from_days(date.numbers)[0], date.valid)


def month(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil_from_days(date.numbers)[1], date.valid)


def day(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, civil_from_days(date.numbers)[2], date.valid)


def quarter(data_type: OrcType, date: Vector) -> Vector:
    return of_numbers(data_type, (civil_from_days(date.numbers)[1] + 2) // 3, date.valid)


def dayofyear(data_type: OrcType, date: Vector) -> Vector:
    days = date.numbers.astype(np.int64)
    return of_numbers(data_type, days - _first_of_year(civil_from_days(days)[0]) + 1, date.valid)


def weekday(data_type: OrcType, date: Vector) -> Vector:
    """Return days of the week from 0, Monday; 1970-01-01 was a Thursday."""
    return of_numbers(data_type, _weekday(date.numbers), date.valid)


def dayofweek(data_type: OrcType, date: Vector) -> Vector:
    """Return days of the week from 1, Sunday."""
    return of_numbers(data_type, (_weekday(date.numbers) + 1) % 7 + 1, date.valid)


def weekofyear(data_type: OrcType, date: Vector) -> Vector:
    """Return ISO weeks: a week belongs to the year of its Thursday."""
    days = date.numbers.astype(np.int64)
    thursday = days - _weekday(days) + 3
    return of_numbers(
        data_type, (thursday - _first_of_year(civil_from_days(thursday)[0])) // 7 + 1, date.valid
    )


def last_day(data_type: OrcType, date: Vector) -> Vector:
    years, months, _ = civil_from_days(date.numbers)
    following = days_from_civil(
        years + (months == 12), np.where(months == 12, 1, months + 1), np.ones_like(years)
    )
    return of_numbers(data_type, following - 1, date.valid)


def hour(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers % MICROS_PER_DAY // (3600 * MICROS_PER_SECOND), time.valid)


def minute(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers // (60 * MICROS_PER_SECOND) % 60, time.valid)


def second(data_type: OrcType, time: Vector) -> Vector:
    return of_numbers(data_type, time.numbers // MICROS_PER_SECOND % 60, time.valid)


def date_add(data_type: OrcType, date: Vector, days: Vector) -> Vector:
    return _moved(data_type, date, days.numbers.astype(np.int64), days)


def date_sub(data_type: OrcType, date: Vector, days: Vector) -> Vector:
    return _moved(data_type, date, -days.numbers.astype(np.int64), days)


def _moved(data_type: OrcType, date: Vector, by: Numbers, days: Vector) -> Vector:
    # what is beyond 32 bits wraps around, as in Spark
    shifted = date.numbers.astype(np.int64) + by
    return of_numbers(data_type, shifted.astype(np.int32), date.valid & days.valid)


def datediff(data_type: OrcType, end: Vector, start: Vector) -> Vector:
    difference = end.numbers.astype(np.int64) - start.numbers
    return of_numbers(data_type, difference.astype(np.int32), end.valid & start.valid)


def _weekday(days: Numbers) -> Numbers:
    weekdays: Numbers = (days.astype(np.int64) + 3) % 7
    return weekdays
