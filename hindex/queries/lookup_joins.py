"""Lookup joins: the few keys of one side of a join select the rows of a large table through its index.

Where a plan compares a column of an indexed table for equality with a column of another part of the plan, and rows of
the table without a partner cannot reach the result, the other part is computed once, by Spark. Its rows stand for it in
the plan, so nothing is computed in vain, and their values are the keys. ``docs/spark-lookup-joins.md`` proves each
rule.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.errors import HindexError
from hindex.lru_cache import LruCache
from hindex.plan.reasons import Reason
from hindex.queries import selectivity
from hindex.queries.decisions import LookupJoin
from hindex.spark.catalyst import (
    CatalystExpression,
    ConditionReader,
    PlanNode,
    Relation,
    conjuncts,
    literal,
)
from hindex.spark.jobs import first_line
from hindex.sql.predicate import (
    ColumnRef,
    In,
    Literal,
    LiteralArray,
    LiteralKind,
    Predicate,
    TruthValue,
    all_of,
    columns,
)
from hindex.value_class import value_class

if TYPE_CHECKING:
    from hindex.queries.plan_rewriting import PlanReading
    from hindex.queries.relation_reading import RelationReading

_LOG = logging.getLogger("hindex.queries")

#: The greatest number of rows of a small side, and so of its keys.
MAX_ROWS = 50_000
#: Bytes, by Spark's statistics, of a side without conditions: most larger ones have all keys that a large table has.
MAX_UNFILTERED_BYTES = 256 << 10
#: Bytes, by Spark's statistics, of a side whose tasks run at once: the driver may get ``MAX_ROWS`` rows of each task.
_MAX_BYTES_AT_ONCE = 128 << 20
#: The number of lookups that are remembered because they did not pay.
_MAX_DECLINED = 256

#: By the kind of a join: the sides (0 or 1) whose rows without a partner cannot reach the result.
_FILTERED_SIDES = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (1,),
    "RightOuter": (0,),
    "LeftSemi": (0, 1),
    "LeftAnti": (1,),
}
#: By the kind of a join: the sides whose rows can be filtered before it by a condition on its result.
_TRANSPARENT_SIDES = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "RightOuter": (1,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
}
#: Nodes that keep or repeat rows as they are, one by one.
_TRANSPARENT = frozenset(
    {"Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "Distinct"}
)
_INTEGER_WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_KEY_TYPES = frozenset({*_INTEGER_WIDTHS, "string", "date"})


@value_class
class _Lookup:
    """A column of a relation that a join restricts to the values of a column of its other side.

    Attributes:
        source: the number of the node of the other side.
        key: the id of its column.
    """

    relation: Relation
    column: tuple[str, ...]
    source: int
    key: int

    @property
    def name(self) -> str:
        """The column's dotted name in lower case."""
        return ".".join(self.column).lower()


def apply_lookup_joins(reading: PlanReading, readings: list[RelationReading]) -> list[RelationReading]:
    """Read relations that no condition of their own narrows by the keys of joins.

    Whatever fails leaves relations as they are read without.
    """
    lookups = {}
    for item in readings:
        # Spark reads so few values in less time than it computes keys
        is_small = item.decision.reason is Reason.TOO_SMALL
        is_read = item.scan is not None and not reading.rewriter.always
        if not (is_small or is_read or item.relation.is_transactional):
            lookups[item.relation.node] = _usable_lookups(reading, item.relation)
    if not any(lookups.values()):
        return readings
    sources = _Sources(reading)
    result = list(readings)
    for at, item in enumerate(readings):
        own = lookups.get(item.relation.node, [])
        if own and not sources.is_replaced(item.relation.node):
            result[at] = _read_by_keys(reading, item, own, sources)
    # relations within a part that was computed are gone
    return [item if not sources.is_replaced(item.relation.node) else sources.reading(item) for item in result]


