"""Counts, ends, distinct values and groups: right whatever tells them, and without data where an index does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.aggregate import groups
from hindex.api import scan as scan_module
from hindex.api.table import IndexSpec, Table
from hindex.explanations.explanation import ReadPath
from hindex.index import roaring
from hindex.orc import OrcReader
from tests.scan.counted import ROWS, TABLE, A, Row, S, found_groups, grouped, indexed_table
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns, write_rows
from tests.support.work import decoded
from tests.support.writers import write_pyarrow


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    return indexed_table(connection, tmp_path / "t")


#: Predicates that indexes decide, with what they keep.
DECIDED: list[tuple[str | None, Callable[[Row], bool]]] = [
    (None, lambda r: True),
    ("a = 3", lambda r: r[1] == 3),
    ("a > 40 OR s = 's1'", lambda r: (r[1] or 0) > 40 or r[2] == "s1"),
    ("a IS NULL", lambda r: r[1] is None),
    ("s IS NULL AND a = 3", lambda r: r[2] is None and r[1] == 3),
    ("a = 99", lambda r: False),
]


@pytest.mark.parametrize(("where", "keep"), DECIDED, ids=[str(where) for where, _ in DECIDED])
def test_no_data_is_read(
    table: Table, opened: list[OrcReader], where: str | None, keep: Callable[[Row], bool]
) -> None:
    kept = [row for row in TABLE if keep(row)]
    a, s = [r[1] for r in kept if r[1] is not None], [r[2] for r in kept if r[2] is not None]
    scan = table.scan(where)
    forms: list[tuple[str, Callable[[], object], object]] = [
        ("count", scan.count, len(kept)),
        ("count a", lambda: scan.count("a"), len(a)),
        ("count s", lambda: scan.count("s"), len(s)),
        ("exists", scan.exists, bool(kept)),
        ("min", lambda: (scan.min("a"), scan.min("s")), (min(a, default=None), min(s, default=None))),
        ("max", lambda: (scan.max("a"), scan.max("s")), (max(a, default=None), max(s, default=None))),
        ("distinct a", lambda: scan.distinct("a").to_pylist(), list(grouped([r[1] for r in kept]))),
        ("groups of a", lambda: found_groups(scan, "a"), grouped([r[1] for r in kept])),
        ("groups of s", lambda: found_groups(scan, "s"), grouped([r[2] for r in kept])),
    ]
    for name, ask, expected in forms:
        opened.clear()
        assert ask() == expected, name
        # of each file its tail alone, which has no data and no footers of stripes
        assert {reader.counts.ranges for reader in opened} <= {1}, name
        assert decoded(opened) == 0, name


def test_what_is_not_decided_is_read(table: Table, opened: list[OrcReader]) -> None:
    """``id`` has no index: its rows are decided by reading it, and all else still comes from indexes."""
    kept = [r for r in TABLE if 77 <= r[0] < 1333]
    scan = table.scan("id >= 77 AND id < 1333")
    assert found_groups(scan, "a") == grouped([r[1] for r in kept])
    assert scan.count("s") == sum(r[2] is not None for r in kept)
    assert (scan.min("id"), scan.max("id")) == (77, 1332)
    assert found_groups(scan, "id") == grouped([r[0] for r in kept])
    opened.clear()
    assert scan.exists()
    assert decoded(opened) == 0
    opened.clear()
    assert not table.scan("id > 77 AND id < 78 AND a = 3").exists()
    # a is asked of its index although what decides is read
    assert found_groups(table.scan("id = 100"), "a") == {None if 100 % 7 == 0 else 0: 1}


def test_statistics_of_the_file_tell_of_whole_stripes(table: Table, opened: list[OrcReader]) -> None:
    """Of a column without an index: its nulls, and the ends where no writer cuts or rounds them."""
    opened.clear()
    scan = table.scan()
    assert (scan.count("id"), scan.min("id"), scan.max("id")) == (2 * ROWS, 0, 2 * ROWS - 1)
    assert decoded(opened) == 0
    # a predicate that keeps every row of some stripes and none of the others
    opened.clear()
    assert table.scan("a >= 0 OR a IS NULL").max("id") == 2 * ROWS - 1
    assert decoded(opened) == 0


def test_nulls_that_nothing_tells_of_are_read(table: Table, opened: list[OrcReader]) -> None:
    """Of a column without an index, some rows of whose stripes are null."""
    table.drop_index("by_s")
    kept = [r for r in TABLE if r[1] == 3]
    opened.clear()
    assert table.scan("a = 3").count("s") == sum(r[2] is not None for r in kept)
    assert decoded(opened) > 0
    # of whole stripes the file's statistics tell how many
    opened.clear()
    assert table.scan().count("s") == sum(s is not None for s in S)
    assert decoded(opened) == 0


def test_keys_of_many_rows(
    connection: LocalConnection, tmp_path: Path, opened: list[OrcReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are bitmaps of their own, in pages beside those of the keys."""
    masks: list[int] = []
    real = roaring.to_mask

    def counting_to_mask(rows: Any, total: int) -> Any:
        masks.append(total)
        return real(rows, total)

    monkeypatch.setattr(roaring, "to_mask", counting_to_mask)
    rng = np.random.default_rng(11)
    few, part = rng.integers(0, 3, 30_000), rng.integers(0, 40, 30_000)
    few_or_null = pa.array(few, mask=rng.random(30_000) < 0.1)
    columns = pa.table({"few": few_or_null, "part": part, "name": few_or_null.cast(pa.string())})
    write_pyarrow(tmp_path / "t" / "0.orc", columns, "none", stripe=1 << 26, stride=10_000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec(name, name) for name in columns.column_names])
    for where, kept in ((None, np.full(30_000, True)), ("part < 7", part < 7), ("part = 7", part == 7)):
        values = few_or_null.filter(pa.array(kept)).to_pylist()
        opened.clear()
        assert found_groups(table.scan(where), "few") == grouped(values), where
        names = [None if value is None else str(value) for value in values]
        assert found_groups(table.scan(where), "name") == grouped(names), where
        # no row of theirs is unpacked
        assert (decoded(opened), masks) == (0, [])
    assert found_groups(table.scan("few = 1"), "part") == grouped(
        part[few_or_null.to_numpy(False) == 1].tolist()
    )
    assert masks == [30_000]
    masks.clear()
    first = table.scan("part = 7", ["few"], 500).order_by("few", descending=True).to_arrow().column("few")
    values = [value for value in few_or_null.filter(pa.array(part == 7)).to_pylist() if value is not None]
    assert first.to_pylist() == sorted(values, reverse=True)[:500]


