"""Structs, lists and maps, as they were written, at all rows and at some."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import EncodingKind
from tests.fuzz.parts import Hooks, put_together, take_apart

LEAVES: dict[str, Callable[[random.Random], Any]] = {
    "tinyint": lambda r: r.randrange(-128, 128),
    "int": lambda r: r.randrange(-(1 << 31), 1 << 31),
    "bigint": lambda r: r.getrandbits(60),
    "boolean": lambda r: r.random() < 0.5,
    "double": lambda r: r.random(),
    "float": lambda r: float(r.randrange(99)),
    "string": lambda r: "é" * r.randrange(3) + str(r.randrange(50)),
    "varchar(5)": lambda r: str(r.randrange(9999)),
    "binary": lambda r: r.randbytes(r.randrange(4)),
    "date": lambda r: datetime.date(1970, 1, 1) + datetime.timedelta(r.randrange(20_000)),
    "decimal(10,2)": lambda r: decimal.Decimal(r.randrange(-(10**9), 10**9)).scaleb(-2),
}

#: A type is the name of a leaf, or ``("array", item)``, ``("map", key, item)`` or ``("struct", *fields)``.
Shape = Any


def some_shape(rng: random.Random, depth: int) -> Shape:
    kind = rng.choice(["array", "struct", "map", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return rng.choice(list(LEAVES))
    if kind == "array":
        return kind, some_shape(rng, depth - 1)
    if kind == "map":
        return kind, rng.choice(["string", "int"]), some_shape(rng, depth - 1)
    return kind, *(some_shape(rng, depth - 1) for _ in range(rng.randint(1, 3)))


def schema_of(shape: Shape) -> str:
    if isinstance(shape, str):
        return shape
    kind, *children = shape
    if kind == "struct":
        return f"struct<{','.join(f'f{i}:{schema_of(child)}' for i, child in enumerate(children))}>"
    return f"{kind}<{','.join(map(schema_of, children))}>"


def some_value(rng: random.Random, shape: Shape, nulls: float) -> Any:
    """A value for pyorc, which any part of may be null."""
    if rng.random() < nulls:
        return None
    if isinstance(shape, str):
        return LEAVES[shape](rng)
    kind, *children = shape
    if kind == "struct":
        return tuple(some_value(rng, child, nulls) for child in children)
    size = rng.choice([0, 0, 1, 2, 5])
    if kind == "array":
        return [some_value(rng, children[0], nulls) for _ in range(size)]
    return {LEAVES[children[0]](rng): some_value(rng, children[1], nulls) for _ in range(size)}


def plain(shape: Shape, value: Any) -> Any:
    """The same as pyarrow gives it."""
    if value is None or isinstance(shape, str):
        return value
    kind, *children = shape
    if kind == "struct":
        return {
            f"f{i}": plain(data_type, item)
            for i, (data_type, item) in enumerate(zip(children, value, strict=True))
        }
    if kind == "array":
        return [plain(children[0], item) for item in value]
    return [(key, plain(children[1], item)) for key, item in value.items()]


def write(path: Path, schema: str, values: list[Any], **options: Any) -> Path:
    with path.open("wb") as file, pyorc.Writer(file, f"struct<c:{schema}>", **options) as writer:
        writer.writerows([(value,) for value in values])
    return path


@pytest.mark.parametrize("nulls", [0, 0.2, 0.9])
@pytest.mark.parametrize("stride", [0, 100])
@pytest.mark.usefixtures("windows")
def test_values(tmp_path: Path, rng: np.random.Generator, nulls: float, stride: int) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(4):
        shape = chance.choice(["array", "struct"]), some_shape(chance, 2)
        rows = chance.choice([1, 1024, 2500])
        values = [some_value(chance, shape, nulls) for _ in range(rows)]
        path = write(
            tmp_path / "t.orc",
            schema_of(shape),
            values,
            row_index_stride=stride,
            batch_size=100,
            dict_key_size_threshold=chance.choice([0.0, 1.0]),
            compression=chance.choice([pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZSTD]),
        )
        expected = [plain(shape, value) for value in values]
        share = chance.choice([0.1, 0.5, 0.95])
        picked = [row for row in range(rows) if chance.random() < share]
        for wanted in (None, picked, list(range(rows // 4, rows // 2))):
            reader = OrcReader(path)
            column = reader.read(rows=wanted).column("c")
            column.validate(full=True)
            chosen = expected if wanted is None else [expected[row] for row in wanted]
            assert column.to_pylist() == chosen, schema_of(shape)


def test_work(tmp_path: Path) -> None:
    """All bytes of a column are read once where all row groups are touched, and fewer where few are."""
    rows, stride = 60_000, 1000
    table = pa.table(
        {
            "device": pa.array([{"os": f"os {i * 7 % 12}", "version": i % 30} for i in range(rows)]),
            "tags": pa.array([[f"tag {j * i % 50}" for j in range(i % 4)] for i in range(rows)]),
        }
    )
    path = tmp_path / "t.orc"
    pyarrow.orc.write_table(table, path, row_index_stride=stride, compression="zstd")
    quarter, few = np.arange(0, rows, 4), np.arange(30_000, 30_005)
    for name in table.column_names:
        for wanted in (None, quarter):
            reader = OrcReader(path)
            expected = table[name] if wanted is None else table[name].take(wanted)
            opened = reader.counts.bytes_fetched
            assert reader.read([name], wanted)[name].equals(expected)
            assert (reader.counts.whole_columns, reader.counts.row_groups) == (1, 0)
            stripe = reader.stripe(0)
            stored = sum(stripe.data_length(node.column) for node in reader.column_type(name).walk())
            # a stripe's footer is read once
            assert reader.counts.bytes_fetched - opened <= stored + reader.stripes[0].footer_length
        reader = OrcReader(path)
        assert reader.read([name], few)[name].equals(table[name].take(few))
        assert (reader.counts.whole_columns, reader.counts.row_groups) == (0, 1)


def test_a_list_that_says_it_has_a_dictionary() -> None:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": [[1, 2, 3]] * 500}), sink, compression="uncompressed")
    parts = take_apart(sink.getvalue().to_pybytes())
    stripe = parts.stripes[0]
    (at,) = (i for i, stream in enumerate(stripe.footer.streams) if (stream.column, stream.kind) == (1, 2))

    def claim(name: str, message: Any) -> None:
        if name == "stripe footer":
            message.columns[1].kind = EncodingKind.DICTIONARY_V2

    data = put_together(parts, 0, 1 << 18, Hooks(message=claim))
    reader = OrcReader(BytesSource(data))
    assert reader.read().column("c").to_pylist() == [[1, 2, 3]] * 500
    # lengths beyond what is stored
    stripe.streams[at] = (b"\xc1\xff" + b"\xff\xff\x03" + b"\0") * 2
    data = put_together(parts, 0, 1 << 18, Hooks(message=claim))
    reader = OrcReader(BytesSource(data))
    with pytest.raises(OrcError, match=r"stream ends|more than one array|negative or above"):
        reader.read()
