from __future__ import annotations

import datetime
import decimal
import itertools
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hindex.domain import Key
from hindex.keys import (
    KeyKind,
    array_keys,
    composite_keys,
    decimal_key,
    float_key,
    join_keys,
    key_array,
    key_decimal,
    key_float,
    key_kind,
    key_limits,
    key_list,
    key_part,
    key_value,
    pad_char,
    same_keys,
)
from hindex.orc.metadata.types import Kind, OrcType
from tests.support.messages import raises

EPOCH = datetime.datetime(1970, 1, 1)
SHORT = OrcType(Kind.DECIMAL, precision=18, scale=4)
LONG = OrcType(Kind.DECIMAL, precision=38, scale=10)
OLD = OrcType(Kind.DECIMAL)
CHAR = OrcType(Kind.CHAR, max_length=3)
INTEGERS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


def spark_order(value: float) -> tuple[bool, float]:
    """NaN is equal to itself and greatest; Python's own order has -0.0 equal to 0.0."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def scalar_key(data_type: OrcType, value: Any) -> Key:
    """One value's key, from the definitions."""
    match data_type.kind:
        case Kind.FLOAT | Kind.DOUBLE:
            return float_key(value)
        case Kind.DECIMAL:
            with decimal.localcontext(decimal.Context(prec=60)):
                return decimal_key(
                    int(value.scaleb(data_type.scale if data_type.precision else 18)), data_type
                )
        case Kind.CHAR:
            return pad_char(value.encode(), data_type.max_length)
        case Kind.STRING | Kind.VARCHAR:
            return bytes(value, "utf-8")
        case Kind.BINARY:
            return bytes(value)
        case Kind.DATE:
            return int((value - EPOCH.date()).days)
        case Kind.TIMESTAMP:
            return int((value - EPOCH) // datetime.timedelta(microseconds=1))
        case Kind.TIMESTAMP_INSTANT:
            return int((value - EPOCH.replace(tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1))
        case _:
            return int(value)


def decimals(data_type: OrcType) -> st.SearchStrategy[Decimal]:
    digits, scale = (data_type.precision, data_type.scale) if data_type.precision else (38, 18)
    return st.integers(1 - 10**digits, 10**digits - 1).map(lambda v: Decimal(f"{v}e-{scale}"))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
VALUES: list[tuple[OrcType, st.SearchStrategy[Any]]] = [
    (OrcType(Kind.BOOLEAN), st.booleans()),
    *(
        (OrcType(kind), st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        for kind, bits in INTEGERS.items()
    ),
    (OrcType(Kind.FLOAT), st.floats(width=32)),
    (OrcType(Kind.DOUBLE), st.floats()),
    (SHORT, decimals(SHORT)),
    (LONG, decimals(LONG)),
    (OLD, decimals(OLD)),
    (OrcType(Kind.STRING), texts),
    (OrcType(Kind.VARCHAR, max_length=3), texts),
    (CHAR, texts),
    (OrcType(Kind.BINARY), st.binary(max_size=3)),
    (OrcType(Kind.DATE), st.dates()),
    (OrcType(Kind.TIMESTAMP), st.datetimes()),
    (OrcType(Kind.TIMESTAMP_INSTANT), st.datetimes(timezones=st.just(datetime.UTC))),
]
by_type = pytest.mark.parametrize(("data_type", "values"), VALUES, ids=[str(of) for of, _ in VALUES])


def keys_list(data_type: OrcType, array: pa.Array) -> list[Key | None]:
    keys = array_keys(data_type, array)
    listed: list[Key] = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    assert len(listed) == len(array)
    # null slots of integers have any key
    assert isinstance(keys, np.ndarray) or keys.is_valid().equals(array.is_valid())
    return [key if valid else None for key, valid in zip(listed, array.is_valid().to_pylist(), strict=True)]


@by_type
@given(data=st.data())
def test_arrays_and_scalars_agree(
    data_type: OrcType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    listed = data.draw(st.lists(st.one_of(st.none(), values), max_size=8))
    array = pa.array(listed, data_type.to_arrow())
    expected = [None if value is None else scalar_key(data_type, value) for value in listed]
    assert keys_list(data_type, array) == expected
    assert keys_list(data_type, array[1:]) == expected[1:]
    assert keys_list(data_type, array[:-1]) == expected[:-1]
    assert isinstance(
        array_keys(data_type, array),
        np.ndarray if key_kind(data_type) is KeyKind.INT64 else pa.LargeBinaryArray,
    )


@by_type
@given(data=st.data())
def test_order_of_keys_is_order_of_values(
    data_type: OrcType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    one, other = data.draw(values), data.draw(values)
    one_key, other_key = scalar_key(data_type, one), scalar_key(data_type, other)
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        one, other = spark_order(one), spark_order(other)
    elif data_type.kind is Kind.CHAR:
        one, other = one.ljust(3), other.ljust(3)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    assert (one_key < other_key, one_key == other_key) == (one < other, one == other)  # type: ignore[operator]


@by_type
@given(data=st.data())
def test_composite_keys_are_in_the_order_of_their_parts(
    data_type: OrcType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """NULL is the least, and bytes may hold what parts end with."""
    texts = (
        st.none() | st.binary(max_size=3) | st.lists(st.sampled_from([b"\0", b"\1", b"\xff"])).map(b"".join)
    )
    rows = data.draw(st.lists(st.tuples(texts, st.none() | values, texts), min_size=2, max_size=6))
    types = [OrcType(Kind.BINARY), data_type, OrcType(Kind.BINARY)]
    columns = [(item, pa.array([row[at] for row in rows], item.to_arrow())) for at, item in enumerate(types)]
    joined = composite_keys(columns).to_pylist()
    keys = [tuple(row) for row in zip(*(keys_list(*column) for column in columns), strict=True)]
    assert joined == [b"".join(map(key_part, row)) for row in keys]
    ordered = [tuple((item is not None, item) for item in row) for row in keys]
    for one, other in itertools.combinations(range(len(rows)), 2):
        assert (joined[one] < joined[other]) == (ordered[one] < ordered[other])
        assert (joined[one] == joined[other]) == (ordered[one] == ordered[other])


@by_type
@given(data=st.data())
def test_key_value_is_the_value(
    data_type: OrcType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    result = key_value(data_type, scalar_key(data_type, value))
    if data_type.kind is Kind.CHAR:
        value = value.ljust(3)
    assert result == value or (result != result and value != value)


@by_type
@given(data=st.data())
def test_values_of_keys(data_type: OrcType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """An array of values comes back from its keys, but for what has one key."""
    array = pa.array(data.draw(st.lists(values, max_size=8)), data_type.to_arrow())
    keys = array_keys(data_type, array)
    restored = key_array(data_type, keys)
    restored.validate(full=True)
    assert restored.type == data_type.to_arrow()
    assert keys_list(data_type, restored) == keys_list(data_type, array)
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        # zero has no sign
        assert not any(value == 0 and math.copysign(1, value) < 0 for value in restored.to_pylist())
    elif data_type.kind is not Kind.CHAR:
        assert restored.equals(array)
    kind = key_kind(data_type)
    assert kind is not None
    joined = join_keys(kind, [keys, keys])
    assert key_array(data_type, joined).equals(pa.concat_arrays([restored, restored])) or data_type.kind in (
        Kind.FLOAT,
        Kind.DOUBLE,
    )
    assert len(join_keys(kind, [])) == 0


@given(st.integers(0, 2**64 - 1))
@example(0x7FF0000000000001).via("a signalling NaN")
@example(0xFFF8000000000000).via("a negative NaN")
def test_every_nan_is_one_key(bits: int) -> None:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    array = pa.array(np.frombuffer(struct.pack("<Q", bits), np.float64))
    assert keys_list(OrcType(Kind.DOUBLE), array) == [float_key(value)]
    back = key_float(float_key(value))
    assert back == value or (math.isnan(back) and math.isnan(value))


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001, 0x7FC00000])
def test_every_nan_of_a_float_is_one_key(bits: int) -> None:
    array = pa.array(np.frombuffer(struct.pack("<I", bits), np.float32))
    assert keys_list(OrcType(Kind.FLOAT), array) == [float_key(math.nan)]


def test_floats_in_order() -> None:
    ordered = [-math.inf, -1.5, -5e-324, 0.0, 5e-324, 1.5, 1.7976931348623157e308, math.inf, math.nan]
    keys = [float_key(value) for value in ordered]
    assert keys == sorted(set(keys))
    assert float_key(-0.0) == float_key(0.0)
    assert key_limits(OrcType(Kind.FLOAT)) == (keys[0], keys[-1])


def test_same_keys_of_decimals_are_those_of_equal_values() -> None:
    types = [OrcType(Kind.DECIMAL, precision=p, scale=s) for p in (9, 18, 19, 38) for s in (0, 2)]
    one_keys = [key_list(array_keys(item, pa.array([Decimal(1)], item.to_arrow()))) for item in types]
    for (one, keys), (other, other_keys) in itertools.product(zip(types, one_keys, strict=True), repeat=2):
        assert same_keys(one, other) is (keys == other_keys), (one, other)


def test_wide_decimals_are_sixteen_bytes_in_order() -> None:
    unscaled = [1 - 10**38, -(1 << 64), -1, 0, 1, (1 << 64) - 1, 1 << 64, 10**38 - 1]
    keys = [decimal_key(value, LONG) for value in unscaled]
    assert {len(key) for key in keys if isinstance(key, bytes)} == {16}
    assert keys == sorted(keys)
    assert [key_decimal(key) for key in keys] == unscaled


def test_limits_hold_every_key() -> None:
    for data_type, _ in VALUES:
        limits = key_limits(data_type)
        assert (limits is None) == (key_kind(data_type) is KeyKind.BYTES)
    assert key_limits(OrcType(Kind.BOOLEAN)) == (0, 1)
    assert key_limits(OrcType(Kind.BYTE)) == (-128, 127)
    assert key_limits(OrcType(Kind.DATE)) == (-(1 << 31), (1 << 31) - 1)
    assert key_limits(OrcType(Kind.LONG)) == (-(1 << 63), (1 << 63) - 1)


def test_other_layouts_of_strings() -> None:
    data_type = OrcType(Kind.STRING)
    plain = pa.array(["a", None, "é"])
    expected = [b"a", None, "é".encode()]
    for array in (
        plain,
        plain.cast(pa.large_string()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
    ):
        assert keys_list(data_type, array) == expected
    chunked = array_keys(data_type, pa.chunked_array([plain, plain]))
    assert not isinstance(chunked, np.ndarray)
    assert chunked.to_pylist() == expected * 2


@pytest.mark.parametrize("data_type", [OrcType(Kind.STRING), CHAR], ids=str)
def test_invalid_utf8_is_kept_as_bytes(data_type: OrcType) -> None:
    array = pa.array([b"\xff\xfe", b"\xc3"]).view(pa.string())
    expected = [b"\xff\xfe", b"\xc3"] if data_type.kind is Kind.STRING else [b"\xff\xfe ", b"\xc3  "]
    assert keys_list(data_type, array) == expected
    if data_type.kind is Kind.CHAR:
        assert [pad_char(raw, 3) for raw in (b"\xff\xfe", b"\xc3")] == expected


def test_char_counts_characters_not_bytes() -> None:
    array = pa.array(["é", "😀", "abc", "abcd", ""])
    assert keys_list(CHAR, array) == ["é  ".encode(), "😀  ".encode(), b"abc", b"abcd", b"   "]


def test_years_that_python_cannot_hold() -> None:
    assert key_value(OrcType(Kind.DATE), 4_000_000) == "+12921-08-18"
    assert (
        key_value(OrcType(Kind.TIMESTAMP), 4_000_000 * 86_400_000_000 + 1) == "+12921-08-18 00:00:00.000001"
    )


def test_composites_have_no_keys() -> None:
    data_type = OrcType(Kind.LIST, children=(OrcType(Kind.INT),))
    assert key_kind(data_type) is None
    assert key_limits(data_type) is None
    with raises(TypeError):
        array_keys(data_type, pa.array([[1]]))


def test_empty_and_all_null_arrays() -> None:
    for (data_type, _), length in itertools.product(VALUES, (0, 2)):
        assert keys_list(data_type, pa.nulls(length, data_type.to_arrow())) == [None] * length
