"""Parameters of statements: arguments are bound as literals, and never read as SQL."""

from __future__ import annotations

import datetime
import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from hindex.errors import ArgumentError, ArgumentTypeError, StatementError, UnsupportedError
from hindex.sql import parse
from hindex.sql.parameters import check_args
from hindex.sql.queries import parse_query
from hindex.sql.statements import Select
from tests.support.messages import raises

ZONE = datetime.timezone(datetime.timedelta(hours=2))
VALUES = [
    None,
    True,
    False,
    0,
    7,
    -7,
    2**31,
    -(2**63),
    2**70,
    1.5,
    -0.0,
    1e300,
    math.nan,
    -math.inf,
    Decimal("1.10"),
    Decimal("-5"),
    Decimal("1E-30"),
    "",
    "x",
    "it's",
    'say "hi"',
    "a\\'b\n\0%_",
    "' OR 1 = 1 --",
    ":other ? /* */",
    "\U0001f600",
    b"",
    b"\x00'\xff",
    datetime.date(2020, 2, 29),
    datetime.date(1, 1, 1),
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2020, 1, 2, tzinfo=ZONE),
    np.int64(-3),
    np.float32(1.5),
    np.bool_(True),
    np.str_("it's"),
    np.datetime64("2020-02-29"),
    np.datetime64("2020-01-02T03:04:05.000006"),
    np.datetime64("2020-01-02T03:04:05.000006000"),
]


def select(text: str, args: Any) -> Select:
    statement = parse(text, args)
    assert isinstance(statement, Select)
    return statement


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_its_literal(value: Any) -> None:
    from hindex.api.conditions import literal

    written = select(f"SELECT a FROM t WHERE a = {literal(value)} OR b IN ({literal(value)}, 1)", None).where
    for text, args in (
        ("SELECT a FROM t WHERE a = :v OR b IN (:v, 1)", {"v": value}),
        ("SELECT a FROM t WHERE a =? OR b IN (?,1);", [value, value]),
        ("SELECT a FROM t WHERE a = :`v w`OR b IN (/* :x ? */ :`v w`, 1) -- :y", {"v w": value}),
    ):
        assert select(text, args).where == written


def test_what_is_no_parameter() -> None:
    where = select("""SELECT a FROM t WHERE a = ':v' AND b = "?" AND `c:v?` = 'x' -- ? :v""", {}).where
    assert str(where) == "a = ':v' AND b = '?' AND `c:v?` = 'x'"
    assert str(select("SELECT a FROM 'x?:v' WHERE a = :v", {"v": 1})) == "SELECT a FROM 'x?:v' WHERE a = 1"


def test_where_parameters_are() -> None:
    statement = select("SELECT a FROM t WHERE a BETWEEN :low AND :high AND s LIKE :like LIMIT :n", {
        "low": -3, "high": Decimal("2.5"), "like": "a%", "n": 5,
    })  # fmt: skip
    assert str(statement.where) == "a >= -3 AND a <= 2.5 AND s LIKE 'a%'"
    assert statement.limit == 5
    page = select("SELECT a FROM t WHERE s = ? LIMIT ? OFFSET ?", ["a", 5, 10])
    assert (page.limit, page.offset) == (5, 10)
    assert select("SELECT a FROM t OFFSET :n", {"n": 3}).offset == 3
    grouped = select("SELECT a, count(*) FROM t WHERE b <=> ? GROUP BY a HAVING count(*) > ?", [None, 3])
    assert str(grouped.having) == "COUNT(*) > 3"
    assert str(parse("EXPLAIN SELECT a FROM t WHERE a = ?", [1])) == "EXPLAIN SELECT a FROM t WHERE a = 1"
    assert str(parse("REFRESH INDEX i ON t WHERE p = :p", {"p": "x"})).endswith("WHERE p = 'x'")
    computed = select("SELECT a FROM t WHERE a - :n = - :n * 2", {"n": -1}).where
    assert computed == select("SELECT a FROM t WHERE a - (-1) = - (-1) * 2", None).where


