"""Test bloom filters of many row groups for many values at once.

A value has one 64-bit hash: Thomas Wang's integer hash for numbers, and Hive's own 64-bit variant of Murmur3 for
bytes. Its two halves are combined in 32 bits into as many positions as the filter has hash functions.

Source: ORC specification v1, "Bloom Filter Index"; Kirsch and Mitzenmacher, "Less Hashing, Same Performance".
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from hindex.orc.calendars import GREGORIAN_START
from hindex.orc.metadata.file_tail import ORC_JAVA_WRITER, FileTail
from hindex.orc.metadata.statistics import Distrust, Nulls, Section, Value, find_fault
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import (
    INTEGER_KINDS,
    SHORT_PRECISION,
    STRING_KINDS,
    Kind,
    OrcType,
)
from hindex.orc.time_zones import UTC_NAMES
from hindex.proto import orc_metadata_pb2 as pb

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

#: More hash functions than any writer uses; the optimum for one false positive in a billion is 30.
MAX_FUNCTIONS = 64
#: The positions in filters that are tested at once, which limits the memory for many values and row groups.
_POSITIONS = 1 << 20

_SEED = 104_729
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_ADD = 0x52DCE729
_FINAL_1, _FINAL_2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_MASK = (1 << 64) - 1

#: The ``ColumnEncoding.bloom_encoding`` of filters with timestamps in UTC.
_ENCODING_UTC = 1
#: A precision of more digits than any decimal of a file or a predicate has.
_DECIMALS = decimal.Context(prec=400)

_TYPES = frozenset({*INTEGER_KINDS, *STRING_KINDS, Kind.FLOAT, Kind.DOUBLE, Kind.BINARY, Kind.DECIMAL})
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


def bytes_hash(data: bytes) -> int:
    """Hash bytes with Hive's Murmur3, which has one state of 64 bits instead of the published two."""
    state = _SEED
    whole = len(data) & ~7
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        state ^= _mix(word)
        state = (_rotate(state, 27) * 5 + _ADD) & _MASK
    if len(data) > whole:
        state ^= _mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state ^= state >> 33
    state = state * _FINAL_1 & _MASK
    state ^= state >> 33
    state = state * _FINAL_2 & _MASK
    return state ^ state >> 33


def _mix(word: int) -> int:
    return _rotate(word * _C1 & _MASK, 31) * _C2 & _MASK


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK


def integer_hash(value: int, *, unsigned_shifts: bool = False) -> int:
    """Hash an integer with Thomas Wang's function of 64 bits.

    Its shifts to the right are those of signed numbers, except in files of the C++ writer before ORC-1024.
    """

    def shift_right(word: int, by: int) -> int:
        signed = word - (1 << 64) if word >> 63 and not unsigned_shifts else word
        return signed >> by & _MASK

    word = value & _MASK
    word = (~word + (word << 21)) & _MASK
    word ^= shift_right(word, 24)
    word = word * 265 & _MASK
    word ^= shift_right(word, 14)
    word = word * 21 & _MASK
    word ^= shift_right(word, 28)
    return (word + (word << 31)) & _MASK


def usable_filters(
    kinds: Iterable[StreamKind], data_type: OrcType, tail: FileTail, *, encoding: int, zone: str
) -> StreamKind | Distrust | None:
    """Return the stream of a column's usable bloom filters, the reason to distrust them, or None if there are none.

    Args:
        kinds: the kinds of the column's streams in the stripe.
        data_type: the column's type in the file.
        encoding: the stripe's ``bloom_encoding`` of the column.
        zone: the stripe's writer time zone.
    """
    present = set(kinds)
    if not present & {StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8}:
        return None
    if data_type.column in tail.encrypted_columns:
        return Distrust.ENCRYPTED
    if data_type.kind not in _TYPES and data_type.kind not in _TIMES:
        return Distrust.NO_FILTER_KIND
    is_utf8 = StreamKind.BLOOM_FILTER_UTF8 in present
    fault = find_fault(Section.BLOOM_FILTER_UTF8 if is_utf8 else Section.BLOOM_FILTER, data_type, tail)
    if fault is not None:
        return fault
    if data_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        # filters hash wall clocks by the writer's edition of the time zone rules
        is_utc = data_type.kind == Kind.TIMESTAMP_INSTANT or zone in UTC_NAMES
        if not is_utf8 or encoding != _ENCODING_UTC or not is_utc:
            return Distrust.LOCAL_FILTER
    if data_type.kind == Kind.DECIMAL and _may_have_more_digits(data_type, tail):
        return Distrust.MORE_DIGITS
    return StreamKind.BLOOM_FILTER_UTF8 if is_utf8 else StreamKind.BLOOM_FILTER


def _may_have_more_digits(data_type: OrcType, tail: FileTail) -> bool:
    """Return True if decimals may have a greater scale than their column, so that filters hash other strings.

    The Java library writes any value that it receives. Since version 1.5, whose footers name the writer, it fails
    on such values of short decimals. Spark never passes any.
    """
    if not tail.footer.HasField("writer"):
        return True
    is_short = 0 < data_type.precision <= SHORT_PRECISION
    return tail.footer.writer == ORC_JAVA_WRITER and not is_short and not tail.is_by_spark


