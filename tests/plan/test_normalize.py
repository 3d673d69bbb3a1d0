from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hindex.domain import Domain, Key, Range
from hindex.errors import ColumnError, PredicateError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import AllOf, AnyOf, Filter, Leaf, Residual, columns, leaves
from hindex.plan.normalize import normalize
from hindex.plan.rules import transform
from hindex.plan.time_zones import TimeZones
from hindex.sql import parse_predicate
from hindex.sql.predicate import (
    NULL,
    And,
    ColumnRef,
    Comparison,
    ComparisonOp,
    In,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
)
from hindex.table.schema import TableColumn, TableSchema
from tests.support.messages import raises

INT = OrcType(Kind.INT)
SCHEMA = TableSchema(
    (
        TableColumn("a", INT),
        TableColumn("b", OrcType(Kind.LONG)),
        TableColumn("s", OrcType(Kind.STRING)),
        TableColumn("flag", OrcType(Kind.BOOLEAN)),
        TableColumn("dec", OrcType(Kind.DECIMAL, precision=10, scale=2)),
        TableColumn("day", OrcType(Kind.DATE)),
        TableColumn("t", OrcType(Kind.TIMESTAMP)),
        TableColumn("c5", OrcType(Kind.CHAR, max_length=5)),
        TableColumn("arr", OrcType(Kind.LIST, children=(INT,))),
        TableColumn("st", OrcType(Kind.STRUCT, children=(INT,), field_names=("x",))),
        TableColumn("x", INT),
        TableColumn("X", INT),
    )
)


def fixture_cases() -> list[tuple[str, str]]:
    lines = (Path(__file__).parent / "fixtures" / "normalize.txt").read_text("utf-8").split("\n")
    split = (line.split(" => ") for line in lines if line and not line.startswith("#"))
    return [(before, after) for before, after in split]


def shown_key(key: Key) -> str:
    return repr(key.decode()) if isinstance(key, bytes) else str(key)


def shown_range(item: Range) -> str:
    if item.is_point and item.low is not None:
        return shown_key(item.low)
    low = "" if item.low is None else ("" if item.low_inclusive else ">") + shown_key(item.low)
    high = "" if item.high is None else ("" if item.high_inclusive else "<") + shown_key(item.high)
    return f"{low}..{high}"


def shown(node: Filter) -> str:
    if isinstance(node, AllOf | AnyOf):
        name = "all" if isinstance(node, AllOf) else "any"
        return f"{name}({', '.join(map(shown, node.children))})"
    if isinstance(node, Residual):
        return f"?({node})"
    if not isinstance(node, Leaf):
        return str(node)
    ranges = ["*"] if node.domain.has_every_value else [shown_range(item) for item in node.domain.ranges]
    return f"{node.column}{{{' '.join(ranges + ['NULL'] * node.domain.null_allowed)}}}"


def integer(value: int) -> Literal:
    return Literal(value, LiteralKind.INTEGER)


def compare(column: str, op: ComparisonOp, value: int) -> Comparison:
    return Comparison(op, ColumnRef((column,)), integer(value))


@pytest.mark.parametrize(("before", "after"), fixture_cases())
def test_fixture(before: str, after: str) -> None:
    root = normalize(parse_predicate(before), SCHEMA)
    assert shown(root) == after
    assert transform(root, lambda node: node) == root, "normal form is stable"
    assert pickle.loads(pickle.dumps(root)) == root
    assert hash(root) == hash(normalize(parse_predicate(before), SCHEMA))


def test_texts_are_what_was_written() -> None:
    root = normalize(parse_predicate("NOT (a = 1 OR s IN ('x')) AND a < 9"), SCHEMA)
    assert [leaf.text for leaf in leaves(root)] == ["a <> 1 AND a < 9", "s NOT IN ('x')"]
    assert str(root) == "a <> 1 AND a < 9 AND s NOT IN ('x')"
    either = normalize(parse_predicate("(a = 1 OR a = 2) AND b = 3"), SCHEMA)
    assert str(either) == "(a = 1 OR a = 2) AND b = 3"


def test_columns_in_order_of_first_mention() -> None:
    root = normalize(
        parse_predicate("s = 'x' AND (a = 1 OR b = 2) AND (B = 4 OR day > '2020-01-01')"), SCHEMA
    )
    assert columns(root) == ("s", "a", "b", "day")


def test_long_lists_are_abbreviated() -> None:
    root = normalize(In(ColumnRef(("a",)), tuple(map(integer, range(0, 20_000, 2)))), SCHEMA)
    assert isinstance(root, Leaf)
    assert len(root.domain.ranges) == 10_000
    assert root.text == "a IN (0, 2, 4, 6, 8, 10, 12, 14, … 9,992 more)"


