"""Column statistics of a file, a stripe or a row group: typed values, and the value ranges that can be relied on.

Writers of the last fifteen years left statistics that are wrong, rounded, cut, or of another calendar or time zone
than the data. Each rule here errs towards a wider range, or none.

Sources: ORC specification v1, "Column Statistics", and the fixes named beside the rules.
"""

from __future__ import annotations

import decimal
import enum
import math
from dataclasses import dataclass, fields
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
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.types import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind, OrcType
from hindex.orc.time_zones import UTC_NAMES
from hindex.proto import orc_metadata_pb2 as pb


@dataclass(frozen=True, slots=True)
class IntegerStatistics:
    """Of tinyint to bigint; ``sum`` is None where it left 64 bits."""

    minimum: int | None
    maximum: int | None
    sum: int | None


@dataclass(frozen=True, slots=True)
class DoubleStatistics:
    """Of float and double. A NaN among the values makes ``sum`` NaN, and the rest arbitrary."""

    minimum: float | None
    maximum: float | None
    sum: float | None


@dataclass(frozen=True, slots=True)
class StringStatistics:
    """Of string, char and varchar, in bytes; ``total_length`` is that of all values.

    A value too long for the writer is cut: ``lower_bound`` and ``upper_bound`` then stand for the minimum and the
    maximum, and need not be values of the column.
    """

    minimum: bytes | None
    maximum: bytes | None
    lower_bound: bytes | None
    upper_bound: bytes | None
    total_length: int | None


@dataclass(frozen=True, slots=True)
class BooleanStatistics:
    """Of boolean; None where the writer counted nothing."""

    true_count: int | None


@dataclass(frozen=True, slots=True)
class DecimalStatistics:
    """Of decimal, as the writer's text."""

    minimum: str | None
    maximum: str | None
    sum: str | None


@dataclass(frozen=True, slots=True)
class DateStatistics:
    """Of date, in days since 1970-01-01 of the writer's calendar."""

    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class BinaryStatistics:
    """Of binary: the total length of all values in bytes."""

    total_length: int | None


