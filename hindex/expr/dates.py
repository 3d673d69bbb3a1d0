"""Parts of dates and timestamps, and days added to them, in the proleptic Gregorian calendar of any year."""

from __future__ import annotations

import numpy as np

from hindex.expr.vector import Errors, Mask, Numbers, Vector, of_numbers
from hindex.orc.calendars import MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days, days_from_civil
from hindex.orc.metadata.types import OrcType
from hindex.orc.time_zones import to_local_time

#: Units of dates by their names in Spark.
DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
}
_MICROS = {
    "DAY": MICROS_PER_DAY,
    "HOUR": 3600 * MICROS_PER_SECOND,
    "MINUTE": 60 * MICROS_PER_SECOND,
    "SECOND": MICROS_PER_SECOND,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
#: The most days of a unit.
_MAX_DAYS = {"YEAR": 366, "QUARTER": 92, "MONTH": 31, "WEEK": 7}
#: Units of timestamps by their names in Spark.
UNITS = {**DATE_UNITS, **{unit: unit for unit in _MICROS}, "DD": "DAY"}


def is_of_days(unit: str) -> bool:
    """Return True for a day or a longer unit, by its name in Spark, in capitals or not."""
    return UNITS.get(unit.upper()) in ("DAY", *DATE_UNITS)


def max_micros(unit: str) -> int:
    """Return the most microseconds of a unit."""
    return _MICROS[unit] if unit in _MICROS else _MAX_DAYS[unit] * MICROS_PER_DAY


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


def local_time(data_type: OrcType, instants: Vector, zone: str) -> Vector:
    """Convert instants to the local time of a time zone."""
    return of_numbers(data_type, to_local_time(instants.numbers, zone), instants.valid)


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


def add_months(data_type: OrcType, date: Vector, months: Vector) -> Vector:
    """Add months; a day that the month lacks becomes its last day."""
    days = _months_later(date.numbers.astype(np.int64), months.numbers.astype(np.int64))
    return _of_days(data_type, days, date.valid & months.valid)


def trunc(data_type: OrcType, date: Vector, unit: str) -> Vector:
    """Return the first day of a year, quarter, month or week."""
    # what is beyond 32 bits wraps around, as in Spark
    days = _first_days(date.numbers.astype(np.int64), unit)
    return of_numbers(data_type, days.astype(np.int32), date.valid)


def date_trunc(data_type: OrcType, time: Vector, unit: str) -> Vector:
    """Return the first moment of a unit."""
    micros = time.numbers
    if unit in _MICROS:
        truncated = micros - micros % _MICROS[unit]
    else:
        truncated = _first_days(micros // MICROS_PER_DAY, unit) * MICROS_PER_DAY
    return _of_micros(data_type, truncated, truncated > micros, time.valid)


def shift(data_type: OrcType, time: Vector, months: str, micros: str) -> Vector:
    """Add months, or microseconds, to what a clock shows."""
    before, by = time.numbers, np.int64(micros)
    if months == "0":
        with np.errstate(over="ignore"):
            after = before + by
        return _of_micros(data_type, after, (after < before) != (by < 0), time.valid)
    days, rest = np.divmod(before, MICROS_PER_DAY)
    days = _months_later(days, np.full_like(days, int(months)))
    beyond = np.abs(days) > np.iinfo(np.int64).max // MICROS_PER_DAY - 1
    return _of_micros(data_type, np.where(beyond, 0, days) * MICROS_PER_DAY + rest, beyond, time.valid)


def _months_later(days: Numbers, months: Numbers) -> Numbers:
    year, month, day = civil_from_days(days)
    year, month = np.divmod(12 * year + month - 1 + months, 12)
    first = days_from_civil(year, month + 1, np.ones_like(year))
    year, month = np.divmod(12 * year + month + 1, 12)
    following = days_from_civil(year, month + 1, np.ones_like(year))
    result: Numbers = np.minimum(first + day, following) - 1
    return result


def _first_days(days: Numbers, unit: str) -> Numbers:
    if unit == "WEEK":
        return days - _weekday(days)
    year, month, _ = civil_from_days(days)
    first_month = {"YEAR": np.ones_like(month), "QUARTER": (month - 1) // 3 * 3 + 1, "MONTH": month}[unit]
    return days_from_civil(year, first_month, np.ones_like(year))


def _of_days(data_type: OrcType, days: Numbers, valid: Mask) -> Vector:
    beyond = valid & (days != days.astype(np.int32))
    errors = Errors(beyond, f"a day does not fit {data_type}") if beyond.any() else None
    return of_numbers(data_type, days.astype(np.int32), valid, errors)


def _of_micros(data_type: OrcType, micros: Numbers, beyond: Mask, valid: Mask) -> Vector:
    errors = Errors(valid & beyond, f"a time does not fit {data_type}") if (valid & beyond).any() else None
    return of_numbers(data_type, micros, valid, errors)


def _weekday(days: Numbers) -> Numbers:
    weekdays: Numbers = (days.astype(np.int64) + 3) % 7
    return weekdays
