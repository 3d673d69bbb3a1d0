"""Scans chain: each step returns a new scan, and mistakes are raised at the call."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

import hindex
from hindex import col
from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    ColumnError,
    HindexError,
    PredicateError,
    StatementError,
    TableError,
)
from tests.support.cases import cases
from tests.support.messages import raises
from tests.support.small import write_rows

Row = dict[str, Any]

COUNT = 400
A: list[int | None] = [None if i % 9 == 0 else i * 7 % 40 for i in range(COUNT)]
S: list[str | None] = [None if i % 11 == 0 else f"s{i % 5}" for i in range(COUNT)]
ROWS: list[Row] = [{"id": i, "a": a, "s": s} for i, (a, s) in enumerate(zip(A, S, strict=True))]

CONDITIONS: list[tuple[Any, Callable[[Row], bool]]] = [
    ("a > 10", lambda row: row["a"] is not None and row["a"] > 10),
    (col("a") < 30, lambda row: row["a"] is not None and row["a"] < 30),
    ("s = 's1' OR s IS NULL", lambda row: row["s"] in (None, "s1")),
    (col("s").isin("s1", "s2", "s3"), lambda row: row["s"] in ("s1", "s2", "s3")),
    ("id % 2 = 0", lambda row: row["id"] % 2 == 0),
    (col("a").isin([]), lambda row: False),
    (~col("a").isin(pa.array([], pa.int64())), lambda row: True),
    (col("s").isin(pa.array([])) | (col("id") < 300), lambda row: row["id"] < 300),
    (pc.field("id") >= 150, lambda row: row["id"] >= 150),
    ("a IS NULL", lambda row: row["a"] is None),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "table"
    for number in range(2):
        part = slice(number * COUNT // 2, (number + 1) * COUNT // 2)
        write_rows(path / f"{number}.orc", part.start, A[part], S[part])
    return path


@pytest.fixture
def table(path: Path) -> Table:
    return hindex.connect().table(path)


def sort_key(name: str, descending: bool) -> Callable[[Row], Any]:
    """The key of Spark's order: NULL is the least value."""

    def key(row: Row) -> tuple[bool, Any]:
        value = row[name]
        if value is None:
            return (descending, 0)
        number = value if isinstance(value, int) else int(value[1:])
        return (not descending, -number if descending else number)

    return key


