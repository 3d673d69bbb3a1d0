"""Timestamps as instants, by the time zones of a query: beside values that are decoded and compared one by one."""

from __future__ import annotations

import datetime
import operator
import shutil
import zoneinfo
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest

from hindex.aggregate.aggregation import Aggregate
from hindex.errors import PredicateError
from hindex.orc import OrcReader
from hindex.plan.time_zones import TimeZones
from hindex.sql.statements import AggregateFunction
from tests.spark.zones_run import STEADY, UNSTEADY, WRITERS, day_conditions, write_days
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises

ZONES = [
    ("UTC", "UTC"),
    ("Europe/Berlin", "Europe/Berlin"),
    ("Europe/Berlin", "America/New_York"),
    ("UTC", "Asia/Kolkata"),
]
#: Of a session's clock, some before, in and after transitions of Berlin and New York, and some far from any.
TIMES = [
    *("1850-01-01 00:00:00", "1893-04-01 00:15:00", "2024-03-10 02:30:00", "2024-03-31 02:30:00"),
    *("2024-10-27 01:45:00", "2024-10-27 02:30:00", "2024-10-27 03:00:00", "2024-11-03 01:30:00"),
    *("2024-07-01 09:15:00", "2050-10-30 02:15:00"),
]
INSTANT = pa.timestamp("us", tz="UTC")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    "<>": operator.ne,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days") / "t"
    write_days(path)
    return path


def test_a_writer_in_the_zone_of_the_reader(written: Path) -> None:
    """Its instants are read as they were written, at all depths, in the hour that occurs twice too."""
    zone = WRITERS[1]
    with OrcReader(str(written / "1.orc"), timezone=zone) as reader:
        assert reader.schema.field("t").type == reader.schema.field("s").type.field("t").type == INSTANT
        rows = reader.read().to_pylist()
    with OrcReader(str(written / "0.orc")) as reader:
        # a clock in UTC shows them
        expected_values = [
            value and value.replace(tzinfo=datetime.UTC) for value in reader.read(["t"])["t"].to_pylist()
        ]
    late = [
        (row, value)
        for row, value in zip(rows, expected_values, strict=True)
        if value is None or value.year > 1900
    ]
    assert len(late) > 1000
    for row, value in late:
        expected = [value, {"t": value}, None if value is None else [value, None]]
        assert [row["t"], row["s"], row["l"]] == expected


@sampled(2)
@pytest.mark.parametrize("using", ["bitmap", "btree", "bloom", "minmax"])
def test_rows_are_those_of_the_instants(written: Path, connection: LocalConnection, using: str) -> None:
    table = connection.table(str(written))
    table.create_index("i", "t", using)
    try:
        for reader, session in ZONES:
            values = instants(written, reader)
            scan = table.scan().with_zones(partial(TimeZones, reader, session))
            for text in TIMES:
                # of a time that occurs twice, the first
                clock = datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(session))
                literal = clock.astimezone(datetime.UTC)
                for op, compare in COMPARE.items() if using == "bitmap" else [("=", operator.eq)]:
                    expected = [
                        i for i, value in values.items() if value is not None and compare(value, literal)
                    ]
                    result = scan.narrowed(predicate(f"t {op} TIMESTAMP '{text}'"), ["id"], None)
                    messages = (using, reader, session, op, text)
                    assert (messages, sorted(result.to_arrow()["id"].to_pylist())) == (
                        messages,
                        sorted(expected),
                    )
                    assert result.count() == len(expected)
            for text in (*STEADY, UNSTEADY):
                explained = scan.narrowed(predicate(text.format("t")), ["id"], None).explain()
                is_decided = using == "bitmap" and (reader == "UTC" or text != UNSTEADY)
                assert explained.exact == is_decided
                assert explained.rows is not None
                assert explained.rows.kept is not None
                assert explained.rows.kept < len(values)
    finally:
        table.drop_index("i")


