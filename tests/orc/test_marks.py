"""Reads of the same stripe learn where values lie, walk less the next time, and give the same rows."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader
from hindex.orc.encoding import rle_v2, varint
from hindex.orc.encoding.rle_v2 import walk
from hindex.orc.marks import RUNS_APART, VALUES_APART, ColumnMarks, Marks, Walks, apart

ROWS, STRIDE = 40_000, 5_000


def table(rng: np.random.Generator) -> pa.Table:
    nulls = rng.random(ROWS) < 0.2
    keys = np.repeat(np.arange(ROWS), rng.integers(1, 8, ROWS))[:ROWS]
    cents = rng.integers(-(10**7), 10**7, ROWS) * np.where(rng.random(ROWS) < 0.1, 10**12, 1)
    words = np.array(["", "a", "of", "mistletoe", "\U0001d11e" * 9])[rng.integers(0, 5, ROWS)]
    inner = pa.array([None if i % 7 == 0 else int(v) for i, v in enumerate(keys)], pa.int32())
    return pa.table(
        {
            "key": keys,
            "key_or_null": pa.array(keys, mask=nulls),
            "wide": rng.integers(-(1 << 62), 1 << 62, ROWS),
            "day": pa.array(rng.integers(8000, 9000, ROWS).astype(np.int32), pa.date32()),
            "price": pa.array(
                [decimal.Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(30, 2), mask=nulls
            ),
            "word": pa.array(words, mask=nulls),
            "text": pa.array([f"{w}{k}" for w, k in zip(words, keys, strict=True)]),
            "blob": pa.array([b"x" * (k % 3) for k in keys.tolist()], pa.binary()),
            "when": pa.array(keys * 1_000_003 + 1_600_000_000_000_000, pa.timestamp("us"), mask=nulls),
            "pair": pa.StructArray.from_arrays([inner, pa.array(words)], ["a", "b"], mask=pa.array(nulls)),
            "list": pa.ListArray.from_arrays(
                pa.array(np.minimum(np.arange(ROWS + 1) * 2, 2 * ROWS).astype(np.int32)),
                np.arange(2 * ROWS) // 3,
            ),
        }
    )


def write(path: Path, data: pa.Table, codec: str, version: str = "0.12") -> None:
    pa.orc.write_table(
        data,
        path,
        compression=codec,
        row_index_stride=STRIDE,
        compression_block_size=65_536,
        dictionary_key_size_threshold=0.1,
        file_version=version,
    )


@pytest.mark.parametrize(("codec", "version"), [("uncompressed", "0.12"), ("zstd", "0.12"), ("zlib", "0.11")])
def test_rows_of_many_reads(tmp_path: Path, codec: str, version: str, rng: np.random.Generator) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, codec, version)
    columns = [*data.column_names, "pair.a"]
    expected = data.append_column("pair.a", data["pair"].combine_chunks().field("a"))
    # a field of a null struct is null
    expected = expected.set_column(
        expected.num_columns - 1,
        "pair.a",
        pa.array([None if row is None else row["a"] for row in data["pair"].to_pylist()], pa.int32()),
    )
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        for wanted in (3, 30, 300, 2_000, 1, 20, 50):
            rows = np.unique(rng.integers(0, ROWS, wanted))
            found = reader.read(columns, rows)
            for name in columns:
                assert found[name].equals(expected[name].take(pa.array(rows))), (name, wanted)


class Walked:
    """Counts the runs and varints that reads walk over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = self.values = 0
        find_runs, locate = walk.find_runs, varint._locate

        def spy_runs(*args: Any) -> Any:
            found = find_runs(*args)
            self.runs += len(found.at)
            return found

        def spy_values(*args: Any) -> Any:
            self.values += int(args[-1].sum())
            return locate(*args)

        monkeypatch.setattr(rle_v2, "find_runs", spy_runs)
        monkeypatch.setattr(varint, "_locate", spy_values)

    def take(self) -> tuple[int, int]:
        found = self.runs, self.values
        self.runs = self.values = 0
        return found


