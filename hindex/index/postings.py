"""Group the rows of one stripe's column by key: rows sorted by key, then by row number.

Key and row number are packed into one unsigned integer wherever both fit, so that the work is one sort of integers.
Temporary arrays are made block by block. In addition to the column, grouping takes about two 64-bit words per row,
or one if the keys span less than 32 bits. With many keys, grouping takes up to a hundred bytes per row; then the
keys are split into ranges by a sample, and only the rows of one range are gathered, sorted and written at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key
from hindex.keys import KeyKind, array_keys, key_kind, key_list, list_elements
from hindex.orc.metadata.types import OrcType
from hindex.value_class import value_class

_BLOCK = 1 << 16

Int64s = npt.NDArray[np.int64]


@value_class
class Postings:
    """The distinct keys of a stripe, ascending, and their rows.

    The rows of key ``i`` are ``rows[starts[i]:starts[i + 1]]``, ascending.

    Attributes:
        keys: int64 array, or large binary array without nulls.
        starts: int64, one more than keys.
        rows: uint32, the row numbers of all non-null rows; may be a strided view.
        nulls: uint32, the row numbers of the null rows, ascending.
    """

    keys: Int64s | pa.LargeBinaryArray
    starts: Int64s
    rows: npt.NDArray[np.uint32]
    nulls: npt.NDArray[np.uint32]


def group(data_type: OrcType, array: pa.Array) -> Postings:
    """Group the rows of an Arrow array by key: of ``data_type.to_arrow()``, or a dictionary or list of it."""
    if isinstance(array, pa.ListArray):
        return group_elements(data_type, array)
    if key_kind(data_type) is KeyKind.INT64:
        return _group_integers(data_type, array)
    return _group_bytes(data_type, array)


def group_elements(data_type: OrcType, lists: pa.ListArray) -> Postings:
    """Group rows by the keys of the elements of their lists; each key has a row only once.

    Args:
        data_type: the type of the elements.

    Returns:
        postings whose nulls are the rows without a key: NULL, empty, or with only NULL elements.
    """
    values, numbered = list_elements(lists)
    rows = numbered.astype(np.uint32)
    if values.null_count:
        valid = values.is_valid()
        values, rows = values.filter(valid), rows[np.asarray(valid)]
    keys = array_keys(data_type, values)
    has_key = np.zeros(len(lists), np.bool_)
    has_key[rows] = True
    encoded = (pa.array(keys) if isinstance(keys, np.ndarray) else keys).dictionary_encode()
    pairs = np.unique(np.asarray(encoded.indices).astype(np.uint64) << np.uint64(32) | rows)
    once = encoded.dictionary.take(pa.array((pairs >> np.uint64(32)).astype(np.int64)))
    keys = np.asarray(once) if isinstance(keys, np.ndarray) else once
    postings = group_pairs(keys, pairs.astype(np.uint32))
    return replace(postings, nulls=np.flatnonzero(~has_key).astype(np.uint32))


def group_pairs(
    keys: Int64s | pa.LargeBinaryArray,
    rows: npt.NDArray[np.uint32],
    *,
    counts: npt.NDArray[Any] | None = None,
) -> Postings:
    """Group distinct pairs of a key and a number by key; they may be in any order.

    Args:
        keys: as in `Postings`, but not distinct; none is null.
        rows: the number of each pair.
        counts: the number of consecutive ``rows`` of each key; 1 by default.
    """
    if not isinstance(keys, np.ndarray):
        encoded = keys.dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary)
        rank = np.empty(len(order), np.int64)
        rank[np.asarray(order)] = np.arange(len(order))
        ranked = group_pairs(rank[np.asarray(encoded.indices)], rows, counts=counts)
        return replace(ranked, keys=encoded.dictionary.take(order.take(pa.array(ranked.keys))))
    if counts is not None:
        keys = np.repeat(keys, counts)
    nulls = np.zeros(0, np.uint32)
    if not len(keys):
        return Postings(keys, np.zeros(1, np.int64), nulls, nulls)
    low, high = int(keys.min()), int(keys.max())
    layout = _layout(high - low, int(rows.max()) + 1)
    if layout is None:
        return _group_wide(keys, rows)
    dtype, shift = layout
    base = np.array(low, np.int64).view(np.uint64)
    packed = np.empty(len(keys), dtype)
    for block in _blocks(len(keys)):
        offsets = (keys[block].view(np.uint64) - base).astype(dtype)
        packed[block] = (offsets << dtype.type(shift)) | rows[block].astype(dtype)
    distinct, starts, numbers = _unpack(packed, shift)
    return Postings((distinct + base).view(np.int64), starts, numbers, nulls)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))


def _validity(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), np.bool_)


def _null_rows(valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.uint32]:
    return np.zeros(0, np.uint32) if valid is None else np.flatnonzero(~valid).astype(np.uint32)


def _group_integers(data_type: OrcType, array: pa.Array) -> Postings:
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    valid = _validity(array)
    nulls = _null_rows(valid)
    count = len(array) - len(nulls)
    if not count:
        return Postings(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.uint32), nulls)

    def keys_of(block: slice) -> Int64s:
        keys: Int64s = array_keys(data_type, array.slice(block.start, block.stop - block.start))
        return keys if valid is None else keys[valid[block]]

    low, high = _extent(keys_of, len(array))
    base = np.array(low, np.int64).view(np.uint64)
    layout = _layout(high - low, len(array))
    if layout is None:
        row_numbers = (
            np.arange(count, dtype=np.uint32) if valid is None else np.flatnonzero(valid).astype(np.uint32)
        )
        wide = _group_wide(np.concatenate([keys_of(block) for block in _blocks(len(array))]), row_numbers)
        return replace(wide, nulls=nulls)
    dtype, shift = layout
    packed = np.empty(count, dtype)
    at = 0
    for block in _blocks(len(array)):
        # the difference fits unsigned 64 bits even if it overflows signed ones: it wraps around to the right value
        offsets = (keys_of(block).view(np.uint64) - base).astype(dtype)
        packed[at : at + len(offsets)] = (offsets << dtype.type(shift)) | _row_numbers(block, valid, dtype)
        at += len(offsets)
    distinct, starts, rows = _unpack(packed, shift)
    return Postings((distinct + base).view(np.int64), starts, rows, nulls)


def _extent(keys_of: Callable[[slice], Int64s], count: int) -> tuple[int, int]:
    lows, highs = [], []
    for block in _blocks(count):
        keys = keys_of(block)
        if len(keys):
            lows.append(int(keys.min()))
            highs.append(int(keys.max()))
    return min(lows), max(highs)


def _layout(span: int, rows: int) -> tuple[np.dtype[Any], int] | None:
    """Return the integer type of a packed key offset (up to ``span``) and row number, and the key's first bit."""
    row_bits = max((rows - 1).bit_length(), 1)
    if span.bit_length() + row_bits <= 32:
        return np.dtype(np.uint32), row_bits
    if span.bit_length() <= 32:
        return np.dtype(np.uint64), 32
    if span.bit_length() + row_bits <= 64:
        return np.dtype(np.uint64), row_bits
    return None


