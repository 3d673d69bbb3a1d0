"""``spark.read.format("hindex")``: a Python data source over tables with indexes.

Spark creates and runs it in Python processes without a session: `enable` passes it all that it needs of one.

Source: Apache Spark, "Python Data Source API".
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hindex.api.predicate_input import parse_condition
from hindex.errors import StatementError, TableError, UnsupportedError
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.io.source import one_line
from hindex.plan.time_zones import TimeZones
from hindex.scan.planning import ScanPlan, output_columns, plan_no_files, plan_scan
from hindex.spark.session import as_active, session_time_zones
from hindex.spark.tasks import TaskGroup, cores, group_tasks, read_group
from hindex.spark.types import quoted, spark_ddl
from hindex.spark.workers import check_workers
from hindex.store.snapshot import Snapshot, take_snapshot
from hindex.store.store import Store
from hindex.table.location import normalize_uri
from hindex.table.partitions import CatalogPartitions
from hindex.table.schema import ColumnName, DeclaredSchema, TableSchema, column_names
from hindex.table.transactional import AcidOptions
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

NAME = "hindex"
_OPTIONS = ("path", "table", "columns", "where", "store", "valid_write_ids")


@value_class
class NamedTable:
    """A table of the catalog, as it was when the source was enabled.

    Attributes:
        partitions: the partitions of the catalog; None if it has none.
        declared: the catalog's schema.
    """

    uri: str
    partitions: CatalogPartitions | None = None
    declared: DeclaredSchema | None = None


def enable(spark: SparkSession, tables: Sequence[str] = (), store: str | None = None) -> None:
    """Register ``spark.read.format("hindex")`` in a session.

    Args:
        tables: names of the catalog for the option ``table``: reads see their partitions, and the locations of these,
            as they are now.
        store: the store of the indexes if a read has no option ``store``; beside each table if None.

    Raises:
        TableError: if a name is not a table of ORC files, or the catalog and its files disagree.
        MissingRuntimeError: if the session's Python workers cannot run hindex.
    """
    from hindex.api.connection import connect

    check_workers(spark)
    tables_by_name: dict[str, NamedTable] = {}
    for name in tables:
        snapshot = connect(store, spark).table(name).snapshot()
        # each read lists the files
        tables_by_name[name.lower()] = NamedTable(
            snapshot.listing.uri, snapshot.listing.catalog, snapshot.declared
        )
    default_store = None if store is None else normalize_uri(store)
    # Spark looks the name up in the active session, and rejects one that it finds there as another source's
    with as_active(spark):
        spark.dataSource.register(
            _source_class(tables_by_name, default_store, session_time_zones(spark), cores(spark))
        )


class SourceTable:
    """The table of a read, and the options of the read.

    Args:
        options: those of the read, with names in lower case.
        zones: the time zones of the session that enabled the source.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        tables_by_name: Mapping[str, NamedTable],
        store: str | None,
        zones: TimeZones,
    ) -> None:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise StatementError(f"unknown option {unknown[0]!r}; there are {', '.join(map(repr, _OPTIONS))}")
        references = [options[key] for key in ("path", "table") if options.get(key)]
        if len(references) != 1:
            raise StatementError("a read names one table: load(path), or option('table', name)")
        table = tables_by_name.get(references[0].lower()) if "table" in options else None
        if table is None and "table" in options and "/" not in references[0]:
            raise TableError(
                f"Table {references[0]!r} is not enabled: name it in hindex.enable(spark, tables=[{references[0]!r}])"
            )
        self.uri = normalize_uri(references[0]) if table is None else table.uri
        self._partitions = None if table is None else table.partitions
        self._declared = None if table is None else table.declared
        self.store = options.get("store") or store
        self.columns = _names(options.get("columns"))
        self.where = parse_condition(options.get("where"))
        valid_write_ids = options.get("valid_write_ids")
        self._acid = AcidOptions(ValidWriteIds.parse(valid_write_ids)) if valid_write_ids else AcidOptions()
        self.zones = zones

    def snapshot(self) -> Snapshot:
        """Return the table as it is now."""
        store = Store.for_table(self.uri, self.store)
        return take_snapshot(
            self.uri, store, options=self._acid, partitions=self._partitions, declared=self._declared
        )

    def ddl(self) -> str:
        """Return the schema of a read, with the types that Spark's own reader gives.

        Raises:
            ColumnError: if a column, of the condition too, cannot be resolved.
            PredicateError: if the condition cannot be typed or answered.
        """
        columns = plan_no_files(self.snapshot(), self.where, self.columns, zones=lambda: self.zones).columns
        names = [column.name for column in columns]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise StatementError(
                f"option 'columns' names {duplicate!r} twice: a frame of Spark's sources has it once"
            )
        return ", ".join(
            f"{quoted(column.name)} {spark_ddl(column.type, wall_clock='timestamp_ltz')}"
            for column in columns
        )