def test_minmax_alone(connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, A[:ROWS], S[:ROWS])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("m", "a", "minmax")
    opened.clear()
    scan = table.scan()
    assert (scan.count("a"), scan.min("a"), scan.max("a")) == (sum(a is not None for a in A[:ROWS]), 0, 49)
    assert decoded(opened) == 0
    assert found_groups(scan, "a") == grouped(A[:ROWS])
    assert decoded(opened) > 0


def test_stale_new_and_unindexed_files_are_read_and_merged(table: Table, opened: list[OrcReader]) -> None:
    path = Path(table.uri)
    write_rows(path / "0.orc", 0, [70, None, 70])
    write_rows(path / "9.orc", 10_000, [71, None])
    kept = [70, None, 70, *A[ROWS:], 71, None]
    assert found_groups(table.scan(), "a") == grouped(kept)
    assert table.scan().max("a") == 71
    assert table.scan("a >= 49").count("a") == sum((a or 0) >= 49 for a in kept)
    read = [reader for reader in opened if decoded([reader])]
    assert {Path(reader.path).name for reader in read} == {"0.orc", "9.orc"}
    explained = table.scan().aggregate([], "a").explain()
    assert explained.path is ReadPath.SELECTED_ROWS


def test_a_damaged_index_is_not_used(table: Table) -> None:
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[20:60] = b"\xff" * 40
        file.write_bytes(data)
    assert found_groups(table.scan(), "a") == grouped(A)
    assert (table.scan().min("a"), table.scan().max("s")) == (0, "s2")
    assert found_groups(table.scan("id > 5"), "s") == grouped(S[6:])


