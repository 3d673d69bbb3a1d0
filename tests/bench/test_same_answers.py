"""Check the comparison of engines: predicates mean the same to all, and checksums see every change."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hindex
from tests.bench.compare import digest, same_rows
from tests.bench.data import EVENT_ROWS, Dataset, Order, event_pieces
from tests.bench.engines import ENGINES, engine_class
from tests.bench.predicates import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Prefix,
    arrow_mask,
    cast_literal,
    columns,
    literal,
    sql,
)
from tests.bench.queries import SUITES, find
from tests.bench.report import ratio_text, table
from tests.support.small import write_columns

DAY = datetime.date(1995, 3, 15)
#: Nulls in every column; 0.10 as a double would be no decimal of it.
ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "k": pa.array([1, 2, 3, None, 5, 1], pa.int32()),
        "d": pa.array(
            [Decimal("0.10"), Decimal("0.20"), None, Decimal("0.10"), Decimal("1.00"), Decimal("7.00")],
            pa.decimal128(15, 2),
        ),
        "s": pa.array(["it's", "REG AIR", "REG", None, "", "MAIL"]),
        "t": pa.array([DAY, None, DAY + datetime.timedelta(1), DAY, DAY, DAY], pa.date32()),
    }
)

PREDICATES: list[tuple[Predicate, list[int]]] = [
    (Compare("k", "=", 1), [0, 5]),
    (Compare("k", "<>", 1), [1, 2, 4]),
    (Compare("d", "=", Decimal("0.10")), [0, 3]),
    (Compare("d", ">=", 1), [4, 5]),
    (Compare("s", "=", "it's"), [0]),
    (Compare("t", "=", DAY), [0, 3, 4, 5]),
    (In("k", (1, 3, 99)), [0, 2, 5]),
    (Not(In("k", (1, 3))), [1, 4]),
    (In("s", ("REG", "")), [2, 4]),
    (Between("k", 2, 3), [1, 2]),
    (Between("t", DAY, DAY + datetime.timedelta(1)), [0, 2, 3, 4, 5]),
    (Prefix("s", "REG"), [1, 2]),
    (Not(Prefix("s", "REG")), [0, 4, 5]),
    (IsNull("s"), [3]),
    (Or((Compare("k", "=", 2), IsNull("k"))), [1, 3]),
    (And((Compare("k", "=", 1), Or((Compare("s", "=", "MAIL"), IsNull("t"))))), [5]),
    (Not(Or((Compare("k", ">", 1), Compare("d", "<", 1)))), [5]),
]


@pytest.mark.parametrize(
    ("predicate", "ids"), PREDICATES, ids=[sql(predicate) for predicate, _ in PREDICATES]
)
def test_predicates(tmp_path: Path, predicate: Predicate, ids: list[int]) -> None:
    batch = ROWS.to_batches()[0]
    assert batch.filter(arrow_mask(predicate, batch)).column("id").to_pylist() == ids
    write_columns(tmp_path / "x.orc", {name: ROWS.column(name) for name in ROWS.column_names})
    scan = hindex.connect().table(str(tmp_path)).scan(sql(predicate), ["id"])
    assert scan.to_arrow().column("id").to_pylist() == ids


def test_literals() -> None:
    assert [literal(value) for value in (1, "it's", Decimal("0.10"), DAY)] == [
        "1",
        "'it''s'",
        "0.10",
        "DATE '1995-03-15'",
    ]
    assert cast_literal(Decimal("0.10")) == "CAST('0.10' AS DECIMAL(15, 2))"
    assert columns(PREDICATES[-2][0]) == ("k", "s", "t")
    assert sql(In("k", tuple(range(1000))), short=True) == "k IN (1,000 values)"


def with_value(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    values = table.column(name).to_pylist()
    values[row] = value
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


EVENTS = pa.concat_tables(event_pieces(0, 300, 300))

CHANGES: list[tuple[str, Callable[[pa.Table], pa.Table]]] = [
    ("a row twice", lambda rows: rows.take([*range(1, len(rows)), 1])),
    ("a row less", lambda rows: rows.slice(1)),
    (
        "two columns swapped",
        lambda rows: rows.rename_columns({"count_00": "count_01", "count_01": "count_00"}),
    ),
    ("a null", lambda rows: with_value(rows, "value_00", 7, None)),
    ("zero for null", lambda rows: with_value(with_value(rows, "user_id", 7, None), "user_id", 7, 0)),
    ("a number", lambda rows: with_value(rows, "user_id", 7, rows.column("user_id")[7].as_py() + 1)),
    ("a text", lambda rows: with_value(rows, "url", 7, "/shop/x")),
    ("a day", lambda rows: with_value(rows, "day", 7, DAY)),
    ("a field", lambda rows: with_value(rows, "device", 7, {"os": "x", "version": 1})),
    ("a list", lambda rows: with_value(rows, "tags", 7, ["x"])),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[what for what, _ in CHANGES])
def test_a_checksum_sees(what: str, change: Callable[[pa.Table], pa.Table]) -> None:
    before = with_value(EVENTS, "user_id", 7, None) if what == "zero for null" else EVENTS
    after = change(before)
    assert digest(after) != digest(before)
    assert what == "two columns swapped" or same_rows(after, before) is not None


def test_a_checksum_does_not_see_order_or_width(rng: np.random.Generator) -> None:
    shuffled = EVENTS.take(pa.array(rng.permutation(len(EVENTS))))
    assert digest(shuffled.select(sorted(shuffled.column_names))) == digest(EVENTS)
    assert same_rows(shuffled, EVENTS) is None
    flat = ROWS.cast(
        pa.schema(
            [
                ("id", pa.int32()),
                ("k", pa.int64()),
                ("d", pa.decimal128(38, 4)),
                ("s", pa.large_string()),
                ("t", pa.date64()),
            ]
        )
    )
    assert digest(flat) == digest(ROWS)
    zeros = pa.table({"x": [0.0, float("nan"), None]})
    assert digest(pa.table({"x": [float("nan"), None, -0.0]})) == digest(zeros)


def test_events_do_not_depend_on_how_they_are_asked_for() -> None:
    half = pa.concat_tables([*event_pieces(0, 100_000, EVENT_ROWS)])
    assert half.slice(0, 1000).equals(pa.concat_tables(event_pieces(0, 100_000, EVENT_ROWS)).slice(0, 1000))
    assert half.column("referrer").null_count > 0
    assert half.column("device").null_count == half.column("tags").null_count == 0


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("scale", [0.01, 2.0, 10.0])
def test_every_query_is_found_by_its_name(suite: str, scale: float) -> None:
    queries = SUITES[suite](scale)
    assert len({query.name for query in queries}) == len(queries)
    for query in queries:
        assert find(suite, scale, query.name) == query
        indexed = Dataset(
            "lineitem" if suite in ("few-rows", "needles", "selectivity") else suite, scale
        ).indexed
        assert set(columns(query.where)) <= {*indexed, "l_linenumber"}, "engines index what queries name"


@pytest.mark.parametrize("dataset", [Dataset("lineitem", 2), Dataset("events", 0.01, Order.SHUFFLED)])
def test_a_dataset_is_known_by_its_name(dataset: Dataset) -> None:
    assert Dataset.parse(dataset.name) == dataset


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_says_what_it_is(name: str) -> None:
    of = engine_class(name)
    assert of.name == name
    assert of.settings
    assert of.package
    if of.name in ("hindex", "pyarrow", "spark"):
        # the others are installed for the benchmarks only
        assert version(of.package)


def test_tables_are_aligned() -> None:
    assert table(["a", "ms"], [["x", "1"], ["yy", "10.0"]]).split("\n") == [
        "| a  |   ms |",
        "| -- | ---: |",
        "| x  |    1 |",
        "| yy | 10.0 |",
    ]
    assert ratio_text([2.0, 1.0, 30.0]) == "2.00 (1.00 - 30.0)"
    assert ratio_text([]) == "-"
