"""Types and shapes that few writers make: what is read, and the errors of what cannot be."""

from __future__ import annotations

import decimal
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.codec import Decompressor
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.file_tail import MAX_TYPE_DEPTH
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import MAX_VARIANTS, Kind
from hindex.proto import orc_metadata_pb2 as pb
from hindex.table.type_text import parse_type
from tests.fuzz.parts import put_together, take_apart
from tests.orc.hostile import direct_64, with_stream
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRIDE = 100

#: Rows of a file.
ROWS = 900


def write(path: Path, schema: str, rows: list[Any], **options: Any) -> Path:
    with (
        path.open("wb") as file,
        pyorc.Writer(file, schema, **{"row_index_stride": STRIDE} | options) as writer,
    ):
        writer.writerows(rows)
    return path


def deep(depth: int) -> str:
    return "struct<f:" * depth + "int" + ">" * depth


@pytest.mark.usefixtures("windows")
def test_unions_with_nulls_of_a_writer_that_misplaces_their_values(tmp_path: Path) -> None:
    """The C++ writer keeps a child's value for a null of the union, and its reader takes it for the next one's."""
    rng = random.Random(4)
    rows = [(None if rng.random() < 0.4 else rng.randrange(99),) for _ in range(ROWS)]
    file = write(tmp_path / "t.orc", "struct<u:uniontype<int>>", rows)
    with file.open("rb") as opened:
        expected = [row[0] for row in pyorc.Reader(opened)]
    # what the row index says is another story
    assert expected != [row[0] for row in rows]
    for wanted in ([150], [3, 420, 421, 899], list(range(200, 300)), list(range(0, ROWS, 2))):
        values = OrcReader(file).read(rows=wanted).column("u").to_pylist()
        assert values == [expected[row] for row in wanted], len(wanted)


@pytest.mark.usefixtures("windows")
def test_a_struct_a_hundred_deep(tmp_path: Path) -> None:
    depth = 100
    value: Any = 7
    for _ in range(depth):
        value = (value,)
    file = write(tmp_path / "t.orc", deep(depth + 1), [((value),), (None,), ((value),)] * 200)
    path = ".".join(["f"] * (depth + 1))
    reader = OrcReader(file)
    assert reader.read([path], [0, 1, 500]).column(0).to_pylist() == [7, None, 7]
    array = reader.read(rows=[300, 301]).column(0).combine_chunks()
    for _ in range(depth):
        array = array.field(0)
    assert (array.to_pylist()[0], array.type) == (7, pa.int32())


def rewritten(data: bytes, change: Any) -> bytes:
    """An uncompressed file with another footer."""
    length = data[-1]
    postscript = pb.PostScript.FromString(data[-1 - length : -1])
    body = data[: len(data) - 1 - length - postscript.footer_length]
    footer = pb.Footer.FromString(
        Decompressor(None, 0).decompress_all(memoryview(data)[len(body) : len(data) - 1 - length], 1 << 20)
    )
    change(footer)
    content = footer.SerializeToString()
    postscript.footer_length = len(content)
    tail = postscript.SerializeToString()
    return body + content + tail + bytes([len(tail)])


def small() -> tuple[pa.Table, bytes]:
    table = pa.table({"a": pa.array(range(3000)), "s": pa.array([f"{i:x}" for i in range(3000)])})
    sink = pa.BufferOutputStream()
    pa.orc.write_table(table, sink, compression="uncompressed", row_index_stride=1000)
    return table, sink.getvalue().to_pybytes()


def test_types_nested_too_deep_are_refused() -> None:
    def nest(footer: pb.Footer) -> None:
        del footer.types[:]
        for i in range(MAX_TYPE_DEPTH + 2):
            footer.types.add(kind=pb.Type.STRUCT, subtypes=[i + 1], field_names=["f"])
        footer.types.add(kind=pb.Type.INT)

    with raises(OrcError):
        OrcReader(BytesSource(rewritten(small()[1], nest)))


