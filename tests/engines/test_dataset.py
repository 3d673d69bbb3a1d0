"""Datasets: rows through DuckDB, Polars and PyArrow, and what they skip."""

from __future__ import annotations

import datetime
import logging
import math
import multiprocessing
import operator
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import hindex
from hindex import Scan, Table
from hindex.api.index import IndexSpec
from hindex.engines.dataset import DatasetFragment, IndexedDataset
from hindex.errors import (
    ArgumentTypeError,
    ColumnError,
    FallbackError,
    PredicateError,
    TableError,
    UnsupportedError,
)
from hindex.plan.time_zones import TimeZones
from tests.scan.wrong_indexes import damage_pages
from tests.support.chars import as_char
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns
from tests.support.work import forget
from tests.support.writers import write_pyarrow, write_pyorc

FILES, FILE_ROWS = 3, 4000
ROWS = FILES * FILE_ROWS
A, S = pc.field("a"), pc.field("s")


def columns(numbers: range) -> dict[str, pa.Array]:
    start = datetime.datetime(2024, 1, 1)
    return {
        "id": pa.array(numbers, pa.int64()),
        "a": pa.array([number % 500 for number in numbers], pa.int32()),
        "s": pa.array([None if number % 11 == 0 else f"s{number % 700}" for number in numbers]),
        "d": pa.array([float("nan") if number % 3 == 0 else number / 10 for number in numbers]),
        "time": pa.array(
            [start + datetime.timedelta(minutes=number) for number in numbers], pa.timestamp("us")
        ),
        "st": pa.array([{"x": number % 9} for number in numbers]),
    }


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Three files of several stripes each, with indexes on ``a``, ``s``, ``d`` and ``id``."""
    path = tmp_path / "events"
    for number in range(FILES):
        rows = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        write_columns(path / f"{number}.orc", columns(rows), stripe=20_000, stride=500)
    specs = [IndexSpec(f"by_{name}", name) for name in "asd"]
    connection.table(str(path)).create_indexes([*specs, IndexSpec("by_id", "id", "minmax")])
    return hindex.connect().table(str(path))


@pytest.fixture
def plain() -> pa.Table:
    return pa.table(columns(range(ROWS)))


def ids(selected: pa.Table) -> list[int]:
    numbers: list[int] = selected["id"].to_pylist()
    return sorted(numbers)


def scanned(caplog: pytest.LogCaptureFixture) -> str:
    """The log line of the last scan."""
    return [record.getMessage() for record in caplog.records if record.name == "hindex.scan"][-1]


def pushed(caplog: pytest.LogCaptureFixture) -> str:
    """The log line of the last scanner of a dataset."""
    return [record.getMessage() for record in caplog.records if record.name == "hindex.engines"][-1]


def test_schema(table: Table, plain: pa.Table) -> None:
    dataset = table.dataset()
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema == plain.schema
    # NaN differs from NaN
    assert dataset.to_table().drop_columns("d") == plain.drop_columns("d")
    assert repr(dataset).startswith("IndexedDataset('")


@pytest.mark.parametrize(
    ("where", "predicate", "read"),
    [
        ("id = 77", "id = 77", "1 of 3 files, 1 of"),
        ("a = 77", "a = 77", "3 of 3 files"),
        ("a = 501", "a = 501", "0 of 3 files, 0 of"),
        ("a IN (1, 2) AND id < 500", "a IS NOT NULL AND a IN (1, 2) AND id < 500", "1 of 3 files, 1 of"),
        ("s IS NULL AND a = 3", "s IS NULL AND a = 3", "2 of 3 files, 2 of"),
        ("d > 1199.5", None, None),
        (
            "time >= TIMESTAMP '2024-01-09 07:00:00'",
            "time >= TIMESTAMP '2024-01-09 07:00:00.000000'",
            "1 of 3",
        ),
    ],
)
def test_duckdb(
    table: Table,
    plain: pa.Table,
    caplog: pytest.LogCaptureFixture,
    where: str,
    predicate: str | None,
    read: str | None,
) -> None:
    with caplog.at_level(logging.INFO, "hindex"), duckdb.connect() as database:
        database.register("events", table.dataset())
        database.register("plain", plain)
        rows, expected = (
            database.sql(f"SELECT id FROM {name} WHERE {where}").to_arrow_table()
            for name in ("events", "plain")
        )
    assert ids(rows) == ids(expected)
    if predicate is None:
        assert "; no filter" in pushed(caplog)  # DuckDB pushes no comparison that NaN passes
    else:
        assert f"; pushed {predicate}" in pushed(caplog)
    if read is not None:
        assert read in scanned(caplog)
    assert "st" not in pushed(caplog).partition(";")[0].split(": columns ")[1].split(", ")


@pytest.mark.parametrize(
    ("condition", "predicate", "read"),
    [
        (pl.col("a") == 77, "a = 77", "3 of 3 files"),
        (pl.col("id").is_between(10, 20), "id >= 10 AND id <= 20", "1 of 3 files, 1 of"),
        ((pl.col("id") == 7) & (pl.col("s").str.len_chars() > 1), "id = 7", "1 of 3 files, 1 of"),
        (pl.col("s").is_null() & (pl.col("a") == 3), "a = 3 AND s IS NULL", "2 of 3 files, 2 of"),
        (pl.col("a").is_in([1, 501]), "a IN (1, 501)", "3 of 3 files"),
        (pl.col("a").is_in([501]), "a IN (501)", "0 of 3 files"),
    ],
)
def test_polars(
    table: Table,
    plain: pa.Table,
    caplog: pytest.LogCaptureFixture,
    condition: pl.Expr,
    predicate: str,
    read: str,
) -> None:
    with caplog.at_level(logging.INFO, "hindex"):
        rows = pl.scan_pyarrow_dataset(table.dataset()).filter(condition).select("id").collect()
    expected = pl.scan_pyarrow_dataset(ds.dataset(plain)).filter(condition).select("id").collect()
    assert sorted(rows["id"]) == sorted(expected["id"])
    assert f"; pushed {predicate}" in pushed(caplog)
    assert read in scanned(caplog)


def test_explain(table: Table) -> None:
    dataset = table.dataset()
    explanation = dataset.explain((A == 77) & (pc.utf8_length(S) > 2), columns=["id"])
    assert (str(explanation.pushed), explanation.applied) == ("a = 77", ("greater(utf8_length(s), 2)",))
    assert explanation.scan.rows is not None
    assert (explanation.scan.rows.kept, explanation.scan.rows.total) == (ROWS // 500, ROWS)
    assert explanation.scan.columns == ("id", "a", "s")
    assert "not pushed: greater(utf8_length(s), 2)" in str(explanation)
    nothing = dataset.explain(pc.utf8_length(S) > 2)
    assert nothing.pushed is None
    assert nothing.scan.rows is None or nothing.scan.rows.kept in (None, ROWS)
    assert dataset.explain().filter == ""


def test_nan_rows_are_those_of_pyarrow(table: Table, plain: pa.Table) -> None:
    """NaN is greater than every number in Spark, and compares with none in PyArrow."""
    dataset, d = table.dataset(), pc.field("d")
    for condition in (
        d > 1199.5,
        ~(d > 1199.5),
        d != 5.0,
        d == pc.scalar(math.nan),
        pc.is_nan(d),
        ~(d <= 1.0),
    ):
        expected = ids(ds.dataset(plain).to_table(filter=condition))
        assert ids(dataset.to_table(filter=condition)) == expected
        assert table.scan(condition, ["id"]).to_arrow()["id"].to_pylist() == expected
        assert dataset.count_rows(condition) == len(expected)
    kept = dataset.explain(d > 1199.5).scan.rows
    assert kept is not None
    assert kept.kept == 3


def test_nulls_beside_numbers_beyond_64_bits(tmp_path: Path) -> None:
    """Spark replaces such comparisons by constants, which keeps nulls; PyArrow does not."""
    rows = pa.table({"a": pa.array([1, None, 3]), "i": pa.array([None, 2, None], pa.int32())})
    write_pyarrow(tmp_path / "t" / "x.orc", rows)
    dataset = hindex.connect().table(str(tmp_path / "t")).dataset()
    for value in (Decimal(10) ** 20, -(Decimal(10) ** 20), Decimal(1 << 63), 1e30, Decimal("2.5")):
        for name in ("a", "i"):
            field = pc.field(name)
            for condition in (field < value, field <= value, field > value, field >= value, field != value):
                for whole in (condition, ~condition, condition | (pc.field("a") == 3)):
                    expected = rows.filter(whole)
                    assert dataset.count_rows(filter=whole) == expected.num_rows
                    assert dataset.to_table(filter=whole) == expected


def test_columns_and_counts(table: Table, plain: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    dataset, source = table.dataset(), ds.dataset(plain)
    projected = {"twice": pc.field("id") * 2, "x": pc.field("st", "x")}
    assert dataset.to_table(columns=projected, filter=A == 3) == source.to_table(
        columns=projected, filter=A == 3
    )
    assert dataset.to_table(columns=["s", "id"]).column_names == ["s", "id"]
    assert dataset.to_table(columns=[], filter=A == 3).num_rows == ROWS // 500
    assert dataset.head(5, columns=["id"]) == source.head(5, columns=["id"])
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        dataset.to_table(columns=["nope"])
    with caplog.at_level(logging.INFO, "hindex"):
        assert dataset.count_rows() == ROWS
        assert dataset.count_rows(A == 3) == ROWS // 500
    assert "0 of 3 files, 0 of" in scanned(caplog)
    assert dataset.count_rows(pc.utf8_length(S) > 3) == source.count_rows(pc.utf8_length(S) > 3)
    # a field by its number is of the table, not of the columns that are read
    assert dataset.to_table(columns=["s"], filter=pc.field(1) == 3) == source.to_table(
        columns=["s"], filter=A == 3
    )


def test_filtered_datasets(table: Table, plain: pa.Table) -> None:
    dataset = table.dataset().filter(A == 3).filter(S.is_valid())
    assert dataset.count_rows() == ds.dataset(plain).count_rows((A == 3) & S.is_valid())
    assert ids(dataset.to_table(filter=pc.field("id") < 5000)) == ids(
        ds.dataset(plain).to_table(filter=(A == 3) & S.is_valid() & (pc.field("id") < 5000))
    )


def test_wrong_arguments(table: Table) -> None:
    dataset: Any = table.dataset()
    for method in ("count_rows", "get_fragments", "explain", "scanner"):
        with raises(ArgumentTypeError):
            getattr(dataset, method)(filter="a = 3")
    with raises(ArgumentTypeError):
        dataset.filter("a = 3")
    with raises(ArgumentTypeError):
        next(dataset.get_fragments()).to_table(filter="a = 3")
    with raises(ArgumentTypeError):
        dataset.scanner(fliter=A == 3)
    with pytest.raises(TypeError, match="Expected an Expression"):
        dataset.to_table({"b": "a"})
    with raises(ColumnError):
        dataset.explain(columns=["tim"])


def test_batches_are_even(table: Table) -> None:
    sizes = [batch.num_rows for batch in table.dataset().scanner(["id"], batch_size=1000).to_batches()]
    assert sizes == [1000] * (ROWS // 1000)
    assert [batch.num_rows for batch in table.dataset().to_batches(columns=["id"], filter=A < 2)] == [
        2 * ROWS // 500
    ]


def check_filters(dataset: IndexedDataset, conditions: Iterable[pc.Expression]) -> None:
    """Compare the rows of some filters with those of the whole table in memory."""
    whole = ds.dataset(dataset.to_table())
    for condition in conditions:
        assert dataset.to_table(filter=condition) == whole.to_table(filter=condition), condition


def instants(name: str) -> list[pc.Expression]:
    """Conditions on instants around the end of daylight saving in Berlin."""
    field = pc.field(name)
    turn = datetime.datetime(2024, 10, 27, 1, tzinfo=datetime.UTC)
    times = [turn + datetime.timedelta(minutes=minutes) for minutes in (-90, -30, 0, 30, 90)]
    offset = datetime.timezone(datetime.timedelta(hours=2))
    conditions = [
        compare(field, time) for time in times for compare in (operator.eq, operator.lt, operator.ge)
    ]
    nanos = pa.scalar(times[0], pa.timestamp("ns", "UTC"))
    return [
        *conditions,
        field == times[1].astimezone(offset),
        field.isin(times),
        ~field.isin(times),
        field > nanos,
    ]


def minutes(count: int, zone: datetime.tzinfo | None) -> list[datetime.datetime | None]:
    start = datetime.datetime(2024, 10, 26, 22, tzinfo=zone)
    return [None if i % 17 == 0 else start + datetime.timedelta(minutes=10 * i) for i in range(count)]


def test_instants(connection: LocalConnection, tmp_path: Path) -> None:
    times = pa.array(minutes(60, datetime.UTC), pa.timestamp("us", "UTC"))
    write_columns(tmp_path / "t" / "0.orc", {"time": times})
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_time", "time")
    dataset = table.dataset()
    assert dataset.schema.field("time").type == times.type
    check_filters(dataset, instants("time"))
    rows = dataset.explain(pc.field("time") == times[5]).scan.rows
    assert rows is not None
    assert rows.kept == 1
    with pytest.raises(pa.ArrowInvalid, match="timezone"):
        dataset.to_table(filter=pc.field("time") == datetime.datetime(2024, 10, 27))


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("compare", [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
])  # fmt: skip
def test_nanoseconds_between_two_microseconds(
    connection: LocalConnection, tmp_path: Path, zone: str | None, compare: Callable[[Any, Any], Any]
) -> None:
    """No time of the column has such a value; the bounds around it lose none of its neighbours."""
    start = 1_700_000_000_000_000
    micros = [None if i == 3 else start + i for i in range(7)]
    times = pa.array(micros, pa.timestamp("us", zone))
    write_columns(tmp_path / "t" / "0.orc", {"time": times})
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_time", "time")
    for offset in (-1, 1, 999, 1_000, 1_500, 2_500, 3_001, 6_000, 6_001):
        nanos = start * 1000 + offset
        literal = pa.scalar(nanos, pa.timestamp("ns", zone))
        expected = [item for item in micros if item is not None and compare(item * 1000, nanos)]
        for condition in (compare(pc.field("time"), literal), ~~compare(pc.field("time"), literal)):
            found = table.dataset().to_table(filter=condition)
            assert found["time"].cast(pa.int64()).to_pylist() == expected, condition


def test_instants_of_a_spark_session(
    connection: LocalConnection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a session, wall clocks are instants, by the time zone of its Java."""
    write_columns(tmp_path / "t" / "0.orc", {"time": pa.array(minutes(60, None), pa.timestamp("us"))})
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_time", "time")
    monkeypatch.setattr(connection, "zones", lambda: TimeZones("Europe/Berlin", "America/New_York"))
    dataset = table.dataset()
    assert dataset.schema.field("time").type == pa.timestamp("us", "UTC")
    check_filters(dataset, instants("time"))
    rows = dataset.explain(pc.field("time") == dataset.to_table()["time"][5]).scan.rows
    assert rows is not None
    assert rows.kept == 1


