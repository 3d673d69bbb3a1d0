"""Whether pyarrow would be given a column of a file's first stripe."""

from __future__ import annotations

from hindex.orc import OrcReader
from hindex.orc.source import BytesSource
from hindex.orc.vetting import may_decode


def is_vetted(data: bytes, name: str) -> bool:
    reader = OrcReader(BytesSource(data))
    stripe, of = reader.stripe(0), reader.column_type(name)
    stored = {
        (stream.column, stream.kind): memoryview(data)[stream.offset : stream.offset + stream.length]
        for node in of.walk()
        for stream in stripe.data_streams(node.column)
    }
    return may_decode(stored, stripe, of, stripe.information.num_rows, reader.tail.decompressor())
