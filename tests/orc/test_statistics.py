"""Validity of statistics: one line for each rule, with statistics as a writer would leave them."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.metadata.statistics import (
    ColumnStatistics,
    Distrust,
    Nulls,
    ValueRange,
    value_range,
)
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import orc_metadata_pb2 as pb

DAY = 86_400_000_000
SECOND = 1_000_000
#: 2020-01-01 in milliseconds since 1970, and 1500-01-01 of the Julian calendar, which is nine days later.
MILLIS_2020 = 1_577_836_800_000
DAYS_1500_JULIAN = -171_654
DAYS_1500_GREGORIAN = DAYS_1500_JULIAN - 9


def tail(
    version: int = 6,
    *,
    writer: int | None = 1,
    is_proleptic: bool = True,
    encrypted: frozenset[int] = frozenset(),
) -> FileTail:
    """The tail of a file of one column, of a writer of this version."""
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": pa.array([1])}), sink)
    file_tail = read_tail(BytesSource(sink.getvalue()))
    footer = pb.Footer()
    footer.CopyFrom(file_tail.footer)
    footer.ClearField("writer")
    if writer is not None:
        footer.writer = writer
    footer.calendar = (
        pb.CalendarKind.PROLEPTIC_GREGORIAN if is_proleptic else pb.CalendarKind.JULIAN_GREGORIAN
    )
    return dataclasses.replace(file_tail, writer_version=version, footer=footer, encrypted_columns=encrypted)


def statistics(values: int = 10, **details: dict[str, Any]) -> ColumnStatistics:
    fields: dict[str, Any] = {"number_of_values": values, "has_null": False, **details}
    return ColumnStatistics.of(pb.ColumnStatistics(**fields))


def ints(minimum: int, maximum: int) -> ColumnStatistics:
    return statistics(int_statistics={"minimum": minimum, "maximum": maximum})


def doubles(minimum: float, maximum: float, total: float | None = 0.0) -> ColumnStatistics:
    fields = {"minimum": minimum, "maximum": maximum} | ({} if total is None else {"sum": total})
    return statistics(double_statistics=fields)


def texts(**fields: bytes) -> ColumnStatistics:
    return statistics(string_statistics=fields)


def times(minimum: int, maximum: int, **more: int) -> ColumnStatistics:
    return statistics(timestamp_statistics={"minimum_utc": minimum, "maximum_utc": maximum, **more})


def decimals(minimum: str, maximum: str) -> ColumnStatistics:
    return statistics(decimal_statistics={"minimum": minimum, "maximum": maximum})


def dates(minimum: int, maximum: int) -> ColumnStatistics:
    return statistics(date_statistics={"minimum": minimum, "maximum": maximum})


def of(kind: Kind, *, max_length: int = 0, precision: int = 0, scale: int = 0) -> OrcType:
    return OrcType(kind, 1, max_length=max_length, precision=precision, scale=scale)


NOW, JULIAN = tail(), tail(is_proleptic=False)
MIN, MAX = -(1 << 63), (1 << 63) - 1
#: What Java leaves of bytes that are not UTF-8.
ODD = "\ufffd".encode()
A_TO_B = texts(minimum=b"a", maximum=b"b")
BYTE, INT, LONG, FLOAT, DOUBLE = map(of, (Kind.BYTE, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE))
STRING, BINARY, BOOLEAN, DATE, TIMESTAMP = map(
    of, (Kind.STRING, Kind.BINARY, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
)
CHAR, VARCHAR = of(Kind.CHAR, max_length=3), of(Kind.VARCHAR, max_length=3)
DECIMAL, LONG_DECIMAL = of(Kind.DECIMAL, precision=5, scale=2), of(Kind.DECIMAL, precision=20, scale=2)

RULES: list[tuple[str, OrcType, ColumnStatistics, FileTail, ValueRange | Distrust]] = [
    ("integers", INT, ints(-5, 7), NOW, ValueRange(-5, 7)),
    ("integers, first writer", LONG, ints(-5, 7), tail(0), ValueRange(-5, 7)),
    ("the greatest integers", LONG, ints(MIN, MAX), NOW, ValueRange(MIN, MAX)),
    ("tinyint of an unsigned char", BYTE, ints(0, 255), NOW, Distrust.NOT_A_RANGE),
    ("integers swapped", INT, ints(7, -5), NOW, Distrust.NOT_A_RANGE),
    ("no minimum", INT, statistics(int_statistics={"maximum": 7}), NOW, Distrust.NOTHING),
    ("no maximum", INT, statistics(int_statistics={"minimum": 7}), NOW, Distrust.NOTHING),
    ("no least double", DOUBLE, statistics(double_statistics={"maximum": 7, "sum": 7}), NOW, Distrust.NOTHING),
    ("no least decimal", DECIMAL, statistics(decimal_statistics={"maximum": "7"}), NOW, Distrust.NOTHING),
    ("no last date", DATE, statistics(date_statistics={"minimum": 7}), NOW, Distrust.NOTHING),
    ("no last time", TIMESTAMP, statistics(timestamp_statistics={"minimum_utc": 7}), NOW, Distrust.NOTHING),
    ("nothing at all", INT, statistics(), NOW, Distrust.NOTHING),
    ("all null", INT, statistics(0, int_statistics={"minimum": 1, "maximum": 2}), NOW, Distrust.NOTHING),
    ("another kind", INT, A_TO_B, NOW, Distrust.OTHER_KIND),
    ("encrypted", INT, ints(1, 2), tail(encrypted=frozenset({1})), Distrust.ENCRYPTED),
    ("doubles", DOUBLE, doubles(-1.5, 2.5), NOW, ValueRange(-1.5, 2.5)),
    ("infinities", FLOAT, doubles(-math.inf, 1.0, -math.inf), NOW, ValueRange(-math.inf, 1.0)),
    ("both zeros", DOUBLE, doubles(-0.0, 0.0), NOW, ValueRange(-0.0, 0.0)),
    ("a NaN later", DOUBLE, doubles(-1.5, 2.5, math.nan), NOW, Distrust.MAY_HAVE_NAN),
    ("a NaN first", DOUBLE, doubles(math.nan, math.nan, math.nan), NOW, Distrust.MAY_HAVE_NAN),
    ("doubles, first writer", DOUBLE, doubles(-1.5, 2.5), tail(0), Distrust.OLD_WRITER),
    ("doubles of another early writer", DOUBLE, doubles(-1.5, 2.5), tail(5, writer=None), Distrust.UNNAMED_WRITER),
    ("floats of who knows", FLOAT, doubles(-1.5, 2.5), tail(7, writer=None), Distrust.UNNAMED_WRITER),
    ("doubles of cuDF", DOUBLE, doubles(-1.5, 2.5), tail(7, writer=5), ValueRange(-1.5, 2.5)),
    ("no sum", DOUBLE, doubles(-1.5, 2.5, None), NOW, Distrust.MAY_HAVE_NAN),
    ("strings", STRING, A_TO_B, NOW, ValueRange(b"a", b"b")),
    ("strings before HIVE-8732", STRING, A_TO_B, tail(0), Distrust.OLD_WRITER),
    ("decimals before HIVE-8732", DECIMAL, decimals("1", "2"), tail(0), Distrust.OLD_WRITER),
    ("dates before HIVE-8732", DATE, dates(1, 2), tail(0), Distrust.OLD_WRITER),
    ("booleans before HIVE-8732", BOOLEAN, statistics(bucket_statistics={"count": [10]}), tail(0), Distrust.OLD_WRITER),
    ("strings with HIVE-8732", VARCHAR, A_TO_B, tail(1), ValueRange(b"a", b"b")),
    ("cut strings", STRING, texts(lower_bound=b"ab", upper_bound=b"xy{"), NOW, ValueRange(b"ab", b"xy", True)),
    ("a cut maximum", STRING, texts(minimum=b"ab", upper_bound=b"xy\xc3\xa9"), NOW, ValueRange(b"ab", b"xy", True)),
    ("cut to one character", STRING, texts(lower_bound=b"", upper_bound=b"{"), NOW, ValueRange(b"", b"", True)),
    ("not UTF-8", STRING, texts(minimum=b"a" + ODD, maximum=b"b" + ODD + b"c"), NOW, ValueRange(b"a", b"b", True)),
    ("all of it not UTF-8", VARCHAR, texts(minimum=ODD, maximum=ODD), NOW, ValueRange(b"", b"", True)),
    ("cut, not UTF-8", STRING, texts(minimum=b"a", upper_bound=b"b" + ODD + b"z"), NOW, ValueRange(b"a", b"b", True)),
    ("CHAR cut in a letter", CHAR, texts(minimum=b"a " + ODD, maximum=b"b" + ODD), NOW, ValueRange(b"a", b"b", True)),
    ("a minimum in the cut one", STRING, texts(minimum=b"xyz", upper_bound=b"xz"), NOW, ValueRange(b"xyz", b"x", True)),
    ("strings swapped", STRING, texts(minimum=b"b", maximum=b"a"), NOW, Distrust.NOT_A_RANGE),
    ("only lengths", STRING, statistics(string_statistics={"sum": 10}), NOW, Distrust.NOTHING),
    ("only a minimum", STRING, texts(minimum=b"a"), NOW, ValueRange(b"a", None)),
    ("char with blanks", CHAR, texts(minimum=b"a  ", maximum=b"b  "), NOW, ValueRange(b"a", b"b   ")),
    ("char without", CHAR, A_TO_B, NOW, ValueRange(b"a", b"b   ")),
    ("char with characters below the space", CHAR, texts(minimum=b"a", maximum=b"a\n"), NOW, Distrust.PADDING),
    ("binary has lengths only", BINARY, statistics(binary_statistics={"sum": 10}), NOW, Distrust.NOTHING),
    ("true and false", BOOLEAN, statistics(bucket_statistics={"count": [4]}), NOW, ValueRange(0, 1)),
    ("true alone", BOOLEAN, statistics(bucket_statistics={"count": [10]}), NOW, ValueRange(1, 1)),
    ("false alone", BOOLEAN, statistics(bucket_statistics={"count": [0]}), NOW, ValueRange(0, 0)),
    ("more true than all", BOOLEAN, statistics(bucket_statistics={"count": [11]}), NOW, Distrust.NOT_A_RANGE),
    ("no counts", BOOLEAN, statistics(bucket_statistics={}), NOW, Distrust.NOTHING),
    ("decimals", DECIMAL, decimals("-1.5", "1E+2"), NOW, ValueRange(Decimal("-1.5"), Decimal(100))),
    ("short decimals before ORC-517", DECIMAL, decimals("1", "2"), tail(writer=0), Distrust.OLD_DECIMAL64),
    ("short decimals of who knows", DECIMAL, decimals("1", "2"), tail(writer=None), Distrust.OLD_DECIMAL64),
    ("short decimals with ORC-517", DECIMAL, decimals("1", "2"), tail(7, writer=0), ValueRange(Decimal(1), Decimal(2))),
    ("long decimals then", LONG_DECIMAL, decimals("1", "2"), tail(writer=0), ValueRange(Decimal(1), Decimal(2))),
    ("decimals are no numbers", DECIMAL, decimals("NaN", "1"), NOW, Distrust.NOT_A_RANGE),
    ("decimals are no text of one", DECIMAL, decimals("one", "1"), NOW, Distrust.NOT_A_RANGE),
    ("a decimal of a million digits", DECIMAL, decimals("0", "1E+999999"), NOW, Distrust.NOT_A_RANGE),
    ("a decimal of a long text", DECIMAL, decimals("0", "0" * 1000), NOW, Distrust.NOT_A_RANGE),
    ("dates", DATE, dates(-200_000, 9), NOW, ValueRange(-200_000, 9)),
    ("Julian dates", DATE, dates(DAYS_1500_JULIAN, 9), JULIAN, ValueRange(DAYS_1500_GREGORIAN, 9)),
    ("dates swapped", DATE, dates(9, 8), NOW, Distrust.NOT_A_RANGE),
    ("timestamps before ORC-135", TIMESTAMP, times(MILLIS_2020, MILLIS_2020), tail(5), Distrust.OLD_TIMESTAMPS),
    (
        "timestamps of the writer's zone alone",
        TIMESTAMP, statistics(timestamp_statistics={"minimum": 1, "maximum": 2}), NOW, Distrust.OLD_TIMESTAMPS,
    ),
    ("timestamps of cuDF", TIMESTAMP, times(1, 2), tail(7, writer=5), Distrust.CUDF_TIMESTAMPS),
    ("instants of cuDF", of(Kind.TIMESTAMP_INSTANT), times(1, 2), tail(9, writer=5), Distrust.CUDF_TIMESTAMPS),
    ("timestamps of Trino", TIMESTAMP, times(1, 2), tail(writer=4), ValueRange(-2 * SECOND + 1000, 2 * SECOND + 2999)),
    ("timestamps swapped", TIMESTAMP, times(2, 1), NOW, Distrust.NOT_A_RANGE),
    # a maximum of milliseconds stands for all microseconds within
    (
        "timestamps",
        TIMESTAMP, times(MILLIS_2020, MILLIS_2020 + 1, minimum_nanos=5), NOW,
        ValueRange(MILLIS_2020 * 1000, MILLIS_2020 * 1000 + 1999),
    ),
    (
        "timestamps before 1970",
        TIMESTAMP, times(-5000, MILLIS_2020), NOW,
        ValueRange(-7 * SECOND, MILLIS_2020 * 1000 + 999),
    ),
    (
        "Julian timestamps",
        TIMESTAMP, times(DAYS_1500_JULIAN * 86_400_000 + 3000, MILLIS_2020), JULIAN,
        ValueRange(DAYS_1500_GREGORIAN * DAY + SECOND - DAY, MILLIS_2020 * 1000 + 999),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "statistics", "file", "expected"), [rule[1:] for rule in RULES], ids=[r[0] for r in RULES]
)
def test_rules(
    type_: OrcType, statistics: ColumnStatistics, file: FileTail, expected: ValueRange | Distrust
) -> None:
    answer = value_range(statistics, type_, file, zone="UTC")
    assert answer == expected
    if isinstance(answer, ValueRange) and isinstance(answer.low, float):
        assert isinstance(expected, ValueRange)
        assert math.copysign(1, answer.low) == math.copysign(1, expected.low)  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["America/New_York", None])
def test_other_time_zones_widen_timestamps(zone: str | None) -> None:
    """Editions of the time zone database differ, and local mean times do by hours."""
    result = value_range(times(MILLIS_2020, MILLIS_2020), of(Kind.TIMESTAMP), NOW, zone=zone)
    assert result == ValueRange(MILLIS_2020 * 1000 - DAY, MILLIS_2020 * 1000 + 999 + DAY)
    old = -100 * 365 * 86_400_000
    result = value_range(times(old, MILLIS_2020), of(Kind.TIMESTAMP), NOW, zone=zone)
    assert result == ValueRange(old * 1000 - 3 * DAY - 2 * SECOND, MILLIS_2020 * 1000 + 999 + DAY)
    # an instant has no zone
    result = value_range(times(MILLIS_2020, MILLIS_2020), of(Kind.TIMESTAMP_INSTANT), NOW, zone=zone)
    assert result == ValueRange(MILLIS_2020 * 1000, MILLIS_2020 * 1000 + 999)


def test_timestamps_without_a_zone_of_the_writer() -> None:
    """A reader's clock may move them by two days: some zones have left out a day."""
    wide = ValueRange(MILLIS_2020 * 1000 - 3 * DAY, MILLIS_2020 * 1000 + 999 + 3 * DAY)
    assert value_range(times(MILLIS_2020, MILLIS_2020), TIMESTAMP, NOW, zone="") == wide
    # before stripes are read, writers that name their zone are trusted to do so
    for writer in (0, 1, 2, 4):
        result = value_range(times(MILLIS_2020, MILLIS_2020), TIMESTAMP, tail(writer=writer))
        assert result == ValueRange(MILLIS_2020 * 1000 - DAY, MILLIS_2020 * 1000 + 999 + DAY)
    for other in (3, 6, None):
        assert value_range(times(MILLIS_2020, MILLIS_2020), TIMESTAMP, tail(writer=other)) == wide


