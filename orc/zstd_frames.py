"""Frames of zstd: what their heads tell, the beginning of one decompressed, and many decompressed by one call.

Source: RFC 8878, 3.1.1.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

Bytes = npt.NDArray[np.uint8]

#: A frame begins with these bytes, and a descriptor; the header of each of its blocks has three, and a checksum four.
_MAGIC = b"\x28\xb5\x2f\xfd"
_DESCRIPTOR = 4
_HAS_CHECKSUM = 4
_HAS_DICTIONARY = 3
_BLOCK_HEADER = 3
_CHECKSUM = 4
_REPEATED = 1
_COMPRESSED = 2

#: No block has more content.
_BLOCK_SIZE = 1 << 17

#: Where the head of a block's literals has their number, as shift and bits by its format: plain or all the same ones,
#: and compressed ones.
_LITERALS = (((3, 5), (4, 12), (3, 5), (4, 20)), ((4, 10), (4, 10), (4, 14), (4, 18)))

#: The descriptor of a frame that tells the length of its content by four bytes and has neither checksum nor dictionary.
_OF_KNOWN_SIZE = b"\xa0"

_local = threading.local()


def into(body: memoryview, out: Bytes) -> int:
    """Fill ``out`` with the beginning of a frame's content; the bytes written.

    :raises ValueError: see :func:`_blocks`.
    :raises zstandard.ZstdError: if it is corrupt.
    """
    _blocks(body)
    # a decompressor may not be shared between threads
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    reader = decompressor.stream_reader(body, read_across_frames=False)
    view, done = out.data, 0
    while done < len(view):
        count = reader.readinto(view[done:])
        if not count:
            break
        done += count
    return done


def size(body: memoryview) -> int | None:
    """The length of a frame's content, where its head tells.

    :raises zstandard.ZstdError: if it is no frame.
    """
    told = zstandard.get_frame_parameters(body).content_size
    return None if told == zstandard.CONTENTSIZE_UNKNOWN else int(told)


def fills(body: memoryview) -> bool:
    """Whether a frame has content, by the size that its head tells, otherwise by the first block.

    Source: RFC 8878, 3.1.1.2 and 3.1.1.3.1.

    :returns: False also for one that decompressors leave out.
    """
    if body[:4] != _MAGIC:
        return False
    told = size(body)
    if told is not None:
        return told > 0
    at = zstandard.frame_header_size(body)
    header = int.from_bytes(body[at : at + _BLOCK_HEADER], "little")
    if header >> 1 & 3 != _COMPRESSED:
        return header >> 3 > 0
    # without literals there is nothing that a match could repeat
    literals = int.from_bytes(body[at + _BLOCK_HEADER :][:3], "little")
    shift, bits = _LITERALS[literals & 3 >= _COMPRESSED][literals >> 2 & 3]
    return literals >> shift & (1 << bits) - 1 > 0


def head(body: memoryview, content: int, wanted: int) -> tuple[list[bytes | memoryview], int]:
    """A frame of the first blocks of another one, as many as have the bytes that are wanted.

    :param content: the length of its content, by its head.
    :returns: the frame in pieces, and the length of its content. It is the same frame where it does not tell how much
        its blocks have.
    :raises ValueError: see :func:`_blocks`; and if it is cut off, as it then would go on in the frame behind it.
    :raises zstandard.ZstdError: if it is no frame.
    """
    places, end = _blocks(body)
    if end > len(body):
        raise ValueError(f"{end - len(body)} bytes of the frame are missing")
    needed = -(-wanted // _BLOCK_SIZE)
    # all but the last one must then be full, and if they are not, the new frame's head is wrong
    if not 0 < needed < len(places) - 1 == -(-content // _BLOCK_SIZE) or body[_DESCRIPTOR] & _HAS_DICTIONARY:
        return [body], content
    last, length = places[needed - 1], needed * _BLOCK_SIZE
    is_last = bytes([body[last] | 1])
    return [_head_of(length), body[places[0] : last], is_last, body[last + 1 : places[needed]]], length


def plain(content: memoryview) -> Iterable[bytes | memoryview]:
    """A frame of bytes that are not compressed, in pieces."""
    yield _head_of(len(content))
    for at in range(0, max(len(content), 1), _BLOCK_SIZE):
        block = content[at : at + _BLOCK_SIZE]
        is_last = at + _BLOCK_SIZE >= len(content)
        yield (len(block) << 3 | is_last).to_bytes(_BLOCK_HEADER, "little")
        yield block


def joined(pieces: Sequence[bytes | memoryview], length: int) -> Bytes:
    """What frames that follow each other hold, decompressed by one call.

    Threads that decompress stand in the way of each other between the calls only, for the interpreter's lock.

    :param pieces: the bytes of the frames.
    :param length: of their content, all in all.
    :returns: uint8[length].
    :raises OSError: if one is corrupt, or they have more or less content.
    """
    codec = getattr(_local, "codec", None)
    if codec is None:
        codec = _local.codec = pa.Codec("zstd")
    return np.frombuffer(codec.decompress(b"".join(pieces), length), np.uint8)


def _blocks(body: memoryview) -> tuple[list[int], int]:
    """Where the blocks of a frame begin and the last one ends; and where the frame ends.

    A chunk is one frame and nothing else: its head tells the size of the first one only.

    :returns: places behind the bytes' end, where the frame is cut off.
    :raises ValueError: if there are bytes behind it, or it is one that decompressors leave out.
    :raises zstandard.ZstdError: if it is no frame.
    """
    if body[:4] != _MAGIC:
        raise ValueError("it is no frame with content")
    at, is_last, places = zstandard.frame_header_size(body), False, list[int]()
    while not is_last:
        places.append(at)
        header = int.from_bytes(body[at : at + _BLOCK_HEADER], "little")
        is_last = bool(header & 1) or at > len(body)
        at += _BLOCK_HEADER + (1 if header >> 1 & 3 == _REPEATED else header >> 3)
    end = at + (_CHECKSUM if body[_DESCRIPTOR] & _HAS_CHECKSUM else 0)
    if end < len(body):
        raise ValueError(f"there are {len(body) - end} bytes behind the frame")
    return [*places, at], end


def _head_of(length: int) -> bytes:
    return _MAGIC + _OF_KNOWN_SIZE + length.to_bytes(4, "little")
