"""From a predicate as written to a filter: names resolved, literals typed, NOT gone, in normal form."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from hindex.domain import Domain
from hindex.errors import ColumnError, HindexError, PredicateError
from hindex.expr.coerce import REMEDY
from hindex.expr.typing import Resolve, check_depth, check_padding, typed, typed_condition
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan import simplify
from hindex.plan.column_domains import casts_strings, comparison_domain, like_domain, membership_domain
from hindex.plan.filter import ALWAYS, NEVER, Filter, Residual
from hindex.plan.filter_evaluation import evaluate_partially
from hindex.plan.rules import all_of, any_of, leaf
from hindex.plan.simplify import OPPOSITES
from hindex.plan.time_zones import TIMESTAMP_KINDS, TimeZones, has_time, keyed_by_wall_clocks, makes_times
from hindex.sql.predicate import (
    NULL,
    And,
    BooleanValue,
    ColumnRef,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    PredicateLeaf,
    TruthValue,
    literals,
    operands,
    quote_string,
    tested_column,
)
from hindex.store.manifest import IndexEntry
from hindex.table.schema import TableSchema

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
    """The part of a table's schema that normalization needs, such as `hindex.table.schema.TableSchema`."""

    def resolve(self, name: Sequence[str], /) -> Resolved:
        """Return the column of a name.

        Raises:
            ColumnError: if there is none, or more than one.
        """
        ...


def normalize(predicate: Predicate, schema: SchemaLookup, zones: TimeZones | None = None) -> Filter:
    """Return the filter that keeps the rows for which a predicate is TRUE.

    NOT is pushed down to the leaves, where three-valued logic ends: a leaf's domain has exactly the values
    for which its part of the predicate, negated or not, is TRUE, and a residual says which truth it needs. AND, OR
    and NOT do not recurse, so their depth is no limit.

    Args:
        zones: those of the query: with them, timestamps are compared as instants, and leaves on them have the keys that
            columns store. Without them, wall clocks are compared, and instants with times of UTC.

    Raises:
        ColumnError: if a column cannot be resolved.
        PredicateError: if Spark refuses a comparison, or it is not evaluated here.
    """
    root = _normalized(predicate, schema, zones)
    return root if zones is None else keyed_by_wall_clocks(root, zones)


def _normalized(predicate: Predicate, schema: SchemaLookup, zones: TimeZones | None) -> Filter:
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
        value = _leaf(node, negated, schema, zones)
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


def _leaf(node: PredicateLeaf, negated: bool, schema: SchemaLookup, zones: TimeZones | None) -> Filter:
    if isinstance(node, TruthValue):
        return ALWAYS if node.value is not None and node.value is not negated else NEVER
    tested = tested_column(node)
    if tested is None:
        check_depth(node)
    text = leaf_text(node, negated)
    try:
        if isinstance(node, Comparison):
            check_padding(node, _resolver(schema, zones))
        _check_zone(node, schema, zones)
        if tested is None:
            return _expression(node, negated, schema, zones, text)
        column = schema.resolve(tested.parts)
        compared_type = column.type if zones is None else column.type.with_instants()
        clock = datetime.UTC if zones is None else zones.clock
        domain, is_exact = _domain(node, compared_type, negated, clock)
        on_domain = ALWAYS if domain is None else leaf(column.name, column.type, domain, text)
        return on_domain if is_exact else all_of((on_domain, _residual(node, negated, schema, zones, text)))
    except PredicateError as error:
        raise PredicateError(f"cannot evaluate {text}: {error}") from None
    except ColumnError as error:
        word = _word_beside_column(node, schema)
        if not word or "did you mean" in str(error):
            raise
        remedy = (
            "use IS NULL to match NULL"
            if word == "None"
            else f"string literals need quotes: {quote_string(word)}"
        )
        raise ColumnError(f"{error}; {remedy}") from None


def _check_zone(node: PredicateLeaf, schema: SchemaLookup, zones: TimeZones | None) -> None:
    """Refuse what makes timestamps of other values by the session's clock, unless that is UTC's.

    Raises:
        PredicateError: if the leaf does, and is no comparison of a timestamp column with literals.
    """
    if zones is None or zones.is_session_utc or not makes_times(node):
        return
    column = tested_column(node) if isinstance(node, Comparison | In) else None
    if column is not None and schema.resolve(column.parts).type.kind in TIMESTAMP_KINDS:
        return
    raise PredicateError(
        f"it makes timestamps in the session's time zone, {zones.session}, which is done here for comparisons of "
        f"timestamp columns with literals only; {REMEDY}"
    )


