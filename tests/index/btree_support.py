"""BTREE index files made of plain columns, and an oracle of which row groups hold what."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from hindex.index.btree import (
    BTreeFileSummary,
    BTreeReader,
    BTreeWriter,
    IndexedFile,
    first_locations,
    stripe_entries,
)
from hindex.index.index_file import IndexFileReader
from hindex.index.postings import Postings, group_pairs
from hindex.index.tree_writer import byte_keys
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import OrcType

#: A file's name, stripe and row group, from 0 through all stripes of the file.
Place = tuple[str, int]


@dataclass(frozen=True)
class ModelFile:
    """A data file's column, stripe by stripe."""

    path: str
    row_group_rows: int
    stripes: Sequence[Sequence[Any]]

    @property
    def indexed(self) -> IndexedFile:
        number = sum(self.path.encode())
        return IndexedFile(
            self.path,
            number,
            number % 7,
            self.row_group_rows,
            tuple(len(stripe) for stripe in self.stripes),
        )

    def row_groups(self) -> Iterator[list[Any]]:
        """The values of each row group, in order."""
        for stripe in self.stripes:
            step = self.row_group_rows or max(len(stripe), 1)
            for start in range(0, len(stripe), step):
                yield list(stripe[start : start + step])


def places(files: Sequence[ModelFile], member: Any) -> list[Place]:
    """The row groups with a value for which ``member`` is true: what an index has to find."""
    return [
        (file.path, number)
        for file in files
        for number, values in enumerate(file.row_groups())
        if any(member(value) for value in values)
    ]


def entries(data_type: OrcType, files: Sequence[ModelFile]) -> Postings:
    """All entries of some files, as a build brings them together."""
    postings = []
    for file, first in zip(files, first_locations(f.indexed for f in files), strict=False):
        for stripe, groups in zip(file.stripes, file.indexed.stripe_groups, strict=True):
            array = pa.array(stripe, data_type.to_arrow())
            postings.append(stripe_entries(data_type, array, row_group_rows=file.row_group_rows, first=first))
            first += groups
    nulls = np.concatenate([np.zeros(0, np.uint32), *(item.nulls for item in postings)])
    locations = np.concatenate([np.zeros(0, np.uint32), *(item.rows for item in postings)])
    repeated: list[Any] = []
    for item in postings:
        counts = np.diff(item.starts)
        if isinstance(item.keys, np.ndarray):
            repeated.append(np.repeat(item.keys, counts))
        else:
            repeated.append(item.keys.take(pa.array(np.repeat(np.arange(len(item.keys)), counts))))
    if not postings:
        return Postings(np.zeros(0, np.int64), np.zeros(1, np.int64), locations, nulls)
    keys = (
        np.concatenate(repeated)
        if isinstance(repeated[0], np.ndarray)
        else pa.chunked_array(repeated).combine_chunks()
    )
    grouped = group_pairs(keys, locations)
    return Postings(grouped.keys, grouped.starts, grouped.rows, nulls)


def build(
    data_type: OrcType, files: Sequence[ModelFile], *, pieces: int = 1, **properties: object
) -> tuple[bytes, BTreeFileSummary]:
    """An index file in memory, its keys given in some pieces."""
    sink = io.BytesIO()
    writer = BTreeWriter(
        sink,
        data_type,
        [file.indexed for file in files],
        column="c",
        properties={name: str(value) for name, value in properties.items()},
    )
    postings = entries(data_type, files)
    keys = postings.keys if isinstance(postings.keys, np.ndarray) else byte_keys(postings.keys)
    cuts = np.linspace(0, len(keys), pieces + 1).astype(int).tolist()
    for start, end in pairwise(cuts):
        part = keys[start:end] if isinstance(keys, np.ndarray) else keys.part(start, end)
        starts = postings.starts[start : end + 1]
        writer.add(part, starts - starts[0], postings.rows[starts[0] : starts[-1]])
    for half in np.array_split(postings.nulls, 2):
        writer.add_nulls(half)
    summary = writer.finish()
    assert summary.length == len(sink.getvalue())
    return sink.getvalue(), summary


def read(data: bytes) -> BTreeReader:
    return BTreeReader(IndexFileReader(BytesSource(data, "test.hidx")))
