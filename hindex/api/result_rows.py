"""The rows of a result, read on demand, with aggregates by the names of its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hindex.aggregate.aggregation import ResultColumn
from hindex.aggregate.groups import Groups, group_values, groups_from_values, row_counts, sort_groups
from hindex.aggregate.top_n import SortKey, sorted_rows
from hindex.api.scan import Scan
from hindex.api.value_formatting import format_values
from hindex.errors import ColumnError
from hindex.keys import key_kind
from hindex.plan.order import Order
from hindex.plan.time_zones import ZonesOf
from hindex.sql.predicate import quote_name
from hindex.table.schema import ColumnName, column_name, spelled
from hindex.validation import suggestion
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.explanations.explanation import Explanation
    from hindex.maintain.verification import ProveReport
    from hindex.queries.decisions import QueryExplanation
    from hindex.scan.planning import ScanPlan


class ResultRows(Protocol):
    """The rows of a result; `hindex.api.query_result.QueryResult` documents the methods."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def proof(self) -> ProveReport | None: ...

    def to_arrow(self) -> pa.Table: ...

    def to_reader(self) -> pa.RecordBatchReader: ...

    def head(self, rows: int) -> pa.Table: ...

    def preview(self, rows: int) -> tuple[pa.Table, str]:
        """Read the first rows for display, with a remark about them."""
        ...

    def count(self, column: ColumnName | None = None) -> int: ...

    def exists(self) -> bool: ...

    def min(self, column: ColumnName) -> Any: ...  # noqa: ANN401 a value of the column's type

    def max(self, column: ColumnName) -> Any: ...  # noqa: ANN401 a value of the column's type

    def count_distinct(self, column: ColumnName) -> int: ...

    def distinct(self, column: ColumnName) -> pa.Array: ...

    def value_counts(self, columns: Sequence[ColumnName]) -> pa.Table: ...

    def order_by(self, orders: Sequence[Order]) -> ResultRows: ...

    def explain(self, *, analyze: bool = False) -> Explanation | QueryExplanation: ...

    def to_spark(self, spark: SparkSession) -> DataFrame: ...


def find_column(names: Sequence[str], column: ColumnName) -> tuple[int, tuple[str, ...]]:
    """Return the position of a column of a result, and the path of a field within it.

    Letter case matters only between columns that differ in nothing else.

    Raises:
        ColumnError: if there is none, or more than one.
    """
    column = column_name(column)
    readings = [(column,), tuple(column.split("."))] if isinstance(column, str) else [column]
    for first, *fields in readings:
        matches = [at for at, name in enumerate(names) if name == first]
        matches = matches or [at for at, name in enumerate(names) if name.lower() == first.lower()]
        if len(matches) > 1:
            raise ColumnError(
                f"Column {first!r} is ambiguous: {len(matches)} columns of the result have the name; give each an "
                "alias in the query"
            )
        if matches:
            return matches[0], tuple(fields)
    available = ", ".join(map(quote_name, names))
    raise ColumnError(
        f"Column {spelled(column)!r} cannot be resolved; {suggestion(spelled(column), names)}the result has {available}"
    )


def python_value(values: pa.Array) -> Any:  # noqa: ANN401 a value of any type
    """Return the first value as a Python object; as a string if Python's type cannot represent it."""
    try:
        return values[0].as_py()
    except (OverflowError, ValueError):
        return format_values(values.slice(0, 1))[0]


class ComputedRows(ABC):
    """Rows that are computed as a whole, such as those of aggregates. Each method computes them again."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[ResultColumn]:
        """The columns, without computing their values."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Compute the rows."""

    @abstractmethod
    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain how the rows are computed."""

    @abstractmethod
    def with_zones(self, zones: ZonesOf) -> ComputedRows:
        """Compute the same rows with timestamps as instants by other time zones."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @property
    def proof(self) -> ProveReport | None:
        return None

    def to_reader(self) -> pa.RecordBatchReader:
        return self.to_arrow().to_reader()

    def head(self, rows: int) -> pa.Table:
        return self.to_arrow().slice(0, rows)

    def preview(self, rows: int) -> tuple[pa.Table, str]:
        return self.head(rows), ""

    def count(self, column: ColumnName | None = None) -> int:
        at = None if column is None else self._position(column)
        rows = self.to_arrow()
        return int(rows.num_rows if at is None else rows.num_rows - rows.column(at).null_count)

    def exists(self) -> bool:
        return bool(self.to_arrow().num_rows)

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        values = self.distinct(column).drop_null()
        return python_value(values) if len(values) else None

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        values = self.distinct(column).drop_null()
        return python_value(values.slice(len(values) - 1)) if len(values) else None

    def count_distinct(self, column: ColumnName) -> int:
        return len(self.distinct(column).drop_null())

    def distinct(self, column: ColumnName) -> pa.Array:
        return self.value_counts([column]).column(0).combine_chunks()

    def value_counts(self, columns: Sequence[ColumnName]) -> pa.Table:
        positions = [self._position(column, with_order=True) for column in columns]
        rows = self.to_arrow()
        types = [self.columns[at].type for at in positions]
        values = [rows.column(at).combine_chunks() for at in positions]
        groups: Groups = sort_groups(groups_from_values(types, values))
        arrays = [
            # the keys of a timestamp do not say whether it is an instant
            group_values(data_type, groups, at).cast(array.type)
            for at, (data_type, array) in enumerate(zip(types, values, strict=True))
        ]
        names = [self.columns[at].name for at in positions]
        return pa.Table.from_arrays([*arrays, row_counts(groups)], schema=_counts_schema(names, arrays))

    def order_by(self, orders: Sequence[Order]) -> SortedRows:
        return SortedRows(self, [(self._position(order.column, with_order=True), order) for order in orders])

    def to_spark(self, spark: SparkSession) -> DataFrame:
        from hindex.api.frame_rows import computed_frame

        return computed_frame(spark, self)

    def _position(self, column: ColumnName, *, with_order: bool = False) -> int:
        """Return the position of a column.

        Raises:
            ColumnError: if there is no such column, or, ``with_order``, its values have no order.
        """
        at, fields = find_column([item.name for item in self.columns], column)
        data_type = self.columns[at].type
        if fields or (with_order and key_kind(data_type) is None):
            raise ColumnError(
                f"Column {spelled(column)!r} is of type {data_type}: select a primitive field of it in the query"
                if not fields or data_type.children
                else f"Column {spelled(column)!r} cannot be resolved: a value of type {data_type} has no fields"
            )
        return at


