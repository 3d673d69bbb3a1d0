"""Whether Spark's catalog and a table's files say the same of it.

hindex derives columns, partitions and their values from the files. Where the catalog says otherwise (a
partition of its own place, a string that looks like a number, a padded CHAR), the files alone would give
other rows than Spark does, so such a table is refused.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hindex.errors import TableError
from hindex.orc.types import STRING_KINDS, Kind, OrcType
from hindex.table.listing import normalize_uri
from hindex.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_agreement(spark: SparkSession, name: str, snapshot: Snapshot) -> None:
    """Compare a snapshot with what the catalog says of the table now.

    :param name: as SQL has it, with dots and backquotes.
    :raises TableError: naming the first difference.
    """
    difference = (
        _column_difference(_columns(spark, name), snapshot)
        or _partition_difference(spark, name, snapshot)
        or _place_difference(spark, name, snapshot)
    )
    if difference is not None:
        raise TableError(
            f"Table {name!r} is invalid: {difference}, and rows are read by what the files say; read it with Spark, "
            f"or name its path {snapshot.listing.uri!r} if the files alone are what you want"
        )


def _columns(spark: SparkSession, name: str) -> list[tuple[str, str]]:
    """Names and simple types of the catalog's columns, partition columns last."""
    found = []
    for row in spark.sql(f"DESCRIBE TABLE {name}").collect():
        if not row["col_name"] or row["col_name"].startswith("#"):
            break
        found.append((row["col_name"], row["data_type"].lower()))
    return found


def _column_difference(described: list[tuple[str, str]], snapshot: Snapshot) -> str | None:
    if not snapshot.files:
        return None
    files = {column.name.lower(): column.type for column in snapshot.schema.columns}
    for name, wanted in described:
        found = files.pop(name.lower(), None)
        if wanted.startswith("char("):
            return f"column {name!r} is {wanted} in the catalog, where Spark pads its values with blanks"
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
    return wanted.partition("<")[0] == str(found).partition("<")[0]


def _partition_difference(spark: SparkSession, name: str, snapshot: Snapshot) -> str | None:
    columns = snapshot.schema.partition_columns
    if not columns:
        return None
    registered = {row["partition"] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}
    present = {str(PurePosixPath(file.path).parent) for file in snapshot.listing.files}
    for partition in sorted(present - registered):
        return f"partition {partition!r} has files and is not in the catalog"
    for partition in sorted(registered - present):
        return f"partition {partition!r} is in the catalog and has no files below the table's location"
    return None


def _place_difference(spark: SparkSession, name: str, snapshot: Snapshot) -> str | None:
    """A partition may be elsewhere while files are still where it would be by its name."""
    depth = len(snapshot.schema.partition_columns)
    if not depth or snapshot.listing.transactional:
        return None
    here = {file.path for file in snapshot.listing.files}
    there = set()
    for uri in spark.table(name).inputFiles():
        parts = urlsplit(uri)
        root, *inner = unquote(parts.path).rsplit("/", depth + 1)
        path = "/".join(inner)
        scheme = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
        if path not in here or normalize_uri(scheme + root) != snapshot.listing.uri:
            return f"the catalog has data file {unquote(uri)!r}, which is not below the table's location"
        there.add(path)
    stale = sorted(here - there)
    return f"data file {stale[0]!r} is of no partition of the catalog" if stale else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
