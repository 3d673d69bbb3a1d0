"""``spark.read.format("hindex")``: a Python data source over tables with indexes.

Spark makes and asks it in Python processes that have no session: what it needs of one is told when it is enabled.

Source: Apache Spark, "Python Data Source API".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.api.predicate_input import parse_condition
from hindex.errors import StatementError, TableError, UnsupportedError
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.io.source import one_line
from hindex.plan.time_zones import TimeZones
from hindex.scan.planning import ScanPlan, output_columns, plan_nothing, plan_scan
from hindex.spark.session import as_active, session_time_zones
from hindex.spark.tasks import UnitGroup, cores, group_units, read_group
from hindex.spark.types import quoted, spark_ddl
from hindex.spark.workers import check_workers
from hindex.store.snapshot import Snapshot, take_snapshot
from hindex.store.store import Store
from hindex.table.location import normalize_uri
from hindex.table.partitions import CatalogPartitions
from hindex.table.schema import ColumnName, DeclaredSchema, TableSchema, column_names
from hindex.table.transactional import AcidOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

NAME = "hindex"
_OPTIONS = ("path", "table", "columns", "where", "store", "valid_write_ids")


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of the catalog, as it was when the source was enabled.

    :ivar partitions: those that the catalog had; None where it has none.
    :ivar declared: the catalog's schema.
    """

    uri: str
    partitions: CatalogPartitions | None = None
    declared: DeclaredSchema | None = None


def enable(spark: SparkSession, tables: Sequence[str] = (), store: str | None = None) -> None:
    """Make ``spark.read.format("hindex")`` known to a session.

    :param tables: names of the catalog that the option ``table`` may have: they are looked up now, and reads have
        the partitions of now, at the places of now.
    :param store: where indexes are if a read has no option ``store``; beside each table if None.
    :raises TableError: if the catalog has no table of ORC files of a name, or says other than its files do.
    :raises MissingRuntimeError: if the session's Python workers cannot run hindex.
    """
    from hindex.api.connection import connect

    check_workers(spark)
    places: dict[str, NamedTable] = {}
    for name in tables:
        snapshot = connect(store, spark).table(name).snapshot()
        # which files there are is seen at each read
        places[name.lower()] = NamedTable(snapshot.listing.uri, snapshot.listing.catalog, snapshot.declared)
    place = None if store is None else normalize_uri(store)
    # Spark looks for the name in the active session, and takes one that it finds there for another source's
    with as_active(spark):
        spark.dataSource.register(_source_class(places, place, session_time_zones(spark), cores(spark)))


