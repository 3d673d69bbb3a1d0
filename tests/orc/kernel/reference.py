"""Decoders of ORC's encodings in plain Python, one value at a time: what the compiled kernel is compared with.

Written from the ORC specification v1, and sharing nothing with the kernel. Each takes the bytes of a segment and the
numbers of the wanted values, ascending, and reads no further than these need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

#: The codes of the kernel.
STREAM_ENDS, LONG_VARINT, BAD_PATCHES, BAD_SEGMENT, BAD_LENGTH, BAD_CHUNK, BAD_FRAME = range(1, 8)
BAD_ORDER, BAD_ROW, BAD_BLOCK, BAD_LEAF, BAD_KEYS, BAD_COUNTS, BAD_POINTERS = range(8, 15)
BAD_CONTENT, SHORT_CONTENT, BAD_BLOCK_SIZE, INSIDE_CHUNK, BEYOND_CHUNK = range(15, 20)

#: Codecs whose chunks record the size of their content.
SNAPPY, ZSTD = 2, 5

#: The widths of the five bits that name one in version 2.
WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]

#: The number of values of a run, and a function that gives one of them.
Run = tuple[int, Callable[[int], int]]


class BadStreamError(Exception):
    """Bytes that are no stream, or too few of them."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def wrap(value: int) -> int:
    """Keep 64 bits, as two's complement."""
    value %= 1 << 64
    return value - (1 << 64) if value >= 1 << 63 else value


def unzigzag(raw: int) -> int:
    return raw // 2 if raw % 2 == 0 else -(raw + 1) // 2