def _row_numbers(block: slice, valid: npt.NDArray[np.bool_] | None, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    rows = np.arange(block.start, block.stop, dtype=dtype)
    return rows if valid is None else rows[valid[block]]


def _unpack(
    packed: npt.NDArray[Any], shift: int
) -> tuple[npt.NDArray[np.uint64], Int64s, npt.NDArray[np.uint32]]:
    """Sort packed values in place; return the distinct high parts, the start of each, and all low parts."""
    packed.sort()
    step = packed.dtype.type(shift)
    parts = [np.zeros(1, np.int64)]
    for block in _blocks(len(packed) - 1):
        high = packed[block.start : block.stop + 1] >> step
        parts.append(np.flatnonzero(high[1:] != high[:-1]) + (block.start + 1))
    parts.append(np.array([len(packed)], np.int64))
    starts = np.concatenate(parts)
    keys = (packed[starts[:-1]] >> step).astype(np.uint64)
    packed &= packed.dtype.type((1 << shift) - 1)
    # the low word of each 64-bit value, without a copy
    rows = packed if packed.dtype.itemsize == 4 else packed.view("<u4")[::2]
    return keys, starts, rows


def _group_wide(keys: Int64s, rows_of: npt.NDArray[np.uint32]) -> Postings:
    """Group keys by their ranks, if a key and a row number do not fit into one word.

    Args:
        rows_of: the row number of each key.
    """
    order = np.argsort(keys)
    ordered = keys[order]
    del keys
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    distinct = ordered[np.concatenate([np.zeros(1, np.int64), changes])]
    del ordered
    rank = np.zeros(len(order), np.uint64)
    rank[changes] = 1
    np.cumsum(rank, out=rank)
    # the sort need not be stable: equal keys get their rows in order when rank and row are sorted together
    rank <<= np.uint64(32)
    for block in _blocks(len(order)):
        rank[block] |= rows_of[order[block]]
    del order
    _, starts, rows = _unpack(rank, 32)
    return Postings(distinct, starts, rows, np.zeros(0, np.uint32))


def _group_bytes(data_type: OrcType, array: pa.Array) -> Postings:
    if not isinstance(array, pa.DictionaryArray):
        # first, so that keys are computed of distinct values only
        array = array.dictionary_encode()
    # the values' keys may repeat, be null, or be used by no row
    encoded = cast("pa.LargeBinaryArray", array_keys(data_type, array.dictionary)).dictionary_encode()
    codes = array.indices
    if len(encoded.dictionary) < len(array.dictionary):
        codes = pc.take(encoded.indices, codes)
    valid = _validity(codes)
    nulls = _null_rows(valid)
    count = len(codes) - len(nulls)
    if not count:
        return Postings(pa.array([], pa.large_binary()), np.zeros(1, np.int64), np.zeros(0, np.uint32), nulls)
    distinct = encoded.dictionary
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(distinct), np.uint64)
    rank[np.asarray(order)] = np.arange(len(distinct), dtype=np.uint64)
    layout = _layout(len(distinct) - 1, len(codes))
    assert layout is not None
    dtype, shift = layout
    rank = rank.astype(dtype)
    packed = np.empty(count, dtype)
    at = 0
    for block in _blocks(len(codes)):
        part = codes.slice(block.start, block.stop - block.start)
        ranks = rank[np.asarray(part.drop_null() if valid is not None else part)]
        packed[at : at + len(ranks)] = (ranks << dtype.type(shift)) | _row_numbers(block, valid, dtype)
        at += len(ranks)
    del codes, encoded
    used, starts, rows = _unpack(packed, shift)
    if len(used) < len(order):
        order = order.take(pa.array(used))
    return Postings(distinct.take(order), starts, rows, nulls)


