"""Convert a predicate as written to a filter in normal form: resolve names, type literals, remove NOT."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeAlias

from hindex.domain import Domain
from hindex.errors import ColumnError, HindexError, PredicateError
from hindex.expr.coerce import REMEDY
from hindex.expr.constant_times import with_constant_times
from hindex.expr.nodes import TIMESTAMP
from hindex.expr.typing import Resolve, check_depth, typed_condition
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.column_domains import OPPOSITES, array_domain, column_domain, like_domain
from hindex.plan.few_values import all_on_few_values
from hindex.plan.filter import ALWAYS, NEVER, Filter, Residual
from hindex.plan.filter_evaluation import evaluate_partially
from hindex.plan.index_columns import NO_EXPRESSIONS, IndexedExpressions
from hindex.plan.local_time import instants_domain, local_time_condition, on_instants
from hindex.plan.rules import all_of, build, leaf
from hindex.plan.time_zones import (
    TIMESTAMP_KINDS,
    TimeZones,
    canonical_zone,
    has_time,
    keyed_by_wall_clocks,
    makes_times,
)
from hindex.sql.functions import CLOCK_FUNCTIONS
from hindex.sql.predicate import (
    And,
    Call,
    ColumnRef,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    LiteralArray,
    Not,
    Or,
    Predicate,
    PredicateLeaf,
    TruthValue,
    operands,
    quote_string,
    tested_column,
)
from hindex.sql.predicate import columns as predicate_columns
from hindex.store.manifest import IndexEntry
from hindex.table.schema import TableSchema

#: Lists with more literals than this are abbreviated in messages.
_LITERALS_SHOWN = 8
_TEXT_LIMIT = 200


class Resolved(Protocol):
    """A resolved column: its name as the table spells it, and its type."""

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


def normalize(
    predicate: Predicate,
    schema: SchemaLookup,
    zones: TimeZones | None = None,
    instant: int | None = None,
    expressions: IndexedExpressions = NO_EXPRESSIONS,
) -> Filter:
    """Return the filter that keeps the rows for which a predicate is TRUE.

    NOT is pushed down to the leaves, where three-valued logic ends: a leaf's domain has exactly the values for
    which its part of the predicate, negated or not, is TRUE, and a residual has the truth value that it needs.
    AND, OR and NOT do not recurse, so their depth is not limited.

    Args:
        zones: the query's time zones: with them, timestamps are compared as instants, and leaves have the keys
            that columns store. Without them, wall clocks are compared, and instants with times in UTC.
        instant: the time of `current_timestamp()`, in microseconds since 1970 in UTC; None if a predicate may not
            depend on the time.
        expressions: the expressions with indexes.

    Raises:
        ColumnError: if a column cannot be resolved.
        PredicateError: if Spark refuses a comparison, or it is not evaluated here.
    """
    root = build(
        (predicate, False),
        _group,
        lambda item: _leaf(item, schema, zones, instant, expressions),
        all_on_few_values,
    )
    return root if zones is None else keyed_by_wall_clocks(root, zones)


#: A predicate, and True if it is negated.
_Negatable: TypeAlias = tuple[Predicate, bool]


def _group(item: _Negatable) -> tuple[bool, Sequence[_Negatable]] | None:
    node, negated = _without_not(*item)
    if not isinstance(node, And | Or):
        return None
    return isinstance(node, And) is not negated, [(child, negated) for child in node.children]


def _without_not(node: Predicate, negated: bool) -> _Negatable:
    while isinstance(node, Not):
        node, negated = node.child, not negated
    return node, negated


def _leaf(
    item: _Negatable,
    schema: SchemaLookup,
    zones: TimeZones | None,
    instant: int | None,
    expressions: IndexedExpressions,
) -> Filter:
    node, negated = _without_not(*item)
    assert not isinstance(node, And | Or | Not)
    if isinstance(node, TruthValue):
        return ALWAYS if node.value is not None and node.value is not negated else NEVER
    is_expression = tested_column(node) is None
    if is_expression:
        check_depth(node)
    text = leaf_text(node, negated)
    try:
        if is_expression:
            _check_clock(node, schema)
            node = with_constant_times(node, None if zones is None else zones.clock, instant)
            text = leaf_text(node, negated)
        return _bound(node, negated, schema, zones, text, expressions)
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


def _bound(
    node: PredicateLeaf,
    negated: bool,
    schema: SchemaLookup,
    zones: TimeZones | None,
    text: str,
    expressions: IndexedExpressions,
) -> Filter:
    """Return a leaf if the condition is equivalent to a test of one column or expression, otherwise a residual."""
    tested = tested_column(node)
    column = None if tested is None else schema.resolve(tested.parts)
    is_plain = column is not None and isinstance(node, Comparison | In)
    on_local_time = None if is_plain else _on_local_time(node, negated, schema, zones, text, expressions)
    if on_local_time is not None:
        return on_local_time
    _check_zone(node, schema, zones)
    domain = None if column is None else _untyped_domain(node, column.type, negated)
    if column is not None and domain is not None:
        return leaf(column.name, column.type, domain, text)
    if isinstance(node, Like) and column is not None and column.type.kind in (Kind.STRING, Kind.VARCHAR):
        return _like(node, negated, column, schema, text)
    # Spark reads literals of times as instants if they are compared with a column. Expressions are computed with
    # wall clocks here, which are instants only if the session's time zone is UTC
    has_instants = zones is not None and (is_plain or not zones.is_session_utc)
    clock = datetime.UTC if zones is None else zones.clock
    condition = typed_condition(node, _resolver(schema, has_instants=has_instants), clock)
    answer = column_domain(condition, negated=negated)
    if answer is not None and (is_plain or not has_instants or not has_time(answer[0].column_type)):
        subject, domain = answer
        bound = leaf(subject.name, subject.column_type if column is None else column.type, domain, text)
    else:
        bound = evaluate_partially(Residual(condition, not negated, text))
    return expressions.leaf(node, condition, bound, negated=negated) if expressions else bound


def _on_local_time(
    node: PredicateLeaf,
    negated: bool,
    schema: SchemaLookup,
    zones: TimeZones | None,
    text: str,
    expressions: IndexedExpressions,
) -> Filter | None:
    """Return the filter of a condition on the local time of instants; None for any other condition."""
    types: dict[str, OrcType] = {}
    for ref in predicate_columns(node):
        # fields of elements are not resolved
        with suppress(ColumnError):
            column = schema.resolve(ref.parts)
            types[column.name] = column.type
    kinds = {item.kind for item in types.values()}
    has_instants = Kind.TIMESTAMP_INSTANT in kinds
    if zones is None:
        # not together with wall clocks
        has_instants &= Kind.TIMESTAMP not in kinds
    elif not zones.is_session_utc:
        # hour(n) of a wall clock n computes no time
        has_instants |= Kind.TIMESTAMP in kinds or (Kind.TIMESTAMP_NTZ in kinds and makes_times(node))
    if not has_instants:
        return None
    clock = datetime.UTC if zones is None else zones.clock
    condition = local_time_condition(node, _resolver(schema, has_local_times=True), clock)
    if condition is None:
        return None
    answer = instants_domain(condition, clock, negated=negated)
    if answer is not None:
        return leaf(answer[0].name, types[answer[0].name], answer[1], text)
    evaluated = on_instants(condition, "UTC" if zones is None else canonical_zone(zones.session))
    if evaluated is None:
        return None
    bound = evaluate_partially(Residual(evaluated, not negated, text))
    return expressions.leaf(node, evaluated, bound, negated=negated) if expressions else bound


def _check_clock(node: PredicateLeaf, schema: SchemaLookup) -> None:
    """Check that no column has the name of a clock function: Spark reads ``current_date`` as the column.

    Raises:
        PredicateError: if there is one.
    """
    stack: list[Expression] = [node]
    while stack:
        part = stack.pop()
        stack.extend(operands(part))
        if isinstance(part, Call) and part.name in CLOCK_FUNCTIONS:
            with suppress(ColumnError):
                schema.resolve((part.name,))
                raise PredicateError(
                    f"{part.name} is a function and a column of the table; write a date or a time"
                )


def _like(node: Like, negated: bool, column: Resolved, schema: SchemaLookup, text: str) -> Filter:
    """Return the filter of LIKE on strings: a leaf for the prefix, and a residual if the pattern has more."""
    matching, is_exact = like_domain(node.pattern, node.escape)
    if negated:
        matching = matching.complement(null_allowed=False) if is_exact else Domain.all()
    on_domain = leaf(column.name, column.type, matching, text)
    if is_exact:
        return on_domain
    residual = Residual(typed_condition(node, _resolver(schema)), not negated, text)
    return residual if matching.has_every_value else all_of((on_domain, residual))


def _check_zone(node: PredicateLeaf, schema: SchemaLookup, zones: TimeZones | None) -> None:
    """Refuse conversions of other values to timestamps in a session time zone other than UTC.

    Raises:
        PredicateError: if the leaf has one, and does not compare a timestamp column with literals.
    """
    if zones is None or zones.is_session_utc or not makes_times(node):
        return
    column = tested_column(node) if isinstance(node, Comparison | In) else None
    if column is not None and schema.resolve(column.parts).type.kind in TIMESTAMP_KINDS:
        return
    raise PredicateError(
        f"it makes timestamps in the session's time zone, {zones.session}, which is done here for comparisons of "
        f"timestamp columns, or their days, with literals; {REMEDY}"
    )


def _word_beside_column(node: PredicateLeaf, schema: SchemaLookup) -> str:
    """Return a name beside a column that is no column, perhaps a string without quotes; "" if there is none."""
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


def _untyped_domain(node: PredicateLeaf, data_type: OrcType, negated: bool) -> Domain | None:
    """Return the domain of a test for NULL, or for many literals of the column's type; None for any other leaf."""
    match node:
        case IsNull():
            return Domain.not_null() if negated else Domain.only_null()
        case In(_, LiteralArray() as items):
            members = array_domain(data_type, items)
            if members is None or not negated:
                return members
            return Domain.none() if items.has_null else members.complement(null_allowed=False)
    return None


def _resolver(schema: SchemaLookup, *, has_instants: bool = False, has_local_times: bool = False) -> Resolve:
    """Return a resolver of columns: with all timestamps as instants, or as local times, or as they are."""

    def resolve(parts: tuple[str, ...]) -> tuple[str, OrcType]:
        column = schema.resolve(parts)
        if has_local_times and column.type.kind is Kind.TIMESTAMP_INSTANT:
            return column.name, TIMESTAMP
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
        HindexError: if the recorded predicate does not fit the table any more.
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
