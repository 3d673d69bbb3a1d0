"""The reader beside pyarrow on the same files: few rows, rows of every row group, and all rows.

``python -m tests.bench.sparse_read --table DIR`` from the root of the checkout. Needs no Spark once the data is
there. Times are printed and never judged; the exit code is 1 where the rows differ. ``--memory`` prints instead what
reading few rows adds to a process's peak memory, and how the bytes fetched compare with those decompressed.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc

from hindex.cli.demo import COLUMNS
from hindex.orc import OrcReader
from tests.bench.data import data_files, lineitem_alone
from tests.bench.options import bench_parser
from tests.bench.report import finish, in_turn, ratios, spread

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
        return ratios(self.pyarrow_ms, self.hindex_ms)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    table = options.table or lineitem_alone(options.scale, options.dir)
    files = data_files(table)
    if not files:
        print(f"no ORC files in {table}", file=sys.stderr)
        return 2
    if options.memory_of is not None:
        return _print_memory(files, options)
    if options.memory:
        return _memory(table, files, options)
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
    report = [asdict(result) | {"ratios": result.ratios} for result in results]
    return finish(
        report, options.json, [result.selection for result in results if not result.same], "pyarrow"
    )


def _parser() -> argparse.ArgumentParser:
    parser = bench_parser(
        "sparse_read", "hindex's ORC reader beside pyarrow's.", measured="measured pairs a selection"
    )
    parser.add_argument("--threads", type=int, default=1, help="hindex's threads (default 1, as pyarrow has)")
    parser.add_argument("--seed", type=int, default=1, help="of the scattered rows (default 1)")
    parser.add_argument("--memory", action="store_true", help="measure memory and bytes instead of times")
    parser.add_argument("--memory-of", choices=_MEMORY, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=int, help=argparse.SUPPRESS)
    return parser


_MEMORY = ("groups", "rows")


def _memory(table: Path, files: Sequence[Path], options: argparse.Namespace) -> int:
    """Each selection in a process of its own, for each file and for all files after another."""
    print(f"{'selection':<10}{'file':>6}{'peak MB':>10}{'fetched':>14}{'chunks':>14}{'ratio':>8}")
    for selection in _MEMORY:
        for number in (*range(len(files)), None):
            command = [sys.executable, "-m", "tests.bench.sparse_read", "--table", str(table)]
            command += [
                "--memory-of",
                selection,
                "--threads",
                str(options.threads),
                "--seed",
                str(options.seed),
            ]
            command += [] if number is None else ["--file", str(number)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            fetched, chunks = found["bytes_fetched"], found["chunk_bytes"]
            # chunks of columns that pyarrow decodes are not told apart
            ratio = f"{fetched / chunks:.3f}" if not found["dense_columns"] else "-"
            name = "all" if number is None else str(number)
            print(f"{selection:<10}{name:>6}{found['peak_mb']:>10.1f}{fetched:>14,}{chunks:>14,}{ratio:>8}")
    return 0


def _print_memory(files: Sequence[Path], options: argparse.Namespace) -> int:
    """Read in this process, and print the peak above what it had with everything imported and a row read."""
    rng = np.random.default_rng(options.seed)
    chosen = files if options.file is None else files[options.file : options.file + 1]
    with OrcReader(files[0]) as reader:
        reader.read(["l_linenumber"], [5], threads=options.threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, float] = {}
    for file in chosen:
        with OrcReader(file) as reader:
            stride, selection = reader.tail.row_index_stride, {}
            for number, stripe in enumerate(reader.stripes):
                if options.memory_of == "rows":
                    selection[number] = _scattered(stripe.num_rows, stride, rng)
                else:
                    starts = range(0, stripe.num_rows, GROUPS_APART * stride)
                    ends = [min(start + stride, stripe.num_rows) for start in starts]
                    selection[number] = np.concatenate(list(map(np.arange, starts, ends)))
            reader.read(COLUMNS, selection, threads=options.threads)
            for key, value in reader.counts.as_dict().items():
                found[key] = found.get(key, 0) + value
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(found | {"peak_mb": (after - before) / 1024}))
    return 0


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
    mine, others = in_turn(options.rounds, ours, theirs)
    rows = ours().num_rows
    return Result(name, rows, same, mine, others, dict(counts))


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


_HEADINGS = ("rows wanted", "rows", "same", "hindex ms", "pyarrow ms", "ratio", "min - max")
_CELLS = "{:<32}{:>12}{:>6}{:>12}{:>12}{:>8}{:>16}"


def _row(result: Result) -> tuple[str, ...]:
    return (
        result.selection,
        f"{result.rows:,}",
        "yes" if result.same else "NO",
        f"{statistics.median(result.hindex_ms):,.1f}",
        f"{statistics.median(result.pyarrow_ms):,.1f}",
        f"{statistics.median(result.ratios):.2f}",
        spread(result.ratios, 2),
    )


if __name__ == "__main__":
    sys.exit(main())
