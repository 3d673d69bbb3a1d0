"""SELECT of one table: columns, or aggregates that indexes can answer; all else is refused by its name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from hindex.sql.predicate import ColumnRef, quote_name
from hindex.sql.statements import (
    AggregateCall,
    AggregateFunction,
    Having,
    Select,
    SelectExists,
    SelectItem,
    SortItem,
    TableRef,
    is_same_column,
    is_same_value,
)
from hindex.sql.words import WITH_SPARK

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser

_ITEMS = "list columns, or COUNT, COUNT(DISTINCT ...), MIN and MAX of one, or * alone"

_STAR_BESIDE = f"'*' beside other columns; {_ITEMS}"

# Clauses that need Spark, by their first word.
_CLAUSES = {
    ",": "second table",
    "JOIN": "JOIN",
    "INNER": "JOIN",
    "LEFT": "JOIN",
    "RIGHT": "JOIN",
    "FULL": "JOIN",
    "CROSS": "JOIN",
    "NATURAL": "JOIN",
    "SEMI": "JOIN",
    "ANTI": "JOIN",
    "LATERAL": "LATERAL VIEW",
    "HAVING": "HAVING",
    "SORT BY": "SORT BY",
    "CLUSTER BY": "CLUSTER BY",
    "DISTRIBUTE BY": "DISTRIBUTE BY",
    "WINDOW": "WINDOW",
    "QUALIFY": "QUALIFY",
    "UNION": "UNION",
    "INTERSECT": "INTERSECT",
    "EXCEPT": "EXCEPT",
    "MINUS": "MINUS",
    "TABLESAMPLE": "TABLESAMPLE",
    "PIVOT": "PIVOT",
    "UNPIVOT": "UNPIVOT",
    "FOR": "FOR",
    "WITH": "WITH",
    "|>": "|>",
    "VERSION": "time travel",
}
#: Aggregates, by their first word.
_FUNCTIONS = (AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX)
_GROUP_BY, _ORDER_BY = "GROUP BY", "ORDER BY"
#: Select expressions with a name, by a part of their text.
_ITEM_KINDS = {r"\)\s*OVER\b": "window function", r"^\(\s*(SELECT|WITH)\b": "subquery"}
#: Operators after the first operand of an expression.
_OPERATORS = ("+", "-", "*", "/", "%", "||", "|", "&", "^", "[", "::", "DIV")
#: Tokens after a column that has the name of a keyword of SELECT.
_AFTER_NAME = (",", ".", "AS", "FROM", "")
#: Words that are values and never names.
_CONSTANTS = ("NULL", "TRUE", "FALSE")
#: Tokens after the alias of a table.
_AFTER_TABLE = ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", ")", "")
_DIRECTIONS = ("ASC", "DESC", "NULLS")
#: Functions that Spark calls without parentheses if no column has the name.
_CONSTANT_NAMES = (
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "grouping__id",
    "localtimestamp",
    "session_user",
    "user",
)


def select(parser: HindexParser) -> Select | SelectExists:
    """Parse ``SELECT`` of rows, of aggregates, or of ``EXISTS(SELECT ...)``."""
    return _exists(parser) if parser.accept("EXISTS", "(") else _select(parser)


def _exists(parser: HindexParser) -> SelectExists:
    """Parse the rest of ``EXISTS(SELECT 1 | * | columns FROM t [WHERE predicate] [LIMIT n] [OFFSET n]) [AS alias]``."""
    start = parser.offset
    parser.expect("SELECT")
    rows = _select(parser, in_exists=True)
    if rows.is_aggregate or rows.orders:
        parser.unsupported("EXISTS of aggregates, groups or an order", start)
    parser.expect(")")
    if parser.at_end:
        return SelectExists(rows)
    follows = _clause(parser) in (",", "FROM", "WHERE", "LIMIT", "OFFSET", _GROUP_BY, _ORDER_BY, *_CLAUSES)
    if not parser.accept("AS") and (follows or not parser.is_name):
        parser.unsupported("more than EXISTS in SELECT")
    return SelectExists(rows, parser.identifier("an alias"))


def _select(parser: HindexParser, *, in_exists: bool = False) -> Select:
    """Parse the rest of a SELECT of one table.

    ``SELECT [DISTINCT] items FROM t [WHERE ...] [GROUP BY columns] [HAVING ...] [ORDER BY items] [LIMIT n] [OFFSET n]``
    """
    start = parser.offset
    parser.alternative = WITH_SPARK
    distinct = parser.accept("DISTINCT")
    if distinct and parser.word() == "ON" and parser.following == "(":
        parser.unsupported("DISTINCT ON")
    if not distinct and parser.word() == "ALL" and parser.following not in _AFTER_NAME:
        parser.accept("ALL")
    items_start = parser.offset
    qualifier = parser.qualified_star()
    items = None if qualifier or (in_exists and parser.accept("1")) else _items(parser)
    if qualifier and parser.word() == ",":
        parser.unsupported(_STAR_BESIDE)
    if not parser.accept("FROM"):
        parser.fail(f"expected , or FROM, found {parser.token_text()}{parser.suggest('FROM')}")
    if parser.word() == "(":
        parser.unsupported("subquery in FROM")
    table = parser.table()
    _table_names(parser, table)
    if qualifier and tuple(map(str.lower, qualifier)) not in [
        tuple(map(str.lower, names)) for names in parser.qualifiers
    ]:
        parser.unsupported(
            f"{'.'.join(map(quote_name, qualifier))}.*, which is not of the table", items_start
        )
    items = None if items is None else tuple(_unqualified_item(parser, item) for item in items)
    where = parser.predicate() if parser.accept("WHERE") else None
    _no_clause(parser)
    grouped = parser.offset
    groups = _groups(parser, items) if _accept(parser, _GROUP_BY) else ()
    if distinct:
        groups = _distinct(parser, items, groups, start)
    _check_items(parser, items, groups, start if distinct else grouped)
    having = (
        _having(parser, items or (), groups) if groups and not distinct and parser.accept("HAVING") else None
    )
    _no_clause(parser)
    orders: list[SortItem] = []
    if _accept(parser, _ORDER_BY):
        orders.append(_order(parser, items, is_grouped=bool(groups), is_distinct=distinct))
        while parser.accept(","):
            orders.append(_order(parser, items, is_grouped=bool(groups), is_distinct=distinct))
    _no_clause(parser)
    limit = _limit(parser) if parser.accept("LIMIT") else None
    if limit is not None and parser.word() == ",":
        parser.fail("unexpected ',' after LIMIT: write LIMIT number of rows OFFSET rows to skip")
    offset = _row_count(parser, "OFFSET") if parser.accept("OFFSET") else 0
    if parser.word() == "LIMIT":
        parser.fail("unexpected LIMIT after OFFSET: write LIMIT before OFFSET")
    _no_clause(parser)
    return Select(table, items, where, groups, tuple(orders), limit, having, offset)


def _accept(parser: HindexParser, clause: str) -> bool:
    """Consume a clause of two words, which are one token."""
    return _clause(parser) == clause and parser.accept(parser.word())


def _clause(parser: HindexParser) -> str:
    return " ".join(parser.word().split())


def _limit(parser: HindexParser) -> int | None:
    return None if parser.accept("ALL") else _row_count(parser, "LIMIT")


def _row_count(parser: HindexParser, clause: str) -> int:
    """Consume the number of rows after LIMIT or OFFSET."""
    count = parser.whole_number(or_argument=True)
    if count is None:
        if parser.is_literal and parser.written().isdigit():
            parser.fail(f"{clause} {parser.written()} is too large: it has at most 18 digits")
        text = f"the argument of {parser.written()}" if parser.is_argument else parser.token_text()
        parser.fail(f"expected a whole number after {clause}, found {text}")
    if parser.word() in _OPERATORS:
        parser.unsupported(f"{clause} of an expression")
    return count


def _items(parser: HindexParser) -> tuple[SelectItem, ...] | None:
    """Parse the items; return None for all columns."""
    start = parser.offset
    if parser.accept("*"):
        if parser.word() != "FROM" and not parser.at_end and not parser.suggest("FROM"):
            parser.unsupported(_STAR_BESIDE)
        return None
    items = [_item(parser)]
    while parser.accept(","):
        start = parser.offset
        items.append(_item(parser))
    if parser.word() != "FROM" and not parser.at_end and not parser.suggest("FROM"):
        _refuse_item(parser, start)
    return tuple(items)


def _refuse_item(parser: HindexParser, start: int) -> NoReturn:
    """Refuse the item that begins at an offset."""
    text = parser.text_until(start, ",", "AS", "FROM")
    kind = next(
        (kind for pattern, kind in _ITEM_KINDS.items() if re.search(pattern, text, re.I)), "select expression"
    )
    parser.unsupported(f"{kind} '{text}'{parser.double_quote_hint()}; {_ITEMS}", start)


def _item(parser: HindexParser) -> SelectItem:
    start = parser.offset
    if parser.qualified_star():
        parser.unsupported(_STAR_BESIDE, start)
    if parser.word() in ("(", "*", "-", "CASE", "CAST", *_CONSTANTS) or parser.is_literal:
        _refuse_item(parser, start)
    value = _aggregate(parser, start) or parser.column()
    if parser.accept("AS"):
        return SelectItem(value, parser.identifier("an alias"))
    if parser.is_name and parser.word() != "FROM" and not parser.suggest("FROM"):
        return SelectItem(value, parser.identifier("an alias"))
    return SelectItem(value)


def _aggregate(parser: HindexParser, start: int) -> AggregateCall | None:
    """Parse an aggregate if one comes next; a column may have the same name."""
    function = next((item for item in _FUNCTIONS if parser.accept(item.name, "(")), None)
    if function is None:
        return None
    column: ColumnRef | None = None
    if function is AggregateFunction.COUNT and (parser.accept("*", ")") or parser.accept("1", ")")):
        return AggregateCall(function)
    if function is AggregateFunction.COUNT and parser.accept("DISTINCT"):
        function = AggregateFunction.COUNT_DISTINCT
    if parser.word() in ("DISTINCT", *_CONSTANTS) or not parser.is_name:
        _refuse_item(parser, start)
    column = parser.column()
    if not parser.accept(")"):
        _refuse_item(parser, start)
    return AggregateCall(function, column)


def _groups(parser: HindexParser, items: tuple[SelectItem, ...] | None) -> tuple[ColumnRef, ...]:
    columns = [_group(parser, items)]
    while parser.accept(","):
        columns.append(_group(parser, items))
    return tuple(columns)


def _group(parser: HindexParser, items: tuple[SelectItem, ...] | None) -> ColumnRef:
    start = parser.offset
    if parser.word() in ("ROLLUP", "CUBE", "GROUPING SETS") and parser.following == "(":
        parser.unsupported(f"{_GROUP_BY} {parser.word()}")
    value = _at_position(parser, items, _GROUP_BY)
    if isinstance(value, AggregateCall):
        parser.fail(f"{_GROUP_BY} {parser.text_from(start)} is {value}: groups are by columns", start)
    return value or parser.unqualified(_plain_column(parser, _GROUP_BY))


def _having(parser: HindexParser, items: tuple[SelectItem, ...], groups: tuple[ColumnRef, ...]) -> Having:
    from hindex.sql.having import to_having

    return to_having(parser.condition(), parser.sql, items, groups, parser.unqualified)


def _at_position(
    parser: HindexParser, items: tuple[SelectItem, ...] | None, clause: str
) -> ColumnRef | AggregateCall | None:
    """Resolve a whole number, if one comes next: the item at that position in the list, counted from 1."""
    start = parser.offset
    position = parser.whole_number()
    if position is None:
        return None
    if items is None:
        parser.unsupported(f"{clause} {position} of *: name the column", start)
    if not 0 < position <= len(items):
        parser.fail(
            f"{clause} {position}: the list has {len(items)} {'item' if len(items) == 1 else 'items'}", start
        )
    return items[position - 1].value


def _plain_column(parser: HindexParser, clause: str) -> ColumnRef:
    if parser.is_literal or parser.word() in ("(", *_CONSTANTS):
        parser.unsupported(f"{clause} of {parser.token_text()}{parser.double_quote_hint()}")
    if parser.word() == "ALL" and parser.following != ".":
        parser.unsupported(f"{clause} ALL")
    column = parser.column()
    if parser.word() == "(":
        parser.unsupported(f"{clause} of a function")
    if parser.word() in _OPERATORS:
        parser.unsupported(f"{clause} of an expression")
    return column


def _distinct(
    parser: HindexParser, items: tuple[SelectItem, ...] | None, groups: tuple[ColumnRef, ...], start: int
) -> tuple[ColumnRef, ...]:
    """Return the columns of SELECT DISTINCT, which groups by them."""
    values = [item.value for item in items or ()]
    columns = tuple(value for value in values if isinstance(value, ColumnRef))
    if not values or len(columns) < len(values) or groups:
        parser.unsupported("DISTINCT of anything but columns", start)
    return columns


def _check_items(
    parser: HindexParser,
    items: tuple[SelectItem, ...] | None,
    groups: tuple[ColumnRef, ...],
    start: int,
) -> None:
    """Refuse columns that are neither aggregated nor grouped by, and aggregates of other columns."""
    values = [item.value for item in items or ()]
    calls = [value for value in values if isinstance(value, AggregateCall)]
    if not groups:
        if calls and len(calls) < len(values):
            _fail_without_groups(parser, items or ())
        return
    if items is None:
        parser.unsupported("* with GROUP BY", start)
    for value in values:
        column = value.column if isinstance(value, AggregateCall) else value
        if isinstance(value, AggregateCall) and value.function is AggregateFunction.COUNT_DISTINCT:
            continue
        if column is not None and not any(is_same_column(column, group) for group in groups):
            message = f"{value} in a query that groups by {', '.join(map(str, groups))} alone"
            # Spark takes fields of a struct that is grouped by
            if isinstance(value, ColumnRef) and not (value.parts[1:] or _may_be_no_column(value, items)):
                parser.fail(f"{message}: add {value} to GROUP BY, or aggregate it, as in MIN({value})", start)
            parser.unsupported(message, start)


def _may_be_no_column(column: ColumnRef, items: tuple[SelectItem, ...]) -> bool:
    """Return True if a name may be that of another item or of a function to Spark."""
    aliases = [item.alias.lower() for item in items if item.alias is not None]
    return column.parts[0].lower() in (*aliases, *_CONSTANT_NAMES)


def _fail_without_groups(parser: HindexParser, items: tuple[SelectItem, ...]) -> NoReturn:
    """Refuse columns beside aggregates of all rows."""
    columns = [item.value for item in items if isinstance(item.value, ColumnRef)]
    if any(_may_be_no_column(column, items) for column in columns):
        parser.unsupported("columns beside aggregates without GROUP BY", 0)
    calls = ", ".join(str(item.value) for item in items if isinstance(item.value, AggregateCall))
    names = ", ".join(dict.fromkeys(map(str, columns)))
    parser.fail(
        f"{names} beside {calls}: add GROUP BY {names} for a row of each value, or leave {names} out for one of all "
        "rows",
        0,
    )


def _order(
    parser: HindexParser, items: tuple[SelectItem, ...] | None, *, is_grouped: bool, is_distinct: bool
) -> SortItem:
    start = parser.offset
    call = _aggregate(parser, start)
    value = _at_position(parser, items, _ORDER_BY) if call is None else _unqualified(parser, call)
    if value is None:
        qualified = _plain_column(parser, _ORDER_BY)
        written = parser.unqualified(qualified)
        if is_distinct:
            _check_distinct_order(parser, items or (), written, start)
        value = _aliased(parser, items or (), written, start)
        if written is not qualified and not is_same_value(value, written):
            # a column of the table, of which an alias has the name
            _fail_of_many(parser, qualified, start)
    elif isinstance(value, ColumnRef):
        # the same as its name, where columns are selected in several spellings
        named = _aliased(parser, items or (), value, start)
        if not is_same_value(named, value):
            _fail_of_many(parser, value, start)
        value = named
    descending = parser.accept("DESC") or (parser.accept("ASC") and False)
    nulls: bool | None = None
    if parser.accept("NULLS"):
        nulls = parser.accept("FIRST")
        if not nulls and not parser.accept("LAST"):
            message = f"expected FIRST or LAST after NULLS, found {parser.token_text()}"
            parser.fail(message + parser.suggest("FIRST", "LAST"))
    elif parser.closest(*_DIRECTIONS, *_CLAUSES) in _DIRECTIONS:
        parser.fail(f"unexpected {parser.token_text()}{parser.suggest(*_DIRECTIONS)}")
    values = [item.value for item in items or ()]
    is_aggregate = is_grouped or any(isinstance(item, AggregateCall) for item in values)
    is_selected = any(is_same_value(item, value) for item in values)
    if isinstance(value, AggregateCall) != (isinstance(value, AggregateCall) and is_aggregate) or (
        is_aggregate and not (is_selected and is_grouped)
    ):
        parser.unsupported("ORDER BY of what is not selected", start)
    return SortItem(value, descending, nulls)


def _aliased(
    parser: HindexParser, items: tuple[SelectItem, ...], written: ColumnRef, start: int
) -> ColumnRef | AggregateCall:
    """Resolve a name in ORDER BY: aliases of the result precede columns of the table."""
    named: dict[str, list[ColumnRef | AggregateCall]] = {}
    for item in items:
        values = named.setdefault(item.output_name, [])
        if not any(is_same_value(item.value, other) for other in values):
            values.append(item.value)
    aliases = {item.alias.lower() for item in items if item.alias is not None}
    candidates = named.get(written.name.lower(), [written]) if len(written.parts) == 1 else [written]
    value = candidates[0]
    # by its own name it would refer to another alias, or to a field of one
    is_hidden = isinstance(value, ColumnRef) and (
        value.parts[0].lower() in aliases
        if len(value.parts) > 1
        else not is_same_value(value, written) and value.name.lower() in named
    )
    if len(candidates) > 1 or is_hidden:
        _fail_of_many(parser, written, start)
    return value


def _fail_of_many(parser: HindexParser, column: ColumnRef, start: int) -> NoReturn:
    parser.unsupported(f"ORDER BY of {column}, which may stand for more than one column", start)


def _check_distinct_order(
    parser: HindexParser, items: tuple[SelectItem, ...], written: ColumnRef, start: int
) -> None:
    """Refuse a column that is not in the result: DISTINCT comes before ORDER BY."""
    if len(written.parts) > 1 or written.name.lower() not in [item.output_name for item in items]:
        names = ", ".join(
            quote_name(item.alias or item.value.parts[-1])
            for item in items
            if isinstance(item.value, ColumnRef)
        )
        parser.fail(f"ORDER BY of {written}, which is no column of SELECT DISTINCT: those are {names}", start)


def _table_names(parser: HindexParser, table: TableRef) -> None:
    """Parse the alias of the table, if any; it or else the table's name may stand before columns from here on."""
    alias = None
    if parser.accept("AS"):
        alias = parser.identifier("an alias")
    elif _clause(parser) not in (_GROUP_BY, _ORDER_BY, "WHERE", "LIMIT", "OFFSET"):
        _no_clause(parser)
        is_misspelled = parser.suggest("WHERE", "LIMIT", "OFFSET") and parser.following not in _AFTER_TABLE
        if parser.is_name and not is_misspelled:
            alias = parser.identifier("an alias")
    if alias is not None and parser.word() == "(":
        parser.unsupported("aliases of columns after the table's")
    parser.qualifiers = table.qualifiers if alias is None else ((alias,),)


def _unqualified_item(parser: HindexParser, item: SelectItem) -> SelectItem:
    return replace(item, value=_unqualified(parser, item.value))


def _unqualified(parser: HindexParser, value: ColumnRef | AggregateCall) -> ColumnRef | AggregateCall:
    """Return a selected item with the column's name alone."""
    if isinstance(value, ColumnRef):
        return parser.unqualified(value)
    return value if value.column is None else replace(value, column=parser.unqualified(value.column))


def _no_clause(parser: HindexParser) -> None:
    meant = parser.suggest("GROUP", "ORDER") if parser.following == "BY" else ""
    if meant:
        parser.fail(f"unexpected {parser.token_text()}{meant}")
    word = parser.word()
    if word in ("GROUP", "ORDER"):
        parser.accept(word)
        parser.fail(f"expected BY after {word}, found {parser.token_text()}{parser.suggest('BY')}")
    if parser.word() == "HAVING" and not parser.following:
        parser.fail("expected a condition after HAVING, found the end", parser.offset + len("HAVING"))
    clause = _CLAUSES.get(_clause(parser))
    if clause is not None:
        parser.unsupported(f"{clause}")
