"""Rows of lineitem by a list of keys, beside Spark and DuckDB: ``python -m tests.bench key-lists``.

hindex scans the ORC files by ``col(column).isin(keys)``, Spark joins them with the broadcast keys, and DuckDB joins a
Parquet copy with them. The keys are an Arrow array of which some are in no row. All times include the keys' conversion.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from hindex.spark.session import local_session
from tests.bench import tpch
from tests.bench.compare import digest
from tests.bench.lookup_joins import KEYS
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = (1, 1_000, 100_000, 1_000_000)
_COLUMNS = ["l_orderkey", "l_partkey", "l_quantity", "l_extendedprice"]
#: The greatest key at scale 1.
_GREATEST = {"l_orderkey": 6_000_000, "l_partkey": 200_000}


def run(options: argparse.Namespace) -> SectionResult:
    spark = local_session("local[*]")
    hx = hindex.connect(spark=spark)
    directory = options.data / f"tpch-{options.scale:g}"
    tpch.make(hx, spark, options.scale, directory)
    path = directory / "lineitem"
    specs = [hindex.IndexSpec(f"key_{name}", name, using) for name, using in KEYS.items()]
    hx.table(str(path)).create_indexes(specs, if_not_exists=True)
    parquet = directory / "lineitem-parquet"
    if not (parquet / "_SUCCESS").exists():
        spark.read.orc(str(path)).write.mode("overwrite").parquet(str(parquet))
    rng = np.random.default_rng(25)
    measured: dict[str, dict[str, Any]] = {}
    different = []
    progress = progress_for(sys.stderr)
    progress.start(2 * len(COUNTS) * len(_GREATEST), "lists of keys")
    for column, greatest in _GREATEST.items():
        for count in COUNTS:
            keys = rng.choice(max(round(greatest * options.scale), 2 * count), count, replace=False) + 1
            for order, ordered in {"shuffled": keys, "sorted": np.sort(keys)}.items():
                runs = _runs(hx, spark, path, parquet, column, pa.array(ordered))
                results = {name: run() for name, run in runs.items()}
                if len({digest(result) for result in results.values()}) > 1:
                    different.append(f"{count} keys of {column}")
                in_turn(options.warmups, *runs.values())
                times = in_turn(options.rounds, *runs.values())
                measured[f"{column} {count} {order}"] = {
                    "column": column,
                    "keys": count,
                    "order": order,
                    "rows": results["hindex"].num_rows,
                    "ms": dict(zip(runs, times, strict=True)),
                }
                progress.advance()
    progress.finish()
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


def _runs(
    hx: hindex.Connection, spark: SparkSession, path: Path, parquet: Path, column: str, keys: pa.Array
) -> dict[str, Callable[[], pa.Table]]:
    """The same rows by each engine."""
    from pyspark.sql.functions import broadcast

    database = duckdb.connect()

    def by_hindex() -> pa.Table:
        return hx.table(str(path)).scan(hindex.col(column).isin(keys), _COLUMNS).to_arrow()

    def by_spark() -> pa.Table:
        frame = spark.createDataFrame(pa.table({column: keys}))
        return (
            spark.read.orc(str(path)).join(broadcast(frame), column, "left_semi").select(_COLUMNS).toArrow()
        )

    def by_duckdb() -> pa.Table:
        database.register("keys", pa.table({"key": keys}))
        return database.sql(
            f"SELECT {', '.join(_COLUMNS)} FROM '{parquet}/*.parquet' SEMI JOIN keys ON {column} = key"
        ).to_arrow_table()

    return {"hindex": by_hindex, "spark": by_spark, "duckdb": by_duckdb}


def _table(measured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for item in measured.values():
        times = item["ms"]
        rows.append(
            [
                f"{item['column']}, {KEYS[item['column']].upper()}",
                f"{item['keys']:,}, {item['order']}",
                f"{item['rows']:,}",
                *(f"{statistics.median(times[name]):,.0f}" for name in ("hindex", "spark", "duckdb")),
                *(ratio_text(ratios(times[name], times["hindex"])) for name in ("spark", "duckdb")),
            ]
        )
    headings = ["column", "keys", "rows", "hindex ms", "Spark ms", "DuckDB ms", "of Spark", "of DuckDB"]
    return {"headings": headings, "rows": rows, "right": 2}


SECTION = Section(
    "key-lists", "rows by lists of keys beside Spark's broadcast join and DuckDB on Parquet", run, rounds=3
)