@dataclass(frozen=True, slots=True)
class TimestampStatistics:
    """Of both timestamps, in milliseconds since 1970-01-01 00:00:00 of the writer's calendar.

    ``minimum`` and ``maximum`` count in the writer's time zone, the others on the wall clock's (or UTC's) own. The
    nanoseconds are those below the millisecond; None where they are not known.
    """

    minimum: int | None
    maximum: int | None
    minimum_utc: int | None
    maximum_utc: int | None
    minimum_nanos: int | None
    maximum_nanos: int | None


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Of lists and maps: how many elements the values have."""

    min_children: int | None
    max_children: int | None
    total_children: int | None


Detail = (
    IntegerStatistics
    | DoubleStatistics
    | StringStatistics
    | BooleanStatistics
    | DecimalStatistics
    | DateStatistics
    | BinaryStatistics
    | TimestampStatistics
    | CollectionStatistics
)


class Nulls(enum.Enum):
    """The number of nulls among some rows."""

    NONE = "none"
    SOME = "some"
    ALL = "all"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """One column's statistics over some rows. None is what the writer did not say.

    ``number_of_values`` counts what is not null; ``detail`` is of the kind that the column's type asks for, and None
    for structs and unions.
    """

    number_of_values: int | None
    has_null: bool | None
    bytes_on_disk: int | None
    detail: Detail | None

    @classmethod
    def of(cls, message: pb.ColumnStatistics) -> ColumnStatistics:
        """The statistics of a message as it stands in footers and row indexes."""
        return cls(
            number_of_values=_get(message, "number_of_values"),
            has_null=_get(message, "has_null"),
            bytes_on_disk=_get(message, "bytes_on_disk"),
            detail=_detail(message),
        )

    def nulls(self, rows: int) -> Nulls:
        """Return how many of the ``rows`` rows that the statistics describe are null.

        The number of values and ``has_null`` must agree: where one contradicts the other or is missing where it is
        needed, nothing is known. For columns that are not inside of others.
        """
        values = self.number_of_values
        if values is None or rows <= 0 or values > rows:
            return Nulls.UNKNOWN
        if values == rows:
            return Nulls.UNKNOWN if self.has_null else Nulls.NONE
        if self.has_null is False:
            return Nulls.UNKNOWN
        return Nulls.ALL if values == 0 else Nulls.SOME


def _detail(message: pb.ColumnStatistics) -> Detail | None:
    name = next((name for name in _DETAILS if message.HasField(name)), None)
    if name is None:
        return None
    of, part = _DETAILS[name], getattr(message, name)
    if of is BooleanStatistics:
        return BooleanStatistics(part.count[0] if len(part.count) else None)
    found = {field.name: _get(part, _FIELDS.get(field.name, field.name)) for field in fields(of)}
    if of is TimestampStatistics:
        # written plus one, so that 0 says that they are not known
        found |= {name: found[name] - 1 if found[name] else None for name in _NANOS}
    return of(**found)


_DETAILS: dict[str, type[Detail]] = {
    "int_statistics": IntegerStatistics,
    "double_statistics": DoubleStatistics,
    "string_statistics": StringStatistics,
    "bucket_statistics": BooleanStatistics,
    "decimal_statistics": DecimalStatistics,
    "date_statistics": DateStatistics,
    "timestamp_statistics": TimestampStatistics,
    "binary_statistics": BinaryStatistics,
    "collection_statistics": CollectionStatistics,
}

#: What the format calls a field otherwise than here.
_FIELDS = {"total_length": "sum"}


#: Fields of :class:`TimestampStatistics`.
_NANOS = ("minimum_nanos", "maximum_nanos")


def _get(message: Message, name: str) -> Any:  # noqa: ANN401 (a field may be of any type)
    return getattr(message, name) if message.HasField(name) else None


#: Writer versions, which count the Java writer's fixes; writers in other languages begin at the last of them.
WRITER_HIVE_8732 = 1
WRITER_ORC_101 = 5
WRITER_ORC_135 = 6

Value = int | float | bytes | Decimal


@dataclass(frozen=True, slots=True)
class ValueRange:
    """All values that are not null lie between ``low`` and ``high``, both included; None is an open end.

    Values are ints (for dates, days since 1970; for timestamps, microseconds; both of the proleptic Gregorian calendar;
    for booleans 0 and 1), floats, decimals or bytes. With ``high_is_prefix``, values that begin with ``high`` are
    within too.
    """

    low: Value | None
    high: Value | None
    high_is_prefix: bool = False


class Distrust(enum.Enum):
    """The reason to distrust statistics or bloom filters; the value is a sentence for people."""

    NOTHING = "the writer left no minimum and maximum"
    NOT_A_RANGE = "the minimum and maximum are not values of the column's type in their order"
    OTHER_KIND = "the statistics are of another type than the column"
    CORRUPT = "they cannot be read"
    ENCRYPTED = "the column is encrypted, and what is readable may be a mask's"
    OLD_WRITER = "the file's writer had not yet fixed HIVE-8732, so minimum and maximum may be wrong"
    OLD_DECIMAL64 = "the file's writer had not yet fixed ORC-517, so minimum and maximum may be 0 instead"
    OLD_TIMESTAMPS = "the file's writer had not yet fixed ORC-135, so its timestamps depend on its time zone"
    MAY_HAVE_NAN = "there may be NaN among the values, which minimum and maximum do not tell"
    PADDING = "the values have characters below the blank, so blanks at their end change their order"
    OLD_CHARSET = "the file's writer had not yet fixed ORC-101, so its filters depend on its character set"
    OLD_DECIMALS = "filters of this kind hold decimals as text in the writer's character set (ORC-101)"
    MORE_DIGITS = "decimals may have more digits than the column, which filters keep and readers round"
    LOCAL_FILTER = "the filters hold timestamps in the writer's time zone, or do not say that they do not"
    CPP_BYTES = "writers in C++ put other values than the column's into filters of this type"
    MISPLACED = (
        "a struct above the column may be null, and writers in C++ then leave other values in its place"
    )
    BAD_FILTER = "the filters are not well-formed"
    NO_FILTER_KIND = "writers leave filters of this type empty, or filled with other values"

    @property
    def is_fault(self) -> bool:
        """Return True if the writer's statistics are wrong, which is worth a note."""
        return self not in (Distrust.NOTHING, Distrust.NO_FILTER_KIND)


