"""Encodings that no stream depends on: some writers leave any number there."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal

import pyorc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.parts import FileParts, put_together, take_apart

#: Columns with values of one encoding, and with nothing but a PRESENT stream.
PLAIN = "struct<s:struct<t:struct<d:double>>,f:float,b:boolean,y:tinyint,u:uniontype<float,tinyint>,n:int,m:string>"


def sound_file() -> FileParts:
    file = io.BytesIO()
    with pyorc.Writer(file, PLAIN, compression=pyorc.CompressionKind.NONE, row_index_stride=1000) as writer:
        for i in range(3000):
            struct = None if i % 5 == 0 else (None if i % 3 == 0 else (i / 7,),)
            union = (i % 100) if i % 2 else i / 4
            writer.write((struct, i / 8, i % 2 == 0, i % 100, union, None, None))
    return take_apart(file.getvalue())


@pytest.mark.parametrize("encoding", [4, 4_294_967_295])
def test_encodings_without_a_meaning(encoding: int) -> None:
    parts = sound_file()
    expected = OrcReader(BytesSource(put_together(parts))).read()
    streams = [
        (item.column, item.kind) for stripe in parts.stripes for item in stripe.footer.streams if item.length
    ]
    present_only = {column for column, kind in streams if kind == StreamKind.PRESENT} - {
        column for column, kind in streams if StreamKind.PRESENT < kind < StreamKind.ROW_INDEX
    }
    assert len(present_only) >= 4
    for stripe in parts.stripes:
        for column in stripe.footer.columns:
            column.kind = encoding
    with OrcReader(BytesSource(put_together(parts))) as reader:
        assert reader.read().equals(expected)
        rows = [7, 1500, 2999]
        assert reader.read(rows=rows).to_pylist() == [expected.slice(row, 1).to_pylist()[0] for row in rows]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("int", 3),
        ("string", "x"),
        ("timestamp", datetime.datetime(2020, 1, 1)),
        ("array<int>", [3]),
        ("decimal(5,2)", Decimal("1.5")),
    ],
)
def test_encodings_that_streams_depend_on(data_type: str, value: object) -> None:
    file = io.BytesIO()
    with pyorc.Writer(file, f"struct<a:{data_type}>", compression=pyorc.CompressionKind.NONE) as writer:
        writer.writerows([(value,)] * 10)
    parts = take_apart(file.getvalue())
    parts.stripes[0].footer.columns[1].kind = 7
    with pytest.raises(OrcError, match="unknown column encoding: 7"):
        OrcReader(BytesSource(put_together(parts))).read()
