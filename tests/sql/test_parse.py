"""Parsing that fixtures cannot state in one line: typed values, marked positions, limits, splitting, imports."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal

import pytest

from hindex.errors import StatementError
from hindex.sql import parse, parse_predicate, split
from hindex.sql.predicate import (
    And,
    BooleanValue,
    ColumnRef,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    LiteralValue,
    Not,
    Or,
    all_of,
    any_of,
    columns,
)
from hindex.sql.statements import (
    AggregateCall,
    AggregateFunction,
    CreateIndex,
    DropIndex,
    Explain,
    Select,
    SelectItem,
    ShowIndexes,
    TableRef,
)
from tests.support.messages import raises

A, B, C = (ColumnRef((name,)) for name in "abc")


def integer(value: int) -> Literal:
    return Literal(value, LiteralKind.INTEGER)


def test_statements_are_typed() -> None:
    where = Comparison(ComparisonOp.EQ, A, integer(1))
    assert parse(
        "CREATE INDEX IF NOT EXISTS i USING bitmap ON 'd/t' (a, b.c) WITH ('k'='v', n=5) WHERE a = 1"
    ) == CreateIndex(
        name="i",
        table=TableRef.path("d/t"),
        columns=(A, ColumnRef(("b", "c"))),
        using="bitmap",
        if_not_exists=True,
        where=where,
        properties=(("k", "v"), ("n", "5")),
    )
    assert parse("SHOW INDEX i IN db.t") == ShowIndexes("i", TableRef.name("db", "t"))
    assert parse("DROP INDEX IF EXISTS i") == DropIndex("i", None, if_exists=True)
    select = Select(
        TableRef.path("/x"), (SelectItem(AggregateCall(AggregateFunction.COUNT)),), where, limit=7
    )
    assert parse("EXPLAIN SELECT COUNT(*) FROM orc.`/x` WHERE 1 = a LIMIT 7") == Explain(select)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5L", LiteralKind.INTEGER, 5),
        ("1.50", LiteralKind.DECIMAL, Decimal("1.50")),
        ("1e3BD", LiteralKind.DECIMAL, Decimal(1000)),
        ("-0.0", LiteralKind.DECIMAL, Decimal("0.0")),
        ("1e3", LiteralKind.DOUBLE, 1000.0),
        ("'5'", LiteralKind.STRING, "5"),
        ("DATE '9999-12-31'", LiteralKind.DATE, datetime.date.max),
        ("DATE '+10000-01-01'", LiteralKind.DATE, 2932897),
        ("TIMESTAMP ' 2020-1-2 '", LiteralKind.TIMESTAMP, " 2020-1-2 "),
        ("X'00ff'", LiteralKind.BINARY, b"\x00\xff"),
        ("TRUE", LiteralKind.BOOLEAN, True),
        ("NULL", LiteralKind.NULL, None),
    ],
)
def test_literals_are_typed(text: str, kind: LiteralKind, value: LiteralValue) -> None:
    parsed = parse_predicate(f"a = {text}")
    assert isinstance(parsed, Comparison)
    assert isinstance(parsed.right, Literal)
    assert parsed.right.kind is kind
    assert type(parsed.right.value) is type(value)
    assert parsed.right.value == value


def test_literals_equal_by_spelling() -> None:
    assert Literal(float("nan"), LiteralKind.DOUBLE) == Literal(-float("nan"), LiteralKind.DOUBLE)
    assert Literal(0.0, LiteralKind.DOUBLE) != Literal(-0.0, LiteralKind.DOUBLE)
    assert Literal(Decimal("1.0"), LiteralKind.DECIMAL) != Literal(Decimal("1.00"), LiteralKind.DECIMAL)
    assert Literal(1, LiteralKind.INTEGER) != Literal(True, LiteralKind.BOOLEAN)
    with pytest.raises(TypeError):
        Literal(1, LiteralKind.STRING)
    with pytest.raises(TypeError):
        Literal(True, LiteralKind.INTEGER)


def test_and_or_are_merged_and_never_small() -> None:
    a, b, c = BooleanValue(A), BooleanValue(B), BooleanValue(C)
    assert And((And((a, b)), c)) == And((a, And((b, c)))) == all_of([a, b, c])
    assert Or((Or((a, b)), c)) == any_of(iter([a, b, c]))
    assert all_of([a]) == any_of([a]) == a
    assert (str(all_of([])), str(any_of([]))) == ("TRUE", "FALSE")
    with raises(ValueError):
        And((a,))
    with raises(ValueError):
        In(A, ())


def test_columns_in_order_of_first_mention() -> None:
    text = "NOT (b = 1 OR a IS NULL) AND x.y IN (1) AND c LIKE 'x' AND a = 2 AND TRUE AND B"
    assert [column.name for column in columns(parse_predicate(text))] == ["b", "a", "x.y", "c", "B"]


def test_columns_of_every_part_of_an_expression() -> None:
    text = (
        "CASE WHEN a = 1 THEN b WHEN c THEN CAST(d AS INT) ELSE e + f END IN (g, 2) AND length(h) > i "
        "AND j BETWEEN k AND l AND NOT m RLIKE 'x'"
    )
    assert [column.name for column in columns(parse_predicate(text))] == list("abcdefghijklm")


def test_an_error_marks_its_place() -> None:
    with pytest.raises(StatementError) as caught:
        parse("SELECT a\nFROM t\r\nWHERE\ta = = 1\nLIMIT 5")
    assert str(caught.value) == (
        "syntax error at line 3, column 11: expected an expression, found '='\n"
        "  WHERE\ta = = 1\n"
        "       \t    ^"
    )


@pytest.mark.parametrize("text", ["CREATE FUNCTION f", "DROP", "UPDATE", "REFRESH TABLE t", "SHOW TABLES"])
def test_only_statements_of_tables_are_said_to_change_them(text: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert "changes no table" not in str(caught.value)


def test_an_error_in_a_long_line_shows_the_part_around_it() -> None:
    with pytest.raises(StatementError) as caught:
        parse_predicate(" OR ".join(["a = 1"] * 1000 + ["b = = 2"] + ["c = 3"] * 1000))
    summary, line, mark = str(caught.value).splitlines()
    assert "column 9005" in summary
    assert len(line) <= 110
    assert line[: len(mark)].endswith("b = =")


@pytest.mark.parametrize("connective", ["AND", "OR"])
def test_long_chains(connective: str) -> None:
    parsed = parse_predicate(f" {connective} ".join(f"a = {number}" for number in range(5000)))
    assert isinstance(parsed, And | Or)
    assert len(parsed.children) == 5000
    assert parsed.children[4999] == Comparison(ComparisonOp.EQ, A, integer(4999))
    assert parse_predicate(str(parsed)) == parsed


def test_long_lists() -> None:
    parsed = parse_predicate("a NOT IN (" + ", ".join(str(number - 5000) for number in range(10_000)) + ")")
    assert parsed == Not(In(A, tuple(integer(number - 5000) for number in range(10_000))))
    assert parse_predicate(str(parsed)) == parsed


def test_long_sums() -> None:
    text = "a = " + " - ".join("1" * 101)
    assert str(parse_predicate(text)) == text
    with raises(StatementError):
        parse_predicate("a = " + " - ".join("1" * 5000))


@pytest.mark.parametrize("depth", [33, 500, 20_000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("! ", ""), ("a IN (", ")"), ("a = (", ")")],
)
def test_nesting_too_deep_is_an_error(opening: str, closing: str, depth: int) -> None:
    with raises(StatementError):
        parse_predicate(opening * depth + "flag" + closing * depth)
    with raises(StatementError):
        parse_predicate("a = " + "- " * depth + "1")


def test_nesting_at_the_limit() -> None:
    expected = Comparison(ComparisonOp.EQ, A, integer(1))
    assert parse_predicate("(" * 32 + "a = 1" + ")" * 32) == expected
    assert parse_predicate("a = " + "(" * 32 + "1" + ")" * 32) == expected
    parse_predicate("a = " + "- " * 32 + "1")
    parsed = parse_predicate("a = " + "- " * 15 + "1")
    assert parse_predicate(str(parsed)) == parsed


def test_a_nearly_full_stack_is_an_error_too() -> None:
    def at_depth(frames: int) -> object:
        return at_depth(frames - 1) if frames else parse_predicate("(" * 32 + "a = 1" + ")" * 32)

    outcomes = set()
    for frames in range(0, sys.getrecursionlimit(), 20):
        try:
            outcomes.add(str(at_depth(frames)))
        except StatementError as error:
            outcomes.add(str(error).splitlines()[0])
        except RecursionError:
            break
    assert any("too deeply for the stack" in outcome for outcome in outcomes)
    assert "a = 1" in outcomes


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;\n", []),
        ("-- only; a comment\n;", []),
        ("SHOW INDEXES", ["SHOW INDEXES"]),
        ("SHOW INDEXES; ; DROP INDEX g;", ["SHOW INDEXES", "DROP INDEX g"]),
        ('a = \'x;y\' ; b = "p;\\";q"; c = `r;s`', ["a = 'x;y'", 'b = "p;\\";q"', "c = `r;s`"]),
        ("a -- b;c\n; /* d;e */ f", ["a -- b;c", "/* d;e */ f"]),
        ("r'\\'; x", ["r'\\'", "x"]),
        ("a = 'it''s;'; b", ["a = 'it''s;'", "b"]),
        ("a; b = 'open; c", ["a", "b = 'open; c"]),
        ("a /* open; b", ["a /* open; b"]),
    ],
)
def test_split(text: str, statements: list[str]) -> None:
    assert split(text) == statements


def test_is_null_and_like_nodes() -> None:
    assert parse_predicate("a IS NOT NULL") == Not(IsNull(A))
    assert parse_predicate("a NOT LIKE 'x' ESCAPE '!'") == Not(Like(A, "x", "!"))


def _run(code: str, *, path: str | None = None) -> str:
    insert = f"sys.path.insert(0, {path!r});" if path else ""
    command = [sys.executable, "-c", f"import sys;{insert}{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_values_load_without_a_parser() -> None:
    code = (
        "import hindex.sql, hindex.sql.predicate, hindex.sql.statements;"
        "print([name for name in ('sqlglot', 'pyspark', 'hindex.sql.dialect') if name in sys.modules])"
    )
    assert _run(code) == "[]"


def test_public_names_are_functions_after_any_import() -> None:
    code = (
        "import hindex.sql.parsing, hindex.sql; from hindex.sql import parse, split, parse_predicate;"
        "print(callable(parse), callable(split), callable(parse_predicate), sorted(dir(hindex.sql))[-1])"
    )
    assert _run(code).startswith("True True True")


def test_only_one_module_name(request: pytest.FixtureRequest) -> None:
    code = "\ntry:\n  import sql\nexcept ImportError as error:\n  print(error)"
    assert "import hindex.sql" in _run(code, path=str(request.config.rootpath))
