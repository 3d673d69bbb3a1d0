"""Sorting the keys of BTREE indexes out of core: by Spark, and into files one after another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.api.table import IndexSpec
from hindex.build import btree_job, btree_task
from hindex.build.btree_task import BTreeJob, ReadTask, SortedPart, entry_chunks, write_parts
from hindex.index.btree import IndexedFile
from hindex.index.postings import Postings
from hindex.index.reader_cache import open_btree_file
from hindex.keys import KeyKind
from hindex.orc import OrcReader
from hindex.orc.metadata.types import Kind, OrcType
from tests.build.btree_sets import contents, groups, sets, union
from tests.support.columns import index_on
from tests.support.oracle import spark_where
from tests.support.small import ids, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("here")


def test_spark_sorts_into_disjoint_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Keys of every byte and sign through Spark's sort, several files a set, and what a refresh merges."""
    monkeypatch.setattr(btree_job, "PART_ROWS", 700)
    path = tmp_path / "table"
    alphabet = ["", "a", "z", "\x7f", "\x80", "é", "ÿ", "\u20ac", "\U0001f600", "\uffff"]
    data: dict[str, tuple[list[int | None], list[str | None]]] = {}
    for number in range(3):
        a = [None if rng.random() < 0.05 else int(v) for v in rng.integers(-(1 << 31), 1 << 31, 1000)]
        s = [
            None
            if rng.random() < 0.05
            else "".join(alphabet[int(k)] for k in rng.integers(0, 10, int(rng.integers(0, 5))))
            for _ in a
        ]
        data[f"f{number}.orc"] = a, s
        write_rows(path / f"f{number}.orc", number * 1000, a, s)
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a", "btree"), IndexSpec("by_s", "s", "btree")])

    def check(least_files: int) -> None:
        manifest = table.snapshot().manifest
        for name, at in (("by_a", 0), ("by_s", 1)):
            (index_set,) = (item for item in sets(table) if item.index_id == manifest.index(name).id)
            assert len(index_set.files) >= least_files
            ends = [(file.stats.min_key, file.stats.max_key) for file in index_set.files]
            assert all(a[1] < b[0] for a, b in pairwise(ends))  # type: ignore[operator]
            expected = union(*(groups(file, list(columns[at])) for file, columns in data.items()))
            assert contents(table, index_set) == {
                key.encode() if isinstance(key, str) else key: places for key, places in expected.items()
            }

    check(3)
    # two sets become one, by Spark too
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    data["f9.orc"] = [1, None], ["new", None]
    write_rows(path / "f9.orc", 9000, *data["f9.orc"])
    table.refresh_indexes()
    check(3)
    pool = [value for value in data["f0.orc"][1] if value]
    for where in (
        f"s = '{pool[0]}'",
        f"s >= '{pool[1]}' AND a > 0",
        "a IS NULL OR s IS NULL",
        "a < -2000000000",
    ):
        assert sorted(ids(table.scan(where))) == spark_where(spark, path, where), where


@pytest.mark.parametrize("kind", list(KeyKind))
def test_a_writer_holds_back_only_what_overlaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind, rng: np.random.Generator
) -> None:
    """Chunks of forty runs, each over all keys: far more entries come than are ever buffered."""
    runs, each, chunk = 40, 3000, 50
    monkeypatch.setattr(btree_task, "MERGE_ENTRIES", 1000)
    data_type = OrcType(Kind.LONG) if kind is KeyKind.INT64 else OrcType(Kind.STRING)
    files = tuple(IndexedFile(f"f{n}", 1, n, 10, (each * 10,)) for n in range(runs))
    job = BTreeJob(
        "b",
        index_on("c", data_type),
        ("c",),
        (),
        (),
        "data/x",
        str(tmp_path),
        (SortedPart(0, None), SortedPart(0, _key(kind, 500_000))),
        (files,),
        chunk,
    )
    expected: dict[Any, set[int]] = {}
    chunks: list[dict[str, Any]] = []
    for run in range(runs):
        keys = np.sort(rng.choice(1_000_000, each, replace=False))
        locations = run * each + rng.permutation(each)
        groups_ = Postings(
            keys
            if kind is KeyKind.INT64
            else pa.array([_key(kind, int(key)) for key in keys], pa.large_binary()),
            np.arange(each + 1),
            locations.astype(np.uint32),
            np.array([run * each], np.uint32),
        )
        for key, location in zip(keys.tolist(), locations.tolist(), strict=True):
            expected.setdefault(_key(kind, key), set()).add(location)
        chunks += btree_task._chunks(job, groups_, [(0, None), (1, _key(kind, 500_000))]).to_pylist()
    assert len(chunks) > runs * each // chunk
    chunks.sort(key=lambda row: (row["part"], (0, 0) if row["first"] is None else (1, row["first"])))
    schema = btree_task.chunk_schema(kind)
    max_buffered = 0
    real = btree_task._PartWriter.add

    def watch(self: Any, batch: pa.RecordBatch) -> None:
        nonlocal max_buffered
        real(self, batch)
        max_buffered = max(max_buffered, self._buffered)

    monkeypatch.setattr(btree_task._PartWriter, "add", watch)
    batches = (pa.RecordBatch.from_pylist(chunks[at : at + 7], schema) for at in range(0, len(chunks), 7))
    rows = [row for batch in write_parts(job, batches) for row in batch.to_pylist()]
    assert [row["part"] for row in rows] == [0, 1]
    assert sum(row["entries"] for row in rows) == runs * each
    assert max_buffered < 1000 + runs * chunk + 7 * chunk < runs * each // 10
    locations_by_key: dict[Any, set[int]] = {}
    for row in rows:
        reader = open_btree_file(
            f"{tmp_path}/{Path(row['path']).name}", row["length"], row["footer_checksum"]
        )
        for leaf in reader.all_leaves():
            for number, location in zip(*(part.tolist() for part in reader.entries(leaf)), strict=True):
                locations_by_key.setdefault(leaf.keys[number], set()).add(location)
    assert locations_by_key == expected
    first = open_btree_file(
        f"{tmp_path}/{Path(rows[0]['path']).name}", rows[0]["length"], rows[0]["footer_checksum"]
    )
    assert list(first.nulls()) == [run * each for run in range(runs)]


