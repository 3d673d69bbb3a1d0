"""Fields of structs: null where a struct above is, and of the right one of equal names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from tests.fuzz.parts import put_together, take_apart

ROWS = 6000
COLUMNS = ["row.n", "row.inner.s", "row.inner.n"]


def write(path: Path, rng: np.random.Generator, null_at: str) -> list[list[Any]]:
    """A struct in a struct, the outer or the inner one null now and then; the values of each field."""

    def some(value: Any, share: float) -> Any:
        return None if rng.random() < share else value

    rows = []
    for n in rng.integers(-(1 << 40), 1 << 40, ROWS).tolist():
        inner = some((some(f"t{n % 5000}", 0.1), some(n, 0.1)), 0.2 if null_at == "inner" else 0)
        rows.append((some((some(n, 0.1), inner), 0.2 if null_at == "outer" else 0),))
    schema = "struct<row:struct<n:bigint,inner:struct<s:string,n:bigint>>>"
    with path.open("wb") as file, pyorc.Writer(file, schema, row_index_stride=200, batch_size=200) as writer:
        writer.writerows(rows)
    inners = [None if outer is None else outer[1] for (outer,) in rows]
    return [
        [None if outer is None else outer[0] for (outer,) in rows],
        *([None if inner is None else inner[at] for inner in inners] for at in range(2)),
    ]


@pytest.mark.parametrize("null_at", ["none", "outer", "inner"])
@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.usefixtures("windows")
def test_fields(tmp_path: Path, rng: np.random.Generator, null_at: str, share: float) -> None:
    path = tmp_path / "x.orc"
    expected = write(path, rng, null_at)
    rows = np.flatnonzero(rng.random(ROWS) < share)
    with OrcReader(path) as reader:
        table, whole = reader.read(COLUMNS, rows), reader.read(COLUMNS)
        for at, values in enumerate(expected):
            assert table.column(at).to_pylist() == [values[row] for row in rows], COLUMNS[at]
            assert whole.column(at).to_pylist() == values, COLUMNS[at]


@pytest.mark.parametrize("first", ["dotted", "struct"])
@pytest.mark.usefixtures("windows")
def test_a_dotted_name_beside_a_path_of_the_same_text(tmp_path: Path, first: str) -> None:
    table = pa.table({"a.b": pa.array(range(100), pa.int64()), "a": [{"b": i * 10} for i in range(100)]})
    names = ["a.b", "a"] if first == "dotted" else ["a", "a.b"]
    pyarrow.orc.write_table(table.select(names), tmp_path / "t.orc")
    reader = OrcReader(tmp_path / "t.orc")
    for rows in (None, [5], range(50)):
        result = reader.read(["a.b", "a"], rows)
        wanted = list(range(100) if rows is None else rows)
        assert result["a.b"].to_pylist() == wanted, rows
        assert result["a"].to_pylist() == [{"b": row * 10} for row in wanted], rows


def renamed(columns: list[pa.Array], names: list[str], fields: list[str] | None = None) -> bytes:
    """A file with any names of its columns, and of the fields of the first."""
    table = pa.table(columns, names=[f"c{i}" for i in range(len(names))])
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(table, sink)
    parts = take_apart(sink.getvalue().to_pybytes())
    parts.footer.types[0].field_names[:] = names
    if fields is not None:
        parts.footer.types[1].field_names[:] = fields
    return put_together(parts)


@pytest.mark.usefixtures("windows")
def test_fields_below_one_of_two_equal_names() -> None:
    structs = pa.array([{"b": i} for i in range(100)])
    lists = pa.array([[{"b": -i}] for i in range(100)])
    reader = OrcReader(BytesSource(renamed([structs, lists], ["a", "a"])))
    for rows in (None, [5], range(50)):
        assert reader.read(["a.b"], rows)["a.b"].to_pylist() == list(range(100) if rows is None else rows)
    # equal names elsewhere do not matter
    pairs = pa.array([{"x": {"b": i}, "y": {"b": -i}} for i in range(100)])
    reader = OrcReader(BytesSource(renamed([pairs, structs], ["a", "b"], ["x", "x"])))
    assert reader.read(["a.x.b", "b.b"])["b.b"].to_pylist() == list(range(100))
    assert reader.read(["a.x.b"])["a.x.b"].to_pylist() == list(range(100))
