"""The queries of TPC-H through ``hx.sql`` beside Spark alone, in turn in one session: ``python -m tests.bench.tpch``.

Prints a line for each query: the tables that were read through indexes, the milliseconds of both, and Spark's time
divided by hindex's, round by round. The answers must be the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

import hindex
from hindex.cli.demo import make_tpch_table
from hindex.spark.queries import explain_query, run_query
from hindex.spark.session import local_session
from hindex.sql.queries import Query, parse_query
from tests.bench.timing import in_turn, ratios, spread
from tests.support.tpch import INDEXES, QUERIES, rounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("build/bench-data"))
    options = parser.parse_args()
    spark = local_session("local[2]", {"spark.sql.session.timeZone": "UTC"})
    hx = hindex.connect(spark=spark)
    _make(hx, spark, options.scale, options.data.resolve() / f"tpch-{options.scale:g}")
    for number, text in enumerate(QUERIES, 1):

        def alone(text: str = text) -> pa.Table:
            return spark.sql(text).toArrow()

        def through(text: str = text) -> pa.Table:
            # with all of the planning, as hx.sql does it
            return run_query(hx, _parsed(text)).toArrow()

        wanted, found = (_rows(run()) for run in (alone, through))
        assert found == wanted, f"query {number} differs"
        explained = explain_query(hx, _parsed(text))
        accelerated = [item.table for item in explained.tables if item.is_accelerated]
        by_spark, by_hindex = in_turn(options.rounds, alone, through)
        print(
            f"{number:2}  Spark {median(by_spark):7.0f} ms  hindex {median(by_hindex):7.0f} ms  "
            f"ratio {spread(ratios(by_spark, by_hindex), 2)}  {', '.join(accelerated) or '-'}",
            flush=True,
        )
    spark.stop()


def _parsed(text: str) -> Query:
    query = parse_query(text)
    assert query is not None
    return query


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [rounded(tuple(row.values())) for row in table.to_pylist()]


def _make(hx: hindex.Connection, spark: SparkSession, scale: float, where: Path) -> None:
    """The tables, under their names, and their indexes; what is there is left."""
    for name, columns in INDEXES.items():
        place = where / name
        if not (place / "_SUCCESS").exists():
            make_tpch_table(spark, name, scale, place)
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{place}'")
        specs = [hindex.IndexSpec(column, column) for column in columns]
        if specs:
            hx.table(str(place)).create_indexes(specs, if_not_exists=True)


if __name__ == "__main__":
    main()