def test_parts_of_strings(connection: LocalConnection, tmp_path: Path) -> None:
    """An NGRAM index finds candidates; of a string that is not UTF-8, PyArrow compares the bytes."""
    texts = [f"line {number} of 100%_sure" for number in range(1000)]
    write_columns(
        tmp_path / "t" / "0.orc",
        {"id": pa.array(range(1000)), "s": pa.array([*texts[:-1], None])},
        stride=100,
    )
    table = connection.table(str(tmp_path / "t"))
    table.create_index("parts", "s", "ngram")
    dataset = table.dataset()
    parts = ["line 77 ", "e 7", "", "%_su", "100%", "nowhere", "\\", "'"]
    for function in (pc.starts_with, pc.ends_with, pc.match_substring):
        check_filters(dataset, [*(function(S, part) for part in parts), ~function(S, "e 7")])
    rows = dataset.explain(pc.match_substring(S, "line 77 ")).scan.rows
    assert rows is not None
    # the blocks of 32 rows that have all of its n-grams
    assert rows.kept == 64
    assert dataset.count_rows(pc.ends_with(S, "_sure")) == 999
    data = pa.array([b"abc", b"\xff abc", None, b"b\xffc"] * 5)
    damaged = pa.StringArray.from_buffers(len(data), *data.buffers()[1:], data.buffers()[0], data.null_count)
    write_pyarrow(tmp_path / "t" / "1.orc", pa.table({"id": pa.array(range(20)), "s": damaged}))
    for condition, count in (
        (pc.match_substring(S, "abc"), 10),
        (~pc.ends_with(S, "bc"), 5 + 999),
        (pc.ends_with(S, b"\xffc"), 5),
        (pc.starts_with(S, b"\xff"), 5),
    ):
        assert dataset.to_table(filter=condition).num_rows == dataset.count_rows(condition) == count
        fragments = dataset.get_fragments(condition)
        assert sum(fragment.to_table(filter=condition).num_rows for fragment in fragments) == count


