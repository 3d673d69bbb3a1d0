"""Locations of the files that tables, partitions, views and DataFrames of Spark read.

The catalog has a location for each partition: the directory of a partition's name may hold files of something else.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from hindex.errors import TableError
from hindex.spark.catalog import call_session_catalog, location_uri, run
from hindex.spark.session import java_session
from hindex.spark.types import quoted
from hindex.table.listing import list_data_files
from hindex.table.location import is_local, join_uri, normalize_uri
from hindex.table.partitions import NULL_PARTITION, CatalogPartitions, PartitionLocation, unescape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Special characters of path patterns in Spark.
_GLOB = re.compile(r"[\[\]{}*?\\]")


def escape_glob(path: str) -> str:
    """Escape the special characters of path patterns in Spark."""
    return _GLOB.sub(r"\\\g<0>", path)


def spark_path(uri: str) -> str:
    """Return a normalised location as Spark reads it, whatever its default file system is: no pattern, and absolute."""
    return escape_glob(f"file:{uri}" if is_local(uri) else uri)


def path_difference(spark: SparkSession, path: str, uri: str) -> str | None:
    """Return how Spark takes a path in a query otherwise than hindex, or None.

    To Spark it may be a pattern, or relative to the directory of its own process, or in another file system. Spark also
    resolves ``..`` without regard to links.

    Args:
        path: as the query has it.
        uri: the normalised location that hindex reads.
    """
    if _GLOB.search(path):
        return f"the path {path!r} is a pattern to Spark"
    session = java_session(spark)
    if session is None:
        is_absolute = not is_local(path) or PurePosixPath(path.removeprefix("file:")).is_absolute()
        return None if is_absolute else f"the path {path!r} is relative to the directory of Spark's server"
    # a client of Spark Connect may lack py4j
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        java_path = getattr(spark._jvm, "org.apache.hadoop.fs.Path")(path)
        file_system = java_path.getFileSystem(session.sessionState().newHadoopConf())
        resolved = str(file_system.makeQualified(java_path).toString())
    except (Py4JError, PySparkException):
        return None  # Spark cannot read it either
    return None if location_uri(resolved) == uri else f"the path {path!r} is {resolved!r} to Spark"


def view_transactional_location(spark: SparkSession, name: str) -> str | None:
    """Return the location of a transactional table that a view reads, or None.

    Spark Connect does not expose the plan of a view: the result is None there.

    Args:
        name: name of the view, in SQL.
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

    Args:
        checked: locations of tables that need no check.
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


#: Number of concurrent statements about partitions: each is mostly waiting for the catalog.
_LOOKUPS = 8

#: The values of a partition: pairs of a column's name in lower case and the value.
_Values = frozenset[tuple[str, str]]


def catalog_partitions(spark: SparkSession, name: str, description: Mapping[str, Any]) -> CatalogPartitions:
    """Return the partitions of a table in the catalog.

    Args:
        name: name in SQL, with dots and backquotes.
        description: the catalog's description of the table.

    Raises:
        TableError: if Spark cannot list them.
    """
    root = location_uri(str(description["location"]))
    listing = call_session_catalog(spark, description, partial(_list_partitions, spark))
    if listing is None:
        rows = run(spark, name, f"SHOW PARTITIONS {name}").collect()
        listing = [str(row["partition"]) for row in rows], {}
    directories = sorted(set(listing[0]))
    here, elsewhere = set(), []
    for directory, uri in zip(
        directories, _partition_uris(spark, name, directories, listing[1]), strict=True
    ):
        if uri == normalize_uri(join_uri(root, directory)):
            here.add(directory)
        else:
            elsewhere.append(PartitionLocation(directory, uri))
    return CatalogPartitions(frozenset(here), tuple(elsewhere))


def _decode_uri(uri: str) -> str:
    """Return a percent-encoded URI of Java as a local path, or as a URI without encoding."""
    parts = urlsplit(uri)
    scheme = "" if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}"
    return scheme + unquote(parts.path)


def _partition_uris(
    spark: SparkSession, name: str, directories: Sequence[str], listed: Mapping[_Values, str]
) -> list[str]:
    """Return the normalized location of each partition in the catalog.

    Args:
        listed: locations by partition values; partitions that it lacks are looked up one by one.
    """
    locations = {directory: listed.get(_partition_values(directory)) for directory in directories}
    missing = [directory for directory, location in locations.items() if location is None]
    if missing:
        with ThreadPoolExecutor(min(len(missing), _LOOKUPS)) as pool:
            described = pool.map(lambda directory: _describe_location(spark, name, directory), missing)
            locations.update(zip(missing, described, strict=True))
    return [location_uri(str(location)) for location in locations.values()]


def _list_partitions(
    spark: SparkSession,
    catalog: Any,  # noqa: ANN401
    table: Any,  # noqa: ANN401
) -> tuple[list[str], dict[_Values, str]]:
    """List the partitions of a table: the names of their directories, and their locations by their values.

    Args:
        catalog: the Java catalog of the session; ``table`` is the table's Java identifier.
    """
    java: Any = spark._jvm
    no_filter = getattr(java, "scala.Option").empty()
    # one string, because each call of a Java object is a round trip
    names = str(catalog.listPartitionNames(table, no_filter).mkString("\n"))
    mapper = getattr(java, "com.fasterxml.jackson.databind.ObjectMapper")()
    mapper.registerModule(getattr(java, "com.fasterxml.jackson.module.scala.DefaultScalaModule")())
    # through a file: the end of a response of more than 8 KB waits 40 ms for a delayed acknowledgement
    with tempfile.NamedTemporaryFile("rb", suffix=".json") as file:
        mapper.writeValue(getattr(java, "java.io.File")(file.name), catalog.listPartitions(table, no_filter))
        partitions = json.load(file)
    return names.split("\n") if names else [], {
        frozenset(
            (column.lower(), value or NULL_PARTITION) for column, value in item["spec"].items()
        ): location
        for item in partitions
        if (location := _decode_uri(item["storage"]["locationUri"] or ""))
    }


def _partition_values(directory: str) -> _Values:
    """Return the partition values in the names of a directory."""
    columns = (part.partition("=") for part in directory.split("/"))
    return frozenset((unescape(column).lower(), unescape(value)) for column, _, value in columns)


def _describe_location(spark: SparkSession, name: str, directory: str) -> str:
    """Return the location of a partition from its description in the catalog."""
    is_escaped = str(spark.conf.get("spark.sql.parser.escapedStringLiterals", "false")).lower() == "true"
    columns = (part.partition("=") for part in directory.split("/"))
    values = ", ".join(
        f"{quoted(unescape(column))} = {_literal(value, is_escaped)}" for column, _, value in columns
    )
    rows = run(spark, name, f"DESCRIBE TABLE EXTENDED {name} PARTITION ({values}) AS JSON").collect()
    return str(json.loads(rows[0][0])["location"])


def _literal(value: str, is_escaped: bool) -> str:
    """Return a partition value as a SQL literal.

    Args:
        is_escaped: True if the session reads a backslash in a string literal as itself.
    """
    if value == NULL_PARTITION:
        return "NULL"
    text = unescape(value)
    if is_escaped:
        # Spark concatenates adjacent literals
        return "'" + text.replace("'", "' \"'\" '") + "'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