class SourceScan:
    """The rows of a read, in parts.

    Spark applies the filters of queries. It keeps one reader for all queries of a frame, with the filters that were
    pushed last: a reader that applied them would lack rows in a query with other filters, or none.
    """

    def __init__(self, table: SourceTable, names: Sequence[str]) -> None:
        self._table = table
        self._wanted = tuple(names)

    def groups(self, cores: int) -> list[TaskGroup]:
        """Return the scan tasks of each Spark task."""
        return group_tasks(self.plan(), cores)

    def plan(self) -> ScanPlan:
        snapshot = self._table.snapshot()
        names = self._names(snapshot.schema)
        return plan_scan(snapshot, self._table.where, names, zones=lambda: self._table.zones)

    def _names(self, schema: TableSchema) -> list[ColumnName]:
        """Return the columns that Spark needs, as the read named them; without a column list, whole columns."""
        selected = self._table.columns
        if selected is None:
            return [(name,) for name in self._wanted]
        selected_by_name = {
            column.name: name for column, name in zip(output_columns(schema, selected), selected, strict=True)
        }
        return [selected_by_name.get(name, name) for name in self._wanted]


def read_batches(group: TaskGroup, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a group on an executor, in the schema that Spark expects."""
    for batch in read_group(group):
        arrays = [_cast(array, field) for array, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    """Cast values to the type of the frame, which differs if files were added later, or the read has a schema.

    Raises:
        TableError: if a value does not fit, or a timestamp without a zone would become an instant.
    """
    try:
        if _zoned(array.type) == _zoned(field.type):
            return array.cast(field.type)
        reason = "timestamps with a zone and without are not the same"
    except pa.ArrowException as error:
        reason = one_line(error)
    raise TableError(
        f"column {field.name!r} is {array.type} in the files and {field.type} in the frame: {reason}; load it again, "
        "without a schema"
    )


def _zoned(data_type: pa.DataType) -> list[bool]:
    """Return for each timestamp in a type if it is an instant."""
    if pa.types.is_timestamp(data_type):
        return [data_type.tz is not None]
    return [zoned for at in range(data_type.num_fields) for zoned in _zoned(data_type.field(at).type)]


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema of the batches that Spark expects."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # before 4.2, PySpark takes no time zone, and its timestamps are in UTC
    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    )
    return to_arrow_schema(schema, **zone)


def _source_class(
    tables_by_name: Mapping[str, NamedTable], store: str | None, zones: TimeZones, parallelism: int
) -> type[DataSource]:
    """Return the class that Spark registers; it is pickled by value, so workers need not import it."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, scan: SourceScan, schema: StructType) -> None:
            self._scan = scan
            self._schema = schema

        def partitions(self) -> Sequence[InputPartition]:
            # Spark would replace no partitions by one without a value
            groups = self._scan.groups(parallelism) or [()]
            return [InputPartition(group) for group in groups]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return read_batches(partition.value, _arrow_schema(self._schema))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def _table(self) -> SourceTable:
            return SourceTable(
                {key.lower(): value for key, value in self.options.items()}, tables_by_name, store, zones
            )

        def schema(self) -> str:
            return self._table().ddl()

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 PySpark's name
            raise UnsupportedError(
                "format('hindex') reads a table as it is, and is no stream: use spark.read.format('hindex'), or "
                "spark.readStream.orc(path) for new files as they come"
            )

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(SourceScan(self._table(), schema.fieldNames()), schema)

    return Source


def _names(text: str | None) -> tuple[ColumnName, ...] | None:
    """Parse column names, separated by commas or as a JSON list, in which a list is the path of a field.

    Raises:
        StatementError: for an invalid or empty list.
        ColumnError: for an item that is not a name.
    """
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text)
        except ValueError as error:
            raise StatementError(f"option 'columns' is not a JSON list: {error}") from error
        names = column_names(items, "option 'columns'")
    else:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise StatementError("option 'columns' names none: leave it out to read all")
    return names
