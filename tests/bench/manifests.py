"""Measure how manifests of large tables are loaded, pruned and changed. Run as a program.

Makes up a table of 10^3 to 10^6 data files (``--files`` names other numbers) with a MINMAX index of a column that is
clustered, and of one that is not; no data file exists. Each size is measured in a fresh process: seconds to load the
manifest, seconds to prune it for ``column = value`` by the extents in it, the process's peak memory, and what a
commit of ten changed files writes. Nothing is asserted: look at the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

from hindex.domain import Domain, Range
from hindex.index.extent import Extent
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, merge_build_result
from hindex.store.store import Store

_ROWS = (1_000_000, 1_000_000, 500_000)
_SCHEMA = "struct<id:bigint,key:bigint>"


def make_table(store: Store, files: int) -> None:
    """Commit a manifest of so many data files."""
    indexes = [
        IndexEntry(f"{at:032x}", f"m_{column}", column, "minmax", "bigint")
        for at, column in enumerate(("id", "key"))
    ]
    rng = random.Random(files)
    entries = []
    for number in range(files):
        # half the extents of the other column hold any one value
        spread = sorted(rng.sample(range(files * sum(_ROWS)), 4))
        clustered = number * sum(_ROWS)
        extents = [
            tuple(Extent(rows, 0, clustered + at, clustered + at + rows) for at, rows in enumerate(_ROWS)),
            tuple(Extent(rows, 3, spread[at], spread[at + 1]) for at, rows in enumerate(_ROWS)),
        ]
        own = tuple(
            IndexFileEntry(
                item.id, f"data/{item.id}/{uuid.uuid4().hex}-{uuid.uuid4().hex}.hidx", 5000, number, of
            )
            for item, of in zip(indexes, extents, strict=True)
        )
        path = f"day={number // 1000:05}/part-{number:07}-{uuid.uuid4()}.orc"
        mtime = 1_700_000_000_000_000_000 + rng.randrange(10**15)
        entries.append(FileEntry(path, 100_000_000 + number, mtime, number, sum(_ROWS), _ROWS, _SCHEMA, own))
    store.commit(lambda old: merge_build_result(old, new_indexes=indexes, files=entries))


def measure(root: str, files: int) -> dict[str, object]:
    """Load, prune and change a manifest in this process."""
    started = time.perf_counter()
    manifest = Store(root, "/t").load()
    loaded = time.perf_counter()
    assert manifest is not None
    wanted = Domain((Range(files // 2 * sum(_ROWS), files // 2 * sum(_ROWS)),))
    kept = {}
    for index in manifest.indexes:
        began = time.perf_counter()
        mask = manifest.entries.may_match(index.id, wanted, lambda schema: schema == _SCHEMA)
        found = [manifest.files[int(at)] for at in mask.nonzero()[0][:10]]
        kept[index.column] = (int(mask.sum()), round(time.perf_counter() - began, 3), len(found))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.perf_counter()
    before = {path: path.stat().st_size for path in Path(root).rglob("*.*")}
    changed = [replace(manifest.files[at * files // 10], mtime_ns=at) for at in range(10)]
    Store(root, "/t").commit(lambda old: merge_build_result(old, files=changed))
    committed = time.perf_counter() - began
    written = [path.stat().st_size for path in Path(root).rglob("*.*") if path not in before]
    return {
        "files": files,
        "load_s": round(loaded - started, 3),
        "prune_id": kept["id"],
        "prune_key": kept["key"],
        "peak_mib": round(peak),
        "commit_s": round(committed, 3),
        "files_written": len(written),
        "bytes_written": sum(written),
        "bytes_before": sum(before.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--measure", metavar="ROOT", help="measure a store that exists already")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.files[0])))
        return
    print(
        "    files   load s  prune clustered (kept, s)  prune spread (kept, s)  peak MiB  ten files: s, files, bytes"
    )
    for files in arguments.files:
        with tempfile.TemporaryDirectory() as root:
            make_table(Store(root, "/t"), files)
            command = [
                sys.executable,
                "-m",
                "tests.bench.manifests",
                "--measure",
                root,
                "--files",
                str(files),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
        print(
            f"{files:9,} {found['load_s']:8.3f}  {found['prune_id'][0]:9,} {found['prune_id'][1]:8.3f}        "
            f"{found['prune_key'][0]:9,} {found['prune_key'][1]:8.3f}     {found['peak_mib']:8,}  "
            f"{found['commit_s']:6.2f} s {found['files_written']:3} {found['bytes_written']:12,} of "
            f"{found['bytes_before']:,}",
            flush=True,
        )


if __name__ == "__main__":
    main()
