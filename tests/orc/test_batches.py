"""Memory that a read holds at once, and the rows that it returns."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pytest
from pyroaring import BitMap, BitMap64

from hindex.orc import OrcReader, RowSelection
from hindex.orc.io.adapted import FileSystemSource
from hindex.orc.reader import orc_reader, stripe_reader
from tests.support.messages import raises

ROWS, STRIDE = 32_000, 500


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A stripe of 64 row groups of 256 kB each: 14 MB of text, and 2 MB of numbers."""
    rng = np.random.default_rng(2)
    words = np.array([f"{v:016x}" * 28 for v in rng.integers(0, 1 << 62, 500)])
    table = pa.table(
        {
            "text": pa.array(words[rng.integers(0, len(words), ROWS)]),
            "n": rng.integers(0, 1 << 60, ROWS),
            "d": rng.random(ROWS),
            "s": pa.StructArray.from_arrays([pa.array(rng.integers(0, 1 << 60, ROWS))], ["n"]),
        }
    )
    path = tmp_path_factory.mktemp("wide") / "t.orc"
    pa.orc.write_table(
        table,
        path,
        compression="snappy",
        row_index_stride=STRIDE,
        compression_block_size=65_536,
        batch_size=500,
    )
    with OrcReader(path) as reader:
        assert len(reader.stripes) == 1
    return path, table


@pytest.mark.parametrize("rows_of_group", [1, 4, STRIDE])
@pytest.mark.parametrize("is_remote", [False, True])
def test_memory_follows_the_size_of_a_piece(
    wide: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch, is_remote: bool, rows_of_group: int
) -> None:
    path, table = wide
    rng = np.random.default_rng(4)
    rows = np.concatenate(
        [np.sort(rng.choice(STRIDE, rows_of_group, replace=False)) + s for s in range(0, ROWS, STRIDE)]
    )

    def peak(piece_bytes: int) -> int:
        monkeypatch.setattr(orc_reader, "_PIECE_BYTES", piece_bytes)
        monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
        source = FileSystemSource(pyarrow.fs.LocalFileSystem(), str(path)) if is_remote else path
        total = 0
        tracemalloc.start()
        for batch in OrcReader(source).batches(rows=rows):
            expected = table.take(rows[total : total + batch.num_rows])
            assert pa.Table.from_batches([batch]).equals(expected)
            total += batch.num_rows
        (_, peak_bytes) = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert total == len(rows)
        return peak_bytes

    small, large = peak(256 << 10), peak(1 << 30)
    # what is wanted of a stripe of a remote file is fetched together; of a local file memory is reserved for it
    assert small < (5 << 19) + path.stat().st_size
    assert rows_of_group < STRIDE or large > 12 << 20


