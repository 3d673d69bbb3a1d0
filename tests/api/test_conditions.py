"""Conditions built in Python are those that SQL text is parsed to."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hindex
from hindex import call, col, lit
from hindex.api.conditions import Expr, literal
from hindex.api.predicate_input import parse_condition
from hindex.errors import ArgumentTypeError, ColumnError, HindexError, PredicateError
from hindex.sql import parse_predicate
from hindex.sql.functions import EVALUATED, NAMES
from hindex.sql.predicate import ColumnRef, Literal, LiteralKind
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, write_rows

A, B, S = col("a"), col("b"), col("s")
FLAG = col("flag")

# the condition => SQL text that is parsed to the same
CASES: list[tuple[Any, str]] = [
    (A == 1, "a = 1"),
    (A != 1, "a <> 1"),
    (A < 1, "a < 1"),
    (A <= 1, "a <= 1"),
    (A > 1, "a > 1"),
    (A >= 1, "a >= 1"),
    (1 < A, "a > 1"),  # noqa: SIM300
    (1 == A, "a = 1"),  # noqa: SIM300
    (A.eq_null_safe(None), "a <=> NULL"),
    (B == A, "b = a"),
    (A.between(20, 25), "a BETWEEN 20 AND 25"),
    (A.between(B, B + 1), "a BETWEEN b AND b + 1"),
    (A.isin(1, 2, None), "a IN (1, 2, NULL)"),
    (A.between(None, 3), "a BETWEEN NULL AND 3"),
    (~A.between(1, None), "NOT (a BETWEEN 1 AND NULL)"),
    (FLAG & None, "flag AND NULL"),
    (A.isin([1, 2]), "a IN (1, 2)"),
    (A.isin(range(3)), "a IN (0, 1, 2)"),
    (S.isin(bytearray(b"x")), "s IN (X'78')"),
    (S.isin("xy"), "s IN ('xy')"),
    (A.isin(B, 1), "a IN (b, 1)"),
    (~A.isin(1), "a NOT IN (1)"),
    (A.is_null(), "a IS NULL"),
    (A.is_not_null(), "a IS NOT NULL"),
    ((A + B).is_null(), "a + b IS NULL"),
    (S.like("a%"), "s LIKE 'a%'"),
    (S.like("%!%%", "!"), "s LIKE '%!%%' ESCAPE '!'"),
    (~S.like("a_"), "s NOT LIKE 'a_'"),
    (S.rlike("^a"), "s RLIKE '^a'"),
    (S.lower() == "x", "lower(s) = 'x'"),
    (S.substring(1, 2) == "x", "substring(s, 1, 2) = 'x'"),
    (S.startswith("x"), "startswith(s, 'x')"),
    (call("lower", S).like("a%"), "lower(s) LIKE 'a%'"),
    (call("if", A > 1, "x", S) == "x", "if(a > 1, 'x', s) = 'x'"),
    (call("coalesce", A, 0) == 0, "coalesce(a, 0) = 0"),
    (A.coalesce(0) == 0, "coalesce(a, 0) = 0"),
    (A.isnull() & A.nvl(B) > 1, "(a IS NULL AND coalesce(a, b)) > 1"),
    (A + 1 > B, "a + 1 > b"),
    (1 + A > B, "1 + a > b"),
    ((A + B) * 2 - B / 3 == A % 2, "(a + b) * 2 - b / 3 = a % 2"),
    (10 - A == 10 / B, "10 - a = 10 / b"),
    (10 % A == 2 * B, "10 % a = 2 * b"),
    (-A == 1, "-a = 1"),
    (abs(A) == 1, "abs(a) = 1"),
    (A.cast("bigint") == B, "CAST(a AS BIGINT) = b"),
    (A.cast("decimal(10,2)") == B, "CAST(a AS DECIMAL(10, 2)) = b"),
    (A.cast("long") == B, "CAST(a AS BIGINT) = b"),
    (S.try_cast("int") == 1, "TRY_CAST(s AS INT) = 1"),
    (FLAG, "flag"),
    (~FLAG, "NOT flag"),
    (FLAG & (A == 1) | ~S.is_null(), "flag AND a = 1 OR s IS NOT NULL"),
    (FLAG & ((A == 1) | ~S.is_null()), "flag AND (a = 1 OR s IS NOT NULL)"),
    (FLAG & True, "flag AND TRUE"),
    (False | FLAG, "FALSE OR flag"),
    ((A > 1) == FLAG, "(a > 1) = flag"),
    (~((A == 1) & FLAG), "NOT (a = 1 AND flag)"),
    (col("r.g.h") == 1, "r.g.h = 1"),
    (col("r", "g.h") == 1, "r.`g.h` = 1"),
    (col("`a.b`.c") == 1, "`a.b`.c = 1"),
    (col("my column") == 1, "`my column` = 1"),
    (lit("x") == S, "s = 'x'"),
    (lit(None) == A, "a = NULL"),
    (lit(None) != A, "a <> NULL"),
    (A == 1.5, "a = 1.5D"),
    (Decimal("1.50") == A, "a = 1.50"),
    (datetime.date(2020, 2, 29) == A, "a = DATE '2020-02-29'"),
    (datetime.datetime(2020, 1, 2, 3, 4, 5, 600) < A, "a > TIMESTAMP '2020-01-02 03:04:05.000600'"),
    (A == b"\x1f", "a = X'1F'"),
    (np.int64(7) == A, "a = 7"),
    (FLAG == True, "flag = TRUE"),  # noqa: E712
]


@pytest.mark.parametrize(("built", "text"), CASES, ids=[text for _, text in CASES])
def test_nodes_are_those_of_the_text(built: Expr, text: str) -> None:
    assert built.predicate == parse_predicate(text)
    assert parse_condition(built) == parse_condition(text) == parse_condition(parse_predicate(text))
    assert parse_predicate(str(built)) == built.predicate


def test_readme_example() -> None:
    built = col("age").between(20, 25) & (col("s").startswith("x") | ~col("n").is_null())
    assert str(built) == "age >= 20 AND age <= 25 AND (startswith(s, 'x') OR n IS NOT NULL)"
    assert repr(built) == f"Expr({built})"


@pytest.mark.parametrize(
    "use",
    [lambda: A == 1 and B == 2, lambda: A == 1 or B == 2, lambda: not A, lambda: 1 < A < 3, lambda: A in [B]],
)
def test_python_connectives_are_refused_with_the_remedy(use: Any) -> None:
    with raises(TypeError):
        use()


def test_enums_of_texts_are_their_texts() -> None:
    class Colour(str, enum.Enum):  # noqa: UP042 one that shows itself as Colour.RED
        RED = "red"

    assert str(A == Colour.RED) == "a = 'red'"
    assert str(A.isin(Colour.RED)) == str(A.isin("red"))


def test_patterns_and_names_must_be_strings() -> None:
    like: Callable[..., Any] = A.like
    named: Callable[..., Any] = col
    for use, wrong in ((like, 5), (like, None), (named, 5)):
        with raises(TypeError) as refused:
            use("x", wrong)
        assert isinstance(refused.value, HindexError)


def test_times_finer_than_microseconds_are_refused() -> None:
    exact = "2024-01-02 03:04:05.000006"
    expected = str(literal(datetime.datetime.fromisoformat(exact)))
    times = pd.Timestamp(exact), np.datetime64(exact, "ns")
    assert [str(literal(time)) for time in times] == [expected] * 2
    with raises(ValueError):
        literal(pd.Timestamp(exact + "007"))
    with raises(TypeError):
        literal(np.datetime64(exact + "007", "ns"))


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {"a": 1},
        object(),
        Decimal("NaN"),
        1j,
        np.longdouble(1),
        np.datetime64(1, "ns"),
        np.timedelta64(1, "ns"),
        np.timedelta64(1, "s"),
        pd.NaT,
    ],
)
def test_values_without_a_literal_are_refused(value: Any) -> None:
    with raises(TypeError):
        value == A  # noqa: B015


@pytest.mark.parametrize(
    "table",
    [pa.table({"a": [7]}), pa.RecordBatch.from_pydict({"a": [7]}), pd.DataFrame({"a": [7]})],
    ids=type,
)
def test_tables_are_no_lists_of_values(table: Any) -> None:
    with raises(ArgumentTypeError):
        A.isin(table)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: A.isin(), "at least one value"),
        (lambda: A == None, r"a = None is true of no row, .*: write \.is_null\(\), \.eq_null_safe"),  # noqa: E711
        (lambda: A != None, r"a <> None is true of no row, .*: write \.is_not_null\(\), "),  # noqa: E711
        (lambda: A.cast("varchar(3)"), "is not a type to cast to"),
        (lambda: A.cast("decimal(50, 2)"), "a decimal has 1 to 38 digits"),
        (lambda: A.cast("decimal(2, 5)"), "no more of them are fraction digits"),
        (lambda: A.cast("decimal(0, 0)"), "a decimal has 1 to 38 digits"),
        (lambda: A < 10**5000, "too long for SQL"),
        (lambda: Decimal("1e50") == A, "more than 38 digits"),
        (lambda: col(""), "is not the name of a column"),
        (lambda: col("a..b"), "is not the name of a column"),
        (lambda: call("lowr", S), "did you mean lower"),
        (lambda: S.lower(1), "of 2 arguments, it takes 1"),
        (lambda: S.like("x", "yz"), "one character"),
        (lambda: A == 3 & B, r"found the literal 3: .* its own parentheses"),
        (lambda: A == 3 | B, "its own parentheses"),
        (lambda: ~lit(3), "its own parentheses"),
    ],
)
def test_mistakes_are_named(use: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use()


def test_a_list_without_values_is_one_of_a_column(connection: LocalConnection, tmp_path: Path) -> None:
    """It keeps no row, or every row, of a column that there is."""
    write_rows(tmp_path / "t" / "0.orc", 0, [1, None, 3])
    table = connection.table(str(tmp_path / "t"))
    assert ids(table.scan(col("a").isin([]))) == []
    assert ids(table.scan(~col("a").isin([]))) == [0, 1, 2]
    for condition in (col("b").isin([]), ~col("b").isin([])):
        with pytest.raises(ColumnError, match="'b'"):
            table.scan(condition)


def test_unknown_methods_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="functions that are methods are abs,"):
        A.no_such_function  # noqa: B018
    for name, expected_name in (("is_in", "isin"), ("notnull", "isnotnull"), ("starts_with", "startswith")):
        with pytest.raises(
            AttributeError, match=f"no method '{name}'; did you mean '{expected_name}'\\? functions that"
        ):
            getattr(A, name)
    assert not hasattr(A, "_private")
    for name in NAMES:
        assert callable(getattr(A, name))


def test_other_values_are_not_conditions() -> None:
    with raises(PredicateError):
        parse_condition(lit(5))
    with raises(PredicateError):
        parse_condition(A is None)  # type: ignore[arg-type]
    with raises(PredicateError):
        parse_condition(5)  # type: ignore[arg-type]
    assert parse_condition(None) is None


def test_a_time_with_a_zone_keeps_it() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=1))
    result = literal(datetime.datetime(2020, 1, 1, tzinfo=zone))
    assert result == Literal("2020-01-01 00:00:00+01:00", LiteralKind.TIMESTAMP)


def test_functions_have_types_and_values() -> None:
    from hindex.expr.evaluate import _LAZY
    from hindex.expr.functions import FUNCTIONS

    assert FUNCTIONS.keys() == EVALUATED.keys()
    lazy = {name for name, function in FUNCTIONS.items() if function.evaluator is None}
    # of the others, the types tell which function they are
    assert lazy - {"[*]", "arrays_overlap"} == FUNCTIONS.keys() & _LAZY.keys()


def test_lazy_exports() -> None:
    assert hindex.col("a").node == ColumnRef(("a",))
    assert {"col", "lit", "call", "Expr"} <= set(dir(hindex))
