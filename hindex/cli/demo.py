"""``hindex demo``: index TPC-H lineitem and query it beside Spark's own ORC reader."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.cli.comparison import in_turn, same_rows
from hindex.errors import HindexError, MissingRuntimeError
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindex import Table
    from hindex.explanations.explanation import Explanation

INDEXES = {"shipmode": "l_shipmode", "shipdate": "l_shipdate", "partkey": "l_partkey"}
COLUMNS = ["l_orderkey", "l_extendedprice", "l_shipdate", "l_shipmode", "l_comment"]
PREDICATES = [
    "l_partkey = 777",
    "l_partkey IN (17, 1900, 12345)",
    "l_partkey BETWEEN 100 AND 120 AND l_shipmode <> 'AIR'",
    "l_shipdate = DATE '1995-03-15' AND l_shipmode = 'RAIL'",
    "l_shipdate < DATE '1992-01-04' OR l_partkey = 4242",
    "l_shipdate = DATE '1995-03-15'",
    "l_shipmode = 'MAIL' AND l_returnflag = 'R'",
]
#: Runs of each query; the median is shown.
RUNS = 3


@value_class
class Comparison:
    """One query, answered by hindex and by Spark alone."""

    predicate: str
    same: bool
    rows: int
    explanation: Explanation
    hindex_ms: float
    spark_ms: float


def run_demo(scale: float, directory: str, *, master: str | None = None, conf: Mapping[str, str]) -> None:
    """Make the data, index it through the command line, and compare query by query.

    Args:
        scale: TPC-H scale factor; 1 is six million rows.
        directory: the directory of the data; the data of an earlier run is used again.

    Raises:
        HindexError: if a query's rows differ from Spark's.
    """
    import hindex
    from hindex.spark.session import local_session

    directory_path = Path(directory, f"lineitem-{scale:g}")
    spark = local_session(master, {"spark.sql.orc.filterPushdown": "true", **conf}, "hindex-demo")
    if (directory_path / "_SUCCESS").exists():
        _say(f"Using {directory_path} of an earlier run")
    else:
        _say(f"Making TPC-H lineitem, scale {scale:g}, as zstd ORC in {directory_path}")
        make_tpch_table(spark, "lineitem", scale, directory_path)
    _say(f"{_size(directory_path)} of data in {len(list(directory_path.glob('*.orc')))} files")

    _index(directory_path, master, conf)
    table = hindex.connect(spark=spark).table(str(directory_path))
    size = sum(index.size_bytes for index in table.indexes())
    _say(f"{_megabytes(size)} of indexes\n")

    _say(f"Five columns of the rows that match, warm, median of {RUNS} runs:\n")
    for _ in range(RUNS):  # Java compiles what it runs often
        spark.read.orc(str(directory_path)).where(PREDICATES[-1]).select(*COLUMNS).toArrow()
    comparisons = [_compare(table, spark, directory_path, predicate) for predicate in PREDICATES]
    _print_comparisons(comparisons)
    different = [item.predicate for item in comparisons if not item.same]
    if different:
        raise HindexError(f"the rows differ from Spark's for {'; '.join(different)}: please report it")
    _say(f"\nThe rows of all {len(comparisons)} queries are those that Spark returns. Now try your own:\n")
    _say(f"""  hindex sql "SELECT COUNT(*) FROM '{directory_path}' WHERE l_shipmode = 'MAIL'" """.rstrip())
    _say(f"""  hindex explain "SELECT * FROM '{directory_path}' WHERE l_partkey = 777" """.rstrip())


def _say(line: str) -> None:
    print(line, flush=True)


def make_tpch_table(spark: SparkSession, name: str, scale: float, path: Path) -> None:
    """Write a table of TPC-H as four zstd ORC files, with Spark's own defaults for stripes and row groups.

    Args:
        name: such as ``lineitem``.

    Raises:
        MissingRuntimeError: if tpchgen-cli is missing.
        HindexError: if it fails.
    """
    installed = Path(sys.executable).with_name("tpchgen-cli")
    generator = str(installed) if installed.exists() else shutil.which("tpchgen-cli")
    if generator is None:
        raise MissingRuntimeError("the data is generated with tpchgen-cli: pip install 'tpchgen-cli>=4.0'")
    raw = path.with_name(f"{path.name}-parquet")
    options = [f"--tables={name}", "--output-dir", str(raw), "--no-progress"]
    process = subprocess.run(
        [generator, "parquet", "-s", f"{scale:g}", *options], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise HindexError(f"tpchgen-cli failed: {' '.join(process.stderr.split()) or process.returncode}")
    rows = spark.read.parquet(str(raw / f"{name}.parquet"))
    rows.coalesce(4).write.mode("overwrite").option("compression", "zstd").orc(str(path))
    shutil.rmtree(raw)


def _index(path: Path, master: str | None, conf: Mapping[str, str]) -> None:
    """Create the indexes with the command line, as a user does."""
    statements = [
        f"CREATE INDEX IF NOT EXISTS {name} USING bitmap ON '{path}' ({column})"
        for name, column in INDEXES.items()
    ]
    for statement in statements:
        _say(f'$ hindex sql "{statement}"')
    options = [*(("--master", master) if master else ()), "--output", "csv"]
    for key, value in conf.items():
        options += ["--conf", f"{key}={value}"]
    started = time.monotonic()
    command = [sys.executable, "-m", "hindex.cli.main", *options, "sql", "; ".join(statements)]
    process = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if process.returncode != 0:
        raise HindexError(f"creating the indexes failed with exit code {process.returncode}, see above")
    _say(f"{len(statements)} indexes in {time.monotonic() - started:.1f} s, the start of Spark included")


def _compare(table: Table, spark: SparkSession, path: Path, predicate: str) -> Comparison:
    scan = table.scan(predicate, COLUMNS)
    frame = spark.read.orc(str(path)).where(predicate).select(*COLUMNS)
    ours, theirs = scan.to_arrow(), frame.toArrow()
    hindex_ms, spark_ms = map(statistics.median, in_turn(RUNS, scan.to_arrow, frame.toArrow))
    return Comparison(predicate, same_rows(ours, theirs), ours.num_rows, scan.explain(), hindex_ms, spark_ms)


def _print_comparisons(comparisons: list[Comparison]) -> None:
    from hindex.cli.output import TableOutput

    table = pa.table(
        {
            "predicate": [item.predicate for item in comparisons],
            "rows": [item.rows for item in comparisons],
            "same": ["yes" if item.same else "NO" for item in comparisons],
            "row groups skipped": [_skipped(item.explanation) for item in comparisons],
            "hindex ms": [round(item.hindex_ms) for item in comparisons],
            "Spark ms": [round(item.spark_ms) for item in comparisons],
            "faster": [f"{item.spark_ms / item.hindex_ms:.1f}x" for item in comparisons],
        }
    )
    TableOutput(sys.stdout).body(table.schema, table.to_batches())


def _skipped(explanation: Explanation) -> str:
    groups = explanation.row_groups
    if groups is None or groups.kept is None or groups.total is None:
        return "unknown"
    return f"{groups.total - groups.kept} of {groups.total}"


def _size(directory: Path) -> str:
    return _megabytes(sum(path.stat().st_size for path in directory.glob("*.orc")))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
