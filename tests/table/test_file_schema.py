"""Values of a file's types in the types of the table, and values of partitions in declared types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hindex.keys import float_key
from hindex.orc.metadata.types import Kind, OrcType
from hindex.table.file_schema import bind_paths, convert_array
from hindex.table.partition_types import typed_value


def char(length: int) -> OrcType:
    return OrcType(Kind.CHAR, max_length=length)


def test_a_part_of_a_list_column_is_converted() -> None:
    lists = [[1], [2, 3], None, [], [4]]
    ints, longs = (OrcType(Kind.LIST, children=(OrcType(kind),)) for kind in (Kind.INT, Kind.LONG))
    part = pa.array(lists, ints.to_arrow()).slice(1, 3)
    converted = convert_array(part, ints, longs)
    assert converted.type == longs.to_arrow()
    assert converted.to_pylist() == lists[1:4]


def test_a_char_of_another_length_is_padded_to_the_table_s() -> None:
    stored = pa.array(["ab   ", "abc  ", None], char(5).to_arrow())
    assert convert_array(stored, char(5), char(3)).to_pylist() == ["ab ", "abc", None]
    assert convert_array(stored, char(5), char(6)).to_pylist() == ["ab    ", "abc   ", None]


def test_fields_that_differ_in_letter_case_only_are_matched_exactly() -> None:
    long, text = OrcType(Kind.LONG), OrcType(Kind.STRING)
    struct = OrcType(Kind.STRUCT, children=(long, text, long), field_names=("ab", "AB", "Z"))
    root = OrcType(Kind.STRUCT, children=(struct,), field_names=("s",))
    paths = bind_paths(("s",), root, ["s.ab", "s.AB", "s.aB", "s.z"])
    # aB may be either of two
    assert {name: (path.path, path.type) for name, path in paths.items()} == {
        "s.ab": ("s.ab", long),
        "s.AB": ("s.AB", text),
        "s.z": ("s.Z", long),
    }


def test_a_partition_of_a_declared_char_is_padded() -> None:
    assert typed_value("ab", "ab", char(4)) == ("ab  ", b"ab  ")


def test_a_partition_of_a_declared_float_is_rounded_to_one() -> None:
    rounded = float(np.float32(0.1))
    assert rounded != 0.1
    assert typed_value("0.1", "0.1", OrcType(Kind.FLOAT)) == (rounded, float_key(rounded))
