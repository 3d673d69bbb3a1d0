"""Random histories of a transactional table: what Hive would leave on disk, and the rows that are there.

The rows come from a model that knows no directories: each row remembers which transaction wrote it and which ones
deleted it, and a reader sees what the transactions that it sees left.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acid.writing import (
    AcidRow,
    Key,
    Values,
    bucket_property,
    write_acid,
    write_flat,
    write_marker,
    write_version_file,
)

MOST = 9223372036854775807


@dataclass(slots=True, eq=False)
class Row:
    """One version of a row: an update makes another one."""

    key: Key
    values: Values
    born: int
    deleted_by: set[int] = field(default_factory=set)

    def is_seen(self, seen: Sight) -> bool:
        return seen.sees(self.born) and not any(seen.sees(w) for w in self.deleted_by)


@dataclass(frozen=True, slots=True)
class Sight:
    """The view of a reader at some time."""

    watermark: int
    opened: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    own: int = -1

    def sees(self, write_id: int) -> bool:
        if write_id == self.own:
            return True
        return write_id <= self.watermark and write_id not in self.opened and write_id not in self.aborted

    def can_read(self, base: tuple[int, bool]) -> bool:
        """Return True if a base of this write id, by a compaction or not, holds the rows of this view."""
        write_id, compacted = base
        if compacted:
            return write_id <= self.watermark and write_id < min(self.opened, default=MOST)
        return self.sees(write_id)

    def text(self) -> str:
        """As Hive hands it to readers."""
        opened, aborted = (
            ",".join(map(str, sorted(w for w in ids if w <= self.watermark)))
            for ids in (self.opened, self.aborted)
        )
        return f"db.t:{self.watermark}:{min(self.opened, default=MOST)}:{opened}:{aborted}"


@dataclass(slots=True)
class Delta:
    """The content of one directory of a transaction or compaction: rows, or deletes with their transactions."""

    path: Path
    low: int
    high: int
    inserts: list[Row] = field(default_factory=list)
    deletes: list[tuple[Row, int]] = field(default_factory=list)


@dataclass(slots=True)
class Partition:
    """One directory of the table. ``bases`` are the write ids of those on disk, and whether a compaction wrote each."""

    path: Path
    rows: list[Row] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    bases: list[tuple[int, bool]] = field(default_factory=list)
    originals: list[Path] = field(default_factory=list)
    old: list[Path] = field(default_factory=list)


class History:
    """A table at ``root``, changed by one `step` after the other."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.root = root
        self.buckets = rng.choice([1, 1, 2, 4])
        self.is_bucketed = rng.random() < 0.5
        self.uses_attempts = rng.random() < 0.3
        self.uses_version_files = rng.random() < 0.3
        count = rng.choice([0, 0, 1, 3])
        paths = [root / f"p={number}" for number in range(count)] or [root]
        self.partitions = [Partition(path) for path in paths]
        self.watermark = 0
        self.opened: set[int] = set()
        self.aborted: set[int] = set()
        self.log: list[str] = []
        self._next_id = 0
        self._compaction = 100
        root.mkdir(parents=True, exist_ok=True)
        for partition in self.partitions:
            partition.path.mkdir(exist_ok=True)
            if rng.random() < 0.5:
                self._originals(partition)

    # What is seen

    @property
    def now(self) -> Sight:
        return Sight(self.watermark, frozenset(self.opened), frozenset(self.aborted))

    @property
    def all_committed(self) -> bool:
        return not self.opened and not self.aborted

    def expected(self, seen: Sight) -> list[tuple[object, ...]]:
        """Every row: its partition (None without), values and key."""
        return sorted(
            (
                (self._partition_value(partition), *row.values, row.key)
                for partition in self.partitions
                for row in partition.rows
                if row.is_seen(seen)
            ),
            key=repr,
        )

    def lacks_history(self, seen: Sight) -> bool:
        """Return True if no base of some partition can be read, and one may have removed rows.

        One of a compaction may, and of overwrites only one that is not known as aborted, where nothing older is left.
        """
        return any(self._lacks_history(partition, seen) for partition in self.partitions)

    def _lacks_history(self, partition: Partition, seen: Sight) -> bool:
        bases = partition.bases
        if any(seen.can_read(base) for base in bases):
            return False
        if any(compacted for _, compacted in bases):
            return True
        unknown = [write_id for write_id, _ in bases if write_id not in seen.aborted]
        if not unknown or any(path.stat().st_size for path in partition.originals):
            return False
        return not any(
            delta.path.exists() and any(map(seen.sees, range(delta.low, delta.high + 1)))
            for delta in partition.deltas
            if delta.low < min(unknown)
        )

    def _partition_value(self, partition: Partition) -> int | None:
        return int(partition.path.name.removeprefix("p=")) if partition.path != self.root else None

    # What happens

    def step(self) -> None:
        """One transaction or compaction, chosen at random."""
        kinds = [
            (self.transaction, 10),
            (self.load, 2),
            (self.overwrite, 1),
            (self.minor, 3),
            (self.major, 1.5),
            (self.clean, 1),
            (self.settle, 2),
        ]
        kind = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        kind()

    def transaction(self) -> None:
        """Insert, delete and update, in one or more statements, and commit, abort or stay open."""
        write_id = self._begin()
        seen = Sight(
            self.watermark, frozenset(self.opened - {write_id}), frozenset(self.aborted), own=write_id
        )
        statements = self.rng.choice([1, 1, 1, 2, 4])
        events = []
        for statement in range(statements):
            action = self.rng.choice(["insert", "insert", "delete", "update"])
            for partition in self._some_partitions():
                if action != "insert":
                    self._delete(partition, write_id, statement, seen, again=action == "update")
                else:
                    rows = [self._values() for _ in range(self.rng.choice([1, 5, 40, 120]))]
                    self._insert(partition, write_id, statement, rows)
            events.append(action)
        end = self._end(write_id)
        self.log.append(f"{write_id}: {' '.join(events)} {end}")

    def load(self) -> None:
        """LOAD DATA: flat files in a delta."""
        write_id = self._begin()
        partition = self.rng.choice(self.partitions)
        directory = partition.path / f"delta_{write_id:07d}_{write_id:07d}_0000"
        delta = Delta(directory, write_id, write_id)
        delta.inserts += [row for row, _ in self._flat_files(directory, write_id)]
        partition.deltas.append(delta)
        partition.rows += delta.inserts
        self.log.append(f"{write_id}: load {self._end(write_id)}")

    def overwrite(self) -> None:
        """INSERT OVERWRITE or TRUNCATE: a base of a partition that no open transaction wrote to."""
        partition = self.rng.choice(self.partitions)
        written = [delta.low for delta in partition.deltas] + [base for base, _ in partition.bases]
        if self.opened.intersection(written):
            return
        write_id = self._begin()
        end = self._end(write_id)
        for row in partition.rows:
            # what it replaces is gone for whoever sees it
            row.deleted_by.add(write_id)
        directory = partition.path / f"base_{write_id:07d}"
        if self.rng.random() < 0.3:
            new = [row for row, _ in self._flat_files(directory, write_id)]
        else:
            new = self._new_rows(write_id, 0, [self._values() for _ in range(self.rng.choice([0, 3, 50]))])
            directory.mkdir()
            if not new and self.rng.random() < 0.7:
                write_marker(directory, self.rng.choice(["truncated", "dropped"]))
            self._write(directory, [(row.key, row.born, row.values) for row in new])
        partition.rows += new
        partition.bases.append((write_id, False))
        partition.old.append(directory)
        self.log.append(f"{write_id}: overwrite {end}")

    def minor(self) -> None:
        """Minor compaction: deltas become one, without what was aborted; deletes stay deletes."""
        partition = self.rng.choice(self.partitions)
        deltas = self._compactable(partition)
        if len({delta.low for delta in deltas}) < 2:
            return
        low, high = min(delta.low for delta in deltas), max(delta.high for delta in deltas)
        suffix = self._suffix()
        inserts = [row for delta in deltas for row in delta.inserts if row.born not in self.aborted]
        deletes = [item for delta in deltas for item in delta.deletes if item[1] not in self.aborted]
        made = Delta(partition.path / f"delta_{low:07d}_{high:07d}{suffix}", low, high, inserts)
        twin = Delta(partition.path / f"delete_{made.path.name}", low, high, [], deletes)
        for delta in (made, twin):
            if delta.inserts or delta.deletes or self.rng.random() < 0.5:
                delta.path.mkdir()
                self._write(delta.path, [(row.key, row.born, row.values) for row in delta.inserts])
                self._write(delta.path, [(row.key, by, None) for row, by in delta.deletes])
        partition.old += [delta.path for delta in deltas]
        partition.deltas = [delta for delta in partition.deltas if delta not in deltas] + [made, twin]
        self.log.append(f"minor {low}-{high}{suffix}")

    def major(self) -> None:
        """Major compaction: a base of the rows that are left."""
        partition = self.rng.choice(self.partitions)
        deltas = self._compactable(partition)
        if not deltas:
            return
        high = max(delta.high for delta in deltas)
        seen = Sight(high, frozenset(), frozenset(self.aborted))
        rows = [row for row in partition.rows if row.is_seen(seen)]
        suffix = self._suffix() if self.rng.random() < 0.7 else ""
        directory = partition.path / f"base_{high:07d}{suffix}"
        directory.mkdir()
        if not suffix:
            write_marker(directory)
        self._write(directory, [(row.key, row.born, row.values) for row in rows])
        partition.bases.append((high, True))
        partition.old += [delta.path for delta in deltas]
        partition.deltas = [delta for delta in partition.deltas if delta not in deltas]
        self.log.append(f"major {high}{suffix}")

    def clean(self) -> None:
        """Remove what compactions and overwrites replaced, but for the last base, and what aborted ones left or not."""
        for partition in self.partitions:
            last = self._last_base(partition)
            remaining = {
                base
                for base, compacted in partition.bases
                if base >= last or (base in self.aborted and not compacted and self.rng.random() < 0.5)
            }
            directories = []
            for path in partition.old:
                if path.name.startswith("base_") and int(path.name.split("_")[1]) in remaining:
                    directories.append(path)
                else:
                    shutil.rmtree(path, ignore_errors=True)
            partition.old = directories
            if last:
                partition.deltas = [delta for delta in partition.deltas if delta.high > last]
                partition.bases = [item for item in partition.bases if item[0] in remaining]
                for path in partition.path.glob("base_*"):
                    if int(path.name.split("_")[1]) not in remaining:
                        shutil.rmtree(path)
                for path in partition.path.glob("*delta_*"):
                    if int(path.name.removeprefix("delete_").split("_")[2]) <= last:
                        shutil.rmtree(path)
                for path in partition.originals:
                    path.unlink(missing_ok=True)
                partition.originals.clear()
        self.log.append("clean")

    def settle(self) -> None:
        """An open transaction ends."""
        if self.opened:
            write_id = self.rng.choice(sorted(self.opened))
            self.opened.remove(write_id)
            if self.rng.random() < 0.4:
                self.aborted.add(write_id)
            self.log.append(f"{write_id}: {'aborted' if write_id in self.aborted else 'committed'} now")

    # What transactions write

    def _begin(self) -> int:
        self.watermark += 1
        if self.rng.random() < 0.1:
            # ids that wrote nothing here
            self.watermark += self.rng.choice([1, 7])
        return self.watermark

    def _end(self, write_id: int) -> str:
        chance = self.rng.random()
        if chance < 0.12:
            self.aborted.add(write_id)
            return "aborted"
        if chance < 0.2:
            self.opened.add(write_id)
            return "open"
        return "committed"

    def _some_partitions(self) -> list[Partition]:
        return self.rng.sample(self.partitions, self.rng.randint(1, len(self.partitions)))

    def _values(self) -> Values:
        self._next_id += 1
        k = self.rng.choice([None, 0, 1, 2, 3, 4, 5, 6, 7])
        s = self.rng.choice([None, "", f"s{self.rng.randrange(30)}", "x" * self.rng.randrange(40)])
        return self._next_id, k, s

    def _bucket(self, values: Values) -> int:
        return values[0] * 7 % self.buckets if self.is_bucketed else self.rng.randrange(self.buckets)

    def _new_rows(self, write_id: int, statement: int, values: Iterable[Values]) -> list[Row]:
        counts = [0] * self.buckets
        rows = []
        for item in values:
            bucket = self._bucket(item)
            key = (write_id, bucket_property(bucket, statement), counts[bucket])
            counts[bucket] += 1
            rows.append(Row(key, item, write_id))
        return rows

    def _insert(self, partition: Partition, write_id: int, statement: int, values: Iterable[Values]) -> None:
        rows = self._new_rows(write_id, statement, values)
        directory = partition.path / f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
        self._write(directory, [(row.key, row.born, row.values) for row in rows])
        partition.rows += rows
        partition.deltas.append(Delta(directory, write_id, write_id, rows))

    def _delete(
        self, partition: Partition, write_id: int, statement: int, seen: Sight, *, again: bool
    ) -> None:
        rows = [row for row in partition.rows if row.is_seen(seen)]
        share = self.rng.choice([0.02, 0.2, 0.8])
        if self.rng.random() < 0.3:
            # rows that lie together
            start = self.rng.randrange(len(rows) + 1)
            gone = rows[start : start + self.rng.randrange(60)]
        else:
            gone = [row for row in rows if self.rng.random() < share]
        if not gone:
            return
        directory = partition.path / f"delete_delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
        self._write(directory, [(row.key, write_id, None) for row in gone])
        for row in gone:
            row.deleted_by.add(write_id)
        partition.deltas.append(Delta(directory, write_id, write_id, [], [(row, write_id) for row in gone]))
        if again:
            new = [(row.values[0], self._values()[1], "updated") for row in gone]
            self._insert(partition, write_id, statement, new)

    def _compactable(self, partition: Partition) -> list[Delta]:
        """The deltas after the last base that are below all open transactions."""
        max_write_id = min(self.opened, default=self.watermark + 1) - 1
        last = self._last_base(partition)
        return [delta for delta in partition.deltas if delta.high <= max_write_id and delta.low > last]

    def _last_base(self, partition: Partition) -> int:
        """The write id of the base that is read now; 0 without one."""
        return max(
            (base for base, compacted in partition.bases if compacted or self.now.sees(base)), default=0
        )

    def _suffix(self) -> str:
        self._compaction += 1
        return f"_v{self._compaction:07d}"

    # Files

    def _write(self, directory: Path, rows: Iterable[AcidRow]) -> None:
        """Rows of one directory, sorted by key, each in the file of its bucket; without rows there is no file."""
        by_bucket: dict[int, list[AcidRow]] = {}
        deletes_move = self.rng.random() < 0.15
        for item in sorted(rows, key=lambda item: item[0]):
            bucket = item[0][1] >> 16 & 0xFFF
            if item[2] is None and deletes_move:
                # nothing says that a deleting writer has the bucket's number
                bucket = 0
            by_bucket.setdefault(bucket, []).append(item)
        for bucket, rows_of_bucket in by_bucket.items():
            attempt = f"_{self.rng.randrange(2)}" if self.uses_attempts else ""
            write_acid(
                directory / f"bucket_{bucket:05d}{attempt}",
                rows_of_bucket,
                version=None if self.uses_version_files else b"2",
                **self._layout(),
            )
            if self.uses_version_files:
                write_version_file(directory)

    def _layout(self) -> dict[str, Any]:
        """Choose the sizes of stripes and row groups."""
        return {"stripe_rows": self.rng.choice([24, 80, 1000]), "stride": self.rng.choice([4, 16, 1000])}

    def _flat_files(self, directory: Path, write_id: int) -> list[tuple[Row, Path]]:
        """Flat files, and their rows with the keys that these have: counted through the files of each bucket."""
        names = [
            f"{bucket:06d}_0{f'_copy_{copy}' if copy else ''}"
            for bucket in range(self.buckets)
            for copy in range(self.rng.choices([1, 3, 12], [8, 3, 1])[0])
        ]
        counts = [0] * self.buckets
        files = []
        directory.mkdir(exist_ok=True)
        for name in sorted(names):
            bucket = int(name.partition("_")[0])
            path = directory / name
            values = [self._values() for _ in range(self.rng.choice([0, 2, 10, 60]))]
            if not values and self.rng.random() < 0.5:
                path.write_bytes(b"")
                continue
            write_flat(path, values, **self._layout())
            for item in values:
                files.append((Row((write_id, bucket_property(bucket), counts[bucket]), item, write_id), path))
                counts[bucket] += 1
        return files

    def _originals(self, partition: Partition) -> None:
        """The flat files of a table that was not transactional once."""
        files = self._flat_files(partition.path, 0)
        partition.rows += [row for row, _ in files]
        partition.originals += [path for path in partition.path.iterdir() if path.is_file()]
