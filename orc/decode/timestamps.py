"""Dates and timestamps: ORC's epochs, nanosecond coding, time zones and the older calendar.

Source: ORC specification v1, "Date Columns" and "Timestamp Columns".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.calendars import (
    MICROS_PER_SECOND,
    SECONDS_PER_DAY,
    julian_to_gregorian,
    julian_to_gregorian_micros,
)
from hindex.orc.decode.arrow_arrays import fixed_array
from hindex.orc.metadata.types import Kind
from hindex.orc.time_zones import (
    FIRST_TRANSITIONS,
    UTC_NAMES,
    base_seconds,
    normalize_zone,
    to_instants,
    to_wall_clock,
)

Ints = npt.NDArray[np.int64]

#: Seconds from 1970 that are read, some 292,000 years: so what zones and the older calendar add fits, too.
_MAX_SECONDS = ((1 << 63) - 1) // MICROS_PER_SECOND - 10_000 * SECONDS_PER_DAY


def date_array(days: Ints, valid: npt.NDArray[np.uint8] | None, *, is_proleptic: bool) -> pa.Array:
    """Make dates of days since 1970, int64[N], those of the non-null values."""
    # of days beyond 32 bits Java and C++ keep the low ones
    short = days.astype(np.int32)
    if not is_proleptic:
        short = julian_to_gregorian(short.astype(np.int64)).astype(np.int32)
    return fixed_array(pa.date32(), short, valid)


def timestamp_array(
    arrow: pa.DataType,
    seconds: Ints,
    nanoseconds: Ints,
    valid: npt.NDArray[np.uint8] | None,
    *,
    kind: Kind,
    writer: str,
    reader: str | None,
    is_proleptic: bool,
) -> pa.Array:
    """Make microseconds: of the wall clock for ``timestamp``, of UTC for ``timestamp with local time zone``.

    :param seconds: int64[N], the DATA stream's non-null values.
    :param nanoseconds: int64[N], those of the SECONDARY stream, as they are coded.
    :param kind: the type in the file.
    :param writer: the stripe's writer time zone.
    :param reader: the reader's time zone, by which both types are instants as Spark's reader has them; None for none.
    """
    is_instant = kind == Kind.TIMESTAMP_INSTANT
    zone = "UTC" if is_instant or not writer else normalize_zone(writer)
    stored = micros = _micros(seconds, nanoseconds, base_seconds(zone))
    if is_instant and reader is not None:
        # Spark shows instants by Java's older calendar of the zone, too
        zone = normalize_zone(reader)
    if zone not in UTC_NAMES:
        micros = to_wall_clock(micros, zone)
    if not is_proleptic:
        micros = julian_to_gregorian_micros(micros)
    if reader is not None:
        micros = to_instants(micros, stored, reader)
        if zone == normalize_zone(reader):
            micros = np.where(stored >= FIRST_TRANSITIONS, stored, micros)
    return fixed_array(arrow, micros, valid)


def _micros(seconds: Ints, coded: Ints, base: int) -> Ints:
    zeros = coded & 7
    nanos = coded >> 3
    nanos = np.where(zeros == 0, nanos, nanos * 10 ** (zeros + 1))
    # some writers count nanoseconds downwards from a second that they cut towards zero
    if (np.abs(nanos) > 999_999_999).any():
        raise OrcError("a timestamp has more than 999,999,999 nanoseconds: the file is corrupt")
    seconds = seconds + base
    # writers cut seconds before 1970 towards zero, while nanoseconds always count upwards
    seconds = seconds - ((seconds < 0) & (nanos > 999_999))
    if (np.abs(seconds) > _MAX_SECONDS).any():
        raise OrcError("a timestamp does not fit 64-bit microseconds")
    return seconds * MICROS_PER_SECOND + nanos // 1000
