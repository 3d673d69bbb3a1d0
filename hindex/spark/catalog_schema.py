"""The declared schema of a table, from Spark's catalog.

Source: Spark's ``DataType`` as JSON, and ``CharVarcharUtils`` and ``ResolveDefaultColumns`` for its field metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hindex.domain import Domain
from hindex.errors import HindexError, UnsupportedError
from hindex.expr.typing import typed_condition
from hindex.keys import key_array, key_kind, one_key_array
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.column_domains import column_domain
from hindex.spark.catalog import call_session_catalog, run
from hindex.spark.settings import setting_reason
from hindex.sql.predicate import ColumnRef, Comparison, Literal, LiteralKind
from hindex.store.snapshot import Snapshot
from hindex.table.schema import DeclaredSchema, TableColumn
from hindex.table.type_text import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Field metadata of Spark: the type of a CHAR or VARCHAR column, the collations of its strings, and its value in rows
#: of files that lack the column.
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATIONS = "__COLLATIONS"
_DEFAULT = "EXISTS_DEFAULT"

#: Table options by which Spark skips files of the directory.
_FILE_OPTIONS = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})
#: Boolean table options by which Spark reads other files, or matches columns by position.
_FLAG_OPTIONS = frozenset({"recursivefilelookup", "orc.force.positional.evolution"})

#: Setting by which Spark reads Hive tables with its own reader.
_CONVERT_HIVE = "spark.sql.hive.convertMetastoreOrc"

#: Settings that change how CHAR columns are read, and their defaults.
_CHAR_SETTINGS = {
    "spark.sql.readSideCharPadding": True,
    "spark.sql.preserveCharVarcharTypeInfo": False,
    "spark.sql.legacy.charVarcharAsString": False,
    "spark.sql.legacy.noCharPaddingInPredicate": False,
}

_PRIMITIVES = {
    "boolean": Kind.BOOLEAN,
    "byte": Kind.BYTE,
    "short": Kind.SHORT,
    "integer": Kind.INT,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
#: The constant NULL, as Spark writes it.
_NULL = re.compile(r"NULL|CAST\(NULL AS .+\)", re.IGNORECASE)


def read_declared_schema(spark: SparkSession, name: str, description: Mapping[str, Any]) -> DeclaredSchema:
    """Read the current schema of a table from the catalog.

    Args:
        name: name in SQL, with dots and backquotes.
        description: the catalog's description of the table.

    Raises:
        HindexError: if the catalog no longer has the table.
    """
    text = call_session_catalog(
        spark, description, lambda catalog, table: str(catalog.getTableMetadata(table).schema().json())
    )
    text = text or _frame_json(spark, name)
    columns = [_column(field) for field in json.loads(text)["fields"]]
    partitions = [str(item).lower() for item in description.get("partition_columns") or ()]
    by_name = {column.name.lower(): column for column in columns}
    return DeclaredSchema(
        tuple(column for column in columns if column.name.lower() not in partitions),
        tuple(by_name[item] for item in partitions),
        text,
    )


def check_readable(
    spark: SparkSession,
    setting: Callable[[str, bool], bool],
    name: str,
    description: Mapping[str, Any],
    snapshot: Snapshot,
) -> None:
    """Check that Spark permits reading a table, and reads it as hindex does.

    A statement describes the table, so that authorizers of the session see it.

    Args:
        setting: returns True if a setting of the session is on.

    Raises:
        UnsupportedError: naming the difference; Spark can read such a table.
        TableError: if Spark rejects the statement.
    """
    run(spark, name, f"DESCRIBE TABLE {name}")
    reason = (
        setting_reason(spark)
        or _option_reason(setting, description)
        or _char_reason(setting, snapshot)
        or _partition_reason(spark, name, snapshot)
    )
    if reason is not None:
        raise UnsupportedError(
            f"Table {name!r} cannot be read here: {reason}; hx.sql(...) leaves a query of it to Spark, and its path "
            f"{snapshot.listing.uri!r} names the files alone"
        )


def _frame_json(spark: SparkSession, name: str) -> str:
    from pyspark.errors import PySparkException

    try:
        return str(spark.table(name).schema.json())
    except PySparkException:
        run(spark, name, f"DESCRIBE TABLE {name}")
        raise


def _column(field: Mapping[str, Any]) -> TableColumn:
    """Return a column of a schema in JSON; its ``problem`` is the reason why hindex cannot read it."""
    name, metadata = str(field["name"]), field.get("metadata") or {}
    try:
        data_type = _data_type(field["type"])
        if _CHAR_TYPE in metadata:
            data_type = _with_lengths(data_type, parse_type(metadata[_CHAR_TYPE]))
    except ValueError:
        spark_type = metadata.get(_CHAR_TYPE) or field["type"]
        text = spark_type if isinstance(spark_type, str) else json.dumps(spark_type)
        return TableColumn(name, OrcType(Kind.STRING), problem=f"its type is {text}")
    if "`" in name:
        return TableColumn(
            name, data_type, problem="Spark's reader takes its name, which has a backquote, for another"
        )
    if _COLLATIONS in metadata:
        return TableColumn(name, data_type, problem="its strings have a collation")
    if any(part.kind is Kind.CHAR for child in data_type.children for part in child.walk()):
        return TableColumn(
            name, data_type, problem=f"CHAR within {data_type} is compared without blanks in Spark"
        )
    text = str(metadata.get(_DEFAULT, "NULL"))
    if _NULL.fullmatch(text):
        return TableColumn(name, data_type)
    default = _constant(text, data_type)
    if default is None:
        return TableColumn(name, data_type, problem=f"its default for older files is {text}")
    return TableColumn(name, data_type, default)


def _with_lengths(data_type: OrcType, named: OrcType) -> OrcType:
    """Return a type with CHAR and VARCHAR as Spark names them; field names that need quotes have none there.

    Raises:
        ValueError: if the name is that of another type.
    """
    if named.kind in (Kind.CHAR, Kind.VARCHAR) and data_type.kind is Kind.STRING:
        return named
    if named.kind is not data_type.kind or len(named.children) != len(data_type.children):
        raise ValueError(str(named))
    return replace(data_type, children=tuple(map(_with_lengths, data_type.children, named.children)))


def _data_type(data_type: Any) -> OrcType:  # noqa: ANN401 a value of JSON
    """Return the ORC type for a Spark type in JSON.

    Raises:
        ValueError: for a type that ORC lacks.
    """
    if isinstance(data_type, str):
        if data_type in _PRIMITIVES:
            return OrcType(_PRIMITIVES[data_type])
        decimal = _DECIMAL.fullmatch(data_type)
        if decimal is not None:
            return OrcType(Kind.DECIMAL, precision=int(decimal[1]), scale=int(decimal[2]))
        raise ValueError(data_type)
    match data_type["type"]:
        case "array":
            return OrcType(Kind.LIST, children=(_data_type(data_type["elementType"]),))
        case "map":
            return OrcType(
                Kind.MAP, children=(_data_type(data_type["keyType"]), _data_type(data_type["valueType"]))
            )
        case "struct":
            fields = data_type["fields"]
            return OrcType(
                Kind.STRUCT,
                children=tuple(_data_type(field["type"]) for field in fields),
                field_names=tuple(str(field["name"]) for field in fields),
            )
    raise ValueError(data_type)


def _constant(text: str, data_type: OrcType) -> pa.Scalar[Any] | None:
    """Return the value of a literal in a type as an Arrow scalar; None if hindex does not evaluate it.

    Timestamps are not evaluated: they depend on the time zone of the session that declared them.
    """
    from hindex.sql import parse_predicate

    if key_kind(data_type) is None or data_type.kind is Kind.TIMESTAMP:
        return None
    try:
        predicate = parse_predicate(f"c = {text}")
        match predicate:
            case Comparison(_, ColumnRef(), Literal(_, kind)) if kind is not LiteralKind.TIMESTAMP:
                answer = column_domain(typed_condition(predicate, lambda _: ("c", data_type)))
            case _:
                return None
    except HindexError:
        return None
    domain = Domain.none() if answer is None else answer[1]
    if len(domain.ranges) != 1 or not domain.ranges[0].is_point or domain.ranges[0].low is None:
        return None
    return key_array(data_type, one_key_array(domain.ranges[0].low))[0]


def _option_reason(setting: Callable[[str, bool], bool], description: Mapping[str, Any]) -> str | None:
    if str(description.get("provider", "")).lower() == "hive" and not setting(_CONVERT_HIVE, True):
        return f"Spark has Hive's reader for it ({_CONVERT_HIVE} is false)"
    for option, value in (description.get("storage_properties") or {}).items():
        key = option.lower()
        if key in _FILE_OPTIONS or (key in _FLAG_OPTIONS and str(value).lower() == "true"):
            return f"Spark reads it with the option {option!r}"
    return None


def _char_reason(setting: Callable[[str, bool], bool], snapshot: Snapshot) -> str | None:
    if any(part.kind is Kind.CHAR for column in snapshot.schema.columns for part in column.type.walk()):
        for key, default in _CHAR_SETTINGS.items():
            if setting(key, default) is not default:
                return f"the session has {key} = {str(not default).lower()}, which changes how CHAR columns are read"
    return None


def _partition_reason(spark: SparkSession, name: str, snapshot: Snapshot) -> str | None:
    """Return how the directories of a transactional table differ from its partitions in the catalog, or None."""
    if not snapshot.schema.partition_columns or not snapshot.listing.transactional:
        return None
    registered = {row["partition"] for row in run(spark, name, f"SHOW PARTITIONS {name}").collect()}
    present = {item.path for item in snapshot.listing.transactional}
    for partition in sorted(present - registered):
        return f"partition {partition!r} has files and is not in the catalog"
    for partition in sorted(registered - present):
        return f"partition {partition!r} is in the catalog and has no files below the table's location"
    return None
