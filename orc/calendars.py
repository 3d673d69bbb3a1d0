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

#: Days from 0000-03-01, where the leap day ends a year, to 1970-01-01.
_MARCH_TO_EPOCH = 719_468
#: The Julian day number of 1970-01-01.
_JULIAN_DAY_OF_EPOCH = 2_440_588


def civil_from_days(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Split days since 1970-01-01 into years, months from 1 and days from 1.

    >>> [part.tolist() for part in civil_from_days(np.array([-1, 0]))]
    [[1969, 1970], [12, 1], [31, 1]]

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``.
    """
    cycle, day = np.divmod(days.astype(np.int64) + _MARCH_TO_EPOCH, DAYS_PER_CYCLE)
    year = (day - day // 1460 + day // 36_524 - day // (DAYS_PER_CYCLE - 1)) // 365
    day_of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day_of_month = day_of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    return year + 400 * cycle + (month <= 2), month, day_of_month


def days_from_civil(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Count days since 1970-01-01: the inverse of `civil_from_days`."""
    year = year - (month <= 2)
    cycle, year_of_cycle = np.divmod(year, 400)
    shifted = np.where(month > 2, month - 3, month + 9)
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    day_of_cycle = year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + day_of_year
    days: Numbers = cycle * DAYS_PER_CYCLE + day_of_cycle
    return days - _MARCH_TO_EPOCH


def julian_to_gregorian(days: Ints) -> Ints:
    """Convert days of the hybrid Julian calendar to days of the proleptic Gregorian calendar.

    The year, month and day stay the same; days since 1582-10-15 are equal in both. 29 February of a year that is a
    leap year only in the Julian calendar becomes 1 March.
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
    """Convert wall clocks in microseconds since 1970, as `julian_to_gregorian` converts days."""
    days = micros // MICROS_PER_DAY
    gregorian = julian_to_gregorian(days)
    return micros if gregorian is days else micros + (gregorian - days) * MICROS_PER_DAY
