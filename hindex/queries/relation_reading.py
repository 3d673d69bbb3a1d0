"""How one relation of a plan is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hindex.plan.filter import columns as filter_columns
from hindex.plan.filter import leaves
from hindex.plan.reasons import Note
from hindex.queries.decisions import TableDecision
from hindex.scan.planning import ScanPlan
from hindex.spark.catalyst import Attribute, Relation
from hindex.spark.scan import RowScan
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyarrow as pa

    from hindex.scan.task_runner import Unit


@value_class
class RelationReading:
    """How one relation of a plan is read.

    Attributes:
        columns: the columns that the plan uses.
        scan: the scan through the indexes, if it is read by one; ``plan`` belongs to it.
        units: the stripes with matching rows, if all indexes were read.
        notes: indexes that could not be used.
        rows: the rows, if they are read already.
        aggregate_node: the number of the ``Aggregate`` above it, if its indexes answer that alone; ``rows`` are the
            result then, and ``columns`` its columns.
    """

    relation: Relation
    decision: TableDecision
    columns: tuple[Attribute, ...] = ()
    scan: RowScan | None = None
    plan: ScanPlan | None = None
    units: list[Unit] | None = None
    notes: tuple[Note, ...] = ()
    rows: pa.Table | None = None
    aggregate_node: int | None = None

    @property
    def is_accelerated(self) -> bool:
        """Return True if it is read through indexes."""
        return self.scan is not None or self.aggregate_node is not None

    @property
    def indexes(self) -> list[str]:
        """The names of the indexes through which it is read."""
        return [] if self.plan is None else used_indexes(self.plan)


def used_indexes(plan: ScanPlan) -> list[str]:
    """Return the names of the indexes that a plan of a scan uses."""
    names = [use.name for task in plan.tasks for use in task.indexes]
    names += [groups.name for task in plan.tasks for groups in task.candidates]
    if not names and plan.skipped:
        # the manifest rules out all files, so there are no tasks
        filtered = {name.lower() for name in filter_columns(plan.filter)}
        filtered.update(leaf.column.lower() for leaf in leaves(plan.filter))
        names = [index.name for index in plan.snapshot.manifest.indexes if index.column.lower() in filtered]
    return sorted(set(names))