def _job(directory: Path, kind: KeyKind, file: IndexedFile, chunk_entries: int) -> BTreeJob:
    """A job of one index file for one data file with a column ``a``."""
    data_type = OrcType(Kind.LONG) if kind is KeyKind.INT64 else OrcType(Kind.STRING)
    parts = (SortedPart(0, None),)
    return BTreeJob(
        "b",
        index_on("a", data_type),
        ("a",),
        (),
        (),
        "data/x",
        str(directory),
        parts,
        ((file,),),
        chunk_entries,
    )


def _written(job: BTreeJob, batches: Iterable[pa.RecordBatch]) -> dict[Any, set[int]]:
    """Sort chunks as Spark does, write the index file, and return the locations of each key in it."""
    chunks = [row for batch in batches for row in batch.to_pylist()]
    chunks.sort(key=lambda row: (row["part"], (0, 0) if row["first"] is None else (1, row["first"])))
    schema = btree_task.chunk_schema(job.kind)
    single = (pa.RecordBatch.from_pylist([chunk], schema) for chunk in chunks)
    ((row,),) = (batch.to_pylist() for batch in write_parts(job, single))
    path = f"{job.absolute_directory}/{Path(row['path']).name}"
    reader = open_btree_file(path, row["length"], row["footer_checksum"])
    locations_by_key: dict[Any, set[int]] = {}
    for leaf in reader.all_leaves():
        keys = [leaf.keys[number] for number in range(len(leaf.keys))]
        assert locations_by_key.keys().isdisjoint(keys)
        for number, location in zip(*(part.tolist() for part in reader.entries(leaf)), strict=True):
            locations_by_key.setdefault(leaf.keys[number], set()).add(location)
    return locations_by_key


@pytest.mark.parametrize("kind", list(KeyKind))
def test_runs_that_begin_with_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind) -> None:
    """Chunks of all runs begin with the same keys: each is written once, when its last chunk has come."""
    monkeypatch.setattr(btree_task, "MERGE_ENTRIES", 1)
    runs, keys = 5, range(0, 300, 3)
    job = _job(tmp_path, kind, IndexedFile("f", 1, 1, 10, (10 * runs,)), 7)
    batches = []
    for run in range(runs):
        values = [_key(kind, key) for key in keys]
        postings = Postings(
            np.array(values, np.int64) if kind is KeyKind.INT64 else pa.array(values, pa.large_binary()),
            np.arange(len(keys) + 1),
            np.full(len(keys), run, np.uint32),
            np.zeros(0, np.uint32),
        )
        batches.append(btree_task._chunks(job, postings, [(0, None)]))
    assert _written(job, batches) == {_key(kind, key): set(range(runs)) for key in keys}


@pytest.mark.parametrize("cuts", [[], [1], [3], [1, 2], [2, 4]])
def test_stripes_of_one_file_read_by_several_tasks(tmp_path: Path, cuts: list[int]) -> None:
    data, index = tmp_path / "x.orc", tmp_path / "index"
    index.mkdir()
    column = [i * 7 % 1000 for i in range(6000)]
    with pyarrow.orc.ORCWriter(
        str(data), compression="uncompressed", stripe_size=4096, row_index_stride=100, batch_size=500
    ) as writer:
        writer.write(pa.table({"a": pa.array(column, pa.int64())}))
    with OrcReader(data) as reader:
        rows = tuple(stripe.num_rows for stripe in reader.stripes)
        length, checksum = reader.tail.file_length, reader.tail.checksum
    assert len(rows) > 4
    file = IndexedFile("x.orc", length, checksum, 100, rows)
    # the file is not the first one of its group
    before = 40
    job = _job(index, KeyKind.INT64, file, 50)
    job = replace(job, groups=((IndexedFile("w.orc", 1, 1, 1, (before,)), file),))
    tasks = [
        ReadTask(str(data), file, 0, before, stripes=(start, end) if cuts else None)
        for start, end in pairwise([0, *cuts, len(rows)])
    ]
    expected: dict[Any, set[int]] = {}
    group, row = before, 0
    for count in rows:
        for at in range(count):
            expected.setdefault(column[row + at], set()).add(group + at // 100)
        group, row = group + -(-count // 100), row + count
    assert _written(job, (batch for task in tasks for batch in entry_chunks(job, [task]))) == expected


def _key(kind: KeyKind, number: int) -> Any:
    return number if kind is KeyKind.INT64 else b"k%07d" % number
