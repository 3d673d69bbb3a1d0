"""Finding one group's runs, from header to header, with the tables of :mod:`.headers`."""

from __future__ import annotations

from hindex.errors import OrcError
from hindex.orc.encoding.buffers import stream_end
from hindex.orc.encoding.rle_v2 import headers

_COUNT: list[int] = headers.COUNT.tolist()
_SIZE: list[int] = headers.SIZE.tolist()
_PATCHED_SIZE: list[int] = headers.PATCHED_SIZE.tolist()


def follow(data: memoryview, at: int, limit: int, missing: int, positions: list[int]) -> int:
    """Append the positions of the headers of the runs that hold the next ``missing`` values.

    :param data: the buffer, at least one byte longer than ``limit``.
    :param at: byte of the first header.
    :param limit: the byte that no run may go beyond.
    :returns: where the last run ends.
    :raises OrcError: if a run goes beyond the limit, or a header is impossible.
    """
    data = data[: limit + 1]
    counts, sizes = _COUNT, _SIZE
    append = positions.append
    try:
        while missing > 0:
            append(at)
            first = data[at]
            if first < 64:
                # A short repeat, told by its first byte. Many streams are mostly made of these.
                missing -= (first & 7) + 3
                at += (first >> 3) + 2
                continue
            pair = first << 8 | data[at + 1]
            missing -= counts[pair]
            size = sizes[pair]
            if size > 0:
                at += size
            elif size > -headers.PATCHED_MARK:
                # Two varints follow; mostly they have one byte each.
                varint = at + 2
                while data[varint] > 127:
                    varint += 1
                varint += 1
                while data[varint] > 127:
                    varint += 1
                at = varint - 1 - size
            else:
                more = _PATCHED_SIZE[data[at + 2] << 8 | data[at + 3]]
                if more < 0:
                    raise OrcError(
                        f"the patched run at byte {at} has no patches, or patches of more than 64 bits: "
                        "the stream is corrupt"
                    )
                at += more - size - headers.PATCHED_MARK
    except IndexError:
        raise stream_end(limit) from None
    if at > limit:
        raise stream_end(limit)
    return at
