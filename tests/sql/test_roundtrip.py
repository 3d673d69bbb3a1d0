"""The text of every predicate and statement parses back to an equal value; any text parses or errs."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from hindex.errors import StatementError
from hindex.sql import parse, parse_predicate
from hindex.sql.dates import date_from_days, format_date, parse_date
from hindex.sql.predicate import (
    BooleanColumn,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    all_of,
    any_of,
)
from hindex.sql.statements import CreateIndex, DropIndex, Explain, Select, ShowIndexes, Statement, TableRef

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    "\\'\"`%_;-/*\n\r\t\0 ab", max_size=12
)
_WORDS = sorted(
    {
        word
        for table in (
            Spark.Tokenizer.KEYWORDS,
            Spark.Parser.FUNCTIONS,
            Spark.Parser.FUNCTION_PARSERS,
            Spark.Parser.NO_PAREN_FUNCTION_PARSERS,
            dict.fromkeys(kind.name for kind in Spark.Parser.ID_VAR_TOKENS),
            dict.fromkeys(
                ["R", "X", "N", "B", "IF", "ON", "INDEX", "COLUMN", "ESCAPE", "EXISTS", "ALL", "USING"]
            ),
        )
        for word in table
        if re.fullmatch(r"[A-Za-z_]\w*", word)
    }
)
_NAMES = st.sampled_from(["a", "b", "Col_1"]) | st.sampled_from(_WORDS) | _TEXT.filter(bool)
_COLUMNS = st.lists(_NAMES, min_size=1, max_size=6).map(lambda parts: ColumnRef(tuple(parts)))
_INTEGERS = st.integers() | st.integers(min_value=-(10**300), max_value=10**300)
_DECIMALS = st.builds(
    lambda digits, scale, negative: Decimal((int(negative), tuple(map(int, str(digits))), -scale)),
    st.integers(0, 10**38 - 1),
    st.integers(0, 38),
    st.booleans(),
)
_LITERALS = st.one_of(
    st.just(Literal(None, LiteralKind.NULL)),
    st.booleans().map(lambda value: Literal(value, LiteralKind.BOOLEAN)),
    _INTEGERS.map(lambda value: Literal(value, LiteralKind.INTEGER)),
    _DECIMALS.map(lambda value: Literal(value, LiteralKind.DECIMAL)),
    st.floats().map(lambda value: Literal(value, LiteralKind.DOUBLE)),
    _TEXT.map(lambda value: Literal(value, LiteralKind.STRING)),
    st.integers(-3_000_000, 3_000_000).map(lambda days: Literal(date_from_days(days), LiteralKind.DATE)),
    _TEXT.map(lambda value: Literal(value, LiteralKind.TIMESTAMP)),
    st.binary(max_size=8).map(lambda value: Literal(value, LiteralKind.BINARY)),
)
_LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Comparison, st.sampled_from(ComparisonOp), _COLUMNS, _LITERALS),
    st.builds(In, _COLUMNS, st.lists(_LITERALS, min_size=1, max_size=4).map(tuple)),
    st.builds(IsNull, _COLUMNS),
    st.builds(Constant, st.sampled_from([True, False, None])),
    st.builds(BooleanColumn, _COLUMNS),
    st.builds(Like, _COLUMNS, _TEXT, st.just("\\") | st.sampled_from("!'\"%\n\u00e9")),
)
_PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=4).map(all_of),
        st.lists(inner, min_size=2, max_size=4).map(any_of),
    ),
    max_leaves=12,
)
_TABLES = st.one_of(
    _TEXT.filter(bool).map(TableRef.path),
    st.lists(_NAMES, min_size=1, max_size=3)
    # A format before a path in backquotes is Spark's spelling of a path.
    .filter(lambda parts: parts[0].upper() != "ORC" and "/" not in parts[-1])
    .map(lambda parts: TableRef.name(*parts)),
)
_WHERE = st.none() | _PREDICATES
_SELECTS = st.one_of(
    st.builds(
        Select,
        _TABLES,
        st.none() | st.lists(_COLUMNS, min_size=1, max_size=3).map(tuple),
        where=_WHERE,
        limit=st.none() | st.integers(0, 10**12),
    ),
    st.builds(Select, _TABLES, st.none(), st.just(True), _WHERE),
)
_STATEMENTS: st.SearchStrategy[Statement] = st.one_of(
    st.builds(
        CreateIndex,
        _NAMES,
        _TABLES,
        st.lists(_COLUMNS, min_size=1, max_size=3).map(tuple),
        _NAMES,
        st.booleans(),
        _WHERE,
        st.lists(st.tuples(_TEXT.filter(bool), _TEXT), max_size=3).map(tuple),
    ),
    st.builds(ShowIndexes, st.none() | _NAMES, st.none() | _TABLES),
    st.builds(DropIndex, _NAMES, st.none() | _TABLES, st.booleans()),
    _SELECTS,
    st.builds(Explain, _SELECTS),
)


@settings(max_examples=250)
@given(_PREDICATES)
def test_predicate(predicate: Predicate) -> None:
    assert parse_predicate(str(predicate)) == predicate


@settings(max_examples=150)
@given(_STATEMENTS)
def test_statement(statement: Statement) -> None:
    assert parse(str(statement)) == statement


def test_every_word_can_be_a_name() -> None:
    assert len(_WORDS) > 500
    assert [word for word in _WORDS if not _can_be_a_name(word)] == []


def _can_be_a_name(word: str) -> bool:
    statements: list[Statement] = [
        CreateIndex(word, TableRef.name("db", word), (ColumnRef((word,)),), word),
        DropIndex(word, TableRef.name(word)),
        ShowIndexes(word, TableRef.name(word, word)),
    ]
    for parts in ((word,), (word, "x"), ("x", word)):
        column = ColumnRef(parts)
        leaf = In(column, (Literal(5, LiteralKind.INTEGER),))
        where = any_of(
            [all_of([BooleanColumn(column), Not(leaf)]), IsNull(column), Not(BooleanColumn(column))]
        )
        statements.append(Select(TableRef.name(word, "t"), (column, column), where=where, limit=5))
    try:
        return all(parse(str(statement)) == statement for statement in statements)
    except StatementError:
        return False


_PIECES = st.sampled_from(
    """
    SELECT FROM WHERE LIMIT CREATE INDEX USING ON SHOW DROP IF NOT EXISTS EXPLAIN AND OR IN IS NULL TRUE LIKE
    BETWEEN CAST AS DATE ( ( ) ) , . * ; = <> < <=> - + ' " ` [ ] : ? @ { } ! a b 1 1.5 5L 'x' "y" `z` X'1F'
    -- /* */ COUNT(*) CASE WHEN THEN END INTERVAL ARRAY MAP STRUCT lower( :: -> || t JOIN
    """.split()  # noqa: SIM905
)


@settings(max_examples=250)
@given(
    st.lists(_PIECES, max_size=14).map(" ".join) | _TEXT,
    st.sampled_from(["", "a = ", "SELECT a FROM t WHERE "]),
)
def test_any_text_parses_or_is_a_statement_error(text: str, start: str) -> None:
    for read in (parse, parse_predicate):
        try:
            parsed = read(start + text)
        except StatementError as error:
            first, *marks = str(error).splitlines()
            assert re.match(r"(syntax error|unsupported) at line \d+, column \d+: \S", first)
            assert not marks or marks[-1].strip() == "^"
        else:
            assert read(str(parsed)) == parsed


@given(st.dates())
def test_dates_of_the_calendar(date: datetime.date) -> None:
    assert parse_date(format_date(date)) == date
    assert parse_date(f"{date.year:04d}-{date.month}-{date.day} 12:00") == date
    assert date_from_days((date - datetime.date(1970, 1, 1)).days) == date


@given(st.integers(-2_500_000_000, 2_500_000_000))
def test_dates_by_day_number(days: int) -> None:
    assert parse_date(format_date(date_from_days(days))) == date_from_days(days)
    following = parse_date(format_date(date_from_days(days + 1)))
    assert following == date_from_days(days + 1)
