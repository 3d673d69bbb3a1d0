"""The BLOOM index type: a Bloom filter of the keys of each row group and stripe.

A filter is sized for the number of its distinct keys. Its bits are chosen by double hashing: A. Kirsch and
M. Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom Filter" (2006), section 3, with a prime
number of bits. The hashes are the two 64-bit halves of MurmurHash3 x64-128 with seed 0: of the eight little-endian
bytes of an INT64 key, and of a BYTES key itself. Source: MurmurHash3.cpp by Austin Appleby, ``MurmurHash3_x64_128``.

A lookup tests the stripe's filter first, then those of its row groups. Filters are tested as they are stored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, RangeArray, concatenate_ranges, integer_arrays
from hindex.errors import IndexFileError
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import FileBuilder
from hindex.index.index_file import (
    BinarySink,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRef,
    page_message,
    page_ref,
)
from hindex.index.index_type import (
    Bounds,
    IndexFileSummary,
    Level,
    Operator,
    Property,
    StripeSummary,
    enumerable,
)
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.postings import Postings, group
from hindex.index.roaring import MAX_ROWS, from_groups, group_count
from hindex.keys import KeyKind, key_kind, nth_key
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb
from hindex.value_class import value_class

UInt64s = npt.NDArray[np.uint64]

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_WORD = np.uint64(8)
#: The number of keys that are converted to Python objects at once.
_BLOCK = 1 << 16


def hash_integers(keys: npt.NDArray[np.int64]) -> tuple[UInt64s, UInt64s]:
    """Hash integer keys.

    Eight bytes are less than a block of the algorithm, so that only its tail and its finalization apply, with an
    empty second word.

    Returns:
        both halves of each hash.
    """
    word = np.ascontiguousarray(keys, np.int64).view(np.uint64) * _C1
    word = (word << np.uint64(31)) | (word >> np.uint64(33))
    word *= _C2
    first = word ^ _WORD
    second = np.full(len(word), _WORD)
    first += second
    second += first
    first, second = _mixed(first), _mixed(second)
    first += second
    second += first
    return first, second


def hash_bytes(keys: pa.LargeBinaryArray) -> tuple[UInt64s, UInt64s]:
    """Hash byte keys, none of which is null.

    Returns:
        both halves of each hash.
    """
    digests = b"".join(
        b"".join(map(mmh3.mmh3_x64_128_digest, keys.slice(at, _BLOCK).to_pylist()))
        for at in range(0, len(keys), _BLOCK)
    )
    halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)


def _mixed(value: UInt64s) -> UInt64s:
    value = value ^ (value >> np.uint64(33))
    value *= _MIX1
    value ^= value >> np.uint64(33)
    value *= _MIX2
    return value ^ (value >> np.uint64(33))


#: The most bits that are set for a key.
MAX_HASHES = 64
MAX_BITS = 1 << 40

#: The number of keys that are probed against all row groups at once.
_PROBED = 256

Bits = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Number = TypeVar("Number", int, npt.NDArray[np.int64])


def byte_length(bits: Number) -> Number:
    """Return the bytes of a filter of some bits."""
    return (bits + 7) // 8


def probe(first: UInt64s, second: UInt64s, bits: UInt64s, hashes: int) -> Iterator[UInt64s]:
    """Yield the positions of a key's bits, one by one.

    They are (*a* + *i* (1 + *b* mod (*m* - 1))) mod *m* for the hashes *a* and *b* of a key, in a filter of *m* bits.
    As *m* is prime, a key's positions are all different. The arrays are broadcast against each other.
    """
    one = np.uint64(1)
    position, step = first % bits, one + second % (bits - one)
    for _ in range(hashes):
        yield position
        position = (position + step) % bits


@value_class
class _Stripe:
    """The directory of one stripe: ``bits`` of its filter, ``group_bits`` of each row group's, 0 without keys."""

    rows: int
    filter: PageRef | None
    bits: int
    groups: PageRef | None
    group_bits: npt.NDArray[np.int64]
    group_nulls: npt.NDArray[np.int64]


