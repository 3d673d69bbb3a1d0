"""PyArrow's expressions as predicates: what is pushed, what is exact, and what is left to PyArrow."""

from __future__ import annotations

import datetime
import functools
import operator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hindex.engines.arrow_expressions import read_columns, translate_filter
from hindex.errors import PredicateError
from hindex.sql.predicate import Predicate, leaves

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("p", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("t", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("st", pa.struct([("x", pa.int32()), ("a.b", pa.string())])),
        ("a.b", pa.int64()),
    ]
)
NAN = float("nan")
A, F, D, S = (pc.field(name) for name in "ifds")
NOON = datetime.datetime(2024, 1, 2, 12)


def translate(expression: pc.Expression) -> tuple[str, bool]:
    translated = translate_filter(expression, SCHEMA, lambda predicate: None)
    return str(translated.predicate), translated.is_exact


EXACT = [
    (A == 3, "i = 3"),
    (pc.scalar(3) < A, "i > 3"),
    (~(A == 3), "i <> 3"),
    (pc.scalar(pa.scalar(None, pa.int32())) == A, "FALSE"),
    (A.is_null(), "i IS NULL"),
    (~A.is_valid(), "i IS NULL"),
    ((A == 3) & ~((S == "x") | (D < 1.5)), "i = 3 AND s <> 'x' AND d >= 1.5D"),
    (D > 5, "d > 5.0D AND d < CAST('NaN' AS DOUBLE)"),
    (D < 5, "d < 5.0D"),
    (~(D > 5), "d <= 5.0D OR d = CAST('NaN' AS DOUBLE)"),
    (D != 5, "d <> 5.0D"),
    (D == NAN, "FALSE"),
    (D != NAN, "d IS NOT NULL"),
    (~(D > NAN), "d IS NOT NULL"),
    (pc.is_nan(D), "d = CAST('NaN' AS DOUBLE)"),
    (D.is_null(nan_is_null=True), "d IS NULL OR d = CAST('NaN' AS DOUBLE)"),
    (F == 0.5, "f = 0.5D"),
    (A.isin([1, None]), "i IN (1) OR i IS NULL"),
    (~A.isin([1, None]), "i NOT IN (1)"),
    (~A.isin([1, 2]), "i NOT IN (1, 2) OR i IS NULL"),
    (~pc.is_in(A, value_set=pa.array([1, None]), skip_nulls=True), "i NOT IN (1) OR i IS NULL"),
    (pc.if_else(A.is_valid(), A.isin([1]), pa.scalar(None, pa.bool_())), "i IS NOT NULL AND i IN (1)"),
    (pc.field("t"), "t"),
    (~pc.field("t"), "NOT t"),
    (pc.field("p") == Decimal("1.5"), "p = 1.5"),
    (pc.field("day") >= datetime.date(2024, 1, 2), "day >= DATE '2024-01-02'"),
    (pc.field("ts") < NOON, "ts < TIMESTAMP '2024-01-02 12:00:00.000000'"),
    (
        pc.field("tz") < NOON.replace(tzinfo=datetime.UTC),
        "tz < TIMESTAMP '2024-01-02 12:00:00.000000+00:00'",
    ),
    (pc.field("b") == b"\1", "b = X'01'"),
    (pc.starts_with(S, "a%"), "s LIKE 'a\\\\%%'"),
    (pc.ends_with(S, "a_"), "s LIKE '%a\\\\_'"),
    (pc.match_substring(S, "it's"), "s LIKE '%it\\'s%'"),
    (pc.year(pc.field("day")) == 2024, "year(day) = 2024"),
    (~(pc.month(pc.field("day")) < 3), "month(day) >= 3"),
    (pc.day_of_year(pc.field("day")).isin([1, 60]), "dayofyear(day) IN (1, 60)"),
    (A.cast(pa.int64()) == 3, "i = 3"),
    (pc.field("st", "x") == 3, "st.x = 3"),
    (pc.field("a.b") == 3, "`a.b` = 3"),
]

SUPERSETS = [
    (F == 0.1, "f >= 0.1D AND f <= 0.10000000149011612D"),
    (F < 0.1, "f < 0.10000000149011612D"),
    (~(F < 0.1), "f >= 0.1D"),
    (F != 0.1, "f IS NOT NULL"),
    (D.isin([0.0, 1.0]), "d IN (0.0D, 1.0D)"),
    (~D.isin([0.0, 1.0]), "None"),
    (pc.field("day") > NOON, "day > DATE '2024-01-02'"),
    ((A == 3) & (pc.utf8_length(S) > 2), "i = 3"),
    ((A == 3) | (pc.utf8_length(S) > 2), "None"),
    (~((A != 3) | (pc.utf8_length(S) > 2)), "i = 3"),
    (A == D, "None"),
    (pc.field("ts") < NOON.replace(tzinfo=datetime.UTC), "None"),
    (pc.field("nope") == 3, "None"),
    (pc.field(0) == 3, "None"),
]


@pytest.mark.parametrize(("expression", "predicate"), EXACT, ids=[str(item[0]) for item in EXACT])
def test_exact(expression: pc.Expression, predicate: str) -> None:
    assert translate(expression) == (predicate, True)


@pytest.mark.parametrize(("expression", "predicate"), SUPERSETS, ids=[str(item[0]) for item in SUPERSETS])
def test_superset(expression: pc.Expression, predicate: str) -> None:
    assert translate(expression) == (predicate, False)


def test_integers_beside_floats_leave_room_for_rounding() -> None:
    """PyArrow may compare 16777217 as a 32-bit float, which is 16777216."""
    translated = translate_filter(A == 16777216.0, SCHEMA, lambda predicate: None)
    low, high = map(str, leaves(translated.predicate))  # type: ignore[arg-type]
    assert int(low.removeprefix("i >= ")) <= 16777215
    assert int(high.removeprefix("i <= ")) >= 16777217
    assert not translated.is_exact


def test_refused_parts_prune_nothing() -> None:
    def accepts(predicate: Predicate) -> None:
        if any("s" in str(leaf) for leaf in leaves(predicate)):
            raise PredicateError("no")

    translated = translate_filter((A == 3) & (S == "x"), SCHEMA, accepts)
    assert str(translated.predicate) == "i = 3"
    assert translated.unsupported == ("s == 'x'",)


def test_long_chains_do_not_recurse() -> None:
    many = functools.reduce(operator.or_, (value == A for value in range(3000)))
    translated = translate_filter(many, SCHEMA, lambda predicate: None)
    assert translated.is_exact
    assert len(list(leaves(translated.predicate))) == 3000  # type: ignore[arg-type]


def test_texts_are_those_of_people() -> None:
    """PyArrow's own text of an expression is not always UTF-8."""
    translated = translate_filter(
        S.isin(["é" * 500] * 20) | (pc.utf8_length(S) > 2), SCHEMA, lambda predicate: None
    )
    assert translated.text.startswith("(s in ('é")
    assert translated.text.endswith("… 15 more) or greater(utf8_length(s), 2))")


def test_read_columns() -> None:
    assert read_columns((A == 3) & (pc.utf8_length(S) > 2) & (pc.field("st", "a.b") == "")) == frozenset(
        {"i", "s", "st"}
    )
    assert read_columns(pc.field(0) == 3) is None