def test_a_small_column_leaves_the_others_in_pieces(
    wide: tuple[Path, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, table = wide
    # a struct without fields and nulls has no streams
    table = table.append_column("nothing", pa.StructArray.from_buffers(pa.struct([]), ROWS, [None]))
    path = tmp_path / "t.orc"
    pa.orc.write_table(table, path, compression="snappy", row_index_stride=STRIDE, batch_size=500)
    monkeypatch.setattr(orc_reader, "_PIECE_BYTES", 256 << 10)
    rows = np.delete(np.arange(ROWS), np.arange(7, ROWS, STRIDE))
    with OrcReader(path) as reader:
        batches = list(reader.batches(rows=rows))
        assert reader.counts.row_groups == table.num_columns * ROWS // STRIDE
        assert reader.counts.whole_columns == 0
    assert len(batches) > 16
    assert pa.Table.from_batches(batches).equals(table.take(rows))


def test_rows_of_a_window_are_bounded(wide: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorted dictionary column takes few bytes, so these do not bound the length of its values."""
    path, table = wide
    monkeypatch.setattr(stripe_reader, "_WINDOW_ROWS", 4 * STRIDE)
    with OrcReader(path) as reader:
        read = reader.read(["text"])
        assert [len(chunk) for chunk in read["text"].chunks] == [4 * STRIDE] * (ROWS // STRIDE // 4)
        assert read.equals(table.select(["text"]))
        # all but one of each row group: the row index is used
        rows = np.delete(np.arange(ROWS), np.arange(7, ROWS, STRIDE))
        read = reader.read(["n"], rows)
        assert [len(chunk) for chunk in read["n"].chunks] == [4 * (STRIDE - 1)] * (ROWS // STRIDE // 4)
        assert read.equals(table.select(["n"]).take(rows))
        # one of each: row groups of sixteen times as many rows
        rows = np.arange(7, ROWS, STRIDE)
        read = reader.read(["n"], rows)
        assert [len(chunk) for chunk in read["n"].chunks] == [16] * (ROWS // STRIDE // 16)
        assert read.equals(table.select(["n"]).take(rows))


@pytest.mark.parametrize("skipped", [0, 1])
def test_rows_of_a_piece_are_bounded(
    wide: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch, skipped: int
) -> None:
    path, _ = wide
    monkeypatch.setattr(orc_reader, "BATCH_SIZE", 4 * STRIDE)
    with OrcReader(path) as reader:
        for batch_size, rows in (
            (ROWS, ROWS),
            (8 * STRIDE, 8 * STRIDE),
            (4 * STRIDE, 4 * STRIDE),
            (1, 4 * STRIDE),
        ):
            pieces = list[tuple[int, pa.Buffer]]()
            for batch in reader.batches(["n", "d"], np.arange(skipped, ROWS), batch_size=batch_size):
                # the batches of a piece are slices of one array
                buffer = batch["n"].buffers()[1]
                if not pieces or pieces[-1][0] != buffer.address:
                    pieces.append((buffer.address, buffer))
            assert {buffer.size // 8 for _, buffer in pieces[1:]} <= {rows}
            assert pieces[0][1].size // 8 == min(rows, ROWS) - skipped
            assert sum(buffer.size // 8 for _, buffer in pieces) == ROWS - skipped


def test_a_large_row_index_stride_does_not_join_all_rows_in_one_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 100_000)
    table = pa.table({"n": np.random.default_rng(5).integers(0, 1 << 60, 50_000)})
    path = tmp_path / "t.orc"
    pa.orc.write_table(table, path, compression="zstd", row_index_stride=2_000_000)
    with OrcReader(path) as reader:
        read = reader.read()
    assert read["n"].num_chunks == 5
    assert read.equals(table)


def test_a_chunk_that_two_windows_share(
    noise: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decompressed once if all rows are read, and else once for each of them."""
    path, table = noise
    rows = np.delete(np.arange(len(table)), np.arange(7, len(table), STRIDE))
    for wanted in (None, rows):
        counts = []
        for size in (1 << 40, 8 << 20, 1):
            monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", size)
            with OrcReader(path) as opened:
                opened.stripe(0)
                before = opened.counts.chunks
                expected = table if wanted is None else table.take(wanted)
                read = opened.read(rows=wanted)
                assert read.equals(expected)
                windows = read["text"].num_chunks
                counts.append((opened.counts.chunks - before, windows, opened.counts.row_groups))
        whole = counts[0][0]
        for chunks, windows, groups in counts:
            if wanted is None:
                assert (chunks, groups) == (whole, 0)
            else:
                # of both streams; with several windows, the row index is read, too
                assert chunks <= whole + 4 + 2 * (windows - 1)
                assert groups == (0 if windows == 1 else 22)
        assert [windows for _, windows, _ in counts] == [1, 4, 22]


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A stripe of 22 row groups of 300 kB of text that is stored as it is, in chunks that do not end with them."""
    width, groups = 600, 22
    content = np.random.default_rng(3).bytes(groups * STRIDE * width)
    table = pa.table({"text": [content[at : at + width] for at in range(0, len(content), width)]})
    path = tmp_path_factory.mktemp("noise") / "t.orc"
    pa.orc.write_table(
        table,
        path,
        compression="zstd",
        row_index_stride=STRIDE,
        compression_block_size=65_536,
        batch_size=500,
    )
    return path, table


def test_batches_end_with_a_stripe_and_a_row_group_is_decoded_once(wide: tuple[Path, pa.Table]) -> None:
    path, table = wide
    reader = OrcReader(path)
    rows = np.arange(3 * STRIDE + 10, 5 * STRIDE)
    batches = list(reader.batches(["n", "text"], rows, batch_size=128))
    assert [b.num_rows for b in batches] == [128] * 7 + [94]
    assert pa.Table.from_batches(batches).equals(table.select(["n", "text"]).take(rows))
    assert reader.counts.row_groups == 2 * 2
    assert [b.num_rows for b in reader.batches([], rows, batch_size=600)] == [600, 390]
    assert list(reader.batches(rows=[])) == []
    with raises(ValueError):
        reader.batches(rows=rows, batch_size=0)
    with raises(ValueError):
        reader.batches(rows=[ROWS])


def test_the_whole_file_in_batches(wide: tuple[Path, pa.Table]) -> None:
    path, table = wide
    batches = list(OrcReader(path).batches(batch_size=5000))
    assert [b.num_rows for b in batches] == [5000] * 6 + [2000]
    assert pa.Table.from_batches(batches).equals(table)


FORMS: list[tuple[Any, list[int]]] = [
    (BitMap([7, 3, 11_999]), [3, 7, 11_999]),
    (BitMap(), []),
    (BitMap64([3, 11_000]), [3, 11_000]),
    (BitMap64(), []),
    ([11, 2, 5], [2, 5, 11]),
    ([5, 5, 2, 5], [2, 5]),
    ((4,), [4]),
    (range(3, 10, 3), [3, 6, 9]),
    ({8, 1}, [1, 8]),
    (iter([2, 1]), [1, 2]),
    (np.array([9, 1, 9], np.uint8), [1, 9]),
    (np.array([9, 1], np.int16), [1, 9]),
    (np.array([], np.float64), []),
    (np.array([[4, 3], [2, 1]]), [1, 2, 3, 4]),
    (pa.array([6, 5]), [5, 6]),
    (pa.chunked_array([[6], [5, 6]], pa.uint32()), [5, 6]),
    ([], []),
    ({0: [1, 0], 2: BitMap([0])}, [0, 1, 8000]),
    ({1: RowSelection.of([2], 4000).to_array()}, [4002]),
    ({}, []),
]


@pytest.fixture(scope="module")
def striped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12,000 rows in three stripes."""
    path = tmp_path_factory.mktemp("striped") / "t.orc"
    with pyarrow.orc.ORCWriter(str(path), stripe_size=1, row_index_stride=1000, batch_size=4000) as writer:
        for start in range(0, 12_000, 4000):
            writer.write(pa.table({"n": np.arange(start, start + 4000)}))
    with OrcReader(path) as reader:
        assert [stripe.num_rows for stripe in reader.stripes] == [4000] * 3
    return path


@pytest.mark.parametrize(("rows", "expected"), FORMS)
def test_forms_of_rows(striped: Path, rows: Any, expected: list[int]) -> None:
    assert OrcReader(striped).read(rows=rows).column("n").to_pylist() == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([-1], "row -1 is outside the file's 12000 rows"),
        ([5, 12_000], "row 12000 is outside the file's 12000 rows"),
        (BitMap([1 << 31]), "row 2147483648 is outside"),
        (BitMap64([1 << 40]), f"row {1 << 40} is outside"),
        (BitMap64([(1 << 64) - 1]), f"row {(1 << 64) - 1} is outside"),
        (np.array([1 << 63], np.uint64), f"row {1 << 63} is outside of every file"),
        ([1 << 70], "rows are whole numbers of at most 64 bits, not object"),
        ([1.0], "rows are whole numbers of at most 64 bits, not float64"),
        (["1"], "rows are whole numbers"),
        ([None], "rows are whole numbers"),
        (np.ones(12_000, bool), r"not a mask: use numpy.flatnonzero\(mask\)"),
        ([True, False], "not a mask"),
        (pa.array([True]), "not a mask"),
        (pa.array([1, None]), "rows are whole numbers, and 1 of 2 are null"),
        ({3: [0]}, "stripe 3 is outside the file's 3 stripes"),
        ({-1: [0]}, "stripe -1 is outside"),
        ({1: [4000]}, "row 4000 is outside the stripe's 4000 rows"),
        ({1: [-1]}, "row -1 is outside the stripe's 4000 rows"),
    ],
)
def test_invalid_rows(striped: Path, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OrcReader(striped).read(rows=rows)
