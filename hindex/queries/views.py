"""Find the tables below a view of Spark's catalog, to detect tables that Spark cannot read itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hindex.errors import TableError
from hindex.spark.catalog import describe_for_query, place_of
from hindex.spark.partitions import catalog_partitions
from hindex.spark.session import java_session
from hindex.table.listing import list_data_files, normalize_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Leaves of Spark's plans that read no files.
_WITHOUT_FILES = frozenset(
    {"LocalRelation", "LogicalRDD", "ExternalRDD", "OneRowRelation", "Range", "CTERelationRef"}
)


def transactional_place(spark: SparkSession, name: str) -> str | None:
    """Return the location of a transactional table that a view reads, or None.

    Spark is asked what the view comes down to; over Spark Connect it cannot be.

    :param name: of the view, as SQL has it.
    """
    from pyspark.errors import PySparkException

    try:
        return place_in_frame(spark, spark.table(name))
    except PySparkException:
        return None  # the query is about to say so


def place_in_frame(spark: SparkSession, frame: DataFrame, known: Collection[str | None] = ()) -> str | None:
    """The same of what a frame reads.

    :param known: tables that were looked at.
    """
    if java_session(spark) is None:
        return None
    for location in dict.fromkeys(_orc_locations(frame._jdf.queryExecution().analyzed())):
        uri = place_of(location)
        try:
            if uri in known:
                continue
            if list_data_files(uri).transactional:
                return uri
        except TableError:
            continue  # Spark tells of what cannot be listed
    return None


def read_locations(spark: SparkSession, frame: DataFrame) -> set[str] | None:
    """Return the places of the files that a frame of a classic session reads; None where they are not certain.

    Rows that are in memory, or that a program computes, have none.
    """
    places: set[str] = set()
    for kind, leaf in _leaves(frame._jdf.queryExecution().analyzed()):
        if kind in _WITHOUT_FILES:
            continue
        if kind == "HiveTableRelation":
            table = leaf.tableMeta()
        elif kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            if not leaf.catalogTable().isDefined():
                paths = _each(leaf.relation().location().rootPaths())
                places |= {place_of(path.toString()) for path in paths}
                continue
            table = leaf.catalogTable().get()
        else:
            return None
        name = table.identifier().quotedString()
        known = table_locations(spark, name, describe_for_query(spark, name))
        if known is None:
            return None
        places |= known
    return places


def table_locations(spark: SparkSession, name: str, described: Mapping[str, Any]) -> set[str] | None:
    """Return the places of a table's files: its own, and those of partitions elsewhere; None where it has none.

    :param name: as SQL has it, with dots and backquotes.
    :param described: the catalog's description of the table.
    """
    location = described.get("location")
    if not location or str(described.get("type", "")).upper() == "VIEW":
        return None
    places = {place_of(str(location))}
    if described.get("partition_columns"):
        partitions = catalog_partitions(spark, name, described)
        places |= {normalize_uri(partition.uri) for partition in partitions.elsewhere}
    return places


def _orc_locations(plan: Any) -> Iterator[str]:  # noqa: ANN401 an object of Java
    """The places of ORC files that a plan of Spark reads."""
    for kind, leaf in _leaves(plan):
        if kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            relation = leaf.relation()
            if "Orc" in relation.fileFormat().getClass().getSimpleName():
                yield from (path.toString() for path in _each(relation.location().rootPaths()))
        elif kind == "HiveTableRelation":
            table = leaf.tableMeta()
            if "orc" in table.storage().serde().toString().lower():
                yield table.location().toString()


def _leaves(plan: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 an object of Java
    """The leaves of a plan of Spark and of its subqueries, each with the name of its class."""
    for part in [plan, *_each(plan.subqueriesAll())]:
        for leaf in _each(part.collectLeaves()):
            yield leaf.getClass().getSimpleName(), leaf


def _each(found: Any) -> Iterator[Any]:  # noqa: ANN401 a Seq of Scala
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
