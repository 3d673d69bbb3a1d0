"""Conditions of a query that hold for the rows of its tables, so that a table's other rows need not be read.

A condition is taken from WHERE or ON of the SELECT that names a table, where leaving out the rows that fail it cannot
change the answer, by the rules of each kind of join. Where a name could mean two things, it is left out.

Source: Galindo-Legaria and Rosenthal, "Outerjoin simplification and reordering", ACM TODS 22(1), 1997.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from hindex.sql.convert import name_parts, to_predicate
from hindex.sql.lexer import SqlSyntaxError
from hindex.sql.predicate import (
    And,
    ColumnRef,
    Comparison,
    ComparisonOp,
    IsNull,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
    TruthValue,
    leaves,
    tested_column,
)

if TYPE_CHECKING:
    # the base of all nodes; older versions of sqlglot have no name for it
    from sqlglot.expressions import Expr as Node

# arguments of a SELECT that are understood here
_SUPPORTED_CLAUSES = frozenset(
    {
        *("expressions", "from_", "joins", "where", "distinct", "group", "having", "order", "laterals"),
        *("hint", "with_", "limit", "offset", "windows", "qualify", "sort", "cluster", "distribute"),
    }
)
_JOIN_ARGS = frozenset({"this", "side", "kind", "on", "using", "method"})


def is_plain_table(node: exp.Table) -> bool:
    """Return True if a node is a table name, with or without an alias, and nothing else."""
    return all(
        key in ("this", "db", "catalog", "alias", "joins") for key, value in node.args.items() if value
    )


@dataclass(slots=True)
class Source:
    """A source in FROM or JOIN.

    Attributes:
        columns: for a table, its columns as they are named, by their lower-case names; None where they are not known.
        predicates: the conditions that the relevant rows of the table satisfy.
    """

    alias: str
    columns: Mapping[str, str] | None
    join: exp.Join | None
    predicates: list[Predicate]


class Pushdown:
    """One pass over a query that pushes its conditions down to tables.

    Args:
        text: the query's text, for the offsets in nodes.
        columns: the columns of tables, by the ``id()`` of their nodes.
    """

    def __init__(self, text: str, columns: Mapping[int, Sequence[str]]) -> None:
        self._text = text
        self._columns = columns
        self._aliases: set[str] = set()
        self._predicates: dict[int, list[Predicate]] = {}

    def run(self, root: Node) -> dict[int, list[Predicate]]:
        """Return the conditions of each table, by the ``id()`` of its node."""
        for alias in root.find_all(exp.TableAlias):
            self._aliases.add(alias.name.lower())
        for table in root.find_all(exp.Table):
            self._aliases.add(table.name.lower())
        for select in root.find_all(exp.Select):
            self._select(select)
        return self._predicates

    def _select(self, select: exp.Select) -> None:
        sources = self._sources(select)
        if sources is None or any(
            key not in _SUPPORTED_CLAUSES for key, value in select.args.items() if value
        ):
            return
        where = select.args.get("where")
        for part in () if where is None else _conjuncts(where.this):
            self._share(part, sources)
        for number, source in enumerate(sources):
            on = None if source.join is None else source.join.args.get("on")
            for part in () if on is None else _conjuncts(on):
                self._share_on(part, sources, number)

    # Sources and their columns

    def _sources(self, select: exp.Select) -> list[Source] | None:
        """Return the sources of a SELECT; None if two have the same name, or a join has an unsupported form."""
        first = select.args.get("from_")
        if first is None:
            return None
        for join in select.args.get("joins") or ():
            # a pivot behind a join is of the whole join, and makes other columns of it
            if any(value and key not in _JOIN_ARGS for key, value in join.args.items()) or join.this.args.get(
                "pivots"
            ):
                return None
        sources = [self._source(first.this, None)]
        sources += [self._source(join.this, join) for join in select.args.get("joins") or ()]
        names = [source.alias for source in sources if source.alias]
        return sources if len(set(names)) == len(names) else None

    def _source(self, node: Node, join: exp.Join | None) -> Source:
        alias = node.args.get("alias")
        columns: Mapping[str, str] | None = None
        renames = isinstance(alias, exp.TableAlias) and alias.columns
        if (
            isinstance(node, exp.Table)
            and is_plain_table(node)
            and not node.args.get("joins")
            and not renames
        ):
            names = self._columns.get(id(node))
            columns = None if names is None else {name.lower(): name for name in names}
        predicates: list[Predicate] = []
        if columns is not None:
            self._predicates[id(node)] = predicates
        return Source(str(node.alias_or_name).lower(), columns, join, predicates)

    # From conditions to sources

    def _share(self, node: Node, sources: Sequence[Source]) -> None:
        """Give a part of WHERE to each of the sources that it concerns."""
        last = len(sources) - 1
        for number, source in enumerate(sources):
            side, kind = _join_of(source)
            if kind not in ("SEMI", "ANTI") and not _is_unknown(side, kind):
                self._give(node, sources, number, last, strict=_may_be_nulls(sources, number, last))

    def _share_on(self, node: Node, sources: Sequence[Source], number: int) -> None:
        """Give a part of a join's own condition to the sources that it concerns."""
        side, kind = _join_of(sources[number])
        if _is_unknown(side, kind) or side == "FULL":
            return
        if side == "RIGHT":
            takes = range(number)
        elif kind == "ANTI" or (side == "LEFT" and kind != "SEMI"):
            takes = range(number, number + 1)
        else:
            takes = range(number + 1)
        for at in takes:
            if at == number or _join_of(sources[at])[1] not in ("SEMI", "ANTI"):
                strict = at < number and _may_be_nulls(sources, at, number - 1)
                self._give(node, sources, at, number, strict=strict)

    def _give(self, node: Node, sources: Sequence[Source], number: int, last: int, *, strict: bool) -> None:
        """Give a source what a condition on the join of the sources up to ``last`` implies for its rows.

        Args:
            strict: an outer join may put nulls in place of the rows, so the condition holds for rows only if it is not
                TRUE of nulls.
        """
        part = self._implied(node, sources, number, last)
        predicate = None if part is None else to_predicate(cast("Any", part), self._text)
        if predicate is not None and not (strict and of_nulls(predicate) is True):
            sources[number].predicates.append(predicate)

    def _implied(self, node: Node, sources: Sequence[Source], number: int, last: int) -> Node | None:
        """Return the part of a condition that concerns one source alone, in its own names; None if there is none."""
        node = node.unnest()
        if not isinstance(node, exp.And | exp.Or):
            return self._renamed(node, sources, number, last)
        implied = [self._implied(child, sources, number, last) for child in node.flatten()]
        parts = [part for part in implied if part is not None]
        if isinstance(node, exp.And):
            return exp.and_(*parts, copy=False) if parts else None
        return exp.or_(*parts, copy=False) if len(parts) == len(implied) else None

    def _renamed(self, node: Node, sources: Sequence[Source], number: int, last: int) -> Node | None:
        """Return a condition on one source in that source's names, if it can become a predicate."""
        # most conditions are on another source: check before anything is copied
        paths = [self._resolve(column, sources, last) for column in _columns_of(node)]
        if not paths or any(path is None or path[0] != number for path in paths):
            return None
        copy: Any = node.copy()
        for column in _columns_of(copy):
            path = self._resolve(column, sources, last)
            if path is None:
                return None
            named: Node = exp.column(exp.to_identifier(path[1][0], quoted=True))
            for part in path[1][1:]:
                named = exp.Dot(this=named, expression=exp.to_identifier(part, quoted=True))
            if column is copy:
                copy = named
            else:
                column.replace(named)
        try:
            predicate = to_predicate(copy, self._text)
        except SqlSyntaxError:
            return None
        # evaluated early, on rows that other conditions exclude, an expression could fail
        is_safe = all(isinstance(leaf, TruthValue) or tested_column(leaf) for leaf in leaves(predicate))
        return copy if is_safe else None

    def _resolve(self, column: Node, sources: Sequence[Source], last: int) -> tuple[int, list[str]] | None:
        """Return the source of a column and its path there; None if that is not certain."""
        names = [part.name for part in name_parts(cast("Any", column)) or ()]
        if not names or not all(names):
            return None
        by_alias = {source.alias: number for number, source in enumerate(sources) if source.alias}
        first = names[0].lower()
        if len(names) > 1 and first in self._aliases:
            number = by_alias.get(first)
            columns = None if number is None else sources[number].columns
            name = None if columns is None else columns.get(names[1].lower())
            if number is None or number > last or name is None:
                return None
            return number, [name, *names[2:]]
        if _is_merged(first, sources):
            return None
        matches = [
            (number, name)
            for number, source in enumerate(sources[: last + 1])
            if source.columns is not None and (name := source.columns.get(first)) is not None
        ]
        if len(matches) != 1:
            return None
        return matches[0][0], [matches[0][1], *names[1:]]