def test_parts_of_dates(connection: LocalConnection, tmp_path: Path) -> None:
    """A year is a range of days, which the index answers; the other parts are evaluated."""
    days = [None, *range(-800_000, 800_000, 1601), *range(18_000, 20_000, 7)]
    columns = {"id": pa.array(range(len(days))), "d": pa.array(days, pa.int32()).cast(pa.date32())}
    write_columns(tmp_path / "t" / "0.orc", columns, stride=100)
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_d", "d")
    dataset, d = table.dataset(), pc.field("d")
    filters = [
        function(d) == value for value in (1, 4, 12, 60) for function in (pc.quarter, pc.month, pc.day)
    ]
    filters += [pc.day_of_year(d).isin([1, 60, 366]), ~(pc.month(d) < 3), pc.year(d).is_null()]
    filters += [
        pc.year(d) == 2021,
        pc.year(d) < 0,
        pc.year(d).cast(pa.int32()) > 2022,
        pc.year(d) != 2020.0,
        pc.year(d).cast(pa.int64()) > 2022,
    ]
    check_filters(dataset, [*filters, pc.iso_week(d) == 3])
    explained = dataset.explain(pc.year(d) == 2021)
    assert (str(explained.pushed), explained.applied) == ("year(d) = 2021", ())
    rows = explained.scan.rows
    assert rows is not None
    assert rows.kept == dataset.count_rows(pc.year(d) == 2021) == 52