class BloomReader:
    """A reader of a BLOOM index file. Threads may share it.

    Raises:
        IndexFileError: if its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        try:
            body = pb.BloomBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        if not 0 < body.hashes <= MAX_HASHES:
            raise file.error(f"it sets {body.hashes} bits for a key")
        self._hashes: int = body.hashes
        self._group_rows: int = body.row_group_rows
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.BloomStripe) -> _Stripe:
        def broken(message: str) -> IndexFileError:
            return self.file.error(f"the directory of stripe {number}: {message}")

        count = group_count(self._group_rows, item.rows)
        if item.rows > MAX_ROWS:
            raise broken(f"it counts {item.rows} rows")
        if len(item.group_nulls) != count or len(item.group_bits) != (count if count > 1 else 0):
            raise broken("its lists are not of one length")
        if item.HasField("groups") != (count > 1) or item.HasField("filter") != bool(item.bits):
            raise broken("its filters are not where they should be")
        if any(bits == 1 or bits > MAX_BITS for bits in (item.bits, *item.group_bits)):
            raise broken("a filter has an impossible length")
        bits = np.array(item.group_bits if count > 1 else [item.bits] * count, np.int64)
        nulls = np.array(item.group_nulls, np.uint64)
        rows = np.full(count, self._group_rows or item.rows, np.uint64)
        if count:
            rows[-1] = item.rows - int(rows[0]) * (count - 1)
        if (
            (nulls > rows).any()
            or ((nulls < rows) != (bits > 0)).any()
            or bool(item.bits) != bool(bits.any())
        ):
            raise broken("keys and null rows disagree")
        return _Stripe(
            rows=item.rows,
            filter=page_ref(item.filter) if item.HasField("filter") else None,
            bits=item.bits,
            groups=page_ref(item.groups) if count > 1 else None,
            group_bits=bits,
            group_nulls=nulls.astype(np.int64),
        )

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe."""
        return tuple(stripe.rows for stripe in self._stripes)

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Look up the row groups that may have a member; the lower bound is empty.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        directory = self._stripes[stripe]
        if not enumerable(domain):
            return Bounds.unknown(directory.rows)
        candidates = self._candidate_groups(directory, *_hashes(domain, self.file.footer.key_kind))
        if domain.null_allowed:
            candidates = candidates | (directory.group_nulls > 0)
        upper = from_groups(candidates, self._group_rows, directory.rows)
        return Bounds(BitMap(), upper) if upper else Bounds.none()

    def close(self) -> None:
        self.file.close()

    def _candidate_groups(self, directory: _Stripe, first: UInt64s, second: UInt64s) -> Mask:
        """Return a mask of the row groups that may have a key with any of the hashes."""
        count = len(directory.group_nulls)
        mask = np.zeros(count, np.bool_)
        if directory.filter is None or not len(first):
            return mask
        whole = self._bits(directory.filter, byte_length(directory.bits))
        bits = np.full(len(first), directory.bits, np.uint64)
        hit = _all_set(whole, np.zeros(len(first), np.uint64), first, second, bits, self._hashes)
        first, second = first[hit], second[hit]
        if directory.groups is None or not len(first):
            return np.full(count, bool(len(first)))
        lengths = byte_length(directory.group_bits)
        data = self._bits(directory.groups, int(lengths.sum()))
        filled = np.flatnonzero(directory.group_bits)
        bits = directory.group_bits[filled].astype(np.uint64)
        starts = (8 * (np.cumsum(lengths) - lengths))[filled].astype(np.uint64)
        candidates = np.zeros(len(filled), np.bool_)
        for at in range(0, len(first), _PROBED):
            few = slice(at, at + _PROBED)
            hits = _all_set(data, starts, first[few, None], second[few, None], bits, self._hashes)
            candidates |= hits.any(axis=0)
            if candidates.all():
                break
        mask[filled] = candidates
        return mask

    def _bits(self, ref: PageRef, length: int) -> Bits:
        """Return the bytes of a page's only block, without a copy."""

        def decode(_: int, page: Page) -> Bits:
            if len(page) != 1:
                raise page.error(f"it has {len(page)} blocks")
            return np.frombuffer(page.block(0, length), np.uint8)

        return next(self.file.decode_pages([ref], decode, len))


def _all_set(
    data: Bits, starts: UInt64s, first: UInt64s, second: UInt64s, bits: UInt64s, hashes: int
) -> Mask:
    """Return a mask of the keys whose bits are all set in the filters at the offsets ``starts`` of ``data``."""
    is_set = np.ones(np.broadcast_shapes(first.shape, bits.shape), np.bool_)
    for position in probe(first, second, bits, hashes):
        at = starts + position
        is_set &= (data[at >> np.uint64(3)] >> (at & np.uint64(7)).astype(np.uint8)) & 1 > 0
    return is_set


@lru_cache(maxsize=32)
def _hashes(domain: Domain, kind: KeyKind) -> tuple[UInt64s, UInt64s]:
    """Hash the non-null members of a domain, which must be few."""
    if kind is KeyKind.BYTES:
        keys = domain.ranges.byte_keys if isinstance(domain.ranges, RangeArray) else None
        return hash_bytes(
            pa.array([item.low for item in domain.ranges], pa.large_binary()) if keys is None else keys
        )
    lows, highs = integer_arrays(domain.ranges)
    return hash_integers(concatenate_ranges(lows, highs - lows + 1))


