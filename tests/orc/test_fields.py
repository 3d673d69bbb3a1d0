"""Fields of structs: of the right one of equal names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from tests.fuzz.parts import put_together, take_apart


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