def test_every_julian_timestamp_stays_within_its_bounds(rng: np.random.Generator) -> None:
    """Recounted as the data are: around the turn of calendars and around leap days that only one of them has."""
    from hindex.orc.calendars import GREGORIAN_START, julian_to_gregorian

    leap_day = -171_654 + 59  # 1500-02-29 of the Julian calendar
    # times of the leap day are later than earlier times of the day after it, the last one of some ranges
    for around in 20 * (GREGORIAN_START, leap_day, leap_day - 36_525):
        low = around * DAY + int(rng.integers(-3 * DAY, 3 * DAY))
        high = low + int(rng.integers(0, 3 * DAY))
        result = value_range(times(low // 1000, high // 1000), of(Kind.TIMESTAMP), JULIAN, zone="UTC")
        assert isinstance(result, ValueRange)
        values = rng.integers(low, high, 500, endpoint=True)
        days = values // DAY
        recounted = values + (julian_to_gregorian(days) - days) * DAY
        assert result.low <= recounted.min()
        assert recounted.max() <= result.high


@pytest.mark.parametrize(
    ("values", "has_null", "rows", "expected"),
    [
        (10, False, 10, Nulls.NONE),
        (10, None, 10, Nulls.NONE),
        (10, True, 10, Nulls.UNKNOWN),
        (4, True, 10, Nulls.SOME),
        (4, None, 10, Nulls.SOME),
        (4, False, 10, Nulls.UNKNOWN),
        (0, True, 10, Nulls.ALL),
        (0, None, 10, Nulls.ALL),
        (0, False, 10, Nulls.UNKNOWN),
        (11, False, 10, Nulls.UNKNOWN),
        (None, False, 10, Nulls.UNKNOWN),
        (None, True, 10, Nulls.UNKNOWN),
        (0, False, 0, Nulls.UNKNOWN),
    ],
)
def test_nulls_are_known_where_both_numbers_agree(
    values: int | None, has_null: bool | None, rows: int, expected: Nulls
) -> None:
    message = pb.ColumnStatistics()
    if values is not None:
        message.number_of_values = values
    if has_null is not None:
        message.has_null = has_null
    assert ColumnStatistics.of(message).nulls(rows) is expected


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("int_statistics", pb.IntegerStatistics(minimum=-3, maximum=4, sum=1)),
        ("int_statistics", pb.IntegerStatistics()),
        ("double_statistics", pb.DoubleStatistics(minimum=-0.5, maximum=4, sum=1)),
        ("string_statistics", pb.StringStatistics(minimum=b"a", maximum=b"b", sum=7, lower_bound=b"")),
        ("bucket_statistics", pb.BucketStatistics(count=[3, 4])),
        ("decimal_statistics", pb.DecimalStatistics(minimum="1", maximum="2")),
        ("date_statistics", pb.DateStatistics(minimum=-1, maximum=2)),
        ("binary_statistics", pb.BinaryStatistics(sum=9)),
        ("timestamp_statistics", pb.TimestampStatistics(minimum=1, minimum_utc=3, maximum_utc=4)),
        ("collection_statistics", pb.CollectionStatistics(min_children=0, max_children=5, total_children=9)),
        (None, None),
    ],
)
def test_statistics_of_every_kind(field: str | None, message: Any) -> None:
    details = {} if field is None else {field: message}
    statistics = ColumnStatistics.of(pb.ColumnStatistics(number_of_values=3, bytes_on_disk=8, **details))
    assert statistics == ColumnStatistics(3, None, 8, message)


def test_decimals_that_are_not_utf_8() -> None:
    message = pb.ColumnStatistics.FromString(
        pb.ColumnStatistics(
            number_of_values=1, decimal_statistics=pb.DecimalStatistics(minimum="1", maximum="9")
        )
        .SerializeToString()
        .replace(b"9", b"\xff")
    )
    assert value_range(ColumnStatistics.of(message), DECIMAL, NOW) is Distrust.NOT_A_RANGE