def test_partitions_and_absent_columns(connection: LocalConnection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_columns(path / "p=1" / "a.orc", {"x": pa.array([1, 2, None]), "y": pa.array(["u", None, "v"])})
    write_columns(path / "p=2" / "b.orc", {"x": pa.array([2, 2])})
    write_columns(path / "p=__HIVE_DEFAULT_PARTITION__" / "c.orc", {"x": pa.array([5, 6, 6])})
    table = connection.table(str(path))
    for indexed in (False, True):
        if indexed:
            table.create_indexes([IndexSpec("x", "x"), IndexSpec("y", "y")])
        assert found_groups(table.scan(), "p") == {None: 3, 1: 3, 2: 2}
        assert found_groups(table.scan("x > 5 OR y = 'u'"), "p") == {None: 2, 1: 1}
        assert found_groups(table.scan("x = 2"), "p") == {1: 1, 2: 2}
        assert (table.scan().min("p"), table.scan().max("p"), table.scan().count("p")) == (1, 2, 5)
        assert found_groups(table.scan(), "y") == {None: 6, "u": 1, "v": 1}
        assert found_groups(table.scan("y IS NULL"), "x") == {2: 3, 5: 1, 6: 2}
        assert (table.scan("p = 2").max("y"), table.scan("p = 2").count("y")) == (None, 0)
        assert table.scan("p = 7").value_counts("x").num_rows == 0
        assert table.scan("p = 7").min("x") is None


def test_an_index_of_many_keys_is_not_walked_for_a_few_rows(
    connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]
) -> None:
    keys = list(range(5000))
    columns = {"k": pa.array(keys), "g": pa.array([i % 5000 for i in keys])}
    write_pyarrow(tmp_path / "t" / "a.orc", pa.table(columns), "none", stripe=1 << 26, stride=1000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("k", "k"), IndexSpec("g", "g")])
    opened.clear()
    assert found_groups(table.scan("k = 77"), "g") == {77: 1}
    assert decoded(opened) == 1
    opened.clear()
    assert len(found_groups(table.scan("k < 2000"), "g")) == 2000
    assert decoded(opened) == 0


def test_explained_where_one_value_or_none_is_known(connection: LocalConnection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_columns(path / "p=1" / "a.orc", {"x": pa.array([1, 2, 3]), "y": pa.array([1, 2, 3])})
    write_columns(path / "p=__HIVE_DEFAULT_PARTITION__" / "b.orc", {"x": pa.array([1, 2, 3])})
    table = connection.table(str(path))
    table.create_indexes([IndexSpec("x", "x"), IndexSpec("y", "y")])
    for select in ("MIN(p), MAX(p), COUNT(p)", "MIN(y)", "MAX(y), COUNT(y)"):
        result: Any = connection.sql(f"EXPLAIN ANALYZE SELECT {select} FROM '{path}' WHERE x > 1")
        assert (result.path, result.analyzed.row_groups) == (ReadPath.INDEX_ONLY, 0), select


def test_explained(table: Table) -> None:
    explained = table.scan("a = 3").aggregate([], "s").explain()
    assert explained.path is ReadPath.INDEX_ONLY
    assert explained.group == "s"
    assert explained.bytes is not None
    assert explained.bytes.kept == 0
    assert table.scan("a = 3 AND id > 5").aggregate([], "s").explain().path is not ReadPath.INDEX_ONLY
    assert table.scan("a = 3").aggregate([], "id").explain().path is not ReadPath.INDEX_ONLY


def test_groups_are_put_together_as_they_come(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MAX_PENDING_GROUPS", 30)
    assert found_groups(table.scan(), "a") == grouped(A)
    assert found_groups(table.scan(), "s") == grouped(S)


@pytest.mark.parametrize("file", range(4))
def test_a_row_in_one_of_many_undecided_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: LocalConnection,
    opened: list[OrcReader],
    file: int,
) -> None:
    """Only so many undecided stripes are deferred; of the others, each is read until one has a row."""
    monkeypatch.setattr(scan_module, "_MAX_DEFERRED", 2)
    for number in range(4):
        write_rows(tmp_path / "t" / f"{number}.orc", 10 * number, [0, 5 if number == file else 4, 9])
    table = connection.table(tmp_path / "t")
    assert table.scan("a = 5").exists()
    # the first one is read once three are undecided
    assert sum(decoded([reader]) > 0 for reader in opened) == file + 1
    assert not table.scan("a = 6").exists()
    assert table.scan("a = 9").exists()
