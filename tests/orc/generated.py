"""Tables of all types that tests write and read back: nulls in runs, nested values, unions and long lists."""

from __future__ import annotations

import datetime
import decimal
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

Maker = Callable[[random.Random, int], Any]

#: Rows of a row group of these tables.
STRIDE = 100


def maybe(make: Maker, share: float = 0.2) -> Maker:
    """Make nulls, too: single ones, and in runs that leave row groups without a value."""
    return lambda r, row: None if r.random() < share or row // 130 % 7 == 3 else make(r, row)


def some(make: Maker, max_length: int = 4) -> Maker:
    return lambda r, row: [make(r, row) for _ in range(r.randrange(max_length))]


def number(r: random.Random, row: int) -> int:
    return r.choice([row, 7, r.getrandbits(62), -(1 << 63)])


def text(r: random.Random, row: int) -> str:
    return r.choice(["", f"text {row * row}", "nul\0byte", "\U0001d11e" * r.randrange(40)])


def pair(r: random.Random, row: int) -> dict[str, Any]:
    return {"a": maybe(number)(r, row), "b": maybe(text)(r, row)}


def moment(r: random.Random, row: int) -> datetime.datetime:
    """Make a time after 1970, or one of the fractions before it that pyarrow writes unlike Java."""
    early = [datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000), datetime.datetime(1960, 1, 1, 0, 0, 0, 1)]
    late = datetime.datetime(2001, 1, 1) + datetime.timedelta(0, row, r.choice([0, 500_000, 123_456]))
    return r.choice([*early, late, late, late])


INT, TEXT = pa.int64(), pa.string()
PAIR = pa.struct([("a", INT), ("b", TEXT)])

COLUMNS: dict[str, tuple[pa.DataType, Maker]] = {
    "sorted": (INT, lambda r, row: row * 3),
    "number": (INT, number),
    "number or null": (INT, maybe(number)),
    "nothing": (INT, lambda r, row: None),
    "small": (pa.int16(), lambda r, row: r.choice([7, 7, 7, r.randrange(-(1 << 15), 1 << 15)])),
    "int": (pa.int32(), maybe(lambda r, row: r.choice([0, r.randrange(100), -(1 << 31), (1 << 31) - 1]))),
    "byte": (pa.int8(), maybe(lambda r, row: r.choice([5, row % 128, -128]))),
    "flag": (pa.bool_(), lambda r, row: r.random() < 0.3),
    "flag or null": (pa.bool_(), maybe(lambda r, row: r.random() < 0.3)),
    "float": (pa.float32(), lambda r, row: r.choice([0.0, -0.0, float("inf"), r.randrange(1 << 20) / 8])),
    "double": (pa.float64(), maybe(lambda r, row: r.choice([0.0, -0.0, 5e-324, r.random()]))),
    "text": (TEXT, text),
    "text or null": (TEXT, maybe(text)),
    "mode": (TEXT, maybe(lambda r, row: f"mode {r.randrange(9)}")),
    "blob": (pa.binary(), maybe(lambda r, row: r.randbytes(r.randrange(20)))),
    "day": (pa.date32(), maybe(lambda r, row: datetime.date(1583, 1, 1) + datetime.timedelta(r.randrange(200_000)))),
    "money": (pa.decimal128(12, 2), maybe(lambda r, row: decimal.Decimal(r.randrange(-(10**11), 10**11)).scaleb(-2))),
    "huge": (pa.decimal128(38, 0), lambda r, row: decimal.Decimal(r.choice([row, -r.getrandbits(120)]))),
    "moment": (pa.timestamp("us"), maybe(moment)),
    "list": (pa.list_(INT), maybe(some(maybe(number)))),
    "texts": (pa.list_(TEXT), some(maybe(text))),
    "lists": (pa.list_(pa.list_(TEXT)), maybe(some(maybe(some(maybe(text)))))),
    "map": (
        pa.map_(TEXT, pa.list_(INT)),
        maybe(lambda r, row: [(f"k{i}", maybe(some(maybe(number)))(r, row)) for i in range(r.randrange(3))]),
    ),
    "pair": (PAIR, maybe(pair)),
    "pairs": (pa.list_(PAIR), maybe(some(maybe(pair)))),
    "pair of lists": (
        pa.struct([("n", pa.list_(INT)), ("m", pa.map_(INT, TEXT))]),
        maybe(
            lambda r, row: {
                "n": maybe(some(maybe(number)))(r, row),
                "m": maybe(lambda r, row: [(i, text(r, row)) for i in range(r.randrange(3))])(r, row),
            }
        ),
    ),
}  # fmt: skip


def array(name: str, rows: int, rng: random.Random) -> pa.Array:
    data_type, make = COLUMNS[name]
    return pa.array([make(rng, row) for row in range(rows)], data_type)


def mixed_table(rows: int, seed: int) -> pa.Table:
    """Columns of all types."""
    rng = random.Random(seed)
    return pa.table({name: array(name, rows, rng) for name in COLUMNS})


def union_table(rows: int, seed: int) -> pa.Table:
    """Unions, and lists of them; their children have nulls, and row groups without a value."""
    rng = np.random.default_rng(seed)
    tags = rng.choice(np.array([0, 1, 2], np.int8), rows, p=[0.6, 0.3, 0.1])
    tags[STRIDE : 4 * STRIDE] = 1
    chance = random.Random(seed)
    offsets = np.zeros(rows, np.int32)
    children = []
    for tag, name in enumerate(("number or null", "text or null", "list")):
        count = int((tags == tag).sum())
        children.append(array(name, count, chance))
        offsets[tags == tag] = np.arange(count)
    unions = pa.UnionArray.from_dense(pa.array(tags), pa.array(offsets), children)
    bounds = np.minimum(np.arange(rows + 1, dtype=np.int32) * 2, rows).astype(np.int32)
    return pa.table({"union": unions, "unions": pa.ListArray.from_arrays(bounds, unions)})


