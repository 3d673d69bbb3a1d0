"""What a view of Spark's catalog reads, so that a view of what Spark cannot read by itself is not taken for rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from hindex.errors import TableError
from hindex.spark.catalog import place_of
from hindex.spark.session import java_session
from hindex.table.listing import list_data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transactional_place(spark: SparkSession, name: str) -> str | None:
    """Where a transactional table lies that a view reads; None where none is known.

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


def _orc_locations(plan: Any) -> Iterator[str]:  # noqa: ANN401 an object of Java
    """The places of ORC files that a plan of Spark reads."""
    for part in [plan, *_each(plan.subqueriesAll())]:
        for leaf in _each(part.collectLeaves()):
            kind = leaf.getClass().getSimpleName()
            if kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
                relation = leaf.relation()
                if "Orc" in relation.fileFormat().getClass().getSimpleName():
                    yield from (path.toString() for path in _each(relation.location().rootPaths()))
            elif kind == "HiveTableRelation":
                table = leaf.tableMeta()
                if "orc" in table.storage().serde().toString().lower():
                    yield table.location().toString()


def _each(found: Any) -> Iterator[Any]:  # noqa: ANN401 a Seq of Scala
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
