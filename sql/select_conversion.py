"""SELECT of one table: columns, or aggregates that indexes can answer; all else is refused by its name.

sqlglot parses the items of lists and the conditions, and their nodes are converted here. The clauses are read one by
one: sqlglot's own SELECT skips words that Spark refuses, as in ``LIMIT 5 ONLY`` and ``ORDER BY a ASC DESC``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from hindex.sql.convert import AGGREGATES, Converter, shortened
from hindex.sql.predicate import (
    Arithmetic,
    Call,
    Case,
    Cast,
    ColumnRef,
    Literal,
    as_predicate,
    quote_name,
)
from hindex.sql.statements import (
    AggregateCall,
    AggregateFunction,
    AggregateRef,
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

# Clauses that need Spark, by their first word.
_CLAUSES = {
    ",": "second table",
    "LATERAL": "LATERAL VIEW",
    "VERSION": "time travel",
    **dict.fromkeys(["JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI"], "JOIN"),
    **{
        word: word
        for word in (
            *("HAVING", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "WINDOW", "QUALIFY", "UNION", "INTERSECT"),
            *("EXCEPT", "MINUS", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "WITH", "|>"),
        )
    },
}
_GROUP_BY, _ORDER_BY = "GROUP BY", "ORDER BY"
_FUNCTIONS = {
    item.name: item for item in (AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX)
}
#: Tokens after a column that has the name of a keyword of SELECT.
_AFTER_NAME = (",", ".", "AS", "FROM", "")
#: Clauses after a table, and tokens after its alias.
_TABLE_CLAUSES = ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET")
_AFTER_TABLE = (*_TABLE_CLAUSES, ")", "")
_DIRECTIONS = ("ASC", "DESC", "NULLS")
#: Operators after the first operand of an expression.
_OPERATORS = ("+", "-", "*", "/", "%", "||", "|", "&", "^", "[", "::", "DIV")
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
    return _exists(parser) if parser.accept("EXISTS", "(", "SELECT") else _SelectConverter(parser).select()


def _exists(parser: HindexParser) -> SelectExists:
    """Parse the rest of ``EXISTS(SELECT 1 | * | columns FROM t [WHERE predicate] [LIMIT n] [OFFSET n]) [AS alias]``."""
    start = parser.offset
    rows = _SelectConverter(parser).select(in_exists=True)
    if rows.is_aggregate or rows.orders:
        parser.unsupported("EXISTS of aggregates, groups or an order", start)
    parser.expect(")")
    if parser.at_end:
        return SelectExists(rows)
    follows = parser.word() in (",", "FROM", "WHERE", "LIMIT", "OFFSET", _GROUP_BY, _ORDER_BY, *_CLAUSES)
    if not parser.accept("AS") and (follows or not parser.is_name):
        parser.unsupported("more than EXISTS in SELECT")
    return SelectExists(rows, parser.identifier("an alias"))


class _SelectConverter(Converter):
    """Converts one SELECT, clause by clause: the names of a later clause refer to the result of the ones before it."""

    def __init__(self, parser: HindexParser) -> None:
        super().__init__(parser.sql, WITH_SPARK, parser.unqualified)
        parser.alternative = WITH_SPARK
        self._parser = parser
        #: What is selected; None for all columns.
        self._items: tuple[SelectItem, ...] | None = None
        self._groups: tuple[ColumnRef, ...] = ()
        #: The aggregates in HAVING.
        self._calls: set[AggregateCall] = set()

    def select(self, *, in_exists: bool = False) -> Select:
        """Convert the rest of a SELECT of one table.

        ``SELECT [DISTINCT] items FROM t [WHERE ...] [GROUP BY columns] [HAVING ...] [ORDER BY items] [LIMIT n]
        [OFFSET n]``
        """
        parser = self._parser
        start = parser.offset
        distinct = parser.accept("DISTINCT")
        if distinct and parser.word() == "ON" and parser.following == "(":
            parser.unsupported("DISTINCT ON")
        if not distinct and parser.word() == "ALL" and parser.following not in _AFTER_NAME:
            parser.accept("ALL")
        items = [] if in_exists and parser.accept("1") else parser.list_of(self._item)
        table = self._table()
        for star in items:
            if not isinstance(star, SelectItem):
                self._check_star(star, is_alone=len(items) == 1)
        named = [item for item in items if isinstance(item, SelectItem)]
        self._items = (
            tuple(replace(item, value=self._unqualified_value(item.value)) for item in named) or None
        )
        where = parser.predicate() if parser.accept("WHERE") else None
        self._no_clause()
        grouped = parser.offset
        if parser.accept(_GROUP_BY):
            self._groups = tuple(parser.list_of(self._group))
        if distinct:
            self._groups = self._distinct(start)
        self._check_items(start if distinct else grouped)
        having: Having | None = None
        if self._groups and not distinct and parser.accept("HAVING"):
            having = self._having(parser.condition())
        self._no_clause()
        orders: list[SortItem] = []
        if parser.accept(_ORDER_BY):
            orders = parser.list_of(lambda: self._order(is_distinct=distinct))
        self._no_clause()
        limit: int | None = None
        if parser.accept("LIMIT") and not parser.accept("ALL"):
            limit = self._row_count("LIMIT")
            if parser.word() == ",":
                parser.fail("unexpected ',' after LIMIT: write LIMIT number of rows OFFSET rows to skip")
        offset = self._row_count("OFFSET") if parser.accept("OFFSET") else 0
        if parser.word() == "LIMIT":
            parser.fail("unexpected LIMIT after OFFSET: write LIMIT before OFFSET")
        self._no_clause()
        return Select(table, self._items, where, self._groups, tuple(orders), limit, having, offset)

    # Names

    def _table(self) -> TableRef:
        """Convert FROM; the table's alias or else its name may stand before columns from here on."""
        parser = self._parser
        if not parser.accept("FROM"):
            parser.fail(f"expected , or FROM, found {parser.token_text()}{parser.suggest('FROM')}")
        if parser.word() == "(":
            parser.unsupported("subquery in FROM")
        table = parser.table()
        alias = None
        if parser.accept("AS"):
            alias = parser.identifier("an alias")
        elif parser.word() not in _TABLE_CLAUSES:
            self._no_clause()
            is_misspelled = (
                parser.suggest("WHERE", "LIMIT", "OFFSET") and parser.following not in _AFTER_TABLE
            )
            if parser.is_name and not is_misspelled:
                alias = parser.identifier("an alias")
        if alias is not None and parser.word() == "(":
            parser.unsupported("aliases of columns after the table's")
        parser.qualifiers = table.qualifiers if alias is None else ((alias,),)
        return table

    def _name(self, node: exp.Expression, clause: str) -> ColumnRef:
        """Return the column that an item of a clause is, as it is written."""
        column = self.written(node)
        if column is None:
            self._refuse(node, f"{clause} of")
        if self._text(node).upper() == "ALL":
            self.fail(node, f"{clause} ALL", unsupported=True)
        return column

    def _unqualified_value(self, value: ColumnRef | AggregateCall) -> ColumnRef | AggregateCall:
        """Return a selected item with the column's name alone."""
        if isinstance(value, ColumnRef):
            return self._unqualified(value)
        return value if value.column is None else replace(value, column=self._unqualified(value.column))

    def _text(self, node: exp.Expression) -> str:
        """Return an item of a list as it is written."""
        return self._sql[node.meta["start"] : node.meta["end"] + 1]

    def _refuse(self, node: exp.Expression, subject: str, remedy: str = "") -> NoReturn:
        text = self._text(node)
        hint = "; a name is written in `backquotes`" if text[:1] == '"' else ""
        self.fail(node, f"{subject} '{shortened(text)}'{hint}{remedy}", unsupported=True)

    # Items of SELECT

    def _item(self) -> SelectItem | exp.Expression:
        """Convert an item, without the name of the table, which is not known yet; return a star as it is."""
        parser = self._parser
        node = parser.item()
        if _is_star(node):
            return node
        value = self._aggregate(node) or self.written(node)
        if value is None:
            is_query = isinstance(node, exp.Query | exp.Exists)
            kind = "window function" if isinstance(node, exp.Window) else "select expression"
            self._refuse(node, "subquery" if is_query else kind, f"; {_ITEMS}")
        if parser.accept("AS") or (parser.is_name and parser.word() != "FROM" and not parser.suggest("FROM")):
            return SelectItem(value, parser.identifier("an alias"))
        return SelectItem(value)

    def _aggregate(self, node: exp.Expression) -> AggregateCall | None:
        """Return the aggregate that a node is, with its column as it is written; None for any other node."""
        if type(node) is not exp.Anonymous or not isinstance(node.this, str) or len(node.expressions) != 1:
            return None
        function, argument = _FUNCTIONS.get(node.name.upper()), node.expressions[0]
        if function is AggregateFunction.COUNT:
            is_one = isinstance(argument, exp.Literal) and not argument.is_string and argument.this == "1"
            if is_one or (isinstance(argument, exp.Star) and _is_star(argument)):
                return AggregateCall(function)
            if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
                self.only(argument, "expressions")
                function, argument = AggregateFunction.COUNT_DISTINCT, argument.expressions[0]
        column = None if function is None else self.written(argument)
        return None if function is None or column is None else AggregateCall(function, column)

    def _check_star(self, star: exp.Expression, *, is_alone: bool) -> None:
        """Refuse a star beside other items, or of anything but the table."""
        if not is_alone:
            self.fail(star, f"'*' beside other columns; {_ITEMS}", unsupported=True)
        qualifier = [part.name.lower() for part in star.parts[:-1]] if isinstance(star, exp.Column) else []
        if qualifier and qualifier not in [[*map(str.lower, names)] for names in self._parser.qualifiers]:
            self.fail(
                star, f"{self._text(star)}: '*' stands for the columns of the table only", unsupported=True
            )

    def _distinct(self, start: int) -> tuple[ColumnRef, ...]:
        """Return the columns of SELECT DISTINCT, which groups by them."""
        values = [item.value for item in self._items or ()]
        columns = tuple(value for value in values if isinstance(value, ColumnRef))
        if not values or len(columns) < len(values) or self._groups:
            self._parser.unsupported("DISTINCT of anything but columns", start)
        return columns

    def _check_items(self, start: int) -> None:
        """Refuse columns that are neither aggregated nor grouped by, and aggregates of other columns."""
        parser, groups = self._parser, self._groups
        values = [item.value for item in self._items or ()]
        calls = [value for value in values if isinstance(value, AggregateCall)]
        if not groups:
            if calls and len(calls) < len(values):
                self._fail_without_groups()
            return
        if self._items is None:
            parser.unsupported("* with GROUP BY", start)
        for value in values:
            column = value.column if isinstance(value, AggregateCall) else value
            if isinstance(value, AggregateCall) and value.function is AggregateFunction.COUNT_DISTINCT:
                continue
            if column is not None and not any(is_same_column(column, group) for group in groups):
                message = f"{value} in a query that groups by {', '.join(map(str, groups))} alone"
                # Spark takes fields of a struct that is grouped by
                if isinstance(value, ColumnRef) and not (value.parts[1:] or self._may_be_no_column(value)):
                    parser.fail(
                        f"{message}: add {value} to GROUP BY, or aggregate it, as in MIN({value})", start
                    )
                parser.unsupported(message, start)

    def _fail_without_groups(self) -> NoReturn:
        """Refuse columns beside aggregates of all rows."""
        values = [item.value for item in self._items or ()]
        columns = [value for value in values if isinstance(value, ColumnRef)]
        if any(map(self._may_be_no_column, columns)):
            self._parser.unsupported("columns beside aggregates without GROUP BY", 0)
        calls = ", ".join(str(value) for value in values if isinstance(value, AggregateCall))
        names = ", ".join(dict.fromkeys(map(str, columns)))
        self._parser.fail(
            f"{names} beside {calls}: add GROUP BY {names} for a row of each value, or leave {names} out for one of "
            "all rows",
            0,
        )

    def _may_be_no_column(self, column: ColumnRef) -> bool:
        """Return True if a name may be that of another item or of a function to Spark."""
        aliases = [item.alias.lower() for item in self._items or () if item.alias is not None]
        return column.parts[0].lower() in (*aliases, *_CONSTANT_NAMES)

    # GROUP BY and ORDER BY

    def _group(self) -> ColumnRef:
        parser = self._parser
        if parser.word() in ("ROLLUP", "CUBE", "GROUPING SETS") and parser.following == "(":
            parser.unsupported(f"{_GROUP_BY} {parser.word()}")
        node = parser.item()
        value = self._at_position(node, _GROUP_BY)
        if isinstance(value, AggregateCall):
            self.fail(node, f"{_GROUP_BY} {self._text(node)} is {value}: groups are by columns")
        return value or self._unqualified(self._name(node, _GROUP_BY))

    def _at_position(self, node: exp.Expression, clause: str) -> ColumnRef | AggregateCall | None:
        """Return the item at a position in the list, counted from 1; None if a node is no whole number."""
        text = self._text(node)
        if type(node) is not exp.Literal or not text.isdigit() or len(text) > 18:
            return None
        if self._items is None:
            self.fail(node, f"{clause} {text} of *: name the column", unsupported=True)
        if not 0 < int(text) <= len(self._items):
            count = f"{len(self._items)} {'item' if len(self._items) == 1 else 'items'}"
            self.fail(node, f"{clause} {text}: the list has {count}")
        return self._items[int(text) - 1].value

    def _order(self, *, is_distinct: bool) -> SortItem:
        parser = self._parser
        node = parser.item()
        call = self._aggregate(node)
        value = self._at_position(node, _ORDER_BY) if call is None else self._unqualified_value(call)
        if value is None:
            qualified = self._name(node, _ORDER_BY)
            written = self._unqualified(qualified)
            if is_distinct:
                self._check_distinct_order(node, written)
            value = self._aliased(node, written)
            if written is not qualified and not is_same_value(value, written):
                # a column of the table whose name is also an alias
                self._fail_of_many(node, qualified)
        elif isinstance(value, ColumnRef):
            # the same as its name, where columns are selected in several spellings
            named = self._aliased(node, value)
            if not is_same_value(named, value):
                self._fail_of_many(node, value)
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
        values = [item.value for item in self._items or ()]
        is_aggregate = bool(self._groups) or any(isinstance(item, AggregateCall) for item in values)
        is_selected = any(is_same_value(item, value) for item in values)
        if (isinstance(value, AggregateCall) and not is_aggregate) or (
            is_aggregate and not (is_selected and self._groups)
        ):
            self.fail(node, "ORDER BY of what is not selected", unsupported=True)
        return SortItem(value, descending, nulls)

    def _aliased(self, node: exp.Expression, written: ColumnRef) -> ColumnRef | AggregateCall:
        """Resolve a name in ORDER BY: aliases of the result precede columns of the table."""
        named: dict[str, list[ColumnRef | AggregateCall]] = {}
        for item in self._items or ():
            values = named.setdefault(item.output_name, [])
            if not any(is_same_value(item.value, other) for other in values):
                values.append(item.value)
        aliases = {item.alias.lower() for item in self._items or () if item.alias is not None}
        candidates = named.get(written.name.lower(), [written]) if len(written.parts) == 1 else [written]
        value = candidates[0]
        # by its own name it would refer to another alias, or to a field of one
        is_hidden = isinstance(value, ColumnRef) and (
            value.parts[0].lower() in aliases
            if len(value.parts) > 1
            else not is_same_value(value, written) and value.name.lower() in named
        )
        if len(candidates) > 1 or is_hidden:
            self._fail_of_many(node, written)
        return value

    def _fail_of_many(self, node: exp.Expression, column: ColumnRef) -> NoReturn:
        self.fail(node, f"ORDER BY of {column}, which may stand for more than one column", unsupported=True)

    def _check_distinct_order(self, node: exp.Expression, written: ColumnRef) -> None:
        """Refuse a column that is not in the result: DISTINCT comes before ORDER BY."""
        items = self._items or ()
        if len(written.parts) > 1 or written.name.lower() not in [item.output_name for item in items]:
            names = ", ".join(
                quote_name(item.alias or item.value.parts[-1])
                for item in items
                if isinstance(item.value, ColumnRef)
            )
            self.fail(
                node, f"ORDER BY of {written}, which is no column of SELECT DISTINCT: those are {names}"
            )

    # HAVING: a name is first a column that is grouped by, then what is selected under it

    def _having(self, node: exp.Expression) -> Having:
        """Convert the condition: Spark casts a value to BOOLEAN there, but not below AND, OR and NOT."""
        value = self.expression(node)
        match value:
            case Literal(bool() | None) | Cast(_, "BOOLEAN"):
                pass
            case Arithmetic() | Call() | Case() | Cast() | ColumnRef() | Literal():
                value = Cast(value, "BOOLEAN")
        return Having(as_predicate(value), tuple(sorted(self._calls, key=str)))

    def column(self, node: exp.Expression, written: ColumnRef) -> ColumnRef:
        """Resolve a name in HAVING."""
        group = self._group_of(self._unqualified(written))
        if group is not None:
            return group
        named = [item.value for item in self._items or () if item.output_name == written.name.lower()]
        if len(written.parts) > 1 or not named:
            self.fail(
                node,
                f"HAVING of {written}, which is neither grouped by nor selected: put it into WHERE, or an aggregate "
                "around it",
            )
        value = named[0]
        if not all(is_same_value(other, value) for other in named):
            self.fail(node, f"HAVING of {written}, which stands for more than one column", unsupported=True)
        return self._ref(value) if isinstance(value, AggregateCall) else self._group_of(value) or value

    def aggregate(self, node: exp.Expression) -> ColumnRef | None:
        """Return the column of groups that holds an aggregate in HAVING; None for any other function."""
        call, name = self._aggregate(node), node.name.upper()
        if call is None:
            if name in AGGREGATES:
                subject = f"{name} of anything but a column" if name in _FUNCTIONS else name
                self.fail(node, f"{subject} in HAVING", unsupported=True)
            return None
        if call.column is not None:
            column = self._unqualified(call.column)
            call = replace(call, column=column)
            if call.function is not AggregateFunction.COUNT_DISTINCT and self._group_of(column) is None:
                by = ", ".join(map(str, self._groups))
                self.fail(node, f"{call} in a query that groups by {by} alone", unsupported=True)
        return self._ref(call)

    def _group_of(self, column: ColumnRef) -> ColumnRef | None:
        """Return the grouping column that a name refers to, if any."""
        if column in self._groups:
            return column
        return next((group for group in self._groups if is_same_column(column, group)), None)

    def _ref(self, call: AggregateCall) -> ColumnRef:
        self._calls.add(call)
        return AggregateRef((str(call),), call)

    # LIMIT, OFFSET and what no SELECT has here

    def _row_count(self, clause: str) -> int:
        """Read the number of rows after LIMIT or OFFSET."""
        parser = self._parser
        count = parser.whole_number(or_argument=True)
        if count is None:
            if parser.written().isdigit():
                parser.fail(f"{clause} {parser.written()} is too large: it has at most 18 digits")
            text = f"the argument of {parser.written()}" if parser.is_argument else parser.token_text()
            parser.fail(f"expected a whole number after {clause}, found {text}")
        if parser.word() in _OPERATORS:
            parser.unsupported(f"{clause} of an expression")
        return count

    def _no_clause(self) -> None:
        parser = self._parser
        meant = parser.suggest("GROUP", "ORDER") if parser.following == "BY" else ""
        if meant:
            parser.fail(f"unexpected {parser.token_text()}{meant}")
        word = parser.word()
        if word in ("GROUP", "ORDER"):
            parser.accept(word)
            parser.fail(f"expected BY after {word}, found {parser.token_text()}{parser.suggest('BY')}")
        if word == "HAVING" and not parser.following:
            parser.fail("expected a condition after HAVING, found the end", parser.offset + len(word))
        if word in _CLAUSES:
            parser.unsupported(_CLAUSES[word])


def _is_star(node: exp.Expression) -> bool:
    """Return True for ``*`` and ``name.*``, without EXCEPT and the like."""
    parts = node.parts if isinstance(node, exp.Column) else [node]
    names = all(isinstance(part, exp.Identifier) for part in parts[:-1])
    return names and isinstance(parts[-1], exp.Star) and not any(parts[-1].args.values())
