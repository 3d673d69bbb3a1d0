"""The reader beside pyarrow on the same files: few rows, rows of every row group, and all rows.

``python -m tests.bench.sparse_read --table DIR`` from the root of the checkout. Needs no Spark once the data is
there. Times are printed and never judged; the exit code is 1 where the rows differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc

from hindex.orc import OrcReader
from tests.bench.data import DEFAULT_DIRECTORY, data_files, lineitem

COLUMNS = ["l_orderkey", "l_extendedprice", "l_shipdate", "l_shipmode", "l_comment"]
#: Of the first selection: one row group is wanted of so many.
GROUPS_APART = 30
#: Of the second selection: so many rows are wanted of each row group.
ROWS_OF_GROUP = 4

Rows = npt.NDArray[np.int64]
#: Row numbers within the stripe, for each stripe of a file; None for all rows.
Selection = dict[int, Rows] | None


@dataclass(frozen=True, slots=True)
class Result:
    """One selection: times in milliseconds, a pair for each round, and what the reader did, in all files."""

    selection: str
    rows: int
    same: bool
    hindex_ms: list[float]
    pyarrow_ms: list[float]
    counts: dict[str, int]

    @property
    def ratios(self) -> list[float]:
        """How many times faster hindex was, pair by pair."""
        return [theirs / ours for ours, theirs in zip(self.hindex_ms, self.pyarrow_ms, strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    table = options.table or _made(options.scale, options.dir)
    files = data_files(table)
    if not files:
        print(f"no ORC files in {table}", file=sys.stderr)
        return 2
    rng = np.random.default_rng(options.seed)
    makers: dict[str, Callable[[int, int], Rows] | None] = {
        f"1 row group of {GROUPS_APART}, whole": _groups_apart,
        f"{ROWS_OF_GROUP} rows of every row group": lambda rows, stride: _scattered(rows, stride, rng),
        "all rows": None,
    }
    print(
        f"{len(files)} files, {', '.join(COLUMNS)}; hindex on {options.threads} thread(s); seed {options.seed}\n"
    )
    print(f"{_CELLS.format(*_HEADINGS)}\n{'-' * 100}", flush=True)
    results = []
    for name, make in makers.items():
        selections = [_selection(file, make) for file in files]
        result = _measure(name, files, selections, options)
        results.append(result)
        print(_CELLS.format(*_row(result)), flush=True)
    print()
    for result in results:
        counts = ", ".join(f"{key} {value:,}" for key, value in result.counts.items())
        print(f"{result.selection}: {counts}")
    if options.json is not None:
        report = [asdict(result) | {"ratios": result.ratios} for result in results]
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    different = [result.selection for result in results if not result.same]
    if different:
        print(f"rows differ from pyarrow's: {'; '.join(different)}", file=sys.stderr)
    return 1 if different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.sparse_read", description="hindex's ORC reader beside pyarrow's."
    )
    parser.add_argument("--scale", type=float, default=2, help="TPC-H scale factor (default 2)")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="where the data is made and kept")
    parser.add_argument("--table", type=Path, help="a directory with lineitem as ORC, instead of making one")
    parser.add_argument("--rounds", type=int, default=7, help="measured pairs a selection (default 7)")
    parser.add_argument("--warmups", type=int, default=1, help="pairs before them (default 1)")
    parser.add_argument("--threads", type=int, default=1, help="hindex's threads (default 1, as pyarrow has)")
    parser.add_argument("--seed", type=int, default=1, help="of the scattered rows (default 1)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser


def _made(scale: float, directory: Path) -> Path:
    from hindex.spark.session import local_session

    spark = local_session(app_name="hindex-bench")
    try:
        return lineitem(spark, scale, directory)
    finally:
        spark.stop()


def _groups_apart(rows: int, stride: int) -> Rows:
    return np.flatnonzero(np.arange(rows) // stride % GROUPS_APART == 0).astype(np.int64)


def _scattered(rows: int, stride: int, rng: np.random.Generator) -> Rows:
    picked = [
        start + rng.choice(min(stride, rows - start), min(ROWS_OF_GROUP, rows - start), replace=False)
        for start in range(0, rows, stride)
    ]
    return np.sort(np.concatenate(picked)).astype(np.int64)


def _selection(file: Path, make: Callable[[int, int], Rows] | None) -> Selection:
    if make is None:
        return None
    with OrcReader(file) as reader:
        stride = reader.tail.row_index_stride
        return {number: make(stripe.num_rows, stride) for number, stripe in enumerate(reader.stripes)}


def _measure(
    name: str, files: Sequence[Path], selections: Sequence[Selection], options: argparse.Namespace
) -> Result:
    counts: dict[str, int] = {}

    def ours() -> pa.Table:
        counts.clear()
        tables = []
        for file, selection in zip(files, selections, strict=True):
            with OrcReader(file) as reader:
                tables.append(reader.read(COLUMNS, selection, threads=options.threads))
                for key, value in reader.counts.as_dict().items():
                    counts[key] = counts.get(key, 0) + value
        return pa.concat_tables(tables)

    def theirs() -> pa.Table:
        return pa.concat_tables(map(_pyarrow_read, files, selections))

    same = _equal(ours(), theirs())
    for _ in range(options.warmups - 1):
        ours()
        theirs()
    pairs = [(_milliseconds(ours), _milliseconds(theirs)) for _ in range(options.rounds)]
    rows = ours().num_rows
    return Result(name, rows, same, [mine for mine, _ in pairs], [other for _, other in pairs], dict(counts))


def _pyarrow_read(file: Path, selection: Selection) -> pa.Table:
    """What can be done with pyarrow alone: decode the columns of each stripe whole, take the wanted rows."""
    reader = pyarrow.orc.ORCFile(file)
    batches = []
    for stripe in range(reader.nstripes):
        batch = reader.read_stripe(stripe, columns=COLUMNS)
        batches.append(batch if selection is None else batch.take(pa.array(selection[stripe])))
    return pa.Table.from_batches(batches).select(COLUMNS)


def _equal(ours: pa.Table, theirs: pa.Table) -> bool:
    return bool(ours.equals(theirs.cast(ours.schema)))


def _milliseconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return round((time.perf_counter() - started) * 1000, 3)


_HEADINGS = ("rows wanted", "rows", "same", "hindex ms", "pyarrow ms", "ratio", "min - max")
_CELLS = "{:<32}{:>12}{:>6}{:>12}{:>12}{:>8}{:>16}"


def _row(result: Result) -> tuple[str, ...]:
    ratios = result.ratios
    return (
        result.selection,
        f"{result.rows:,}",
        "yes" if result.same else "NO",
        f"{statistics.median(result.hindex_ms):,.1f}",
        f"{statistics.median(result.pyarrow_ms):,.1f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} - {max(ratios):.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
