"""Looking up rows in a BLOOM index file: the stripe's filter first, then those of its row groups.

Filters are probed where they lie in the memory-mapped file; a page's checksum is verified when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import IndexFileError
from hindex.index.file_builder import page_ref
from hindex.index.hashing import UInt64s, hash_bytes, hash_integers
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.index_type import Bounds, enumerable
from hindex.index.roaring import MAX_ROWS, from_groups, group_count
from hindex.keys import INT64_MAX, INT64_MIN, KeyKind
from hindex.proto import index_file_pb2 as pb

#: Most bits that are set for a key.
MAX_HASHES = 64
MAX_BITS = 1 << 40

#: Keys that are probed against all row groups at once.
_PROBED = 256

Bits = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Number = TypeVar("Number", int, npt.NDArray[np.int64])


def byte_length(bits: Number) -> Number:
    """Bytes that a filter of so many bits takes."""
    return (bits + 7) // 8


def probe(first: UInt64s, second: UInt64s, bits: UInt64s, hashes: int) -> Iterator[UInt64s]:
    """The places of a key's bits, one after the other: for hashes *a* and *b* of a key, in a filter of *m* bits,
    (*a* + *i* (1 + *b* mod (*m* - 1))) mod *m*.

    As *m* is prime, a key's places are all different. The arrays are broadcast against each other.
    """
    one = np.uint64(1)
    place, step = first % bits, one + second % (bits - one)
    for _ in range(hashes):
        yield place
        place = (place + step) % bits


@dataclass(frozen=True, slots=True)
class _Stripe:
    """``bits`` of the stripe's filter, ``group_bits`` of each row group's, 0 where there is no key."""

    rows: int
    filter: PageRef | None
    bits: int
    groups: PageRef | None
    group_bits: npt.NDArray[np.int64]
    group_nulls: npt.NDArray[np.int64]


class BloomReader:
    """Reads a BLOOM index file; may be shared by threads.

    :raises IndexFileError: if its directory is corrupt.
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
        """Rows of each stripe."""
        return tuple(stripe.rows for stripe in self._stripes)

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Nothing certain but where no row can be a member; rows of row groups that may have one.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        held = self._stripes[stripe]
        if not enumerable(domain):
            return Bounds.unknown(held.rows)
        some = self._groups_of(held, *_hashes(domain, self.file.footer.key_kind))
        if domain.null_allowed:
            some = some | (held.group_nulls > 0)
        upper = from_groups(some, self._group_rows, held.rows)
        return Bounds(BitMap(), upper) if upper else Bounds.none()

    def close(self) -> None:
        self.file.close()

    def _groups_of(self, held: _Stripe, first: UInt64s, second: UInt64s) -> Mask:
        """The row groups that may have a key of some hashes."""
        count = len(held.group_nulls)
        nowhere = np.zeros(count, np.bool_)
        if held.filter is None or not len(first):
            return nowhere
        whole = self._bits(held.filter, byte_length(held.bits))
        bits = np.full(len(first), held.bits, np.uint64)
        hit = _all_set(whole, np.zeros(len(first), np.uint64), first, second, bits, self._hashes)
        first, second = first[hit], second[hit]
        if held.groups is None or not len(first):
            return np.full(count, bool(len(first)))
        lengths = byte_length(held.group_bits)
        data = self._bits(held.groups, int(lengths.sum()))
        filled = np.flatnonzero(held.group_bits)
        bits = held.group_bits[filled].astype(np.uint64)
        starts = (8 * (np.cumsum(lengths) - lengths))[filled].astype(np.uint64)
        found = np.zeros(len(filled), np.bool_)
        for at in range(0, len(first), _PROBED):
            few = slice(at, at + _PROBED)
            hits = _all_set(data, starts, first[few, None], second[few, None], bits, self._hashes)
            found |= hits.any(axis=0)
            if found.all():
                break
        nowhere[filled] = found
        return nowhere

    def _bits(self, ref: PageRef, length: int) -> Bits:
        """The bytes of a page's only block, where they lie."""

        def decode(_: int, page: Page) -> Bits:
            if len(page) != 1:
                raise page.error(f"it has {len(page)} blocks")
            return np.frombuffer(page.block(0, length), np.uint8)

        return next(self.file.decoded([ref], decode, len))


def _all_set(
    data: Bits, starts: UInt64s, first: UInt64s, second: UInt64s, bits: UInt64s, hashes: int
) -> Mask:
    """Return a mask of the keys whose bits are all set in the filters at some offsets of ``data``."""
    found = np.ones(np.broadcast_shapes(first.shape, bits.shape), np.bool_)
    for place in probe(first, second, bits, hashes):
        at = starts + place
        found &= (data[at >> np.uint64(3)] >> (at & np.uint64(7)).astype(np.uint8)) & 1 > 0
    return found


@lru_cache(maxsize=32)
def _hashes(domain: Domain, kind: KeyKind) -> tuple[UInt64s, UInt64s]:
    """The hashes of a domain's non-null members, of which there are not many."""
    if kind is KeyKind.BYTES:
        return hash_bytes(pa.array([item.low for item in domain.ranges], pa.large_binary()))
    keys: list[int] = []
    for item in domain.ranges:
        assert isinstance(item.low, int)
        assert isinstance(item.high, int)
        # literals may lie beyond 64 bits
        keys.extend(range(max(item.low, INT64_MIN), min(item.high, INT64_MAX) + 1))
    return hash_integers(np.array(keys, np.int64))
