"""The numbers of an explanation agree: kept and total, rows and bytes, the predicate's leaves and the rows kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Group
from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from hindex.explanations.explanation import ExplainedNode, Explanation, ReadPath, RowCount
from hindex.explanations.scan_explanation import explain_plan
from hindex.scan.planning import plan_scan
from hindex.sql import parse_predicate
from tests.acid.tables import B0, delete, insert
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns, write_rows

ROWS = 1000
CONDITIONS = (
    "a = 3",
    "a = 77",
    "a IS NULL",
    "a <> 3",
    "a IN (1, 2, 9)",
    "id < 500",
    "id >= 1500",
    "id = 1234",
    "id BETWEEN 900 AND 1100",
    "s = 's3'",
    "s LIKE 's3%'",
    "s LIKE '%3'",
    "a + id = 4",
    "p = 1",
    "p + 1 = 2",
    "extra = 7",
    "extra IS NULL",
    "a = 3 AND a = 4",
)


def most_rows(node: ExplainedNode) -> int | None:
    """The rows that a predicate keeps at most, by the numbers of its leaves; None if a number is missing."""
    if node.kind == "LEAF":
        return None if node.answer is None else node.answer.rows
    rows = [most_rows(child) for child in node.children]
    counted = [count for count in rows if count is not None]
    if node.kind == "OR":
        return sum(counted) if len(counted) == len(rows) else None
    return min(counted, default=None)


def check(explained: Explanation) -> None:
    text = explained.to_text()
    for name, count in explained.counts():
        if count is not None and count.kept is not None and count.total is not None:
            assert 0 <= count.kept <= count.total, (name, text)
    assert explained.rows is not None
    assert explained.bytes is not None
    rows, bytes_kept = explained.rows.kept, explained.bytes.kept
    assert rows is not None
    kept = [explained.files.kept, explained.stripes.kept, explained.row_groups and explained.row_groups.kept]
    assert all(kept) if rows else not any(kept), text
    assert (explained.path is ReadPath.NOTHING) == (rows == 0), text
    if explained.path in (ReadPath.NOTHING, ReadPath.INDEX_ONLY):
        assert bytes_kept == 0, text
    elif explained.analyzed is None:
        assert bytes_kept, text
    bound = most_rows(explained.tree)
    if bound is not None:
        assert rows + explained.deleted + explained.invisible <= bound, text
    answer = explained.tree.answer
    if answer is not None and answer.rows is not None:
        assert rows + explained.deleted + explained.invisible == answer.rows, text
        assert not answer.exact or explained.exact, text
    if explained.analyzed is not None:
        assert explained.analyzed.bytes_fetched <= (explained.bytes.total or 0), text
        # a file may lack all columns that are selected
        if explained.analyzed.row_groups + explained.analyzed.whole_columns:
            assert bytes_kept, text
        elif explained.limit is None and explained.path is not ReadPath.INDEX_AND_KEYS:
            assert not bytes_kept, text
        if explained.path in (ReadPath.NOTHING, ReadPath.INDEX_ONLY):
            assert (explained.analyzed.row_groups, explained.analyzed.whole_columns) == (0, 0), text


def predicates(seed: int, count: int) -> Iterator[str]:
    choose = random.Random(seed)
    yield from CONDITIONS
    for _ in range(count):
        parts = [choose.choice(CONDITIONS) for _ in range(choose.randint(2, 3))]
        yield f" {choose.choice(('AND', 'OR'))} ".join(f"({part})" for part in parts)


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Two partitions of indexed files, one of which lacks a column, and a file that is not indexed."""
    for number in range(2):
        values = [None if i % 50 == 0 else i % 10 for i in range(ROWS)]
        write_rows(tmp_path / "t" / f"p={number}" / "0.orc", number * ROWS, values)
    columns = {
        "id": pa.array(range(2 * ROWS, 3 * ROWS), pa.int64()),
        "a": pa.array([i % 7 for i in range(ROWS)], pa.int32()),
        "extra": pa.array([i % 20 for i in range(ROWS)], pa.int32()),
    }
    write_columns(tmp_path / "t" / "p=1" / "1.orc", columns)
    indexed = connection.table(str(tmp_path / "t"))
    indexed.create_indexes(
        [
            IndexSpec("by_a", "a"),
            IndexSpec("ends", "id", "minmax"),
            IndexSpec("filter", "s", "bloom"),
            IndexSpec("tree", "id", "btree"),
            IndexSpec("by_extra", "extra"),
        ]
    )
    write_rows(tmp_path / "t" / "p=1" / "2.orc", 3 * ROWS, [i % 10 for i in range(ROWS)])
    return indexed


