"""Whether Spark's catalog and a table's files say the same of it.

Which partitions there are, and where, is told by the catalog (:mod:`hindex.spark.partitions`); hindex derives columns
and the types of partition values from the files. Where the catalog says otherwise (a string that looks like a number,
a padded CHAR), the files alone would give other rows than Spark does, so such a table is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hindex.errors import NotOrcError, TableError
from hindex.orc.types import STRING_KINDS, Kind, OrcType
from hindex.spark.catalog import run
from hindex.spark.partitions import SESSION_CATALOG, file_difference
from hindex.spark.session import java_session
from hindex.spark.types import spark_ddl
from hindex.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where Spark keeps the type of a CHAR or VARCHAR column.
_LIMITED = "__CHAR_VARCHAR_TYPE_STRING"
#: A CHAR wherever it is in a type, which is not a VARCHAR, nor a field of that name.
_CHAR = re.compile(r"\bchar\(")
_VARCHAR = re.compile(r"\bvarchar\(\d+\)")
#: How strings are compared byte by byte, as all are where nobody says otherwise.
_COLLATE_BINARY = " collate utf8_binary"
#: Types of Spark's own, which ORC has as numbers.
_NOT_ORCS = re.compile(r"timestamp_ntz|interval\b.*")
#: What Spark writes in place of the fields of a long struct.
_CUT_SHORT = re.compile(r"\.\.\. \d+ more fields")


#: Options of a table with which Spark reads other files than those in its directory.
_OF_FILES = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})
#: And those with which it does, or takes columns by their places, where they are true.
_IF_TRUE = frozenset({"recursivefilelookup", "orc.force.positional.evolution"})
#: Where Spark keeps the value of a column for rows of files that do not have it.
_DEFAULT = "EXISTS_DEFAULT"
#: It is a constant there, as Spark writes one.
_NULL = re.compile(r"NULL|CAST\(NULL AS [^()]+\)", re.IGNORECASE)


def check_agreement(spark: SparkSession, name: str, described: Mapping[str, Any], snapshot: Snapshot) -> None:
    """Compare a snapshot with what the catalog says of the table now.

    :param name: as SQL has it, with dots and backquotes.
    :param described: what the catalog said of the table when it was looked up.
    :raises TableError: naming the first difference; a :class:`NotOrcError` if a column is of a type that ORC has not.
    """
    columns = _described(spark, name)
    difference = (
        _option_difference(described)
        or _column_difference(columns, snapshot)
        or _default_difference(spark, name, described, snapshot)
        or _partition_difference(spark, name, snapshot)
        or file_difference(spark, name, snapshot.listing)
    )
    if difference is not None:
        is_orcs = not any(_NOT_ORCS.fullmatch(of) for _, of in columns)
        raise (TableError if is_orcs else NotOrcError)(
            f"Table {name!r} is invalid: {difference}, and rows are read by what the files say; read it with Spark, "
            f"or name its path {snapshot.listing.uri!r} if the files alone are what you want"
        )


def _described(spark: SparkSession, name: str) -> list[tuple[str, str]]:
    """Names and simple types of the catalog's columns, partition columns last.

    They are asked of the catalog, not of ``spark.table``: for that Spark lists the table's files, and keeps the list
    for the queries that follow. The description as JSON does not tell CHAR from STRING.
    """
    found = []
    for row in run(spark, name, f"DESCRIBE TABLE {name}"):
        if not row["col_name"] or row["col_name"].startswith("#"):
            break
        found.append((str(row["col_name"]), str(row["data_type"]).lower()))
    if any(_CUT_SHORT.search(text) for _, text in found):
        # strings of limited length are strings in a schema, and say in their metadata what they are
        return [
            (field.name, str(field.metadata.get(_LIMITED, field.dataType.simpleString())).lower())
            for field in spark.table(name).schema
        ]
    return found


def _option_difference(described: Mapping[str, Any]) -> str | None:
    for option, value in (described.get("storage_properties") or {}).items():
        key = option.lower()
        if key in _OF_FILES or (key in _IF_TRUE and str(value).lower() == "true"):
            return f"Spark reads it with the option {option!r}"
    return None


def _default_difference(
    spark: SparkSession, name: str, described: Mapping[str, Any], snapshot: Snapshot
) -> str | None:
    """A column that some file lacks, and that is not null to Spark in the rows of that file."""
    if snapshot.listing.transactional:
        return None
    wanted = {column.name.lower() for column in snapshot.schema.data_columns}
    # files of one schema share it
    held = {id(view.columns): view.columns for view in snapshot.files}
    lacking = {column for columns in held.values() for column in wanted - {own.lower() for own, _ in columns}}
    if not lacking:
        return None
    for field in _catalog_fields(spark, name, described):
        default = field.get("metadata", {}).get(_DEFAULT)
        if field["name"].lower() in lacking and default is not None and not _NULL.fullmatch(default):
            return f"column {field['name']!r} has a default in the catalog, and some of the files lack it"
    return None


def _catalog_fields(spark: SparkSession, name: str, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns of a table with their metadata.

    With a session in this process the catalog alone is asked, as ``spark.table`` would have Spark list the files.
    """
    session = java_session(spark)
    if session is not None and described.get("catalog_name") == SESSION_CATALOG:
        # which a client of Spark Connect need not have
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        java: Any = spark._jvm
        try:
            table = java.org.apache.spark.sql.catalyst.TableIdentifier(
                described["table_name"], java.scala.Option.apply(described["schema_name"])
            )
            told = session.sessionState().catalog().getTableMetadata(table).schema().json()
            fields: list[dict[str, Any]] = json.loads(told)["fields"]
            return fields
        except (Py4JError, PySparkException):
            pass  # of a Spark whose inner parts differ
    return [field.jsonValue() for field in spark.table(name).schema]