class SourceTable:
    """The table that a read names, and what it wants of it.

    :param options: those of the read, with names in lower case.
    :param zones: the time zones of the session that enabled the source.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        places: Mapping[str, NamedTable],
        store: str | None,
        zones: TimeZones,
    ) -> None:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise StatementError(f"unknown option {unknown[0]!r}; there are {', '.join(map(repr, _OPTIONS))}")
        named = [options[key] for key in ("path", "table") if options.get(key)]
        if len(named) != 1:
            raise StatementError("a read names one table: load(path), or option('table', name)")
        known = places.get(named[0].lower()) if "table" in options else None
        if known is None and "table" in options and "/" not in named[0]:
            raise TableError(
                f"Table {named[0]!r} is not known here: name it in hindex.enable(spark, tables=[{named[0]!r}])"
            )
        self.uri = normalize_uri(named[0]) if known is None else known.uri
        self._partitions = None if known is None else known.partitions
        self._declared = None if known is None else known.declared
        self.store = options.get("store") or store
        self.columns = _names(options.get("columns"))
        self.where = parse_condition(options.get("where"))
        seen = options.get("valid_write_ids")
        self._acid = AcidOptions(ValidWriteIds.parse(seen)) if seen else AcidOptions()
        self.zones = zones

    def snapshot(self) -> Snapshot:
        """The table as it is now."""
        store = Store.for_table(self.uri, self.store)
        return take_snapshot(
            self.uri, store, options=self._acid, partitions=self._partitions, declared=self._declared
        )

    def ddl(self) -> str:
        """The schema of a read, with the types that Spark's own reader gives.

        :raises ColumnError: if a column, of the condition too, cannot be resolved.
        :raises PredicateError: if the condition cannot be typed or answered.
        """
        columns = plan_nothing(self.snapshot(), self.where, self.columns, zones=lambda: self.zones).columns
        names = [column.name for column in columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise StatementError(
                f"option 'columns' names {twice!r} twice: a frame of Spark's sources has it once"
            )
        return ", ".join(
            f"{quoted(column.name)} {spark_ddl(column.type, wall_clock='timestamp_ltz')}"
            for column in columns
        )


class SourceScan:
    """The rows that the options of a read ask for, in parts.

    Filters of queries are left to Spark, which keeps a reader for all queries of a frame, with the filters that the
    last one to push any pushed: a reader that took them would lack rows in a query that has others, or none.
    """

    def __init__(self, table: SourceTable, wanted: Sequence[str]) -> None:
        self._table = table
        self._wanted = tuple(wanted)

    def groups(self, cores: int) -> list[UnitGroup]:
        """Return the scan tasks of each Spark task."""
        return group_units(self.plan(), cores)

    def plan(self) -> ScanPlan:
        snapshot = self._table.snapshot()
        names = self._names(snapshot.schema)
        return plan_scan(snapshot, self._table.where, names, zones=lambda: self._table.zones)

    def _names(self, schema: TableSchema) -> list[ColumnName]:
        """Return the columns that Spark needs, as the read named them; without a column list, whole columns."""
        listed = self._table.columns
        if listed is None:
            return [(name,) for name in self._wanted]
        told = {
            column.name: name for column, name in zip(output_columns(schema, listed), listed, strict=True)
        }
        return [told.get(name, name) for name in self._wanted]


def read_batches(group: UnitGroup, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a group in the schema that Spark asks for: what an executor runs."""
    for batch in read_group(group):
        arrays = [_cast(array, field) for array, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    """Values in the type of the frame, which is another one where files came later, or who reads gave a schema.

    :raises TableError: if one does not fit, or clocks were to be instants: by which zone, nobody said.
    """
    try:
        if _zoned(array.type) == _zoned(field.type):
            return array.cast(field.type)
        why = "timestamps with a zone and without are not the same"
    except pa.ArrowException as error:
        why = one_line(error)
    raise TableError(
        f"column {field.name!r} is {array.type} in the files and {field.type} in the frame: {why}; load it again, and "
        "without a schema"
    )


def _zoned(data_type: pa.DataType) -> list[bool]:
    """Of each timestamp in a type, whether it is an instant; nothing where it has none."""
    if pa.types.is_timestamp(data_type):
        return [data_type.tz is not None]
    return [zoned for at in range(data_type.num_fields) for zoned in _zoned(data_type.field(at).type)]


def _source_class(
    places: Mapping[str, NamedTable], store: str | None, zones: TimeZones, parallelism: int
) -> type[DataSource]:
    """The class that Spark is told of; it travels by value, so nothing has to be installed for Spark to find it."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, scan: SourceScan, schema: StructType) -> None:
            self._scan = scan
            self._schema = schema

        def partitions(self) -> Sequence[InputPartition]:
            # of no parts, Spark would make one that has no value
            groups = self._scan.groups(parallelism) or [()]
            return [InputPartition(group) for group in groups]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from pyspark.sql.pandas.types import to_arrow_schema

            return read_batches(partition.value, to_arrow_schema(self._schema, timezone="UTC"))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def _table(self) -> SourceTable:
            return SourceTable(
                {key.lower(): value for key, value in self.options.items()}, places, store, zones
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
    """Column names, separated by commas, or as a JSON list where they have any; there, a list is a field's path.

    :raises StatementError: if there is no such list.
    :raises ColumnError: if something in it is no name.
    """
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise StatementError(f"option 'columns' is not a JSON list: {error}") from error
        names = column_names(found, "option 'columns'")
    else:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise StatementError("option 'columns' names none: leave it out to read all")
    return names
