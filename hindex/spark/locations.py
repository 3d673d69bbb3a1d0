"""Locations of the files that tables, views and DataFrames of Spark read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hindex.errors import TableError
from hindex.spark.catalog import describe_for_query, location_uri
from hindex.spark.partitions import catalog_partitions
from hindex.spark.session import java_session
from hindex.table.listing import list_data_files
from hindex.table.location import normalize_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Leaves of Spark's plans that read no files.
_WITHOUT_FILES = frozenset(
    {"LocalRelation", "LogicalRDD", "ExternalRDD", "OneRowRelation", "Range", "CTERelationRef"}
)


def view_transactional_location(spark: SparkSession, name: str) -> str | None:
    """Return the location of a transactional table that a view reads, or None.

    Spark Connect does not expose the plan of a view: the result is None there.

    :param name: name of the view, in SQL.
    """
    from pyspark.errors import PySparkException

    try:
        return transactional_location(spark, spark.table(name))
    except PySparkException:
        return None  # running the query raises the same error


def transactional_location(
    spark: SparkSession, frame: DataFrame, checked: Collection[str | None] = ()
) -> str | None:
    """Return the location of a transactional table that a DataFrame reads, or None.

    :param checked: locations of tables that need no check.
    """
    if java_session(spark) is None:
        return None
    for location in dict.fromkeys(_orc_locations(frame._jdf.queryExecution().analyzed())):
        uri = location_uri(location)
        try:
            if uri in checked:
                continue
            if list_data_files(uri).transactional:
                return uri
        except TableError:
            continue  # Spark reports a directory that cannot be listed
    return None


def read_locations(spark: SparkSession, frame: DataFrame) -> set[str] | None:
    """Return the locations of the files that a DataFrame of a classic session reads; None if one is unknown.

    Rows in memory and computed rows have no location.
    """
    locations: set[str] = set()
    for kind, leaf in _leaves(frame._jdf.queryExecution().analyzed()):
        if kind in _WITHOUT_FILES:
            continue
        if kind == "HiveTableRelation":
            table = leaf.tableMeta()
        elif kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            if not leaf.catalogTable().isDefined():
                paths = _each(leaf.relation().location().rootPaths())
                locations |= {location_uri(path.toString()) for path in paths}
                continue
            table = leaf.catalogTable().get()
        else:
            return None
        name = table.identifier().quotedString()
        uris = table_locations(spark, name, describe_for_query(spark, name))
        if uris is None:
            return None
        locations |= uris
    return locations


def table_locations(spark: SparkSession, name: str, description: Mapping[str, Any]) -> set[str] | None:
    """Return the location of a table and those of its external partitions; None if it has no location.

    :param name: name in SQL, with dots and backquotes.
    :param description: the catalog's description of the table.
    """
    location = description.get("location")
    if not location or str(description.get("type", "")).upper() == "VIEW":
        return None
    locations = {location_uri(str(location))}
    if description.get("partition_columns"):
        partitions = catalog_partitions(spark, name, description)
        locations |= {normalize_uri(partition.uri) for partition in partitions.elsewhere}
    return locations


def _orc_locations(plan: Any) -> Iterator[str]:  # noqa: ANN401 a Java object
    """Yield the locations of the ORC files that a plan of Spark reads."""
    for kind, leaf in _leaves(plan):
        if kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            relation = leaf.relation()
            if "Orc" in relation.fileFormat().getClass().getSimpleName():
                yield from (path.toString() for path in _each(relation.location().rootPaths()))
        elif kind == "HiveTableRelation":
            table = leaf.tableMeta()
            if "orc" in table.storage().serde().toString().lower():
                yield table.location().toString()


def _leaves(plan: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 a Java object
    """Yield the leaves of a plan of Spark and of its subqueries, each with the name of its class."""
    for part in [plan, *_each(plan.subqueriesAll())]:
        for leaf in _each(part.collectLeaves()):
            yield leaf.getClass().getSimpleName(), leaf


def _each(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 a Seq of Scala
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
