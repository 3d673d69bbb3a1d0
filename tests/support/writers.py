"""Writing the same Arrow table as ORC through pyarrow, pyorc and Spark."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyorc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODECS = ("none", "zlib", "snappy", "lz4", "zstd")
WRITERS = ("pyarrow", "pyorc", "spark")


def write_pyarrow(
    path: Path,
    table: pa.Table,
    codec: str = "zstd",
    *,
    stripe: int = 1 << 26,
    stride: int = 10_000,
    **options: Any,
) -> None:
    """Write with pyarrow. Fractions of seconds before 1970 are cut: it writes them as Java cannot read them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for i, field in enumerate(table.schema):
        if field.type == pa.timestamp("us"):
            table = table.set_column(i, field.name, _without_old_fractions(table.column(i)))
    with pyarrow.orc.ORCWriter(
        str(path),
        compression="uncompressed" if codec == "none" else codec,
        stripe_size=stripe,
        row_index_stride=stride,
        batch_size=min(stride, 1024),
        **options,
    ) as writer:
        writer.write(table)


def write_pyorc(
    path: Path,
    table: pa.Table,
    codec: str = "zstd",
    *,
    stripe: int = 1 << 26,
    stride: int = 10_000,
    types: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Write with pyorc, row by row.

    Args:
        types: of columns whose Arrow type does not tell, such as ``char(4)``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    column_types = {field.name: type_name(field.type) for field in table.schema} | dict(types or {})
    names = ",".join(f"{name}:{of}" for name, of in column_types.items())
    columns = [_python_values(table.column(i)) for i in range(table.num_columns)]
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file,
            f"struct<{names}>",
            compression=pyorc.CompressionKind[codec.upper()],
            stripe_size=stripe,
            row_index_stride=stride,
            batch_size=min(stride, 1024),
            **options,
        ) as writer,
    ):
        writer.writerows(zip(*columns, strict=True))


def write_spark(
    spark: SparkSession,
    path: Path,
    table: pa.Table,
    codec: str = "zstd",
    *,
    stripe: int = 1 << 26,
    stride: int = 10_000,
    **options: Any,
) -> None:
    """Write one file with Spark. The Java writer's row groups have at least 1000 rows."""
    for i, field in enumerate(table.schema):
        if field.type == pa.timestamp("us"):
            # a timestamp without a zone is another type in Spark, and not ORC's plain timestamp
            table = table.set_column(i, field.name, table.column(i).cast(pa.timestamp("us", tz="UTC")))
    folder = path.with_name(f".{path.name}.tmp")
    frame = spark.createDataFrame(table).coalesce(1)
    settings = {
        "compression": codec,
        "orc.stripe.size": str(stripe),
        "orc.row.index.stride": str(max(stride, 1000)),
        "orc.rows.between.memory.checks": str(min(max(stride, 100), 5000)),
        **options,
    }
    frame.write.options(**settings).orc(str(folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    (part,) = folder.glob("*.orc")
    part.rename(path)
    shutil.rmtree(folder)


def writer(name: str, spark: SparkSession) -> Callable[..., None]:
    """One of `WRITERS` as a function of path, table and options."""
    if name == "spark":
        return lambda path, table, codec="zstd", **options: write_spark(spark, path, table, codec, **options)
    return write_pyarrow if name == "pyarrow" else write_pyorc


def type_name(data_type: pa.DataType) -> str:
    """An Arrow type as ORC and SQL name it."""
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_struct(data_type):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in data_type)}>"
    return {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "binary",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp",
    }[data_type]


def _without_old_fractions(column: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.floor_temporal(column, unit="second")
    return pc.if_else(pc.less(column, pa.scalar(0, column.type)), whole, column)


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_timestamp(column.type):
        return [None if value is None else value.replace(tzinfo=datetime.UTC) for value in values]
    if pa.types.is_struct(column.type):
        return [None if value is None else tuple(value.values()) for value in values]
    return values
