"""Compare rows of engines as multisets, in any order. This module imports nothing of hindex."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pandas.util import hash_array

_PIECE = 200_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of rows, and a sum over them of a hash of each: equal for equal multisets, in any order."""

    rows: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.rows:,} rows, checksum {self.checksum}"


def digest(result: pa.Table | int) -> Digest:
    """Digest rows by column name, in any order; integer widths and string types make no difference."""
    if isinstance(result, int):
        return Digest(result, "-")
    total = 0
    names = sorted(result.column_names)
    for start in range(0, result.num_rows, _PIECE):
        piece = result.slice(start, _PIECE)
        rows = np.zeros(piece.num_rows, np.uint64)
        for name in names:
            rows = _mix_bits(rows * _ODD + _hashes(_combine_chunks(piece.column(name))))
        total += int(np.sum(rows, dtype=np.uint64))
    return Digest(result.num_rows, f"{total % 2**64:016x}")


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _mix_bits(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix the bits of each value with the finaliser of splitmix64, a bijection."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hashes(array: pa.Array) -> npt.NDArray[np.uint64]:
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        array, data_type = array.cast(data_type.value_type), data_type.value_type
    if pa.types.is_null(data_type):
        return np.zeros(len(array), np.uint64)
    if pa.types.is_nested(data_type):
        hashes = np.array([_hash_of(value) for value in array.to_pylist()], np.uint64)
    elif pa.types.is_integer(data_type) or pa.types.is_boolean(data_type):
        hashes = _bits(array.cast(pa.int64()))
    elif pa.types.is_date(data_type):
        hashes = _bits(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
    elif pa.types.is_floating(data_type):
        hashes = _bits((array.cast(pa.float64())), zero=0.0)
    elif pa.types.is_decimal(data_type):
        # the unscaled value's low half, trailing zeros of other scales aside
        wide = array.cast(pa.decimal128(38, 6))
        low = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
        hashes = low.astype(np.uint64)
    else:
        encoded = array.cast(pa.large_binary()).dictionary_encode()
        texts = np.array([*encoded.dictionary.to_pylist(), None], object)[:-1]
        dictionary_hashes = hash_array(texts, categorize=False)
        codes = np.asarray(encoded.indices.fill_null(0))
        hashes = dictionary_hashes[codes] if len(dictionary_hashes) else np.zeros(len(array), np.uint64)
    hashes = _mix_bits(hashes + np.uint64(1))
    if array.null_count:
        hashes = np.where(np.asarray(array.is_valid()), hashes, np.uint64(0))
    return hashes


def _bits(array: pa.Array, zero: float = 0) -> npt.NDArray[np.uint64]:
    values = np.asarray(array.fill_null(zero))
    if values.dtype.kind == "f":
        # NaN is NaN, and -0.0 is 0.0
        values = np.where(np.isnan(values), np.nan, values) + 0.0
    return values.view(np.uint64)


def _hash_of(value: Any) -> int:
    """Hash one value, the same in every process."""
    return int.from_bytes(hashlib.blake2b(_plain(value), digest_size=8).digest(), "little")


def _plain(value: Any) -> bytes:
    return repr(_sort_fields(value)).encode()


def _sort_fields(value: Any) -> Any:
    """Sort the fields of nested values by name."""
    if isinstance(value, dict):
        return [(key, _sort_fields(value[key])) for key in sorted(value)]
    if isinstance(value, list | tuple):
        return [_sort_fields(item) for item in value]
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def same_rows(left: pa.Table, right: pa.Table) -> str | None:
    """Return None if two small tables have equal rows, otherwise some rows that only one of them has."""
    names = sorted(left.column_names)
    if names != sorted(right.column_names):
        return f"columns {names} and {sorted(right.column_names)}"
    sides = [sorted(map(repr, map(_sort_fields, table.select(names).to_pylist()))) for table in (left, right)]
    if sides[0] == sides[1]:
        return None
    first, second = map(Counter, sides)
    return f"only the first: {list((first - second).elements())[:3]}, only the other: " + str(
        list((second - first).elements())[:3]
    )
