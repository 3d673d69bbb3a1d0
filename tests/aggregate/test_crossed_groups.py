"""Groups by several columns: right whatever tells them, and their indexes crossed where that pays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.aggregate import indexed_group_by
from hindex.aggregate.aggregation import Aggregate, Group
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, IndexFileError, PredicateError
from hindex.explanations.explanation import ReadPath
from hindex.index.bitmap import BitmapReader
from hindex.orc import OrcReader
from hindex.plan.reasons import Reason
from hindex.scan import lookup_cost, scan_task_reader
from hindex.sql.statements import AggregateFunction
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns
from tests.support.work import decoded

#: Columns of few keys, so that their indexes are crossed, and one of many.
SIZE = 15_000


CROSSED: dict[str, list[Any]] = {
    "x": [None if i % 5 == 0 else i % 3 for i in range(SIZE)],
    "y": [None if i % 7 == 0 else "uv"[i * i % 2] for i in range(SIZE)],
    "z": [
        math.nan if i % 4 == 1 else -0.0 if i % 4 == 2 else None if i % 4 == 3 else 0.0 for i in range(SIZE)
    ],
    "many": [i % 6000 for i in range(SIZE)],
    "bare": [i % 2 for i in range(SIZE)],
}


@pytest.fixture
def crossed(connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two partitions of one file each; the second has no ``y``. All but ``bare`` have a BITMAP."""
    monkeypatch.setattr(lookup_cost, "_ROWS_PER_CROSSING", 400)
    types = {"y": pa.string(), "z": pa.float64()}
    for number in range(2):
        columns = {
            name: pa.array(values, types.get(name, pa.int32()))
            for name, values in CROSSED.items()
            if number == 0 or name != "y"
        }
        write_columns(tmp_path / "t" / f"p={number}" / "a.orc", columns, stride=1000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec(f"by_{name}", name) for name in CROSSED if name != "bare"])
    return table


