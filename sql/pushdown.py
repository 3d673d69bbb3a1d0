"""Conditions of a query that hold for the rows of its tables, so that a table's other rows need not be read.

A condition is taken from WHERE or ON and carried down to tables only where leaving out the rows that fail it cannot
change the answer, by the rules of each kind of join, and through subqueries that neither count, rank nor cut rows.
Where a name could mean two things, it is left out.

Source: Galindo-Legaria and Rosenthal, "Outerjoin simplification and reordering", ACM TODS 22(1), 1997.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from hindex.sql.convert import to_predicate
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
from hindex.sql.string_values import parse_date
from hindex.value_class import value_class

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
# arguments through which a condition on the output can be pushed to the rows
_PUSHDOWN_CLAUSES = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "distinct",
        "group",
        "having",
        "order",
        "laterals",
        "hint",
        "with_",
    }
)
_DAYS_PER_UNIT = {"DAY": 1, "WEEK": 7}
_MONTHS_PER_UNIT = {"MONTH": 1, "YEAR": 12}
_JOIN_ARGS = frozenset({"this", "side", "kind", "on", "using", "method"})


def is_plain_table(node: exp.Table) -> bool:
    """Return True if a node is a table name, with or without an alias, and nothing else."""
    return all(
        key in ("this", "db", "catalog", "alias", "joins") for key, value in node.args.items() if value
    )


@value_class
class Condition:
    """A condition on the columns of one SELECT's sources, or of one source.

    ``strict``: an outer join may put nulls in place of the rows, so the condition holds for rows only if it is not
    TRUE of nulls.
    """

    node: Node
    strict: bool = False


@dataclass(slots=True)
class Source:
    """A source in FROM or JOIN: ``node`` is a table, a subquery or a reference to a common table expression.

    ``columns`` maps lower-case names to the names as they are; None where they are not known.
    """

    alias: str
    node: Node
    columns: Mapping[str, str] | None
    join: exp.Join | None


class Pushdown:
    """One pass over a query that pushes its conditions down to tables.

    Args:
        text: the query's text, for the offsets in nodes.
        columns: the columns of tables, by the ``id()`` of their nodes.
    """

    def __init__(self, text: str, columns: Mapping[int, Sequence[str]]) -> None:
        self._text = text
        self._columns = columns
        # None for a name that several have
        self._ctes: dict[str, exp.CTE | None] = {}
        self._references: dict[str, list[list[Condition]]] = {}
        self._aliases: set[str] = set()
        self._predicates: dict[int, list[Predicate]] = {}
        # by the id() of a query
        self._outputs_by_query: dict[int, dict[str, Node | None] | None] = {}

    def run(self, root: Node) -> dict[int, list[Predicate]]:
        """Return the conditions of each table, by the ``id()`` of its node."""
        for alias in root.find_all(exp.TableAlias):
            self._aliases.add(alias.name.lower())
        for table in root.find_all(exp.Table):
            self._aliases.add(table.name.lower())
        for cte in root.find_all(exp.CTE):
            name = cte.alias.lower()
            self._ctes[name] = None if name in self._ctes else cte
            self._references[name] = []
        self._query(root, [])
        return self._predicates

    def _query(self, node: Node, above: Sequence[Condition]) -> None:
        """Process a query and those within it; ``above`` are conditions on its output columns."""
        if isinstance(node, exp.Select):
            self._select(node, above)
        elif isinstance(node, exp.Subquery) and _is_plain_subquery(node):
            self._query(node.this, above)
        else:
            # the branches of a UNION may have other types than it has
            self._nested(node)
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in reversed(with_.expressions):
                self._query(cte.this, self._above(cte))

    def _above(self, cte: exp.CTE) -> list[Condition]:
        """Return the conditions that all references to a common table expression have in common."""
        name = cte.alias.lower()
        references = self._references[name]
        if self._ctes[name] is None or not all(references):
            return []
        written = [
            table
            for table in cte.root().find_all(exp.Table)
            if table.name.lower() == name and table.find_ancestor(exp.Hint) is None
        ]
        # a reference may be missing, as that of a recursive expression to itself
        return [_any_of(references)] if references and len(written) == len(references) else []

    def _select(self, select: exp.Select, above: Sequence[Condition]) -> None:
        sources = self._sources(select)
        if sources is None or any(
            key not in _SUPPORTED_CLAUSES for key, value in select.args.items() if value
        ):
            self._nested(select)
            return
        own: list[list[Condition]] = [[] for _ in sources]
        where = select.args.get("where")
        conditions = [Condition(part) for part in _conjuncts(where.this)] if where is not None else []
        conditions += [inner for item in above if (inner := self._inner(select, item)) is not None]
        for item in conditions:
            self._share(item, sources, own, len(sources) - 1)
        for number, source in enumerate(sources):
            on = None if source.join is None else source.join.args.get("on")
            for part in () if on is None else _conjuncts(on):
                self._share_on(part, sources, own, number)
        handled = set()
        for source, conditions_of_source in zip(sources, own, strict=True):
            node = source.node
            if isinstance(node, exp.Subquery):
                handled.add(id(node))
                self._query(node, conditions_of_source)
            elif isinstance(node, exp.Table) and self._cte(node) is not None:
                # each on its own: combined with others, one that is TRUE of nulls would go unnoticed
                certain = [
                    Condition(item.node) for item in conditions_of_source if self._predicate(item) is not None
                ]
                self._references[node.name.lower()].append(certain)
            elif isinstance(node, exp.Table) and source.columns is not None:
                self._predicates[id(node)] = [
                    p for item in conditions_of_source if (p := self._predicate(item)) is not None
                ]
        self._nested(select, handled)

    def _nested(self, node: Node, handled: set[int] | frozenset[int] = frozenset()) -> None:
        """Process the other queries within a node, without conditions from outside."""
        stack = [node]
        while stack:
            for child in stack.pop().iter_expressions():
                if isinstance(child, exp.Query):
                    if id(child) not in handled:
                        self._query(child, [])
                elif not isinstance(child, exp.With):
                    stack.append(child)

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
        if isinstance(alias, exp.TableAlias) and alias.columns:
            pass
        elif isinstance(node, exp.Table) and is_plain_table(node) and not node.args.get("joins"):
            cte = self._cte(node)
            names = self._columns.get(id(node))
            if names is not None:
                columns = {name.lower(): name for name in names}
            elif cte is not None and not cte.args["alias"].columns:
                columns = _names(self._outputs(cte.this))
        elif isinstance(node, exp.Subquery) and _is_plain_subquery(node):
            columns = _names(self._outputs(node.this))
        return Source(str(node.alias_or_name).lower(), node, columns, join)

    def _cte(self, node: exp.Table) -> exp.CTE | None:
        """Return the common table expression that a name refers to, if that is certain."""
        cte = self._ctes.get(node.name.lower()) if len(node.parts) == 1 else None
        if cte is None or cte.args["alias"].this.meta.get("start", 0) > node.this.meta.get("start", 0):
            return None
        # within its own definition the name is that of a table
        return None if any(parent is cte for parent in _ancestors(node)) else cte

    def _outputs(self, node: Node) -> dict[str, Node | None] | None:
        """Return the plain columns of a SELECT by their lower-case names; None stands for any other value."""
        if id(node) not in self._outputs_by_query:
            self._outputs_by_query[id(node)] = self._outputs_of(node)
        return self._outputs_by_query[id(node)]

    def _outputs_of(self, node: Node) -> dict[str, Node | None] | None:
        if isinstance(node, exp.Subquery) and _is_plain_subquery(node):
            return self._outputs(node.this)
        if not isinstance(node, exp.Select):
            return None
        pairs: list[tuple[str, Node | None]] = []
        for item in node.expressions:
            if type(item) is exp.Star and not any(item.args.values()):
                sources = None if node.args.get("laterals") else self._star_sources(node)
                if sources is None:
                    return None
                pairs += [
                    (name, exp.column(exp.to_identifier(real, quoted=True)))
                    for columns in sources
                    for name, real in columns.items()
                ]
                continue
            if item.is_star:
                return None
            inner = item.this if isinstance(item, exp.Alias) else item
            plain = inner if isinstance(inner, exp.Column | exp.Dot) else None
            pairs.append((str(item.alias_or_name).lower(), plain))
        times = Counter(name for name, _ in pairs)
        return {name: inner for name, inner in pairs if name and times[name] == 1}

    def _star_sources(self, select: exp.Select) -> list[Mapping[str, str]] | None:
        sources = self._sources(select)
        if sources is None or any(
            source.columns is None
            or _join_of(source)[1]
            or (source.join is not None and (source.join.args.get("using") or source.join.args.get("method")))
            for source in sources
        ):
            return None
        return [source.columns for source in sources if source.columns is not None]

    # From conditions to sources

    def _share(
        self, item: Condition, sources: Sequence[Source], own: Sequence[list[Condition]], last: int
    ) -> None:
        """Give a condition on the join of the sources up to ``last`` to each of them that it concerns."""
        for number in range(last + 1):
            side, kind = _join_of(sources[number])
            if kind in ("SEMI", "ANTI") or _is_unknown(side, kind):
                continue
            part = self._implied(item.node, sources, number, last)
            if part is not None:
                strict = item.strict or _may_be_nulls(sources, number, last)
                own[number].append(Condition(part, strict))

    def _share_on(
        self, node: Node, sources: Sequence[Source], own: Sequence[list[Condition]], number: int
    ) -> None:
        """Give a part of a join's own condition to the sources that it concerns."""
        side, kind = _join_of(sources[number])
        if _is_unknown(side, kind) or side == "FULL":
            return
        here = range(number, number + 1)
        before = range(number)
        if side == "LEFT" and kind != "SEMI":
            takes = here
        elif side == "RIGHT":
            takes = before
        elif kind == "ANTI":
            takes = here
        else:
            takes = range(number + 1)
        for at in takes:
            if at < number and _join_of(sources[at])[1] in ("SEMI", "ANTI"):
                continue
            part = self._implied(node, sources, at, number)
            if part is not None:
                own[at].append(Condition(part, at < number and _may_be_nulls(sources, at, number - 1)))

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
        copy: Any = fold_intervals(node.copy())
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
        parts: Any = column.parts if isinstance(column, exp.Column | exp.Dot) else []
        if not parts or not all(isinstance(part, exp.Identifier) and part.name for part in parts):
            return None
        names = [part.name for part in parts]
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

    def _inner(self, select: exp.Select, item: Condition) -> Condition | None:
        """Turn a condition on the output of a SELECT into one on its sources; return None if they are not equal."""
        if any(key not in _PUSHDOWN_CLAUSES for key, value in select.args.items() if value):
            return None
        distinct, group = select.args.get("distinct"), select.args.get("group")
        if distinct is not None and distinct.args.get("on"):
            return None
        if any(part.find(exp.Window) for part in select.expressions):
            return None
        if group is not None and any(key != "expressions" for key, value in group.args.items() if value):
            return None
        outputs = self._outputs(select) or {}
        copy = item.node.copy()
        for column in list(copy.find_all(exp.Column)):
            inner = outputs.get(column.name.lower())
            if inner is None or (group is not None and inner not in group.expressions):
                return None
            if column is copy:
                copy = inner.copy()
            else:
                column.replace(inner.copy())
        return Condition(copy, item.strict)

    def _predicate(self, item: Condition) -> Predicate | None:
        predicate = to_predicate(cast("Any", item.node), self._text)
        return None if item.strict and of_nulls(predicate) is True else predicate


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