def value_range(
    statistics: ColumnStatistics, data_type: OrcType, tail: FileTail, *, zone: str | None = None
) -> ValueRange | Distrust:
    """The range that a column's values lie in, by statistics of that column.

    :param data_type: the column's type in the file.
    :param zone: the stripe's writer time zone; None where it is not known.
    """
    if data_type.column in tail.encrypted_columns:
        return Distrust.ENCRYPTED
    detail = statistics.detail
    if detail is None or statistics.number_of_values == 0:
        return Distrust.NOTHING
    # the C++ reader goes by the same rule: integers and doubles were never affected
    if tail.writer_version < WRITER_HIVE_8732 and not isinstance(
        detail, IntegerStatistics | DoubleStatistics
    ):
        return Distrust.OLD_WRITER
    match detail:
        case IntegerStatistics() if data_type.kind in INTEGER_KINDS:
            return _integers(detail, data_type)
        case DoubleStatistics() if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
            return _doubles(detail)
        case StringStatistics() if data_type.kind in STRING_KINDS:
            return _strings(detail, data_type)
        case BooleanStatistics() if data_type.kind == Kind.BOOLEAN:
            return _booleans(detail, statistics.number_of_values)
        case DecimalStatistics() if data_type.kind == Kind.DECIMAL:
            return _decimals(detail, data_type, tail)
        case DateStatistics() if data_type.kind == Kind.DATE:
            return _dates(detail, tail)
        case TimestampStatistics() if data_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            return _timestamps(detail, tail, "UTC" if data_type.kind == Kind.TIMESTAMP_INSTANT else zone)
    return (
        Distrust.NOTHING
        if data_type.kind in BINARY_KINDS or not data_type.is_primitive
        else Distrust.OTHER_KIND
    )


_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


def _integers(detail: IntegerStatistics, data_type: OrcType) -> ValueRange | Distrust:
    low, high = detail.minimum, detail.maximum
    if low is None or high is None:
        return Distrust.NOTHING
    # a C++ writer on a machine whose char is unsigned counts tinyint -1 as 255
    half = 1 << (_BITS[data_type.kind] - 1)
    return ValueRange(low, high) if -half <= low <= high < half else Distrust.NOT_A_RANGE


def _doubles(detail: DoubleStatistics) -> ValueRange | Distrust:
    """Return the range of doubles without NaN.

    Writers start with the first value and then only compare, so NaN hides others.

    So a NaN that comes first hides all others, one that comes later leaves no trace, and merging such statistics may
    leave a minimum that is too great. A sum that is a number proves that there was none.
    """
    low, high = detail.minimum, detail.maximum
    if low is None or high is None:
        return Distrust.NOTHING
    if detail.sum is None or math.isnan(detail.sum) or math.isnan(low) or math.isnan(high):
        return Distrust.MAY_HAVE_NAN
    return ValueRange(low, high) if low <= high else Distrust.NOT_A_RANGE


def _strings(detail: StringStatistics, data_type: OrcType) -> ValueRange | Distrust:
    low = detail.minimum if detail.minimum is not None else detail.lower_bound
    high, is_prefix = detail.maximum, False
    if high is None and detail.upper_bound is not None:
        high, is_prefix = _without_last_character(detail.upper_bound), True
    if low is not None:
        low = low.partition(_REPLACEMENT)[0]
    if high is not None and _REPLACEMENT in high:
        high, is_prefix = high.partition(_REPLACEMENT)[0], True
    if low is None and high is None:
        return Distrust.NOTHING
    if low is not None and high is not None and low > high and not low.startswith(high):
        return Distrust.NOT_A_RANGE
    if data_type.kind == Kind.CHAR:
        # some readers give values with the blanks at their end and some writers count them without
        if any(byte < 0x20 for bound in (low, high) if bound is not None for byte in bound):
            return Distrust.PADDING
        low = None if low is None else low.rstrip(b" ")
        if high is not None and not is_prefix:
            high = high.rstrip(b" ") + b" " * data_type.max_length
    return ValueRange(low, high, is_prefix)


#: What writers in Java put in statistics, though not in the data, for bytes that are not UTF-8: U+FFFD. The bytes may
#: be less or greater; all before them is the value's own.
_REPLACEMENT = "\ufffd".encode()


def _without_last_character(bound: bytes) -> bytes:
    """A writer cuts a long maximum and adds one to the code point of what then is its last character.

    All before that is the maximum's own, whatever that character was.
    """
    end = len(bound)
    while end and bound[end - 1] & 0xC0 == 0x80:
        end -= 1
    return bound[: max(end - 1, 0)]


def _booleans(detail: BooleanStatistics, values: int | None) -> ValueRange | Distrust:
    true = detail.true_count
    if true is None or values is None:
        return Distrust.NOTHING
    return ValueRange(int(true == values), int(true > 0)) if true <= values else Distrust.NOT_A_RANGE


