"""Run the needles in DuckDB and Polars over ``Table.dataset()``, and over the whole scan, which they filter."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from tests.bench.compare import digest
from tests.bench.data import Dataset
from tests.bench.making import ensure_table
from tests.bench.predicates import columns, sql
from tests.bench.queries import Query, needles
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios
from tests.support import local_build
from tests.support.local_build import LocalConnection


def run(options: argparse.Namespace) -> SectionResult:
    dataset = Dataset("lineitem", options.scale)
    path = str(ensure_table(dataset, options.data))
    local_build.install()
    store = str(options.data / dataset.name / "pushdown")
    specs = [hindex.IndexSpec(column, column) for column in dataset.indexed]
    LocalConnection(store).table(path).create_indexes(specs, if_not_exists=True)
    table = hindex.connect(store).table(path)
    queries = needles(options.scale)
    progress = progress_for(sys.stderr)
    progress.start(2 * len(queries), f"datasets on {dataset.name}")
    measured: dict[str, dict[str, Any]] = {}
    different: list[str] = []
    database = duckdb.connect()
    for query in queries:
        for engine, (pushed, whole) in _runs(table, query, database).items():
            rows = [run() for run in (pushed, whole)]
            if digest(rows[0]) != digest(rows[1]):
                different.append(f"{query.name} in {engine}")
            in_turn(options.warmups, pushed, whole)
            dataset_ms, scan_ms = in_turn(options.rounds, pushed, whole)
            measured[f"{query.name} {engine}"] = {
                "query": query.name,
                "engine": engine,
                "rows": rows[0].num_rows,
                "dataset": dataset_ms,
                "scan": scan_ms,
            }
            progress.advance()
    progress.finish()
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


def _runs(
    table: hindex.Table, query: Query, database: duckdb.DuckDBPyConnection
) -> Mapping[str, tuple[Callable[[], pa.Table], Callable[[], pa.Table]]]:
    """Return a query's runs by engine: over the dataset and over the whole scan, planning included."""
    assert query.where is not None
    where, selected = sql(query.where), list(query.columns or ())
    needed = list(dict.fromkeys((*selected, *columns(query.where))))

    def by_duckdb(source: object) -> pa.Table:
        database.register("source", source)
        return database.sql(f"SELECT {', '.join(selected)} FROM source WHERE {where}").to_arrow_table()

    def by_polars(frame: pl.LazyFrame) -> pa.Table:
        return frame.filter(pl.sql_expr(where)).select(selected).collect().to_arrow()

    return {
        "DuckDB": (
            lambda: by_duckdb(table.dataset()),
            lambda: by_duckdb(table.scan(columns=needed).to_reader()),
        ),
        "Polars": (
            lambda: by_polars(pl.scan_pyarrow_dataset(table.dataset())),
            lambda: by_polars(pl.DataFrame(table.scan(columns=needed)).lazy()),
        ),
    }


def _table(measured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for item in measured.values():
        medians = [f"{statistics.median(item[source]):,.0f}" for source in ("scan", "dataset")]
        ratio = ratio_text(ratios(item["scan"], item["dataset"]))
        rows.append([item["query"], item["engine"], f"{item['rows']:,}", *medians, ratio])
    headings = ["query", "engine", "rows", "whole scan ms", "dataset ms", "ratio"]
    return {"headings": headings, "rows": rows, "right": 2}


SECTION = Section(
    "engines", "the six queries through DuckDB and Polars, pushed down and over the whole scan", run, scale=1
)
