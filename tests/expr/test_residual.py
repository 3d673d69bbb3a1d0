"""Residuals within filters: what narrows them, whose errors count, what partition values make of them."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.errors import PredicateError
from hindex.expr import patterns, strings
from hindex.expr.vector import Vector
from hindex.index.index_type import Bounds
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan import filter_evaluation as evaluation
from hindex.plan.filter import ALWAYS, NEVER, Filter, Indexable, Residual, column_types, residuals
from hindex.plan.filter_evaluation import bounds, mask, prune
from hindex.plan.normalize import normalize
from hindex.sql import parse_predicate
from hindex.table.schema import TableColumn, TableSchema
from tests.support.messages import raises

COLUMNS = {
    "a": pa.array([0, 1, 2, 3, None, 5], pa.int32()),
    "b": pa.array([1, None, 2, 0, 4, 5], pa.int32()),
    "s": pa.array(["ab", "b", None, "", "abc", "xab"]),
    "c": pa.array(["ab", "b", None, "", "abc", "xa"]),
    "d": pa.array([0, 1, None, 3, 4, 5], pa.int32()).cast(pa.date32()),
}
SCHEMA = TableSchema(
    (
        TableColumn("a", OrcType(Kind.INT)),
        TableColumn("b", OrcType(Kind.INT)),
        TableColumn("s", OrcType(Kind.STRING)),
        TableColumn("c", OrcType(Kind.CHAR, max_length=3)),
        TableColumn("d", OrcType(Kind.DATE)),
        TableColumn("ti", OrcType(Kind.TIMESTAMP_INSTANT)),
        TableColumn("big", OrcType(Kind.DECIMAL, precision=38, scale=2)),
    )
)


def filtered(text: str) -> Filter:
    return normalize(parse_predicate(text), SCHEMA)


def rows(text: str) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask(filtered(text), COLUMNS, 6))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 1 = b", [0]),
        ("NOT (a + 1 = b)", [2, 3, 5]),
        ("a = b", [2, 5]),
        ("a <> b", [0, 3]),
        ("a <=> b", [2, 5]),
        ("NOT (a <=> b)", [0, 1, 3, 4]),
        ("a + b IS NULL", [1, 4]),
        ("NOT (a + b IS NULL)", [0, 2, 3, 5]),
        ("a = b OR a = 3", [2, 3, 5]),
        ("a = b AND a < 5", [2]),
        ("NOT (a = b AND a < 5)", [0, 3, 5]),
        ("NOT (a = b OR a < 1)", [3]),
        ("s LIKE 'a%b'", [0]),
        ("s LIKE '%b'", [0, 1, 5]),
        ("s NOT LIKE 'a%b'", [1, 3, 4, 5]),
        ("s LIKE 'ab_' OR s RLIKE '^x'", [4, 5]),
        ("c LIKE 'ab_'", [0, 4]),
        ("c = 'ab'", [0]),
        ("coalesce(c, 'zz') = 'ab '", [0]),
        ("if(a IS NULL, c = 'abc', c = 'ab')", [0, 4]),
        ("if(a IS NULL, FALSE, c IN ('ab', 'xa '))", [0, 5]),
        ("c IN ('ab', 'b')", [0, 1]),
        ("c IN (lower('AB'))", [0]),
        ("c IN (s, 'ab')", [4]),
        ("NOT (c IN (s, 'ab'))", [0, 1, 3, 5]),
        ("CAST(c AS STRING) = 'ab'", []),
        ("CAST(c AS STRING) = 'ab '", [0]),
        ("s BETWEEN 'ab' AND 'abc'", [0, 4]),
        ("nullif(s, 'ab') IS NULL", [0, 2]),
        ("a IN (1 + 1, 3L)", [2, 3]),
        ("a NOT IN (1 + 1, NULL)", []),
        ("date_add(d, 1) = DATE '1970-01-02'", [0]),
        ("a IN (b, 3)", [2, 3, 5]),
        ("a NOT IN (b, 3)", [0]),
        ("a IS NULL AND b + 1 = 5", [4]),
    ],
)
def test_rows(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b <> 0 AND 10 / b > 3", [0, 2]),
        ("10 / b > 3 AND b <> 0", [0, 2]),
        ("b = 0 OR 10 / b > 3", [0, 2, 3]),
        ("10 / b > 3 OR b = 0", [0, 2, 3]),
        ("NOT (b = 0 OR 10 / b > 3)", [4, 5]),
        ("a = 0 AND 10 / b > 3", [0]),
        ("b + 0 <> 0 AND 10 / b > 3", [0, 2]),
        ("10 / b > 3 AND b + 0 <> 0", [0, 2]),
        ("b + 0 = 0 OR 10 / b > 3", [0, 2, 3]),
        ("NOT (10 / b > 3 OR b + 0 = 0)", [4, 5]),
        ("a + 0 = 0 AND (10 / b > 3 OR 10 % b = 7)", [0]),
        ("a = 0 AND (10 / b > 3 OR 10 % b = 7)", [0]),
        ("b IS NOT NULL AND (b = 0 AND a = 3 OR 10 / b > 3)", [0, 2, 3]),
        # a part that comes later decides the rows in which an earlier one has no value
        ("10 / b > 3 OR b + 0 = 0", [0, 2, 3]),
        ("10 / b > 3 OR a + 0 = 0 OR b + 0 = 0", [0, 2, 3]),
        ("b + 0 = 0 OR a + 0 = 0 OR 10 / b > 3", [0, 2, 3]),
        ("FALSE AND 1 / 0 = 1", []),
        ("a > 100 AND 1 / 0 = 1", []),
        # the right side of a division comes first, and the left one is not needed beside NULL
        ("(10 DIV b) / nullif(a + 1, 4) IS NULL", [1, 3, 4]),
        ("(10 DIV b) DIV nullif(a + 1, 4) IS NULL", [1, 3, 4]),
        ("(10 DIV b) % nullif(a + 1, 4) IS NULL", [1, 3, 4]),
    ],
)
def test_errors_of_rows_that_something_else_decides_do_not_count(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "10 / b > 3",
        "NOT (10 / b > 3)",
        "a = 3 AND 10 / b > 3",
        "a = 2 OR 10 / b > 3",
        "a IS NOT NULL AND (10 / b > 3 OR 10 % b = 7)",
        "1 / 0 = 1",
        "a >= 0 AND CAST(s AS INT) = 1",
        # NULL does not end it
        "concat(nullif(s, ''), CAST(10 DIV b AS STRING)) = 'x'",
    ],
)
def test_errors_that_count_name_the_condition(text: str) -> None:
    with raises(PredicateError):
        rows(text)


def test_expressions_are_evaluated_on_undecided_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    evaluate_truth = evaluation.evaluate_truth

    def counted(residual: Residual, columns: dict[str, pa.Array], n: int) -> object:
        seen.append(n)
        return evaluate_truth(residual, columns, n)

    monkeypatch.setattr(evaluation, "evaluate_truth", counted)
    assert rows("a < 2 AND a + b = 1") == [0]
    assert rows("a < 2 OR a + b = 4") == [0, 1, 2]
    assert rows("a > 100 AND a + b = 1") == []
    assert seen == [2, 4]


def test_bounds_do_not_know_them_and_leaves_narrow() -> None:
    lower = Bounds(BitMap([1]), BitMap([1, 2, 3]))

    def lookup(leaf: Indexable) -> Bounds:
        assert leaf.column == "a"
        return lower

    assert bounds(filtered("a + b = 1"), lookup, 6) == Bounds.unknown(6)
    both = bounds(filtered("a < 2 AND a + b = 1"), lookup, 6)
    assert (list(both.lower), list(both.upper)) == ([], [1, 2, 3])
    either = bounds(filtered("a < 2 OR a + b = 1"), lookup, 6)
    assert (list(either.lower), list(either.upper)) == ([1], [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a + 1 = 2", {"a": 1}, "TRUE"),
        ("a + 1 = 2", {"a": 2}, "FALSE"),
        ("a + 1 = 2", {"a": None}, "FALSE"),
        ("NOT (a + 1 = 2)", {"a": None}, "FALSE"),
        ("NOT (a + 1 = 2)", {"a": 2}, "TRUE"),
        ("a + b = 2", {"a": 1}, "a + b = 2"),
        ("lower(s) = 'x'", {"s": b"X"}, "TRUE"),
        ("month(d) = 2", {"d": 31}, "TRUE"),
        ("c || '!' = 'a  !'", {"c": b"a  "}, "TRUE"),
        ("big * 2 = 3.00", {"big": (150 + (1 << 127)).to_bytes(16, "big")}, "TRUE"),
        ("10 / a > 1", {"a": 0}, "10 / a > 1"),
        ("10 / a > 1 AND a > 0", {"a": 0}, "FALSE"),
        ("a = 1 AND a + b = 2", {"a": 2}, "FALSE"),
    ],
)
def test_known_values_decide(text: str, values: dict[str, int | bytes | None], expected: str) -> None:
    pruned = prune(filtered(text), values)
    assert str(pruned) == expected
    assert pruned not in (ALWAYS, NEVER) or not column_types(pruned)


def test_what_is_bound_reads_the_other_columns_only() -> None:
    pruned = prune(filtered("a + b = 2"), {"a": 1})
    assert list(column_types(pruned)) == ["b"]
    assert mask(pruned, {"b": COLUMNS["b"]}, 6).tolist() == [True, False, False, False, False, False]
    with raises(PredicateError):
        mask(prune(filtered("10 / a > 1"), {"a": 0}), {}, 3)
    assert mask(prune(filtered("10 / a > 1"), {"a": 0}), {}, 0).tolist() == []


def test_values() -> None:
    root = filtered("a + b = 2 AND s LIKE 'a%b' AND NOT (a = b)")
    assert pickle.loads(pickle.dumps(root)) == root
    assert hash(root) == hash(filtered("a + b = 2 AND s LIKE 'a%b' AND NOT (a = b)"))
    assert root != filtered("a + b = 2 AND s LIKE 'a%b' AND a = b")
    assert [str(part) for part in residuals(root)] == ["a + b = 2", "s LIKE 'a%b'", "a <> b"]
    assert column_types(root) == {
        name: column.type for name, column in zip("abs", SCHEMA.columns, strict=False)
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CAST(ti AS BIGINT) = 2020",
            "the cast from timestamp with local time zone to bigint is not evaluated",
        ),
        ("hour(date_trunc('HOUR', ti)) = 2", "parts of an instant depend on the session's time zone"),
        ("coalesce(ti, TIMESTAMP '2020-01-01') IS NULL", "mixes timestamps with and without a time zone"),
        ("big + s > TRUE", "cannot evaluate"),
        ("c BETWEEN 'a' AND 'b'", "BETWEEN, nullif and lists of values compare a CHAR column"),
        ("c BETWEEN lower('A') AND 'b'", "BETWEEN, nullif and lists of values compare a CHAR column"),
        ("nullif(c, 'ab') IS NULL", "BETWEEN, nullif and lists of values compare a CHAR column"),
        ("coalesce(a, s) = 1", "CASE|coalesce mixes strings with other types; cast them to one type"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        filtered(text)


def test_deep_expressions_are_refused() -> None:
    deep = "a" + " + 1" * 99
    assert rows(f"{deep} = 99") == [0]
    text = "a"
    for _ in range(31):
        text = f"abs({text})"
    assert rows(f"{text} = 1") == [1]
    from hindex import col

    expression = col("a")
    for _ in range(200):
        expression = expression + 1
    with raises(PredicateError):
        normalize((expression > 1).predicate, SCHEMA)
    for _ in range(5000):
        expression = 1 + expression
    with raises(PredicateError):
        normalize((expression > 1).predicate, SCHEMA)


def test_strings_that_are_not_utf8_are_refused_where_looked_into() -> None:
    raw = pa.array([b"a\xff", b"a"], pa.binary())
    texts = pa.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2])
    for text in ("lower(s) = 'a'", "s LIKE '%a'", "length(s) = 1", "substring(s, 2, 1) = 'a'", "s RLIKE 'a'"):
        with raises(PredicateError):
            mask(filtered(text), {"s": texts}, 2)
    for text in ("s LIKE 'a%'", "substring(s, 1, 1) = 'a'"):
        assert mask(filtered(text), {"s": texts}, 2).tolist() == [True, True]
    assert mask(filtered("s <=> coalesce(s, 'x')"), {"s": texts}, 2).tolist() == [True, True]


PATTERNS = (
    "a",
    "^a",
    "a$",
    "^a$",
    "^$",
    "$",
    "b|a$",
    "^(?:a|b)+$",
    "a.b",
    "[ab]\\.",
    "[^a]b",
    "\\d+\\s",
    "x{2,3}?y",
    ".$",
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_java_patterns_with_line_ends(pattern: str) -> None:
    """Against the rule as it is documented: $ is before a line end at the end, and . is no line end."""
    import re

    ends = "\n\r\u0085\u2028\u2029"
    texts = [
        "",
        "a",
        "b",
        "a\n",
        "a\r\n",
        "a\n\n",
        "a\r",
        "a\u2028",
        "b\r\n",
        "ab",
        "a\nb",
        "a.b",
        "1 ",
        "1\x0b",
        "xxy",
    ]
    java = pattern.replace("$", f"(?=(?:\r\n|(?<!\r)\n|[{ends[1:]}])?\\Z)").replace("^", "\\A")
    java = java.replace("[\\Aa]", "[^a]").replace("\\s", "[ \t\n\x0b\f\r]")
    java = re.sub(r"(?<![\\\[])\.", f"[^{ends}]", java)
    matches = strings.matches(
        OrcType(Kind.BOOLEAN), Vector(OrcType(Kind.STRING), pa.array(texts)), *patterns.java_regex(pattern)
    )
    assert matches.array.to_pylist() == [re.search(java, text, re.ASCII) is not None for text in texts]
