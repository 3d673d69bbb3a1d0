"""Row indexes that do not fit the values: within a null struct, the C++ writer may give the values of an inner one."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource

ROWS, STRIDE = 6000, 1000


def some(rng: np.random.Generator, kind: str, nulls: str, count: int = ROWS) -> pa.Array:
    """Make a nested array; ``kind`` and ``nulls`` have a letter for each level.

    A level is a struct, list or map, at the end a number; N is for nulls, under which there are values all the same.
    """
    mask = rng.random(count) < (0.3 if nulls[0] == "N" else 0)
    if kind == "i":
        return pa.array(rng.integers(0, 1 << 40, count), mask=mask)
    if kind[0] == "s":
        fields = [some(rng, kind[1:], nulls[1:], count), pa.array(np.arange(count))]
        return pa.StructArray.from_arrays(fields, ["x", "y"], mask=pa.array(mask))
    elements = some(rng, kind[1:], nulls[1:], 2 * count)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * 2, mask=np.append(mask, False))
    if kind[0] == "l":
        return pa.ListArray.from_arrays(offsets, elements)
    return pa.MapArray.from_arrays(offsets, pa.array(np.arange(2 * count)), elements)


def written(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"s": column}), sink, row_index_stride=STRIDE, compression="zstd")
    return sink.getvalue()


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    ("kind", "nulls", "names"),
    [
        ("ssi", "-N-", ["s", "s.x", "s.x.x", "s.x.y", "s.y"]),
        ("ssi", "-NN", ["s", "s.x.x"]),
        ("sssi", "-N--", ["s", "s.x.x", "s.x.x.x"]),
        ("slsi", "--N-", ["s", "s.x"]),
        ("smsi", "-NN-", ["s", "s.x"]),
        ("lssi", "--N-", ["s"]),
        ("ssli", "-N-N", ["s", "s.x.x"]),
    ],
)
def test_rows_are_those_of_the_whole(
    rng: np.random.Generator, kind: str, nulls: str, names: list[str]
) -> None:
    column = some(rng, kind, nulls)
    data = written(column)
    theirs = pyarrow.orc.read_table(io.BytesIO(data))["s"]
    # the writer's mistake: if it is mended, this is no test of anything
    assert not theirs.combine_chunks().equals(column)
    assert OrcReader(BytesSource(data)).read(["s"])["s"].equals(theirs)
    for rows in ([ROWS - 1], np.arange(0, ROWS, 2), np.arange(2500, 2600), rng.permutation(ROWS)[:9]):
        rows = np.sort(rows)
        for name in names:
            expected = OrcReader(BytesSource(data)).read([name])
            table = OrcReader(BytesSource(data)).read([name], rows)
            assert table[0].to_pylist() == expected[0].take(rows).to_pylist(), name


@pytest.mark.parametrize(
    ("kind", "nulls", "name"),
    [
        ("si", "NN", "s"),
        ("si", "NN", "s.x"),
        ("ssi", "-N-", "s.y"),
        ("sli", "NNN", "s"),
        ("lsi", "NNN", "s"),
    ],
)
def test_well_placed_children_use_the_row_index(
    rng: np.random.Generator, kind: str, nulls: str, name: str
) -> None:
    data = written(some(rng, kind, nulls))
    row = 2 * STRIDE + 7
    reader = OrcReader(BytesSource(data))
    expected = pyarrow.orc.read_table(io.BytesIO(data))["s"][row].as_py()
    for field in name.split(".")[1:]:
        expected = expected if expected is None else expected[field]
    assert reader.read([name], [row])[0].to_pylist() == [expected]
    assert reader.counts.row_groups == 1
