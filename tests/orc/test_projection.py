"""Fields within structs, by dotted path; and batches: the same rows as pyarrow gives, in pieces."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

from hindex.errors import ColumnError
from hindex.orc import OrcReader
from hindex.orc.metadata.projection import project
from hindex.orc.metadata.types import Kind, OrcType

ROWS = 4000
STRIDE = 500

LEAVES: dict[str, Any] = {
    "i": (pa.int64(), lambda r: r.choice([1, r.getrandbits(40)])),
    "d": (pa.float64(), lambda r: r.random()),
    "s": (pa.string(), lambda r: "x" * r.randrange(30)),
    "b": (pa.bool_(), lambda r: r.random() < 0.3),
    "t": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "mode": (pa.string(), lambda r: r.choice(["a", "bb", "ccc"])),
    "list": (pa.list_(pa.int32()), lambda r: [r.choice([None, 1, 2]) for _ in range(r.randrange(4))]),
    "map": (pa.map_(pa.string(), pa.int64()), lambda r: [(f"k{i}", i) for i in range(r.randrange(3))]),
    "structs": (
        pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        lambda r: [{"x": 1, "y": r.choice([None, [], ["q", None]])} for _ in range(r.randrange(3))],
    ),
}


class Maker:
    """Random values of a struct some levels deep; each level has its own habit of nulls."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self._rng = rng
        names = list(LEAVES) if not depth else rng.sample(list(LEAVES), 3)
        self.fields = [(name, *LEAVES[name]) for name in names]
        self.below = {f"in{n}": Maker(rng, depth - 1) for n in range(2 if depth else 0)}
        self.nulls = rng.choice([0.0, 0.1, 0.6])
        self.run = 0

    @property
    def type(self) -> pa.DataType:
        return pa.struct(
            [pa.field(name, data_type) for name, data_type, _ in self.fields]
            + [pa.field(name, maker.type) for name, maker in self.below.items()]
        )

    def value(self) -> dict[str, Any] | None:
        if self.run or self._rng.random() < self.nulls:
            # nulls in long runs leave row groups of children empty
            self.run = self.run - 1 if self.run else self._rng.choice([0, 0, 0, 2 * STRIDE])
            return None
        struct = {
            name: make(self._rng) if self._rng.random() < 0.8 else None for name, _, make in self.fields
        }
        return struct | {name: maker.value() for name, maker in self.below.items()}

    def paths(self, prefix: str) -> list[str]:
        result = [f"{prefix}.{name}" for name, *_ in self.fields]
        for name, maker in self.below.items():
            result += [f"{prefix}.{name}", *maker.paths(f"{prefix}.{name}")]
        return result


def field(table: pa.Table, path: str) -> pa.ChunkedArray:
    """A field within structs: null where one of them is."""
    top, *names = path.split(".")
    column = table.column(top)
    for name in names:
        column = pc.struct_field(column, name)
    return column


def has_inner_struct(table: pa.Table, path: str) -> bool:
    """Return True if a struct within a struct is on the way to a field, or in it."""

    def below(data_type: pa.DataType, structs: int) -> bool:
        structs += pa.types.is_struct(data_type)
        return structs > 1 or any(
            below(data_type.field(at).type, structs) for at in range(data_type.num_fields)
        )

    return path.count(".") > 1 or below(field(table, path).type, path.count("."))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("windows")