def _word_beside_column(node: PredicateLeaf, schema: SchemaLookup) -> str:
    """Return a word beside a column that is not one itself: perhaps a string without quotes. "" if there is none."""
    if not isinstance(node, Comparison | In):
        return ""
    columns: list[ColumnRef] = []
    words: list[ColumnRef] = []
    for side in operands(node):
        if isinstance(side, ColumnRef):
            try:
                schema.resolve(side.parts)
            except ColumnError:
                words.append(side)
            else:
                columns.append(side)
    return words[0].parts[0] if columns and words and len(words[0].parts) == 1 else ""


def _domain(
    node: PredicateLeaf, data_type: OrcType, negated: bool, zone: datetime.tzinfo
) -> tuple[Domain | None, bool]:
    """Return the domain of a leaf that tests a column, None for every value; and True if it is exact.

    The leaf is TRUE for no other values, and if exact, for all of them.
    """
    operands = literals(node)
    match node:
        case IsNull():
            return Domain.not_null() if negated else Domain.only_null(), True
        case BooleanValue():
            if data_type.kind is not Kind.BOOLEAN:
                raise PredicateError(
                    f"a column of type {data_type} is not a condition; compare it with a value"
                )
            return Domain.points([0 if negated else 1]), True
        case Comparison(op) if not casts_strings(data_type, operands):
            (literal,) = operands
            if negated and op is not ComparisonOp.NULL_SAFE_EQ:
                return comparison_domain(data_type, OPPOSITES[op], literal, zone), True
            domain = comparison_domain(data_type, op, literal, zone)
            return domain.complement(null_allowed=not domain.null_allowed) if negated else domain, True
        case In() if not casts_strings(data_type, operands):
            members = membership_domain(data_type, operands, zone)
            if not negated:
                return members, True
            if NULL in operands:
                return Domain.none(), True
            return members.complement(null_allowed=False), True
        case Like(_, pattern, escape) if data_type.kind in (Kind.STRING, Kind.VARCHAR):
            matching, is_exact = like_domain(pattern, escape)
            if negated:
                return matching.complement(null_allowed=False) if is_exact else None, is_exact
            return matching, is_exact
        case _:
            return None, False


def _expression(
    node: PredicateLeaf, negated: bool, schema: SchemaLookup, zones: TimeZones | None, text: str
) -> Filter:
    """Return a leaf if an expression is equivalent to a test of one column, otherwise a residual."""
    resolve = _resolver(schema, zones)
    equivalent: simplify.ColumnDomain | None = None
    match node:
        case Comparison(op, left, right):
            equivalent = simplify.comparison(op, typed(left, resolve), typed(right, resolve), negated=negated)
        case In(value, items):
            equivalent = simplify.membership(
                [typed(item, resolve) for item in (value, *items)], negated=negated
            )
        case BooleanValue(value):
            equivalent = simplify.prefix(typed(value, resolve), negated=negated)
        case _:
            pass
    if equivalent is None:
        return _residual(node, negated, schema, zones, text)
    column, domain = equivalent
    if zones is not None and not zones.is_session_utc and has_time(column.column_type):
        # the type is not that of the stored keys
        return _residual(node, negated, schema, zones, text)
    return leaf(column.name, column.column_type, domain, text)


def _residual(
    node: PredicateLeaf, negated: bool, schema: SchemaLookup, zones: TimeZones | None, text: str
) -> Filter:
    return evaluate_partially(Residual(typed_condition(node, _resolver(schema, zones)), not negated, text))


def _resolver(schema: SchemaLookup, zones: TimeZones | None) -> Resolve:
    # where the session's clock is that of UTC, instants are computed with as its readings
    has_instants = zones is not None and not zones.is_session_utc

    def resolve(parts: tuple[str, ...]) -> tuple[str, OrcType]:
        column = schema.resolve(parts)
        return column.name, column.type.with_instants() if has_instants else column.type

    return resolve


def leaf_text(node: PredicateLeaf, negated: bool) -> str:
    """Return the SQL of a leaf, or of its negation, with long lists abbreviated."""
    match node:
        case Comparison(op) if negated and op in OPPOSITES:
            text = str(replace(node, op=OPPOSITES[op]))
        case In(value, items) if len(items) > _LITERALS_SHOWN:
            shown = ", ".join(map(str, items[:_LITERALS_SHOWN]))
            word = "NOT IN" if negated else "IN"
            text = f"{value} {word} ({shown}, … {len(items) - _LITERALS_SHOWN:,} more)"
        case _:
            text = str(Not(node) if negated else node)
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"


def index_filter(entry: IndexEntry, schema: TableSchema) -> Filter:
    """Return the filter on partition columns of an index that covers only some partitions.

    Raises:
        HindexError: if the recorded predicate no longer fits the table.
    """
    if entry.where is None:
        return ALWAYS
    from hindex.sql import parse_predicate

    try:
        return normalize(parse_predicate(entry.where), schema)
    except HindexError as error:
        raise HindexError(
            f"Index {entry.name!r} covers {entry.where!r}, which does not fit the table any more ({error}): drop "
            "the index"
        ) from error