#: The memory for grouping in addition to the column: a multiple of its bytes, and a minimum in bytes.
MEMORY_FACTOR = 2.2
MIN_MEMORY = 8 * 1024 * 1024

#: The number of sampled keys by which ranges are chosen.
_SAMPLE = 1 << 14
_FEW_KEYS = 64
# rough bytes of grouping and writing a row: of all rows at once, and of a range
_FEW_KEYS_BYTES = 8
_MANY_KEYS_BYTES = 80
_RANGE_BYTES = 110
_BYTES_KEY_BYTES = 420


def group_key_ranges(data_type: OrcType, array: pa.Array) -> Iterator[Postings]:
    """Group the rows of a stripe by key, in one or more pieces of ascending keys; the first has the null rows.

    Dictionary arrays, which have few keys, and lists are grouped in one piece.
    """
    count = len(array)
    budget = max(MIN_MEMORY, MEMORY_FACTOR * array.nbytes)
    if isinstance(array, pa.DictionaryArray | pa.ListArray) or count * _MANY_KEYS_BYTES <= budget:
        yield group(data_type, array)
        return
    sample = _sample(data_type, array)
    need = _needed(data_type, sample, count)
    if need <= budget or _is_one_key_frequent(sample):
        yield group(data_type, array)
        return
    row_bytes = _RANGE_BYTES
    if key_kind(data_type) is KeyKind.BYTES:
        row_bytes = _BYTES_KEY_BYTES + 2 * sum(map(len, sample)) // len(sample)  # type: ignore[arg-type]
    pieces = -(-count * row_bytes // int(budget))
    cuts = sorted({sample[len(sample) * n // pieces] for n in range(1, pieces)})
    nulls = np.zeros(0, np.uint32)
    if array.null_count:
        nulls = np.flatnonzero(np.asarray(array.is_null())).astype(np.uint32)
    numbers = _piece_numbers(data_type, array, cuts)
    for piece in range(len(cuts) + 1):
        rows = np.flatnonzero(numbers == piece).astype(np.uint32)
        keys = array_keys(data_type, array.take(pa.array(rows)))
        postings = group_pairs(keys, rows)
        del keys, rows
        yield Postings(postings.keys, postings.starts, postings.rows, nulls)
        nulls = np.zeros(0, np.uint32)


def _sample(data_type: OrcType, array: pa.Array) -> Sequence[Key]:
    """Return the keys of some rows, ascending."""
    # always the same rows, so that equal values give equal bytes
    at = np.sort(np.random.default_rng(0).integers(0, len(array), _SAMPLE))
    return sorted(key_list(array_keys(data_type, array.take(pa.array(at)).drop_null())))


def _is_one_key_frequent(sample: Sequence[Key]) -> bool:
    """Return True if ranges would not be much smaller than the whole: there are few keys, one with many rows."""
    runs = Counter(sample).values()
    return not runs or (len(runs) < _FEW_KEYS and max(runs) > len(sample) // 4)


def _needed(data_type: OrcType, sample: Sequence[Key], count: int) -> float:
    """Estimate the bytes that grouping all rows at once takes."""
    distinct = len(set(sample))
    # if most sampled keys are distinct, so are most of all keys; else there are few more keys than in the sample
    many = distinct > len(sample) // 4
    if key_kind(data_type) is KeyKind.BYTES:
        width = sum(map(len, sample)) / len(sample) if sample else 0  # type: ignore[arg-type]
        return float(count * ((_BYTES_KEY_BYTES + 2 * width) if many else 16 + width / 2))
    return float(count * (_MANY_KEYS_BYTES if many else _FEW_KEYS_BYTES))


def _piece_numbers(data_type: OrcType, array: pa.Array, cuts: Sequence[Key]) -> npt.NDArray[Any]:
    """Return the number of each row's piece: the number of ascending ``cuts`` that are not above its key.

    Nulls have the number after the last piece.
    """
    numbers = np.zeros(len(array), np.min_scalar_type(len(cuts) + 1))
    for start in range(0, len(array), _BLOCK):
        part = array.slice(start, _BLOCK)
        keys = array_keys(data_type, part)
        block_numbers = numbers[start : start + _BLOCK]
        for cut in cuts:
            if isinstance(keys, np.ndarray) and isinstance(cut, int):
                block_numbers += keys >= cut
            else:
                block_numbers += np.asarray(
                    pc.greater_equal(keys, pa.scalar(cut, pa.large_binary())).fill_null(False)
                )
        if part.null_count:
            block_numbers[np.asarray(part.is_null())] = len(cuts) + 1
    return numbers