def test_fields_within_structs(tmp_path: Path, seed: int, windows: str) -> None:
    rng = random.Random(seed)
    makers = {"a": Maker(rng, 2), "z": Maker(rng, 1)}
    table = pa.table(
        {"flat": pa.array(range(ROWS))}
        | {name: pa.array([m.value() for _ in range(ROWS)], m.type) for name, m in makers.items()}
    )
    file = tmp_path / "t.orc"
    pa.orc.write_table(
        table,
        file,
        compression=rng.choice(["uncompressed", "zlib", "lz4", "zstd"]),
        row_index_stride=STRIDE,
        compression_block_size=65_536,
        stripe_size=rng.choice([60_000, 64 << 20]),
        batch_size=rng.choice([100, 500]),
        dictionary_key_size_threshold=rng.choice([0.0, 1.0]),
    )
    # pyarrow's writer loses some values of structs in structs with nulls, so it is what it reads that counts
    table = pa.orc.read_table(file)
    paths = [path for name, m in makers.items() for path in m.paths(name)]
    rng.shuffle(paths)
    start = rng.randrange(ROWS // 2)
    for rows in (
        sorted(rng.sample(range(ROWS), 40)),
        list(range(start, start + ROWS // 4)),
        [rng.randrange(ROWS)],
        list(range(ROWS)),
        [],
    ):
        expected = table.take(pa.array(rows, pa.int64()))
        reader = OrcReader(file)
        columns = ["flat", *rng.sample(paths, 12), "a", "a.in0"]
        result = reader.read(columns, rows)
        assert result.column_names == columns
        for i, name in enumerate(columns):
            assert result.column(i).equals(field(expected, name)), (seed, len(rows), name)
        if len(rows) not in (0, ROWS):
            # within structs in structs, row indexes of this writer do not fit
            reader = OrcReader(file)
            reader.read(["flat", *(name for name in columns if not has_inner_struct(table, name))], rows)
            if windows == "small" and min(stripe.num_rows for stripe in reader.stripes) > STRIDE:
                assert reader.counts.whole_columns == 0
        size = rng.choice([1, 7, 300, STRIDE, 5000])
        batches = list(OrcReader(file).batches(columns, rows, batch_size=size))
        assert all(0 < batch.num_rows <= size for batch in batches)
        assert pa.Table.from_batches(batches, result.schema).equals(result), (seed, len(rows), size)


def test_parents_are_read_once_and_only_where_rows_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows, stride = 40_000, 1000
    valid = rng.random(rows) < 0.5
    fields = {name: pa.array(rng.integers(0, 1 << 60, rows)) for name in "abcd"}
    struct = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array(~valid))
    file = tmp_path / "t.orc"
    pa.orc.write_table(
        pa.table({"s": struct}),
        file,
        compression="zstd",
        row_index_stride=stride,
        compression_block_size=65_536,
    )
    wanted = [2 * stride + 5, 30 * stride + 7, 30 * stride + 8]
    one, four = OrcReader(file), OrcReader(file)
    one.read(["s.a"], wanted)
    table = four.read(["s.a", "s.b", "s.c", "s.d"], wanted)
    assert table.to_pylist() == [
        {f"s.{name}": fields[name][row].as_py() if valid[row] else None for name in "abcd"} for row in wanted
    ]
    # the PRESENT stream of s has one chunk; one of 4 kB of a field's values is in each row group
    (present,) = {one.counts.chunks - 2, one.counts.chunks - 3, one.counts.chunks - 4} & {1, 2}
    assert four.counts.chunks - present <= 4 * (one.counts.chunks - present)
    assert four.counts.row_groups == 4 * 2


def struct_of(column: int, **fields: OrcType) -> OrcType:
    return OrcType(Kind.STRUCT, column, tuple(fields.values()), tuple(fields))


INT = [OrcType(Kind.INT, n) for n in range(20)]
TREE = OrcType(
    Kind.STRUCT,
    0,
    (
        struct_of(1, b=struct_of(2, c=INT[3]), **{"b.c": INT[4], "x": INT[5]}),
        INT[6],
        INT[7],
        OrcType(Kind.LIST, 8, (struct_of(9, f=INT[10]),)),
        struct_of(11, **{"p.q": struct_of(12, r=INT[13]), "": INT[14]}),
        INT[15],
    ),
    ("a", "a.x", "top", "items", "d", "top"),
)


@pytest.mark.parametrize(
    ("path", "column"),
    [
        ("top", 7),  # the first of two
        ("a", 1),
        ("a.x", 6),  # the column's own name goes before the field x of a
        ("a.b", 2),
        ("a.b.c", 4),  # and so does the field's own name
        ("d.p.q.r", 13),
        ("d.p.q", 12),
        ("d.", 14),
        ("items", 8),
    ],
)
def test_resolution_of_paths(path: str, column: int) -> None:
    projection = project(TREE, path, "t.orc")
    assert (projection.name, projection.data_type.column) == (path, column)
    assert projection.parents[0] is TREE
    node = TREE
    for parent in (*projection.parents[1:], projection.data_type):
        assert parent in node.children
        node = parent


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nope", "'nope' cannot be resolved in t.orc: its columns are a, a.x, top, items, d, top"),
        ("a.nope", "'a.nope' cannot be resolved"),
        ("A", "'A' cannot be resolved"),
        ("", "'' cannot be resolved"),
        (".", "'.' cannot be resolved"),
        ("a.b.c.d", "'a.b.c' is int, and only fields of structs can be read by themselves"),
        (
            "items.f",
            r"'items' is array<struct<f:int>>, and only fields of structs .*; read 'items' whole",
        ),
        ("items.element", "'items' is array"),
        ("top.x", "'top' is int"),
    ],
)
def test_paths_that_cannot_be_resolved(path: str, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        project(TREE, path, "t.orc")


def test_names_with_many_dots() -> None:
    # each struct has a field for each beginning of the name, so there are 2^60 ways to the last one
    depth = 60
    node = OrcType(Kind.STRUCT, depth)
    nodes = [node]
    for level in reversed(range(depth)):
        fields = {".".join("a" * (below - level)): nodes[depth - below] for below in range(level + 1, depth)}
        node = OrcType(Kind.STRUCT, level, tuple(fields.values()), tuple(fields))
        nodes.append(node)
    with pytest.raises(ColumnError, match="cannot be resolved"):
        project(node, ".".join("a" * depth), "t.orc")


def test_a_string_is_not_a_list_of_columns(tmp_path: Path) -> None:
    file = tmp_path / "t.orc"
    pa.orc.write_table(pa.table({"a": [1], "ab": [2]}), file)
    with pytest.raises(ColumnError, match=r"pass a list, \['ab'\]"):
        OrcReader(file).read("ab")


def test_fields_of_many_structs_that_are_all_null(tmp_path: Path) -> None:
    rows = (1 << 20) + 1
    table = pa.table(
        {"s": pa.nulls(rows, pa.struct([("x", pa.int64()), ("in", pa.struct([("y", pa.string())]))]))}
    )
    pa.orc.write_table(table, tmp_path / "t.orc", compression="zstd")
    reader = OrcReader(tmp_path / "t.orc")
    assert len(reader.stripes) == 1
    for name in ("s.x", "s.in", "s.in.y"):
        assert reader.read([name]).column(0).null_count == rows
