"""The Julian and the Gregorian calendar, and units of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND

#: 1582-10-15, the first day of the Gregorian calendar, in days since 1970-01-01.
GREGORIAN_START = -141427

_DAYS_TO_EPOCH = 2_440_588  # the Julian day number of 1970-01-01


def julian_to_gregorian(days: Ints) -> Ints:
    """Convert days of the hybrid Julian calendar to days of the proleptic Gregorian calendar.

    The year, month and day stay the same; days since 1582-10-15 are equal in both. 29 February of a leap year that
    only the Julian calendar has becomes 1 March.
    """
    old = days < GREGORIAN_START
    if not old.any():
        return days
    # Richards' algorithm for the Julian calendar, then its inverse for the Gregorian
    f = days[old] + _DAYS_TO_EPOCH + 1401
    e = 4 * f + 3
    h = 5 * ((e % 1461) // 4) + 2
    day = (h % 153) // 5 + 1
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12
    a = (14 - month) // 12
    y = year + 4800 - a
    m = month + 12 * a - 3
    number = day + (153 * m + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32045
    gregorian = days.copy()
    gregorian[old] = number - _DAYS_TO_EPOCH
    return gregorian