CHARS = ["a", "ab", "abcd", "b", "", "a\0", None] * 50


@pytest.mark.parametrize("is_stored_padded", [True, False])
def test_char_columns(connection: LocalConnection, tmp_path: Path, is_stored_padded: bool) -> None:
    """PyArrow compares the blanks at the end of a value, and Spark pads what it compares."""
    path = tmp_path / "t" / "0.orc"
    if is_stored_padded:
        ids = pa.array(range(len(CHARS)))
        write_pyorc(path, pa.table({"id": ids, "c": pa.array(CHARS)}), stride=100, types={"c": "char(4)"})
    else:
        as_char(path, CHARS, 4)
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_c", "c")
    dataset, c = table.dataset(), pc.field("c")
    equal = [
        compare(c, value)
        for value in ("a", "a   ", "ab", "ab  ", "abcd", "abcde", "abcd ", "", "    ", "a\0")
        for compare in (operator.eq, operator.ne, operator.lt, operator.gt, operator.le, operator.ge)
    ]
    others = [c.isin(["a   ", "b"]), ~c.isin(["a   ", "abcd  "]), c.is_null(), pc.starts_with(c, "a ")]
    check_filters(dataset, [*equal, *(~condition for condition in equal), *others])
    rows = dataset.explain(c == "ab  ").scan.rows
    assert rows is not None
    assert rows.kept == 50


