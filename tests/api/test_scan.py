"""Scans of one table, some of whose columns are indexed: what is returned, and what was not read for it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import PredicateError, TableError
from hindex.explanations.explanation import ReadPath
from hindex.orc import OrcReader
from hindex.plan.reasons import Reason
from hindex.scan import scan_task_reader, task_runner
from hindex.scan.scan_task import ScanTask
from tests.support.messages import raises
from tests.support.small import ids, reasons, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, int | None, str | None]

FILE_ROWS = 1500
A: list[int | None] = [None if i % 7 == 0 else i % 50 for i in range(2 * FILE_ROWS)]
S: list[str | None] = [None if i % 11 == 0 else f"s{i % 3}" for i in range(2 * FILE_ROWS)]
ROWS: list[Row] = list(zip(range(2 * FILE_ROWS), A, S, strict=True))


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two files of a few stripes; ``a`` and ``s`` are indexed, ``id`` is not."""
    path = tmp_path_factory.mktemp("scan") / "table"
    for number in range(2):
        part = slice(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        write_rows(path / f"{number}.orc", part.start, A[part], S[part])
    result = hindex.connect(spark=spark).table(str(path))
    result.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return result


@pytest.fixture
def opened(windows: str, monkeypatch: pytest.MonkeyPatch) -> list[OrcReader]:
    """The data files that were opened."""
    readers: list[OrcReader] = []

    def open_reader(source: str, timezone: str | None = None) -> OrcReader:
        readers.append(OrcReader(source, timezone=timezone))
        return readers[-1]

    monkeypatch.setattr(scan_task_reader, "OrcReader", open_reader)
    return readers


def test_indexed_columns_alone(table: Table, opened: list[OrcReader]) -> None:
    """Every case is decided by indexes: counting reads no data."""
    cases: list[tuple[str, Callable[[Row], bool]]] = [
        ("a > 3 AND a < 7", lambda r: r[1] is not None and 3 < r[1] < 7),
        ("a >= 3 AND a <= 7", lambda r: r[1] is not None and 3 <= r[1] <= 7),
        ("a >= 200", lambda r: False),
        ("a >= 49", lambda r: r[1] == 49),
        ("a > 49", lambda r: False),
        ("a > -1", lambda r: r[1] is not None),
        ("a < 0", lambda r: False),
        ("a <= 0", lambda r: r[1] == 0),
        ("a BETWEEN 7 AND 3", lambda r: False),
        ("a = 3 AND a = 4", lambda r: False),
        ("a = 3 AND s = 's1'", lambda r: r[1] == 3 and r[2] == "s1"),
        ("a = 3 OR s = 's1'", lambda r: r[1] == 3 or r[2] == "s1"),
        ("NOT (a = 3)", lambda r: r[1] is not None and r[1] != 3),
        ("a <> 3 OR s = 's2'", lambda r: (r[1] is not None and r[1] != 3) or r[2] == "s2"),
        ("NOT (a = 3 AND s = 's2')", lambda r: (r[1] is not None and r[1] != 3) or (r[2] is not None and r[2] != "s2")),
        ("a NOT IN (1, NULL)", lambda r: False),
        ("a IN (1, NULL)", lambda r: r[1] == 1),
        ("a NOT IN (1, 2)", lambda r: r[1] not in (None, 1, 2)),
        ("a IS NULL", lambda r: r[1] is None),
        ("a IS NOT NULL AND s IS NULL", lambda r: r[1] is not None and r[2] is None),
        ("a <=> NULL", lambda r: r[1] is None),
        ("NOT a <=> 3", lambda r: r[1] != 3),
        ("a = NULL", lambda r: False),
        ("a = 2.5", lambda r: False),
        ("a > 2.5 AND a < 3.5D", lambda r: r[1] == 3),
        ("a IS NULL OR a IS NOT NULL", lambda r: True),
        (f"a IN ({', '.join(map(str, range(10, 10_010)))})", lambda r: r[1] is not None and r[1] >= 10),
        ("a IN (5, 5, 5)", lambda r: r[1] == 5),
        ("s >= 's1'", lambda r: r[2] is not None and r[2] >= "s1"),
        ("s = ''", lambda r: False),
        ("FALSE", lambda r: False),
        ("NULL", lambda r: False),
    ]  # fmt: skip
    for where, keep in cases:
        expected = [row for row in ROWS if keep(row)]
        opened.clear()
        scan = table.scan(where, ["id"])
        assert scan.count() == len(expected), where
        # one read of each file: its tail
        assert {reader.counts.ranges for reader in opened} <= {1}, where
        assert scan.to_arrow().column("id").to_pylist() == [row[0] for row in expected], where
        explained = scan.explain()
        assert explained.rows is not None
        assert explained.rows.kept == len(expected), where
        if where != "a IS NULL OR a IS NOT NULL":
            assert explained.exact, where
        if not expected:
            assert explained.path is ReadPath.NOTHING, where
            assert explained.stripes.kept == 0, where


def test_chained_conditions_use_indexes_as_one_condition(table: Table, opened: list[OrcReader]) -> None:
    """The chain skips what the whole query skips; ``id``, which has no index, is read of the matching rows only."""
    whole = table.scan("a > 3 AND a < 7 AND s = 's1'", ["id"])
    chain = table.scan().where("a > 3").select("id", "a").where("a < 7").select("id").where("s = 's1'")
    expected = [row[0] for row in ROWS if row[1] is not None and 3 < row[1] < 7 and row[2] == "s1"]
    assert chain.to_arrow().column("id").to_pylist() == expected != []
    explained = chain.explain()
    assert explained.exact
    assert explained.rows is not None
    assert explained.rows.kept == len(expected)
    assert explained.row_groups == whole.explain().row_groups
    opened.clear()
    assert chain.count() == len(expected)
    # one read of each file: its tail
    assert {reader.counts.ranges for reader in opened} <= {1}
    first = chain.order_by("a", descending=True).limit(3)
    key = [(-(row[1] or 0), row[0]) for row in ROWS if row[0] in set(expected)]
    assert first.to_arrow().column("id").to_pylist() == [number for _, number in sorted(key)[:3]]


def test_rows_of_an_offset_are_not_read(table: Table, opened: list[OrcReader]) -> None:
    expected = [row[0] for row in ROWS if row[1] == 3]
    count = len(expected)
    # of each opened file, True if more than its tail is read
    for offset, limit, reads in (
        (0, 2, [True]),
        (5, 1, [True]),
        (count - 2, 2, [False, True]),
        (count - 2, None, [False, True]),
        (count, 1, [False, False]),
    ):
        opened.clear()
        rows = table.scan("a = 3", ["id"]).limit(limit, offset=offset).to_arrow()
        assert rows.column("id").to_pylist() == expected[offset:][:limit]
        assert [reader.counts.ranges > 1 for reader in opened] == reads, (offset, limit)
    # rows of a condition that no index decides have to be counted
    undecided = table.scan("a = 3 AND id % 2 = 1", ["id"]).limit(2, offset=3)
    assert undecided.to_arrow().column("id").to_pylist() == [i for i in expected if i % 2 == 1][3:5]


def test_indexes_narrow_conditions_on_other_columns(table: Table, opened: list[OrcReader]) -> None:
    """The files' own statistics of ``id`` keep hundreds of rows: the row groups."""
    # the rows wanted, those kept by indexes and statistics, and whether these are the same for certain
    cases: list[tuple[str, Callable[[Row], bool], Callable[[Row], bool], bool]] = [
        # rows known by index, and others to check
        ("a = 3 OR id = 7", lambda r: r[1] == 3 or r[0] == 7, lambda r: r[1] == 3 or r[0] < 100, False),
        ("a = 3 OR id < 0", lambda r: r[1] == 3, lambda r: r[1] == 3, True),
        # only the rows that the index keeps are to check
        ("a = 3 AND id < 1050", lambda r: r[1] == 3 and r[0] < 1050, lambda r: r[1] == 3 and r[0] < 1100, False),
        ("a = 3 AND id < 1000", lambda r: r[1] == 3 and r[0] < 1000, lambda r: r[1] == 3 and r[0] < 1000, True),
        ("a = 3 AND NOT id < 9", lambda r: r[1] == 3 and r[0] >= 9, lambda r: r[1] == 3, False),
        (
            "(a = 3 OR id = 8) AND s = 's2'",
            lambda r: (r[1] == 3 or r[0] == 8) and r[2] == "s2",
            lambda r: (r[1] == 3 or r[0] < 100) and r[2] == "s2",
            False,
        ),
        (
            "a = 3 AND (s = 's1' OR id >= 1234)",
            lambda r: r[1] == 3 and (r[2] == "s1" or r[0] >= 1234),
            lambda r: r[1] == 3 and (r[2] == "s1" or r[0] >= 1200),
            False,
        ),
        ("a = 200 AND id > 5", lambda r: False, lambda r: False, True),
        ("id = 5", lambda r: r[0] == 5, lambda r: r[0] < 100, False),
        ("id = 5000", lambda r: False, lambda r: False, True),
    ]  # fmt: skip
    for where, keep, keep_by_index, exact in cases:
        expected = [row[0] for row in ROWS if keep(row)]
        scan = table.scan(where)
        assert ids(scan) == expected, where
        assert scan.to_arrow().column("a").to_pylist() == [A[i] for i in expected], where
        assert table.scan(where, ["s"]).to_arrow().column("s").to_pylist() == [S[i] for i in expected], where
        explained = scan.explain()
        assert explained.rows is not None
        assert explained.rows.kept == sum(map(keep_by_index, ROWS)), where
        assert explained.exact == exact, where
        if expected:
            assert reasons(scan) == {Reason.NO_INDEX: ["id"]}, where


def test_no_predicate(table: Table, opened: list[OrcReader]) -> None:
    assert ids(table.scan()) == list(range(2 * FILE_ROWS))
    opened.clear()
    assert table.scan().count() == 2 * FILE_ROWS
    assert {reader.counts.ranges for reader in opened} <= {1}


def test_columns_in_the_selected_order(table: Table) -> None:
    result = table.scan("a = 3", ["s", "id", "S"]).to_arrow()
    assert result.schema.names == ["s", "id", "s"]
    assert result.column(0).to_pylist() == result.column(2).to_pylist()
    assert table.scan("a = 3", []).to_arrow().num_columns == 0
    assert table.scan("a = 3", ["id"]).schema == table.scan("a = 3", ["id"]).to_arrow().schema
    assert table.scan("a = 999", ["id", "s"]).to_arrow().schema.names == ["id", "s"]


def test_streams_for_other_engines(table: Table) -> None:
    scan = table.scan("a = 3 OR id > 2900", ["s", "id"])
    expected = scan.to_arrow()
    assert pa.table(scan).equals(expected)
    assert pa.table(scan).equals(expected)  # each stream is a scan of its own
    reader = scan.to_reader()
    assert reader.schema == scan.schema
    assert reader.read_all().equals(expected)
    assert pa.table(table.scan("a = 999")).equals(table.scan("a = 999").to_arrow())
    assert pa.table(table.scan("a = 3").order_by("s")).equals(table.scan("a = 3").order_by("s").to_arrow())
    with raises(PredicateError):
        pa.table(table.scan("a = 'x'"))


def test_a_stream_is_read_as_it_is_consumed(table: Table, opened: list[OrcReader]) -> None:
    reader = table.scan(columns=["id"]).to_reader()
    first = reader.read_next_batch()
    assert first["id"].to_pylist() == list(range(len(first)))
    assert len(opened) == 1
    assert sum(batch.num_rows for batch in reader) == 2 * FILE_ROWS - len(first)
    assert len(opened) == 2


def test_a_stream_of_other_types(table: Table) -> None:
    scan = table.scan("id < 300", ["id", "s"])
    expected = pa.schema([("id", pa.int32()), ("s", pa.large_string())])
    assert pa.table(scan, schema=expected).equals(scan.to_arrow().cast(expected))
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        pa.table(scan, schema=pa.schema([("id", pa.int8()), ("s", pa.string())]))


def test_an_error_within_a_stream(table: Table, tmp_path: Path) -> None:
    """Rows before it may come, and no end after them."""
    copy = Path(shutil.copytree(table.uri, tmp_path / "copy"))
    reader = hindex.connect().table(copy).scan(columns=["id"]).to_reader()
    result = [reader.read_next_batch()]
    sorted(copy.glob("*.orc"))[-1].unlink()
    with raises(TableError):
        result.extend(reader)
    rows = pa.Table.from_batches(result)["id"].to_pylist()
    assert rows == list(range(FILE_ROWS))[: len(rows)]


def test_duckdb_reads_a_scan(table: Table) -> None:
    duckdb = pytest.importorskip("duckdb")
    scan = table.scan("a = 3")
    ids = scan.to_arrow()["id"].to_pylist()
    with duckdb.connect() as connection:
        connection.register("scan", scan)
        result = connection.execute("SELECT count(*), sum(id), max(x.id) FROM scan x JOIN scan y USING (id)")
        assert result.fetchall() == [(len(ids), sum(ids), max(ids))]


@pytest.mark.parametrize("rows", [0, 1, 5, FILE_ROWS, 2 * FILE_ROWS, 10 * FILE_ROWS])
def test_the_first_rows(table: Table, opened: list[OrcReader], rows: int) -> None:
    assert table.scan().head(rows)["id"].to_pylist() == list(range(2 * FILE_ROWS))[:rows]
    assert len(opened) == -(-min(rows, 2 * FILE_ROWS) // FILE_ROWS)


def test_the_first_rows_of_a_limit_and_an_order(table: Table) -> None:
    scan = table.scan(limit=3)
    assert [scan.head(rows).num_rows for rows in (0, 2, 3, 9)] == [0, 2, 3, 3]
    assert scan.row_limit == 3
    assert scan.head().num_rows == 3
    assert table.scan().head().num_rows == 5
    assert table.scan().order_by("id", descending=True).head(2)["id"].to_pylist() == [2999, 2998]
    with raises(ValueError):
        scan.head(-1)
    with raises(ValueError):
        scan.head(1 << 70)
    with raises(ValueError):
        table.scan(limit=1 << 70)


def test_a_scan_looks_at_the_table_each_time(spark: SparkSession, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "table" / "1.orc", 0, [1, 2]).parent
    table = hindex.connect(spark=spark).table(str(path))
    scan = table.scan("a = 2")
    assert ids(scan) == [1]
    table.create_index("by_a", "a")
    write_rows(path / "2.orc", 5, [2])
    assert ids(scan) == [1, 5]
    assert scan.explain().rows.kept == 2  # type: ignore[union-attr]


def test_an_explanation_holds_one_file_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content: list[int] = []
    alive: weakref.WeakSet[scan_task_reader.ScanTaskReader] = weakref.WeakSet()

    class Counted(scan_task_reader.ScanTaskReader):
        def __init__(self, task: ScanTask) -> None:
            super().__init__(task)
            alive.add(self)
            content.append(len(alive))

    for number in range(6):
        write_rows(tmp_path / f"{number}.orc", number, [number])
    monkeypatch.setattr(task_runner, "ScanTaskReader", Counted)
    assert hindex.connect().table(str(tmp_path)).scan("a = 3").explain().files.total == 6
    assert len(content) == 6
    # the one before is let go once the next is open
    assert max(content) <= 2