def value_hashes(value: Value, data_type: OrcType, tail: FileTail) -> list[int] | None:
    """Return the possible hashes of a value in filters; None if they are unknown.

    Args:
        value: as in `hindex.orc.metadata.statistics.ValueRange`.
        data_type: the column's type in the file.
    """
    match value:
        case float():
            return _double_hashes(value, tail)
        case bytes():
            forms = {value}
            if data_type.kind == Kind.CHAR:
                characters = sum(byte & 0xC0 != 0x80 for byte in value)
                forms |= {value.rstrip(b" "), value + b" " * max(data_type.max_length - characters, 0)}
            return [bytes_hash(form) for form in forms]
        case Decimal():
            return [bytes_hash(text.encode()) for text in _decimal_strings(value, data_type.scale)]
        case int():
            return _integer_hashes(value, data_type, tail)


def _double_hashes(value: float, tail: FileTail) -> list[int] | None:
    if math.isnan(value):
        return None  # writers hash the many NaNs differently
    signs = (value,) if value else (0.0, -0.0)
    return [h for sign in signs for h in _long_hashes(struct.unpack("<q", struct.pack("<d", sign))[0], tail)]


def _integer_hashes(value: int, data_type: OrcType, tail: FileTail) -> list[int] | None:
    match data_type.kind:
        case Kind.DATE if value < GREGORIAN_START and not tail.is_proleptic:
            return None
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            # writers disagree on fractions of seconds before 1970
            return None if value < 2_000_000 else _long_hashes(value // 1000, tail)
        case _:
            return _long_hashes(value, tail)


def _long_hashes(value: int, tail: FileTail) -> list[int]:
    hashes = {integer_hash(value)}
    if not tail.is_by_java:
        hashes.add(integer_hash(value, unsigned_shifts=True))
    return list(hashes)


def _decimal_strings(value: Decimal, scale: int) -> set[str]:
    """Format a decimal both without trailing zeros, as most writers do, and with all of them."""
    with decimal.localcontext(_DECIMALS):
        whole = value == value.to_integral_value()
        texts = {format(value.quantize(Decimal(1)) if whole else value.normalize(), "f")}
        full = value.quantize(Decimal(1).scaleb(-scale))
        return texts | {format(full, "f")} if full == value else texts


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Filters of one shape, of the row groups ``groups``; ``bits[i]`` are the words of the i-th filter."""

    groups: npt.NDArray[np.int64]
    functions: int
    bits: Words


@dataclass(frozen=True, slots=True, eq=False)
class BloomFilters:
    """The filters of one column of one stripe, one for each row group.

    A filter that is not well-formed rules nothing out; ``bad`` is the number of such filters.
    """

    count: int
    blocks: tuple[_Block, ...]
    bad: int = 0

    @classmethod
    def of(cls, message: pb.BloomFilterIndex, nulls: Sequence[Nulls]) -> BloomFilters:
        """Parse the message of a bloom filter stream.

        Args:
            nulls: the nulls of each row group. A filter without any bit is bad unless all values are null: some
                writers leave filters of some types empty.
        """
        shaped: dict[tuple[int, int], list[tuple[int, Words]]] = {}
        bad = 0
        for group, item in enumerate(message.bloom_filter):
            words = _words(item)
            functions = item.num_hash_functions
            is_empty = words is not None and not words.any() and nulls[group] is not Nulls.ALL
            if words is None or is_empty or not 0 < functions <= MAX_FUNCTIONS:
                bad += 1
            else:
                shaped.setdefault((functions, len(words)), []).append((group, words))
        blocks = tuple(
            _Block(
                np.array([group for group, _ in items], np.int64),
                functions,
                np.stack([words for _, words in items]),
            )
            for (functions, _), items in shaped.items()
        )
        return cls(len(message.bloom_filter), blocks, bad)

    @property
    def size_bytes(self) -> int:
        """The bytes of all well-formed filters."""
        return sum(block.bits.nbytes for block in self.blocks)

    def might_contain_any(self, hashes: Sequence[int]) -> Mask:
        """Return a mask of the row groups that may have a value with any of the hashes."""
        mask = np.ones(self.count, np.bool_)
        for block in self.blocks:
            mask[block.groups] = False
            groups_at_once = max(1, min(len(block.groups), _POSITIONS // block.functions))
            hashes_at_once = max(1, _POSITIONS // block.functions // groups_at_once)
            for start in range(0, len(hashes), hashes_at_once):
                part = np.array(hashes[start : start + hashes_at_once], np.uint64)
                for first in range(0, len(block.groups), groups_at_once):
                    groups = slice(first, first + groups_at_once)
                    mask[block.groups[groups]] |= _test(block.bits[groups], block.functions, part)
        return mask


def _test(bits: Words, functions: int, hashes: Words) -> Mask:
    first = hashes.astype(np.uint32).view(np.int32).astype(np.int64)
    second = (hashes >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.int64)
    rounds = np.arange(1, functions + 1, dtype=np.int64)
    combined = (first[:, None] + rounds * second[:, None]).astype(np.int32)
    combined = np.where(combined < 0, ~combined, combined).astype(np.int64)
    position = combined % (bits.shape[1] * 64)
    bit = bits[:, position >> 6] >> (position & 63).astype(np.uint64) & np.uint64(1)
    mask: Mask = (bit != 0).all(axis=2).any(axis=1)
    return mask


def _words(item: pb.BloomFilter) -> Words | None:
    """Return the bits of a filter as words; None if there are none, or if they are not whole words."""
    if item.HasField("utf8bitset"):
        if len(item.utf8bitset) % 8 or not item.utf8bitset:
            return None
        return np.frombuffer(item.utf8bitset, "<u8").astype(np.uint64, copy=False)
    return np.array(item.bitset, np.uint64) if len(item.bitset) else None
