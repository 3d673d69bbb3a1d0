"""Column statistics of a file, a stripe or a row group: typed values, and reliable value ranges.

Writers of the last fifteen years left statistics that are wrong, rounded, truncated, or of another calendar or
time zone than the data. Each rule here errs towards a wider range, or none.

Sources: ORC specification v1, "Column Statistics", and the fixes named beside the rules.
"""

from __future__ import annotations

import decimal
import enum
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from google.protobuf.message import Message

from hindex.orc.calendars import (
    GREGORIAN_START,
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    julian_to_gregorian,
)
from hindex.orc.metadata.file_tail import CUDF_WRITER, ORC_JAVA_WRITER, FileTail
from hindex.orc.metadata.types import (
    BINARY_KINDS,
    COMPOSITE_KINDS,
    INTEGER_KINDS,
    SHORT_PRECISION,
    STRING_KINDS,
    Kind,
    OrcType,
)
from hindex.orc.time_zones import UTC_NAMES
from hindex.proto import orc_metadata_pb2 as pb
from hindex.value_class import value_class

#: The statistics of a type; ``orc_metadata.proto`` explains their fields.
Detail = (
    pb.IntegerStatistics
    | pb.DoubleStatistics
    | pb.StringStatistics
    | pb.BucketStatistics
    | pb.DecimalStatistics
    | pb.DateStatistics
    | pb.BinaryStatistics
    | pb.TimestampStatistics
    | pb.CollectionStatistics
)
_DETAILS = (
    "int_statistics",
    "double_statistics",
    "string_statistics",
    "bucket_statistics",
    "decimal_statistics",
    "date_statistics",
    "timestamp_statistics",
    "binary_statistics",
    "collection_statistics",
)


class Nulls(enum.Enum):
    """The number of nulls among some rows."""

    NONE = "none"
    SOME = "some"
    ALL = "all"
    UNKNOWN = "unknown"


@value_class
class ColumnStatistics:
    """A column's statistics of some rows; a field is None if the writer omitted it.

    ``number_of_values`` counts non-null values; ``detail`` depends on the column's type, and is None for structs
    and unions.
    """

    number_of_values: int | None
    has_null: bool | None
    bytes_on_disk: int | None
    detail: Detail | None

    @classmethod
    def of(cls, message: pb.ColumnStatistics) -> ColumnStatistics:
        """Convert a message of a footer or row index."""
        detail = next((name for name in _DETAILS if message.HasField(name)), None)
        return cls(
            number_of_values=field_value(message, "number_of_values"),
            has_null=field_value(message, "has_null"),
            bytes_on_disk=field_value(message, "bytes_on_disk"),
            detail=None if detail is None else getattr(message, detail),
        )

    def nulls(self, rows: int) -> Nulls:
        """Return whether none, some or all of the ``rows`` rows of the statistics are null.

        The result is unknown if the number of values and ``has_null`` are inconsistent, or if a needed one is
        missing. The column must not be within another one.
        """
        values = self.number_of_values
        if values is None or rows <= 0 or values > rows:
            return Nulls.UNKNOWN
        if values == rows:
            return Nulls.UNKNOWN if self.has_null else Nulls.NONE
        if self.has_null is False:
            return Nulls.UNKNOWN
        return Nulls.ALL if values == 0 else Nulls.SOME


def field_value(message: Message, name: str) -> Any:  # noqa: ANN401 a field may be of any type
    """Return the value of a field; None if it is missing."""
    return getattr(message, name) if message.HasField(name) else None


Value = int | float | bytes | Decimal


@value_class
class ValueRange:
    """The range of all non-null values, from ``low`` to ``high``, both included; None for no bound.

    Values are ints (for dates, days since 1970; for timestamps, microseconds; both of the proleptic Gregorian calendar;
    for booleans 0 and 1), floats, decimals or bytes. With ``high_is_prefix``, the range includes all values that
    begin with ``high``.
    """

    low: Value | None
    high: Value | None
    high_is_prefix: bool = False


