"""Measure manifests of large tables, of 10^3 to 10^6 data files that do not exist: read, plan, commit.

A MINMAX index of a column that is clustered, and one of a column that is not. Each size is measured in a fresh process:
seconds to read the manifest, to compare a listing with it, to plan a query of ``column = value`` and to make the tasks
of the files that it keeps, the process's peak memory, and what a commit of ten changed files writes. Up to 10^5 files
are listed, too: empty ones of the same names on a local disk, in directories of 1,000.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hindex.cli.progress import progress_for
from hindex.index.column_stats import ColumnStats
from hindex.scan.planning import plan_scan
from hindex.sql import parse_predicate
from hindex.store.file_views import FileKind, FileViews
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, Manifest, merge_build_result
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store
from hindex.table.listing import DataFiles, Int64s, Listing, list_data_files
from hindex.table.schema import merge_schemas
from hindex.table.type_text import parse_type
from tests.bench.processes import peak_bytes
from tests.bench.section import Section, SectionResult
from tests.bench.timing import spread

_ROWS = (1_000_000, 1_000_000, 500_000)
_SCHEMA = "struct<id:bigint,key:bigint>"
# files that one commit adds
_TOGETHER = 100_000
# files that are made, so that they can be listed
_MAX_LISTED = 100_000


def make_table(store: Store, files: int) -> None:
    """Commit a manifest of the given number of data files."""
    indexes = [
        IndexEntry(f"{at:032x}", f"m_{column}", column, "minmax", "bigint")
        for at, column in enumerate(("id", "key"))
    ]
    rng = random.Random(files)
    store.commit(lambda old: merge_build_result(old, new_indexes=indexes))
    for start in range(0, files, _TOGETHER):
        entries = _entries(indexes, range(start, min(start + _TOGETHER, files)), files, rng)
        store.commit(lambda old, entries=entries: merge_build_result(old, files=entries))  # type: ignore[misc]


def _entries(
    indexes: Sequence[IndexEntry], numbers: range, files: int, rng: random.Random
) -> list[FileEntry]:
    entries = []
    for number in numbers:
        # half the extents of the other column hold any one value
        spread = sorted(rng.sample(range(files * sum(_ROWS)), 4))
        clustered = number * sum(_ROWS)
        extents = [
            tuple(
                ColumnStats(rows, 0, clustered + at, clustered + at + rows) for at, rows in enumerate(_ROWS)
            ),
            tuple(ColumnStats(rows, 3, spread[at], spread[at + 1]) for at, rows in enumerate(_ROWS)),
        ]
        own = tuple(
            IndexFileEntry(
                item.id, f"data/{item.id}/{uuid.uuid4().hex}-{uuid.uuid4().hex}.hidx", 5000, number, stats
            )
            for item, stats in zip(indexes, extents, strict=True)
        )
        path = f"day={number // 1000:05}/part-{number:07}-{uuid.uuid4()}.orc"
        mtime = 1_700_000_000_000_000_000 + rng.randrange(10**15)
        entries.append(FileEntry(path, 100_000_000 + number, mtime, number, sum(_ROWS), _ROWS, _SCHEMA, own))
    return entries


def snapshot_of(store: Store, manifest: Manifest) -> Snapshot:
    """Return a snapshot whose listing has every file unchanged since it was indexed."""
    root = parse_type(_SCHEMA)
    columns = tuple(zip(root.field_names, root.children, strict=True))
    tables = [segment.table for segment in manifest.entries.segments]
    paths = [path for table in tables for path in table.paths.to_pylist()]

    def joined(name: str) -> Int64s:
        return np.concatenate([getattr(table, name) for table in tables])

    files = DataFiles(
        paths,
        "/t",
        joined("lengths"),
        joined("mtimes_ns"),
        joined("changed_ns"),
        np.ones(len(paths), np.bool_),
        [()],
        np.zeros(len(paths), np.int64),
    )
    listing = Listing("/t", False, files)
    views, _ = FileViews.matched(files, manifest.entries)
    views = views.with_contents(
        views.tail_checksums,
        [FileKind(columns, tuple(root.field_names))],
        np.zeros(len(paths), np.int64),
        joined("num_rows"),
        joined("num_stripes"),
        joined("num_row_groups"),
    )
    return Snapshot("t", store, listing, manifest, merge_schemas([("", columns)], []), views)


def make_files(root: Path, store: Store) -> None:
    """Make an empty file for each of a manifest."""
    manifest = store.load()
    assert manifest is not None
    for segment in manifest.entries.segments:
        for name in segment.table.paths.to_pylist():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def measure(root: str, files: int) -> dict[str, float]:
    """Read a manifest, plan a query by it and change it, in this process; list its files, if there are any."""
    root, table = f"{root}/store", Path(root, "table")
    store = Store(root, "/t")
    measurements: dict[str, float] = {}
    if table.exists():
        began = time.perf_counter()
        assert len(list_data_files(str(table)).files) == files
        measurements["list_s"] = time.perf_counter() - began
    started = time.perf_counter()
    manifest = store.load()
    assert manifest is not None
    manifest.entries.fetch()
    measurements["load_s"] = time.perf_counter() - started
    began = time.perf_counter()
    snapshot = snapshot_of(store, manifest)
    measurements["match_s"] = time.perf_counter() - began
    for index in manifest.indexes:
        where = parse_predicate(f"{index.column} = {files // 2 * sum(_ROWS)}")
        began = time.perf_counter()
        plan = plan_scan(snapshot, where, None)
        measurements[f"{index.column}_s"] = time.perf_counter() - began
        measurements[f"{index.column}_kept"] = len(plan.tasks)
        began = time.perf_counter()
        for _ in plan.tasks:
            pass
        measurements[f"{index.column}_tasks_s"] = time.perf_counter() - began
    measurements["peak_bytes"] = peak_bytes()
    before = {path: path.stat().st_size for path in Path(root).rglob("*.*")}
    # imports pandas, which a process that builds has imported
    pa.array([1])
    # other times than those of the rounds before
    changed = [replace(manifest.files[at * files // 10], mtime_ns=time.time_ns()) for at in range(10)]
    began = time.perf_counter()
    Store(root, "/t").commit(lambda old: merge_build_result(old, files=changed))
    measurements["commit_s"] = time.perf_counter() - began
    written = [path.stat().st_size for path in Path(root).rglob("*.*") if path not in before]
    assert written, "nothing was committed"
    return measurements | {"written_bytes": sum(written), "bytes": sum(before.values())}


def run(options: argparse.Namespace) -> SectionResult:
    sizes = options.files[:2] if options.quick else options.files
    progress = progress_for(sys.stderr)
    progress.start(len(sizes) * (1 + options.rounds), "Manifests")
    rounds_by_files: dict[int, list[dict[str, float]]] = {}
    for files in sizes:
        with tempfile.TemporaryDirectory(dir=options.data) as root:
            store = Store(f"{root}/store", "/t")
            make_table(store, files)
            if files <= _MAX_LISTED:
                make_files(Path(root, "table"), store)
            progress.advance()
            for _ in range(options.rounds):
                command = [sys.executable, "-m", "tests.bench.planning", root, str(files)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                rounds_by_files.setdefault(files, []).append(json.loads(done.stdout))
                progress.advance()
    progress.finish()
    return SectionResult(
        {
            "measured": {str(files): rounds for files, rounds in rounds_by_files.items()},
            "tables": [_table(rounds_by_files)],
        }
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6], help="default: 10^3 to 10^6"
    )


SECTION = Section(
    "planning",
    "manifests of 10^3 to 10^6 files",
    run,
    _add_options,
    rounds=3,
)


def _table(rounds_by_files: dict[int, list[dict[str, float]]]) -> dict[str, Any]:
    def median(rounds: list[dict[str, float]], name: str) -> str:
        values = [item[name] for item in rounds]
        return f"{statistics.median(values):.3f} ({spread(values, 3)})"

    rows = [
        [
            f"{files:,}",
            median(rounds, "list_s") if "list_s" in rounds[0] else "-",
            median(rounds, "load_s"),
            median(rounds, "match_s"),
            f"{median(rounds, 'id_s')}, {rounds[0]['id_kept']:,.0f}",
            f"{median(rounds, 'key_s')}, {rounds[0]['key_kept']:,.0f}",
            median(rounds, "key_tasks_s"),
            f"{max(item['peak_bytes'] for item in rounds) / 2**20:,.0f}",
            median(rounds, "commit_s"),
            f"{rounds[0]['written_bytes'] / 1e6:.2f} of {rounds[0]['bytes'] / 1e6:.2f}",
        ]
        for files, rounds in rounds_by_files.items()
    ]
    headings = [
        *(
            "files",
            "list, s",
            "read, s",
            "compare with a listing, s",
            "plan clustered, s, files kept",
            "plan spread, s, files kept",
            "tasks of these, s",
            "peak MiB",
        ),
        *("commit of ten changed files, s", "MB written"),
    ]
    return {"headings": headings, "rows": rows, "right": 0}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