def _usable_lookups(reading: PlanReading, relation: Relation) -> list[_Lookup]:
    """Return the lookups by columns of a relation that have indexes."""
    try:
        if reading.unusable_reason(relation) is not None:
            return []
        indexed = reading.indexed_columns(relation)
        composites = reading.composites(relation)
        lookups = list(_lookups(reading, relation)) if indexed or composites else []
        compared = {lookup.name for lookup in lookups}
        if composites and lookups:
            where, _, _ = reading.condition(relation, reading.access(relation))
            named = () if where is None else columns(where)
            compared |= {".".join(column.parts).lower() for column in named}
        for names in composites:
            # of several columns, those up to the first one that nothing is compared with
            indexed |= set(takewhile(compared.__contains__, names))
        usable = [lookup for lookup in lookups if lookup.name in indexed]
        return usable if usable and reading.settings_problem is None else []
    except HindexError:
        return []


def _lookups(reading: PlanReading, relation: Relation) -> Iterator[_Lookup]:
    """Yield the lookups of a relation, the nearest join first."""
    plan = reading.plan
    # ids that stand for columns of the relation, or equal one in every row
    paths: dict[int, tuple[str, ...]] = {item.id: (item.name,) for item in relation.attributes}
    below = relation.node
    for node in plan.ancestors(relation.node):
        detail = node.detail
        match node.kind:
            case "Filter" if detail["deterministic"]:
                pass
            case "Project" if detail["deterministic"]:
                paths = _projected(paths, detail["items"])
            case "Join":
                side = node.children.index(below)
                for column, key in _equal_columns(paths, node, plan.nodes[node.children[1 - side]]):
                    if side in _FILTERED_SIDES.get(detail["join"], ()):
                        yield _Lookup(relation, column, node.children[1 - side], key)
                    if detail["join"] in ("Inner", "Cross"):
                        paths.setdefault(key, column)
                if side not in _TRANSPARENT_SIDES.get(detail["join"], ()):
                    return
            case "Aggregate":
                grouped = {identity for group in detail["groups"] for identity in _identity(group)}
                kept = {identity: path for identity, path in paths.items() if identity in grouped}
                paths = _projected(kept, detail["items"])
            case "Union":
                own = plan.nodes[below].output
                paths = {
                    output: paths[identity]
                    for identity, output in zip(own, node.output, strict=True)
                    if identity in paths
                }
            case kind if kind in _TRANSPARENT:
                pass
            case _:
                return
        if not paths:
            return
        below = node.number


def _identity(expression: CatalystExpression) -> Sequence[int]:
    return [expression[1]] if expression[0] == "Attribute" else []


def _projected(
    paths: dict[int, tuple[str, ...]], items: Sequence[CatalystExpression]
) -> dict[int, tuple[str, ...]]:
    """Return what the ids of a projection's items stand for."""
    reader = ConditionReader(paths)
    projected = {}
    for item in items:
        if item[0] == "Attribute" and item[1] in paths:
            projected[item[1]] = paths[item[1]]
        elif item[0] == "Alias":
            column = reader.column(item[2])
            if column is not None:
                projected[item[1]] = column.parts
    return projected