class Distrust(enum.Enum):
    """The reason to distrust statistics or bloom filters; the value is a sentence for users."""

    NOTHING = "the writer left no minimum and maximum"
    NOT_A_RANGE = "the minimum and maximum are not values of the column's type in ascending order"
    OTHER_KIND = "the statistics are of another type than the column"
    CORRUPT = "they cannot be read"
    ENCRYPTED = "the column is encrypted, and its readable statistics may be those of masked values"
    OLD_WRITER = "the file's writer had not yet fixed HIVE-8732, so minimum and maximum may be wrong"
    UNNAMED_WRITER = (
        "the file names no writer, and some of these store floats and doubles in another byte order"
    )
    CUDF_TIMESTAMPS = "cuDF takes timestamps of any unit for nanoseconds in statistics"
    OLD_DECIMAL64 = "the file's writer had not yet fixed ORC-517, so minimum and maximum may be 0 instead"
    OLD_TIMESTAMPS = "the file's writer had not yet fixed ORC-135, so its timestamps depend on its time zone"
    MAY_HAVE_NAN = "there may be NaN among the values, which minimum and maximum hide"
    PADDING = "the values have characters below the space, so trailing spaces change their order"
    OLD_CHARSET = "the file's writer had not yet fixed ORC-101, so its filters depend on its character set"
    OLD_DECIMALS = "filters of this kind hash decimals as strings in the writer's character set (ORC-101)"
    MORE_DIGITS = (
        "decimals may have more digits than the column: filters hash them all, and readers round them"
    )
    LOCAL_FILTER = "the filters hash timestamps in the writer's time zone, or may do so"
    CPP_BYTES = "writers in C++ add wrong values to filters of this type"
    MISPLACED = (
        "a struct above the column may be null, and writers in C++ then leave wrong values in its place"
    )
    BAD_FILTER = "the filters are not well-formed"
    NO_FILTER_KIND = "writers leave filters of this type empty, or add wrong values"

    @property
    def is_fault(self) -> bool:
        """True if the writer's statistics are wrong, which is worth a note."""
        return self not in (Distrust.NOTHING, Distrust.NO_FILTER_KIND)


class Section(enum.Enum):
    """A kind of information on values that a writer records besides the data."""

    STATISTICS = "statistics"
    BLOOM_FILTER = "bloom filters"
    BLOOM_FILTER_UTF8 = "bloom filters of UTF-8"


_FILTERS = frozenset({Section.BLOOM_FILTER, Section.BLOOM_FILTER_UTF8})
_STATISTICS = frozenset({Section.STATISTICS})
_TIMES = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})

#: Writer versions, which count the Java writer's fixes; writers in other languages begin at ORC-135.
_HIVE_8732, _ORC_101, _ORC_135, _ORC_517, _NEVER = 1, 5, 6, 7, 1 << 32


def _any(_: FileTail) -> bool:
    return True


def _is_unnamed(tail: FileTail) -> bool:
    return not tail.footer.HasField("writer")


def _is_orc_java_or_unnamed(tail: FileTail) -> bool:
    return _is_unnamed(tail) or tail.footer.writer == ORC_JAVA_WRITER


def _is_cudf(tail: FileTail) -> bool:
    return not _is_unnamed(tail) and tail.footer.writer == CUDF_WRITER


def _is_not_java(tail: FileTail) -> bool:
    return not tail.is_by_java


#: The known faults of writers: the reason, the sections, the kinds of columns, a predicate of the file's writer,
#: the first version with the fault and the first without it; and the source.
_FAULTS: tuple[
    tuple[Distrust, frozenset[Section], frozenset[Kind], Callable[[FileTail], bool], int, int], ...
] = (
    # HIVE-8732; writers that record no version count as the first
    (Distrust.OLD_WRITER, _STATISTICS, frozenset(Kind) - INTEGER_KINDS, _any, 0, _HIVE_8732),
    # ddrinka/ApacheOrcDotNet before c09b40a; versions of ORC before 1.5 name no writer either
    (Distrust.UNNAMED_WRITER, _STATISTICS, frozenset({Kind.FLOAT, Kind.DOUBLE}), _is_unnamed, 0, _NEVER),
    # NVIDIA/cudf#21847, of 2026; its files do not record which version wrote them
    (Distrust.CUDF_TIMESTAMPS, _STATISTICS, _TIMES, _is_cudf, 0, _NEVER),
    (Distrust.OLD_TIMESTAMPS, _STATISTICS | _FILTERS, _TIMES, _any, 0, _ORC_135),
    # only for short decimals, see `find_fault`
    (
        Distrust.OLD_DECIMAL64,
        _STATISTICS,
        frozenset({Kind.DECIMAL}),
        _is_orc_java_or_unnamed,
        _ORC_135,
        _ORC_517,
    ),
    # the writer overwrites a batch of bytes before it hashes the rest
    (Distrust.CPP_BYTES, _FILTERS, frozenset({Kind.BYTE}), _is_not_java, 0, _NEVER),
    # instead of the padding, the writer hashes the memory after the value
    (
        Distrust.CPP_BYTES,
        frozenset({Section.BLOOM_FILTER_UTF8}),
        frozenset({Kind.CHAR}),
        _is_not_java,
        0,
        _NEVER,
    ),
    (Distrust.OLD_CHARSET, frozenset({Section.BLOOM_FILTER}), STRING_KINDS, _any, 0, _ORC_101),
    # decimals are hashed as strings, which ORC-101 is about
    (Distrust.OLD_DECIMALS, frozenset({Section.BLOOM_FILTER}), frozenset({Kind.DECIMAL}), _any, 0, _NEVER),
)


