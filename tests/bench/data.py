"""TPC-H lineitem as the benchmarks use it: made as ``hindex demo`` makes it, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hindex.cli.demo import make_lineitem
from hindex.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lineitem(spark: SparkSession, scale: float, directory: Path) -> Path:
    """The directory of lineitem as a few zstd ORC files, made if it is not there.

    :param scale: TPC-H scale factor; 1 is six million rows.
    :raises HindexError: if tpchgen-cli is missing or fails.
    """
    where = directory / f"lineitem-{scale:g}"
    if not (where / "_SUCCESS").exists():
        make_lineitem(spark, scale, where)
    return where


def lineitem_alone(scale: float, directory: Path) -> Path:
    """The same, for who needs no Spark once the data is there."""
    spark = local_session(app_name="hindex-bench")
    try:
        return lineitem(spark, scale, directory)
    finally:
        spark.stop()


def data_files(table: Path) -> list[Path]:
    """The ORC files of a flat directory, by name."""
    return sorted(table.glob("*.orc"))