@pytest.mark.parametrize("depth", [10, MAX_TYPE_DEPTH - 1])
def test_types_as_deep_as_allowed_are_described(depth: int) -> None:
    def nest(footer: pb.Footer) -> None:
        del footer.types[:]
        for i in range(depth):
            footer.types.add(kind=pb.Type.STRUCT, subtypes=[i + 1], field_names=["f"])
        footer.types.add(kind=pb.Type.INT)

    reader = OrcReader(BytesSource(rewritten(small()[1], nest)))
    assert str(reader.tail.schema).count("struct") == depth
    assert reader.column_type(".".join("f" * depth)).column == depth
    assert reader.schema.names == ["f"]


@pytest.mark.parametrize("claimed", [0, 7, 1 << 60])
def test_a_footer_that_lies_about_the_number_of_rows(claimed: int) -> None:
    table, data = small()

    def lie(footer: pb.Footer) -> None:
        footer.number_of_rows = claimed

    # Spark, too, goes by the stripes
    reader = OrcReader(BytesSource(rewritten(data, lie)))
    assert reader.num_rows == 3000
    assert reader.read().equals(table)
    assert reader.read(rows=[2999]).equals(table.slice(2999))


@pytest.mark.parametrize("claimed", [3001, 5000, 1 << 31, 1 << 40])
@pytest.mark.usefixtures("windows")
def test_a_stripe_that_has_fewer_rows_than_it_says(claimed: int) -> None:
    def lie(footer: pb.Footer) -> None:
        footer.stripes[0].number_of_rows = claimed

    reader = OrcReader(BytesSource(rewritten(small()[1], lie)))
    for rows in ([claimed - 1], [0, claimed - 1], *([None] if claimed > 1 << 30 else [])):
        with raises(OrcError):
            reader.read(rows=rows)


@pytest.mark.usefixtures("windows")
def test_decimals_of_a_greater_scale_than_their_column() -> None:
    """Spark rounds them, half away from zero; pyarrow cuts them."""
    table = pa.table({"m": [decimal.Decimal(v).scaleb(-3) for v in (1255, 1254, -1255, 7, 12) * 1000]})
    sink = pa.BufferOutputStream()
    pa.orc.write_table(table, sink, compression="uncompressed", row_index_stride=1000)

    def coarser(footer: pb.Footer) -> None:
        footer.types[1].scale = 2
        footer.ClearField("writer")

    reader = OrcReader(BytesSource(rewritten(sink.getvalue().to_pybytes(), coarser)))
    expected = [decimal.Decimal(v).scaleb(-2) for v in (126, 125, -126, 1, 1) * 1000]
    for rows in (range(5000), range(1000, 3000), [2]):
        assert reader.read(rows=rows).column("m").to_pylist() == [expected[row] for row in rows]


@pytest.mark.parametrize("kind", [Kind.GEOMETRY, Kind.GEOGRAPHY])
@pytest.mark.usefixtures("windows")
def test_geometries_are_read_as_bytes(kind: Kind) -> None:
    """ORC 2.2 holds them as binary columns; Spark and pyarrow have other names for them, or none."""
    shapes = [None if i % 7 == 3 else bytes([1]) * (i % 40) for i in range(3000)]
    sink = pa.BufferOutputStream()
    pa.orc.write_table(pa.table({"id": range(3000), "g": shapes}), sink, row_index_stride=1000)

    def change(footer: pb.Footer) -> None:
        footer.types[2].kind = kind
        footer.types[2].crs = "OGC:CRS84"

    reader = OrcReader(BytesSource(rewritten(sink.getvalue().to_pybytes(), change)))
    assert str(reader.tail.schema) == str(parse_type(str(reader.tail.schema)))
    assert str(reader.column_type("g")) == kind.name.lower()
    for rows in (range(3000), range(990, 2000), [5, 2998]):
        assert reader.read(["g"], rows)["g"].to_pylist() == [shapes[row] for row in rows]
        assert reader.read(rows=rows)["id"].to_pylist() == list(rows)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("rows", [None, [0, 2500], list(range(1000, 2000))])
