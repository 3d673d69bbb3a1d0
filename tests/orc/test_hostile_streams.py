"""Files made to mislead, by the content of their streams: each ends in an error that names the place, on every path.

Most were found by ``python -m tests.fuzz``. Where pyarrow's own reader ends the process, hangs or takes memory without
bound on a file, the case says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.calendars import julian_to_gregorian
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.corpus import _without_index
from tests.fuzz.parts import FileParts, put_together, take_apart
from tests.orc.hostile import (
    NONE,
    ROWS,
    STRIDE,
    TABLE,
    ZLIB,
    ZSTD,
    bounded,
    column_of,
    direct_64,
    repeated,
    with_message,
    with_stream,
)
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.rle_v2 import pack, zigzag
from tests.support.writers import write_pyarrow

SECONDS_TO_2015 = 1_420_070_400
#: Errors of a stream that does not have what it should.
ENDS = r"stream ends|outside the stream.s|past the end of its stream|more than one array|more than the stream has"

#: Streams of a column that are not what they should be, and the error.
STREAMS: list[tuple[str, StreamKind, bytes, str]] = [
    # pyarrow ends the process
    ("text", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    ("text", StreamKind.LENGTH, direct_64([1 << 62] * ROWS), "length is negative or above"),
    # pyarrow takes gigabytes
    ("text", StreamKind.LENGTH, repeated(1 << 30, ROWS), ENDS),
    ("text", StreamKind.LENGTH, b"", ENDS),
    ("text", StreamKind.DATA, b"", ENDS),
    ("mode", StreamKind.LENGTH, direct_64([1 << 63, 1 << 63, 2, 2, 2]), "length is negative"),
    ("mode", StreamKind.LENGTH, repeated(1 << 30, 5), ENDS),
    # enough such lengths would add up to a small number of 64 bits
    ("text", StreamKind.LENGTH, repeated(1 << 31, ROWS), "length is negative or above"),
    ("mode", StreamKind.LENGTH, repeated(1 << 31, 5), "length is negative or above"),
    ("mode", StreamKind.DATA, repeated(5, ROWS), "entry 5 of a dictionary of 5"),
    # pyarrow counts to two billion for each value
    (
        "huge",
        StreamKind.SECONDARY,
        direct_64([zigzag((1 << 31) - 1)] * ROWS),
        "scale .* exceeds the format's limits",
    ),
    ("money", StreamKind.SECONDARY, direct_64([zigzag(-(1 << 30))] * ROWS), "exceeds the format's limits"),
    ("money", StreamKind.DATA, b"\xff" * 2000, "too many bytes"),
    ("moment", StreamKind.SECONDARY, direct_64([(1 << 40) << 3] * ROWS), "more than 999,999,999 nanoseconds"),
    # ten, and the eight zeros that the last bits stand for
    ("moment", StreamKind.SECONDARY, direct_64([10 << 3 | 7] * ROWS), "more than 999,999,999 nanoseconds"),
    # seconds from 2015 on, so that the sum is the least integer
    (
        "moment",
        StreamKind.DATA,
        direct_64([zigzag((1 << 63) - SECONDS_TO_2015)] * ROWS),
        "does not fit 64-bit",
    ),
    ("list", StreamKind.LENGTH, repeated(1 << 29, ROWS), ENDS),
    ("list", StreamKind.LENGTH, repeated(1 << 21, ROWS), ENDS),
    ("list", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    # two elements, then one less than none, by steps
    ("list", StreamKind.LENGTH, direct_64([2]) + b"\xc1\xff\x02\x01" * 2, "length is negative"),
    ("list/0", StreamKind.DATA, b"", ENDS),
    ("texts/0", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    ("texts/0", StreamKind.LENGTH, repeated(1 << 30, ROWS), ENDS),
    ("map", StreamKind.LENGTH, repeated(1 << 29, ROWS), ENDS),
    ("map/1", StreamKind.LENGTH, direct_64([1 << 62] * ROWS), "negative or above"),
    ("number", StreamKind.PRESENT, b"\x7f", ENDS),
    ("double", StreamKind.DATA, bytes(8), ENDS),
    ("pair/1", StreamKind.LENGTH, direct_64([1 << 63] * ROWS), "length is negative"),
]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("name", "kind", "content", "message"),
    STREAMS,
    ids=[f"{n}-{k.name}-{i}" for i, (n, k, _, _) in enumerate(STREAMS)],
)
def test_streams_of_hostile_content(
    parts: FileParts,
    name: str,
    kind: StreamKind,
    content: bytes,
    message: str,
    codec: int,
) -> None:
    data = put_together(with_stream(parts, name, kind, content), codec)
    top = name.partition("/")[0]
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read([top]))
    assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)
    others = [other for other in TABLE.column_names if other != top]
    assert OrcReader(BytesSource(data)).read(others).equals(TABLE.select(others))


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (StreamKind.LENGTH, direct_64([-1] * ROWS)),
        (StreamKind.LENGTH, b""),
        (StreamKind.ROW_INDEX, b""),
    ],
)
def test_a_stream_that_is_listed_twice(parts: FileParts, kind: StreamKind, content: bytes) -> None:
    """Pyarrow takes the first of them, whatever was looked at, and ends the process on its lengths."""
    column, other = column_of(parts, "text"), column_of(parts, "tiny")

    def rename(footer: Any) -> None:
        (stream,) = (s for s in footer.streams if (s.column, s.kind) == (other, StreamKind.DATA))
        stream.column, stream.kind = column, kind

    data = put_together(
        with_stream(parts, "tiny", StreamKind.DATA, content), hooks=with_message("stripe footer", rename)
    )
    with raises(OrcError) as caught:
        OrcReader(BytesSource(data, "x.orc")).read(["text"])
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


@pytest.mark.usefixtures("windows")
def test_lengths_that_are_sure_to_be_missing(parts: FileParts) -> None:
    """No row is null, so there must be as many as rows; the last run may have more."""
    for name, kind, values in (("texts", StreamKind.LENGTH, 512), ("text", StreamKind.LENGTH, 512)):
        data = put_together(with_stream(parts, name, kind, repeated(1, values)))
        with raises(OrcError):
            OrcReader(BytesSource(data)).read([name])


@pytest.mark.parametrize("name", ["text", "texts/0", "list", "map"])
@pytest.mark.usefixtures("windows")
def test_patched_lengths_of_64_bits(parts: FileParts, name: str) -> None:
    """Java, C++ and processors apply a patch to the lowest bits of packed values of 64 bits."""
    num_rows = TABLE.num_rows
    patch = ((1 << 47) + 5).to_bytes(7, "big")
    run = bytes([0x80 | 31 << 1 | 1, 255, 29, 1, 0]) + pack([1] * 512, 64) + patch
    data = put_together(with_stream(parts, name, StreamKind.LENGTH, run + repeated(1, num_rows)))
    top = name.partition("/")[0]
    with raises(OrcError):
        OrcReader(BytesSource(data)).read([top])


@pytest.mark.usefixtures("windows")
def test_rows_without_a_row(parts: FileParts) -> None:
    """A root that says which rows are null, as no writer's does; pyarrow does not ask it."""
    damaged = parts.copy()
    damaged.stripes[0].footer.streams.add(kind=StreamKind.PRESENT, column=0)
    damaged.stripes[0].streams.append(b"\x6d\x55")  # every other row, of 112 bytes and so 896 rows
    damaged.stripes[0].streams[-1] += b"\xff\x55"
    expected = pa.array([i if i % 2 else None for i in range(ROWS)])
    reader = OrcReader(BytesSource(put_together(damaged)))
    tiny = reader.read(["tiny"]).column(0)
    assert tiny.is_valid().to_pylist() == expected.is_valid().to_pylist()


