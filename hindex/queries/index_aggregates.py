"""Aggregates of a relation that its indexes answer alone: the result stands in the place of Spark's ``Aggregate``.

That needs the whole condition, exactly: no filter is left above the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, Item
from hindex.aggregate.stripe_aggregation import is_index_only
from hindex.plan.reasons import Reason
from hindex.queries import selectivity
from hindex.queries.decisions import TableDecision
from hindex.queries.relation_reading import RelationReading
from hindex.scan.task_runner import Runner
from hindex.spark.catalyst import Attribute, CatalystExpression, ConditionReader, PlanNode, Relation
from hindex.sql.predicate import columns as predicate_columns
from hindex.sql.statements import AggregateFunction

if TYPE_CHECKING:
    from hindex.queries.plan_rewriting import PlanReading

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
    outputs = _outputs(relation, node, reader)
    if outputs is None:
        return None
    items, groups, columns = outputs
    named = {".".join(column.parts) for column in (() if where is None else predicate_columns(where))}
    named |= {".".join(item.column) for item in items if item.column is not None} | {g[0] for g in groups}
    if not {name.lower() for name in named} <= reading.columns_of_indexes(relation):
        return None
    limits = len(columns), reading.rewriter.always
    key = selectivity.reading_key(reading.manifest(relation), reading.files(relation), where, *limits)
    if selectivity.DECLINED.get(key) is not None or reading.settings_problem is not None:
        return None
    table, snapshot = reading.snapshot(relation)
    grouped = [item for item in relation.attributes if (item.name,) in groups]
    is_small = snapshot.num_rows * max(len(columns), 1) < selectivity.MIN_VALUES
    if snapshot.listing.transactional or (is_small and not reading.rewriter.always):
        selectivity.DECLINED.put(key, selectivity.Declined(Reason.TOO_SMALL))
        return None
    if reading.difference(relation, snapshot, [*grouped, *columns], where, reader) is not None:
        return None
    runner = Runner()
    aggregation = Aggregation(lambda: snapshot, where, items, groups, runner=runner, zones=reading.zones)
    plan = aggregation.plan()
    part = aggregation.part_of(plan)
    for task, result in runner.run_lookups(plan.tasks):
        if not is_index_only(task, result, part):
            return None
    table.check_against_catalog(snapshot)
    decision = TableDecision(relation.name, None if where is None else str(where))
    return RelationReading(
        relation, decision, columns, plan=plan, rows=aggregation.to_arrow(), aggregate_node=node.number
    )


def _outputs(
    relation: Relation, node: PlanNode, reader: ConditionReader
) -> tuple[tuple[Item, ...], tuple[tuple[str, ...], ...], tuple[Attribute, ...]] | None:
    """Return the items of an ``Aggregate``, its groups, and its columns; None if hindex does not compute one."""
    groups = []
    for expression in node.detail["groups"]:
        column = reader.column(expression)
        if column is None or len(column.parts) > 1:
            return None
        groups.append(column.parts)
    items: list[Item] = []
    columns = []
    for at, expression in enumerate(node.detail["items"]):
        output = _output(
            relation, expression[2] if expression[0] == "Alias" else expression, reader, f"c{at}"
        )
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
