"""Lookup joins beside Spark alone, in turn in one session: ``python -m tests.bench lookup-joins``.

TPC-H 17, a star join, IN and EXISTS, and the same join with conditions that leave from 0.001 % to 10 % of the rows of
lineitem: the ratio is Spark's time divided by hindex's, planning included. The answers must be the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from hindex.spark.session import local_session
from tests.bench import tpch
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios
from tests.support.tpch import QUERIES, rounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The index types of the columns of lineitem that queries join by.
KEYS = {"l_orderkey": "btree", "l_partkey": "bitmap", "l_suppkey": "bitmap"}
_STAR = (
    "SELECT p_brand, count(*) AS n, sum(l_quantity) AS q, sum(l_extendedprice) AS p "
    "FROM lineitem JOIN part ON l_partkey = p_partkey WHERE {} GROUP BY p_brand"
)
_IN = (
    "SELECT l_orderkey, l_quantity, l_extendedprice FROM lineitem WHERE l_partkey IN "
    "(SELECT p_partkey FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' AND {})"
)
NAMED = {
    "query 17": QUERIES[16],
    "star": _STAR.format("p_name LIKE 'forest green%'"),
    "in, few sizes": _IN.format("p_size <= 3"),
    "in": _IN.format("p_size <= 20"),
    "in, all sizes": _IN.format("p_size <= 50"),
    "exists": (
        "SELECT l_suppkey, sum(l_quantity) AS q FROM lineitem WHERE EXISTS "
        "(SELECT * FROM part WHERE p_partkey = l_partkey AND p_name LIKE 'lime%green%') GROUP BY l_suppkey"
    ),
    # no index answers the condition of the small side: some hundred orders of all
    "in, no index": (
        "SELECT l_orderkey, l_partkey, l_quantity FROM lineitem "
        "WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE o_orderkey % 30011 = 7)"
    ),
    "star, no index": (
        "SELECT o_orderpriority, count(*) AS n, sum(l_quantity) AS q FROM lineitem "
        "JOIN orders ON l_orderkey = o_orderkey WHERE o_orderkey % 30011 = 7 GROUP BY o_orderpriority"
    ),
    "query 19": QUERIES[18],
    "query 20": QUERIES[19],
}
#: Of the conditions on part.
NAME_INDEX = hindex.IndexSpec("key_p_name", "p_name", "bitmap")
#: Shares of the parts, and so of the rows of lineitem.
SHARES = (0.00001, 0.0001, 0.0003, 0.001, 0.002, 0.004, 0.01, 0.03, 0.1)


def run(options: argparse.Namespace) -> SectionResult:
    spark = local_session("local[*]", {"spark.sql.session.timeZone": "UTC"})
    hx = hindex.connect(spark=spark)
    directory = options.data / f"tpch-{options.scale:g}"
    tpch.make(hx, spark, options.scale, directory)
    specs = [hindex.IndexSpec(f"key_{name}", name, using) for name, using in KEYS.items()]
    hx.table(str(directory / "lineitem")).create_indexes(specs, if_not_exists=True)
    hx.table(str(directory / "part")).create_indexes([NAME_INDEX], if_not_exists=True)
    parts = round(200_000 * options.scale)
    # whole ranges of keys: parts are anywhere in lineitem
    ranges = {
        f"{share:.3%}": _STAR.format(f"p_partkey <= {max(round(parts * share), 1)}") for share in SHARES
    }
    queries = {**NAMED, **ranges}
    if options.only:
        queries = {name: queries[name] for name in options.only}
    progress = progress_for(sys.stderr)
    progress.start(len(queries), "lookup joins")
    measured, different = {}, []
    for name, text in queries.items():
        measured[name], differs = _measure(hx, spark, text, options)
        different += [name] if differs else []
        progress.advance()
    progress.finish()
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


def _measure(
    hx: hindex.Connection, spark: SparkSession, text: str, options: argparse.Namespace
) -> tuple[dict[str, Any], bool]:
    """Measure one query; return True if its answers differ."""

    def alone() -> pa.Table:
        return spark.sql(text).toArrow()

    def through() -> pa.Table:
        with hx.plan_rule().forced(True):
            return spark.sql(text).toArrow()

    expected, rows = _rows(alone()), _rows(through())
    tables = hx.explain(spark.sql(text)).tables
    in_turn(options.warmups, alone, through)
    by_spark, by_hindex = in_turn(options.rounds, alone, through)
    lookups = [str(lookup) for table in tables for lookup in table.lookups if table.is_accelerated]
    shares = [table.rows.percent for table in tables if table.rows is not None and table.lookups]
    return {
        "spark": {"ms": by_spark},
        "hindex": {"ms": by_hindex},
        "lookups": lookups,
        "kept": shares,
        "rows": len(rows),
    }, expected != rows


def _rows(table: pa.Table) -> list[str]:
    return sorted(repr(rounded(tuple(row.values()))) for row in table.to_pylist())


def _table(measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for name, item in measured.items():
        spark, own = item["spark"]["ms"], item["hindex"]["ms"]
        rows.append(
            [
                name,
                "; ".join(dict.fromkeys(item["lookups"])) or "-",
                ", ".join(dict.fromkeys(item["kept"])) or "-",
                f"{item['rows']:,}",
                *(f"{statistics.median(times):,.0f}" for times in (spark, own)),
                ratio_text(ratios(spark, own)),
            ]
        )
    headings = ["query", "lookup joins", "rows left", "rows", "Spark ms", "hindex ms", "ratio"]
    return {"headings": headings, "rows": rows, "right": 3}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", nargs="+", metavar="QUERY", help="some of them, by their names in the table"
    )


SECTION = Section(
    "lookup-joins", "joins with a small table beside Spark alone", run, _add_options, scale=2, rounds=5
)
