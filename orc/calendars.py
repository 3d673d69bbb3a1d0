"""The proleptic Gregorian and the Julian calendar, vectorized, for any year; and units of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]

MICROS_PER_SECOND = 1_000_000
SECONDS_PER_DAY = 86_400
MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND

#: Days of 400 years, after which the Gregorian calendar repeats, weekdays too.
DAYS_PER_CYCLE = 146_097

#: 1582-10-15, the first day of the Gregorian calendar, in days since 1970-01-01.
GREGORIAN_START = -141_427

#: The Julian day number of 1970-01-01.
_JULIAN_DAY_OF_EPOCH = 2_440_588


def civil_from_days(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Split days since 1970-01-01 into years, months from 1 and days from 1.

    >>> [part.tolist() for part in civil_from_days(np.array([-1, 0]))]
    [[1969, 1970], [12, 1], [31, 1]]
    """
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    year, month = np.divmod(months.astype(np.int64), 12)
    return year + 1970, month + 1, (dates - months).astype(np.int64) + 1


def days_from_civil(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Count days since 1970-01-01: the inverse of `civil_from_days`."""
    months = ((year - 1970) * 12 + (month - 1)).astype("M8[M]")
    days: Numbers = months.astype("M8[D]").astype(np.int64)
    return days + day - 1


def julian_to_gregorian(days: Ints) -> Ints:
    """Convert days of the hybrid Julian calendar to days of the proleptic Gregorian calendar.

    The year, month and day stay the same; days since 1582-10-15 are equal in both. 29 February of a leap year that
    only the Julian calendar has becomes 1 March.
    """
    is_julian = days < GREGORIAN_START
    if not is_julian.any():
        return days
    # Richards' algorithm for the Julian calendar
    e = 4 * (days[is_julian] + _JULIAN_DAY_OF_EPOCH + 1401) + 3
    h = 5 * ((e % 1461) // 4) + 2
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12
    gregorian = days.copy()
    gregorian[is_julian] = days_from_civil(year, month, (h % 153) // 5 + 1)
    return gregorian


def julian_to_gregorian_micros(micros: Ints) -> Ints:
    """Convert wall clock readings, in microseconds since 1970, as `julian_to_gregorian` converts days."""
    days = micros // MICROS_PER_DAY
    gregorian = julian_to_gregorian(days)
    return micros if gregorian is days else micros + (gregorian - days) * MICROS_PER_DAY
