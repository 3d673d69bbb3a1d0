"""Aggregates of a relation that its indexes answer alone: the result stands in the place of Spark's ``Aggregate``.

That needs the whole condition, exactly: no filter is left above the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, Item
from hindex.aggregate.stripe_aggregation import is_index_only
from hindex.plan.index_columns import index_column
from hindex.plan.reasons import Reason
from hindex.queries import selectivity
from hindex.queries.decisions import TableDecision
from hindex.queries.relation_reading import RelationReading
from hindex.scan.task_runner import Runner
from hindex.spark.catalyst import Attribute, CatalystExpression, ConditionReader, PlanNode, Relation
from hindex.spark.types import is_same_type, parse_type_json
from hindex.sql.predicate import columns as predicate_columns
from hindex.sql.statements import AggregateFunction

if TYPE_CHECKING:
    from hindex.queries.plan_rewriting import Access, PlanReading
    from hindex.store.manifest import IndexEntry

_FUNCTIONS = {
    "Count": AggregateFunction.COUNT,
    "Min": AggregateFunction.MIN,
    "Max": AggregateFunction.MAX,
}


def answer_aggregate(reading: PlanReading, relation: Relation) -> RelationReading | None:
    """Answer the aggregation directly above a relation; None if indexes alone cannot, or there is none.

    Raises:
        HindexError: if hindex does not compute it.
    """
    access = reading.access(relation)
    parent = reading.plan.nodes[access.top].parent
    node = None if parent is None else reading.plan.nodes[parent]
    if node is None or node.kind != "Aggregate" or reading.unusable_reason(relation) is not None:
        return None
    where, is_exact, reader = reading.condition(relation, access)
    if not is_exact:
        return None
    indexed = _indexed_expressions(reading, relation, access, reader)
    outputs = _outputs(
        relation, node, reader, {identity: entry.column for identity, entry in indexed.items()}
    )
    if outputs is None:
        return None
    items, groups, columns = outputs
    named = {".".join(column.parts) for column in (() if where is None else predicate_columns(where))}
    named |= {".".join(item.column) for item in items if item.column is not None} | {g[0] for g in groups}
    named -= {entry.column for entry in indexed.values()}
    if not {name.lower() for name in named} <= reading.columns_of_indexes(relation):
        return None
    limits = len(columns), reading.rewriter.always
    key = reading.reading_key(relation, where, *limits)
    if selectivity.DECLINED.get(key) is not None or reading.settings_problem is not None:
        return None
    table, snapshot = reading.snapshot(relation)
    grouped = [item for item in relation.attributes if (item.name,) in groups]
    is_small = snapshot.num_rows * max(len(columns), 1) < selectivity.MIN_VALUES
    if snapshot.listing.transactional or (is_small and not reading.rewriter.always):
        selectivity.DECLINED.put(key, selectivity.Declined(Reason.TOO_SMALL))
        return None
    expressions = {entry.column: index_column(entry, snapshot.schema) for entry in indexed.values()}
    inputs = {column.path[0] for item in expressions.values() for column in item.inputs}
    used = [*grouped, *columns, *(item for item in relation.attributes if item.name in inputs)]
    if reading.difference(relation, snapshot, used, where, reader) is not None:
        return None
    runner = Runner()
    aggregation = Aggregation(
        lambda: snapshot, where, items, groups, runner=runner, zones=reading.zones, expressions=expressions
    )
    plan = aggregation.plan()
    for item, column in zip(items, columns, strict=True):
        expression = expressions.get(item.column[0]) if isinstance(item, Group) else None
        if expression is not None and not is_same_type(expression.type, parse_type_json(column.type_json)):
            return None
    part = aggregation.part_of(plan)
    for task, result in runner.run_lookups(plan.tasks):
        if not is_index_only(task, result, part):
            return None
    table.check_against_catalog(snapshot)
    decision = TableDecision(relation.name, None if where is None else str(where))
    return RelationReading(
        relation, decision, columns, plan=plan, rows=aggregation.to_arrow(), aggregate_node=node.number
    )


def _indexed_expressions(
    reading: PlanReading, relation: Relation, access: Access, reader: ConditionReader
) -> dict[int, IndexEntry]:
    """Return the indexes on the expressions that a projection computes, by the ids that stand for these above it."""
    entries = {}
    for identity, item in access.expressions.items():
        expression = reader.indexed_expression(item)
        entry = None if expression is None else reading.index_on(relation, expression)
        if entry is not None:
            entries[identity] = entry
    return entries


def _outputs(
    relation: Relation, node: PlanNode, reader: ConditionReader, expressions: Mapping[int, str]
) -> tuple[tuple[Item, ...], tuple[tuple[str, ...], ...], tuple[Attribute, ...]] | None:
    """Return the items of an ``Aggregate``, its groups, and its columns; None if hindex does not compute one.

    Args:
        expressions: the names of expressions with an index, by their ids.
    """

    def indexed(expression: CatalystExpression) -> tuple[str, ...] | None:
        """Return the name of an expression with an index."""
        name = expressions.get(expression[1]) if expression[0] == "Attribute" else None
        return None if name is None else (name,)

    groups = []
    for expression in node.detail["groups"]:
        column = reader.column(expression)
        parts = indexed(expression) if column is None else column.parts
        if parts is None or len(parts) > 1:
            return None
        groups.append(parts)
    items: list[Item] = []
    columns = []
    for at, item in enumerate(node.detail["items"]):
        expression = item[2] if item[0] == "Alias" else item
        name = indexed(expression)
        if name is None:
            output = _output(relation, expression, reader, f"c{at}")
        else:
            output = Group(name, f"c{at}"), Attribute(-1, f"c{at}", node.detail["types"][at])
        if output is None:
            return None
        if isinstance(output[0], Group) and output[0].column not in groups:
            return None
        items.append(output[0])
        columns.append(output[1])
    if not items or not (groups or all(isinstance(item, Aggregate) for item in items)):
        return None
    return tuple(items), tuple(groups), tuple(columns)


def _output(
    relation: Relation, expression: CatalystExpression, reader: ConditionReader, name: str
) -> tuple[Item, Attribute] | None:
    attributes = {item.name: item for item in relation.attributes}
    column = reader.column(expression)
    if column is not None:
        return None if len(column.parts) > 1 else (Group(column.parts, name), attributes[column.name])
    if expression[0] != "Aggregate":
        return None
    _, function, is_distinct, is_filtered, *args = expression
    if function not in _FUNCTIONS or is_filtered or len(args) != 1:
        return None
    if function == "Count":
        count = Attribute(-1, name, '"long"')
        if args[0][0] == "Literal" and args[0][2] is not None and not is_distinct:
            return Aggregate(AggregateFunction.COUNT, None, name), count
        column = reader.column(args[0])
        if column is None or len(column.parts) > 1:
            return None
        kind = AggregateFunction.COUNT_DISTINCT if is_distinct else AggregateFunction.COUNT
        return Aggregate(kind, column.parts, name), count
    column = reader.column(args[0])
    if column is None or len(column.parts) > 1:
        return None
    return Aggregate(_FUNCTIONS[function], column.parts, name), attributes[column.name]
