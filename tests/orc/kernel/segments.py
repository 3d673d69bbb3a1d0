"""Streams laid out as segments of one buffer, decoded by the kernel, and compared with the reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hindex.orc import kernel
from tests.orc.kernel.encoders import Stream
from tests.orc.kernel.reference import BadStreamError

#: What lies around the outputs, which must stay.
GUARD = 9
_CANARY = 0x5A

Array = np.ndarray[Any, Any]
#: Values of a segment's bytes, by their numbers.
Reference = Callable[[bytes, list[int]], list[int]]


def as_ints(values: list[int]) -> Array:
    return np.array(values, np.int64)


@dataclass
class Segments:
    """A buffer, and for each segment the bytes, the skipped values and the positions of the wanted ones."""

    data: bytes
    starts: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)

    def bounds(self) -> list[int]:
        return [sum(map(len, self.positions[:number])) for number in range(len(self.positions) + 1)]

    def expected(self, reference: Reference) -> tuple[list[int], int, int]:
        """The values up to the first error, its code, or 0, and the number of its segment."""
        values: list[int] = []
        for number, positions in enumerate(self.positions):
            data = self.data[self.starts[number] : self.limits[number]]
            try:
                values += reference(data, [self.skips[number] + position for position in positions])
            except BadStreamError as error:
                return values, error.code, number
        return values, 0, 0


def segments_of(chance: random.Random, streams: list[Stream], *, is_dense: bool) -> Segments:
    """Lay streams out in any order with other bytes between them; want some of their values."""
    data, places = b"", {}
    for number in chance.sample(range(len(streams)), len(streams)):
        data += chance.randbytes(chance.choice([0, 0, 5]))
        places[number] = (len(data), len(data) + len(streams[number][0]))
        data += streams[number][0]
    segments = Segments(data + chance.randbytes(chance.choice([0, 0, 3, 20])))
    for number, (_, values) in enumerate(streams):
        segments.starts.append(places[number][0])
        segments.limits.append(places[number][1])
        skip = chance.choice([0, chance.randint(0, len(values))])
        count = len(values) - skip
        segments.skips.append(skip)
        if is_dense:
            positions = list(range(chance.choice([count, chance.randint(0, count)])))
        else:
            share = chance.choice([0.02, 0.3, 0.9, 1])
            positions = sorted(chance.sample(range(count), int(count * share + 0.5)))
        segments.positions.append(positions)
    return segments


def guarded(count: int, dtype: Any, *shape: int) -> tuple[Array, Array]:
    """Room for outputs, and the same with what lies around it."""
    whole = np.full((count + 2 * GUARD, *shape), 0, dtype)
    whole.view(np.uint8)[...] = _CANARY
    return whole[GUARD : GUARD + count], whole


def assert_guarded(whole: Array) -> None:
    edges = np.concatenate([whole[:GUARD], whole[len(whole) - GUARD :]])
    assert (edges.view(np.uint8) == _CANARY).all(), "the kernel wrote outside of its output"


def check(segments: Segments, reference: Reference, kind: str, *, is_dense: bool, **options: bool) -> int:
    """Compare what the kernel makes of segments with the reference: the values, or the code of the error.

    Args:
        kind: the kernel's function.

    Returns:
        the code.
    """
    bounds = segments.bounds()
    count = bounds[-1]
    dtype = {"decode_bytes": np.uint8, "decode_integers": np.int64, "decode_decimals": np.int64}[kind]
    out, whole = guarded(count, dtype, *[2] * (kind == "decode_decimals"))
    positions = None if is_dense else as_ints([p for each in segments.positions for p in each])
    stops, whole_stops = guarded(len(segments.starts), np.int64, 2)
    skips = as_ints(segments.skips) if any(segments.skips) else None
    result = getattr(kernel, kind)(
        np.frombuffer(segments.data, np.uint8),
        as_ints(segments.starts),
        as_ints(segments.limits),
        skips,
        as_ints(bounds),
        positions,
        out,
        **options,
        stops=stops,
    )
    assert_guarded(whole)
    assert_guarded(whole_stops)
    values, code, number = segments.expected(reference)
    assert result & 255 == code
    if code:
        assert code in kernel.ERRORS
        assert segments.starts[number] <= result >> 8 <= segments.limits[number]
    else:
        assert result == 0
    decoded = out.tolist()
    if kind == "decode_decimals":
        decoded = [low % (1 << 64) + (high << 64) for low, high in decoded]
    assert decoded[: len(values)] == values
    for each in range(number if code else len(segments.starts)):
        check_stop(segments, each, reference, *stops[each].tolist())
    return code


def check_stop(segments: Segments, number: int, reference: Reference, byte: int, count: int) -> None:
    """Compare what lies behind the last wanted value of a segment with what lies behind its stop."""
    start, limit = segments.starts[number], segments.limits[number]
    assert start <= byte <= limit
    positions = segments.positions[number]
    following = segments.skips[number] + (positions[-1] + 1 if positions else 0)
    for further in (0, 1, 150):
        behind = outcome(reference, segments.data[byte:limit], count + further)
        assert behind == outcome(reference, segments.data[start:limit], following + further)


def outcome(reference: Reference, data: bytes, number: int) -> list[int] | int:
    """A value, or the code of the error."""
    try:
        return reference(data, [number])
    except BadStreamError as error:
        return error.code


def damage(chance: random.Random, segments: Segments) -> None:
    """Cut segments short, or change bytes of them."""
    for number, limit in enumerate(segments.limits):
        if chance.random() < 0.4:
            segments.limits[number] = chance.randint(segments.starts[number], limit)
    data = bytearray(segments.data)
    for _ in range(chance.choice([0, 0, 1, 1, 5]) if data else 0):
        data[chance.randrange(len(data))] = chance.choice([0, 127, 128, 255, chance.randrange(256)])
    segments.data = bytes(data)
