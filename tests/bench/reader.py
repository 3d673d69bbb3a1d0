"""Compare the reader with pyarrow on the same files: few rows, rows of every row group, and all rows.

The reads select rows by number and use no index. Each has one thread, or one for each processor; the threads of
pyarrow are those of its caller. The section also measures the peak memory that reading few rows adds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc

from hindex.cli.demo import COLUMNS
from hindex.cli.progress import progress_for
from hindex.orc import OrcReader
from tests.bench.data import Dataset, data_files
from tests.bench.making import ensure_table
from tests.bench.processes import peak_bytes
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios, spread

#: The first selection reads one row group of this many.
GROUPS_APART = 30
#: The second selection reads this many rows of each row group.
ROWS_OF_GROUP = 4

Rows = npt.NDArray[np.int64]
#: Row numbers within the stripe, for each stripe of a file; None for all rows.
Selection = dict[int, Rows] | None


@dataclass(frozen=True, slots=True)
class Result:
    """One selection: times in milliseconds by threads, one for each round, and the work of one thread in all files."""

    selection: str
    rows: int
    same: bool
    hindex_ms: dict[int, list[float]]
    pyarrow_ms: dict[int, list[float]]
    counts: dict[str, int]


def run(options: argparse.Namespace) -> SectionResult:
    table = ensure_table(Dataset("lineitem", options.scale), options.data)
    files = data_files(table)
    rng = np.random.default_rng(options.seed)
    makers: dict[str, Callable[[int, int], Rows] | None] = {
        f"1 row group of {GROUPS_APART}, whole": _groups_apart,
        f"{ROWS_OF_GROUP} rows of every row group": lambda rows, stride: _scattered(rows, stride, rng),
        "all rows": None,
    }
    progress = progress_for(sys.stderr)
    progress.start(len(makers), "Reading rows by number")
    results = []
    for name, make in makers.items():
        selections = [_selection(file, make) for file in files]
        results.append(_measure(name, files, selections, options))
        progress.advance()
    progress.finish()
    memory = _memory(options)
    return SectionResult(
        {
            "results": [asdict(result) for result in results],
            "memory": memory,
            "tables": [_times(results), _counts(results), _memory_table(memory)],
        },
        [f"{result.selection}, from pyarrow's" for result in results if not result.same],
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="where there are several (default the processors)",
    )


SECTION = Section("reader", "hindex's ORC reader beside pyarrow's, given row numbers", run, _add_options)

_MEMORY = ("groups", "rows")


def _memory(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Read each selection in a separate process, and measure the peak memory that it adds."""
    measurements = []
    for selection in _MEMORY:
        for threads in _threads(options):
            dataset = Dataset("lineitem", options.scale).name
            arguments = [selection, dataset, str(options.data), str(threads), str(options.seed)]
            command = [sys.executable, "-m", "tests.bench.reader", *arguments]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measurements.append({"selection": selection, "threads": threads} | json.loads(done.stdout))
    return measurements


def _threads(options: argparse.Namespace) -> list[int]:
    """Return the numbers of threads to try."""
    return sorted({1, options.threads})