DEFAULT_FPP = 0.001
MIN_FPP, MAX_FPP = 1e-9, 0.5

# filters grow by this factor until they have the promised probability of false positives
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
    """Return the number of bits to set for a key, so that half of a filter's bits are set."""
    return max(1, round(-math.log2(fpp)))


def bit_count(keys: int, fpp: float) -> int:
    """Return the number of bits of a filter of some distinct keys: a prime number, or 0 without keys.

    A key is a false positive if other keys have set its bits (section 2 of the paper). A small filter has only few
    pairs of hashes, which also counts: one other key may have set the same bits, in either direction, or all but
    some at one end, which further keys have set.
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
    """A builder of a BLOOM index file; see `hindex.index.file_builder.FileBuilder` for the other parameters.

    Args:
        row_group_rows: the rows of the data file's row groups; 0 if it has none.
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
        """Index the values of the next stripe: one per row, of the type ``data_type.to_arrow()``.

        Raises:
            BuildError: if the array is of another type.
        """
        array = self._one_array(array)
        postings = group(self._type, array)
        first, second = (
            hash_integers(postings.keys)
            if isinstance(postings.keys, np.ndarray)
            else hash_bytes(postings.keys)
        )
        count = group_count(self._group_rows, len(array))
        size = self._group_rows or max(len(array), 1)
        stripe = self._body.stripes.add(rows=len(array))
        stripe.group_nulls.extend(np.bincount(postings.nulls // size, minlength=count).tolist())
        everywhere = np.zeros(len(first), np.int64)
        one = self._filters(np.array([len(first)], np.int64), everywhere, first, second)
        if len(first):
            stripe.filter.CopyFrom(page_message(self._writer.write_page([one[1]], compress=False)))
            stripe.bits = int(one[0][0])
        if count > 1:
            keys, groups = _pairs(postings, size)
            bits, data = self._filters(
                np.bincount(groups, minlength=count), groups, first[keys], second[keys]
            )
            stripe.groups.CopyFrom(page_message(self._writer.write_page([data], compress=False)))
            stripe.group_bits.extend(bits.tolist())
        self._stripes.append(StripeSummary(_extent(len(array), postings), len(first)))

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        return self._finish(self._body.SerializeToString(deterministic=True))

    def _filters(
        self, counts: Int64s, groups: Int64s, first: UInt64s, second: UInt64s
    ) -> tuple[Int64s, bytes]:
        """Return the number of bits of each filter, and the concatenated filters.

        Args:
            counts: the number of keys of each filter.
            groups: the ordinal of the filter of each hash.
        """
        sizes = {int(n): bit_count(int(n), self._fpp) for n in np.unique(counts)}
        bits = np.array([sizes[int(n)] for n in counts], np.int64)
        lengths = byte_length(bits)
        starts = np.cumsum(lengths) - lengths
        is_set = np.zeros(8 * int(lengths.sum()), np.bool_)
        base = (8 * starts).astype(np.uint64)[groups]
        for position in probe(first, second, bits.astype(np.uint64)[groups], self._body.hashes):
            is_set[base + position] = True
        return bits, np.packbits(is_set, bitorder="little").tobytes()


class BloomIndex:
    """The BLOOM type, as `hindex.index.index_type.FileIndexType` describes it."""

    name = "BLOOM"
    order = 20
    levels = frozenset({Level.STRIPE})
    operators = frozenset({Operator.EQUAL})
    summarizes = False
    properties = (Property("fpp", repr(DEFAULT_FPP), _fpp, "the rate of false positives of a filter"),)

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

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
            part_body = directory(part, pb.BloomBody)
            move_pages(part_body.stripes, ("filter", "groups"), copy_pages(writer, part))
            body.MergeFrom(part_body)
        return body.SerializeToString(deterministic=True)


BLOOM = BloomIndex()


def _pairs(postings: Postings, size: int) -> tuple[Int64s, Int64s]:
    """Return the distinct pairs of a key's ordinal and a row group that has the key."""
    groups = (postings.rows // size).astype(np.int64)
    keys = np.repeat(np.arange(len(postings.starts) - 1), np.diff(postings.starts))
    # rows ascend within a key, so equal pairs are neighbors
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1])
    return keys[new], groups[new]


def _extent(rows: int, postings: Postings) -> ColumnStats:
    if not len(postings.keys):
        return ColumnStats(rows, len(postings.nulls), None, None)
    return ColumnStats(rows, len(postings.nulls), nth_key(postings.keys, 0), nth_key(postings.keys, -1))


def _prime_from(number: int) -> int:
    """Return the least prime number not below ``number``, which must be above 2."""
    number |= 1
    while True:
        divisors = np.arange(3, math.isqrt(number) + 1, 2)
        if (number % divisors).all():
            return number
        number += 2