@pytest.mark.parametrize("count", [10_000])
def test_wide_trees(count: int) -> None:
    ors = Or(tuple(compare("a", ComparisonOp.EQ, 2 * i) for i in range(count)))
    root = normalize(ors, SCHEMA)
    assert isinstance(root, Leaf)
    assert len(root.domain.ranges) == count
    assert root.text == "(a = 0 OR a = 2 OR a = 4 OR a = 6 OR … 9,996 more)"
    opposite = normalize(Not(ors), SCHEMA)
    assert isinstance(opposite, Leaf)
    assert opposite.domain == root.domain.complement(null_allowed=False)
    ands = And(tuple(compare("a", ComparisonOp.NE, 2 * i) for i in range(count)))
    assert normalize(ands, SCHEMA) == opposite


def test_deep_trees_do_not_recurse() -> None:
    node: Predicate = compare("a", ComparisonOp.EQ, 0)
    for i in range(5_000):
        node = Not(And((Or((node, compare("b", ComparisonOp.EQ, i))), compare("a", ComparisonOp.GE, -i))))
    root = normalize(node, SCHEMA)
    assert columns(root) == ("a", "b")


def test_in_with_only_null() -> None:
    nulls = In(ColumnRef(("a",)), (NULL, NULL))
    assert shown(normalize(nulls, SCHEMA)) == "FALSE"
    assert shown(normalize(Not(nulls), SCHEMA)) == "FALSE"


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("a = 'x'", "cannot evaluate a = 'x': the literal 'x' cannot be cast to bigint"),
        (
            "a = TRUE",
            "the comparison = of column 'a' of type int and the boolean TRUE is refused, in Spark too",
        ),
        ("a = day + 1", "the comparison = of column 'a' of type int and a value of type date is refused"),
        ("a + s > TRUE", "cannot evaluate a \\+ s > TRUE"),
        ("a", "a column of type int is not a condition"),
        ("arr = 1", r"a column of type array<int> can only be tested for NULL"),
        ("s LIKE 'a%b' ESCAPE 'b'", "an escape character"),
        ("lower(arr) = 'a'", r"a column of type array<int> can only be tested for NULL"),
        ("s RLIKE '(?i)x'", "which is not evaluated here; filter with Spark"),
        (r"s LIKE 'a\\b'", "an escape character"),
        ("t = '2020-01-01 00:00:00Z'", "names a time zone"),
        ("t = TIMESTAMP '2020-01-01 00:00:00Z'", "names the time zone 'Z'"),
        ("t = TIMESTAMP 'x'", "the literal TIMESTAMP 'x' is not read as a time here"),
        ("t = '12:00'", "'12:00' is not read as a timestamp here"),
        ("day > TIMESTAMP 'now'", "the literal TIMESTAMP 'now' is not read as a time here"),
        (
            "t > DATE '300000-01-01'",
            r"the literal \+300000-01-01 cannot be cast to timestamp, as Spark would",
        ),
        ("a = CAST(1e300 AS INT)", r"the literal 1e\+300 cannot be cast to int, as Spark would"),
        (
            "a IN (1, DATE '2020-01-01', NULL)",
            "IN of column 'a' of type int and the date 2020-01-01 is refused",
        ),
        ("b = 123456789012345678901234567890123456789", "more than 38 digits; write fewer digits"),
        ("a = 1 OR b = 'y'", "cannot evaluate b = 'y'"),
    ],
)
def test_refused(predicate: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        normalize(parse_predicate(predicate), SCHEMA)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (
            "t = 5",
            "of column 't' of type timestamp with local time zone and the int 5 is refused, in Spark too",
        ),
        ("t IN ('2020-01-01', 5)", "and the int 5 is refused"),
        ("t = 'x'", "the literal 'x' cannot be cast to timestamp"),
        ("t = 'today'", "the literal 'today' is not read as a time here"),
        ("t = '12:00:00'", "is not read as a time here"),
        ("t > DATE '300000-01-01'", "does not fit timestamp"),
        ("t = '2020-01-01 00:00:00 Nowhere/City'", "the time zone 'Nowhere/City' of the literal"),
    ],
)
def test_refused_beside_instants(predicate: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        normalize(parse_predicate(predicate), SCHEMA, TimeZones("Europe/Berlin", "Europe/Berlin"))


@pytest.mark.parametrize("predicate", ["nothing = 1", "x = 1 OR Nope IS NULL", "st.y = 1"])
def test_unknown_columns(predicate: str) -> None:
    with raises(ColumnError):
        normalize(parse_predicate(predicate), SCHEMA)


def test_partition_columns_are_columns() -> None:
    schema = TableSchema((TableColumn("p", INT),), (TableColumn("p", INT),))
    assert normalize(parse_predicate("P = 1"), schema) == Leaf("p", INT, Domain.points([1]))
