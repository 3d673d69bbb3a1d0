"""Schemas: merging files' columns, resolving names, and types as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.errors import ColumnError, TableError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.table.schema import TableColumn, TableSchema, bind_columns, common_type, merge_schemas
from hindex.table.type_text import MAX_DEPTH, parse_type, type_text
from tests.support.messages import raises


def columns(text: str) -> tuple[tuple[str, OrcType], ...]:
    root = parse_type(f"struct<{text}>")
    return tuple(zip(root.field_names, root.children, strict=True))


def merged(*files: str, partitions: str = "") -> TableSchema:
    parts = [TableColumn(name, of) for name, of in columns(partitions)]
    return merge_schemas([(f"f{at}.orc", columns(text)) for at, text in enumerate(files)], parts)


def shown(schema: TableSchema) -> str:
    return ",".join(f"{column.name}:{column.type}" for column in schema.columns)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("tinyint", "smallint", "smallint"),
        ("tinyint", "bigint", "bigint"),
        ("smallint", "int", "int"),
        ("int", "int", "int"),
        ("float", "double", "double"),
        ("char(3)", "char(3)", "char(3)"),
        ("char(3)", "char(4)", "string"),
        ("char(3)", "varchar(3)", "string"),
        ("varchar(9)", "string", "string"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(38,18)", None),
        ("decimal(38,18)", "decimal(38,18)", "decimal(38,18)"),
        ("int", "float", None),
        ("int", "decimal(10,0)", None),
        ("int", "string", None),
        ("string", "binary", None),
        ("boolean", "tinyint", None),
        ("date", "timestamp", None),
        ("timestamp", "timestamp with local time zone", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "array<string>", None),
        ("map<string,int>", "map<string,int>", "map<string,int>"),
        ("map<string,int>", "map<varchar(3),bigint>", "map<string,bigint>"),
        ("struct<a:int>", "struct<a:int,b:int>", "struct<a:int,b:int>"),
        ("struct<a:int,c:int>", "struct<b:int,A:bigint>", "struct<a:bigint,c:int,b:int>"),
        ("struct<a:int>", "struct<a:date>", None),
        ("uniontype<int,string>", "uniontype<int,string>", "uniontype<int,string>"),
        ("uniontype<int,string>", "uniontype<string,int>", None),
        ("struct<a:int>", "array<int>", None),
    ],
)
def test_common_type(a: str, b: str, expected: str | None) -> None:
    data_type = common_type(parse_type(a), parse_type(b))
    assert (None if data_type is None else str(data_type)) == expected
    back = common_type(parse_type(b), parse_type(a))
    if "struct" not in a:
        assert (None if back is None else str(back)) == expected


@pytest.mark.parametrize(
    ("files", "partitions", "expected"),
    [
        (["a:int,b:string"], "", "a:int,b:string"),
        # added, dropped and reordered columns
        (["a:int,b:string", "c:date,a:int"], "", "a:int,b:string,c:date"),
        (["b:string,a:int", "a:bigint,b:string"], "", "b:string,a:bigint"),
        (["a:tinyint", "a:bigint", "a:int"], "", "a:bigint"),
        # renamed by case
        (["A:int", "a:bigint"], "", "A:bigint"),
        (["a:int,A:string"], "", "a:int,A:string"),
        (["A:int", "a:int,A:string", "x:int"], "", None),
        (["A:int", "a:date,A:int", "a:date"], "", "A:int,a:date"),
        # a partition column takes the place of a data column, whatever its type and case
        (["p:date,a:int"], "P:int,q:string", "P:int,a:int,q:string"),
        (["a:int", "p:string", "p:date"], "p:int", "a:int,p:int"),
        ([], "p:int", "p:int"),
        ([""], "", ""),
    ],
)
def test_merge(files: list[str], partitions: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(TableError):
            merged(*files, partitions=partitions)
        return
    schema = merged(*files, partitions=partitions)
    assert shown(schema) == expected
    names = {name for name, _ in columns(partitions)}
    assert {item.name for item in schema.partition_columns} == names
    assert [item.name for item in schema.data_columns] == [item for item in schema.names if item not in names]
    assert all(schema.is_partition(name) for name in names)


def test_a_conflict_names_column_types_and_files() -> None:
    with pytest.raises(TableError) as caught:
        merged("a:int,k:int", "k:int,a:string", "k:date")
    message = str(caught.value)
    for part in ("column 'a'", "int in file 'f0.orc'", "string in file 'f1.orc'"):
        assert part in message
    assert "\n" not in message


def test_files_that_share_a_schema_are_merged_once() -> None:
    shared = columns("a:int")
    assert shown(merge_schemas((f"{at}.orc", shared) for at in range(100_000))) == "a:int"


@pytest.mark.parametrize(
    ("names", "file_names", "expected"),
    [
        ("a b", "b a", (1, 0)),
        ("a b", "B A", (1, 0)),
        ("a b", "a", (0, None)),
        ("a A", "A", (None, 0)),
        ("A", "a A", (1,)),
        ("a A", "A a", (1, 0)),
        ("a", "a a", (0,)),
        ("", "a", ()),
    ],
)
def test_bind_columns(names: str, file_names: str, expected: tuple[int | None, ...]) -> None:
    assert bind_columns(names.split(), file_names.split()) == expected


@pytest.mark.parametrize(
    ("name", "path", "type_name"),
    [
        ("a", "a", "int"),
        ("A", "a", "int"),
        ("B", "B", "date"),
        ("b", "b", "int"),
        ("p", "P", "int"),
        ("s.x", "s.x", "int"),
        ("S.Y.Z", "s.y.z", "string"),
        ("d.t", "d.t", "double"),
        (("d.t",), "d.t", "double"),
        (("s", "x"), "s.x", "int"),
        (("A",), "a", "int"),
    ],
)
def test_resolve(name: str | tuple[str, ...], path: str, type_name: str) -> None:
    schema = merged("a:int,b:int,B:date,`d.t`:double,s:struct<x:int,y:struct<z:string>>", partitions="P:int")
    result = schema.resolve(name)
    assert (result.name, str(result.type), result.is_partition) == (path, type_name, path == "P")
    assert result.is_nested == path.startswith("s.")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("shipmod", ["Column 'shipmod' cannot be resolved", "did you mean shipMode?", "shipMode, s, m"]),
        ("ZZZ", ["Column 'ZZZ' cannot be resolved", "the columns are: shipMode"]),
        ("c", ["Column 'c' cannot be resolved"]),
        ("s.q", ["Column 's.q' cannot be resolved", "the fields are: x"]),
        ("shipMode.x", ["a value of type string has no fields"]),
        ("", ["Column '' cannot be resolved"]),
    ],
)
def test_names_that_do_not_resolve(name: str, parts: list[str]) -> None:
    with pytest.raises(ColumnError) as caught:
        merged("shipMode:string,s:struct<x:int>,m:int").resolve(name)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shown_as_in_a_statement() -> None:
    schema = merged("id:bigint,`a b`:struct<c:int>", partitions="day:date")
    assert repr(schema) == "TableSchema(id bigint, `a b` struct<c:int> PARTITIONED BY (day date))"
    assert repr(TableSchema(())) == "TableSchema()"


@pytest.mark.parametrize("name", [5, None, (), ("a", 1), b"a"])
def test_what_is_no_name(name: Any) -> None:
    with raises(ColumnError):
        merged("a:int").resolve(name)


def test_an_ambiguous_name() -> None:
    schema = merged("abc:int,ABC:int")
    assert schema.resolve("ABC").name == "ABC"
    with raises(ColumnError):
        schema.resolve("Abc")


def test_a_name_that_is_a_path_as_well() -> None:
    schema = merged("`a.b`:int,a:struct<b:string>")
    assert schema.resolve(("a.b",)).type.kind == Kind.INT
    assert schema.resolve(("a", "b")).type.kind == Kind.STRING
    with raises(ColumnError):
        schema.resolve("a.b")
    # an index has the column that there was first
    assert schema.resolve("a.b", is_stored=True).type.kind == Kind.INT


def test_a_table_without_columns() -> None:
    with raises(ColumnError):
        TableSchema(()).resolve("a")


PRIMITIVES = st.sampled_from(
    [OrcType(kind) for kind in Kind if kind not in (Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION)]
).map(
    lambda of: {
        Kind.DECIMAL: OrcType(Kind.DECIMAL, precision=20, scale=3),
        Kind.CHAR: OrcType(Kind.CHAR, max_length=7),
        Kind.VARCHAR: OrcType(Kind.VARCHAR, max_length=65535),
    }.get(of.kind, of)
)


def composite(inner: st.SearchStrategy[OrcType]) -> st.SearchStrategy[OrcType]:
    fields = st.lists(
        st.tuples(st.text(min_size=0, max_size=6) | st.sampled_from("ab`<:,>"), inner), max_size=4
    )
    return st.one_of(
        inner.map(lambda of: OrcType(Kind.LIST, children=(of,))),
        st.tuples(inner, inner).map(lambda pair: OrcType(Kind.MAP, children=pair)),
        st.lists(inner, min_size=0, max_size=3).map(lambda of: OrcType(Kind.UNION, children=tuple(of))),
        fields.map(
            lambda pairs: OrcType(
                Kind.STRUCT,
                children=tuple(of for _, of in pairs),
                field_names=tuple(name for name, _ in pairs),
            )
        ),
    )


@given(st.recursive(PRIMITIVES, composite, max_leaves=12))
def test_type_text_round_trip(data_type: OrcType) -> None:
    text = type_text(data_type)
    back = parse_type(text)
    assert back.same_as(data_type)
    assert type_text(back) == text
    assert [node.field_names for node in back.walk()] == [node.field_names for node in data_type.walk()]
    assert [node.column for node in back.walk()] == list(range(len(list(data_type.walk()))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer",
        "int ",
        " int",
        "struct",
        "struct<",
        "struct<a>",
        "struct<a:int",
        "struct<a:int,>",
        "struct<`a:int>",
        "array<>",
        "map<int>",
        "decimal",
        "decimal(10)",
        "decimal(a,b)",
        "char",
        "char()",
        "int>",
        "array<" * 10_000,
    ],
)
def test_text_that_is_no_type(text: str) -> None:
    with raises(ValueError):
        parse_type(text)


@pytest.mark.parametrize(("opening", "closing"), [("struct<a:", ">"), ("array<", ">"), ("map<int,", ">")])
def test_types_are_parsed_up_to_a_depth(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return opening * depth + "int" + closing * depth

    assert str(parse_type(nested(100))) == nested(100)
    innermost = list(parse_type(nested(MAX_DEPTH)).walk())[-1]
    assert innermost.kind is Kind.INT
    with raises(ValueError):
        parse_type(nested(MAX_DEPTH + 1))
    # as deep as Python does not call
    with raises(ValueError):
        parse_type(opening * 100_000)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a:int,b:int", "_col0:bigint,_col1:int"], "a:bigint,b:int"),
        (["_col0:int,_col1:int", "_col1:int,_col2:bigint"], "_col0:int,_col1:bigint"),
        (["_col1:int", "a:int"], "a:int"),
        (["_col0:int,_col1:bigint,_col2:int", "a:int,b:int"], "a:int,b:bigint,_col2:int"),
        (["a:int", "_col0:int,_col1:date"], "a:int,_col1:date"),
        (["_column_a:int,_column_b:int", "_column_b:bigint,_column_a:int"], "_column_a:int,_column_b:bigint"),
    ],
)
def test_files_without_names_are_merged_by_position(files: list[str], expected: str) -> None:
    assert shown(merged(*files)) == expected


@pytest.mark.parametrize(
    ("files", "partitions"),
    [(["_col1:int", "_col0:int,_col1:int"], ""), (["_col0:int,_col1:int"], "_col1:int")],
)
def test_placeholders_of_other_columns(files: list[str], partitions: str) -> None:
    with raises(TableError):
        merged(*files, partitions=partitions)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("struct<`a:int,b`:int>", "struct<a:int,b:int>", False),
        ("array<struct<`a:int,b`:int>>", "array<struct<a:int,b:int>>", False),
        ("struct<x:struct<`p:int>,y`:int>>", "struct<x:struct<p:int>,y:int>", False),
        ("struct<x:int,y:struct<p:int>>", "struct<x:int,y:struct<p:int>>", True),
        ("struct<x:int>", "struct<x:int,y:int>", False),
        ("char(3)", "char(4)", False),
        ("decimal(9,2)", "decimal(9,2)", True),
        ("uniontype<int>", "uniontype<int,int>", False),
    ],
)
def test_types_are_compared_by_structure(a: str, b: str, *, expected: bool) -> None:
    # columns differ between files
    assert parse_type(a).same_as(parse_type(f"struct<x:int,y:{b}>").children[1]) is expected
    assert (common_type(parse_type(a), parse_type(b)) is not None) or not expected
