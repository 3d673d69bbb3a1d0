"""``hindex demo``: TPC-H lineitem as a user would index and query it, beside Spark's own ORC reader."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.cli.comparing import same_rows
from hindex.errors import HindexError, MissingRuntimeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindex import Table
    from hindex.explain.explanation import Explanation

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
#: Each query is run this often; the median counts.
RUNS = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query, answered by hindex and by Spark alone."""

    predicate: str
    same: bool
    rows: int
    explanation: Explanation
    hindex_seconds: float
    spark_seconds: float


def run_demo(scale: float, directory: str, *, master: str | None = None, conf: Mapping[str, str]) -> None:
    """Make the data, index it through the command line, and compare query by query.

    :param scale: TPC-H scale factor; 1 is six million rows.
    :param directory: where the data goes; what an earlier run made there is used again.
    :raises HindexError: if a query's rows differ from Spark's.
    """
    import hindex
    from hindex.spark.session import local_session

    where = Path(directory, f"lineitem-{scale:g}")
    spark = local_session(master, {"spark.sql.orc.filterPushdown": "true", **conf}, "hindex-demo")
    if (where / "_SUCCESS").exists():
        _say(f"Using {where} of an earlier run")
    else:
        _say(f"Making TPC-H lineitem, scale {scale:g}, as zstd ORC in {where}")
        make_tpch_table(spark, "lineitem", scale, where)
    _say(f"{_size(where)} of data in {len(list(where.glob('*.orc')))} files")

    _index(where, master, conf)
    table = hindex.connect(spark=spark).table(str(where))
    size = sum(index.size_bytes for index in table.indexes())
    _say(f"{_megabytes(size)} of indexes\n")

    _say(f"Five columns of the rows that match, warm, median of {RUNS} runs:\n")
    for _ in range(RUNS):  # Java compiles what it runs often
        spark.read.orc(str(where)).where(PREDICATES[-1]).select(*COLUMNS).toArrow()
    compared = [_compare(table, spark, where, predicate) for predicate in PREDICATES]
    _print_comparisons(compared)
    different = [found.predicate for found in compared if not found.same]
    if different:
        raise HindexError(f"the rows differ from Spark's for {'; '.join(different)}: please report it")
    _say(f"\nThe rows of all {len(compared)} queries are those that Spark returns. Now try your own:\n")
    _say(f"""  hindex sql "SELECT COUNT(*) FROM '{where}' WHERE l_shipmode = 'MAIL'" """.rstrip())
    _say(f"""  hindex explain "SELECT * FROM '{where}' WHERE l_partkey = 777" """.rstrip())


def _say(line: str) -> None:
    print(line, flush=True)


def make_tpch_table(spark: SparkSession, name: str, scale: float, where: Path) -> None:
    """Write a table of TPC-H as four zstd ORC files, with Spark's own defaults for stripes and row groups.

    :param name: such as ``lineitem``.

    :raises MissingRuntimeError: if tpchgen-cli is missing.
    :raises HindexError: if it fails.
    """
    beside = Path(sys.executable).with_name("tpchgen-cli")
    generator = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if generator is None:
        raise MissingRuntimeError("the data is generated with tpchgen-cli: pip install 'tpchgen-cli>=4.0'")
    raw = where.with_name(f"{where.name}-parquet")
    options = [f"--tables={name}", "--output-dir", str(raw), "--no-progress"]
    made = subprocess.run(
        [generator, "parquet", "-s", f"{scale:g}", *options], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise HindexError(f"tpchgen-cli failed: {' '.join(made.stderr.split()) or made.returncode}")
    rows = spark.read.parquet(str(raw / f"{name}.parquet"))
    rows.coalesce(4).write.mode("overwrite").option("compression", "zstd").orc(str(where))
    shutil.rmtree(raw)


def _index(where: Path, master: str | None, conf: Mapping[str, str]) -> None:
    """Create the indexes as a user does, with the command."""
    statements = [
        f"CREATE INDEX IF NOT EXISTS {name} USING bitmap ON '{where}' ({column})"
        for name, column in INDEXES.items()
    ]
    for statement in statements:
        _say(f'$ hindex sql "{statement}"')
    options = [*(("--master", master) if master else ()), "--output", "csv"]
    for key, value in conf.items():
        options += ["--conf", f"{key}={value}"]
    started = time.monotonic()
    command = [sys.executable, "-m", "hindex.cli.main", *options, "sql", "; ".join(statements)]
    made = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        raise HindexError(f"creating the indexes failed with exit code {made.returncode}, see above")
    _say(f"{len(statements)} indexes in {time.monotonic() - started:.1f} s, the start of Spark included")


def _compare(table: Table, spark: SparkSession, where: Path, predicate: str) -> Comparison:
    scan = table.scan(predicate, COLUMNS)
    frame = spark.read.orc(str(where)).where(predicate).select(*COLUMNS)
    ours, theirs = scan.to_arrow(), frame.toArrow()
    # in turns, so that a busy moment of the machine is not one side's alone
    seconds = [(_seconds(scan.to_arrow), _seconds(frame.toArrow)) for _ in range(RUNS)]
    hindex_seconds, spark_seconds = map(statistics.median, zip(*seconds, strict=True))
    return Comparison(
        predicate, same_rows(ours, theirs), ours.num_rows, scan.explain(), hindex_seconds, spark_seconds
    )


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _print_comparisons(compared: list[Comparison]) -> None:
    from hindex.cli.output import TableOutput

    table = pa.table(
        {
            "predicate": [found.predicate for found in compared],
            "rows": [found.rows for found in compared],
            "same": ["yes" if found.same else "NO" for found in compared],
            "row groups skipped": [_skipped(found.explanation) for found in compared],
            "hindex ms": [round(found.hindex_seconds * 1000) for found in compared],
            "Spark ms": [round(found.spark_seconds * 1000) for found in compared],
            "faster": [f"{found.spark_seconds / found.hindex_seconds:.1f}x" for found in compared],
        }
    )
    TableOutput(sys.stdout).body(table.schema, table.to_batches())


def _skipped(explanation: Explanation) -> str:
    groups = explanation.row_groups
    if groups is None or groups.kept is None or groups.total is None:
        return "unknown"
    return f"{groups.total - groups.kept} of {groups.total}"


def _size(where: Path) -> str:
    return _megabytes(sum(path.stat().st_size for path in where.glob("*.orc")))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
