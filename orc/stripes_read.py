"""One read of several stripes: what can be is decoded for all of them at once, the rest stripe by stripe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.crew import Crew
from hindex.orc.joined import MOST_STRIPES, JoinedDecoder, small_lots
from hindex.orc.open_file import OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import RowSelection
from hindex.orc.stripe_read import StripeRead

#: A stripe's number, and the rows wanted of it.
Selected = tuple[int, RowSelection]

Found = TypeVar("Found")


def read_stripes(
    file: OpenFile, columns: Sequence[Projection], selections: Sequence[Selected], crew: Crew
) -> list[list[pa.Array]]:
    """The columns at the selected rows, for each of some stripes.

    :param selections: in ascending order of stripes.
    :param crew: whose threads help.
    """

    def read(lot: Sequence[Selected]) -> list[list[pa.Array]]:
        reads = [StripeRead(file, index, columns, selection, crew) for index, selection in lot]
        smaller = _lots(file, reads)
        return _chained(crew.share(lambda ends: together(reads[slice(*ends)], lot[slice(*ends)]), smaller))

    def together(reads: Sequence[StripeRead], lot: Sequence[Selected]) -> list[list[pa.Array]]:
        joined = _joined(file, columns, reads, crew)
        found, first = [], 0
        for stripe_read, (index, selection) in zip(reads, lot, strict=True):
            given = {i: array.slice(first, len(selection)) for i, array in joined.items()}
            first += len(selection)
            try:
                found.append(stripe_read.arrays(given))
            except OrcError as error:
                raise error.at(path=file.tail.path, stripe=index) from error
        return found

    return _chained(crew.share(read, lots_of(file, selections)))


def _chained(lots: Sequence[list[list[pa.Array]]]) -> list[list[pa.Array]]:
    return lots[0] if len(lots) == 1 else list(chain.from_iterable(lots))


def most_together(file: OpenFile) -> int:
    """How many stripes of a file are read together at most; streams of remote files and uncompressed ones are not
    joined.
    """
    is_fit = not file.source.is_remote and file.tail.codec is not None and file.tail.row_index_stride
    return MOST_STRIPES if is_fit else 1


def lots_of(file: OpenFile, selections: Sequence[Selected]) -> list[Sequence[Selected]]:
    """Which stripes are read together: neighbours, a few at a time.

    Each by itself where that is no gain: where all rows are wanted, pyarrow decodes them.
    """
    size = most_together(file)
    found: list[list[Selected]] = []
    is_open = False
    for item in selections:
        _, selection = item
        is_alone = selection.is_all or not len(selection)
        if not is_open or is_alone or len(found[-1]) == size:
            found.append([])
        found[-1].append(item)
        is_open = not is_alone
    return list(found)


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
    file: OpenFile, columns: Sequence[Projection], reads: Sequence[StripeRead], crew: Crew
) -> dict[int, pa.Array]:
    """The columns that are decoded together, at the rows of all stripes; none of one stripe."""
    if len(reads) == 1:
        return {}
    parts, fit = zip(*(read.part for read in reads), strict=True)
    decompressor = file.tail.decompressor()
    try:
        decoder = JoinedDecoder(file, parts, decompressor, crew)
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