def test_columns_beside_an_encrypted_one(rows: list[int] | None) -> None:
    table, data = small()
    reader = OrcReader(BytesSource(rewritten(data, lambda footer: footer.encryption.variants.add(root=2))))
    expected = table if rows is None else table.take(rows)
    assert reader.read(["a"], rows).equals(expected.select(["a"]))
    for columns in (["s"], ["a", "s"], None):
        with raises(OrcError):
            reader.read(columns, rows)


@pytest.mark.usefixtures("windows")
def test_fields_of_an_encrypted_struct_cannot_be_read() -> None:
    """A key of a struct encrypts all columns below it."""
    inner = pa.StructArray.from_arrays([pa.array(range(3000)), pa.array(["x"] * 3000)], ["n", "t"])
    table = pa.table(
        {"a": pa.array(range(3000)), "s": pa.StructArray.from_arrays([inner], ["i"]), "z": range(3000)}
    )
    sink = pa.BufferOutputStream()
    pa.orc.write_table(table, sink, compression="uncompressed", row_index_stride=1000)
    data = rewritten(sink.getvalue().to_pybytes(), lambda footer: footer.encryption.variants.add(root=2))
    reader = OrcReader(BytesSource(data))
    assert reader.tail.encrypted_columns == {2, 3, 4, 5}
    assert reader.read(["a", "z"], [0, 2500]).equals(table.select(["a", "z"]).take([0, 2500]))
    for name in ("s", "s.i", "s.i.n", "s.i.t"):
        with raises(OrcError):
            reader.read(["a", name], [0, 2500])


@pytest.mark.usefixtures("windows")
def test_map_keys_that_are_null(tmp_path: Path) -> None:
    rows = [({"a": 1},)] * 500 + [({None: 2},)] + [({"b": None},)] * 500
    file = write(tmp_path / "t.orc", "struct<m:map<string,int>>", rows)
    reader = OrcReader(file)
    # only reading such a row is an error
    assert reader.read(rows=[0, 499, 501]).column("m").to_pylist() == [
        [("a", 1)],
        [("a", 1)],
        [("b", None)],
    ]
    for wanted in ([500], [0, 500], None):
        with raises(OrcError):
            reader.read(rows=wanted)


@pytest.mark.parametrize(
    ("schema", "rows"), [("int", [1, None]), ("array<int>", [[1]]), ("map<int,int>", [{1: 1}])]
)
def test_a_root_that_is_not_a_struct(tmp_path: Path, schema: str, rows: list[Any]) -> None:
    # neither does Spark read them, with or without a schema of the user's
    with raises(OrcError):
        OrcReader(write(tmp_path / "t.orc", schema, rows))


def test_an_empty_file_and_one_without_columns(tmp_path: Path) -> None:
    with raises(OrcError):
        OrcReader(BytesSource(b""))
    with OrcReader(write(tmp_path / "t.orc", "struct<a:int>", [])) as reader:
        assert (reader.num_rows, reader.read().num_rows, list(reader.batches())) == (0, 0, [])
        assert reader.read().schema == pa.schema([("a", pa.int32())])


@pytest.mark.usefixtures("windows")
def test_decimals_whose_type_tells_neither_digits_nor_scale(spark: SparkSession, tmp_path: Path) -> None:
    values = [
        decimal.Decimal("1.25"),
        None,
        decimal.Decimal("-7.12345678905"),
        decimal.Decimal("0.00000000004"),
    ]
    file = tmp_path / "t" / "1.orc"
    file.parent.mkdir()
    pa.orc.write_table(
        pa.table({"d": pa.array(values * 10, pa.decimal128(20, 11))}), file, compression="uncompressed"
    )
    parts = take_apart(file.read_bytes())
    parts.footer.types[1].ClearField("precision")
    parts.footer.types[1].ClearField("scale")
    file.write_bytes(put_together(parts))
    expected = spark.read.orc(str(file.parent)).toArrow()
    assert OrcReader(file).read().equals(expected)
    assert OrcReader(file).read(rows=[2, 3, 11]).equals(expected.take([2, 3, 11]))


