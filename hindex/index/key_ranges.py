"""Grouping a stripe's rows by key within bounded memory: one range of keys after the other.

Grouping all rows at once takes up to a hundred bytes a row where keys are many. So the keys are cut into ranges by
a sample of them, and only the rows of one range are gathered, sorted and written at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key
from hindex.index.postings import Postings, group, group_pairs
from hindex.keys import KeyKind, array_keys, key_kind, key_list
from hindex.orc.metadata.types import OrcType

#: Beside the column itself, so many times its bytes may be held; and so many bytes however small it is.
HELD_FACTOR = 2.2
HELD_LEAST = 8 * 1024 * 1024

#: Keys that ranges are chosen by.
_SAMPLE = 1 << 14
_BLOCK = 1 << 16
_FEW_KEYS = 64
# rough bytes that grouping and writing a row take: all rows at once, and a row of a range
_FEW_KEYS_BYTES = 8
_MANY_KEYS_BYTES = 80
_RANGE_BYTES = 110
_BYTES_KEY_BYTES = 420


def group_key_ranges(data_type: OrcType, array: pa.Array) -> Iterator[Postings]:
    """The rows of a stripe grouped by key, in one piece or several of ascending keys; the first has the null rows.

    A dictionary is grouped at once: it has few keys, or would not be one.
    """
    count = len(array)
    budget = max(HELD_LEAST, HELD_FACTOR * array.nbytes)
    if pa.types.is_dictionary(array.type) or count * _MANY_KEYS_BYTES <= budget:
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
        found = group_pairs(keys, rows)
        del keys, rows
        yield Postings(found.keys, found.starts, found.rows, nulls)
        nulls = np.zeros(0, np.uint32)


def _sample(data_type: OrcType, array: pa.Array) -> Sequence[Key]:
    """The keys of some rows, ascending."""
    # always the same rows, so that the same values give the same bytes
    at = np.sort(np.random.default_rng(0).integers(0, len(array), _SAMPLE))
    return sorted(key_list(array_keys(data_type, array.take(pa.array(at)).drop_null())))


def _is_one_key_frequent(sample: Sequence[Key]) -> bool:
    """Return True if ranges would not be much smaller than the whole: few keys, one of them with many of the rows."""
    runs = Counter(sample).values()
    return not runs or (len(runs) < _FEW_KEYS and max(runs) > len(sample) // 4)


def _needed(data_type: OrcType, sample: Sequence[Key], count: int) -> float:
    """About how many bytes grouping all rows at once takes."""
    distinct = len(set(sample))
    # where most keys of a sample are different, most keys of all are; else there are few more than it shows
    many = distinct > len(sample) // 4
    if key_kind(data_type) is KeyKind.BYTES:
        width = sum(map(len, sample)) / len(sample) if sample else 0  # type: ignore[arg-type]
        return float(count * ((_BYTES_KEY_BYTES + 2 * width) if many else 16 + width / 2))
    return float(count * (_MANY_KEYS_BYTES if many else _FEW_KEYS_BYTES))


def _piece_numbers(data_type: OrcType, array: pa.Array, cuts: Sequence[Key]) -> npt.NDArray[Any]:
    """The piece that each row belongs to: how many of the ascending ``cuts`` are not above its key.

    A null's is the number behind the last one.
    """
    found = np.zeros(len(array), np.min_scalar_type(len(cuts) + 1))
    for start in range(0, len(array), _BLOCK):
        part = array.slice(start, _BLOCK)
        keys = array_keys(data_type, part)
        here = found[start : start + _BLOCK]
        for cut in cuts:
            if isinstance(keys, np.ndarray) and isinstance(cut, int):
                here += keys >= cut
            else:
                here += np.asarray(pc.greater_equal(keys, pa.scalar(cut, pa.large_binary())).fill_null(False))
        if part.null_count:
            here[np.asarray(part.is_null())] = len(cuts) + 1
    return found