def _any_of(references: Sequence[Sequence[Condition]]) -> Condition:
    """Return the condition that holds for all rows which at least one of several references needs."""
    sides = [exp.and_(*(item.node for item in some)) for some in references]
    return Condition(exp.or_(*sides))


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


def _ancestors(node: Node) -> Iterator[Node]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _is_plain_subquery(node: exp.Subquery) -> bool:
    return all(key in ("this", "alias", "with_") for key, value in node.args.items() if value)


def _names(outputs: Mapping[str, Node | None] | None) -> dict[str, str] | None:
    return None if outputs is None else {name: name for name in outputs}


def fold_intervals(node: Node) -> Node:
    """Compute dates plus or minus intervals in a condition.

    Source: Spark SQL reference, "Datetime operators": a month that is too short ends the sum on its last day.
    """

    def fold(part: Node) -> Node:
        if not isinstance(part, exp.Add | exp.Sub):
            return part
        date, interval = _literal_date(part.this.unnest()), part.expression.unnest()
        if date is None or not isinstance(interval, exp.Interval):
            return part
        shifted = _shift_date(date, interval, -1 if isinstance(part, exp.Sub) else 1)
        return part if shifted is None else exp.cast(exp.Literal.string(shifted.isoformat()), "date")

    # from the inside out: a sum of a date and two intervals is one date
    for part in reversed(list(node.walk())):
        if isinstance(part, exp.Add | exp.Sub) and part is not node:
            part.replace(fold(part))
    return fold(node)


def _literal_date(node: Node) -> datetime.date | None:
    if (
        not isinstance(node, exp.Cast)
        or not node.to.is_type("date")
        or not isinstance(node.this, exp.Literal)
    ):
        return None
    date = parse_date(node.this.name) if node.this.is_string else None
    return date if isinstance(date, datetime.date) else None


def _shift_date(date: datetime.date, interval: exp.Interval, sign: int) -> datetime.date | None:
    unit, amount = interval.args.get("unit"), interval.this
    if not isinstance(unit, exp.Var) or not isinstance(amount, exp.Literal) or not amount.name.isdecimal():
        return None
    word = unit.name.upper().removesuffix("S")
    try:
        number = sign * int(amount.name)
        if word in _DAYS_PER_UNIT:
            return date + datetime.timedelta(days=number * _DAYS_PER_UNIT[word])
        if word not in _MONTHS_PER_UNIT:
            return None
        months = date.year * 12 + date.month - 1 + number * _MONTHS_PER_UNIT[word]
        first = datetime.date(months // 12, months % 12 + 1, 1)
        length = (datetime.date(first.year + first.month // 12, first.month % 12 + 1, 1) - first).days
        return first.replace(day=min(date.day, length))
    except (ValueError, OverflowError):
        return None
