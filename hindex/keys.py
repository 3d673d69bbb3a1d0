"""Keys: column values in a form whose plain order is Spark's order of the values.

Every primitive value becomes an ``int`` in 64 bits or ``bytes``, such that comparing keys compares values as
Spark does: NaN equals NaN and is greatest, -0.0 equals 0.0, strings compare by their UTF-8 bytes. Indexes
store keys and predicates are turned into domains of keys, so one comparison serves every type.

===============================  ==================================================================
type                             key
===============================  ==================================================================
boolean, tinyint ... bigint      the integer
date                             days since 1970-01-01
timestamp (all three)            microseconds since 1970-01-01 00:00:00 (of the wall clock, or UTC)
float, double                    the double's bits, mapped so that signed integer order is value order
decimal(p <= 18, s)              the unscaled integer at scale s
decimal(p > 18, s)               the unscaled integer as 16 bytes, big-endian, sign bit flipped
string, varchar, binary          the bytes
char(n)                          the bytes, filled with blanks to n characters: Spark pads on read
===============================  ==================================================================

Values of several columns have one key together, the bytes of their parts one after the other: see `key_part`.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.decode.arrow_arrays import pad_strings
from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType
from hindex.sql.string_values import date_from_days, format_date

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1

#: The first byte of the part of NULL, that of a value, and the end of a part of bytes: see `key_part`.
NULL_PART, VALUE_PART, END_PART = b"\0", b"\1", b"\0\0"

#: Greatest precision whose unscaled values all fit 64 bits.
SHORT_DECIMAL_PRECISION = 18

_DECIMAL_BIAS = 1 << 127

#: -0.0 equals 0.0, NaN any other NaN, and CHAR values with different trailing blanks each other.
_LOSSY = frozenset({Kind.FLOAT, Kind.DOUBLE, Kind.CHAR})
_WIDTHS = {Kind.BYTE: 8, Kind.SHORT: 16}

KeyArray: TypeAlias = "npt.NDArray[np.int64] | pa.LargeBinaryArray"


class KeyKind(enum.Enum):
    """The representation of a type's keys."""

    INT64 = "int64"
    BYTES = "bytes"


def key_kind(data_type: OrcType) -> KeyKind | None:
    """Return the kind of a type's keys, or None for composite types."""
    if data_type.kind in INTEGER_KINDS or data_type.kind in (
        Kind.BOOLEAN,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_INSTANT,
        Kind.TIMESTAMP_NTZ,
        Kind.FLOAT,
        Kind.DOUBLE,
    ):
        return KeyKind.INT64
    if data_type.kind == Kind.DECIMAL:
        return KeyKind.INT64 if 0 < data_type.precision <= SHORT_DECIMAL_PRECISION else KeyKind.BYTES
    if data_type.kind in STRING_KINDS or data_type.kind == Kind.BINARY:
        return KeyKind.BYTES
    return None


def key_limits(data_type: OrcType) -> tuple[int, int] | None:
    """Return the least and greatest key of a type, or None if its keys are bytes."""
    if key_kind(data_type) is not KeyKind.INT64:
        return None
    match data_type.kind:
        case Kind.BOOLEAN:
            return 0, 1
        case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.DATE:
            half = 1 << (_WIDTHS.get(data_type.kind, 32) - 1)
            return -half, half - 1
        case Kind.FLOAT | Kind.DOUBLE:
            return float_key(-math.inf), float_key(math.nan)
        case _:
            return INT64_MIN, INT64_MAX


def float_key(value: float) -> int:
    """Return the key of a float or double.

    >>> float_key(-0.0) == float_key(0.0), float_key(float("nan")) > float_key(float("inf"))
    (True, True)
    """
    if math.isnan(value):
        value = math.nan
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ INT64_MAX


def key_float(key: int) -> float:
    """Return the value of a float's key: the inverse of `float_key`."""
    bits = key if key >= 0 else key ^ INT64_MAX
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def same_keys(a: OrcType, b: OrcType) -> bool:
    """Return True if equal values of two types have equal keys, so that an index on one answers for the other."""
    if a.same_as(b):
        return True
    if a.kind == Kind.DECIMAL and b.kind == Kind.DECIMAL:
        return a.scale == b.scale and key_kind(a) is key_kind(b)
    # keys of CHAR are filled with blanks to its own length
    families = (
        INTEGER_KINDS,
        # which files hold as the other
        frozenset({Kind.LONG, Kind.TIMESTAMP_NTZ}),
        STRING_KINDS - {Kind.CHAR},
        frozenset({Kind.FLOAT, Kind.DOUBLE}),
    )
    return any(a.kind in family and b.kind in family for family in families)


def are_values(data_type: OrcType) -> bool:
    """Return True if a key determines the value bit by bit.

    Types with different but equal values, such as -0.0, have no such keys.
    """
    return key_kind(data_type) is not None and data_type.kind not in _LOSSY


def decimal_key(unscaled: int, data_type: OrcType) -> Key:
    """Return the key of a decimal given as its unscaled integer at the type's scale."""
    if key_kind(data_type) is KeyKind.INT64:
        return unscaled
    return (unscaled + _DECIMAL_BIAS).to_bytes(16, "big")


