"""Read the uncompressed size of an Arrow IPC stream's buffers from its headers.

Each buffer begins with its raw length, which a reader allocates. The messages' flatbuffers have the offsets of the
buffers; only the fields that lead to these are read. Source: Arrow columnar format, "Serialization and
Interprocess Communication", and its ``Message.fbs``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

_U8: Final = struct.Struct("<B")
_I16: Final = struct.Struct("<h")
_U16: Final = struct.Struct("<H")
_I32: Final = struct.Struct("<i")
_U32: Final = struct.Struct("<I")
_RAW: Final = struct.Struct("<q")
_BUFFER: Final = struct.Struct("<qq")

# the numbers of fields of the tables
_VERSION, _HEADER_KIND, _HEADER = 0, 1, 2
_DICTIONARY_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3
_DICTIONARY, _BATCH = 2, 3
# the first metadata version with a compression field
_VERSION_5 = 4
#: The raw length of a buffer that is stored uncompressed.
_STORED = -1


def raw_bytes(data: bytes) -> int:
    """Return the uncompressed size of all record batches and dictionaries of a stream, from its headers.

    No reader allocates more for them: readers refuse a buffer that decompresses to another length.

    Raises:
        ValueError: if the data is not a stream.
    """
    try:
        return sum(_message_bytes(message) for message in pa.ipc.MessageReader.open_stream(data))
    except (pa.ArrowException, OSError, struct.error) as error:
        raise ValueError(f"it is not an Arrow stream: {error}") from error


def _message_bytes(message: pa.ipc.Message) -> int:
    metadata = memoryview(message.metadata)
    root = _Table.at(metadata, 0)
    kind = root.number(_HEADER_KIND, _U8)
    if kind not in (_DICTIONARY, _BATCH):
        return 0
    if root.number(_VERSION, _I16) < _VERSION_5:
        raise ValueError("its Arrow version is too old")
    header = root.table(_HEADER)
    batch = header.table(_DICTIONARY_DATA) if header is not None and kind == _DICTIONARY else header
    if batch is None:
        raise ValueError("it has a message without content")
    body = memoryview(message.body) if message.body is not None else memoryview(b"")
    if not batch.has(_COMPRESSION):
        return len(body)
    return sum(_buffer_bytes(body, offset, length) for offset, length in batch.pairs(_BUFFERS))


def _buffer_bytes(body: memoryview, offset: int, length: int) -> int:
    if not length:
        return 0
    if offset < 0 or length < _RAW.size or offset + length > len(body):
        raise ValueError("a buffer does not lie in its message")
    (raw,) = _RAW.unpack_from(body, offset)
    if raw == _STORED:
        return length - _RAW.size
    if raw < 0:
        raise ValueError(f"a buffer claims {raw} bytes")
    return int(raw)


class _Table:
    """A table of a flatbuffer.

    Args:
        at: the position of its first byte.
    """

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._read(_I32, at)
        self._fields_size = self._read(_U16, self._fields)

    @classmethod
    def at(cls, data: memoryview, position: int) -> _Table:
        """Return the table to which the offset at a position points."""
        return cls(data, position + _unpacked(_U32, data, position))

    def has(self, field: int) -> bool:
        return self._place(field) is not None

    def number(self, field: int, layout: struct.Struct) -> int:
        """Return a number field; 0 if it is missing."""
        position = self._place(field)
        return 0 if position is None else self._read(layout, position)

    def table(self, field: int) -> _Table | None:
        position = self._place(field)
        return None if position is None else _Table.at(self._data, position)

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the elements of a field of pairs of 64-bit numbers."""
        position = self._place(field)
        if position is None:
            return
        start = position + self._read(_U32, position)
        end = start + _U32.size + self._read(_U32, start) * _BUFFER.size
        if end > len(self._data):
            raise ValueError("a list does not lie in its message")
        yield from _BUFFER.iter_unpack(self._data[start + _U32.size : end])

    def _place(self, field: int) -> int | None:
        slot = 2 * (2 + field)
        if slot + 2 > self._fields_size:
            return None
        offset = self._read(_U16, self._fields + slot)
        return self._at + offset if offset else None

    def _read(self, layout: struct.Struct, at: int) -> int:
        return _unpacked(layout, self._data, at)


def _unpacked(layout: struct.Struct, data: memoryview, at: int) -> int:
    if at < 0:  # struct would count from the end
        raise ValueError("an offset leads out of its message")
    value: int = layout.unpack_from(data, at)[0]
    return value
