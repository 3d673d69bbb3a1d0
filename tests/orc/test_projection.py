"""Fields within structs, by dotted path: how paths are resolved, and what is read for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import ColumnError
from hindex.orc import OrcReader
from hindex.orc.metadata.projection import project
from hindex.orc.metadata.types import Kind, OrcType
from tests.support.messages import raises


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
    with raises(ColumnError):
        project(node, ".".join("a" * depth), "t.orc")


def test_a_string_is_not_a_list_of_columns(tmp_path: Path) -> None:
    file = tmp_path / "t.orc"
    pa.orc.write_table(pa.table({"a": [1], "ab": [2]}), file)
    with raises(ColumnError):
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