def test_random_chains_return_the_rows_of_plain_python(table: Table, rng: Any) -> None:
    rand = random.Random(int(rng.integers(1 << 30)))
    for _ in range(cases(50, 150)):
        scan, rows = table.scan(), list(ROWS)
        names = ["id", "a", "s"]
        orders: list[tuple[str, bool]] = []
        for step in rand.choices(["where", "select", "order_by"], k=rand.randrange(5)):
            if step == "where":
                condition, keep = rand.choice(CONDITIONS)
                scan, rows = scan.where(condition), [row for row in rows if keep(row)]
            elif step == "select":
                names = rand.sample(names, rand.randrange(1, len(names) + 1))
                scan = scan.select(*names)
            else:
                keys = rand.sample(["id", "a", "s"], rand.randrange(1, 4))
                orders = [(key, rand.random() < 0.5) for key in keys]
                scan = scan.order_by(*keys, descending=[descending for _, descending in orders])
        for order in reversed(orders):
            rows.sort(key=sort_key(*order))
        for _ in range(rand.randrange(3)):
            limit = rand.choice([None, rand.randrange(COUNT // 2)])
            offset = rand.choice([0, rand.randrange(COUNT // 2)])
            scan, rows = scan.limit(limit, offset=offset), rows[offset:][:limit]
        expected = [{name: row[name] for name in names} for row in rows]
        assert scan.to_arrow().to_pylist() == expected, repr(scan)
        assert scan.count() == len(rows), repr(scan)
        assert scan.exists() == bool(rows), repr(scan)
        assert scan.head(3).to_pylist() == expected[:3], repr(scan)
        assert scan.schema.names == names


def test_directions_of_several_columns(table: Table) -> None:
    each: list[Any] = [[True, False], np.array([True, False]), pa.array([True, False])]
    for descending in each:
        scan = table.scan().order_by("a", "id", descending=descending)
        assert repr(scan).endswith("ORDER BY a DESC, id)")
    both: Any
    for both in (True, np.bool_(True)):
        assert repr(table.scan().order_by("a", "id", descending=both)).endswith("ORDER BY a DESC, id DESC)")


@pytest.mark.parametrize("descending", ["asc", "False", 1, None, ["asc", "desc"], {"a": True, "id": False}])
def test_a_direction_is_a_boolean(table: Table, descending: Any) -> None:
    with raises(ArgumentTypeError):
        table.scan().order_by("a", "id", descending=descending)


@pytest.mark.parametrize("nulls_first", ["last", [False, False], np.array([False, False]), 0])
def test_the_place_of_nulls_is_one_boolean(table: Table, nulls_first: Any) -> None:
    with raises(ArgumentTypeError):
        table.scan().order_by("a", "id", nulls_first=nulls_first)


def test_steps_do_not_change_the_scan(table: Table) -> None:
    scan = table.scan("a > 10", ["id", "a"])
    text, rows = repr(scan), scan.to_arrow()
    for other in (
        scan.where("id = 3"),
        scan.select("id"),
        scan.limit(1),
        scan.order_by("a", descending=True),
    ):
        assert other is not scan
        assert not other.to_arrow().equals(rows)
    assert repr(scan) == text
    assert scan.to_arrow().equals(rows)
    steps = table.scan().where("a > 10").where(col("id") < 9).select("id").order_by("a").limit(5).limit(7)
    assert repr(steps) == f"Scan(SELECT id FROM '{table.name}' WHERE a > 10 AND id < 9 ORDER BY a LIMIT 5)"
    pages = steps.limit(None, offset=2)
    assert repr(pages) == repr(steps).replace("LIMIT 5", "LIMIT 3 OFFSET 2")
    assert (pages.row_limit, pages.row_offset) == (3, 2)
    # an OR keeps its parentheses
    assert "(a > 1 OR s = 's1') AND id < 9" in repr(table.scan("a > 1 OR s = 's1'").where("id < 9"))


def test_a_condition_may_use_columns_that_are_not_selected(table: Table) -> None:
    expected = [row["id"] for row in ROWS if row["s"] == "s2"]
    assert table.scan().select("id").where("s = 's2'").to_arrow()["id"].to_pylist() == expected


def test_fields_of_a_selected_struct(tmp_path: Path) -> None:
    rows = [{"x": 1, "y": {"z": 2}}, {"x": 3, "y": {"z": 4}}]
    (tmp_path / "t").mkdir()
    pa.orc.write_table(pa.table({"s": rows, "b": [1, 2]}), tmp_path / "t" / "0.orc")
    scan = hindex.connect().table(tmp_path / "t").scan().select("s")
    assert scan.select("s.x").to_arrow().columns[0].to_pylist() == [1, 3]
    assert scan.select(("s", "y", "z")).to_arrow().columns[0].to_pylist() == [2, 4]
    with raises(ColumnError):
        scan.select("s.x").select("s")


MISTAKES: list[tuple[Callable[[Table], object], type[HindexError], str]] = [
    (lambda t: t.scan("b = 1"), ColumnError, "Column 'b' cannot be resolved"),
    (lambda t: t.scan(columns=["idd"]), ColumnError, "Column 'idd' cannot be resolved; did you mean id?"),
    (lambda t: t.scan(col("aa").isin([])), ColumnError, "Column 'aa' cannot be resolved; did you mean a?"),
    (lambda t: t.scan("a ="), StatementError, "syntax error at line 1"),
    (lambda t: t.scan("a = 'x'"), PredicateError, ""),
    (lambda t: t.scan().where("idd = 1"), ColumnError, "Column 'idd' cannot be resolved; did you mean id?"),
    (lambda t: t.scan().where(5), PredicateError, "5 of type int is not a condition"),  # type: ignore[arg-type]
    (lambda t: t.scan().where("a = 'x'"), PredicateError, ""),
    (lambda t: t.scan().select("idd"), ColumnError, "Column 'idd' cannot be resolved; did you mean id?"),
    (lambda t: t.scan().select(), ArgumentError, "select() has no columns: name them"),
    (
        lambda t: t.scan(columns=["id", "a"]).select("s"),
        ColumnError,
        "Column 's' is not selected: the scan has id, a",
    ),
    (lambda t: t.scan().order_by("idd"), ColumnError, "Column 'idd' cannot be resolved; did you mean id?"),
    (
        lambda t: t.scan().order_by("a", "idd"),
        ColumnError,
        "Column 'idd' cannot be resolved; did you mean id?",
    ),
    (
        lambda t: t.scan().order_by("a", "id", descending=[True]),
        ArgumentError,
        "descending has 1 value for 2 columns: give one for each, or one for all",
    ),
    (lambda t: t.scan().limit(-1), ArgumentError, "limit is -1: it cannot be negative"),
    (lambda t: t.scan().limit(None, offset=-1), ArgumentError, "offset is -1: it cannot be negative"),
    (
        lambda t: t.scan().limit(None, offset=1).where("a = 1"),
        ArgumentError,
        "where() does not filter the rows",
    ),
    (
        lambda t: t.scan().limit(None, offset=1).order_by("a"),
        ArgumentError,
        "order_by() does not sort the rows",
    ),
    (
        lambda t: t.scan().limit(None, offset=1).max("a"),
        ArgumentError,
        "a scan with a limit has no aggregates",
    ),
    (lambda t: t.scan().limit(1, ofset=1), ArgumentTypeError, "did you mean 'offset'?"),  # type: ignore[call-arg]
    (lambda t: t.scan().limit("5"), ArgumentError, "limit is '5': pass a whole number"),  # type: ignore[arg-type]
    (
        lambda t: t.scan().limit(5).where("a = 1"),
        ArgumentError,
        "where() does not filter the rows of a limit: call",
    ),
    (
        lambda t: t.scan(limit=5).where("a = 1"),
        ArgumentError,
        "where() does not filter the rows of a limit: call",
    ),
    (
        lambda t: t.scan().limit(5).order_by("a"),
        ArgumentError,
        "order_by() does not sort the rows of a limit: call",
    ),
    (
        lambda t: t.scan(wehre="a = 1"),  # type: ignore[call-arg]
        ArgumentTypeError,
        "scan() has no parameter 'wehre': did you mean 'where'? it has where, columns, limit, mode, valid_write_ids",
    ),
    (
        lambda t: t.scan().order_by("a", desc=True),  # type: ignore[call-arg]
        ArgumentTypeError,
        "order_by() has no parameter 'desc': ",
    ),
    (
        lambda t: t.create_index("i", "a", usin="bitmap"),  # type: ignore[call-overload]
        ArgumentTypeError,
        "create_index() has no parameter 'usin': did you mean 'using'? it has ",
    ),
    (
        lambda _: hindex.connect(stroe="x"),  # type: ignore[call-arg]
        ArgumentTypeError,
        "connect() has no parameter 'stroe': did you mean 'store'? it has ",
    ),
    (lambda t: hindex.connect().table(f"{t.uri}s").scan(), TableError, "did you mean"),
    (lambda t: list(t.scan()), ArgumentTypeError, "a scan is not iterable: .to_batches() yields its rows"),
    (
        lambda _: cast("Any", hindex.sql)("SELECT 1"),
        ArgumentTypeError,
        "hindex.sql is a package, not a function: run statements by hindex.connect().sql(...)",
    ),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_are_raised_at_the_call(table: Table, number: int) -> None:
    call, kind, message = MISTAKES[number]
    with pytest.raises(kind) as caught:
        call(table)
    assert message in str(caught.value)


def test_an_order_before_a_limit(table: Table) -> None:
    """A limit chooses the first rows of the order, whether it is a parameter of the scan or a later step."""
    expected = sorted(ROWS, key=sort_key("a", True))[:7]
    for scan in (
        table.scan(limit=7).order_by("a", descending=True),
        table.scan().order_by("a", descending=True).limit(7),
    ):
        assert scan.to_arrow().to_pylist() == expected


def test_columns_that_were_added_since(tmp_path: Path) -> None:
    """The schema that checks a query is kept; a mistake is raised only if the current table has it too."""
    folder = tmp_path / "t"
    folder.mkdir()
    pa.orc.write_table(pa.table({"a": [1, 2]}), folder / "0.orc")
    table = hindex.connect().table(folder)
    assert table.scan("a = 1").count() == 1
    pa.orc.write_table(pa.table({"a": [1, 3], "b": [5, 6]}), folder / "0.orc")
    assert table.scan("b = 6").select("a").to_arrow().to_pylist() == [{"a": 3}]


def test_the_table_is_listed_once_for_checks(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real, listings = Table.snapshot, []

    def counting(self: Table, *args: Any, **options: Any) -> Any:
        listings.append(self)
        return real(self, *args, **options)

    monkeypatch.setattr(Table, "snapshot", counting)
    for _ in range(3):
        table.scan("a = 1").where("id < 100").select("id").order_by("a").limit(3)
    assert len(listings) == 1
    table.scan("a = 1").to_arrow()
    assert len(listings) == 2


def test_pandas_options_are_those_of_pyarrow(table: Table) -> None:
    scan = table.scan("id < 3", ["id", "s"])
    frame = scan.to_pandas(types_mapper={pa.int64(): None}.get, strings_to_categorical=True)
    assert frame.equals(scan.to_arrow().to_pandas(strings_to_categorical=True))
    assert str(frame["s"].dtype) == "category"
    assert isinstance(scan, Scan)