class Bytes:
    """A segment, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def is_at_end(self) -> bool:
        return self.at >= len(self.data)

    def byte(self) -> int:
        if self.is_at_end():
            raise BadStreamError(STREAM_ENDS)
        self.at += 1
        return self.data[self.at - 1]

    def big_endian(self, size: int) -> int:
        value = 0
        for _ in range(size):
            value = 256 * value + self.byte()
        return value

    def varint(self) -> int:
        """The number of up to ten bytes, of which 64 bits count."""
        value, place = 0, 0
        while True:
            byte = self.byte()
            if place == 10:
                raise BadStreamError(LONG_VARINT)
            value += byte % 128 << 7 * place
            if byte < 128:
                return value % (1 << 64)
            place += 1

    def packed(self, number: int, width: int) -> int:
        """Value ``number`` of those that are packed from here on."""
        first, end = number * width, (number + 1) * width
        part = self.data[self.at + first // 8 : self.at + (end + 7) // 8]
        if width and len(part) < (end + 7) // 8 - first // 8:
            raise BadStreamError(STREAM_ENDS)
        value = int.from_bytes(part, "big")
        return value >> (8 - end % 8) % 8 & ((1 << width) - 1)


def select(runs: Iterable[Run], wanted: list[int]) -> list[int]:
    """The wanted values of runs."""
    values: list[int] = []
    if not wanted:
        return values
    first = 0
    for count, value in runs:
        while len(values) < len(wanted) and wanted[len(values)] < first + count:
            values.append(value(wanted[len(values)] - first))
        if len(values) == len(wanted):
            return values
        first += count
    raise BadStreamError(STREAM_ENDS)


def integers(data: bytes, wanted: list[int], *, is_v2: bool, is_signed: bool) -> list[int]:
    def plain(raw: int) -> int:
        return wrap(unzigzag(raw) if is_signed else raw)

    runs = _runs_v2 if is_v2 else _runs_v1
    return select(runs(Bytes(data), plain), wanted)


def lengths(
    data: bytes, skip: int, positions: list[int], longest: int, *, is_v2: bool
) -> Iterator[tuple[int, int]]:
    """The sum of the lengths before each selected one, from the first that is not skipped, and the length itself."""
    left, first, total = [skip + position for position in positions], 0, 0
    if not left:
        return
    for count, value in (_runs_v2 if is_v2 else _runs_v1)(Bytes(data), wrap):
        run = [value(i) for i in range(min(count, left[-1] + 1 - first))]
        for number, length in enumerate(run[max(skip - first, 0) :], max(skip, first)):
            if not 0 <= length < longest:
                raise BadStreamError(BAD_LENGTH)
            if number == left[0]:
                yield wrap(total), length
                del left[0]
            total += length
        if not left:
            return
        first += count
    raise BadStreamError(STREAM_ENDS)


def _runs_v1(stream: Bytes, plain: Callable[[int], int]) -> Iterator[Run]:
    while not stream.is_at_end():
        control = stream.byte()
        if control < 128:
            step = stream.byte()
            step = step - 256 if step > 127 else step
            first = plain(stream.varint())
            yield control + 3, lambda i, first=first, step=step: wrap(first + i * step)  # type: ignore[misc]
        else:
            values: list[int] = []

            def literal(i: int, values: list[int] = values) -> int:
                while len(values) <= i:
                    values.append(plain(stream.varint()))
                return values[i]

            yield 256 - control, literal
            literal(255 - control)


def _runs_v2(stream: Bytes, plain: Callable[[int], int]) -> Iterator[Run]:
    while not stream.is_at_end():
        header = stream.byte()
        kind = header >> 6
        if kind == 0:
            value = plain(stream.big_endian((header >> 3) % 8 + 1))
            yield header % 8 + 3, lambda _, value=value: value  # type: ignore[misc]
            continue
        count = header % 2 * 256 + stream.byte() + 1
        width = WIDTHS[(header >> 1) % 32]
        if kind == 1:
            packed = count * width
            yield count, lambda i, width=width: plain(stream.packed(i, width))  # type: ignore[misc]
        elif kind == 2:
            packed, patched = _patched_base(stream, count, width)
            yield count, patched
        else:
            # five zeros: the steps are all alike
            width = 0 if width == 1 else width
            packed = max(count - 2, 0) * width
            yield count, _delta(stream, width, plain)
        stream.at += (packed + 7) // 8


def _delta(stream: Bytes, width: int, plain: Callable[[int], int]) -> Callable[[int], int]:
    values = [plain(stream.varint())]
    step = unzigzag(stream.varint())

    def value(i: int) -> int:
        while len(values) <= i:
            change = step
            if width and len(values) > 1:
                size = stream.packed(len(values) - 2, width)
                change = -size if step < 0 else size
            values.append(values[-1] + change)
        return wrap(values[i])

    return value


def _patched_base(stream: Bytes, count: int, width: int) -> tuple[int, Callable[[int], int]]:
    """The number of packed bits behind the base, and the values."""
    third, fourth = stream.byte(), stream.byte()
    base_size, patch_width = third // 32 + 1, WIDTHS[third % 32]
    gap_width, patches = fourth // 32 + 1, fourth % 32
    if patch_width + gap_width > 64 or patches == 0:
        raise BadStreamError(BAD_PATCHES)
    base = stream.big_endian(base_size)
    sign = 1 << (8 * base_size - 1)
    if base >= sign:
        base = sign - base
    entry_width = min(each for each in WIDTHS if each >= patch_width + gap_width)
    values_bytes = (count * width + 7) // 8

    @cache
    def patch_list() -> dict[int, int]:
        """The patches of the places that have one."""
        entries = Bytes(stream.data)
        entries.at = stream.at + values_bytes
        patch_of: dict[int, int] = {}
        place, patched = 0, -1
        for entry in [entries.packed(number, entry_width) for number in range(patches)]:
            gap, patch = (entry >> patch_width) % (1 << gap_width), entry % (1 << patch_width)
            place += gap
            if gap == 255 and patch == 0:
                continue
            if place == patched:
                # Java's and the C++ reader are past it, and wait in vain
                break
            patched = place
            patch_of[place] = patch << width % 64
        return patch_of

    def value(i: int) -> int:
        return wrap(base + (stream.packed(i, width) | patch_list().get(i, 0)))

    return values_bytes * 8 + (patches * entry_width + 7) // 8 * 8, value


def run_length_bytes(data: bytes, wanted: list[int]) -> list[int]:
    return select(_byte_runs(Bytes(data)), wanted)


def _byte_runs(stream: Bytes) -> Iterator[Run]:
    while not stream.is_at_end():
        control = stream.byte()
        if control < 128:
            value = stream.byte()
            yield control + 3, lambda _, value=value: value  # type: ignore[misc]
        else:
            yield 256 - control, lambda i: stream.packed(i, 8)
            stream.at += 256 - control


def decimals(data: bytes, wanted: list[int]) -> list[int]:
    """Of those that are not wanted, only the last bytes are looked for."""
    stream, values, number = Bytes(data), [], 0
    for each in wanted:
        while number < each:
            number += stream.byte() < 128
        raw, place = 0, 0
        while True:
            byte = stream.byte()
            raw += byte % 128 << 7 * place
            if place == 19 or raw >= 1 << 128:
                raise BadStreamError(LONG_VARINT)
            if byte < 128:
                break
            place += 1
        values.append(unzigzag(raw))
        number += 1
    return values
