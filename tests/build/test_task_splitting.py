"""Builds split into tasks, and the parts of a data file's index files equal the output of a single task."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

import hindex
from hindex.api.table import IndexSpec
from hindex.build import task_splitting
from hindex.build.job import built_files, merged_files, plan_build
from hindex.build.task import MERGED_SCHEMA, BuildTask, IndexTarget, run_build_tasks, run_merge_task
from hindex.build.task_splitting import (
    FILE_BYTES,
    MAX_TASK_BYTES,
    MIN_SPLIT_BYTES,
    TASK_BYTES_SETTING,
    SplitInput,
    split_tasks,
    task_bytes,
)
from hindex.errors import BuildError, IndexFileError
from hindex.index.index_file import IndexFileReader
from hindex.index.merge import merge_index_files
from hindex.orc import OrcReader
from hindex.orc.io.file_system import open_source
from hindex.orc.metadata.types import Kind, OrcType
from hindex.store.manifest import FileEntry, IndexEntry, new_index_id
from hindex.store.store import Store
from tests.fuzz.parts import joined, put_together, take_apart
from tests.support import local_build
from tests.support.columns import index_on
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.oracle import spark_where
from tests.support.small import ids, reasons, store_state, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = ("BITMAP", "BLOOM", "MINMAX")
ROWS, STRIPES = 6000, 9


def sized(weight: int, stripes: int = 1) -> SplitInput[int]:
    return SplitInput(weight, weight, lambda: [1000] * stripes)


def test_one_large_file_among_many_small_ones_is_cut() -> None:
    """A skewed table: no task is much larger than its share, and small files share tasks."""
    files = [sized(1 << 10)] * 200 + [sized(1 << 30, 100)] + [sized(1 << 10)] * 100
    tasks = split_tasks(files, 8)
    large = [[piece for piece in task if piece.item == 1 << 30] for task in tasks]
    # about three tasks for each processor, and those of the large file come first
    pieces = sum(len(some) for some in large)
    assert 16 <= pieces <= 24
    assert [len(some) for some in large] == [1] * pieces + [0] * (len(tasks) - pieces)
    share = ((1 << 30) + 301 * FILE_BYTES) / 24
    # a piece ends with a stripe
    assert max(sum(piece.weight for piece in task) for task in tasks) <= share + (1 << 30) / 100
    assert sum(len(task) for task in tasks) == pieces + 300
    assert max(len(task) for task in tasks) <= MAX_TASK_BYTES // FILE_BYTES
    assert len(tasks) <= 24 + 2


def test_a_file_that_is_in_its_last_stripe_is_not_cut() -> None:
    tasks = split_tasks([SplitInput(0, 1 << 30, lambda: [1] * 9 + [1 << 40])], 4)
    assert [(piece.weight, piece.first, piece.end) for task in tasks for piece in task] == [
        (1 << 30, 0, None)
    ]


@pytest.mark.parametrize("task_bytes", [None, 1, 5 << 20])
def test_every_stripe_is_in_one_piece(rng: np.random.Generator, task_bytes: int | None) -> None:
    for _ in range(50):
        lengths = [rng.integers(0, 1 << 24, rng.integers(0, 40)).tolist() for _ in range(rng.integers(1, 8))]
        files = [SplitInput(at, sum(one), lambda one=one: one) for at, one in enumerate(lengths)]  # type: ignore[misc]
        tasks = split_tasks(files, int(rng.integers(1, 9)), task_bytes)
        pieces = sorted(
            (piece.item, piece.first, piece.end if piece.end is not None else len(lengths[piece.item]))
            for task in tasks
            for piece in task
        )
        assert all(first < end or not lengths[what] for what, first, end in pieces)
        stripes = [(what, at) for what, first, end in pieces for at in range(first, end)]
        assert stripes == [(what, at) for what, one in enumerate(lengths) for at in range(len(one))]
        assert {what for what, _, _ in pieces} == set(range(len(lengths)))


def test_small_files_share_tasks_where_all_processors_have_some() -> None:
    assert sorted(len(task) for task in split_tasks([sized(1000)] * 6, 2)) == [1] * 6
    lengths = [len(task) for task in split_tasks([sized(1000)] * 600, 2)]
    assert (sum(lengths), max(lengths) <= 512, len(lengths) < 12) == (600, True, True)


def test_files_of_one_size_are_not_cut() -> None:
    assert [piece.end for task in split_tasks([sized(1 << 28, 10)] * 100, 4) for piece in task] == [
        None
    ] * 100
    assert [piece.end for task in split_tasks([sized(MIN_SPLIT_BYTES, 10)], 64) for piece in task] == [None]
    # nor what cannot be cut
    assert [piece.end for task in split_tasks([SplitInput(0, 1 << 30, tuple)], 4) for piece in task] == [None]


@pytest.fixture(scope="module")
def columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(3)
    texts = [None if v % 7 == 0 else f"k{v}" for v in rng.integers(0, 4000, ROWS).tolist()]
    return {
        # in a stripe: rows in leaves, in bitmaps of their own, no row or nearly none
        "few": pa.array(rng.integers(0, 5, ROWS), pa.int32()),
        "run": pa.array(np.arange(ROWS) // 1200, pa.int64()),
        "many": pa.array(rng.permutation(ROWS), pa.int64()),
        "text": pa.array(texts),
        "nothing": pa.array([None] * ROWS, pa.int32()),
        "half": pa.array([None if i < ROWS // 2 else i % 3 for i in range(ROWS)], pa.int32()),
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, pa.Array]) -> BuildTask:
    """The task that indexes a file of several stripes, all columns by all types."""
    root = tmp_path_factory.mktemp("joined")
    with pyarrow.orc.ORCWriter(
        str(root / "x.orc"),
        compression="uncompressed",
        stripe_size=4096,
        row_index_stride=100,
        batch_size=700,
    ) as writer:
        writer.write(pa.table(columns))
    with OrcReader(str(root / "x.orc")) as reader:
        assert len(reader.stripes) == STRIPES
        length, checksum = reader.tail.file_length, reader.tail.checksum
        types = dict(zip(reader.tail.schema.field_names, reader.tail.schema.children, strict=True))
    targets = tuple(
        IndexTarget(
            f"{name}-{column}",
            "i",
            name,
            index_on(column, types[column]),
            (),
            f"data/{name}-{column}",
            str(root / name / column),
        )
        for name in TYPES
        for column in columns
    )
    task = BuildTask("b", "x.orc", str(root / "x.orc"), length, 0, tuple(columns), targets)
    return replace(task, tail_checksum=checksum)


def built(task: BuildTask, cuts: list[int], stripes: int = STRIPES) -> FileEntry:
    """The entry of a data file whose stripes are indexed by several tasks, the last of which ends first."""
    tasks = (
        [replace(task, first=a, end=b) for a, b in itertools.pairwise([0, *cuts, stripes])]
        if cuts
        else [task]
    )
    batches = [batch for one in reversed(tasks) for batch in run_build_tasks([one])]
    indexed = built_files([task], pa.Table.from_batches(batches))
    merges = [merge for item in indexed for merge in item.merges]
    assert [len(merge.parts) for merge in merges] == ([len(tasks)] * len(task.targets) if cuts else [])
    merged = [MERGED_SCHEMA.empty_table().to_batches(), *(run_merge_task(merge) for merge in merges)]
    rows = pa.Table.from_batches(itertools.chain.from_iterable(merged), MERGED_SCHEMA)
    (entry,) = merged_files(indexed, rows)
    return entry


def content(task: BuildTask, entry: FileEntry) -> dict[str, bytes]:
    places = {target.index_id: Path(target.absolute_directory) for target in task.targets}
    return {
        file.index_id: (places[file.index_id] / file.path.rpartition("/")[2]).read_bytes()
        for file in entry.index_files
    }


@pytest.mark.parametrize("cuts", [[1], [4], [8], [2, 3], [1, 2, 3, 4, 5, 6, 7, 8]])
def test_parts_make_up_what_one_task_writes(whole: BuildTask, cuts: list[int]) -> None:
    """Byte for byte, so that readers need not know of parts; the manifest's entry is the same, too."""
    one, several = built(whole, []), built(whole, cuts)
    assert content(whole, several) == content(whole, one)
    assert len(one.index_files) == len(whole.targets)
    assert len(one.stripe_rows) == STRIPES
    assert replace(several, index_files=()) == replace(one, index_files=())
    for a, b in zip(several.index_files, one.index_files, strict=True):
        assert replace(a, path="") == replace(b, path="")
        assert bool(a.stripe_stats) == (not a.index_id.startswith("BLOOM"))