def key_decimal(key: Key) -> int:
    """Return the unscaled integer of a decimal's key."""
    return key if isinstance(key, int) else int.from_bytes(key, "big") - _DECIMAL_BIAS


def pad_char(value: bytes, length: int) -> bytes:
    """Pad a CHAR(length) value with blanks. Characters are counted by their lead bytes, as Arrow does."""
    characters = sum(byte & 0xC0 != 0x80 for byte in value)
    return value + b" " * (length - characters)


def array_keys(data_type: OrcType, array: pa.Array) -> KeyArray:
    """Compute the keys of an Arrow array of ``data_type.to_arrow()``, one a value.

    Returns:
        int64 numpy array, or a large binary array. At null slots the integer is arbitrary; a binary array keeps its
        nulls.

    Raises:
        TypeError: if the type has no keys.
    """
    kind = key_kind(data_type)
    if kind is None:
        raise TypeError(f"values of type {data_type} have no keys")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if data_type.kind == Kind.DECIMAL:
        return _decimal_keys(data_type, array)
    if kind is KeyKind.BYTES:
        if data_type.kind == Kind.CHAR:
            array = pad_strings(array, data_type.max_length)
        if pa.types.is_string(array.type):
            array = array.cast(pa.binary())  # a view; straight to large_binary would check the UTF-8
        return array.cast(pa.large_binary())
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _float_keys(array)
    if data_type.kind == Kind.BOOLEAN:
        return np.asarray(pc.fill_null(array, False).cast(pa.int64()))
    return _fixed_width(array, np.dtype(f"i{array.type.bit_width // 8}")).astype(np.int64, copy=False)


def key_part(key: Key | None) -> bytes:
    r"""Return the part of one column in the key of several. Parts are ordered as keys are, and NULL is the least.

    An integer has its 64 bits, big-endian, with the sign bit flipped. Bytes end with two zero bytes, and a zero byte
    within has 255 behind it, so that no part is the beginning of another.

    >>> key_part(None) < key_part(-1) < key_part(0) and key_part(b"a") < key_part(b"a\0") < key_part(b"b")
    True
    """
    if key is None:
        return NULL_PART
    if isinstance(key, int):
        return VALUE_PART + (key - INT64_MIN).to_bytes(8, "big")
    return VALUE_PART + key.replace(b"\0", b"\0\xff") + END_PART


def composite_keys(columns: Sequence[tuple[OrcType, pa.Array]]) -> pa.LargeBinaryArray:
    """Return the key of each row of several columns: the parts of `key_part` one after the other; none is null.

    Args:
        columns: types, each with an array as `array_keys` takes it; all of one length.
    """
    parts = [_key_parts(array_keys(data_type, array), array) for data_type, array in columns]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _key_parts(keys: KeyArray, array: pa.Array) -> pa.LargeBinaryArray:
    if isinstance(keys, np.ndarray):
        packed = np.empty(len(keys), [("value", "S1"), ("key", ">u8")])
        packed["value"] = VALUE_PART
        packed["key"] = keys.view(np.uint64) ^ np.uint64(1 << 63)
        fixed = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(packed.itemsize), len(keys), [None, pa.py_buffer(packed)]
        )
        parts = fixed.cast(pa.large_binary())
    else:
        escaped = pc.replace_substring(keys, pattern=b"\0", replacement=b"\0\xff")
        value, end, separator = (pa.scalar(text, pa.large_binary()) for text in (VALUE_PART, END_PART, b""))
        parts = pc.binary_join_element_wise(value, escaped, end, separator)
    if not array.null_count:
        return parts
    return pc.if_else(array.is_valid(), parts, pa.scalar(NULL_PART, pa.large_binary()))