def crossed_rows(keep: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The rows of that table, with values as groups have them."""
    result = []
    for number in range(2):
        for i in range(SIZE):
            row = {name: values[i] for name, values in CROSSED.items()} | {"p": number}
            row["y"] = row["y"] if number == 0 else None
            row["z"] = "NaN" if row["z"] != row["z"] else row["z"] and 0.0
            if keep(row):
                result.append(row)
    return result


def as_listed(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [["NaN" if v != v else v for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("by", "where", "keep", "is_told"),
    [
        ("x y", None, lambda r: True, True),
        ("y x", "x = 1 OR y = 'u'", lambda r: r["x"] == 1 or r["y"] == "u", True),
        ("x y z p", None, lambda r: True, True),
        ("p y", "y IS NULL", lambda r: r["y"] is None, True),
        ("z x", "many < 3000", lambda r: r["many"] < 3000, True),
        ("p", "p = 1 AND x IS NULL", lambda r: r["p"] == 1 and r["x"] is None, True),
        ("x y", "x = 9", lambda r: False, True),
        ("x many", None, lambda r: True, False),
        ("x y", "many = 7", lambda r: r["many"] == 7, False),
        ("x bare", None, lambda r: True, False),
        ("bare z", "bare = 1 OR x = 2", lambda r: r["bare"] == 1 or r["x"] == 2, False),
        ("x bare", "bare = 1 AND x >= 1", lambda r: r["bare"] == 1 and (r["x"] or 0) >= 1, False),
    ],
)
def test_groups_by_several_columns(
    crossed: Table,
    opened: list[OrcReader],
    by: str,
    where: str | None,
    keep: Callable[[dict[str, Any]], bool],
    is_told: bool,
) -> None:
    names = by.split()
    rows = Counter(tuple(row[name] for name in names) for row in crossed_rows(keep))

    def rank(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((value is not None, value == "NaN", 0 if value == "NaN" else value) for value in values)

    scan = crossed.scan(where)
    opened.clear()
    result = scan.value_counts(*names)
    assert as_listed(result) == [(*values, rows[values]) for values in sorted(rows, key=rank)]
    assert result.column_names == [*names, "count"]
    assert (decoded(opened) == 0) == is_told
    explained = scan.aggregate([], names).explain()
    assert (explained.path in (ReadPath.INDEX_ONLY, ReadPath.NOTHING)) == is_told
    assert explained.group == ", ".join(names)
    messages = {note.reason for note in explained.notes}
    assert (Reason.MANY_KEYS in messages, Reason.NO_INDEX in messages) == (
        not is_told and "bare" not in by,
        "bare" in f"{by} {where}",
    )


def test_a_broken_index_of_several_is_read_instead(crossed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = as_listed(crossed.scan().value_counts("x", "y", "z"))

    def broken(*_: Any) -> Any:
        raise IndexFileError("damaged")

    for name in ("key_counts", "lookup", "null_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(BitmapReader, name, broken)
            assert as_listed(crossed.scan().value_counts("x", "y", "z")) == expected


def test_statements_of_several_columns(connection: LocalConnection, crossed: Table) -> None:
    def run(text: str) -> list[tuple[Any, ...]]:
        result: Any = connection.sql(text.replace("TABLE", f"'{crossed.name}'"))
        return as_listed(result.to_arrow())

    first = Counter((x, y) for x, y in zip(CROSSED["x"], CROSSED["y"], strict=True))
    text = "SELECT y, COUNT(*) AS n, COUNT(y), MAX(X), x FROM TABLE WHERE p = 0 GROUP BY x, y ORDER BY n DESC"
    result = run(text)
    assert [row[1] for row in result] == sorted(first.values(), reverse=True)
    assert {(x, y): n for y, n, _, _, x in result} == first
    assert all(counted == (0 if y is None else n) and most == x for y, n, counted, most, x in result)
    assert run(f"{text} LIMIT 2") == result[:2]
    assert [row[:2] for row in run("SELECT DISTINCT p, Y FROM TABLE")] == [
        (0, None), (0, "u"), (0, "v"), (1, None),
    ]  # fmt: skip
    assert run("SELECT DISTINCT x, x FROM TABLE LIMIT 2") == [(None, None), (0, 0)]
    with raises(ColumnError):
        crossed.scan().aggregate([Group("z", "z")], ["x", "y"]).to_arrow()


@pytest.mark.parametrize(
    ("by", "read"),
    [
        (["a"], [["a"], []]),
        (["a", "id"], [["a"], ["id"]]),
        (["id", "p"], [["a"], ["id"]]),
        (["a", "p", "gone"], [["a"], []]),
    ],
)
def test_columns_of_the_predicate_are_decoded_once(
    connection: LocalConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: list[str],
    read: list[Any],
) -> None:
    rng = np.random.default_rng(3)
    columns = {"a": pa.array(rng.integers(0, 1 << 40, 900)), "id": pa.array(np.arange(900))}
    write_columns(tmp_path / "t" / "p=1" / "a.orc", columns)
    # as the table was when it was planned, but for a column that this file does not have
    write_columns(tmp_path / "t" / "p=2" / "b.orc", columns | {"gone": pa.array(np.arange(900))})
    reads: list[list[str]] = []
    real = scan_task_reader.ScanTaskReader._read_columns

    def recording_read(self: Any, wanted: Any, *given: Any) -> Any:
        reads.append([column.name for column in wanted if self.has(column.name)])
        return real(self, wanted, *given)

    monkeypatch.setattr(scan_task_reader.ScanTaskReader, "_read_columns", recording_read)
    table = connection.table(str(tmp_path / "t")).scan("a > 549755813888 AND p = 1").value_counts(*by)
    assert reads == read
    kept = [row for row in pa.table(columns).to_pylist() if row["a"] > 549755813888]
    assert table.num_rows == len(kept) > 300
    reads.clear()
    items = [Aggregate(AggregateFunction.MIN, "a", "least"), Aggregate(AggregateFunction.COUNT, "p", "n")]
    table = (
        connection.table(str(tmp_path / "t")).scan("a > 549755813888 AND p = 1").aggregate(items).to_arrow()
    )
    assert table.to_pylist() == [{"least": min(row["a"] for row in kept), "n": len(kept)}]
    assert reads == [["a"], []]


def test_sets_of_few_keys_are_crossed_first(crossed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    crossings: list[int] = []
    real = indexed_group_by._crossed

    def counted(sets: Any, rows: Any) -> Any:
        crossings.append(len(sets[0]))
        return real(sets, rows)

    monkeypatch.setattr(indexed_group_by, "_crossed", counted)
    expected = as_listed(crossed.scan("p = 0").value_counts("x", "y"))
    # "y" has two keys and NULL, "x" three: of those few, each is crossed with all of the others
    assert crossings == [3, 4, 4, 4]
    crossings.clear()
    assert sorted(as_listed(crossed.scan("p = 0").value_counts("y", "x")), key=repr) == sorted(
        ((y, x, n) for x, y, n in expected), key=repr
    )
    assert crossings == [3, 4, 4, 4]


@pytest.mark.parametrize(
    ("keys", "rows", "pays"),
    [
        ([2, 4], 1_000_000, True),
        ([2, 4, 15], 1_000_000, True),
        ([4, 25], 1_000_000, True),
        ([15, 25], 1_000_000, False),
        ([4, 25], 400_000, False),
        ([1, 600], 1_000_000, False),
        ([0, 25], 1_000_000, True),
    ],
)
def test_what_is_crossed(keys: list[int], rows: int, pays: bool) -> None:
    """Measured on a million rows that are spread evenly, of which some are left."""
    assert lookup_cost.is_key_intersection_worthwhile(keys, rows, 1_000_000) == pays


def test_many_keys_are_told_of_each_file_once(crossed: Table) -> None:
    messages = crossed.scan("many < 5000").aggregate([], ["x", "many"]).explain()
    notes = [(note.reason, note.subject) for note in messages.notes]
    assert notes == [(Reason.MANY_KEYS, f"x, many on p={number}/a.orc") for number in range(2)]
    # an index that told of the predicate is not what was not used
    assert "MANY_KEYS: 2 groupings, e.g. x, many on p=0/a.orc" in str(messages)


def test_a_limit_of_no_rows_looks_at_nothing(
    connection: LocalConnection, crossed: Table, opened: list[OrcReader]
) -> None:
    for select in ("COUNT(*), MIN(bare)", "bare, x, COUNT(*) AS n"):
        by = "" if "MIN" in select else " GROUP BY bare, x"
        result: Any = connection.sql(f"SELECT {select} FROM '{crossed.name}' WHERE many > 3{by} LIMIT 0")
        full: Any = connection.sql(f"SELECT {select} FROM '{crossed.name}' WHERE many > 3{by}")
        assert (result.count(), result.schema) == (0, full.schema)
        opened.clear()
        result = connection.sql(f"SELECT {select} FROM '{crossed.name}' WHERE many > 3{by} LIMIT 0")
        assert result.to_arrow().num_rows == 0
        assert opened == []
        messages: Any = connection.sql(f"EXPLAIN SELECT {select} FROM '{crossed.name}'{by} LIMIT 0")
        assert (messages.path, messages.limit, opened) == (ReadPath.NOTHING, 0, [])
    # it is compared with nothing either, and no index is missed
    for mode in ("prove", "strict"):
        opened.clear()
        result = (
            crossed.scan("bare = 1", mode=mode).aggregate([Group("bare", "b")], ["bare", "x"], 0).to_arrow()
        )
        assert (result.num_rows, result.schema.types, opened) == (0, [pa.int32()], [])
    with raises(ColumnError):
        crossed.scan().aggregate([Group("nope", "n")], "nope", 0).to_arrow()
    with pytest.raises(PredicateError):
        crossed.scan("x = 'y'").aggregate([Group("x", "x")], "x", 0).to_arrow()