@pytest.mark.parametrize("lacking", range(3))
def test_any_part_tells_of_a_missing_time_zone(tmp_path: Path, lacking: int) -> None:
    path = tmp_path / "x.orc"
    with (
        path.open("wb") as file,
        pyorc.Writer(file, "struct<t:timestamp>", compression=pyorc.CompressionKind.NONE) as writer,
    ):
        writer.writerows([(datetime.datetime(2000, 1, day, tzinfo=datetime.UTC),) for day in range(1, 30)])
    stripe = take_apart(path.read_bytes())
    parts = joined([stripe] * 3)
    parts.stripes[lacking].footer.ClearField("writer_timezone")
    path.write_bytes(put_together(parts))
    with OrcReader(path) as reader:
        length, checksum = reader.tail.file_length, reader.tail.checksum
        assert [not reader.stripe(at).writer_timezone for at in range(3)] == [
            at == lacking for at in range(3)
        ]
    target = IndexTarget(
        "b" * 32,
        "i",
        "BITMAP",
        index_on("t", OrcType(Kind.TIMESTAMP)),
        (),
        "data/b",
        str(tmp_path / "index"),
    )
    task = BuildTask("b", "x.orc", str(path), length, 0, ("t",), (target,), tail_checksum=checksum)
    assert [built(task, cuts, 3).lacks_time_zone for cuts in ([], [1], [2], [1, 2])] == [True] * 4