def test_timestamps_of_directories(written: Path, tmp_path: Path, connection: LocalConnection) -> None:
    """The session's clock shows them, whatever the reader's zone."""
    for text in ("2020-01-01 10%3A00%3A00", "2024-10-27 01%3A30%3A00", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"p={text}").mkdir()
        shutil.copy(written / "0.orc", tmp_path / f"p={text}" / "x.orc")
    table = connection.table(str(tmp_path)).scan()
    scan = table.with_zones(lambda: TimeZones("Europe/Berlin", "America/New_York"))
    values = scan.narrowed(predicate("id = 0"), ["p"], None).to_arrow()["p"]
    assert values.type == INSTANT
    expected = [
        datetime.datetime(2020, 1, 1, 15, tzinfo=datetime.UTC),
        datetime.datetime(2024, 10, 27, 5, 30, tzinfo=datetime.UTC),
    ]
    assert values.to_pylist() == [*expected, None]
    for where, rows in {
        "p < '2020-01-01 09:30:00'": 0,
        "p < '2020-01-01 10:30:00'": 1,
        "p = '2024-10-27 05:30:00Z'": 1,
        "p > t AND p = '2020-01-01 10:00:00'": 0,
        "p < t AND p = '2020-01-01 10:00:00'": 1,
        "p IS NULL": 1,
    }.items():
        result = scan.narrowed(predicate(f"id = 500 AND {where}"), ["id"], None)
        assert (where, result.count()) == (where, rows)


def test_rules_that_end_for_java(tmp_path: Path) -> None:
    """Java's older calendar of this zone has another offset from 2037 on, but writer and reader have the same one."""
    zone, times = (
        "Africa/Windhoek",
        [datetime.datetime(year, 7, 1, tzinfo=datetime.UTC) for year in (2030, 2040)],
    )
    options: Any = {"timezone": zoneinfo.ZoneInfo(zone)}
    with (
        (tmp_path / "x.orc").open("wb") as file,
        pyorc.Writer(file, "struct<t:timestamp>", **options) as writer,
    ):
        writer.writerows([(time,) for time in times])
    with OrcReader(str(tmp_path / "x.orc"), timezone=zone) as reader:
        assert reader.read()["t"].to_pylist() == times


def test_rows_in_an_order(written: Path, connection: LocalConnection) -> None:
    """An index has them in the order of wall clocks, which is another one."""
    table = connection.table(str(written))
    table.create_index("i", "t")
    try:
        for reader, session in ZONES:
            values = sorted(value for value in instants(written, reader).values() if value is not None)
            where = predicate("t >= '2024-10-26 12:00:00'")
            scan = table.scan().with_zones(partial(TimeZones, reader, session))
            clock = datetime.datetime(2024, 10, 26, 12, tzinfo=zoneinfo.ZoneInfo(session))
            expected = [value for value in values if value >= clock]
            for limit in (None, 300):
                rows = scan.narrowed(where, ["t"], limit).order_by("t").to_arrow()
                assert rows.schema.field("t").type == INSTANT
                assert rows["t"].to_pylist() == expected[:limit]
            aggregated = scan.narrowed(where, None, None)
            if reader == "UTC":
                assert aggregated.min("t") == expected[0]
                assert aggregated.value_counts("t")["t"].to_pylist() == sorted(set(expected))
            else:
                with raises(PredicateError):
                    aggregated.min("t")
                with raises(PredicateError):
                    aggregated.value_counts("t")
                count = Aggregate(AggregateFunction.COUNT, None, "n")
                with pytest.raises(PredicateError, match="cannot be grouped or compared here"):
                    aggregated.aggregate([count], "t").to_arrow()
                assert aggregated.count("t") == len(expected)
    finally:
        table.drop_index("i")


