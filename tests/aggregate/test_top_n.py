"""Rows in an order, and the first of them: right whatever tells their values, and no more read than that takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError
from hindex.explanations.explanation import ReadPath
from hindex.index.page_cache import shared_cache
from hindex.orc import OrcReader
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns, write_rows
from tests.support.work import forget
from tests.support.writers import write_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 3, 400
A: list[int | None] = [None if i % 9 == 0 else (i * 37) % 60 - 20 for i in range(FILES * ROWS)]
S: list[str | None] = [None if i % 13 == 0 else "x" * (i % 70) + str(i % 5) for i in range(FILES * ROWS)]


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    for number in range(FILES):
        part = slice(number * ROWS, (number + 1) * ROWS)
        write_rows(tmp_path / "t" / f"{number}.orc", part.start, A[part], S[part])
    return connection.table(str(tmp_path / "t"))


def first(
    values: list[Any], rows: list[int], *, descending: bool, nulls_first: bool, limit: int | None
) -> list[int]:
    """The ids in order: those of one value as they come."""
    held = [i for i in rows if values[i] is not None]
    held.sort(key=lambda i: values[i], reverse=descending)
    nulls = [i for i in rows if values[i] is None]
    return ([*nulls, *held] if nulls_first else [*held, *nulls])[:limit]


def ids(scan: Scan) -> list[int]:
    rows: list[int] = scan.to_arrow().column("id").to_pylist()
    return rows


@pytest.mark.parametrize("indexes", [(), ("bitmap",), ("minmax",)], ids=["read", "bitmap", "minmax"])
def test_every_order(table: Table, indexes: tuple[str, ...]) -> None:
    for using in indexes:
        table.create_indexes([IndexSpec(f"{using}_{name}", name, using) for name in ("a", "s")])
    cases = [
        (column, descending, nulls, limit, where)
        for column in ("a", "s")
        for descending, nulls in ((False, None), (True, None), (False, False), (True, True))
        for limit, where in ((7, None), (200, "id > 450"), (3, "a = 5 OR id = 8"), (None, "id < 50"))
    ]
    for column, descending, nulls, limit, where in cases:
        values = A if column == "a" else S
        rows = [
            i
            for i in range(FILES * ROWS)
            if where is None
            or (where == "id > 450" and i > 450)
            or (where == "id < 50" and i < 50)
            or (where == "a = 5 OR id = 8" and (A[i] == 5 or i == 8))
        ]
        scan = table.scan(where, ["id", column], limit).order_by(
            column, descending=descending, nulls_first=nulls
        )
        place = (not descending) if nulls is None else nulls
        expected = first(values, rows, descending=descending, nulls_first=place, limit=limit)
        result = scan.to_arrow()
        assert result.column("id").to_pylist() == expected, scan
        assert result.column(column).to_pylist() == [values[i] for i in expected], scan
        for offset in (2, 150):
            after = scan.limit(None, offset=offset).to_arrow()
            assert after.column("id").to_pylist() == expected[offset:], (scan, offset)
        alone = table.scan(where, [column], limit).order_by(column, descending=descending, nulls_first=nulls)
        assert alone.to_arrow().column(column).to_pylist() == [values[i] for i in expected], scan


def test_equal_values_are_in_the_order_of_their_files(connection: LocalConnection, tmp_path: Path) -> None:
    """Also where the later file has the least value, and so is read first."""
    write_rows(tmp_path / "t" / "0.orc", 0, [5, 7])
    write_rows(tmp_path / "t" / "1.orc", 2, [1, 5])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("i", "a")
    assert ids(table.scan(None, ["id"], 2).order_by("a")) == [2, 0]


def test_an_index_of_many_keys_is_not_walked_for_a_few_rows(
    connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]
) -> None:
    columns = {"k": pa.array(range(5000)), "g": pa.array([(i * 7) % 5000 for i in range(5000)])}
    write_pyarrow(tmp_path / "t" / "a.orc", pa.table(columns), "none", stripe=1 << 26, stride=1000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("k", "k"), IndexSpec("g", "g", properties={"values_per_page": "50"})])
    for where, kept, walks in (("k IN (77, 88)", [77, 88], False), ("k < 2000", range(2000), True)):
        forget()
        opened.clear()
        before = shared_cache().counts
        scan = table.scan(where, ["g"], 1).order_by("g", descending=True)
        assert scan.to_arrow().column("g").to_pylist() == [max((i * 7) % 5000 for i in kept)]
        assert shared_cache().counts.since(before).pages_read < 50, where
        assert sum(reader.counts.row_groups for reader in opened) == (0 if walks else 1), where
        by = "walks the index g" if walks else "the column is read and sorted"
        explained = scan.explain()
        assert explained.order == f"g DESC: {by}"
        assert (explained.path is ReadPath.INDEX_ONLY) == walks
    # all of an order is read and sorted, and other columns are read
    assert table.scan(None, ["g"]).order_by("g").explain().order == "g: the column is read and sorted"
    assert table.scan(None, ["k"], 2).order_by("g").explain().path not in (
        ReadPath.INDEX_ONLY,
        ReadPath.FULL_SCAN,
    )


@pytest.mark.parametrize("limit", [-3, 2.5, "3", 10**30])
def test_limits_that_are_refused(table: Table, limit: Any) -> None:
    with raises(ValueError):
        table.scan(limit=limit)
    integer: Any = np.int64(3)
    assert table.scan(limit=integer).to_arrow().num_rows == 3


def test_a_walk_stops_early(table: Table, connection: LocalConnection, opened: list[OrcReader]) -> None:
    """Stripes that cannot have one of the first rows are not opened, of the others a page or two is read."""
    table.create_index("by_id", "id", properties={"values_per_page": "10"})
    forget()
    opened.clear()
    before = shared_cache().counts
    assert ids(table.scan(None, ["id"], 3).order_by("id")) == [0, 1, 2]
    assert shared_cache().counts.since(before).pages_read == 1
    # the values are the keys, and the file is known by its tail at most
    assert sum(reader.counts.row_groups + reader.counts.whole_columns for reader in opened) == 0
    assert {Path(reader.path).name for reader in opened} <= {"0.orc", "1.orc", "2.orc"}
    forget()
    opened.clear()
    before = shared_cache().counts
    rows = table.scan("a IS NOT NULL", ["id", "s"], 3).order_by("id", descending=True).to_arrow()
    last = FILES * ROWS - 1
    assert rows.column("id").to_pylist() == [i for i in range(last, 0, -1) if A[i] is not None][:3]
    assert {
        Path(reader.path).name for reader in opened if reader.counts.chunks + reader.counts.whole_columns
    } == {"2.orc"}
    text = connection.sql(f"EXPLAIN SELECT s FROM '{table.name}' ORDER BY id DESC LIMIT 3")
    assert "order by   id DESC: walks the index by_id" in str(text)


def test_files_that_are_certainly_as_indexed_are_not_even_opened(
    table: Table, opened: list[OrcReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("by_id", "id")
    monkeypatch.setattr(
        "hindex.store.file_views.FileViews.is_certainly_fresh", property(lambda self: self.is_listed_fresh)
    )
    opened.clear()
    assert ids(table.scan(None, ["id"], 5).order_by("id", descending=True)) == list(range(1199, 1194, -1))
    assert [Path(reader.path).name for reader in opened] == ["2.orc"]


@pytest.mark.parametrize("using", [None, "bitmap", "minmax"])
def test_nulls_make_a_stripe_the_first_or_the_last(
    connection: LocalConnection, tmp_path: Path, using: str | None
) -> None:
    """The only NULL is where the greatest values are, and another one is alone in its file."""
    files: list[list[int | None]] = [[1, 2, 3], [4, 5], [98, None, 99], [None]]
    for number, a in enumerate(files):
        write_rows(tmp_path / "t" / f"{number}.orc", 10 * number, a)
    table = connection.table(str(tmp_path / "t"))
    if using is not None:
        table.create_index("a", "a", using)
    cases = {
        (False, None): [21, 30, 0],
        (False, False): [0, 1, 2],
        (True, None): [22, 20, 11],
        (True, True): [21, 30, 22],
    }
    for (descending, nulls_first), expected in cases.items():
        for limit in (1, 2, 3):
            scan = table.scan(None, ["id"], limit)
            assert ids(scan.order_by("a", descending=descending, nulls_first=nulls_first)) == expected[:limit]


def test_a_limit_reads_no_more_stripes_than_it_needs(table: Table, opened: list[OrcReader]) -> None:
    opened.clear()
    assert ids(table.scan(None, ["id"], 5)) == [0, 1, 2, 3, 4]
    assert len(opened) == 1
    whole = sum(reader.counts.row_groups + reader.counts.whole_columns for reader in opened)
    assert whole == 1
    # what has to be checked is read one stripe at a time at first, so that the first may be enough
    opened.clear()
    assert len(ids(table.scan("a >= -20", ["id"], 1))) == 1
    assert sum(reader.counts.row_groups + reader.counts.whole_columns for reader in opened) <= 4
    table.create_index("by_a", "a")
    opened.clear()
    assert (
        ids(table.scan("a IS NOT NULL", ["id"], 30))
        == [i for i in range(FILES * ROWS) if A[i] is not None][:30]
    )
    assert len(opened) == 1
    assert sum(reader.counts.row_groups + reader.counts.whole_columns for reader in opened) == 1


def test_stale_files_partitions_and_absent_columns(connection: LocalConnection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_columns(path / "p=2" / "a.orc", {"id": pa.array([0, 1, 2]), "x": pa.array([5, None, 3])})
    write_columns(path / "p=1" / "b.orc", {"id": pa.array([3, 4])})
    table = connection.table(str(path))
    table.create_index("x", "x")
    write_columns(path / "p=1" / "c.orc", {"id": pa.array([5, 6]), "x": pa.array([4, 9])})
    assert ids(table.scan(None, ["id"], 10).order_by("x", descending=True)) == [6, 0, 5, 2, 3, 4, 1]
    assert ids(table.scan(None, ["id"], 4).order_by("x")) == [3, 4, 1, 2]
    assert ids(table.scan(None, ["id"], 3).order_by("p")) == [3, 4, 5]
    assert ids(table.scan(None, ["id"], 2).order_by("p", descending=True)) == [0, 1]
    assert ids(table.scan(None, ["id"]).order_by("p", descending=True)) == [0, 1, 2, 3, 4, 5, 6]
    with raises(ColumnError):
        table.scan().order_by("nope")


def test_a_damaged_index_is_not_walked(table: Table) -> None:
    table.create_index("by_a", "a")
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[20:60] = b"\xff" * 40
        file.write_bytes(data)
    expected = first(A, list(range(len(A))), descending=True, nulls_first=False, limit=9)
    assert ids(table.scan(None, ["id"], 9).order_by("a", descending=True)) == expected


def test_orders_of_all_types_as_spark(
    spark: SparkSession, connection: LocalConnection, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    pools: dict[str, tuple[pa.DataType, list[Any]]] = {
        "d": (pa.float64(), [math.nan, -0.0, 0.0, 1.5, -math.inf, None]),
        "s": (
            pa.string(),
            ["", "a", "a ", "\u00e9", "\uffee", "\U0001f600", "x" * 80 + "1", "x" * 80 + "2", None],
        ),
        "y": (pa.binary(), [b"", b"\xff\x00", b"\xff", None]),
        "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
        "b": (pa.bool_(), [True, False, None]),
    }
    columns = {"id": pa.array(range(600))}
    for name, (of, pool) in pools.items():
        columns[name] = pa.array([pool[i] for i in rng.integers(0, len(pool), 600)], of)
    for number in range(2):
        part = pa.table({name: array.slice(number * 300, 300) for name, array in columns.items()})
        write_pyarrow(tmp_path / "t" / f"{number}.orc", part, "zlib", stripe=1000, stride=100)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec(name, name) for name in ("d", "s", "y", "l")])
    frame = spark.read.orc(str(tmp_path / "t"))
    orders = [
        f"{name} {way} NULLS {nulls}"
        for name in pools
        for way in ("ASC", "DESC")
        for nulls in ("FIRST", "LAST")
    ]
    ranks = [f"rank() OVER (ORDER BY {order}) AS r{at}" for at, order in enumerate(orders)]
    messages = frame.coalesce(1).selectExpr("id", *ranks).toArrow()
    by_id = {row["id"]: row for row in messages.to_pylist()}
    for at, order in enumerate(orders):
        name, way, _, nulls = order.split()
        scan = table.scan(None, ["id"], 250).order_by(
            name, descending=way == "DESC", nulls_first=nulls == "FIRST"
        )
        rows = [by_id[i][f"r{at}"] for i in ids(scan)]
        assert rows == sorted(row[f"r{at}"] for row in by_id.values())[:250], order
