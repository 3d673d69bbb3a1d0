"""The partitions of a table in Spark's catalog: which there are, and where they are.

A partition's place has to be asked for: that there are files in the directory of its name does not tell whose they are.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from hindex.spark.catalog import ask_session_catalog, location_uri, run
from hindex.table.location import join_uri, normalize_uri
from hindex.table.partitions import NULL_PARTITION, CatalogPartitions, PartitionLocation, unescape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    root = location_uri(str(described["location"]))
    listed = ask_session_catalog(spark, described, partial(_listed, spark))
    if listed is None:
        shown = run(spark, name, f"SHOW PARTITIONS {name}").collect()
        listed = [str(row["partition"]) for row in shown], {}
    directories = sorted(set(listed[0]))
    here, elsewhere = set(), []
    for directory, place in zip(directories, _places(spark, name, directories, listed[1]), strict=True):
        if place == normalize_uri(join_uri(root, directory)):
            here.add(directory)
        else:
            elsewhere.append(PartitionLocation(directory, place))
    return CatalogPartitions(frozenset(here), tuple(elsewhere))


def _decoded(uri: str) -> str:
    """A URI of Java as a path, or as a URI in which nothing is encoded."""
    parts = urlsplit(uri)
    scheme = "" if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}"
    return scheme + unquote(parts.path)


def _places(
    spark: SparkSession, name: str, directories: Sequence[str], listed: Mapping[_Values, str]
) -> list[str]:
    """Return the normalized location of each partition in the catalog."""
    known = {directory: listed.get(_values(directory)) for directory in directories}
    asked = [directory for directory, place in known.items() if place is None]
    if asked:
        with ThreadPoolExecutor(min(len(asked), _LOOKUPS)) as pool:
            known.update(zip(asked, pool.map(lambda one: _location(spark, name, one), asked), strict=True))
    return [location_uri(str(place)) for place in known.values()]


def _listed(spark: SparkSession, catalog: Any, table: Any) -> tuple[list[str], dict[_Values, str]]:  # noqa: ANN401
    """List the partitions of a table: the names of their directories, and their locations by their values.

    :param catalog: of the session's Java side; ``table`` is the table's identifier there.
    """
    java: Any = spark._jvm
    every = getattr(java, "scala.Option").empty()
    # as one text, because each object of Java that is asked for anything is a round trip
    names = str(catalog.listPartitionNames(table, every).mkString("\n"))
    mapper = getattr(java, "com.fasterxml.jackson.databind.ObjectMapper")()
    mapper.registerModule(getattr(java, "com.fasterxml.jackson.module.scala.DefaultScalaModule")())
    # through a file: the end of an answer of more than 8 KB waits 40 ms for a delayed acknowledgement
    with tempfile.NamedTemporaryFile("rb", suffix=".json") as file:
        mapper.writeValue(getattr(java, "java.io.File")(file.name), catalog.listPartitions(table, every))
        partitions = json.load(file)
    return names.split("\n") if names else [], {
        frozenset((column.lower(), value or NULL_PARTITION) for column, value in item["spec"].items()): place
        for item in partitions
        if (place := _decoded(item["storage"]["locationUri"] or ""))
    }


def _values(directory: str) -> _Values:
    """The values that the directories of a partition tell."""
    columns = (part.partition("=") for part in directory.split("/"))
    return frozenset((unescape(column).lower(), unescape(value)) for column, _, value in columns)


def _location(spark: SparkSession, name: str, directory: str) -> str:
    """Return the location of a partition from its description in the catalog."""
    is_escaped = str(spark.conf.get("spark.sql.parser.escapedStringLiterals", "false")).lower() == "true"
    columns = (part.partition("=") for part in directory.split("/"))
    values = ", ".join(
        f"{_name(unescape(column))} = {_literal(value, is_escaped)}" for column, _, value in columns
    )
    described = run(spark, name, f"DESCRIBE TABLE EXTENDED {name} PARTITION ({values}) AS JSON")
    return str(json.loads(described.collect()[0][0])["location"])


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