def _equal_columns(
    paths: dict[int, tuple[str, ...]], join: PlanNode, other: PlanNode
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the columns of the relation that a join compares with columns of its other side, and these."""
    reader = ConditionReader(paths)
    for part in conjuncts(join.detail.get("condition", ["Literal", "boolean", "true"])):
        if part[0] != "EqualTo":
            continue
        for own, compared in ((part[1], part[2]), (part[2], part[1])):
            column, key = reader.column(_without_cast(own)), _without_cast(compared)
            if column is not None and key[0] == "Attribute" and key[1] in other.output:
                yield column.parts, key[1]


def _without_cast(expression: CatalystExpression) -> CatalystExpression:
    """Return what a cast to a wider type of numbers casts: it is equal just where the cast value is."""
    if expression[0] != "Cast":
        return expression
    child: CatalystExpression = expression[1]
    own, wider = expression[2:]
    if own in _INTEGER_WIDTHS and _INTEGER_WIDTHS.get(wider, 0) >= _INTEGER_WIDTHS[own]:
        return child
    one, other = _DECIMAL.fullmatch(own), _DECIMAL.fullmatch(wider)
    if one is not None and other is not None:
        (precision, scale), (wider_precision, wider_scale) = map(int, one.groups()), map(int, other.groups())
        if wider_scale >= scale and wider_precision - wider_scale >= precision - scale:
            return child
    return expression


class _Sources:
    """The parts of a plan that give keys; each is computed at most once, and its rows stand for it."""

    def __init__(self, reading: PlanReading) -> None:
        self._reading = reading
        self._rows: dict[int, object | None] = {}
        self._identities: dict[int, str] = {}

    def is_replaced(self, number: int) -> bool:
        """Return True if a node is within a part that was computed."""
        return any(
            rows is not None and number in self._reading.plan.subtree(source)
            for source, rows in self._rows.items()
        )

    def reading(self, item: RelationReading) -> RelationReading:
        """Return the reading of a relation within a part that was computed."""
        decision = replace(item.decision, reason=None, detail="", gives_keys=True)
        return replace(item, decision=decision, scan=None, plan=None)

    def identity(self, source: int) -> str:
        """Return what stands for a part in other plans: its bytes by Spark's statistics, and a hash of the part."""
        if source not in self._identities:
            self._identities[source] = str(self._reading.view.sizeAndHash(source))
        return self._identities[source]

    def size(self, source: int) -> int:
        """Return the number of bytes of a part, by Spark's statistics."""
        return int(self.identity(source).split(" ")[0])

    def keys(self, lookup: _Lookup) -> tuple[Sequence[Literal], str | None]:
        """Return the keys of a lookup, or a reason why there are none."""
        source = lookup.source
        if source not in self._rows:
            reason = self._problem(lookup)
            if reason is not None:
                return (), reason
            reason = DECLINED.get(self.identity(source))
            if reason is not None:
                return (), reason
            self._rows[source] = self._compute(source)
        rows = self._rows[source]
        if rows is None:
            reason = f"more than {MAX_ROWS:,} rows match"
            DECLINED.put(self.identity(source), reason)
            return (), reason
        text = self._reading.view.keys(rows, lookup.key)
        if text is None:
            return (), "its keys are of a type without literals"
        data_type, *values = json.loads(text)
        if data_type not in _KEY_TYPES and _DECIMAL.fullmatch(data_type) is None:
            return (), f"keys of the type {data_type} are not looked up"
        return _literals(data_type, values), None

    def _problem(self, lookup: _Lookup) -> str | None:
        """Return why a part is not computed for keys, or None."""
        plan, source = self._reading.plan, lookup.source
        nodes = [plan.nodes[number] for number in plan.subtree(source)]
        if any(node.detail.get("streaming") for node in nodes):
            return "its rows are a stream's"
        if any(
            part[0] not in ("IsNotNull", "DynamicPruningSubquery")
            for node in nodes
            if node.kind == "Filter"
            for part in conjuncts(node.detail["condition"])
        ) or any(node.kind in ("LocalRelation", "LocalLimit", "GlobalLimit") for node in nodes):
            return None
        if self.size(source) > MAX_UNFILTERED_BYTES:
            return "no condition restricts its rows"
        return None

    def _compute(self, source: int) -> object | None:
        """Run a part of the plan, and put its rows in its place; None if there are too many."""
        view = self._reading.view
        at_once = self.size(source) <= _MAX_BYTES_AT_ONCE
        rows: object | None = view.collect(self._reading.spark._jsparkSession, source, MAX_ROWS, at_once)
        if rows is not None:
            view.replace(source, rows)
            self._reading.has_replacements = True
        return rows


def _literals(data_type: str, values: list[str]) -> Sequence[Literal]:
    """Return keys as literals: as one array where there is one for the type."""
    if data_type in _INTEGER_WIDTHS and values:
        return LiteralArray(LiteralKind.INTEGER, pa.array(sorted(map(int, values)), pa.int64()))
    if data_type == "string" and values:
        return LiteralArray(LiteralKind.STRING, pa.array(sorted(values), pa.large_string()))
    if data_type == "date" and values:
        days = pa.array(sorted(map(int, values)), pa.int32())
        return LiteralArray(LiteralKind.DATE, days.cast(pa.date32()))
    return tuple(item for value in values if (item := literal(data_type, value)) is not None)


def _read_by_keys(
    reading: PlanReading, item: RelationReading, lookups: Sequence[_Lookup], sources: _Sources
) -> RelationReading:
    """Read a relation by the keys of its lookups, those of the smallest sides first, if that leaves few rows."""
    relation, access = item.relation, reading.access(item.relation)
    names = {node.number: node for node in reading.plan.nodes}
    memberships: list[Predicate] = []
    used: list[LookupJoin] = []
    declined: list[LookupJoin] = []
    try:
        where, _, reader = reading.condition(relation, access)
        ordered = sorted(lookups, key=lambda one: sources.size(one.source))
        parts = [f"{lookup.name} {sources.identity(lookup.source)}" for lookup in ordered]
        limits = reading.rewriter.always, len(reading.used_columns(relation, access, where))
        key = reading.reading_key(relation, where, *limits, *parts)
        reason_to_decline = DECLINED.get(key)
        for lookup in ordered:
            name = _source_name(reading, names[lookup.source], lookup.key)
            column = ".".join(lookup.column)
            keys, reason = ((), reason_to_decline) if reason_to_decline else sources.keys(lookup)
            if reason is not None:
                declined.append(LookupJoin(column, name, None, reason))
                continue
            items = keys if isinstance(keys, LiteralArray) else tuple(keys)
            memberships.append(In(ColumnRef(lookup.column), items) if items else TruthValue(False))
            used.append(LookupJoin(column, name, len(keys)))
        if not memberships:
            return replace(item, decision=replace(item.decision, lookups=tuple(declined)))
        own = [] if where is None else [where]
        result = reading.read_rows(
            relation,
            access,
            all_of([*own, *memberships]),
            reader,
            selectivity.LOOKUP_FACTOR * selectivity.MAX_SHARE,
            looks_up=True,
        )
    except HindexError as error:
        return _with_lookups(item, used, str(error))
    except Exception as error:  # noqa: BLE001 Spark reads the table, and runs into the error again if it is real
        _LOG.info("a lookup join failed: %s", first_line(error))
        return _with_lookups(item, used, first_line(error))
    if result.scan is None:
        if result.decision.reason is Reason.NOT_SELECTIVE and not selectivity.has_failures(result.notes):
            DECLINED.put(key, result.decision.because)
        return _with_lookups(item, used, result.decision.because)
    shown = None if where is None else str(where)
    return replace(result, decision=replace(result.decision, predicate=shown, lookups=tuple(used)))


def _with_lookups(item: RelationReading, lookups: Sequence[LookupJoin], reason: str) -> RelationReading:
    declined = tuple(replace(lookup, reason=reason) for lookup in lookups)
    return replace(item, decision=replace(item.decision, lookups=declined))


def _source_name(reading: PlanReading, node: PlanNode, key: int) -> str:
    """Return the name of a key's column: with its table where it is one's."""
    below = reading.plan.subtree(node.number)
    for relation in reading.plan.relations:
        if relation.node in below:
            for attribute in relation.attributes:
                if attribute.id == key:
                    return f"{relation.name}.{attribute.name}"
    return f"the column {node.output.index(key) + 1} of a {node.kind}"


#: Of this process: why computing a part of a plan did not pay. The key is the part's identity if it has too many rows;
#: if its keys leave too many rows of a table, it is `selectivity.reading_key` of that table and the part's identity. A
#: stale entry affects speed only: Spark reads the table.
DECLINED: LruCache[str | bytes, str] = LruCache(_MAX_DECLINED)
