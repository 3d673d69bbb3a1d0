"""Columns of every type as plain Python values, and an oracle that knows nothing of keys."""

from __future__ import annotations

import datetime
import decimal
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from hindex.domain import Domain, Key, Range
from hindex.index.bitmap import BitmapReader
from hindex.index.column_stats import array_stats
from hindex.index.index_file import OWN_CACHE_BYTES, IndexFileReader
from hindex.index.index_type import IndexReader, file_index_type
from hindex.index.page_cache import Cache
from hindex.keys import array_keys
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import Kind, OrcType

EPOCH = datetime.datetime(1970, 1, 1)
DAY_ONE = datetime.date(1970, 1, 1)

SHORT_DECIMAL = OrcType(Kind.DECIMAL, precision=9, scale=2)
LONG_DECIMAL = OrcType(Kind.DECIMAL, precision=38, scale=4)

TYPES = {
    "boolean": OrcType(Kind.BOOLEAN),
    "tinyint": OrcType(Kind.BYTE),
    "smallint": OrcType(Kind.SHORT),
    "int": OrcType(Kind.INT),
    "bigint": OrcType(Kind.LONG),
    "float": OrcType(Kind.FLOAT),
    "double": OrcType(Kind.DOUBLE),
    "string": OrcType(Kind.STRING),
    "varchar": OrcType(Kind.VARCHAR, max_length=20),
    "char": OrcType(Kind.CHAR, max_length=20),
    "binary": OrcType(Kind.BINARY),
    "date": OrcType(Kind.DATE),
    "timestamp": OrcType(Kind.TIMESTAMP),
    "timestamp_instant": OrcType(Kind.TIMESTAMP_INSTANT),
    "decimal_9_2": SHORT_DECIMAL,
    "decimal_38_4": LONG_DECIMAL,
}


def values(data_type: OrcType) -> st.SearchStrategy[Any]:
    """Values of a type, with many collisions and every extreme."""
    few = st.integers(-3, 3)
    match data_type.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG:
            bits = {Kind.BYTE: 7, Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}[data_type.kind]
            return few | st.integers(-(1 << bits), (1 << bits) - 1)
        case Kind.FLOAT | Kind.DOUBLE:
            width: Literal[32, 64] = 32 if data_type.kind == Kind.FLOAT else 64
            special = st.sampled_from([math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf, 1.0])
            return special | st.floats(width=width)
        case Kind.DATE:
            return (few | st.integers(-700_000, 2_900_000)).map(lambda n: DAY_ONE + datetime.timedelta(n))
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            wide = few | st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000)
            return wide.map(lambda n: EPOCH + datetime.timedelta(microseconds=n))
        case Kind.DECIMAL:
            limit = 10**data_type.precision - 1
            wide = few | st.integers(-limit, limit)
            context = decimal.Context(prec=60)
            return wide.map(lambda n: decimal.Decimal(n).scaleb(-data_type.scale, context))
        case Kind.BINARY:
            return st.sampled_from([b"", b"\0", b"a", b"a\0", b"\xff"]) | st.binary(max_size=6)
        case _:
            special = st.sampled_from(["", "\0", "a", "a\0", "a\0b", "é", "\U0001f600", "\uffff", "z" * 300])
            return special | st.text(max_size=6)


def to_array(data_type: OrcType, column: Sequence[Any]) -> pa.Array:
    return pa.array(column, data_type.to_arrow())


def order(value: Any, data_type: OrcType) -> tuple[int, Any]:
    """Something that compares as Spark compares the values."""
    if data_type.kind == Kind.CHAR:
        value = value.ljust(data_type.max_length)
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value.encode()) if isinstance(value, str) else (0, value)


def key_of(data_type: OrcType, value: Any) -> Key:
    keys = array_keys(data_type, to_array(data_type, [value]))
    key = keys[0]
    return key.as_py() if isinstance(key, pa.Scalar) else int(key)


def expected(
    data_type: OrcType,
    column: Sequence[Any],
    pieces: Sequence[tuple[Any, Any, bool, bool]],
    null_allowed: bool,
) -> list[int]:
    """The rows whose value lies in any of the pieces ``(low, high, low_inclusive, high_inclusive)``."""
    if data_type.kind == Kind.FLOAT:
        column = pa.array(column, pa.float32()).to_pylist()

    def member(value: Any) -> bool:
        at = order(value, data_type)
        return any(
            (low is None or at > order(low, data_type) or (low_in and at == order(low, data_type)))
            and (high is None or at < order(high, data_type) or (high_in and at == order(high, data_type)))
            for low, high, low_in, high_in in pieces
        )

    return [row for row, value in enumerate(column) if (null_allowed if value is None else member(value))]


def domain(data_type: OrcType, pieces: Sequence[tuple[Any, Any, bool, bool]], null_allowed: bool) -> Domain:
    ranges: list[Range] = []
    for low, high, low_in, high_in in pieces:
        low_key = None if low is None else key_of(data_type, low)
        high_key = None if high is None else key_of(data_type, high)
        ranges += Domain.between(low_key, high_key, low_inclusive=low_in, high_inclusive=high_in).ranges
    return Domain.from_ranges(ranges, null_allowed=null_allowed)


#: Types of one index file for each data file.
FILE_TYPES = ("BITMAP", "BLOOM", "MINMAX")


def build(
    data_type: OrcType,
    stripes: Sequence[pa.Array],
    metadata: Mapping[str, str] | None = None,
    *,
    using: str = "BITMAP",
    row_group_rows: int = 0,
    **properties: object,
) -> bytes:
    """An index file in memory."""
    sink = io.BytesIO()
    builder = file_index_type(using).builder(
        sink,
        data_type,
        column="c",
        properties={name: str(value) for name, value in properties.items()},
        metadata=metadata,
        row_group_rows=row_group_rows,
    )
    for array in stripes:
        builder.add_stripe(array)
    summary = builder.finish()
    assert summary.length == len(sink.getvalue())
    stats = [array_stats(data_type, array) for array in stripes]
    if using == "NGRAM":
        # keys are no values
        stats = [replace(item, min_key=None, max_key=None) for item in stats]
    assert [item.stats for item in summary.stripes] == stats
    return sink.getvalue()


def open_index(data: bytes) -> IndexReader:
    """The reader of an index file of any type, in memory."""
    file = IndexFileReader(BytesSource(data, "test.hidx"))
    return file_index_type(file.footer.index_type).reader(file)


def read(data: bytes, cache_bytes: int = OWN_CACHE_BYTES) -> BitmapReader:
    return BitmapReader(IndexFileReader(BytesSource(data, "test.hidx"), Cache(cache_bytes)))


def rows(reader: BitmapReader, stripe: int, domain: Domain) -> list[int]:
    bounds = reader.lookup(stripe, domain)
    assert bounds.exact
    return list(bounds.lower)