@pytest.mark.parametrize(
    ("text", "args", "error", "message"),
    [
        ("a = :x", {"y": 1}, ArgumentError, r"column 27: the parameter :x has no argument: args has 'y'"),
        ("a = :x", {}, ArgumentError, r"column 27: the parameter :x has no argument: args has none"),
        ("a = :X", {"x": 1}, ArgumentError, r":X has no argument: args has 'x'"),
        (
            "a = ? OR a = ?",
            [1],
            ArgumentError,
            r"column 36: the parameter \? number 2 has no argument: args has 1",
        ),
        ("a = :x", [1], ArgumentError, r"the parameter :x takes its argument from a dict"),
        ("a = ?", {"x": 1}, ArgumentError, r"the parameter \? number 1 takes its argument from a list"),
        ("a = :x", {"x": 1, "y": 2}, ArgumentError, r"^args has 'y', and the statement has no parameter :y"),
        ("a = ':y'", {"y": 2}, ArgumentError, r"no parameter :y \(its parameters: none\)"),
        ("a = ?", [1, 2], ArgumentError, r"^args has 2 values, and the statement has no parameter \?"),
        ("a = :x", {"x": {1}}, UnsupportedError, r"the argument of :x is \{1\}, of type set: use None, bool"),
        ("a = ?", [Decimal("NaN")], UnsupportedError, r"is Decimal\('NaN'\), of type Decimal: use"),
        ("a = ?", [10**2000], UnsupportedError, r"\? number 1 .* a whole number of \d+ bits is too long"),
        # strings that stand beside each other are one in SQL, and arguments are none of SQL
        ("a = 'x' :x", {"x": "y"}, ArgumentError, r"no parameter :x"),
        ("a = :x 'y'", {"x": "x"}, StatementError, r"unexpected"),
        ("a = :x LIMIT :x", {"x": "1"}, StatementError, r"after LIMIT, found the argument of :x"),
        ("a = :x OFFSET :x", {"x": 1.5}, StatementError, r"after OFFSET, found the argument of :x"),
        ("a = ? LIMIT ?", [1, -1], StatementError, r"after LIMIT, found the argument of \?"),
    ],
)
def test_mistakes(text: str, args: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        parse(f"SELECT a FROM t WHERE {text}", args)
    assert isinstance(caught.value, UnsupportedError) == (error is UnsupportedError)


@pytest.mark.parametrize("args", ["x", b"x", 7, {1: 2}, {1, 2}, iter([1])])
def test_args_that_are_none(args: Any) -> None:
    with raises(ArgumentTypeError):
        check_args(args)


def test_positions_are_no_parameters() -> None:
    """A number behind GROUP BY or ORDER BY is a position if it is written there; of an argument only Spark decides."""
    for clause in ("GROUP BY ?", "GROUP BY a ORDER BY ?"):
        with pytest.raises(UnsupportedError):
            parse(f"SELECT a FROM t {clause}", [1])


def test_conditions_of_queries_for_spark() -> None:
    """Arguments are in the conditions; Spark gets the text as it is."""
    text = "SELECT * FROM t JOIN u USING (k) WHERE t.a = :a AND t.b = :b AND u.c = ':a'"
    args = {"a": "it's", "b": 2}
    query = parse_query(text, args)
    assert query is not None
    names = [["a", "b", "k"], ["c", "k"]]
    conditions = [list(map(str, some)) for some in query.conditions(names)]
    assert conditions == [["a = 'it\\'s'", "b = 2"], ["c = ':a'"]]
    assert (query.text, query.args) == (text, args)
    assert query.with_tables(["x", None]).startswith(
        "(SELECT * FROM x AS `t` JOIN u USING (k) WHERE t.a = :a"
    )
    # Spark says what is missing
    left = parse_query(text, {"a": 1})
    assert left is not None
    assert [list(map(str, some)) for some in left.conditions(names)] == [["a = 1"], ["c = ':a'"]]
    # whatever has no literal here leaves the query to Spark, with its tables where they are
    other = parse_query(text, {"a": 1, "b": {1}})
    assert other is not None
    assert (other.problem, len(other.tables)) == ("a parameter is of a type that hindex does not bind", 2)
    assert other.conditions(names) == [[], []]


def test_a_local_time_is_the_instant_that_pyspark_takes_it_for() -> None:
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
    statement = parse("SELECT a FROM t WHERE a = ?", [moment], for_spark=True)
    wanted = parse("SELECT a FROM t WHERE a = ?", [moment.astimezone()])
    assert statement == wanted != parse("SELECT a FROM t WHERE a = ?", [moment])


def test_local_times_that_are_not_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark takes a datetime without a zone for a time of this machine, whose clock may skip or repeat an hour."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for value, condition in (
            (datetime.datetime(2024, 10, 27, 1, 30), "b = TIMESTAMP '2024-10-27 01:30:00+02:00'"),
            (datetime.datetime(2024, 10, 27, 2, 30), None),
            (datetime.datetime(2024, 10, 27, 2, 30, fold=1), None),
            (datetime.datetime(2024, 10, 27, 3, 30), "b = TIMESTAMP '2024-10-27 03:30:00+01:00'"),
            (datetime.datetime(2024, 3, 31, 2, 30), None),
        ):
            query = parse_query("SELECT a FROM t WHERE b = :v", {"v": value})
            assert query is not None
            problem = "a parameter is of a type that hindex does not bind"
            assert query.problem == (problem if condition is None else None)
            listed = [str(item) for items in query.conditions([["a", "b"]]) for item in items]
            assert listed == ([] if condition is None else [condition])
    finally:
        monkeypatch.undo()
        time.tzset()