def test_partitions_and_letter_case(connection: LocalConnection, tmp_path: Path) -> None:
    for part in ("x", "y"):
        write_columns(tmp_path / "t" / f"p={part}" / "0.orc", {"A": pa.array(range(300))})
    dataset = connection.table(str(tmp_path / "t")).dataset()
    p, a = pc.field("p"), pc.field("A")
    check_filters(
        dataset, [a == 5, p == "x", (p == "y") & (a < 7), (p == "y") | (a == 7), ~(p == "x"), p > "x"]
    )
    assert dataset.explain(p == "x").scan.files.kept == 1
    with pytest.raises(pa.ArrowInvalid, match="No match"):
        dataset.to_table(filter=pc.field("a") == 5)


def test_what_else_pyarrow_does_with_datasets(table: Table, plain: pa.Table, tmp_path: Path) -> None:
    dataset = table.dataset()
    descending = dataset.sort_by([("id", "descending")]).to_table()
    assert descending["id"].to_pylist() == list(range(ROWS))[::-1]
    other = pa.table({"a": pa.array([3], pa.int32()), "name": ["three"]})
    write_columns(tmp_path / "flat" / "0.orc", {name: plain[name].combine_chunks() for name in ("id", "a")})
    flat = hindex.connect().table(str(tmp_path / "flat")).dataset()
    write_columns(
        tmp_path / "names" / "0.orc", {name: other[name].combine_chunks() for name in other.column_names}
    )
    for right in (ds.dataset(other), hindex.connect().table(str(tmp_path / "names")).dataset()):
        # PyArrow joins no structs
        joined = flat.join(right, "a", join_type="inner")
        assert joined.to_table().num_rows == ROWS // 500
    with raises(UnsupportedError):
        ds.dataset([dataset, ds.dataset(plain)])
    with pytest.raises(pa.ArrowInvalid, match="to_table"):
        ds.dataset(other).join(dataset, "a")
    ds.write_dataset(dataset.filter(A == 3), tmp_path / "copy", format="parquet")
    assert ds.dataset(tmp_path / "copy").count_rows() == ROWS // 500


