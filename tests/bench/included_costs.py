"""Build time and bytes of included columns, by their number and type: ``python -m tests.bench included-costs``.

Each set of columns of TPC-H lineitem is built as a ROWS index in a store of its own, by a build in this process. The
bytes stand beside those of the same columns in the data files. A point query then reads the columns at some 30 rows of
all stripes, with the index and without it, in turn.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from hindex.orc import OrcReader
from tests.bench.data import Dataset, data_files
from tests.bench.making import ensure_table
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios

#: Sets of columns by the row of the table.
SETS = {
    "1 integer": ("l_suppkey",),
    "4 integers": ("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber"),
    "1 decimal": ("l_extendedprice",),
    "4 decimals": ("l_quantity", "l_extendedprice", "l_discount", "l_tax"),
    "1 date": ("l_shipdate",),
    "3 dates": ("l_shipdate", "l_commitdate", "l_receiptdate"),
    "1 of few strings": ("l_shipmode",),
    "4 of few strings": ("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"),
    "1 of distinct strings": ("l_comment",),
    "all 16": (),
}
_KEYS = 10


def run(options: argparse.Namespace) -> SectionResult:
    dataset = Dataset("lineitem", options.scale)
    path = ensure_table(dataset, options.data)
    directory = options.data / dataset.name / "included-costs"
    shutil.rmtree(directory, ignore_errors=True)
    names = OrcReader(str(data_files(path)[0])).schema.names
    plain = _indexed(path, directory / "plain")
    progress = progress_for(sys.stderr)
    progress.start(len(SETS), f"Building included columns of {dataset.name}")
    measured: dict[str, dict[str, Any]] = {}
    different = []
    try:
        for at, (name, columns) in enumerate(SETS.items()):
            table = _indexed(path, directory / str(at))
            measured[name], differs = _measure(path, table, plain, list(columns or names), options)
            different += [name] if differs else []
            progress.advance()
    finally:
        progress.finish()
        shutil.rmtree(directory, ignore_errors=True)
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


def _indexed(path: Path, store: Path) -> hindex.Table:
    """Return the table with an index on the column of the queries in a store of its own."""
    table = hindex.connect(str(store)).table(str(path))
    table.create_index("by_part", "l_partkey", "bitmap")
    return table


def _measure(
    path: Path, table: hindex.Table, plain: hindex.Table, columns: list[str], options: argparse.Namespace
) -> tuple[dict[str, Any], bool]:
    """Include columns, and read them at the rows of some keys; return True if the rows differ."""
    start = perf_counter()
    table.create_index("copies", columns, "rows")
    seconds = perf_counter() - start
    wheres = [f"l_partkey = {key}" for key in range(1, 200_000, 200_000 // _KEYS)]

    def query(source: hindex.Table) -> list[pa.Table]:
        return [source.scan(where, columns).to_arrow() for where in wheres]

    differs = query(plain) != query(table)
    runs = partial(query, plain), partial(query, table)
    in_turn(options.warmups, *runs)
    without, included = in_turn(options.rounds, *runs)
    (built,) = (index for index in table.indexes() if index.name == "copies")
    return {
        "columns": columns,
        "seconds": seconds,
        "bytes": built.size_bytes,
        "data_bytes": _data_bytes(path, columns),
        "without_ms": without,
        "included_ms": included,
    }, differs


def _data_bytes(path: Path, columns: Sequence[str]) -> int:
    """Return the stored bytes of some columns in the data files."""
    total = 0
    for file in data_files(path):
        reader = OrcReader(str(file))
        schema = reader.tail.schema
        numbers = [schema.children[schema.field_names.index(name)].column for name in columns]
        total += sum(
            reader.stripe(stripe).data_length(number)
            for stripe in range(len(reader.stripes))
            for number in numbers
        )
    return total


def _table(measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for name, item in measured.items():
        rows.append(
            [
                name,
                f"{item['seconds']:.1f}",
                f"{item['bytes'] / 1e6:,.1f}",
                f"{item['bytes'] / item['data_bytes']:.2f}",
                *(f"{statistics.median(item[kind]) / _KEYS:,.1f}" for kind in ("without_ms", "included_ms")),
                ratio_text(ratios(item["without_ms"], item["included_ms"])),
            ]
        )
    headings = ["columns", "build s", "MB", "of the data's MB", "ms without", "ms with", "ratio"]
    return {"headings": headings, "rows": rows, "right": 1}


SECTION = Section(
    "included-costs",
    "build time and bytes of included columns by number and type, and what they save",
    run,
    rounds=5,
)
