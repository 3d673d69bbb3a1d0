"""Spark's own answers on the same files, and comparing rows with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Ids = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class SparkAnswers:
    """All rows of a table as Spark reads them, sorted by ``id``, and the ids that each predicate keeps."""

    rows: pa.Table
    ids: tuple[Ids, ...]


def spark_answers(
    spark: SparkSession, path: Path | str, predicates: Sequence[str], schema: str | StructType | None = None
) -> SparkAnswers:
    """Evaluate predicates in one Spark job.

    Args:
        schema: the files' columns, as DDL; Spark takes one file's where it is None.
    """
    from pyspark.sql import functions as f

    reader = spark.read if schema is None else spark.read.schema(schema)
    frame = reader.orc(str(path))
    flags = [f.expr(text).cast("boolean").alias(f"_p{i}") for i, text in enumerate(predicates)]
    rows = frame.select("*", *flags).toArrow()
    rows = rows.sort_by("id").combine_chunks()
    ids = np.asarray(rows.column("id"))
    kept = tuple(
        ids[np.asarray(rows.column(f"_p{i}").combine_chunks().fill_null(False))]
        for i in range(len(predicates))
    )
    return SparkAnswers(rows.drop_columns([f"_p{i}" for i in range(len(predicates))]), kept)


def spark_where(
    spark: SparkSession, path: Path | str, predicate: str, schema: str | StructType | None = None
) -> list[int]:
    """The sorted ids that Spark's own scan returns, its pushdown into ORC included."""
    reader = spark.read if schema is None else spark.read.schema(schema)
    return sorted(row[0] for row in reader.orc(str(path)).where(predicate).select("id").collect())


def assert_same_rows(rows: pa.Table, expected: pa.Table, context: str) -> None:
    """Both have the same columns and values, whatever the order of rows; ``id`` is unique."""
    assert sorted(rows.column_names) == sorted(expected.column_names), context
    rows = rows.sort_by("id").combine_chunks()
    for name in expected.column_names:
        left, right = comparable(rows.column(name)), comparable(expected.column(name))
        if not left.equals(right):
            assert left.type == right.type, f"{name} is {left.type} and in Spark {right.type}; {context}"
            pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
            wrong = [(i, a, b) for i, (a, b) in enumerate(pairs) if a != b]
            raise AssertionError(f"{name}: (row, found, Spark's) {wrong[:5]}, {len(wrong)} rows; {context}")


def comparable(column: pa.ChunkedArray) -> pa.Array:
    """A column whose equality is that of values: NaN equals NaN, -0.0 equals 0.0, and fields are in one order.

    Java's reader takes a batch of nothing but zeros for one repeated value, and loses the others' signs. Fields of a
    struct come in the order in which files add them, and in Spark in that of the schema it is given.
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if pa.types.is_struct(array.type):
        names = sorted(field.name for field in array.type)
        fields = [comparable(pa.chunked_array([pc.struct_field(array, [name])])) for name in names]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    if pa.types.is_floating(array.type):
        bits = np.asarray(array.fill_null(0.0).cast(pa.float64()))
        bits = (np.where(np.isnan(bits), np.nan, bits) + 0.0).view(np.int64)
        return pa.array(bits, mask=np.asarray(array.is_null()))
    return array