#: Decimals of up to so many digits went through a writer of their own, which was new then.
_DECIMAL64_PRECISION = 18
#: Longer than any decimal of 38 digits in any notation.
_MAX_DECIMAL_TEXT = 128


def _decimals(detail: DecimalStatistics, data_type: OrcType, tail: FileTail) -> ValueRange | Distrust:
    is_by_others = tail.footer.HasField("writer") and tail.footer.writer != 0
    if (
        tail.writer_version == WRITER_ORC_135
        and data_type.precision <= _DECIMAL64_PRECISION
        and not is_by_others
    ):
        return Distrust.OLD_DECIMAL64
    if detail.minimum is None or detail.maximum is None:
        return Distrust.NOTHING
    low, high = _decimal(detail.minimum), _decimal(detail.maximum)
    return Distrust.NOT_A_RANGE if low is None or high is None or low > high else ValueRange(low, high)


def _decimal(text: str) -> Decimal | None:
    if len(text) > _MAX_DECIMAL_TEXT:
        return None
    try:
        found = Decimal(text)
    except decimal.InvalidOperation:
        return None
    return found if found.is_finite() and abs(found.adjusted()) <= _MAX_DECIMAL_TEXT else None


def _dates(detail: DateStatistics, tail: FileTail) -> ValueRange | Distrust:
    low, high = detail.minimum, detail.maximum
    if low is None or high is None:
        return Distrust.NOTHING
    if low > high:
        return Distrust.NOT_A_RANGE
    # the data are recounted in the same way, which keeps the order of days
    return ValueRange(low, high) if tail.is_proleptic else ValueRange(_recounted(low), _recounted(high))


def _recounted(days: int) -> int:
    return int(julian_to_gregorian(np.array([days], np.int64))[0])


_MICROS_PER_MILLI = 1000
#: Before so many microseconds since 1970, writers disagree by a second on how a fraction is cut.
_FRACTIONS_UNSURE_BEFORE = 2 * MICROS_PER_SECOND
#: Between these, the offsets of a zone by two editions of the time zone database differ by less than a day (years
#: 1902 to 2037); outside they may be the local mean time or a guess, up to 16 hours from UTC on either side.
_ZONES_KNOWN_FROM, _ZONES_KNOWN_TO = -24_837 * MICROS_PER_DAY, 24_837 * MICROS_PER_DAY


def _timestamps(detail: TimestampStatistics, tail: FileTail, zone: str | None) -> ValueRange | Distrust:
    if tail.writer_version < WRITER_ORC_135:
        return Distrust.OLD_TIMESTAMPS
    if detail.minimum_utc is None or detail.maximum_utc is None:
        return Distrust.NOTHING if detail.minimum is None else Distrust.OLD_TIMESTAMPS
    if detail.minimum_utc > detail.maximum_utc:
        return Distrust.NOT_A_RANGE
    # milliseconds are cut, downwards after 1970; their nanoseconds are not worth the trouble
    low = detail.minimum_utc * _MICROS_PER_MILLI
    high = detail.maximum_utc * _MICROS_PER_MILLI + _MICROS_PER_MILLI - 1
    low, high = low - _doubt(low, zone), high + _doubt(high, zone)
    if not tail.is_proleptic:
        low = _recounted_micros(low) - _mixed(low)
        high = _recounted_micros(high) + _mixed(high)
    return ValueRange(low, high)


def _doubt(micros: int, zone: str | None) -> int:
    """Return the greatest distance of a value from its recorded bound, in microseconds."""
    doubt = _FRACTIONS_UNSURE_BEFORE if micros < _FRACTIONS_UNSURE_BEFORE else 0
    if zone not in UTC_NAMES:
        doubt += MICROS_PER_DAY * (1 if _ZONES_KNOWN_FROM < micros < _ZONES_KNOWN_TO else 3)
    return doubt


def _mixed(micros: int) -> int:
    """Two days of the Julian calendar may become one of the Gregorian, and their times of day then mix."""
    return MICROS_PER_DAY if micros < GREGORIAN_START * MICROS_PER_DAY else 0


def _recounted_micros(micros: int) -> int:
    # Python integers: a corrupt file may claim a time beyond 64 bits
    days, rest = divmod(micros, MICROS_PER_DAY)
    return _recounted(days) * MICROS_PER_DAY + rest
