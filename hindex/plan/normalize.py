"""From a predicate as written to a filter: names resolved, literals typed, NOT gone, in normal form."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Protocol

from hindex.domain import Domain
from hindex.errors import PredicateError
from hindex.orc.types import Kind, OrcType
from hindex.plan.filter import ALWAYS, NEVER, Filter
from hindex.plan.like import like_domain
from hindex.plan.literals import comparison_domain, membership_domain
from hindex.plan.rules import all_of, any_of, leaf
from hindex.sql.predicate import (
    And,
    BooleanColumn,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    In,
    IsNull,
    Like,
    LiteralKind,
    Not,
    Or,
    Predicate,
)

#: Lists with more literals than this are abbreviated in texts.
_LITERALS_SHOWN = 8
_TEXT_LIMIT = 200

#: NOT over a comparison of values that are not NULL. `<=>` has no opposite operator: it is complemented.
_OPPOSITES = {
    ComparisonOp.EQ: ComparisonOp.NE,
    ComparisonOp.NE: ComparisonOp.EQ,
    ComparisonOp.LT: ComparisonOp.GE,
    ComparisonOp.GE: ComparisonOp.LT,
    ComparisonOp.GT: ComparisonOp.LE,
    ComparisonOp.LE: ComparisonOp.GT,
}

Atom = Comparison | In | IsNull | Constant | BooleanColumn | Like


class Resolved(Protocol):
    """A column that a name stands for: its name as the table spells it, and its type."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> OrcType: ...


class SchemaLookup(Protocol):
    """What normalizing needs of a table's schema; :class:`hindex.table.schema.TableSchema` is one."""

    def resolve(self, name: Sequence[str], /) -> Resolved:
        """The column that the parts of a name stand for.

        :raises ColumnError: if there is none, or more than one.
        """
        ...


def normalize(predicate: Predicate, schema: SchemaLookup, zone: datetime.tzinfo = datetime.UTC) -> Filter:
    """The filter that keeps the rows for which a predicate is TRUE.

    NOT is pushed down to the leaves, where three-valued logic ends: a leaf's domain has exactly the values
    for which its part of the predicate, negated or not, is TRUE. Does not recurse, so depth is no limit.

    :param zone: the session's time zone; it matters for columns of type timestamp with local time zone only.
    :raises ColumnError: if a column cannot be resolved.
    :raises PredicateError: if Spark refuses a comparison, or ranges of values cannot answer it.
    """
    # one frame for each open AND or OR: whether it is an AND once negation is applied, its children, and
    # whether they are negated; done holds the filters of those that were visited
    frames: list[tuple[bool, Sequence[Predicate], bool, list[Filter]]] = []
    node, negated = predicate, False
    while True:
        while isinstance(node, Not):
            node, negated = node.child, not negated
        if isinstance(node, And | Or):
            frames.append((isinstance(node, And) is not negated, node.children, negated, []))
            node = node.children[0]
            continue
        value = _leaf(node, negated, schema, zone)
        while frames:
            is_and, children, negated, done = frames[-1]
            done.append(value)
            if len(done) < len(children):
                node = children[len(done)]
                break
            frames.pop()
            value = all_of(done) if is_and else any_of(done)
        else:
            return value


def _leaf(node: Atom, negated: bool, schema: SchemaLookup, zone: datetime.tzinfo) -> Filter:
    if isinstance(node, Constant):
        return ALWAYS if node.value is not None and node.value is not negated else NEVER
    column = schema.resolve(node.column.parts)
    try:
        domain = _domain(node, column.type, negated, zone)
    except PredicateError as error:
        raise PredicateError(f"cannot evaluate {_text(node, negated)}: {error}") from None
    return leaf(column.name, column.type, domain, _text(node, negated))


def _domain(
    node: Comparison | In | IsNull | BooleanColumn | Like, of: OrcType, negated: bool, zone: datetime.tzinfo
) -> Domain:
    match node:
        case IsNull():
            return Domain.not_null() if negated else Domain.only_null()
        case BooleanColumn():
            if of.kind is not Kind.BOOLEAN:
                raise PredicateError(f"a column of type {of} is not a condition; compare it with a value")
            return Domain.points([0 if negated else 1])
        case Comparison(ComparisonOp.NULL_SAFE_EQ, _, literal):
            equal = comparison_domain(of, ComparisonOp.NULL_SAFE_EQ, literal, zone)
            return equal.complement(null_allowed=not equal.null_allowed) if negated else equal
        case Comparison(op, _, literal):
            return comparison_domain(of, _OPPOSITES[op] if negated else op, literal, zone)
        case In(_, literals):
            members = membership_domain(of, literals, zone)
            if not negated:
                return members
            if any(literal.kind is LiteralKind.NULL for literal in literals):
                return Domain.none()
            return members.complement(null_allowed=False)
        case Like(_, pattern, escape):
            if of.kind not in (Kind.STRING, Kind.VARCHAR):
                raise PredicateError(f"LIKE is for columns of strings, not of type {of}")
            matching = like_domain(pattern, escape)
            return matching.complement(null_allowed=False) if negated else matching


def _text(node: Atom, negated: bool) -> str:
    match node:
        case Comparison(op, column, literal) if negated and op in _OPPOSITES:
            text = str(Comparison(_OPPOSITES[op], column, literal))
        case In(column, literals) if len(literals) > _LITERALS_SHOWN:
            text = _long_list(column, node, negated)
        case _:
            text = str(Not(node) if negated else node)
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"


def _long_list(column: ColumnRef, node: In, negated: bool) -> str:
    shown = ", ".join(map(str, node.literals[:_LITERALS_SHOWN]))
    word = "NOT IN" if negated else "IN"
    return f"{column} {word} ({shown}, … {len(node.literals) - _LITERALS_SHOWN:,} more)"
