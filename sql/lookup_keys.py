"""Conditions of a query that restrict a column to the values of a column of another table.

From ``fact.k = dim.k``, ``fact.k IN (SELECT k FROM dim ...)`` and ``EXISTS (SELECT * FROM dim WHERE dim.k = fact.k)``
follows, wherever the condition is true, that ``fact.k`` is one of the values that ``dim.k`` has in the rows which the
query reads of ``dim``. The condition that follows is carried down to ``fact`` by the rules of
`hindex.sql.pushdown.Pushdown`, with a literal in place of the keys.

Source: Selinger et al., "Access path selection in a relational database management system", SIGMOD 1979 (index joins);
Bernstein and Chiu, "Using semi-joins to solve relational queries", JACM 28(1), 1981.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from sqlglot import Token, TokenType, exp

from hindex.sql.convert import to_predicate
from hindex.sql.predicate import (
    And,
    ColumnRef,
    In,
    Literal,
    LiteralKind,
    Or,
    Predicate,
    TruthValue,
    all_of,
    any_of,
    leaves,
)
from hindex.sql.pushdown import Condition, Pushdown, Source, conjuncts, is_never_null_extended
from hindex.value_class import value_class

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

#: Clauses of a subquery of one table that lose no value of the rows that satisfy WHERE.
_PLAIN = frozenset({"expressions", "from_", "where", "distinct"})
#: Parts of a subquery after EXISTS with which it has a row only if its WHERE is true of one.
_EXISTS = frozenset({"expressions", "from_", "joins", "where", "distinct", "hint"})
_PLAIN_OUTPUTS = (exp.Column, exp.Dot, exp.Literal, exp.Star, exp.Null)
#: The beginning of the strings that stand for keys in conditions; no query has it.
_MARK = f"keys {token_hex()}:"


@value_class
class KeyColumn:
    """A column of one of a query's tables, whose values are keys.

    Args:
        table: the position of the table in the query.
    """

    table: int
    column: str

    @property
    def marker(self) -> Literal:
        """Return the literal that stands for the keys in a condition."""
        return Literal(f"{_MARK}{self.table}:{self.column}", LiteralKind.STRING)


@value_class
class ImpliedSubquery:
    """A subquery in WHERE that is true of every row of a table whose column has one of its keys.

    Args:
        table: the position of the table in the query.
        filters: the subquery's own conditions: each row that gives a key has to satisfy them.
        start: the condition is ``text[start:end]`` of the query.
    """

    table: int
    column: str
    key: KeyColumn
    filters: tuple[Predicate, ...]
    start: int
    end: int


class LookupPushdown(Pushdown):
    """One run over a query; `run` returns conditions with markers in place of keys.

    ``implied`` are the subqueries that need not be evaluated for rows that were selected by their keys.

    Args:
        positions: the positions of the tables in the query, by the ``id()`` of their nodes.
        tokens: the tokens of the text.
    """

    def __init__(
        self,
        text: str,
        columns: Mapping[int, Sequence[str]],
        positions: Mapping[int, int],
        tokens: Sequence[Token],
    ) -> None:
        super().__init__(text, columns)
        self._positions = positions
        self._tokens = tokens
        self.implied: list[ImpliedSubquery] = []
        # the enclosing SELECT of a subquery that may name its columns, by the id() of the subquery's SELECT
        self._enclosing: dict[int, exp.Select] = {}
        self._current: list[exp.Select] = []

    def _select(self, select: exp.Select, above: Sequence[object]) -> None:
        where = select.args.get("where")
        for part in [*select.expressions, *([] if where is None else [where])]:
            for subquery in _subqueries(part):
                self._enclosing[id(subquery)] = select
        self._current.append(select)
        super()._select(select, above)  # type: ignore[arg-type]
        self._current.pop()

    def _share(
        self, item: Condition, sources: Sequence[Source], own: Sequence[list[Condition]], last: int
    ) -> None:
        super()._share(item, sources, own, last)
        # a name in the subquery could also be of a source with unknown columns: Spark then has an error
        if any(source.columns is None for source in sources) or self._current[-1].args.get("laterals"):
            return
        for number, source in enumerate(sources):
            # conditions from an enclosing query are copies, and their tables are not in the positions
            if id(source.node) in self._positions and is_never_null_extended(sources, number, last):
                self._add_implied(item.node, sources, number, last)

    def _add_implied(self, node: Node, sources: Sequence[Source], number: int, last: int) -> None:
        """Add a condition if it is a subquery that is true of the rows of one source that have one of its keys."""
        is_exists = isinstance(node, exp.Exists)
        if not is_exists and not (isinstance(node, exp.In) and node.args.get("query")):
            return
        memberships = self._memberships(node, sources, number, last)
        if len(memberships) != 1:
            return
        ((column, key),) = memberships
        select = (node.this if is_exists else node.args["query"]).unnest()
        inner = self._sources(select)
        distinct = select.args.get("distinct")
        if (
            any(value and name not in _PLAIN for name, value in select.args.items())
            or (distinct is not None and distinct.args.get("on"))
            or inner is None
            or self._positions.get(id(inner[0].node)) != key.table
            or not all(self._is_valid_output(item, inner) for item in select.expressions)
        ):
            return
        where = select.args.get("where")
        parts = [] if where is None else list(conjuncts(where.this))
        filters = [
            to_predicate(cast("Any", renamed), self._text)
            for part in parts
            if (renamed := Pushdown._renamed(self, part, inner, 0, 0)) is not None
        ]
        # one condition of EXISTS is not on the subquery's table alone: that it has the key
        other_conditions = 1 if is_exists else 0
        span = self._span(node, inner[0].node)
        if span is not None and len(parts) - len(filters) == other_conditions:
            table = self._positions[id(sources[number].node)]
            self.implied.append(ImpliedSubquery(table, column, key, tuple(filters), *span))

    def _is_valid_output(self, item: Node, inner: Sequence[Source]) -> bool:
        """Return True if Spark certainly accepts an item of a subquery's select list."""
        output = item.this if isinstance(item, exp.Alias) else item
        if isinstance(output, exp.Column | exp.Dot) and not output.is_star:
            path = self._resolve(output, inner, 0)
            return path is not None and len(path[1]) == 1
        return isinstance(output, exp.Literal | exp.Null) or (
            type(output) is exp.Star and not any(output.args.values())
        )

    def _span(self, node: Node, table: Node) -> tuple[int, int] | None:
        """Return where ``column IN (SELECT ... FROM table ...)`` or ``EXISTS (...)`` is in the text; None if unsure."""
        tokens = self._tokens
        starts: dict[int | None, int] = {token.start: at for at, token in enumerate(tokens)}
        at = starts.get(_start(table))
        if at is None:
            return None
        # the nearest parentheses around the table's name are the subquery's
        opening, closing = _opening_before(tokens, at), _closing_after(tokens, at)
        if not opening or closing is None:
            return None
        word = opening - 1
        if isinstance(node, exp.Exists):
            first = word
            is_whole = tokens[word].token_type is TokenType.EXISTS
        else:
            column = starts.get(_start(node.this))
            # the names of the column, and the dots between them
            first = word - (2 * len(node.this.parts) - 1)
            is_whole = tokens[word].token_type is TokenType.IN and first == column
        return (tokens[first].start, tokens[closing].end + 1) if is_whole else None

    def _join_conditions(self, source: Source, before: Sequence[Source]) -> list[Node]:
        conditions = super()._join_conditions(source, before)
        join = source.join
        using = [] if join is None or join.args.get("method") else join.args.get("using") or []
        for name in using:
            having = [
                item for item in before if item.columns is not None and name.name.lower() in item.columns
            ]
            if len(having) == 1 and all(
                item.columns is not None and item.alias for item in (*before, source)
            ):
                left, right = (
                    exp.column(name.name, table=item.alias, quoted=True) for item in (*having, source)
                )
                conditions.append(exp.EQ(this=left, expression=right))
        return conditions

    def _renamed(self, node: Node, sources: Sequence[Source], number: int, last: int) -> Node | None:
        renamed = super()._renamed(node, sources, number, last)
        if renamed is not None:
            return renamed
        parts = [_membership(*item) for item in self._memberships(node, sources, number, last)]
        return exp.and_(*parts, copy=False) if parts else None

    def _memberships(
        self, node: Node, sources: Sequence[Source], number: int, last: int
    ) -> list[tuple[str, KeyColumn]]:
        """Return the columns of one source that have one of some keys if a condition is true."""

        def own_name(column: Node) -> str | None:
            path = self._resolve(column, sources, last)
            return path[1][0] if path is not None and path[0] == number and len(path[1]) == 1 else None

        if isinstance(node, exp.EQ):
            select = self._current[-1]
            return self._equality(node, own_name, lambda column: self._key(column, select, sources, last))
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            if (own := own_name(node.this)) is None:
                return []
            key = self._output_key(node.args["query"])
            return [] if key is None else [(own, key)]
        if isinstance(node, exp.Exists):
            return self._exists(node.this, own_name, sources, last)
        return []

    def _equality(
        self, node: Node, own_name: Callable[[Node], str | None], key_of: Callable[[Node], KeyColumn | None]
    ) -> list[tuple[str, KeyColumn]]:
        left, right = node.this.unnest(), node.expression.unnest()
        return [
            (name, key)
            for own, other in ((left, right), (right, left))
            if (name := own_name(own)) is not None and (key := key_of(other)) is not None
        ]

    def _exists(
        self, query: Node, own_name: Callable[[Node], str | None], sources: Sequence[Source], last: int
    ) -> list[tuple[str, KeyColumn]]:
        """Return the columns that have one of some keys if ``EXISTS (query)`` is true."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or select.args.get("where") is None:
            return []
        outputs = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
        if any(value and key not in _EXISTS for key, value in select.args.items()) or not all(
            isinstance(item, _PLAIN_OUTPUTS) for item in outputs
        ):
            return []
        inner = self._sources(select)
        if inner is None:
            return []

        def outer_name(column: Node) -> str | None:
            return None if self._is_captured(column, inner) else own_name(column)

        memberships = []
        for part in conjuncts(select.args["where"].this):
            if isinstance(part, exp.EQ):
                memberships += self._equality(
                    part, outer_name, lambda column: self._traced(column, inner, len(inner) - 1)
                )
        return memberships

    # From columns to the tables that they are of

    def _key(
        self, column: Node, select: exp.Select, sources: Sequence[Source], last: int
    ) -> KeyColumn | None:
        """Resolve a name to a column of the table, in the SELECT or an enclosing one."""
        key = self._traced(column, sources, last)
        while key is None and not self._is_captured(column, sources):
            outer = self._enclosing.get(id(select))
            if outer is None or select.args.get("laterals"):
                return None
            enclosing = self._sources(outer)
            if enclosing is None:
                return None
            select, sources = outer, enclosing
            key = self._traced(column, sources, len(sources) - 1)
        return key

    def _is_captured(self, column: Node, sources: Sequence[Source]) -> bool:
        """True if a name may be of a column of some sources, and so of none around them."""
        parts = column.parts if isinstance(column, exp.Column | exp.Dot) else []
        if not parts or not all(isinstance(part, exp.Identifier) and part.name for part in parts):
            return True
        first = parts[0].name.lower()
        return any(
            source.columns is None or first == source.alias or first in source.columns for source in sources
        )

    def _traced(self, column: Node, sources: Sequence[Source], last: int) -> KeyColumn | None:
        """The table's column whose values, besides NULL, are all that a column of sources has."""
        path = self._resolve(column, sources, last)
        if path is None or len(path[1]) != 1:
            return None
        node, name = sources[path[0]].node, path[1][0]
        if id(node) in self._positions:
            return KeyColumn(self._positions[id(node)], name)
        cte = self._cte(node) if isinstance(node, exp.Table) else None
        query = cte.this if cte is not None else node.this if isinstance(node, exp.Subquery) else None
        return None if query is None else self._traced_output(query, name)

    def _traced_output(self, query: Node, name: str) -> KeyColumn | None:
        select = query.unnest()
        outputs = self._outputs(select)
        column = None if outputs is None else outputs.get(name.lower())
        if column is None or not isinstance(select, exp.Select) or select.args.get("laterals"):
            return None
        sources = self._sources(select)
        return None if sources is None else self._traced(column, sources, len(sources) - 1)

    def _output_key(self, query: Node) -> KeyColumn | None:
        """The table's column that the only column of a query is."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or len(select.expressions) != 1:
            return None
        (item,) = select.expressions
        return None if item.is_star else self._traced_output(select, str(item.alias_or_name))


def with_keys(predicate: Predicate, keys: Mapping[KeyColumn, Sequence[Literal]]) -> Predicate | None:
    """Put keys in place of markers. None if nothing is left of a condition without the keys that are not there.

    Args:
        predicate: of `LookupPushdown`, whose markers are in no negation.
    """
    match predicate:
        case In(column, (Literal(str(text), LiteralKind.STRING),)) if text.startswith(_MARK):
            values = keys.get(_marked(text))
            if values is None:
                return None
            return In(column, tuple(values)) if values else TruthValue(False)
        case And(children):
            parts = [part for child in children if (part := with_keys(child, keys)) is not None]
            return all_of(parts) if parts else None
        case Or(children):
            parts = [part for child in children if (part := with_keys(child, keys)) is not None]
            return any_of(parts) if len(parts) == len(children) else None
        case _:
            return predicate


def marked_columns(predicate: Predicate) -> dict[str, list[KeyColumn]]:
    """The keys that a condition has markers of, by the column that they restrict."""
    keys: dict[str, list[KeyColumn]] = {}
    for leaf in leaves(predicate):
        match leaf:
            case In(ColumnRef((column,)), (Literal(str(text), LiteralKind.STRING),)) if text.startswith(
                _MARK
            ):
                keys.setdefault(column, []).append(_marked(text))
    return keys


def _marked(text: str) -> KeyColumn:
    table, _, column = text.removeprefix(_MARK).partition(":")
    return KeyColumn(int(table), column)


def _membership(column: str, key: KeyColumn) -> Node:
    marker = exp.Literal.string(str(key.marker.value))
    return exp.In(this=exp.column(exp.to_identifier(column, quoted=True)), expressions=[marker])


def _start(node: Node) -> int | None:
    """Return where a name begins in the text; None if its parser did not record it."""
    parts = node.parts if isinstance(node, exp.Column | exp.Dot | exp.Table) else []
    return parts[0].meta.get("start") if parts else None


def _opening_before(tokens: Sequence[Token], at: int) -> int | None:
    """Return the position of the parenthesis that is open at a token; None if there is none."""
    depth = 0
    for before in range(at - 1, -1, -1):
        kind = tokens[before].token_type
        if kind is TokenType.L_PAREN and depth == 0:
            return before
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
    return None


def _closing_after(tokens: Sequence[Token], at: int) -> int | None:
    """Return the position of the parenthesis that closes the one that is open at a token; None if there is none."""
    depth = 0
    for after in range(at + 1, len(tokens)):
        kind = tokens[after].token_type
        if kind is TokenType.R_PAREN and depth == 0:
            return after
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
    return None


def _subqueries(node: Node) -> list[exp.Select]:
    """The SELECTs of the subqueries in an expression, without those within them."""
    selects, stack = [], [node]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Select):
            selects.append(node)
        elif not isinstance(node, exp.With):
            stack += node.iter_expressions()
    return selects
