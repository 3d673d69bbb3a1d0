"""Check that indexes never cost more than they save: compare scans with scans of a table without an index.

    python -m tests.bench.cost build/bench/lineitem-1/orc --columns l_orderkey l_partkey --with bitmap

For each column, rows from one to all are asked for by ranges of its values, and by other conditions; each is read with
few and with all columns. Both scans begin with nothing in memory and are run in turn, each first as often as the other.
What is compared is processor time, of all threads: the least of the rounds. On a busy machine the same work takes up to
twice as much of it; so where a case is slow, it is told whether more data was read or decoded, or only index files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hindex
from hindex.api.conditions import Expr
from hindex.api.index import IndexSpec
from hindex.api.scan import Scan
from tests.support.work import forget, scan_counts

FRACTIONS = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.99, 1.0)
#: The goal of the project: no query takes more than this many times its time without an index.
_MOST = 1.1
_LISTED = 100
#: Counts of what is read and decoded of data files.
_DATA = ("bytes_fetched", "bytes_decompressed", "row_groups", "whole_columns")


@dataclass(frozen=True, slots=True)
class Case:
    """A condition, and the fraction of the rows that it keeps."""

    name: str
    where: Expr
    kept: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--columns", nargs="+", required=True, help="columns that conditions are on")
    parser.add_argument(
        "--narrow", default="", help="the column that is read where few are; the first if not given"
    )
    parser.add_argument("--with", dest="kinds", nargs="+", default=["bitmap"], help="index types")
    parser.add_argument("--files", type=int, default=1, help="how many data files of the table are used")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worst", type=int, default=20, help="how many of the worst are named again")
    parser.add_argument(
        "--only", choices=("narrow", "same", "all"), nargs="*", default=("narrow", "same", "all")
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _measure(options, Path(folder))


def _measure(options: argparse.Namespace, folder: Path) -> int:
    part = folder / "table"
    part.mkdir()
    for file in sorted(options.table.glob("*.orc"))[: options.files]:
        (part / file.name).symlink_to(file.resolve())
    bare = hindex.connect(store=str(folder / "none")).table(str(part))
    narrow = options.narrow or bare.schema.names[0]
    spark = hindex.connect(master="local[2]").spark()
    tables = {
        kind: hindex.connect(store=str(folder / kind), spark=spark).table(str(part)) for kind in options.kinds
    }
    for kind, table in tables.items():
        table.create_indexes([IndexSpec(f"{kind}_{column}", column, kind) for column in options.columns])
    spark.stop()
    print(
        "column | condition | kept | columns | ms without |", " | ".join(f"{kind} (pages)" for kind in tables)
    )
    ratios: list[tuple[float, str]] = []
    for column in options.columns:
        values = bare.scan(None, [column]).to_arrow().column(0)
        for case in cases(column, values, options.seed):
            for shown, selected in (("narrow", [narrow]), ("same", [column]), ("all", None)):
                if shown not in options.only:
                    continue
                scans = [table.scan(case.where, selected) for table in (bare, *tables.values())]
                cpu_seconds = _times(scans, options.rounds)
                line = f"{column} | {case.name} | {case.kept:.4%} | {shown} | {1000 * cpu_seconds[0]:.1f}"
                without = scan_counts(scans[0])
                for kind, scan, seconds in zip(tables, scans[1:], cpu_seconds[1:], strict=True):
                    ratio, work = seconds / cpu_seconds[0], scan_counts(scan)
                    more = [name for name in _DATA if work[name] > without[name]]
                    line += f" | {ratio:.2f} ({work['index_pages']})"
                    description = f"more {', '.join(more)}" if more else "no more data"
                    ratios.append(
                        (ratio, f"{kind}: {column} {case.name}, {case.kept:.4%}, {shown}: {description}")
                    )
                print(line, flush=True)
    above = [item for item in ratios if item[0] > _MOST]
    print(f"{len(above)} of {len(ratios)} above {_MOST}")
    for ratio, description in sorted(ratios, reverse=True)[: options.worst]:
        print(f"  {ratio:.2f} {description}")
    return 0


def cases(column: str, values: pa.ChunkedArray, seed: int) -> Iterator[Case]:
    """Yield conditions on a column that keep from one row to all."""
    rng = np.random.default_rng(seed)
    valid = pc.drop_null(values)
    order = pc.sort_indices(valid)
    col = hindex.col(column)

    def at(fraction: float) -> Any:
        return valid[order[min(int(fraction * len(valid)), len(valid) - 1)].as_py()].as_py()

    def case(name: str, where: Expr, matches: pa.Array | pa.ChunkedArray) -> Case:
        return Case(name, where, (pc.sum(matches).as_py() or 0) / max(len(values), 1))

    some = at(0.37)
    yield case("=", col == some, pc.equal(values, some))
    yield case("<>", col != some, pc.not_equal(values, some))
    yield case("IS NOT NULL", col.is_not_null(), pc.is_valid(values))
    listed = [valid[int(i)].as_py() for i in rng.choice(len(valid), _LISTED)]
    yield case(f"IN {_LISTED}", col.isin(listed), pc.is_in(values, pa.array(listed, values.type)))
    for fraction in FRACTIONS:
        end = at(fraction)
        yield case("<=", col <= end, pc.less_equal(values, end))
    for fraction in (0.01, 0.1, 0.35, 0.65, 0.9):
        low, high = at((1 - fraction) / 2), at((1 + fraction) / 2)
        yield case(
            "BETWEEN",
            col.between(low, high),
            pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)),
        )


def _times(scans: Sequence[Scan], rounds: int) -> list[float]:
    """Measure the processor seconds of each scan, the least of some rounds."""
    least = [float("inf")] * len(scans)
    for turn in range(rounds):
        numbered = list(enumerate(scans))
        for number, scan in numbered if turn % 2 == 0 else reversed(numbered):
            forget()
            start = time.process_time()
            for _ in scan.to_batches():
                pass
            least[number] = min(least[number], time.process_time() - start)
    return least


if __name__ == "__main__":
    sys.exit(main())
