"""Column statistics: of a file, a stripe or a row group, as typed values.

What a writer left may not be what it means: :mod:`hindex.orc.metadata.statistics_validity` says
which of it may be relied on.

Source: ORC specification v1, "Column Statistics".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any

from google.protobuf.message import Message

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
