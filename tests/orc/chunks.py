"""The compression chunks that hold the row groups of a selection, found by reading the whole file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hindex.orc.decode.positions import stream_layout
from hindex.orc.io.source import LocalSource
from hindex.orc.metadata.stripe import StreamKind, Stripe, read_row_indexes
from hindex.orc.metadata.types import OrcType
from hindex.orc.reader.orc_reader import OrcReader

Ints = npt.NDArray[np.int64]

#: A run of 512 values of 64 bits, and what else may belong to it.
RUN_BYTES = 4620


def bytes_that_hold(path: Path, columns: Sequence[str], rows: Ints, run_bytes: int = RUN_BYTES) -> int:
    """Sum up the chunks, headers included, of flat columns' row groups, and the metadata that locates them.

    That is the stripes' footers and row indexes; the file's tail is not counted.

    Args:
        run_bytes: what counts of a run that goes on behind a row group; by default, as long as one may be.
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
            read_row_indexes(source, stripe, [data_type.column for data_type in types], decompressor)
            groups = np.unique(mine // reader.tail.row_index_stride)
            for data_type in types:
                total += stripe.streams[data_type.column, StreamKind.ROW_INDEX].length
                total += _column_bytes(reader, stripe, data_type, groups, run_bytes)
    return total


def _column_bytes(reader: OrcReader, stripe: Stripe, data_type: OrcType, groups: Ints, run_bytes: int) -> int:
    layout = list(stream_layout(data_type, stripe.encodings[data_type.column], reader.tail.version))
    if (data_type.column, StreamKind.PRESENT) in stripe.streams:
        layout.insert(0, (StreamKind.PRESENT, 2))
    entries, at, total = [list(entry.positions) for entry in stripe.row_entries[data_type.column]], 0, 0
    for kind, extra in layout:
        stream = stripe.streams[data_type.column, kind]
        starts, sizes = _chunks(reader.path, stream.offset, stream.length)
        edges = np.cumsum([0, *sizes])
        bases = dict(zip(starts, edges.tolist(), strict=False))
        places = [bases[entry[at]] + entry[at + 1] for entry in entries] + [sum(sizes)]
        skips = [sum(entry[at + 2 : at + 2 + extra]) for entry in entries] + [0]
        first_number, at = at, at + 2 + extra
        chunks: set[int] = set()
        for group in groups.tolist():
            end = places[group + 1] + (run_bytes if skips[group + 1] else 0)
            # a position may be the end of a chunk
            first = starts.index(entries[group][first_number])
            last = int(np.searchsorted(edges, min(end, sum(sizes)), "left"))
            chunks |= set(range(first, last)) if end > places[group] else set()
        total += sum(int(np.diff([*starts, stream.length])[i]) for i in chunks)
    kinds = {kind for kind, _ in layout}
    return total + sum(
        stream.length
        for (column, kind), stream in stripe.streams.items()
        if column == data_type.column and kind < StreamKind.ROW_INDEX and kind not in kinds
    )


@lru_cache(maxsize=256)
def _chunks(path: str, offset: int, length: int) -> tuple[list[int], list[int]]:
    """List where the chunks of a stream begin, and the sizes of their contents."""
    with OrcReader(path) as reader:
        tail = reader.tail
    decompressor = tail.decompressor()
    (view,) = LocalSource(path).read([(offset, length)])
    data = np.frombuffer(view, np.uint8)
    chunks = decompressor.list_chunks(data, np.zeros(1, np.int64), np.array([length]), np.zeros(1, np.int64))
    wanted = np.full(len(chunks), tail.block_size)
    out = np.empty(int(wanted.sum()), np.uint8)
    _, sizes = decompressor.decompress(data, chunks, wanted, wanted, out)
    return chunks.offsets.tolist(), sizes.tolist()