def test_parts_are_open_one_at_a_time(whole: BuildTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more of them than files that a process may open."""
    now = most = total = 0
    real_open, real_close = IndexFileReader.__init__, IndexFileReader.close

    def opened(self: IndexFileReader, *arguments: Any) -> None:
        nonlocal now, most, total
        real_open(self, *arguments)
        now, total = now + 1, total + 1
        most = max(most, now)

    def closed(self: IndexFileReader) -> None:
        nonlocal now
        real_close(self)
        now -= 1

    monkeypatch.setattr(IndexFileReader, "__init__", opened)
    monkeypatch.setattr(IndexFileReader, "close", closed)
    built(whole, list(range(1, STRIPES)))
    assert (now, most, total) == (0, 1, STRIPES * len(whole.targets))


def test_a_part_of_another_version_of_the_file(whole: BuildTask) -> None:
    assert whole.tail_checksum is not None
    part = replace(whole, end=2, tail_checksum=whole.tail_checksum ^ 1)
    with raises(BuildError):
        list(run_build_tasks([part]))


def test_files_that_are_no_parts_of_one(whole: BuildTask, tmp_path: Path) -> None:
    entry = built(whole, [])
    places = {target.index_id: target.absolute_directory for target in whole.targets}
    parts = [
        IndexFileReader(open_source(f"{places[file.index_id]}/{file.path.rpartition('/')[2]}"))
        for file in entry.index_files[:2]
    ]
    with raises(IndexFileError):
        merge_index_files(str(tmp_path / "x.hidx"), parts)
    assert not (tmp_path / "x.hidx").exists()


@pytest.fixture
def skewed(tmp_path: Path) -> Path:
    """One file of many stripes and five of one; row i has id i and a = i % 10."""
    write_rows(tmp_path / "t" / "large.orc", 0, [i % 10 for i in range(12_000)])
    for number in range(5):
        write_rows(tmp_path / "t" / f"small{number}.orc", 12_000 + 10 * number, list(range(10)))
    return tmp_path / "t"


@pytest.mark.slow
def test_a_skewed_table(skewed: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its large file is indexed by several tasks, and nothing is seen of that afterwards."""
    seen: list[list[list[tuple[str, int, int | None]]]] = []
    real = task_splitting.split_build_tasks

    def recording_split(tasks: list[BuildTask], cores: int, size: int | None) -> list[tuple[BuildTask, ...]]:
        groups = real(tasks, cores, size)
        seen.append([[(task.path, task.first, task.end) for task in some] for some in groups])
        return groups

    monkeypatch.setattr("hindex.build.job.split_build_tasks", recording_split)
    table = hindex.connect(spark=spark).table(str(skewed))
    spark.conf.set(TASK_BYTES_SETTING, "15k")
    try:
        specs = [("a", "BITMAP"), ("s", "BLOOM"), ("a", "MINMAX"), ("id", "BTREE")]
        table.create_indexes([IndexSpec(f"{c}_{name}", c, name) for c, name in specs])
    finally:
        spark.conf.unset(TASK_BYTES_SETTING)
    (tasks,) = seen
    with OrcReader(str(skewed / "large.orc")) as reader:
        stripes = len(reader.stripes)
    pieces = sorted((first, end) for some in tasks for path, first, end in some if path == "large.orc")
    assert len(pieces) > 3
    assert [first for first, _ in pieces[1:]] == [end for _, end in pieces[:-1]]
    assert (pieces[0][0], pieces[-1][1]) == (0, stripes)
    lengths = [end - first for first, end in pieces if end is not None]
    assert max(lengths) - min(lengths) <= 2
    assert sum(len(some) for some in tasks) == len(pieces) + 5
    manifest = table.snapshot().manifest
    files = [file.path for entry in manifest.files for file in entry.index_files]
    assert len(files) == len(set(files)) == 3 * 6
    # neither parts nor anything else is left over
    assert [item.path for item in Store.for_table(table.uri).garbage()] == []
    for where, exact in (
        ("a = 3", True),
        ("a > 7 OR a IS NULL", True),
        ("s = 's3'", False),
        ("id IN (5, 6000, 12030)", False),
    ):
        scan = table.scan(where)
        assert (scan.explain().exact, reasons(scan)) == (exact, {}), where
        left = scan.explain().rows
        assert left is not None
        assert left.kept is not None
        # a bloom filter rules out no row group here: each has every value
        assert (left.kept < 4000) == ("s" not in where), where
        assert sorted(ids(scan)) == spark_where(spark, skewed, where), where
    assert all(not item.problems for item in table.check_indexes(verify=True))
    before = store_state(table)
    table.refresh_indexes()
    assert store_state(table) == before


def test_a_damaged_stripe_is_named(skewed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a part as of a whole file, by every type of index; no part is left over."""
    local_build.install(monkeypatch)
    connection = LocalConnection()
    connection.conf[TASK_BYTES_SETTING] = "8k"
    with OrcReader(str(skewed / "large.orc")) as reader:
        stripe = reader.stripes[5]
    damaged = bytearray((skewed / "large.orc").read_bytes())
    start = stripe.offset + stripe.index_length + stripe.data_length
    damaged[start : start + stripe.footer_length] = b"\xff" * stripe.footer_length
    (skewed / "large.orc").write_bytes(damaged)
    table = connection.table(str(skewed))
    for name in ("BITMAP", "BTREE"):
        with raises(BuildError) as raised:
            table.create_index("i", "a", name)
        assert "\n" not in str(raised.value)
        assert [item.path for item in Store.for_table(table.uri).garbage()] == []
    del connection.conf[TASK_BYTES_SETTING]
    with raises(BuildError):
        table.create_index("i", "a")  # in one piece


@pytest.mark.parametrize(
    ("text", "size"), [("5", 5), ("20k", 20 << 10), ("64 MB", 64 << 20), ("1g", 1 << 30), ("2T", 2 << 40)]
)
def test_the_setting(text: str, size: int) -> None:
    connection = LocalConnection()
    assert task_bytes(connection.spark()) is None
    connection.conf[TASK_BYTES_SETTING] = text
    assert task_bytes(connection.spark()) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5m", "many", "64 x"])
def test_a_setting_that_is_no_size(text: str) -> None:
    connection = LocalConnection()
    connection.conf[TASK_BYTES_SETTING] = text
    with raises(BuildError):
        task_bytes(connection.spark())


def test_only_what_is_to_be_cut_is_opened(skewed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the large file is opened, for its share of bytes and for its stripes, and no file of a small table."""
    connection = LocalConnection()
    snapshot = connection.table(str(skewed)).snapshot()
    plan = plan_build(snapshot, [IndexEntry(new_index_id(), "i", "a", "BITMAP", "int")])
    opened: list[str] = []
    real = BuildTask.open

    def open_told(self: BuildTask) -> OrcReader:
        opened.append(self.path)
        return real(self)

    monkeypatch.setattr(BuildTask, "open", open_told)
    assert {task.is_part for some in task_splitting.split_build_tasks(plan.tasks, 2) for task in some} == {
        False
    }
    assert opened == []
    assert {
        task.is_part for some in task_splitting.split_build_tasks(plan.tasks, 2, 8000) for task in some
    } == {
        False,
        True,
    }
    assert opened == ["large.orc"] * 2