def test_rows_are_those_of_the_time_of_reading(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset()
    path = tmp_path / "events" / "new.orc"
    write_columns(path, columns(range(ROWS, ROWS + 500)))
    assert dataset.count_rows(A == 3) == ROWS // 500 + 1
    assert len(ids(dataset.to_table(filter=A == 3))) == ROWS // 500 + 1
    for old in path.parent.glob("*.orc"):
        old.unlink()
    write_columns(path, {"id": pa.array([1.5])})
    with raises(TableError):
        dataset.to_table(columns=["id"])


def test_strict_mode(table: Table) -> None:
    strict = hindex.connect(mode="strict").table(table.name).dataset()
    assert strict.to_table(filter=A == 3).num_rows == ROWS // 500
    with pytest.raises(FallbackError):
        strict.to_table(filter=pc.field("time") > datetime.datetime(2024, 1, 2))


def test_fragments_of_strict_mode_refuse_a_damaged_index(table: Table) -> None:
    """Its pages are read when a fragment is, which another process may do."""
    lenient, strict = (
        hindex.connect(mode=mode).table(table.name).dataset() for mode in ("lenient", "strict")
    )
    fragments = [(fragment, True) for fragment in strict.get_fragments(A == 3)]
    fragments += [(fragment, False) for fragment in lenient.get_fragments(A == 3)]
    damage_pages(table)
    for fragment, is_strict in fragments:
        forget()
        copy: DatasetFragment = pickle.loads(pickle.dumps(fragment))
        if is_strict:
            with pytest.raises(FallbackError, match="CORRUPT"):
                copy.to_table()
        else:
            assert copy.to_table().num_rows == FILE_ROWS // 500


def test_scans_take_expressions(table: Table) -> None:
    scan = table.scan((A == 3) & S.is_valid(), ["id"])
    assert str(scan.predicate) == "a = 3 AND s IS NOT NULL"
    assert scan.count() == ROWS // 500 - sum(number % 11 == 0 for number in range(3, ROWS, 500))
    with raises(PredicateError):
        table.scan(pc.utf8_length(S) > 2)
    with raises(ColumnError):
        table.scan(pc.field("tim") == 3)
    with raises(PredicateError):
        table.drop_index("by_a", where=A == 3)


def count(fragment: DatasetFragment) -> int:
    return fragment.count_rows()


def total(reading: Scan | IndexedDataset) -> int:
    rows = reading.to_arrow() if isinstance(reading, Scan) else reading.to_table()
    return int(rows.num_rows)


def test_pickles(table: Table, connection: LocalConnection) -> None:
    copies: list[Callable[[], Any]] = [
        lambda: pickle.loads(pickle.dumps(table)).scan("a = 3"),
        lambda: pickle.loads(pickle.dumps(table.scan("a = 3"))),
        lambda: pickle.loads(pickle.dumps(table.scan("a = 3").on_snapshot(table.snapshot()))),
        lambda: pickle.loads(pickle.dumps(table.dataset().filter(A == 3))),
    ]
    assert [total(copy()) for copy in copies] == [ROWS // 500] * 4
    planned = table.scan("a = 3", mode="prove")
    planned.to_arrow()
    assert pickle.loads(pickle.dumps(planned)).mode is planned.mode
    # a table takes no other tables of its connection along
    name = table.name.encode()
    assert name in pickle.dumps(table)
    assert name not in pickle.dumps(connection)
    connection._spark = connection.spark()
    with raises(UnsupportedError):
        pickle.dumps(connection.table(table.name))


def test_fragments(table: Table, plain: pa.Table) -> None:
    dataset = table.dataset()
    assert len(list(dataset.get_fragments())) == FILES
    last = list(dataset.get_fragments(pc.field("id") > 9000))
    assert [Path(fragment.path).name for fragment in last] == ["2.orc"]
    fragments = list(dataset.get_fragments(A == 3))
    assert {fragment.physical_schema == plain.schema for fragment in fragments} == {True}
    assert [fragment.count_rows() for fragment in fragments] == [FILE_ROWS // 500] * FILES
    tables = [fragment.to_table(columns=["id"], filter=pc.field("id") > 5000) for fragment in fragments]
    expected = ds.dataset(plain).to_table(columns=["id"], filter=(A == 3) & (pc.field("id") > 5000))
    assert ids(pa.concat_tables(tables)) == ids(expected)


def test_other_processes_read_fragments_and_scans(table: Table) -> None:
    fragments = list(table.dataset().get_fragments(A == 3))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert sum(pool.map(count, fragments)) == ROWS // 500
        assert pool.submit(total, table.scan("a = 3")).result() == ROWS // 500
