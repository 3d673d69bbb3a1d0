"""The partitions of a table in Spark's catalog: which there are, and where they are.

A partition's place has to be asked for: that there are files in the directory of its name does not tell whose they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from hindex.spark.catalog import place_of, run
from hindex.spark.session import java_session
from hindex.table.elsewhere import CatalogPartitions, PartitionPlace
from hindex.table.listing import join_uri, normalize_uri
from hindex.table.partitions import NULL_PARTITION, unescape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The catalog of a session that its Java side can be asked for.
SESSION_CATALOG = "spark_catalog"
#: Statements about partitions that run at once: each is mostly waiting for the catalog.
_LOOKUPS = 8

#: The values of a partition: pairs of a column's name in lower case and the value.
_Values = frozenset[tuple[str, str]]


def catalog_partitions(spark: SparkSession, name: str, described: Mapping[str, Any]) -> CatalogPartitions:
    """The partitions of a table.

    :param name: as SQL has it, with dots and backquotes.
    :param described: what the catalog says of the table.
    :raises TableError: if Spark cannot tell.
    """
    root = place_of(str(described["location"]))
    directories = sorted({str(row["partition"]) for row in run(spark, name, f"SHOW PARTITIONS {name}")})
    here, elsewhere = set(), []
    for directory, place in zip(directories, _places(spark, name, described, directories), strict=True):
        if place == normalize_uri(join_uri(root, directory)):
            here.add(directory)
        else:
            elsewhere.append(PartitionPlace(directory, place))
    return CatalogPartitions(frozenset(here), tuple(elsewhere))


def _decoded(uri: str) -> str:
    """A URI of Java as a path, or as a URI in which nothing is encoded."""
    parts = urlsplit(uri)
    scheme = "" if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}"
    return scheme + unquote(parts.path)


def _places(
    spark: SparkSession, name: str, described: Mapping[str, Any], directories: Sequence[str]
) -> list[str]:
    """Where the catalog has each partition, normalised."""
    listed = _listed_places(spark, described)
    known = {directory: listed.get(_values(directory)) for directory in directories}
    asked = [directory for directory, place in known.items() if place is None]
    if asked:
        with ThreadPoolExecutor(min(len(asked), _LOOKUPS)) as pool:
            known.update(zip(asked, pool.map(lambda one: _location(spark, name, one), asked), strict=True))
    return [place_of(str(place)) for place in known.values()]


def _listed_places(spark: SparkSession, described: Mapping[str, Any]) -> dict[_Values, str]:
    """Where the partitions are, by their values: one call of the Java side.

    Empty where that cannot be asked: over Spark Connect, of other catalogs, and by a Spark whose inner parts differ.
    """
    session = java_session(spark)
    if session is None or described.get("catalog_name") != SESSION_CATALOG:
        return {}
    # which a client of Spark Connect need not have
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    java: Any = spark._jvm
    option = java.scala.Option
    try:
        table = java.org.apache.spark.sql.catalyst.TableIdentifier(
            described["table_name"], option.apply(described["schema_name"])
        )
        found = session.sessionState().catalog().listPartitions(table, option.empty())
        # as one text, because each object of Java that is asked for anything is a round trip
        mapper = java.com.fasterxml.jackson.databind.ObjectMapper()
        mapper.registerModule(java.com.fasterxml.jackson.module.scala.DefaultScalaModule())
        text = mapper.writeValueAsString(found)
    except (Py4JError, PySparkException):
        # whatever it was, statements about each partition have the answer, or the error
        return {}
    return {
        frozenset((column.lower(), value or NULL_PARTITION) for column, value in item["spec"].items()): place
        for item in json.loads(text)
        if (place := _decoded(item["storage"]["locationUri"] or ""))
    }


def _values(directory: str) -> _Values:
    """The values that the directories of a partition tell."""
    columns = (part.partition("=") for part in directory.split("/"))
    return frozenset((unescape(column).lower(), unescape(value)) for column, _, value in columns)


def _location(spark: SparkSession, name: str, directory: str) -> str:
    """Where the catalog has a partition, as it describes it."""
    is_escaped = str(spark.conf.get("spark.sql.parser.escapedStringLiterals", "false")).lower() == "true"
    columns = (part.partition("=") for part in directory.split("/"))
    values = ", ".join(
        f"{_name(unescape(column))} = {_literal(value, is_escaped)}" for column, _, value in columns
    )
    rows = run(spark, name, f"DESCRIBE TABLE EXTENDED {name} PARTITION ({values}) AS JSON")
    return str(json.loads(rows[0][0])["location"])


def _name(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _literal(value: str, is_escaped: bool) -> str:
    """:param is_escaped: whether a backslash in a string of SQL is just that."""
    if value == NULL_PARTITION:
        return "NULL"
    text = unescape(value)
    if is_escaped:
        # neighboring strings are one
        return "'" + text.replace("'", "' \"'\" '") + "'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
