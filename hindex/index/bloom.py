"""The BLOOM index type: of every row group and stripe a Bloom filter of its keys.

A filter is sized for the distinct keys that it really holds. Its bits are placed by double hashing: A. Kirsch and
M. Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom Filter" (2006), section 3, with a prime
number of bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.index.bloom_reader import BloomReader, byte_length, probe
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import FileBuilder, page_message
from hindex.index.hashing import UInt64s, hash_bytes, hash_integers
from hindex.index.index_file import BinarySink, IndexFileReader, IndexFileWriter
from hindex.index.index_type import IndexFileSummary, Level, Operator, Property, StripeSummary
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.postings import Postings, group
from hindex.index.roaring import group_count
from hindex.keys import key_kind, nth_key
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb

DEFAULT_FPP = 0.001
MIN_FPP, MAX_FPP = 1e-9, 0.5

# filters grow by this much until they keep their promise
_GROWTH = 1.02

Int64s = npt.NDArray[np.int64]


def _fpp(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not MIN_FPP <= value <= MAX_FPP:
        raise ValueError(f"a probability from {MIN_FPP} to {MAX_FPP} is expected")
    return repr(value)


def hash_count(fpp: float) -> int:
    """Bits to set for a key: where so many are set, half of the bits of a filter are."""
    return max(1, round(-math.log2(fpp)))


def bit_count(keys: int, fpp: float) -> int:
    """Bits of a filter of so many distinct keys: a prime number, 0 for none.

    A key is taken for a member where other keys have set its bits (section 2 of the paper). In a small filter it also
    counts that there are only so many pairs of hashes: another key may have set the same bits, in either direction, or
    all but some at an end, which others must have set then.
    """
    if not keys:
        return 0
    hashes = hash_count(fpp)
    bits = max(-hashes * keys / math.log1p(-(fpp ** (1 / hashes))), 2 * hashes)
    while True:
        filled = -math.expm1(-hashes * keys / bits)
        alike = 2 * keys / bits**2 * (1 + filled) / (1 - filled)
        if filled**hashes + alike <= fpp:
            return _prime_from(math.ceil(bits))
        bits *= _GROWTH


class BloomBuilder(FileBuilder):
    """Writes a BLOOM index file; see :class:`~hindex.index.file_builder.FileBuilder` for the other parameters.

    :param row_group_rows: rows of the data file's row groups; 0 where it has none.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> None:
        super().__init__(BLOOM, sink, data_type, column=column, properties=properties, metadata=metadata)
        self._fpp = float(self._properties["fpp"])
        self._group_rows = row_group_rows
        self._body = pb.BloomBody(row_group_rows=row_group_rows, hashes=hash_count(self._fpp))

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type's ``to_arrow()``.

        :raises BuildError: if the array is of another type.
        """
        array = self._one_array(array)
        found = group(self._type, array)
        first, second = (
            hash_integers(found.keys) if isinstance(found.keys, np.ndarray) else hash_bytes(found.keys)
        )
        count = group_count(self._group_rows, len(array))
        size = self._group_rows or max(len(array), 1)
        stripe = self._body.stripes.add(rows=len(array))
        stripe.group_nulls.extend(np.bincount(found.nulls // size, minlength=count).tolist())
        everywhere = np.zeros(len(first), np.int64)
        one = self._filters(np.array([len(first)], np.int64), everywhere, first, second)
        if len(first):
            stripe.filter.CopyFrom(page_message(self._writer.write_page([one[1]], compress=False)))
            stripe.bits = int(one[0][0])
        if count > 1:
            keys, groups = _pairs(found, size)
            bits, data = self._filters(
                np.bincount(groups, minlength=count), groups, first[keys], second[keys]
            )
            stripe.groups.CopyFrom(page_message(self._writer.write_page([data], compress=False)))
            stripe.group_bits.extend(bits.tolist())
        self._stripes.append(StripeSummary(_extent(len(array), found), len(first)))

    def finish(self) -> IndexFileSummary:
        """Write the footer; an own file is made durable and closed."""
        return self._finish(self._body.SerializeToString(deterministic=True))

    def _filters(
        self, counts: Int64s, groups: Int64s, first: UInt64s, second: UInt64s
    ) -> tuple[Int64s, bytes]:
        """The bits of some filters, and the filters one behind the other.

        :param counts: keys of each filter.
        :param groups: which filter each hash belongs to.
        """
        sizes = {int(n): bit_count(int(n), self._fpp) for n in np.unique(counts)}
        bits = np.array([sizes[int(n)] for n in counts], np.int64)
        lengths = byte_length(bits)
        starts = np.cumsum(lengths) - lengths
        places = np.zeros(8 * int(lengths.sum()), np.bool_)
        base = (8 * starts).astype(np.uint64)[groups]
        for place in probe(first, second, bits.astype(np.uint64)[groups], self._body.hashes):
            places[base + place] = True
        return bits, np.packbits(places, bitorder="little").tobytes()


class BloomIndex:
    """The BLOOM type, as :class:`~hindex.index.index_type.FileIndexType` describes it."""

    name = "BLOOM"
    order = 20
    levels = frozenset({Level.STRIPE})
    operators = frozenset({Operator.EQUAL})
    summarizes = False
    properties = (
        Property(
            "fpp", repr(DEFAULT_FPP), _fpp, "how often a filter may take a value that it lacks for a member"
        ),
    )

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

    def estimate_bytes(self, data_type: OrcType, rows: int, distinct: int) -> int:
        groups = max(group_count(10_000, rows), 1)
        # each row group has its share of the values, but not more than its rows
        return (
            bit_count(distinct, DEFAULT_FPP) + groups * bit_count(min(distinct, 10_000), DEFAULT_FPP)
        ) // 8

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> BloomBuilder:
        return BloomBuilder(
            sink, data_type, properties, column=column, metadata=metadata, row_group_rows=row_group_rows
        )

    def reader(self, file: IndexFileReader) -> BloomReader:
        return BloomReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        body = pb.BloomBody()
        for part in parts:
            found = directory(part, pb.BloomBody)
            move_pages(found.stripes, ("filter", "groups"), copy_pages(writer, part))
            body.MergeFrom(found)
        return body.SerializeToString(deterministic=True)


BLOOM = BloomIndex()


def _pairs(found: Postings, size: int) -> tuple[Int64s, Int64s]:
    """The distinct pairs of a key's number and a row group that has it."""
    groups = (found.rows // size).astype(np.int64)
    keys = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    # rows ascend within a key, so equal pairs are neighbors
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1])
    return keys[new], groups[new]


def _extent(rows: int, found: Postings) -> ColumnStats:
    if not len(found.keys):
        return ColumnStats(rows, len(found.nulls), None, None)
    return ColumnStats(rows, len(found.nulls), nth_key(found.keys, 0), nth_key(found.keys, -1))


def _prime_from(number: int) -> int:
    """The least prime number that is not below ``number``, which is above 2."""
    number |= 1
    while True:
        divisors = np.arange(3, math.isqrt(number) + 1, 2)
        if (number % divisors).all():
            return number
        number += 2