def of_nulls(predicate: Predicate) -> bool | None:
    """Evaluate a predicate on a row of NULLs, in three-valued logic."""
    match predicate:
        case TruthValue(value):
            return value
        case IsNull(ColumnRef()):
            return True
        case Comparison(ComparisonOp.NULL_SAFE_EQ, ColumnRef(), Literal() as literal):
            return literal.kind is LiteralKind.NULL
        case Not(child):
            inner = of_nulls(child)
            return None if inner is None else not inner
        case And(children):
            values = [of_nulls(child) for child in children]
            return False if False in values else None if None in values else True
        case Or(children):
            values = [of_nulls(child) for child in children]
            return True if True in values else None if None in values else False
        case _:
            return None


def _columns_of(node: Node) -> list[Node]:
    """Return the columns in a condition, each with the steps into it."""
    return [c for c in node.find_all(exp.Column, exp.Dot) if not isinstance(c.parent, exp.Dot)]


def _conjuncts(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        else:
            yield node


def _join_of(source: Source) -> tuple[str, str]:
    """Return the side and the kind of the join that adds a source, empty for the first source."""
    if source.join is None:
        return "", ""
    kind = str(source.join.kind).upper()
    return str(source.join.side).upper(), "" if kind in ("INNER", "OUTER", "CROSS") else kind


def _is_unknown(side: str, kind: str) -> bool:
    return side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "SEMI", "ANTI")


def _may_be_nulls(sources: Sequence[Source], number: int, last: int) -> bool:
    """Return True if the join of the sources up to ``last`` may replace rows of one by NULLs."""
    sides = [_join_of(source)[0] for source in sources]
    own = number <= last and sides[number] in ("LEFT", "FULL")
    return own or any(side not in ("", "LEFT") for side in sides[number + 1 : last + 1])


def _is_merged(name: str, sources: Sequence[Source]) -> bool:
    """Return True if a join merges the columns of this name."""
    for source in sources:
        if source.join is None:
            continue
        if source.join.args.get("method"):
            return True
        if any(part.name.lower() == name for part in source.join.args.get("using") or ()):
            return True
    return False