def find_fault(section: Section, data_type: OrcType, tail: FileTail) -> Distrust | None:
    """Return the reason if a file's writer has a known fault in a section for columns of a type."""
    for reason, sections, kinds, is_by_writer, first, fixed in _FAULTS:
        if (
            section in sections
            and data_type.kind in kinds
            and first <= tail.writer_version < fixed
            and is_by_writer(tail)
            # longer decimals have another writer
            and (reason is not Distrust.OLD_DECIMAL64 or data_type.precision <= SHORT_PRECISION)
        ):
            return reason
    return None


def value_range(
    statistics: ColumnStatistics, data_type: OrcType, tail: FileTail, *, zone: str | None = None
) -> ValueRange | Distrust:
    """Derive the range of a column's values from its statistics.

    Args:
        data_type: the column's type in the file.
        zone: the stripe's writer time zone; None if unknown.

    Returns:
        the range, or the reason why there is none.
    """
    if data_type.column in tail.encrypted_columns:
        return Distrust.ENCRYPTED
    detail = statistics.detail
    if detail is None or statistics.number_of_values == 0:
        return Distrust.NOTHING
    fault = find_fault(Section.STATISTICS, data_type, tail)
    if fault is not None:
        return fault
    match detail:
        case pb.IntegerStatistics() if data_type.kind in INTEGER_KINDS:
            return _integers(detail, data_type)
        case pb.DoubleStatistics() if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
            return _doubles(detail)
        case pb.StringStatistics() if data_type.kind in STRING_KINDS:
            return _strings(detail, data_type)
        case pb.BucketStatistics() if data_type.kind == Kind.BOOLEAN:
            return _booleans(detail, statistics.number_of_values)
        case pb.DecimalStatistics() if data_type.kind == Kind.DECIMAL:
            return _decimals(detail)
        case pb.DateStatistics() if data_type.kind == Kind.DATE:
            return _dates(detail, tail)
        case pb.TimestampStatistics() if data_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            return _timestamps(detail, tail, "UTC" if data_type.kind == Kind.TIMESTAMP_INSTANT else zone)
    has_none = data_type.kind in BINARY_KINDS or data_type.kind in COMPOSITE_KINDS
    return Distrust.NOTHING if has_none else Distrust.OTHER_KIND


def _has_bounds(detail: Message) -> bool:
    return detail.HasField("minimum") and detail.HasField("maximum")


_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


def _integers(detail: pb.IntegerStatistics, data_type: OrcType) -> ValueRange | Distrust:
    if not _has_bounds(detail):
        return Distrust.NOTHING
    low, high = detail.minimum, detail.maximum
    # a C++ writer on a machine with unsigned chars records tinyint -1 as 255
    half = 1 << (_BITS[data_type.kind] - 1)
    return ValueRange(low, high) if -half <= low <= high < half else Distrust.NOT_A_RANGE


def _doubles(detail: pb.DoubleStatistics) -> ValueRange | Distrust:
    """Return the range of doubles, unless there may be NaN among them.

    Writers start with the first value and then only compare. So a first NaN hides all other values, a later NaN
    leaves no trace, and merging such statistics may give a minimum that is too great. A sum that is a number
    proves that there was no NaN.
    """
    if not _has_bounds(detail):
        return Distrust.NOTHING
    low, high = detail.minimum, detail.maximum
    if not detail.HasField("sum") or math.isnan(detail.sum) or math.isnan(low) or math.isnan(high):
        return Distrust.MAY_HAVE_NAN
    return ValueRange(low, high) if low <= high else Distrust.NOT_A_RANGE


def _strings(detail: pb.StringStatistics, data_type: OrcType) -> ValueRange | Distrust:
    low = field_value(detail, "minimum" if detail.HasField("minimum") else "lower_bound")
    high, is_prefix = field_value(detail, "maximum"), False
    if high is None and detail.HasField("upper_bound"):
        high, is_prefix = _strip_last_character(detail.upper_bound), True
    if low is not None:
        low = low.partition(_REPLACEMENT)[0]
    if high is not None and _REPLACEMENT in high:
        high, is_prefix = high.partition(_REPLACEMENT)[0], True
    if low is None and high is None:
        return Distrust.NOTHING
    if low is not None and high is not None and low > high and not low.startswith(high):
        return Distrust.NOT_A_RANGE
    if data_type.kind == Kind.CHAR:
        # some readers return values with trailing spaces, and some writers record values without them
        if any(byte < 0x20 for bound in (low, high) if bound is not None for byte in bound):
            return Distrust.PADDING
        low = None if low is None else low.rstrip(b" ")
        if high is not None and not is_prefix:
            high = high.rstrip(b" ") + b" " * data_type.max_length
    return ValueRange(low, high, is_prefix)