def scans(table: Table, where: str) -> Iterator[tuple[Scan, int | None]]:
    for columns in (["a"], ["s", "p"]):
        yield table.scan(where, columns), None
    yield table.scan(where, ["s"], 3), 3


@pytest.mark.slow
def test_counts_agree(table: Table) -> None:
    for where in predicates(1, 12):
        for scan, limit in scans(table, where):
            explained = scan.explain(analyze=True)
            check(explained)
            assert explained.rows is not None
            assert explained.analyzed is not None
            kept, returned = explained.rows.kept or 0, explained.analyzed.rows
            if limit is not None:
                assert returned <= min(limit, kept)
            elif explained.exact:
                assert returned == kept, (where, explained.to_text())
            else:
                assert returned <= kept
        check(table.scan(where).aggregate([Group("a", "a")], "a").explain(analyze=True))
        check(table.scan(where, ["s"], 4).order_by("a", descending=True).explain(analyze=True))
        check(table.scan(where, ["a"], 4).order_by("a").explain(analyze=True))


def test_rows_of_a_column_default_are_counted(table: Table) -> None:
    """A file that lacks a column has its default in every row, which no index is needed for."""
    snapshot = table.snapshot()
    columns = tuple(
        replace(column, default=pa.scalar(7, pa.int32())) if column.name == "extra" else column
        for column in snapshot.schema.columns
    )
    changed = replace(snapshot, schema=replace(snapshot.schema, columns=columns))
    for condition, matching in (
        ("extra = 7", 50 + 3 * ROWS),
        ("extra = 8", 50),
        ("extra <> 8", 950 + 3 * ROWS),
    ):
        where = parse_predicate(condition)
        explained = explain_plan(plan_scan(changed, where, ["id"]), where)
        check(explained)
        assert explained.rows == RowCount(matching, 4 * ROWS)
        assert explained.tree.answer is not None
        assert explained.tree.answer.rows == matching
        assert ("the column's default" in explained.tree.answer.by) == (matching > ROWS)


def test_deleted_rows_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local_build.install(monkeypatch)
    insert(tmp_path / "t" / "delta_1_1" / "bucket_00000", 1, range(100))
    insert(tmp_path / "t" / "delta_2_2" / "bucket_00000", 2, range(100, 110))
    delete(tmp_path / "t" / "delete_delta_3_3" / "bucket_00000", [(1, B0, at) for at in range(4)], 3)
    delete(tmp_path / "t" / "delete_delta_4_4" / "bucket_00000", [(2, B0, at) for at in range(10)], 4)
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("by_k", "k"), IndexSpec("ends", "id", "minmax")])
    for where in (None, "k = 2", "id < 4", "id = 2 OR k = 3", "row__id.rowid < 5", "id < 4 AND k = 1"):
        for columns in (["id"], ["k"], [], ["row__id"], ["row__id.rowid", "k"]):
            check(table.scan(where, columns).explain(analyze=True))
    of_key, of_field = (table.scan(columns=[name]).explain().bytes for name in ("row__id", "row__id.rowid"))
    assert of_key is not None
    assert of_field is not None
    assert 0 < (of_field.kept or 0) < (of_key.kept or 0)
    gone = table.scan("id >= 100", ["id"]).explain(analyze=True)
    check(gone)
    assert (gone.rows, gone.deleted) == (RowCount(0, 110), 10)
    assert gone.reading == "nothing: every row that can match is deleted or not visible"
