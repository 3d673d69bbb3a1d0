"""One read of several stripes: what can be is decoded for all of them at once, the rest stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.joined import MOST_STRIPES, JoinedDecoder, small_lots
from hindex.orc.open_file import OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import RowSelection
from hindex.orc.stripe_read import StripeRead

#: A stripe's number, and the rows wanted of it.
Selected = tuple[int, RowSelection]

Found = TypeVar("Found")


def lots_of(file: OpenFile, selections: Sequence[Selected], workers: int) -> list[Sequence[Selected]]:
    """Which stripes are read together: neighbours, a few at a time so that all workers have some.

    Each by itself where that is no gain: where all rows are wanted, pyarrow decodes them, and streams of remote files
    and uncompressed ones are not joined.
    """
    size = min(-(-len(selections) // workers), MOST_STRIPES)
    if file.source.is_remote or file.tail.codec is None or not file.tail.row_index_stride:
        size = 1
    found: list[list[Selected]] = []
    for item in selections:
        if not found or len(found[-1]) == size or item[1].is_all or found[-1][-1][1].is_all:
            found.append([])
        found[-1].append(item)
    return list(found)


def read_stripes(
    file: OpenFile, columns: Sequence[Projection], selections: Sequence[Selected]
) -> Iterator[list[pa.Array]]:
    """The columns at the selected rows, stripe by stripe."""
    reads = [StripeRead(file, index, columns, selection) for index, selection in selections]
    for begin, end in _lots(file, reads):
        joined = _joined(file, columns, reads[begin:end])
        first = 0
        for read, (index, selection) in zip(reads[begin:end], selections[begin:end], strict=True):
            given = {i: array.slice(first, len(selection)) for i, array in joined.items()}
            first += len(selection)
            try:
                yield read.arrays(given)
            except OrcError as error:
                raise error.at(path=file.tail.path, stripe=index) from error


def _lots(file: OpenFile, reads: Sequence[StripeRead]) -> list[tuple[int, int]]:
    """Ranges of stripes that are decoded together."""
    alone = [(i, i + 1) for i in range(len(reads))]
    if len(reads) == 1:
        return alone
    try:
        return small_lots([read.part[0] for read in reads])
    except OrcError:
        return _failed(file, alone)


def _joined(
    file: OpenFile, columns: Sequence[Projection], reads: Sequence[StripeRead]
) -> dict[int, pa.Array]:
    """The columns that are decoded together, at the rows of all stripes; none of one stripe."""
    if len(reads) == 1:
        return {}
    parts, fit = zip(*(read.part for read in reads), strict=True)
    decompressor = file.tail.decompressor()
    try:
        decoder = JoinedDecoder(file, parts, decompressor)
        chosen = {i: columns[i] for i in sorted(frozenset.intersection(*fit)) if decoder.add(columns[i].of)}
        return decoder.arrays(chosen) if chosen else {}
    except OrcError:
        return _failed(file, {})
    finally:
        file.counts.add_decompressor(decompressor)


def _failed(file: OpenFile, instead: Found) -> Found:
    """Count that stripes cannot be decoded together, and give what is done instead.

    Stripe by stripe the error is found again, and told where it is; a stripe that is sound can be read.
    """
    file.counts.add(failed_joins=1)
    return instead
