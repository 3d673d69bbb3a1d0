"""Row indexes that do not fit the values: within a null struct, the C++ writer may give the values of an inner one."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust
from hindex.orc.reader.file_indexes import FileIndexes

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


@pytest.mark.parametrize("nulls", ["none", "some", "all"])
def test_statistics_below_a_struct_with_nulls_are_not_used(rng: np.random.Generator, nulls: str) -> None:
    mask = {"none": np.zeros, "all": np.ones}.get(nulls, lambda count, _: rng.random(count) < 0.3)(ROWS, bool)
    inner = pa.StructArray.from_arrays([pa.array(np.arange(ROWS))], ["x"], mask=pa.array(mask))
    reader = OrcReader(BytesSource(written(pa.StructArray.from_arrays([inner], ["x"]))))
    indexes, column = FileIndexes(reader), reader.column_type("s.x.x").column
    found = [
        indexes.file_statistics(column),
        indexes.stripe_statistics(0, column),
        indexes.group_statistics(0, column),
    ]
    if nulls == "none":
        assert [type(item) for item in found] == [ColumnStatistics, ColumnStatistics, list]
        assert reader.read(["s.x.x"])[0].to_pylist() == list(range(ROWS))
    else:
        assert found == [Distrust.MISPLACED] * 3
    # those of the structs themselves are right
    for name in ("s", "s.x"):
        own = reader.column_type(name).column
        assert isinstance(indexes.file_statistics(own), ColumnStatistics)


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_statistics_below_a_struct_of_unknown_nulls_are_not_used(kept: int) -> None:
    """Files with statistics of the first columns only, and with contradictory ones, may have nulls."""
    inner = pa.StructArray.from_arrays([pa.array(np.arange(ROWS))], ["x"])
    reader = OrcReader(BytesSource(written(pa.StructArray.from_arrays([inner], ["x"]))))
    statistics = reader.tail.footer.statistics
    own, column = reader.column_type("s.x").column, reader.column_type("s.x.x").column
    assert isinstance(FileIndexes(reader).stripe_statistics(0, column), ColumnStatistics)
    if kept == 3:
        # as many values as rows, and nulls
        statistics[own].has_null = True
    else:
        del statistics[own - 1 + kept :]
    assert FileIndexes(reader).stripe_statistics(0, column) is Distrust.MISPLACED
