"""Fingerprints: how a change of a data file is noticed."""

from __future__ import annotations

from dataclasses import dataclass

import google_crc32c


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a data file looked like when it was read.

    :param length: bytes.
    :param mtime_ns: modification time, nanoseconds since 1970 (0 where the store has none).
    :param tail_checksum: crc32c of the ORC tail, see :func:`tail_checksum`.
    """

    length: int
    mtime_ns: int
    tail_checksum: int


def tail_checksum(tail: bytes | bytearray | memoryview) -> int:
    """The crc32c of a file's ORC tail as stored: metadata, footer, postscript and the length byte."""
    return int(google_crc32c.value(bytes(tail)))