@sampled(7)
@pytest.mark.parametrize(
    ("name", "kind", "codec"),
    [
        ("text", StreamKind.LENGTH, ZLIB),
        ("mode", StreamKind.LENGTH, ZSTD),
        ("mode", StreamKind.DICTIONARY_DATA, ZLIB),
        ("list", StreamKind.LENGTH, ZSTD),
        ("number", StreamKind.DATA, ZSTD),
        ("number", StreamKind.PRESENT, ZSTD),
        ("double", StreamKind.DATA, ZSTD),
    ],
)
@pytest.mark.usefixtures("windows")
def test_much_behind_the_last_value(parts: FileParts, name: str, kind: StreamKind, codec: int) -> None:
    """The reader does not decompress bytes that no value can need: here a hundred megabytes."""
    stripe = parts.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    good = stripe.streams[places.index((column_of(parts, name), kind))]
    block = 1 << 20
    content = good + bytes(100 * block - len(good))
    data = put_together(with_stream(parts, name, kind, content), codec, block)
    for rows in (None, list(range(ROWS - STRIDE, ROWS))):
        reader = OrcReader(BytesSource(data))
        tables: list[pa.Table] = []
        bounded(lambda reader=reader, rows=rows, tables=tables: tables.append(reader.read([name], rows)))  # type: ignore[misc]
        expected = TABLE.select([name])
        assert tables[0].equals(expected if rows is None else expected.take(rows))
        assert reader.counts.bytes_decompressed < 8 * block, rows


@pytest.mark.parametrize("calendar", [1, 2])
@pytest.mark.usefixtures("windows")
def test_days_beyond_the_calendar(tmp_path: Path, rng: np.random.Generator, calendar: int) -> None:
    """A value beyond 32 bits is the same on every path: its low bits, then of the file's calendar."""
    days = [*rng.integers(-(1 << 63), (1 << 63) - 1, ROWS - 4).tolist(), 1 << 31, -1 << 32, (1 << 32) + 7, -9]
    path = tmp_path / "t.orc"
    write_pyarrow(path, pa.table({"day": pa.array(range(ROWS), pa.date32())}), "none", stride=STRIDE)
    damaged = with_stream(
        take_apart(path.read_bytes()), "day", StreamKind.DATA, direct_64([zigzag(day) for day in days])
    )
    damaged.footer.row_index_stride = 0
    data = put_together(
        damaged, ZSTD, hooks=with_message("footer", lambda m: setattr(m, "calendar", calendar))
    )
    gregorian = julian_to_gregorian(np.array(days).astype(np.int32).astype(np.int64))
    low = (gregorian if calendar == 1 else np.array(days)).astype(np.int32)
    reader = OrcReader(BytesSource(data))
    assert reader.read().column(0).cast(pa.int32()).to_pylist() == low.tolist()


def test_one_list_behind_a_billion_elements(parts: FileParts) -> None:
    """What lies before the selected elements takes no memory, though the stream has it."""
    damaged = with_stream(parts, "list", StreamKind.LENGTH, direct_64([1 << 30] + [1] * (ROWS - 1)))
    # a run of 130 bytes has 1,040 nulls
    damaged = with_stream(damaged, "list/0", StreamKind.PRESENT, bytes([127, 0]) * ((1 << 30) // 1040 + 10))
    data = put_together(_without_index(damaged), ZLIB)
    assert len(data) < 64_000
    tables: list[pa.Table] = []
    bounded(lambda: tables.append(OrcReader(BytesSource(data)).read(["list"], [5])), 48 << 20)
    assert tables[0].column(0).to_pylist() == [[None]]