@pytest.mark.parametrize("name", ["key", "key_or_null", "text", "price", "word"])
def test_later_reads_walk_less(
    tmp_path: Path, name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, "zstd")
    walked = Walked(monkeypatch)
    rows = np.arange(STRIDE - 40, ROWS, STRIDE)
    runs, values = [], []
    for _ in range(4):
        # each time by a reader of its own: what was learnt is the process's
        with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
            assert reader.read([name], rows)[name].equals(data[name].take(pa.array(rows)))
        of_runs, of_values = walked.take()
        runs.append(of_runs)
        values.append(of_values)
    groups = ROWS // STRIDE
    if name == "price":
        assert values[0] > groups * STRIDE / 4
        assert values[2] == values[3] < values[0] / 10
    else:
        # the first read of long walks may leave them to pyarrow
        assert runs[1] > groups * STRIDE / VALUES_APART / 2
        assert runs[2] == runs[3] <= groups * (RUNS_APART + 2)
        assert runs[2] < runs[1] / 4


def test_a_mark_serves_only_its_own_row_group() -> None:
    marks = Marks()
    marks.learn(np.array([2, 2, 5]), np.array([512, 1024, 512]), np.array([70, 150, 60]), np.array([7, 8, 9]))
    found = marks.before(np.array([0, 2, 2, 2, 3, 5, 6]), np.array([5000, 511, 512, 1023, 5000, 5000, 0]))
    assert found.known.tolist() == [False, False, True, True, False, True, False]
    assert found.ordinals.tolist() == [0, 0, 512, 512, 0, 512, 0]
    assert found.offsets.tolist() == [0, 0, 70, 70, 0, 60, 0]
    assert found.sums.tolist() == [0, 0, 7, 7, 0, 9, 0]


def test_walks_start_at_the_last_mark_before_each_value(rng: np.random.Generator) -> None:
    for _ in range(50):
        marks = Marks()
        known = {(g, o): int(rng.integers(0, 9999)) for g, o in rng.integers(0, (4, 400), (20, 2)).tolist()}
        for (group, ordinal), offset in known.items():
            marks.learn(np.array([group]), np.array([ordinal]), np.array([offset]))
        ids = np.array([0, 2, 3])
        wanted = [np.unique(rng.integers(0, 400, rng.integers(1, 9))) for _ in ids]
        bounds = np.cumsum([0] + [len(w) for w in wanted])
        walks = Walks.to(marks, ids, np.concatenate(wanted), bounds)
        at = np.repeat(np.arange(len(walks.groups)), np.diff(walks.bounds))
        expected = [(g, o) for g, w in zip(ids.tolist(), wanted, strict=True) for o in w.tolist()]
        for i, (group, ordinal) in enumerate(expected):
            start = max([o for g, o in known if g == group and o <= ordinal], default=0)
            assert ids[walks.groups[at[i]]] == group
            assert walks.starts.ordinals[at[i]] == start
            assert walks.ordinals[i] == ordinal - start
            assert walks.starts.offsets[at[i]] == known.get((group, start), 0)


def test_marks_are_kept_so_far_apart() -> None:
    first = np.concatenate([np.arange(0, 4 * 100, 4), np.arange(0, 512 * 5, 512)])
    chosen = apart(first, np.array([0, 100, 105]))
    # short runs: every so many of them; long ones: each
    assert chosen.tolist() == [*range(RUNS_APART, 100, RUNS_APART), 101, 102, 103, 104]


def test_the_first_read_learns_nothing() -> None:
    marks = ColumnMarks()
    marks.reads = 1
    assert not marks.learns
    marks.reads = 2
    assert marks.learns


def test_sums_take_memory_only_where_there_are_some(rng: np.random.Generator) -> None:
    for has_sums in ([False, False], [True, True], [False, True], [True, False]):
        marks = Marks()
        expected: dict[tuple[int, int], tuple[int, int]] = {}
        places = rng.permutation(2000).reshape(2, -1)[:, :40]
        for (groups, ordinals), has in zip(np.stack(np.divmod(places, 400), 1), has_sums, strict=True):
            offsets, sums = rng.integers(1, 9999, (2, 40))
            marks.learn(groups, ordinals, offsets, sums if has else None)
            told = zip(offsets.tolist(), (sums * has).tolist(), strict=True)
            expected.update(zip(zip(groups.tolist(), ordinals.tolist(), strict=True), told, strict=True))
        assert marks.nbytes == 80 * (24 if any(has_sums) else 16)
        keys = np.array(list(expected))
        # whoever asks may write into what is found
        for _ in range(2):
            found = marks.before(keys[:, 0], keys[:, 1])
            assert found.known.all()
            told = zip(found.offsets.tolist(), found.sums.tolist(), strict=True)
            assert list(told) == list(expected.values())
            found.sums[:] = -1