def test_what_depends_on_the_clock_of_a_session(written: Path, connection: LocalConnection) -> None:
    scan = connection.table(str(written)).scan()
    in_utc = scan.with_zones(lambda: TimeZones("Europe/Berlin", "UTC"))
    values = instants(written, "Europe/Berlin").values()
    result = in_utc.narrowed(predicate("hour(t) = 1 AND t < CAST('2000-01-01' AS TIMESTAMP)"), ["t"], None)
    assert result.count() == sum(
        value is not None and value.hour == 1 and value.year < 2000 for value in values
    )
    elsewhere = scan.with_zones(lambda: TimeZones("UTC", "Asia/Kolkata"))
    for text in (
        "date_trunc('HOUR', t) = TIMESTAMP '2020-01-01 00:00:00'",
        "CAST(id AS STRING) = TIMESTAMP '2020-01-01 00:00:00'",
        "hour(t + INTERVAL 1 DAY) = 3",
    ):
        with raises(PredicateError):
            elsewhere.narrowed(predicate(text), ["id"], None).plan()
    clock = zoneinfo.ZoneInfo("Asia/Kolkata")
    shown = [value.astimezone(clock) for value in instants(written, "UTC").values() if value is not None]
    for text, matching in (
        ("CAST(t AS DATE) = DATE '2024-03-31'", [time.date().isoformat() == "2024-03-31" for time in shown]),
        ("NOT year(t) = 2024", [time.year != 2024 for time in shown]),
        ("month(t) = 3", [time.month == 3 for time in shown]),
        ("hour(t) = 1 AND NOT minute(t) < 30", [time.hour == 1 and time.minute >= 30 for time in shown]),
        ("CAST(t AS STRING) LIKE '%-31 0%'", [f"{time:%d %H}".startswith("31 0") for time in shown]),
    ):
        assert elsewhere.narrowed(predicate(text), ["id"], None).count() == sum(matching) > 0
    with raises(PredicateError):
        scan.with_zones(lambda: TimeZones("No/Where", "UTC")).plan()
    with raises(PredicateError):
        scan.with_zones(lambda: TimeZones("UTC", "No/Where")).narrowed(
            predicate("t < '2020-01-01'"), None, None
        ).plan()
    in_toronto = scan.with_zones(lambda: TimeZones("UTC", "America/Toronto"))
    with raises(PredicateError):
        in_toronto.narrowed(predicate("t < DATE '1919-03-31'"), None, None).plan()
    # a day with two midnights is no range of instants, also beside one that is
    in_havana = scan.with_zones(lambda: TimeZones("UTC", "America/Havana"))
    first, second, steady = (f"TIMESTAMP '2023-{day} 00:00:00'" for day in ("11-05", "11-06", "07-01"))
    in_havana.narrowed(predicate(f"date_trunc('DAY', t) IN ({steady}, {second})"), None, None).plan()
    for days in (first, f"{steady}, {first}", f"{first}, {second}"):
        with pytest.raises(PredicateError, match="in the session's time zone"):
            in_havana.narrowed(predicate(f"date_trunc('DAY', t) IN ({days})"), None, None).plan()


@pytest.mark.parametrize("zone", ["GMT+0", "UTC+00:00", "-00:00", "+0", "Etc/GMT"])
def test_sessions_with_an_offset_of_zero(written: Path, connection: LocalConnection, zone: str) -> None:
    scan = connection.table(str(written)).scan(None, ["id"])
    condition = predicate("hour(t) = 1")
    rows = scan.with_zones(lambda: TimeZones("UTC", zone)).narrowed(condition, ["id"], None).to_arrow()
    expected = scan.with_zones(lambda: TimeZones("UTC", "UTC")).narrowed(condition, ["id"], None).to_arrow()
    assert rows.num_rows > 0
    assert rows == expected
    assert TimeZones("UTC", zone).is_utc


def test_one_spelling_of_a_time_zone() -> None:
    spellings = ("UTC+3", "GMT+3", "+03:00", "+3", "GMT+03:00", "+0300", "UT+030000")
    assert {TimeZones("Etc/UTC", zone).recorded for zone in spellings} == {"UTC +03:00"}
    assert TimeZones("PST", "-0230").recorded == "America/Los_Angeles -02:30"


def test_proofs_near_transitions(written: Path, connection: LocalConnection) -> None:
    """Indexes of wall clocks stay right where instants differ."""
    table = connection.table(str(written))
    table.create_index("i", "t")
    try:
        zones = TimeZones("Europe/Berlin", "Europe/Berlin")
        for text in (*day_conditions("t")[::20], UNSTEADY.format("t")):
            scan = table.scan(text, ["t"], mode="prove").with_zones(lambda: zones)
            rows = scan.order_by("t").to_arrow().num_rows
            assert rows == table.scan(text).with_zones(lambda: zones).count()
        assert [index.status for index in table.indexes()] == ["fresh"]
    finally:
        table.drop_index("i")


def predicate(text: str) -> Any:
    from hindex.sql import parse_predicate

    return parse_predicate(text)


def instants(path: Path, zone: str) -> dict[int, datetime.datetime | None]:
    """The column ``t`` of all files by ``id``, decoded as a whole."""
    result: dict[int, datetime.datetime | None] = {}
    for file in sorted(path.glob("*.orc")):
        with OrcReader(str(file), timezone=zone) as reader:
            rows = reader.read(["id", "t"])
        result |= dict(zip(rows["id"].to_pylist(), rows["t"].to_pylist(), strict=True))
    return result
