"""A small sound file of many types, and what makes hostile ones of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message

from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.parts import FileParts, Hooks
from tests.support.rle_v2 import pack, varint

ROWS, STRIDE = 900, 100
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)

#: Beyond what the same file takes as it was written.
MOST_BYTES = 96 << 20

TABLE = pa.table(
    {
        "number": pa.array([None if i % 9 == 8 else i * i for i in range(ROWS)], pa.int64()),
        "tiny": pa.array([i % 128 for i in range(ROWS)], pa.int8()),
        "flag": pa.array([i % 7 < 3 for i in range(ROWS)]),
        "double": pa.array([i / 7 for i in range(ROWS)]),
        "text": pa.array([f"text {i * i}" for i in range(ROWS)]),
        "mode": pa.array([f"mode {i % 5}" for i in range(ROWS)]),
        "money": pa.array(range(ROWS), pa.decimal128(9, 0)),
        "huge": pa.array(range(ROWS), pa.decimal128(38, 0)),
        "moment": pa.array(range(ROWS), pa.timestamp("us")),
        "list": pa.array([[i, None] if i % 3 else [] for i in range(ROWS)], pa.list_(pa.int32())),
        "pair": pa.array([{"a": i, "b": str(i)} for i in range(ROWS)]),
        "texts": pa.array([[str(i)] for i in range(ROWS)]),
        "map": pa.array([[(i, str(i))] for i in range(ROWS)], pa.map_(pa.int32(), pa.string())),
    }
)


def column_of(parts: FileParts, name: str) -> int:
    top, *below = name.split("/")
    data_type = parts.schema.children[parts.schema.field_names.index(top)]
    for child in below:
        data_type = data_type.children[int(child)]
    return data_type.column


def with_stream(parts: FileParts, name: str, kind: StreamKind, content: bytes) -> FileParts:
    """The file with other content of one stream of a column."""
    damaged = parts.copy()
    stripe = damaged.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    stripe.streams[places.index((column_of(parts, name), kind))] = content
    return damaged


def with_message(name: str, change: Callable[[Any], None]) -> Hooks:
    def apply(part: str, message: Message) -> None:
        if part == name:
            change(message)

    return Hooks(message=apply)


def repeated(value: int, count: int) -> bytes:
    """Runs of the second encoding of one unsigned value."""
    run = bytes([0xC0 | 511 >> 8, 511 & 255]) + varint(value) + b"\0"
    return run * -(-count // 512)


def direct_64(values: list[int]) -> bytes:
    """Direct runs of 64 bits."""
    return b"".join(
        bytes([0x7E | len(part) - 1 >> 8, len(part) - 1 & 255]) + pack([v % 2**64 for v in part], 64)
        for part in (values[at : at + 512] for at in range(0, len(values), 512))
    )


def bounded(act: Callable[[], object], most: int = MOST_BYTES) -> None:
    """Run something that touches no more memory than the read of a small file may."""
    # the peak is that of now
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    try:
        act()
    finally:
        peak = _peak_bytes()
        assert peak - before < most, (peak, before)


def _peak_bytes() -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) << 10
