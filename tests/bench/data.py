"""TPC-H lineitem as the benchmarks use it: made by tpchgen-cli, rewritten by Spark as a few ORC files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Git-ignored; what an earlier run made there is used again.
DEFAULT_DIRECTORY = Path("build", "bench")
FILES = 4


def lineitem(spark: SparkSession, scale: float, directory: Path) -> Path:
    """The directory of lineitem as zstd ORC files, made if it is not there.

    :param scale: TPC-H scale factor; 1 is six million rows.
    :raises RuntimeError: if tpchgen-cli is missing or fails.
    """
    where = directory / f"lineitem-{scale:g}"
    if (where / "_SUCCESS").exists():
        return where
    beside = Path(sys.executable).with_name("tpchgen-cli")
    generator = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if generator is None:
        raise RuntimeError("tpchgen-cli makes the data and is missing: pip install tpchgen-cli")
    raw = directory / f"lineitem-{scale:g}-parquet"
    made = subprocess.run(
        [generator, "parquet", "-s", f"{scale:g}", "--tables=lineitem", "--output-dir", raw, "--no-progress"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise RuntimeError(f"tpchgen-cli failed: {' '.join(made.stderr.split()) or made.returncode}")
    frame = spark.read.parquet(str(raw / "lineitem.parquet"))
    frame.coalesce(FILES).write.mode("overwrite").option("compression", "zstd").orc(str(where))
    shutil.rmtree(raw)
    return where


def data_files(table: Path) -> list[Path]:
    """The ORC files of a flat directory, by name."""
    return sorted(table.glob("*.orc"))
