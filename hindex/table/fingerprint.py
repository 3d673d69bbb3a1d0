"""Fingerprints: how a change of a data file is noticed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The state of a data file when it was read.

    :param length: bytes.
    :param mtime_ns: modification time, nanoseconds since 1970 (0 where the store has none).
    :param tail_checksum: crc32c of the ORC tail, metadata, footer and postscript as stored.
    """

    length: int
    mtime_ns: int
    tail_checksum: int
