"""From a predicate as written to a filter: names resolved, literals typed, NOT gone, in normal form."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from hindex.domain import Domain
from hindex.errors import ColumnError, PredicateError
from hindex.orc.types import Kind, OrcType
from hindex.plan import simplify
from hindex.plan.filter import ALWAYS, NEVER, Filter, Residual
from hindex.plan.like import like_domain
from hindex.plan.literals import casts_texts, comparison_domain, membership_domain
from hindex.plan.residual.bound import settle
from hindex.plan.residual.typing import Resolve, check_depth, check_filling, typed, typed_condition
from hindex.plan.rules import all_of, any_of, leaf
from hindex.plan.simplify import OPPOSITES
from hindex.sql.predicate import (
    And,
    BooleanColumn,
    BooleanExpression,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    ExpressionComparison,
    ExpressionIn,
    ExpressionLeaf,
    In,
    IsNull,
    Like,
    LiteralKind,
    Not,
    Or,
    Predicate,
    PredicateLeaf,
    operands,
    quote_string,
)

#: Lists with more literals than this are abbreviated in texts.
_LITERALS_SHOWN = 8
_TEXT_LIMIT = 200


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
    for which its part of the predicate, negated or not, is TRUE, and a residual says which truth it needs. AND, OR
    and NOT do not recurse, so their depth is no limit.

    :param zone: the session's time zone; it matters for columns of type timestamp with local time zone only.
    :raises ColumnError: if a column cannot be resolved.
    :raises PredicateError: if Spark refuses a comparison, or it is not evaluated here.
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


def _leaf(node: PredicateLeaf, negated: bool, schema: SchemaLookup, zone: datetime.tzinfo) -> Filter:
    if isinstance(node, Constant):
        return ALWAYS if node.value is not None and node.value is not negated else NEVER
    if not isinstance(node, IsNull | BooleanColumn | Like | Comparison | In):
        check_depth(node)
    text = _text(node, negated)
    try:
        if isinstance(node, Comparison | ExpressionComparison):
            check_filling(node, _resolver(schema))
        match node:
            case IsNull(column) | BooleanColumn(column) | Like(column) | Comparison(_, column) | In(column):
                found = schema.resolve(column.parts)
                domain, is_exact = _domain(node, found.type, negated, zone)
                answered = ALWAYS if domain is None else leaf(found.name, found.type, domain, text)
                return answered if is_exact else all_of((answered, _residual(node, negated, schema, text)))
            case _:
                return _expression(node, negated, schema, text)
    except PredicateError as error:
        raise PredicateError(f"cannot evaluate {text}: {error}") from None
    except ColumnError as error:
        word = _word_beside_column(node, schema)
        if not word or "did you mean" in str(error):
            raise
        remedy = (
            "what is NULL is asked by IS NULL"
            if word == "None"
            else f"a text is written {quote_string(word)}"
        )
        raise ColumnError(f"{error}; {remedy}") from None


def _word_beside_column(node: PredicateLeaf, schema: SchemaLookup) -> str:
    """A word that is no column, beside one: it may be a text that lacks its quotes. "" where there is none."""
    if not isinstance(node, ExpressionComparison | ExpressionIn):
        return ""
    known: list[ColumnRef] = []
    words: list[ColumnRef] = []
    for side in operands(node):
        if isinstance(side, ColumnRef):
            try:
                schema.resolve(side.parts)
            except ColumnError:
                words.append(side)
            else:
                known.append(side)
    return words[0].parts[0] if known and words and len(words[0].parts) == 1 else ""


def _domain(
    node: Comparison | In | IsNull | BooleanColumn | Like, of: OrcType, negated: bool, zone: datetime.tzinfo
) -> tuple[Domain | None, bool]:
    """The values of a column for which a leaf may be TRUE, None for any; and whether it is TRUE for all of them."""
    match node:
        case IsNull():
            return Domain.not_null() if negated else Domain.only_null(), True
        case BooleanColumn():
            if of.kind is not Kind.BOOLEAN:
                raise PredicateError(f"a column of type {of} is not a condition; compare it with a value")
            return Domain.points([0 if negated else 1]), True
        case Comparison(op, _, literal) if not casts_texts(of, (literal,)):
            if negated and op is not ComparisonOp.NULL_SAFE_EQ:
                return comparison_domain(of, OPPOSITES[op], literal, zone), True
            found = comparison_domain(of, op, literal, zone)
            return found.complement(null_allowed=not found.null_allowed) if negated else found, True
        case In(_, literals) if not casts_texts(of, literals):
            members = membership_domain(of, literals, zone)
            if not negated:
                return members, True
            if any(literal.kind is LiteralKind.NULL for literal in literals):
                return Domain.none(), True
            return members.complement(null_allowed=False), True
        case Like(_, pattern, escape) if of.kind in (Kind.STRING, Kind.VARCHAR):
            matching, is_exact = like_domain(pattern, escape)
            if negated:
                return matching.complement(null_allowed=False) if is_exact else None, is_exact
            return matching, is_exact
        case _:
            return None, False


def _expression(node: ExpressionLeaf, negated: bool, schema: SchemaLookup, text: str) -> Filter:
    """A leaf where an expression amounts to one, otherwise a residual."""
    resolve = _resolver(schema)
    found: simplify.Found | None = None
    match node:
        case ExpressionComparison(op, left, right):
            found = simplify.comparison(op, typed(left, resolve), typed(right, resolve), negated=negated)
        case ExpressionIn(value, items):
            found = simplify.membership([typed(item, resolve) for item in (value, *items)], negated=negated)
        case BooleanExpression(value):
            found = simplify.prefix(typed(value, resolve), negated=negated)
        case _:
            pass
    if found is None:
        return _residual(node, negated, schema, text)
    column, domain = found
    return leaf(column.name, column.column_type, domain, text)


def _residual(node: PredicateLeaf, negated: bool, schema: SchemaLookup, text: str) -> Filter:
    return settle(Residual(typed_condition(node, _resolver(schema)), not negated, text))


def _resolver(schema: SchemaLookup) -> Resolve:
    def resolve(parts: tuple[str, ...]) -> tuple[str, OrcType]:
        found = schema.resolve(parts)
        return found.name, found.type

    return resolve


def _text(node: PredicateLeaf, negated: bool) -> str:
    match node:
        case Comparison(op) | ExpressionComparison(op) if negated and op in OPPOSITES:
            text = str(replace(node, op=OPPOSITES[op]))
        case In(column, literals) if len(literals) > _LITERALS_SHOWN:
            text = _long_list(column, node, negated)
        case _:
            text = str(Not(node) if negated else node)
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"


def _long_list(column: ColumnRef, node: In, negated: bool) -> str:
    shown = ", ".join(map(str, node.literals[:_LITERALS_SHOWN]))
    word = "NOT IN" if negated else "IN"
    return f"{column} {word} ({shown}, … {len(node.literals) - _LITERALS_SHOWN:,} more)"
