"""Dates and timestamps: ORC's epochs, encoding of nanoseconds, time zones and the Julian calendar.

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

#: The most seconds from 1970, some 292,000 years, minus a margin for time zones and the Julian calendar.
_MAX_SECONDS = ((1 << 63) - 1) // MICROS_PER_SECOND - 10_000 * SECONDS_PER_DAY


def date_array(days: Ints, valid: npt.NDArray[np.uint8] | None, *, is_proleptic: bool) -> pa.Array:
    """Make dates from the non-null days since 1970, int64[N]."""
    # Java and C++ truncate days to 32 bits
    days32 = days.astype(np.int32)
    if not is_proleptic:
        days32 = julian_to_gregorian(days32.astype(np.int64)).astype(np.int32)
    return fixed_array(pa.date32(), days32, valid)


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
    """Make timestamps in microseconds: wall clocks, or instants for ``timestamp with local time zone``.

    Args:
        seconds: int64[N], the DATA stream's non-null values.
        nanoseconds: int64[N], the SECONDARY stream's non-null values, as encoded.
        kind: the type in the file.
        writer: the stripe's writer time zone; if empty, the reader's is used, as in ORC's Java reader.
        reader: the reader's time zone, in which both types are instants as in Spark's reader; None for none.
    """
    is_instant = kind == Kind.TIMESTAMP_INSTANT
    zone = "UTC" if is_instant else normalize_zone(writer or reader or "UTC")
    stored = micros = _micros(seconds, nanoseconds, base_seconds(zone))
    if is_instant and reader is not None:
        # Spark converts instants by Java's older calendar of the zone
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


def _micros(seconds: Ints, encoded: Ints, base: int) -> Ints:
    zeros = encoded & 7
    nanos = encoded >> 3
    nanos = np.where(zeros == 0, nanos, nanos * 10 ** (zeros + 1))
    # some writers round seconds towards zero and count nanoseconds downwards from there
    if _exceed(nanos, 999_999_999):
        raise OrcError("a timestamp has more than 999,999,999 nanoseconds: the file is corrupt")
    seconds = seconds + base
    # writers round seconds before 1970 towards zero, while nanoseconds always count upwards
    seconds = seconds - ((seconds < 0) & (nanos > 999_999))
    if _exceed(seconds, _MAX_SECONDS):
        raise OrcError("a timestamp does not fit 64-bit microseconds")
    return seconds * MICROS_PER_SECOND + nanos // 1000


def _exceed(values: Ints, limit: int) -> bool:
    # not by absolute values: the absolute value of the least integer is negative
    return bool(((values > limit) | (values < -limit)).any())