@pytest.mark.parametrize("variants", [MAX_VARIANTS, MAX_VARIANTS + 1, 300])
@pytest.mark.parametrize("template", ["{}", "array<{}>", "struct<a:map<int,{}>>"])
def test_unions_of_many_types(tmp_path: Path, variants: int, template: str) -> None:
    """Type codes of Arrow are signed bytes; other columns of such a file can be read."""
    union = f"uniontype<{','.join(['int'] * variants)}>"
    wrap: Callable[[int], Any] = {"{}": lambda i: i, "array<{}>": lambda i: [i]}.get(
        template, lambda i: ({i: i},)
    )
    schema = f"struct<id:int,u:{template.format(union)}>"
    reader = OrcReader(write(tmp_path / "x.orc", schema, [(i, wrap(i)) for i in range(20)]))
    assert reader.read(["id"])["id"].to_pylist() == list(range(20))
    if variants == MAX_VARIANTS:
        assert reader.read()["u"].type == reader.schema.field("u").type
        return
    reads: list[Callable[[], object]] = [
        reader.read,
        lambda: reader.schema,
        lambda: reader.read(["u"], [3]),
        lambda: reader.read(["u"], []),
        lambda: next(reader.batches()),
        lambda: reader.read_stripe(0),
    ]
    for read in reads:
        with raises(OrcError):
            read()


def test_a_union_of_no_types(tmp_path: Path) -> None:
    schema = "struct<id:int,u:uniontype<int,int>>"
    rows = [(i, i) for i in range(20)]
    file = write(tmp_path / "x.orc", schema, rows, compression=pyorc.CompressionKind.NONE)
    parts = take_apart(file.read_bytes())
    parts.footer.types[2].ClearField("subtypes")
    del parts.footer.types[3:]
    file.write_bytes(put_together(parts))
    reader = OrcReader(file)
    reads: list[Callable[[], object]] = [reader.read, lambda: reader.schema, lambda: reader.read(["u"], [])]
    for read in reads:
        with raises(OrcError):
            read()


def test_fractions_of_seconds_before_1970() -> None:
    """Writers round such seconds towards zero, unless the fraction is below a millisecond."""
    seconds = [-2_000_000_000, -86_400, -5, -2, -1, 0, 1, 1_420_070_399, 1_420_070_400]
    nanos = [0, 999, 1_000, 999_998, 999_999, 1_000_000, 1_000_001, 999_999_999]
    pairs = list(itertools.product(seconds, nanos))
    sink = pa.BufferOutputStream()
    table = pa.table({"t": pa.array(range(len(pairs)), pa.timestamp("us"))})
    pa.orc.write_table(table, sink, compression="uncompressed")
    parts = take_apart(sink.getvalue().to_pybytes())
    stored = [second - 1_420_070_400 for second, _ in pairs]
    signed = direct_64([value << 1 ^ value >> 63 for value in stored])
    parts = with_stream(parts, "t", StreamKind.DATA, signed)
    parts = with_stream(parts, "t", StreamKind.SECONDARY, direct_64([nano << 3 for _, nano in pairs]))
    data = put_together(parts)
    expected = pa.orc.ORCFile(pa.BufferReader(data)).read()["t"].cast(pa.int64()).to_pylist()
    assert expected[:8] == [-2 * 10**18 + nano - 10**9 * (nano > 999_999) for nano in nanos]
    micros = OrcReader(BytesSource(data)).read()["t"].cast(pa.int64()).to_pylist()
    assert micros == [value // 1000 for value in expected]
