"""Which compression chunks hold the rows of a selection, worked out from the whole file and its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.columns.layout import stream_layout
from hindex.orc.encoding.rle_v2.chain import follow
from hindex.orc.reader import OrcReader
from hindex.orc.source import LocalSource
from hindex.orc.stripe import StreamKind, Stripe, read_row_indexes
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType

Ints = npt.NDArray[np.int64]


def bytes_that_hold(path: Path, columns: Sequence[str], rows: Ints, table: pa.Table) -> int:
    """Bytes of the chunks, headers included, that hold rows of flat columns, and of what must be read to find them:
    the stripes' footers and row indexes. The file's tail is not counted.

    Runs of integers are read from the start of their row group, so such a stream counts with all chunks of the row
    group; of strings' bytes and floating point only the chunks that hold a wanted value count.

    :param table: all rows of the columns.
    """
    total = 0
    source = LocalSource(path)
    with OrcReader(path) as reader:
        decompressor = reader.tail.decompressor()
        for number, information in enumerate(reader.stripes):
            mine = rows[(rows >= information.first_row)] - information.first_row
            mine = mine[mine < information.num_rows]
            if not len(mine):
                continue
            total += information.footer_length
            stripe = reader.stripe(number)
            types = [reader.column_type(name) for name in columns]
            read_row_indexes(source, stripe, [of.column for of in types], decompressor)
            part = table.slice(information.first_row, information.num_rows)
            for name, of in zip(columns, types, strict=True):
                total += stripe.streams[of.column, StreamKind.ROW_INDEX].length
                values = part.column(name).combine_chunks()
                total += _of_column(reader, stripe, of, values, mine)
    return total


def _of_column(reader: OrcReader, stripe: Stripe, of: OrcType, values: pa.Array, rows: Ints) -> int:
    tail = reader.tail
    valid = np.asarray(values.is_valid())
    encoding = stripe.encodings[of.column]
    layout = list(stream_layout(of, encoding, tail.version))
    if (of.column, StreamKind.PRESENT) in stripe.streams:
        layout.insert(0, (StreamKind.PRESENT, 2))
    entries, at, total = [list(entry) for entry in stripe.positions[of.column]], 0, 0
    known = {kind for kind, _ in layout}
    for kind, extra in layout:
        stream = stripe.streams[of.column, kind]
        starts, sizes, told, content = _chunks(reader.path, stream.offset, stream.length)
        bases = dict(zip(starts, np.cumsum([0, *sizes]).tolist(), strict=False))
        ends = [*starts[1:], stream.length]
        places = [bases[entry[at]] + entry[at + 1] for entry in entries] + [sum(sizes)]
        at += 2 + extra
        by_value = kind == StreamKind.DATA and not encoding.is_dictionary and _widths(of, values) is not None
        held: set[int] = set()
        bounds = np.cumsum([0, *sizes])
        for group in np.unique(rows // tail.row_index_stride).tolist():
            first = group * tail.row_index_stride
            if by_value:
                widths = _widths(of, values)
                assert widths is not None
                wanted = rows[(rows // tail.row_index_stride == group)]
                wanted = wanted[valid[wanted]]
                until = np.cumsum(widths[first : first + tail.row_index_stride]) + places[group]
                for row in wanted.tolist():
                    end = int(until[row - first])
                    held |= _holding(bounds, end - int(widths[row]), end)
                    # it takes the chunks before it to find it, unless they tell how much they hold
                    held |= _holding(bounds, places[group], end) - told
            else:
                end = places[group + 1]
                if extra == 1 and group + 1 < len(entries):
                    # runs from the next row group's position on hold so many values of this one
                    end = follow(content, end, len(content) - 1, entries[group + 1][at - 1], [])
                held |= _holding(bounds, places[group], end)
        total += sum(ends[i] - starts[i] for i in held)
    for (column, kind), stream in stripe.streams.items():
        if column == of.column and kind < StreamKind.ROW_INDEX and kind not in known:
            total += stream.length
    return total


def _widths(of: OrcType, values: pa.Array) -> Ints | None:
    """How many bytes each value takes, where that can be told; nulls take none."""
    if of.kind in STRING_KINDS or of.kind == Kind.BINARY:
        return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return np.where(np.asarray(values.is_valid()), 4 if of.kind == Kind.FLOAT else 8, 0).astype(np.int64)
    assert of.kind in INTEGER_KINDS or of.kind in (Kind.DECIMAL, Kind.DATE), of
    return None


@lru_cache(maxsize=256)
def _chunks(path: str, offset: int, length: int) -> tuple[list[int], list[int], set[int], memoryview]:
    """Where the chunks of a stream begin, how much each holds, which of them tell that at their head, and it all."""
    with OrcReader(path) as reader:
        tail = reader.tail
    decompressor = tail.decompressor()
    (data,) = LocalSource(path).read([(offset, length)])
    starts: list[int] = []
    sizes: list[int] = []
    told: set[int] = set()
    content: list[bytes] = []
    for chunk in decompressor.chunks_of(data):
        if chunk.original or tail.compression in ("snappy", "zstd"):
            told.add(len(starts))
        starts.append(chunk.offset)
        out = np.empty(tail.block_size, np.uint8)
        sizes.append(decompressor.into(chunk, out))
        content.append(out[: sizes[-1]].tobytes())
    return starts, sizes, told, memoryview(b"".join(content) + b"\0")


def _holding(bounds: Ints, begin: int, end: int) -> set[int]:
    """The chunks that hold bytes of a range, by their content's bounds."""
    if begin == end:
        return set()
    first = int(np.searchsorted(bounds, begin, "right")) - 1
    last = int(np.searchsorted(bounds, end, "left")) - 1
    return set(range(first, last + 1))