def _column_difference(described: list[tuple[str, str]], snapshot: Snapshot) -> str | None:
    if not snapshot.files:
        return None
    files = {column.name.lower(): column.type for column in snapshot.schema.columns}
    for name, wanted in described:
        found = files.pop(name.lower(), None)
        if _CHAR.search(wanted):
            return (
                f"column {name!r} is {_short(wanted)} in the catalog, where Spark pads its values with blanks"
            )
        if found is None:
            return f"column {name!r} is in the catalog and not in the files"
        if not _is_same(wanted, found):
            return f"column {name!r} is {wanted} in the catalog and {_short(str(found))} in the files"
    return f"column {next(iter(files))!r} is in the files and not in the catalog" if files else None


def _is_same(wanted: str, found: OrcType) -> bool:
    if found.kind in STRING_KINDS:
        return wanted == "string" or wanted.startswith("varchar(")
    if found.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        return wanted == "timestamp"
    if found.is_primitive:
        return wanted == str(found)
    if any(part.kind is Kind.UNION for part in found.walk()):
        return wanted.partition("<")[0] == str(found).partition("<")[0]
    # of names, what looks like quotes or types is changed on both sides
    ours = spark_ddl(found).lower()
    return _comparable(wanted) == _comparable(ours)


def _comparable(of: str) -> str:
    """A type with what means the same to Spark written the same; its names stand without the quotes that DDL has."""
    plain = of.replace("`", "").replace("timestamp_ltz", "timestamp").replace(_COLLATE_BINARY, "")
    return _VARCHAR.sub("string", plain)


def _partition_difference(spark: SparkSession, name: str, snapshot: Snapshot) -> str | None:
    """Of transactional tables, partitions have to be where their names say."""
    if not snapshot.schema.partition_columns or not snapshot.listing.transactional:
        return None
    registered = {row["partition"] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}
    present = {item.path for item in snapshot.listing.transactional}
    for partition in sorted(present - registered):
        return f"partition {partition!r} has files and is not in the catalog"
    for partition in sorted(registered - present):
        return f"partition {partition!r} is in the catalog and has no files below the table's location"
    return None


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
