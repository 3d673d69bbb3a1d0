"""ROWS index files: what they keep against the arrays themselves, and damage."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import BuildError, HindexError, IndexFileError
from hindex.index import rows as rows_module
from hindex.index.index_file import IndexFileReader
from hindex.index.index_type import Bounds
from hindex.index.merge import merge_index_files
from hindex.index.rows import ROWS, RowsReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import OrcType
from hindex.table.type_text import parse_type
from tests.support.messages import raises

#: The columns, with what makes one value of each.
COLUMNS: dict[str, tuple[str, Callable[[int], object]]] = {
    "b": ("boolean", lambda n: bool(n & 1)),
    "i": ("int", lambda n: n - 50),
    "l": ("bigint", lambda n: n << 40),
    "f": ("double", lambda n: [0.0, -0.0, float("inf"), n / 3][n % 4]),
    "d": ("decimal(20,3)", lambda n: Decimal(n) / 8),
    "s": ("string", lambda n: "ä" * (n % 5) + str(n)),
    "x": ("binary", lambda n: bytes([n % 256, 255])),
    "c": ("char(5)", lambda n: f"{n % 1000:<5}"),
    "t": ("date", lambda n: n),
    "a": ("array<string>", lambda n: [None, "é", str(n)][: n % 4]),
    "m": ("map<string,int>", lambda n: [(str(k), k) for k in range(n % 3)]),
    "r": ("struct<p:int,`q q`:array<int>>", lambda n: {"p": n, "q q": [n]}),
}
STRUCT = parse_type(f"struct<{','.join(f'{name}:{text}' for name, (text, _) in COLUMNS.items())}>")


def random_rows(rng: np.random.Generator, count: int) -> pa.StructArray:
    arrays = []
    for (_, value), child in zip(COLUMNS.values(), STRUCT.children, strict=True):
        numbers = rng.integers(0, 2000, count).tolist()
        missing = rng.random(count) < rng.choice([0.0, 0.2, 1.0])
        values = [None if gone else value(number) for number, gone in zip(numbers, missing, strict=True)]
        data_type = child.to_arrow()
        plain = pa.int32() if pa.types.is_date(data_type) else data_type
        arrays.append(pa.array(values, plain).cast(data_type))
    return pa.StructArray.from_arrays(arrays, fields=list(STRUCT.to_arrow()))


def opened(data: bytes) -> RowsReader:
    return RowsReader(IndexFileReader(BytesSource(data, "x.hidx")))


def file_of(stripes: Sequence[pa.Array], block_rows: int = 64, data_type: OrcType = STRUCT) -> bytes:
    sink = io.BytesIO()
    builder = ROWS.builder(sink, data_type, column="x", properties={"rows_per_block": str(block_rows)})
    for stripe in stripes:
        builder.add_stripe(stripe)
    summary = builder.finish()
    assert summary.length == len(sink.getvalue())
    assert [item.stats.rows for item in summary.stripes] == list(map(len, stripes))
    return sink.getvalue()


@pytest.mark.parametrize("turn", range(15))
def test_random_rows(rng: np.random.Generator, turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if turn % 2:
        monkeypatch.setattr(rows_module, "_BYTES_TOGETHER", 100_000)
    stripes = [random_rows(rng, int(rng.choice([0, 1, 7, 64, 500, 4000]))) for _ in range(3)]
    reader = opened(file_of(stripes, int(rng.choice([1, 3, 64, 1000]))))
    assert reader.stripe_rows == tuple(map(len, stripes))
    for number, stripe in enumerate(stripes):
        for share in (0.0, 0.01, 0.5, 1.0):
            rows = np.flatnonzero(rng.random(len(stripe)) < share)
            columns = np.flatnonzero(rng.random(len(COLUMNS)) < 0.5).tolist() or [turn % len(COLUMNS)]
            arrays = reader.read(number, rows, columns)
            expected = stripe.take(pa.array(rows)).flatten()
            assert arrays == [expected[at] for at in columns]
            assert [array.type for array in arrays] == [expected[at].type for at in columns]
    assert reader.lookup(1, Domain.all()) == Bounds.unknown(len(stripes[1]))


def test_few_rows_read_few_bytes(rng: np.random.Generator) -> None:
    stripe = random_rows(rng, 10_000)
    data = file_of([stripe])
    reader = opened(data)
    reader.read(0, np.array([5]), [0])
    first = reader.file.bytes_read
    reader.read(0, np.array([5, 63, 9_000]), [0, 5])
    # one block more than the one of the first two rows; the directory is in memory
    assert reader.file.bytes_read - first < 3 * len(data) / (10_000 / 64)


def test_strings_need_not_be_utf8() -> None:
    binary = pa.array([b"\xff\xfe", None, b"ok", b"\xe2\x82"])
    strings = pa.Array.from_buffers(pa.string(), 4, binary.buffers(), binary.null_count)
    data_type = parse_type("struct<s:string>")
    reader = opened(file_of([pa.StructArray.from_arrays([strings], ["s"])], data_type=data_type))
    (array,) = reader.read(0, np.array([0, 1, 3]), [0])
    assert array.cast(pa.binary()).to_pylist() == [b"\xff\xfe", None, b"\xe2\x82"]


def test_long_rows_have_blocks_of_their_own() -> None:
    texts = pa.array(["x" * 100_000 + str(n) for n in range(20)])
    data_type = parse_type("struct<s:string>")
    reader = opened(file_of([pa.StructArray.from_arrays([texts], ["s"])], data_type=data_type))
    assert reader.count_blocks(0, np.array([3, 4, 19])) == 3
    assert reader.read(0, np.array([3, 19]), [0]) == [texts.take(pa.array([3, 19]))]


def test_parts_merge_to_the_file_of_one_task(rng: np.random.Generator) -> None:
    stripes = [random_rows(rng, count) for count in (6500, 0, 6500)]
    parts = [IndexFileReader(BytesSource(file_of([stripe]), f"{n}.hidx")) for n, stripe in enumerate(stripes)]
    sink = io.BytesIO()
    merge_index_files(sink, parts)
    assert sink.getvalue() == file_of(stripes)


def test_damage_is_an_error(rng: np.random.Generator) -> None:
    data = file_of([random_rows(rng, 300)])
    pages_end = opened(data).file.pages_end
    for at in rng.integers(8, pages_end, 200).tolist():
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(IndexFileError, match="corrupt"):
            opened(bytes(damaged)).read(0, np.arange(300), range(len(COLUMNS)))


@pytest.mark.parametrize(
    "message",
    [
        lambda batch, start, _: batch.slice(start, len(batch) - 1).serialize().to_pybytes(),
        lambda batch, start, rows: batch.slice(start, rows).serialize().to_pybytes()[:-40],
        lambda *_: b"no message of Arrow",
        lambda batch, start, rows: _with_offsets(batch.slice(start, rows).serialize().to_pybytes()),
    ],
)
def test_blocks_that_contradict_themselves_are_an_error(
    monkeypatch: pytest.MonkeyPatch, message: object
) -> None:
    """Their checksums hold."""
    monkeypatch.setattr(rows_module, "_message", message)
    strings = pa.StructArray.from_arrays([pa.array([f"text {n}" for n in range(10)])], ["s"])
    reader = opened(file_of([strings], data_type=parse_type("struct<s:string>")))
    with pytest.raises(IndexFileError, match="block"):
        reader.read(0, np.arange(10), [0])


def _with_offsets(message: bytes) -> bytes:
    """Return the message of ten strings with an offset that lies outside the strings."""
    at = message.rindex((6).to_bytes(4, "little") + (12).to_bytes(4, "little"))
    return message[:at] + (1 << 30).to_bytes(4, "little") + message[at + 4 :]


def test_what_is_refused() -> None:
    assert not ROWS.supports(parse_type("int"))
    assert not ROWS.supports(parse_type("struct<u:uniontype<int,string>>"))
    builder = ROWS.builder(io.BytesIO(), parse_type("struct<a:int>"))
    with raises(BuildError):
        builder.add_stripe(pa.StructArray.from_arrays([pa.array([1], pa.int64())], ["a"]))
    with raises(HindexError):
        ROWS.builder(io.BytesIO(), STRUCT, properties={"rows_per_block": "0"})
    with raises(IndexFileError):
        opened(file_of([random_rows(np.random.default_rng(1), 300)])).read(0, np.array([300]), [0])