def _read_for_memory(
    selection_name: str, dataset: str, data: str, threads: int, seed: int
) -> dict[str, float]:
    """Read in this process, and return the peak memory above that after all imports and one row."""
    files = data_files(Dataset.parse(dataset).orc(Path(data)))
    rng = np.random.default_rng(seed)
    with OrcReader(files[0]) as reader:
        reader.read(["l_linenumber"], [5], threads=threads)
    before = peak_bytes()
    counts: dict[str, float] = {}
    for file in files:
        with OrcReader(file) as reader:
            stride, selection = reader.tail.row_index_stride, {}
            for number, stripe in enumerate(reader.stripes):
                if selection_name == "rows":
                    selection[number] = _scattered(stripe.num_rows, stride, rng)
                else:
                    starts = range(0, stripe.num_rows, GROUPS_APART * stride)
                    ends = [min(start + stride, stripe.num_rows) for start in starts]
                    selection[number] = np.concatenate(list(map(np.arange, starts, ends)))
            reader.read(COLUMNS, selection, threads=threads)
            for key, value in reader.counts.as_dict().items():
                counts[key] = counts.get(key, 0) + value
    return counts | {"peak_mb": (peak_bytes() - before) / 2**20}


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

    def read_hindex(threads: int) -> pa.Table:
        counts.clear()
        tables = []
        for file, selection in zip(files, selections, strict=True):
            with OrcReader(file) as reader:
                tables.append(reader.read(COLUMNS, selection, threads=threads))
                for key, value in reader.counts.as_dict().items():
                    counts[key] = counts.get(key, 0) + value
        return pa.concat_tables(tables)

    def read_pyarrow(threads: int) -> pa.Table:
        read = partial(_pyarrow_read, threads=threads)
        return pa.concat_tables(map(read, files, selections))

    tried = _threads(options)
    runs = [partial(run, threads) for threads in tried for run in (read_hindex, read_pyarrow)]
    same = all(_equal(read_hindex(threads), read_pyarrow(threads)) for threads in tried)
    for _ in range(options.warmups - 1):
        for run in runs:
            run()
    times = in_turn(options.rounds, *runs)
    rows = read_hindex(1).num_rows
    own_ms, other_ms = (dict(zip(tried, part, strict=True)) for part in (times[::2], times[1::2]))
    return Result(name, rows, same, own_ms, other_ms, dict(counts))


def _pyarrow_read(file: Path, selection: Selection, threads: int) -> pa.Table:
    """Read with pyarrow alone: decode the whole columns of each stripe, then take the selected rows."""

    def read(stripe: int) -> pa.RecordBatch:
        # a reader is not to be shared between threads
        own = reader if threads == 1 else pyarrow.orc.ORCFile(file)
        batch = own.read_stripe(stripe, columns=COLUMNS)
        return batch if selection is None else batch.take(pa.array(selection[stripe]))

    reader = pyarrow.orc.ORCFile(file)
    stripes = range(reader.nstripes)
    if threads == 1:
        batches = list(map(read, stripes))
    else:
        with ThreadPoolExecutor(threads) as pool:
            batches = list(pool.map(read, stripes))
    return pa.Table.from_batches(batches).select(COLUMNS)


def _equal(own: pa.Table, other: pa.Table) -> bool:
    return bool(own.equals(other.cast(own.schema)))


def _times(results: Sequence[Result]) -> dict[str, Any]:
    rows = []
    for result in results:
        one, several = min(result.hindex_ms), max(result.hindex_ms)
        # the second pair is what each does where no threads are asked for
        for own_threads, other_threads in dict.fromkeys(((one, one), (several, one), (several, several))):
            own_ms, other_ms = result.hindex_ms[own_threads], result.pyarrow_ms[other_threads]
            factors = ratios(other_ms, own_ms)
            rows.append(
                [
                    result.selection,
                    f"{result.rows:,}",
                    f"{own_threads} and {other_threads}",
                    f"{statistics.median(own_ms):,.1f}",
                    f"{statistics.median(other_ms):,.1f}",
                    f"{statistics.median(factors):.2f}",
                    spread(factors, 2),
                ]
            )
    headings = ["rows wanted", "rows", "threads", "hindex ms", "pyarrow ms", "ratio", "min - max"]
    return {"headings": headings, "rows": rows}


def _counts(results: Sequence[Result]) -> dict[str, Any]:
    names = list(results[0].counts)
    rows = [[result.selection, *(f"{result.counts[name]:,}" for name in names)] for result in results]
    return {"title": "What the reader did:", "headings": ["rows wanted", *names], "rows": rows}


def _memory_table(memory: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rows = [
        [
            item["selection"],
            str(item["threads"]),
            f"{item['peak_mb']:.1f}",
            f"{item['bytes_fetched']:,.0f}",
            f"{item['chunk_bytes']:,.0f}",
        ]
        for item in memory
    ]
    headings = ["rows wanted", "threads", "MB added to the peak", "bytes fetched", "bytes of chunks"]
    return {"title": "Memory, each in a process of its own:", "headings": headings, "rows": rows}


if __name__ == "__main__":
    _, selection, dataset, data, threads, seed = sys.argv
    print(json.dumps(_read_for_memory(selection, dataset, data, int(threads), int(seed))))