def list_elements(lists: pa.ListArray) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the elements of all lists, one behind the other, and the row of each."""
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    return lists.flatten(), np.repeat(np.arange(len(lists)), lengths)


def key_array(data_type: OrcType, keys: KeyArray) -> pa.Array:
    """Return the values of keys, one a key, none null: the inverse of `array_keys`.

    Values with the same key are one value to Spark, returned as Spark groups by it: 0.0 for -0.0, one NaN for all, and
    CHAR padded with blanks.

    Returns:
        an array of ``of.to_arrow()``.
    """
    arrow_type = data_type.to_arrow()
    if data_type.kind == Kind.DECIMAL:
        return _decimals(arrow_type, keys)
    if not isinstance(keys, np.ndarray):
        narrow = keys.cast(pa.binary())
        return narrow.view(arrow_type) if pa.types.is_string(arrow_type) else narrow
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        doubles = np.where(keys >= 0, keys, keys ^ np.int64(INT64_MAX)).view(np.float64)
        return pa.array(doubles, pa.float64()).cast(arrow_type, safe=False)
    # pa.array would import pandas
    whole = pa.Array.from_buffers(
        pa.int64(), len(keys), [None, pa.py_buffer(np.ascontiguousarray(keys, np.int64))]
    )
    if pa.types.is_timestamp(arrow_type):
        return whole.view(arrow_type)
    return (
        whole.cast(pa.int32()).view(arrow_type) if pa.types.is_date32(arrow_type) else whole.cast(arrow_type)
    )


def one_key_array(key: Key) -> KeyArray:
    """Return one key as keys; pa.array of it would import pandas."""
    if isinstance(key, int):
        return np.array([key], np.int64)
    ends = np.array([0, len(key)], np.int64)
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(key)])


def join_keys(kind: KeyKind, parts: Sequence[KeyArray]) -> KeyArray:
    """Concatenate keys."""
    if kind is KeyKind.INT64:
        return np.concatenate([np.zeros(0, np.int64), *parts])
    return pa.concat_arrays([pa.array([], pa.large_binary()), *parts])


def key_list(keys: KeyArray) -> list[Key]:
    """Return keys as Python objects."""
    items: list[Key] = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    return items


def nth_key(keys: KeyArray, at: int) -> Key:
    """Return one of some keys."""
    key: Key = int(keys[at]) if isinstance(keys, np.ndarray) else keys[at].as_py()
    return key


def min_max_keys(keys: KeyArray) -> tuple[Key, Key]:
    """Return the least and greatest of at least one key; nulls among bytes are ignored."""
    if isinstance(keys, np.ndarray):
        return int(keys.min()), int(keys.max())
    ends = pc.min_max(keys)
    return ends["min"].as_py(), ends["max"].as_py()


def _decimals(arrow_type: pa.DataType, keys: KeyArray) -> pa.Array:
    words = np.empty(len(keys), dtype=[("low", "<u8"), ("high", "<i8")])
    if isinstance(keys, np.ndarray):
        words["low"], words["high"] = keys.view(np.uint64), keys >> np.int64(63)
    else:
        data = b"".join(keys.to_pylist())
        big = np.frombuffer(data, dtype=[("high", ">u8"), ("low", ">u8")])
        words["low"] = big["low"]
        words["high"] = (big["high"].astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    return pa.Array.from_buffers(arrow_type, len(keys), [None, pa.py_buffer(words.tobytes())])


PythonValue = bool | int | float | str | bytes | decimal.Decimal | datetime.date | datetime.datetime


def key_value(data_type: OrcType, key: Key) -> PythonValue:
    """Return the Python value that Arrow has for a key: for messages, and answers from an index alone.

    A date or time in a year that Python cannot hold is its text.
    """
    if data_type.kind == Kind.DECIMAL:
        with decimal.localcontext(decimal.Context(prec=60)):
            return decimal.Decimal(key_decimal(key)).scaleb(-(data_type.scale if data_type.precision else 18))
    if isinstance(key, bytes):
        return key if data_type.kind == Kind.BINARY else key.decode("utf-8", "surrogateescape")
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        return key_float(key)
    if data_type.kind == Kind.BOOLEAN:
        return bool(key)
    if data_type.kind == Kind.DATE:
        date = date_from_days(key)
        return date if isinstance(date, datetime.date) else format_date(key)
    if data_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.TIMESTAMP_NTZ):
        zone = datetime.UTC if data_type.kind == Kind.TIMESTAMP_INSTANT else None
        days, micros = divmod(key, MICROS_PER_DAY)
        date = date_from_days(days)
        time = datetime.timedelta(microseconds=micros)
        if isinstance(date, datetime.date):
            return datetime.datetime.combine(date, datetime.time(tzinfo=zone)) + time
        clock = (datetime.datetime(2000, 1, 1, tzinfo=zone) + time).time()
        return f"{format_date(days)} {clock.isoformat()}"
    return key


def _fixed_width(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values buffer of a fixed-width array, null slots included, without a copy."""
    values = array.buffers()[1]
    if values is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(values, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def _float_keys(array: pa.Array) -> npt.NDArray[np.int64]:
    width = array.type.bit_width // 8
    # adding zero turns -0.0 into 0.0 and copies; a float widened to double keeps its value
    # (a signalling NaN is a value as good as any, not worth a warning)
    with np.errstate(invalid="ignore"):
        doubles = _fixed_width(array, np.dtype(f"f{width}")).astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(INT64_MAX))


def _decimal_keys(data_type: OrcType, array: pa.Array) -> KeyArray:
    words = _fixed_width(array, np.dtype([("low", "<u8"), ("high", "<i8")]))
    if key_kind(data_type) is KeyKind.INT64:
        return np.ascontiguousarray(words["low"]).view(np.int64)
    big = np.empty(len(array), dtype=[("high", ">u8"), ("low", ">u8")])
    big["high"] = np.ascontiguousarray(words["high"]).view(np.uint64) ^ np.uint64(1 << 63)
    big["low"] = words["low"]
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(array), [None, pa.py_buffer(big.tobytes())]
    )
    keys = fixed.cast(pa.large_binary())
    if array.null_count:
        keys = pc.if_else(array.is_valid(), keys, pa.scalar(None, pa.large_binary()))
    return keys
