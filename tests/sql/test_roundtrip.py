"""The text of every predicate and statement parses back to an equal value; any text parses or errs."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from hindex.errors import StatementError
from hindex.sql import parse, parse_predicate
from hindex.sql.predicate import (
    CAST_TYPES,
    Arithmetic,
    ArithmeticOp,
    BooleanValue,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    RLike,
    TruthValue,
    all_of,
    any_of,
    as_predicate,
    columns,
)
from hindex.sql.statements import (
    AggregateCall,
    AggregateFunction,
    AggregateRef,
    CreateIndex,
    DropIndex,
    Explain,
    Having,
    Select,
    SelectItem,
    ShowIndexes,
    SortItem,
    Statement,
    TableRef,
)
from hindex.sql.string_values import date_from_days, format_date, parse_date
from tests.support.cases import cases

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    "\\'\"`%_;-/*\n\r\t\0 ab017uU{#", max_size=12
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
    st.builds(TruthValue, st.sampled_from([True, False, None])),
    st.builds(BooleanValue, _COLUMNS),
    st.builds(Like, _COLUMNS, _TEXT, st.just("\\") | st.sampled_from("!'\"%\n\u00e9")),
)
# every expression has a column on its left, as one of literals alone is computed when it is read
_EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    _COLUMNS,
    lambda inner: st.one_of(
        st.builds(Arithmetic, st.sampled_from(ArithmeticOp), inner, inner | _COLUMNS),
        st.builds(Call, st.just("negative"), inner.map(lambda node: (node,))),
        st.builds(
            Call,
            st.sampled_from(["coalesce", "concat", "greatest"]),
            st.tuples(inner, st.just(Literal("x", LiteralKind.STRING)), inner),
        ),
        st.builds(Cast, inner, st.sampled_from([*CAST_TYPES, "DECIMAL(10, 2)"]), st.booleans()),
        st.builds(
            Case,
            st.lists(st.tuples(_LEAVES, inner), min_size=1, max_size=2).map(tuple),
            st.none() | inner,
        ),
        st.builds(Comparison, st.sampled_from(ComparisonOp), inner, inner),
    ),
    max_leaves=5,
)
_COMPOUND = _EXPRESSIONS.filter(lambda node: not isinstance(node, ColumnRef))
_EXPRESSION_LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Comparison, st.sampled_from(ComparisonOp), _EXPRESSIONS, _COMPOUND),
    st.builds(In, _COMPOUND, st.lists(_EXPRESSIONS | _LITERALS, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, _COMPOUND),
    st.builds(Like, _COMPOUND, _TEXT, st.just("\\") | st.just("!")),
    st.builds(RLike, _EXPRESSIONS, _TEXT),
    _COMPOUND.filter(lambda node: isinstance(node, Arithmetic | Call | Case | Cast)).map(
        lambda node: as_predicate(node)
    ),
)
_PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    _LEAVES | _EXPRESSION_LEAVES,
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
_LIMITS = st.none() | st.integers(0, 10**12)
_OFFSETS = st.just(0) | st.integers(0, 10**12)
_ALIASES = st.none() | _NAMES
_CALLS = st.builds(AggregateCall, st.sampled_from(AggregateFunction), _COLUMNS) | st.just(
    AggregateCall(AggregateFunction.COUNT)
)


def _orders(values: st.SearchStrategy[ColumnRef | AggregateCall]) -> st.SearchStrategy[tuple[SortItem, ...]]:
    items = st.builds(SortItem, values, st.booleans(), st.none() | st.booleans())
    return st.lists(items, max_size=3).map(tuple)


def _items(values: st.SearchStrategy[SelectItem]) -> st.SearchStrategy[tuple[SelectItem, ...]]:
    return st.lists(values, min_size=1, max_size=3).map(tuple)


def _grouped(columns: list[ColumnRef]) -> st.SearchStrategy[Select]:
    count = AggregateCall(AggregateFunction.COUNT)
    column = st.sampled_from(columns)
    distinct = _COLUMNS.map(lambda column: AggregateCall(AggregateFunction.COUNT_DISTINCT, column))
    others = (
        column
        | st.just(count)
        | distinct
        | column.map(lambda column: AggregateCall(AggregateFunction.MAX, column))
    )
    more = st.lists(st.builds(SelectItem, others, _ALIASES), max_size=2)
    items = more.map(lambda extra: (*map(SelectItem, columns), SelectItem(count), *extra))
    return st.builds(
        Select,
        _TABLES,
        items,
        _WHERE,
        st.just(tuple(columns)),
        _orders(st.just(count)),
        _LIMITS,
        _having(columns),
        _OFFSETS,
    )


def _having(columns: list[ColumnRef]) -> st.SearchStrategy[Having | None]:
    """Conditions of the columns that groups are by and of their aggregates."""
    least = st.sampled_from(columns).map(lambda column: AggregateCall(AggregateFunction.MIN, column))
    distinct = _COLUMNS.map(lambda column: AggregateCall(AggregateFunction.COUNT_DISTINCT, column))
    calls = st.just(AggregateCall(AggregateFunction.COUNT)) | least | distinct
    referred = calls.map(lambda call: AggregateRef((str(call),), call))
    operands = st.sampled_from(columns) | referred
    parts = st.builds(IsNull, operands) | st.builds(
        Comparison, st.sampled_from(ComparisonOp), operands, st.just(Literal(5, LiteralKind.INTEGER))
    )
    predicates = st.lists(parts, min_size=1, max_size=3).map(
        lambda leaves: leaves[0] if len(leaves) == 1 else any_of(leaves)
    )
    return st.none() | predicates.map(_having_of)


def _having_of(predicate: Predicate) -> Having:
    calls = {column.call for column in columns(predicate) if isinstance(column, AggregateRef)}
    return Having(predicate, tuple(sorted(calls, key=str)))


def _can_be_written(select: Select) -> bool:
    """Return True if each column of ORDER BY is the one that is selected under its name, if any is."""
    selected = [item.value for item in select.items or () if isinstance(item.value, ColumnRef)]
    return all(
        column == order.value
        for order in select.orders
        if isinstance(order.value, ColumnRef) and len(order.value.parts) == 1
        for column in selected
        if column.parts[-1].lower() == order.value.parts[0].lower()
    )


def _is_unqualified(select: Select) -> bool:
    """Return True if no column begins with a name of the table, which would not be read as a part of it."""
    values = [*(item.value for item in select.items or ()), *(order.value for order in select.orders)]
    values += select.groups
    values += [] if select.having is None else select.having.calls
    refs = [value if isinstance(value, ColumnRef) else value.column for value in values]
    conditions = [select.where, None if select.having is None else select.having.predicate]
    refs += [ref for condition in conditions if condition is not None for ref in columns(condition)]
    names = {part.lower() for part in select.table.parts}
    return not any(len(ref.parts) > 1 and ref.parts[0].lower() in names for ref in refs if ref is not None)


_SELECTS = st.one_of(
    st.builds(
        Select,
        _TABLES,
        st.none() | _items(st.builds(SelectItem, _COLUMNS, _ALIASES)),
        where=_WHERE,
        limit=_LIMITS,
        offset=_OFFSETS,
    ),
    st.builds(
        Select,
        _TABLES,
        st.none() | _items(st.builds(SelectItem, _COLUMNS)),
        where=_WHERE,
        orders=_orders(_COLUMNS),
        limit=_LIMITS,
        offset=_OFFSETS,
    ).filter(_can_be_written),
    st.builds(
        Select,
        _TABLES,
        _items(st.builds(SelectItem, _CALLS, _ALIASES)),
        _WHERE,
        limit=_LIMITS,
        offset=_OFFSETS,
    ),
    st.lists(_COLUMNS, min_size=1, max_size=3, unique_by=str).flatmap(_grouped),
).filter(_is_unqualified)
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


@settings(max_examples=cases(80, 250))
@given(_PREDICATES)
def test_predicate(predicate: Predicate) -> None:
    assert parse_predicate(str(predicate)) == predicate


@settings(max_examples=cases(50, 150))
@given(_STATEMENTS)
def test_statement(statement: Statement) -> None:
    assert parse(str(statement)) == statement


@pytest.mark.slow
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
        where = any_of([all_of([BooleanValue(column), Not(leaf)]), IsNull(column), Not(BooleanValue(column))])
        statements.append(
            Select(TableRef.name(word, "t"), (SelectItem(column), SelectItem(column, word)), where, limit=5)
        )
    try:
        return all(parse(str(statement)) == statement for statement in statements)
    except StatementError:
        return False


_PIECES = st.sampled_from(
    """
    SELECT FROM WHERE LIMIT CREATE INDEX USING ON SHOW DROP IF NOT EXISTS EXPLAIN AND OR IN IS NULL TRUE LIKE
    BETWEEN CAST AS DATE ( ( ) ) , . * ; = <> < <=> - + ' " ` [ ] : ? @ { } ! a b 1 1.5 5L 'x' "y" `z` X'1F'
    -- /* */ COUNT(*) CASE WHEN THEN ELSE END INTERVAL ARRAY MAP STRUCT lower( coalesce( :: -> || % / DIV RLIKE t JOIN
    """.split()  # noqa: SIM905
)


@settings(max_examples=cases(80, 250))
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
