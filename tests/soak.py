"""``python -m tests.soak --minutes 20 --seed 1``: queries of many threads while files and indexes change under them.

Every row names its file and the version of it, so a result can be checked whatever happens meanwhile: of each file it
has all matching rows of exactly one version, one that was there during the query. An error of hindex counts as an
answer while a file changes; any other exception, a crash, a hang, growing memory or descriptors that stay open are
findings. The work runs in a process of its own, which may crash.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc

from hindex.api.table import IndexSpec, Table
from hindex.errors import HindexError
from hindex.index import page_cache
from tests.support import local_build
from tests.support.local_build import LocalConnection

Ints = npt.NDArray[np.int64]

FILES, ROWS, KEYS = 6, 20_000, 500
#: The version of a file of 0 bytes, which has no rows.
EMPTY = -1
INDEXES = [
    IndexSpec("bits", "k", "bitmap"),
    IndexSpec("tree", "u", "btree"),
    IndexSpec("bloom", "u", "bloom"),
    IndexSpec("ends", "version", "minmax"),
]
#: A forked process answers within this time, whatever else the machine does.
FORK_S = 120.0
#: Growth of the resident memory, and of the open descriptors, between two thirds of a run that counts as none.
MEMORY_SLACK, DESCRIPTOR_SLACK = 48 << 20, 24


# each takes 800 kB, which must not count as growth
@lru_cache(maxsize=32)
def columns(file: int, version: int) -> dict[str, Ints]:
    """Return the integer columns of a version of a file."""
    row = np.arange(0 if version == EMPTY else ROWS + version % 3)
    return {
        "row": row,
        "k": (row * 7919 + version * 31 + file) % KEYS,
        "u": (row * 17 + version * 1009 + file) % (4 * ROWS),
        "file": np.full(len(row), file),
        "version": np.full(len(row), version),
    }


#: Whether rows of a version match a condition: bool[N].
Condition = Callable[[dict[str, Ints]], npt.NDArray[np.bool_]]


def random_condition(chance: random.Random) -> tuple[str, Condition]:
    """Return a condition in SQL and as a function."""
    key, unique = chance.randrange(KEYS), chance.randrange(4 * ROWS)
    begins_with_1 = np.array([str(row).startswith("1") for row in range(ROWS + 3)])
    conditions: list[tuple[str, Condition]] = [
        (f"k = {key}", lambda c: c["k"] == key),
        (f"k IN ({key}, {key + 1}, {key + 7})", lambda c: np.isin(c["k"], [key, key + 1, key + 7])),
        (f"u = {unique}", lambda c: c["u"] == unique),
        (f"u BETWEEN {unique} AND {unique + 300}", lambda c: (c["u"] >= unique) & (c["u"] <= unique + 300)),
        (f"k = {key} AND u > {unique}", lambda c: (c["k"] == key) & (c["u"] > unique)),
        (f"s LIKE '{key}-1%'", lambda c: (c["k"] == key) & begins_with_1[c["row"]]),
        (f"k + 1 = {key}", lambda c: c["k"] + 1 == key),
    ]
    return chance.choice(conditions)


def make(path: Path, file: int, version: int, codec: str) -> None:
    """Write a version of a file."""
    arrays = columns(file, version)
    strings = [f"{key}-{row}" for key, row in zip(arrays["k"].tolist(), arrays["row"].tolist(), strict=True)]
    pyarrow.orc.write_table(
        pa.table({**arrays, "s": strings}),
        path,
        compression=codec,
        row_index_stride=1000,
        stripe_size=1 << 18,
        batch_size=1000,
    )


class Soak:
    """The state that all threads share."""

    def __init__(self, directory: Path, seed: int, minutes: float) -> None:
        self.directory = directory
        self.chance = random.Random(seed)
        self.end = time.monotonic() + 60 * minutes
        self.table = LocalConnection().table(str(directory))
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.samples: list[tuple[int, int]] = []
        self._changing = 0
        # the versions that each file has had
        self._history: list[list[int]] = [[0] for _ in range(FILES)]
        # how many of them it had when its last change ended: until then, readers may see what was before
        self._settled = [1] * FILES
        self._changes = 0
        self._lock = threading.Lock()
        self._version = 0
        for file in range(FILES):
            make(self.path(file), file, 0, "zstd")
        self.table.create_indexes(INDEXES)

    @property
    def is_running(self) -> bool:
        return time.monotonic() < self.end and not self.findings

    def path(self, file: int) -> Path:
        return self.directory / f"{file}.orc"

    def count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def find(self, text: str) -> None:
        with self._lock:
            self.findings.append(text)

    def state(self) -> tuple[list[int], int, bool]:
        """Return how many versions each file had before its change, all changes, and whether one is under way."""
        with self._lock:
            return list(self._settled), self._changes, self._changing > 0

    @contextmanager
    def changing(self, file: int, *versions: int) -> Iterator[None]:
        """Announce versions of a file, which readers may see from now on; the last one stays."""
        with self._lock:
            self._changes += 1
            self._changing += 1
            self._history[file] += versions
        try:
            yield
        finally:
            with self._lock:
                self._changes += 1
                self._changing -= 1
                self._settled[file] = len(self._history[file])

    def versions_since(self, file: int, count: int) -> set[int]:
        """Return the versions that a file has had since there were ``count``, the last of these among them."""
        with self._lock:
            return set(self._history[file][count - 1 :])

    # queries

    def query(self, chance: random.Random, table: Table) -> None:
        """Run a random query and check its answer."""
        where, matches = random_condition(chance)
        lengths, changes, is_changing = self.state()
        try:
            if chance.random() < 0.25:
                groups = table.scan(where).value_counts("version") if chance.random() < 0.3 else None
                total = table.scan(where).count() if groups is None else None
                rows = None
            else:
                groups = total = None
                rows = table.scan(where, ["file", "version", "row"]).to_arrow().to_pylist()
        except HindexError as error:
            _, after, is_changing_after = self.state()
            if (after, is_changing_after) == (changes, False) and not is_changing:
                self.find(f"{where}: {type(error).__name__} while nothing changed: {error}")
            self.count(f"named error: {type(error).__name__}")
            return
        possible = [self.versions_since(file, length) for file, length in enumerate(lengths)]

        def expected(file: int, version: int) -> list[int]:
            rows_of_version: list[int] = np.flatnonzero(matches(columns(file, version))).tolist()
            return rows_of_version

        if rows is not None:
            by_file: dict[int, dict[int, list[int]]] = {}
            for row in rows:
                by_file.setdefault(row["file"], {}).setdefault(row["version"], []).append(row["row"])
            for file in range(FILES):
                versions = by_file.get(file, {})
                if not versions and any(not expected(file, version) for version in possible[file]):
                    continue
                version = next(iter(versions), -1)
                if len(versions) != 1 or version not in possible[file]:
                    self.find(
                        f"{where}: file {file} has versions {sorted(versions)}, not one of {possible[file]}"
                    )
                elif sorted(versions[version]) != expected(file, version):
                    self.find(f"{where}: file {file} version {version} has wrong rows")
        elif total is not None:
            totals = {0}
            for file in range(FILES):
                totals = {a + len(expected(file, version)) for a in totals for version in possible[file]}
            if total not in totals:
                self.find(f"{where}: counts {total}, not one of {sorted(totals)}")
        elif groups is not None:
            counted = dict(zip(*(column.to_pylist() for column in groups.columns), strict=True))
            allowed = {version for versions in possible for version in versions}
            if not set(counted) <= allowed:
                self.find(f"{where}: groups of versions {sorted(counted)}, not of {sorted(allowed)}")
        self.count("answers")

    # changes

    def replace(self, file: int) -> None:
        version = self._next_version()
        new = self.directory / f".{file}.tmp"
        make(new, file, version, self.chance.choice(["zstd", "zlib", "uncompressed"]))
        with self.changing(file, version):
            new.replace(self.path(file))

    def overwrite(self, file: int) -> None:
        """Copy a version over the file, as ``cp`` does, slowly."""
        version = self._next_version()
        new = self.directory / f".{file}.tmp"
        make(new, file, version, self.chance.choice(["zstd", "uncompressed"]))
        data = new.read_bytes()
        new.unlink()
        empties = self.chance.random() < 0.5
        with (
            self.changing(file, *([EMPTY] if empties else []), version),
            self.path(file).open("wb" if empties else "r+b") as out,
        ):
            for at in range(0, len(data), 1 << 16):
                out.write(data[at : at + (1 << 16)])
                out.flush()
                time.sleep(0.002)
            out.truncate()

    def truncate(self, file: int) -> None:
        version = self._next_version()
        new = self.directory / f".{file}.tmp"
        make(new, file, version, "zstd")
        with self.changing(file, version):
            os.truncate(self.path(file), self.chance.randrange(1, self.path(file).stat().st_size))
            time.sleep(self.chance.random() / 10)
            new.replace(self.path(file))

    def damage_index(self, _: int) -> None:
        """Overwrite bytes of an index file in place, or cut it; then write the indexes anew."""
        files = list(self.directory.rglob("*.hidx"))
        if not files:
            return
        path = self.chance.choice(files)
        size = path.stat().st_size
        if self.chance.random() < 0.3:
            os.truncate(path, self.chance.randrange(size))
        else:
            with path.open("r+b") as out:
                for _ in range(20):
                    out.seek(self.chance.randrange(size))
                    out.write(self.chance.randbytes(8))
        time.sleep(self.chance.random() / 5)
        for spec in INDEXES:
            self.table.rebuild_index(spec.name)

    def drop(self, _: int) -> None:
        spec = self.chance.choice(INDEXES)
        self.table.drop_index(spec.name)
        self.table.create_indexes([spec])

    def refresh(self, _: int) -> None:
        self.table.refresh_indexes()

    def vacuum(self, _: int) -> None:
        self.table.vacuum(retain_hours=1)

    def change(self) -> None:
        """Change a file or the indexes, one after the other."""
        kinds = [
            self.replace,
            self.overwrite,
            self.truncate,
            self.damage_index,
            self.drop,
            self.refresh,
            self.vacuum,
        ]
        while self.is_running:
            kind = self.chance.choice([*kinds, self.refresh, self.refresh])
            try:
                kind(self.chance.randrange(FILES))
                self.count(kind.__name__)
            except HindexError as error:
                self.find(f"{kind.__name__}: {type(error).__name__}: {error}")
            time.sleep(0.05)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    # processes and signals

    def fork(self, chance: random.Random) -> None:
        """Fork, and query in the child, which has one thread and whatever locks the others held."""
        while self.is_running:
            time.sleep(2 + 3 * chance.random())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                code = 1
                try:
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
                    with suppress(HindexError):
                        self.table.scan("k = 7", ["file", "row"]).to_arrow()
                    code = 0
                finally:
                    os._exit(code)
            until = time.monotonic() + FORK_S
            while time.monotonic() < until:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    if status:
                        self.find(f"a forked child ended with status {status}")
                    break
                time.sleep(0.05)
            else:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.find("a forked child hangs")
            self.count("forks")

    def interrupt(self, chance: random.Random) -> None:
        while self.is_running:
            time.sleep(0.05 + chance.random() / 2)
            os.kill(os.getpid(), signal.SIGUSR1)

    def sample(self) -> None:
        while self.is_running:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.samples.append(
                (pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path("/proc/self/fd").iterdir())))
            )
            time.sleep(0.5)

    def check_samples(self) -> None:
        third = len(self.samples) // 3
        if not third:
            return
        for at, (name, slack) in enumerate((("memory", MEMORY_SLACK), ("descriptors", DESCRIPTOR_SLACK))):
            middle, last = (
                statistics.median(sample[at] for sample in part)
                for part in (self.samples[third : 2 * third], self.samples[2 * third :])
            )
            print(f"{name}: median {middle:,.0f} in the second third, {last:,.0f} in the last")
            if last > middle + slack:
                self.find(f"{name} grow from {middle:,.0f} to {last:,.0f}")


class Interrupted(BaseException):
    """Raised in the main thread at any line, as KeyboardInterrupt is."""


def run(seed: int, minutes: float, threads: int) -> int:
    """Run all of it in this process; return the exit code."""
    local_build.install()
    # files of dropped indexes stay open until others take their places
    page_cache.MAX_FILES = 32
    warnings.simplefilter("ignore")
    is_interruptible = False

    def handle(*_: object) -> None:
        if is_interruptible:
            raise Interrupted

    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(Path(directory), seed, minutes)
        signal.signal(signal.SIGUSR1, handle)

        def queries(number: int) -> None:
            chance = random.Random(f"{seed} {number}")
            # a connection of its own for some, one for all others
            table = LocalConnection().table(str(soak.directory)) if number % 4 == 0 else soak.table
            while soak.is_running:
                soak.query(chance, table)

        def guarded(work: Callable[..., None], *arguments: object) -> None:
            try:
                work(*arguments)
            except BaseException:  # noqa: BLE001 a finding
                soak.find(traceback.format_exc())

        work: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            *((queries, (number,)) for number in range(threads)),
            (soak.change, ()),
            (soak.fork, (random.Random(seed + 1),)),
            (soak.interrupt, (random.Random(seed + 2),)),
            (soak.sample, ()),
        ]
        workers = [threading.Thread(target=guarded, args=(each, *arguments)) for each, arguments in work]
        for worker in workers:
            worker.start()
        chance = random.Random(seed + 3)
        while soak.is_running:
            try:
                is_interruptible = True
                try:
                    soak.query(chance, soak.table)
                finally:
                    is_interruptible = False
            except Interrupted:
                soak.count("interrupts")
            except Exception:  # noqa: BLE001 a finding
                soak.find(traceback.format_exc())
        for worker in workers:
            worker.join()
        soak.check_samples()
    for name, count in sorted(soak.counts.items()):
        print(f"{name}: {count:,}")
    for finding in soak.findings:
        print(f"FOUND {finding}")
    print(f"{len(soak.findings)} findings")
    return 1 if soak.findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        return run(options.seed, options.minutes, options.threads)
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.soak", *sys.argv[1:], "--in-process"],
        check=False,
    )
    if ended.returncode < 0:
        print(f"FOUND a crash: {signal.Signals(-ended.returncode).name}")
    return abs(ended.returncode)


if __name__ == "__main__":
    raise SystemExit(main())