#: Java writers replace bytes that are not UTF-8 by U+FFFD in statistics, but not in the data. The original bytes
#: may be less or greater; the bytes before them are those of the value.
_REPLACEMENT = "\ufffd".encode()


def _strip_last_character(bound: bytes) -> bytes:
    """Remove the last character of an upper bound.

    A writer truncates a long maximum and adds one to the code point of the last remaining character. The characters
    before it are those of the maximum.
    """
    end = len(bound)
    while end and bound[end - 1] & 0xC0 == 0x80:
        end -= 1
    return bound[: max(end - 1, 0)]


def _booleans(detail: pb.BucketStatistics, values: int | None) -> ValueRange | Distrust:
    if not detail.count or values is None:
        return Distrust.NOTHING
    true = detail.count[0]
    return ValueRange(int(true == values), int(true > 0)) if true <= values else Distrust.NOT_A_RANGE


#: Longer than any decimal of 38 digits in any notation.
_MAX_DECIMAL_TEXT = 128


def _decimals(detail: pb.DecimalStatistics) -> ValueRange | Distrust:
    if not _has_bounds(detail):
        return Distrust.NOTHING
    low, high = _decimal(detail.minimum), _decimal(detail.maximum)
    return Distrust.NOT_A_RANGE if low is None or high is None or low > high else ValueRange(low, high)


def _decimal(text: str | bytes) -> Decimal | None:
    # it is bytes if it is not UTF-8
    if isinstance(text, bytes) or len(text) > _MAX_DECIMAL_TEXT:
        return None
    try:
        value = Decimal(text)
    except decimal.InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) <= _MAX_DECIMAL_TEXT else None


def _dates(detail: pb.DateStatistics, tail: FileTail) -> ValueRange | Distrust:
    if not _has_bounds(detail):
        return Distrust.NOTHING
    low, high = detail.minimum, detail.maximum
    if low > high:
        return Distrust.NOT_A_RANGE
    # the data is rebased in the same way, which preserves the order of days
    return ValueRange(low, high) if tail.is_proleptic else ValueRange(_rebase(low), _rebase(high))


def _rebase(days: int) -> int:
    return int(julian_to_gregorian(np.array([days], np.int64))[0])


_MICROS_PER_MILLI = 1000
#: Before this time (microseconds since 1970), writers truncate fractions of seconds differently, by up to 1 s.
_EXACT_FRACTIONS_FROM = 2 * MICROS_PER_SECOND
#: Between these times (years 1902 to 2037), the offsets of a zone in two editions of the time zone database differ
#: by less than a day; outside, they may be local mean time or a guess, up to 16 hours from UTC on either side.
_EXACT_ZONES_FROM, _EXACT_ZONES_TO = -24_837 * MICROS_PER_DAY, 24_837 * MICROS_PER_DAY


def _timestamps(detail: pb.TimestampStatistics, tail: FileTail, zone: str | None) -> ValueRange | Distrust:
    if not (detail.HasField("minimum_utc") and detail.HasField("maximum_utc")):
        return Distrust.OLD_TIMESTAMPS if detail.HasField("minimum") else Distrust.NOTHING
    if detail.minimum_utc > detail.maximum_utc:
        return Distrust.NOT_A_RANGE
    if zone is None and not (tail.is_by_java or tail.is_by_cpp):
        zone = ""
    # milliseconds are truncated, downwards after 1970; nanoseconds would narrow the range by less than that
    low = detail.minimum_utc * _MICROS_PER_MILLI
    high = detail.maximum_utc * _MICROS_PER_MILLI + _MICROS_PER_MILLI - 1
    low, high = low - _max_error(low, zone), high + _max_error(high, zone)
    if not tail.is_proleptic:
        low = _rebase_micros(low) - _max_rebase_error(low)
        high = _rebase_micros(high) + _max_rebase_error(high)
    return ValueRange(low, high)


def _max_error(micros: int, zone: str | None) -> int:
    """Return the greatest distance of a value from its recorded bound, in microseconds."""
    error = _EXACT_FRACTIONS_FROM if micros < _EXACT_FRACTIONS_FROM else 0
    if zone not in UTC_NAMES:
        # without a writer's zone, values are shifted by the difference of two offsets of the reader's zone
        is_exact = zone != "" and _EXACT_ZONES_FROM < micros < _EXACT_ZONES_TO
        error += MICROS_PER_DAY * (1 if is_exact else 3)
    return error


def _max_rebase_error(micros: int) -> int:
    """Return a day before 1582, else 0: two Julian days may become one, so that their times of day mix."""
    return MICROS_PER_DAY if micros < GREGORIAN_START * MICROS_PER_DAY else 0


def _rebase_micros(micros: int) -> int:
    # Python integers: a corrupt file may claim a time beyond 64 bits
    days, rest = divmod(micros, MICROS_PER_DAY)
    return _rebase(days) * MICROS_PER_DAY + rest