def random_shape(rng: random.Random, depth: int, kind: str = "") -> tuple[pa.DataType, Maker]:
    """Make a type of at most so many levels, and a maker of its values; each level has its own share of nulls."""
    kind = kind or (rng.choice(["list", "map", "struct", "flat"]) if depth else "flat")
    data_type, make = COLUMNS[
        rng.choice([name for name in COLUMNS if not pa.types.is_nested(COLUMNS[name][0])])
    ]
    if kind in ("list", "map"):
        item_type, item = random_shape(rng, depth - 1)
        data_type, make = pa.list_(item_type), some(item, 3)
        if kind == "map":
            data_type = pa.map_(TEXT, item_type)
            make = lambda r, row: [(f"k{i}", item(r, row)) for i in range(r.randrange(3))]  # noqa: E731
    elif kind == "struct":
        fields = {f"f{i}": random_shape(rng, depth - 1) for i in range(rng.randint(1, 3))}
        data_type = pa.struct([(name, field_type) for name, (field_type, _) in fields.items()])
        make = lambda r, row: {name: field(r, row) for name, (_, field) in fields.items()}  # noqa: E731
    return data_type, rng.choice([make, maybe(make, 0.1), maybe(make, 0.6)])


def nested_table(rows: int, seed: int) -> pa.Table:
    """Random types within structs, lists and maps."""
    rng = random.Random(seed)
    columns = dict[str, pa.Array]()
    for kind in ("struct", "struct", "list", "map"):
        data_type, make = random_shape(rng, 3, kind)
        columns[f"{kind} {len(columns)}"] = pa.array([make(rng, row) for row in range(rows)], data_type)
    return pa.table(columns)


#: What only pyorc writes: CHAR, VARCHAR and instants; and the types that it encodes unlike pyarrow.
PYORC_SCHEMA = (
    "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,x:string,c:char(8),v:varchar(9),"
    "n:binary,m:decimal(10,3),h:decimal(30,5),y:date,z:timestamp,u:timestamp with local time zone>"
)


def pyorc_row(rng: random.Random, nulls: float) -> tuple[Any, ...]:
    """Make a row of ``PYORC_SCHEMA``; a share of its values is null."""
    when = datetime.datetime(1971, 1, 1) + datetime.timedelta(
        seconds=rng.randrange(10**9), microseconds=rng.choice([0, 1000, 123_456])
    )
    row = (
        rng.random() < 0.1,
        rng.randrange(-128, 128),
        rng.randrange(-(2**15), 2**15),
        rng.choice([5, rng.randrange(2**31)]),
        rng.choice([rng.randrange(50), rng.getrandbits(62), -(2**63)]),
        float(np.float32(rng.random())),
        rng.random(),
        f"name {rng.randrange(30)}",
        f"c{rng.randrange(1000):<7}",
        f"v{rng.randrange(10**6)}",
        rng.randbytes(4),
        decimal.Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-3),
        decimal.Decimal(rng.randrange(-(10**28), 10**28)).scaleb(-5, decimal.Context(prec=60)),
        datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-60_000, 60_000)),
        when,
        when.replace(tzinfo=datetime.UTC),
    )
    return tuple(None if rng.random() < nulls else value for value in row)


def long_list_table(rows: int, length: int, seed: int) -> pa.Table:
    """Lists of about ``length`` elements; random numbers of 63 bits take eight bytes each.

    How many elements a row group has is not known without decoding all lengths: just up to the last selected one.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(length // 2, length * 3 // 2, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count = int(offsets[-1])
    numbers = rng.integers(-(1 << 62), 1 << 62, count)
    small = rng.integers(0, 200, count)
    items = {
        "numbers": pa.array(numbers),
        "nulls": pa.array(numbers, mask=rng.random(count) < 0.1),
        "doubles": pa.array(rng.random(count)),
        "texts": pa.array(numbers).cast(pa.string()),
        "modes": pa.array(small).cast(pa.string()),
        "moments": pa.array(rng.integers(0, 1 << 50, count), pa.timestamp("us")),
        "money": pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 10)),
        "flags": pa.array(small < 70),
        "structs": pa.StructArray.from_arrays([pa.array(numbers), pa.array(small)], ["a", "b"]),
    }
    # the rows of the first half have two lists each, the others none
    outer = np.minimum(np.arange(rows + 1) * 2, rows).astype(np.int32)
    columns = {name: pa.ListArray.from_arrays(offsets, item) for name, item in items.items()}
    columns["lists"] = pa.ListArray.from_arrays(outer, columns["numbers"])
    columns["map"] = pa.MapArray.from_arrays(offsets, pa.array(numbers), pa.array(numbers[::-1]))
    columns["struct"] = pa.StructArray.from_arrays([columns["numbers"]], ["inner"])
    return pa.table(columns)


def orc_bytes(table: pa.Table, codec: str = "none", **options: Any) -> bytes:
    """Write a file with pyarrow."""
    file = io.BytesIO()
    codec = "uncompressed" if codec == "none" else codec
    pyarrow.orc.write_table(table, file, compression=codec, **options)
    return file.getvalue()