def _counts_schema(names: Sequence[str], arrays: Sequence[pa.Array]) -> pa.Schema:
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return pa.schema([*fields, pa.field("count", pa.int64(), nullable=False)])


@value_class
class SortedRows(ComputedRows):
    """Computed rows, in the orders of columns at some positions, the first one first."""

    rows: ComputedRows
    orders: Sequence[tuple[int, Order]]

    @property
    def columns(self) -> Sequence[ResultColumn]:
        return self.rows.columns

    def to_arrow(self) -> pa.Table:
        rows = self.rows.to_arrow()
        keys = [SortKey(order, self.columns[at].type, rows.column(at)) for at, order in self.orders]
        return sorted_rows(rows, keys)

    def explain(self, *, analyze: bool = False) -> Explanation:
        return self.rows.explain(analyze=analyze)

    def with_zones(self, zones: ZonesOf) -> SortedRows:
        return replace(self, rows=self.rows.with_zones(zones))


@value_class
class _MaterializedRows(ComputedRows):
    """All rows of a scan, read before they are processed."""

    scan: Scan

    @property
    def columns(self) -> Sequence[ResultColumn]:
        outputs, metadata = self.scan.output_columns(), self.scan.field_metadata()
        return [
            ResultColumn(field, output.type, metadata.get(output.name))
            for field, output in zip(self.scan.schema, outputs, strict=True)
        ]

    def to_arrow(self) -> pa.Table:
        return self.scan.to_arrow()

    def explain(self, *, analyze: bool = False) -> Explanation:
        return self.scan.explain(analyze=analyze)

    def with_zones(self, zones: ZonesOf) -> _MaterializedRows:
        return _MaterializedRows(self.scan.with_zones(zones))


@value_class
class ScanRows:
    """The rows of a scan, with the column names of the result.

    A limit applies first: aggregates are those of the limited rows.
    """

    scan: Scan

    @property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    @property
    def proof(self) -> ProveReport | None:
        return self.scan.proof

    def to_arrow(self) -> pa.Table:
        # not by batches: the scan can be planned again as long as no rows were returned
        return self.scan.to_arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        return self.scan.to_reader()

    def head(self, rows: int) -> pa.Table:
        return self.scan.head(rows)

    def preview(self, rows: int) -> tuple[pa.Table, str]:
        without_proof = self.scan.without_proof()
        return without_proof.head(rows), "" if without_proof is self.scan else "not proved"

    def count(self, column: ColumnName | None = None) -> int:
        if column is None:
            return self.scan.count()
        return (
            self._materialized.count(column) if self.scan.is_limited else self.scan.count(self._path(column))
        )

    def exists(self) -> bool:
        return self.scan.exists()

    def plan(self) -> ScanPlan:
        """Plan the scan against the table as it is now."""
        return self.scan.plan()

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        return (
            self._materialized.min(column)
            if self._needs_rows([column])
            else self.scan.min(self._path(column))
        )

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        return (
            self._materialized.max(column)
            if self._needs_rows([column])
            else self.scan.max(self._path(column))
        )

    def count_distinct(self, column: ColumnName) -> int:
        return (
            self._materialized.count_distinct(column)
            if self._needs_rows([column])
            else self.scan.count_distinct(self._path(column))
        )

    def distinct(self, column: ColumnName) -> pa.Array:
        return (
            self._materialized.distinct(column)
            if self._needs_rows([column])
            else self.scan.distinct(self._path(column))
        )

    def value_counts(self, columns: Sequence[ColumnName]) -> pa.Table:
        if self._needs_rows(columns):
            return self._materialized.value_counts(columns)
        paths = list(map(self._path, columns))
        counts = self.scan.value_counts(*paths)
        names = [self._name(column) for column in columns]
        return counts.rename_columns([*names, "count"])

    def order_by(self, orders: Sequence[Order]) -> ScanRows | SortedRows:
        if self.scan.is_limited:
            return self._materialized.order_by(orders)
        return ScanRows(
            self.scan.sorted_by([replace(order, column=self._path(order.column)) for order in orders])
        )

    def explain(self, *, analyze: bool = False) -> Explanation:
        return self.scan.explain(analyze=analyze)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        return self.scan.to_spark(spark)

    def _needs_rows(self, columns: Sequence[ColumnName]) -> bool:
        """Return True if aggregates of these columns need the rows."""
        return self.scan.is_limited or not all(self.scan.has_keys(self._path(column)) for column in columns)

    @property
    def _materialized(self) -> _MaterializedRows:
        return _MaterializedRows(self.scan)

    def _path(self, column: ColumnName) -> tuple[str, ...]:
        """Return the path in the table of a column of the result."""
        at, fields = find_column(self.schema.names, column)
        selected = self.scan.selected_columns
        source = self.schema.names[at] if selected is None else selected[at]
        return (*((source,) if isinstance(source, str) else source), *fields)

    def _name(self, column: ColumnName) -> str:
        at, fields = find_column(self.schema.names, column)
        return ".".join((self.schema.names[at], *fields))
