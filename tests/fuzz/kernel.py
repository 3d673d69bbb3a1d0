"""Throw random and damaged inputs at every function of the kernel, built with sanitizers.

    python -m tests.fuzz.kernel --inputs 200000 --seed 1

Those of addresses and of undefined behaviour are loaded into a process of their own, without Java, which ends at the
first finding: its report, the function and the number of the input are shown; ``--only FUNCTION NUMBER`` repeats it.
Each array is an allocation of exactly its size. Some arguments do not fit each other: a ValueError is an answer.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import random
import shlex
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import zstandard

from tests.orc.kernel import encoders
from tests.orc.kernel.leaf_pages import Pages, random_leaf
from tests.orc.kernel.reference import SNAPPY, ZSTD
from tests.support.kernel_build import ROOT, build_kernel, use_kernel
from tests.support.rle_v2 import varint

FOLDER = ROOT / "build" / "fuzz" / "kernel"
FLAGS = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

Array = np.ndarray[Any, Any]
#: Arguments as plain values: bytes and lists of a type become arrays, all else stays.
Arguments = list[Any]

LOW, HIGH = -(1 << 63), (1 << 63) - 1
_ODD = (0, 1, -1, 2, 1 << 31, (1 << 31) - 1, 1 << 62, LOW, LOW + 1, HIGH, HIGH - 1)
_STREAMS = 60
#: More chunks, bytes of a tail, and the size of a block.
_LIMITS = ([0, 1, 9, (1 << 60) - 1], [0, 50, 5000], [0, 1 << 18])

_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]


class Allocations:
    """Arrays in allocations of exactly their size: numpy's own may be longer, and are used again."""

    def __init__(self) -> None:
        self.pointers: list[int] = []

    def copy(self, values: Array) -> Array:
        pointer = _libc.malloc(values.nbytes)
        self.pointers.append(pointer)
        memory: Any = (ctypes.c_uint8 * values.nbytes).from_address(pointer)
        array: Array = np.frombuffer(memory, values.dtype).reshape(values.shape)
        array[...] = values
        return array

    def free(self) -> None:
        for pointer in self.pointers:
            _libc.free(pointer)


class Inputs:
    """Arguments of the kernel's functions, from which on nothing but a seed and a number decides."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = random.Random(seed)
        every = range(_STREAMS)
        self.integers = {
            is_v2: [encode(chance, True) for _ in every] for is_v2, encode in encoders.INTEGERS.items()
        }
        self.lengths = {
            is_v2: [_small(encode, chance) for _ in every] for is_v2, encode in encoders.INTEGERS.items()
        }
        self.bytes = [encoders.run_length_bytes(chance) for _ in every]
        self.decimals = [encoders.decimals(chance) for _ in every]
        self.frames = [
            zstandard.ZstdCompressor(
                write_checksum=chance.random() < 0.5, write_content_size=chance.random() < 0.8
            ).compress(chance.randbytes(chance.choice([0, 1, 300, 3000])))
            for _ in every
        ]
        self.blocks = [
            bytes(cramjam.snappy.compress_raw(bytes(chance.choice([0, 1, 127, 128, 70_000])))) for _ in every
        ]

    def make(self, function: str, number: int) -> Arguments:
        chance = random.Random(f"{self.seed} {function} {number}")
        arguments: Arguments = getattr(self, f"_{function}")(chance)
        if chance.random() < 0.1:
            _spoil(chance, arguments)
        return arguments

    def _decode(self, chance: random.Random, streams: list[encoders.Stream]) -> Arguments:
        data, starts, limits, skips, bounds, positions = b"", [], [], [], [0], list[int]()
        is_dense = chance.random() < 0.4
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
            if chance.random() < 0.2:
                stream = chance.randbytes(chance.randrange(40))
                count = 300
            else:
                stream, values = chance.choice(streams)
                count = len(values)
            stream = _damaged(chance, stream)
            data += chance.randbytes(chance.choice([0, 0, 5]))
            starts.append(len(data))
            data += stream
            limits.append(len(data) if chance.random() < 0.8 else chance.randint(starts[-1], len(data)))
            skips.append(chance.choice([0, 0, chance.randint(0, count)]))
            room = max(count - skips[-1] + chance.choice([0, 0, 0, 5]), 0)
            if is_dense:
                bounds.append(bounds[-1] + chance.choice([room, chance.randint(0, room)]))
            else:
                wanted = sorted(chance.sample(range(room), min(room, chance.choice([1, 3, 30, room]))))
                if wanted and chance.random() < 0.05:
                    chance.shuffle(wanted)
                positions += wanted
                bounds.append(len(positions))
        begins = [data, _ints(starts), _ints(limits), _ints(skips) if any(skips) else None]
        return [*begins, _ints(bounds), None if is_dense else _ints(positions)]

    def _decode_integers(self, chance: random.Random) -> Arguments:
        is_v2 = chance.random() < 0.6
        arguments = self._decode(chance, self.integers[is_v2])
        out = np.zeros(arguments[4][-1], np.int64)
        return [*arguments, out, is_v2, chance.random() < 0.5, _stops(chance, arguments)]

    def _decode_bytes(self, chance: random.Random) -> Arguments:
        arguments = self._decode(chance, self.bytes)
        return [*arguments, np.zeros(arguments[4][-1], np.uint8), _stops(chance, arguments)]

    def _decode_decimals(self, chance: random.Random) -> Arguments:
        arguments = self._decode(chance, self.decimals)
        return [*arguments, np.zeros((arguments[4][-1], 2), np.int64), _stops(chance, arguments)]

    def _decode_lengths(self, chance: random.Random) -> Arguments:
        is_v2 = chance.random() < 0.6
        arguments = self._decode(chance, chance.choice([self.integers, self.lengths])[is_v2])
        count = arguments[4][-1]
        if arguments[5] is None:
            arguments[5] = np.concatenate([np.arange(n) for n in np.diff(arguments[4])] or [_room(0)])
        longest = chance.choice([1 << 31, 1 << 31, 200, HIGH, *_ODD])
        return [*arguments, _room(count), _room(count), longest, is_v2, _stops(chance, arguments)]

    def _decode_bits(self, chance: random.Random) -> Arguments:
        arguments = self._decode(chance, self.bytes)
        count = arguments[4][-1]
        ranks = chance.choice([None, _room(count)])
        outputs = [np.zeros(count, np.uint8), ranks, _room(len(arguments[4]))]
        return [*arguments, *outputs, _stops(chance, arguments)]

    def _decode_tags(self, chance: random.Random) -> Arguments:
        arguments = self._decode(chance, self.bytes)
        count = arguments[4][-1]
        return [*arguments, np.zeros(count, np.uint8), _room(count), _stops(chance, arguments)]

    def _copy_values(self, chance: random.Random) -> Arguments:
        data = chance.randbytes(chance.choice([0, 1, 15, 16, 17, 40, 200]))
        begins = [chance.randint(0, len(data)) for _ in range(chance.choice([0, 1, 3, 12]))]
        lengths = [min(chance.choice([0, 1, 15, 16, 17, 60]), len(data) - begin) for begin in begins]
        room = sum(lengths) + chance.choice([0, 0, 0, 1, 16, -1])
        if lengths and chance.random() < 0.2:
            each = chance.choice([begins, lengths])
            each[chance.randrange(len(each))] = chance.choice([*_ODD, len(data), len(data) + 1])
        return [data, _ints(begins), _ints(lengths), np.zeros(max(room, 0), np.uint8)]

    def _scatter(self, chance: random.Random) -> Arguments:
        valid = [chance.choice([0, 1, 255]) for _ in range(chance.choice([0, 1, 30]))]
        count, width = (
            sum(map(bool, valid)) + chance.choice([0, 0, 0, 1, -1]),
            chance.choice([0, 1, 4, 8, 16]),
        )
        shape = (max(count, 0), width)
        return [
            np.ones(shape, np.uint8),
            np.array(valid, np.uint8),
            np.zeros((len(valid), chance.choice([width, width, width, 4])), np.uint8),
        ]

    def _chunks(self, chance: random.Random, codec: int) -> tuple[bytes, list[int], list[int], list[int]]:
        """A stream, and the offset, length and form of each of its chunks."""
        data, offsets, lengths, originals = b"", [], [], []
        bodies = self.blocks if codec == SNAPPY else self.frames
        for _ in range(chance.choice([0, 1, 3, 8])):
            body, is_original = chance.choice(bodies), chance.random() < 0.2
            body = _damaged(chance, body) if chance.random() < 0.3 else body
            offsets.append(len(data))
            lengths.append(len(body))
            originals.append(int(is_original))
            data += (len(body) << 1 | is_original).to_bytes(3, "little") + body
        return data, offsets, lengths, originals

    def _list_chunks(self, chance: random.Random) -> Arguments:
        codec = chance.choice([0, SNAPPY, ZSTD, ZSTD])
        data, offsets, _, _ = self._chunks(chance, codec)
        data = _damaged(chance, data)
        begins = sorted(chance.choices([*offsets, len(data)], k=chance.choice([0, 1, 3])))
        ends = [chance.randint(begin, max(begin, len(data))) for begin in begins]
        extras = [chance.choice([0, 1, 2, 100, *_ODD]) for _ in begins]
        if begins and chance.random() < 0.2:
            each = chance.choice([begins, ends])
            each[chance.randrange(len(each))] = chance.choice([*_ODD, chance.randint(0, len(data) + 9)])
        room = chance.choice([0, 1, 20])
        outputs = (_room(room), _room(room), np.zeros(room, np.uint8), _room(room))
        return [
            data,
            *map(_ints, (begins, ends, extras)),
            codec,
            _zstd() if codec == ZSTD else None,
            *outputs,
        ]

    def _count_fields(self, chance: random.Random) -> Arguments:
        kinds = np.array([[chance.choice([0, 0, -1, -4, -8, 1, 2]) for _ in range(4)] for _ in range(3)])
        if chance.random() < 0.1:
            kinds[chance.randrange(3), chance.randrange(4)] = chance.choice(_ODD)
        return [_damaged(chance, _message(chance, kinds, 0, 3)), kinds, chance.choice([0, 20, HIGH])]

    def _select_chunks(self, chance: random.Random) -> Arguments:
        offsets, stop = _offsets(chance)
        segments = chance.choice([0, 1, 3])
        begins, inners, ends, end_inners, max_bytes = (
            chance.choices(values, k=segments)
            for values in ([*offsets, stop], [0, 5], [*offsets, stop], [0, 5, 99], [0, 30, (1 << 60) - 1])
        )
        sizes = chance.choices([-1, 0, 40, 1000], k=len(offsets))
        _odd_number(chance, [sizes, begins, inners, ends, end_inners, max_bytes])
        limits = [chance.choice([*values, *_ODD] if chance.random() < 0.1 else values) for values in _LIMITS]
        return [
            *map(_ints, (offsets, sizes, begins, inners, ends, end_inners)),
            np.array(chance.choices([0, 1, 255], k=segments), np.uint8),
            _ints(max_bytes),
            *limits,
            *(_room(segments), _room(segments), _room(len(offsets)), _room(len(offsets))),
        ]

    def _select_values(self, chance: random.Random) -> Arguments:
        offsets, stop = _offsets(chance)
        edges = list(accumulate(chance.choices([0, 40, 1000], k=len(offsets)), initial=0))
        begins, inners, ends, bounds, lows = list[int](), list[int](), list[int](), [0], list[int]()
        for _ in range(chance.choice([0, 1, 3])):
            begin, end = sorted(chance.choices([*offsets, stop], k=2))
            begins.append(begin)
            inners.append(chance.choice([0, 0, 7]))
            ends.append(end + chance.choice([0, 0, 0, 1]))
            numbers = [edges[sum(offset < each for offset in offsets)] for each in (begin, end)]
            total = numbers[1] - numbers[0] - inners[-1]
            lows += [chance.randint(0, max(total, 0)) for _ in range(chance.choice([0, 1, 5]))]
            bounds.append(len(lows))
        lengths = [chance.choice([0, 0, 1, 30, 900]) for _ in lows]
        _odd_number(chance, [edges, begins, inners, ends, bounds, lows, lengths])
        outputs = (_room(len(offsets)), _room(len(lows)), _room(len(lows)))
        return [*map(_ints, (offsets, edges, begins, inners, ends, bounds, lows, lengths)), *outputs]

    def _decompress_chunks(self, chance: random.Random) -> Arguments:
        data, offsets, lengths, originals = self._chunks(chance, ZSTD)
        count = len(offsets)
        sizes, wanted = (chance.choices([-1, 0, 1, 300, 3000], k=count) for _ in range(2))
        needed = [chance.choice([-1, HIGH]), *chance.choices([-1, -1, 0, 1, 3000, HIGH], k=count)][:count]
        _odd_number(chance, [offsets, lengths, sizes, wanted, needed])
        is_native = chance.random() < 0.7
        codec = None if is_native else chance.choice(_CODECS)
        out = np.zeros(chance.choice([0, 1, 2000, 9000]), np.uint8)
        return [
            *(data, _ints(offsets), _ints(lengths), np.array(originals, np.uint8), _ints(sizes)),
            *(_ints(wanted), _ints(needed), _zstd() if is_native else None, codec, out),
            *(_room(count), _room(count), _room(chance.choice([3, 3, 3, 2]))),
        ]

    def _rescale(self, chance: random.Random) -> Arguments:
        count = chance.choice([0, 1, 20])
        values = [
            (chance.choice([chance.getrandbits(60), *_ODD]), chance.choice([0, -1])) for _ in range(count)
        ]
        scale = chance.choice([0, 10, 18, 38, *_ODD])
        scales = [chance.choice([scale, 0, 3, 18, *_ODD]) for _ in range(count)]
        return [_ints(values).reshape(-1, 2), _ints(scales), scale, _room(count)]

    def _mark_ngrams(self, chance: random.Random) -> Arguments:
        characters = chance.randbytes(chance.choice([0, 1, 5, 300]))
        ends = sorted(chance.choices(range(len(characters) + 1), k=chance.choice([0, 1, 20])))
        _odd_number(chance, [ends])
        bits = chance.choice([1, 3, 5, chance.choice([0, 9, -1])])
        size = chance.choice([1 << (3 * max(bits, 1)), 1, 100]) if bits < 9 else 1
        low = chance.choice([0, 0, 50, *_ODD])
        room = chance.choice([0, 3, 400])
        ranks = [chance.randrange(1 << max(bits, 1)) & 0xFF for _ in range(256)]
        return [
            *(characters, _ints(ends), chance.choice([1, 3, *_ODD]), chance.choice([0, 7, *_ODD])),
            *(np.array(ranks, np.uint8), bits, low),
            np.zeros(size, np.uint32),
            np.array(chance.choices([0, 0, 5, room], k=size), np.uint32),
            np.zeros(room, np.uint32) if chance.random() < 0.7 else None,
        ]

    def _list_leaf_blocks(self, chance: random.Random) -> Arguments:
        return _leaf_pages(chance)[0]

    def _find_rows(self, chance: random.Random) -> Arguments:
        from hindex.orc import kernel

        (data, ends, has_bytes, heads, blocks), keys = _leaf_pages(chance)
        data = np.frombuffer(data, np.uint8)
        with suppress(ValueError):
            kernel.list_leaf_blocks(data, ends, has_bytes, heads, blocks)
        # as if they had been decompressed to other bytes of the pages
        contents = data.tobytes() * 3
        blocks[blocks[:, 0] == 1, 1] = chance.choice([0, 0, 1, 40, len(data), *_ODD[:1]])
        pages = len(heads)
        bounds = sorted(chance.choices(keys, k=2 * chance.choice([0, 1, 4, 30])))
        counts = sorted(chance.randint(0, len(bounds) // 2) for _ in range(pages))
        begins, ends_of = _ints([0, *counts[:-1]][:pages]), _ints(counts)
        room = int(min(max(heads[:, 1].sum(), 0), 1 << 12)) if pages else 0
        inline = int(min(max(heads[:, 3].sum(), 0), 1 << 12)) if pages else 0
        outside = int(min(max(heads[:, 4].sum(), 0), 1 << 12)) if pages else 0
        lows, highs = (
            _ints(bounds[::2]) if not has_bytes else None,
            _ints(bounds[1::2]) if not has_bytes else None,
        )
        low_bytes = high_bytes = key_bytes = None
        if has_bytes:
            lows, highs = (_ints([0, *accumulate(map(len, each))]) for each in (bounds[::2], bounds[1::2]))
            low_bytes, high_bytes = b"".join(bounds[::2]), b"".join(bounds[1::2])
            high_bytes = None if chance.random() < 0.3 else high_bytes
            key_bytes = np.zeros(int(min(max(heads[:, 5].sum(), 0), 1 << 16)) if pages else 0, np.uint8)
        rows = np.zeros(inline, np.uint32) if chance.random() < 0.8 else None
        total = chance.choice([(1 << 32) - 1, 1 << 20, 300, *_ODD])
        return [
            *(data, contents, heads, blocks, total, begins, ends_of, lows, highs, low_bytes, high_bytes),
            *(chance.choice([-1, 0, len(bounds) // 2 - 1]), _room(room + 1), _room(room), key_bytes),
            *(_room(room), rows, np.zeros((outside, 5), np.int64), _room(4)),
        ]


def _full(number: int, begin: int, end: int) -> int:
    return end - begin


def _one(number: int, begin: int, end: int) -> int:
    return 1


def _too_many(number: int, begin: int, end: int) -> int:
    return end - begin + 1


def _negative(number: int, begin: int, end: int) -> int:
    return -1


def _failing(number: int, begin: int, end: int) -> int:
    raise ValueError


#: What stands for codecs that are not called by the kernel itself.
_CODECS = (_full, _full, _one, _too_many, _negative, _failing)


def _small(
    encode: Callable[[random.Random, bool], encoders.Stream], chance: random.Random
) -> encoders.Stream:
    """The first stream of several that has only small numbers."""
    streams = (encode(chance, False) for _ in range(300))
    return next(each for each in streams if each[1] and min(each[1]) >= 0 and max(each[1]) < 1 << 31)


def _message(chance: random.Random, kinds: Array, kind: int, depth: int) -> bytes:
    """Encode a protobuf message of a kind, see `kernel.count_fields`."""
    message = b""
    for _ in range(chance.choice([0, 1, 3, 9]) if depth else 0):
        number, wire = chance.randrange(6), chance.choice([0, 1, 2, 2, 2, 5])
        below = int(kinds[kind, number]) if number < kinds.shape[1] else 0
        content = chance.randbytes(chance.choice([0, 1, 8, 200]))
        if wire == 2 and 0 < below < len(kinds):
            content = _message(chance, kinds, below, depth - 1)
        values = {0: b"\xff\x01", 1: bytes(8), 2: varint(len(content)) + content, 5: bytes(4)}
        message += varint(number << 3 | wire) + values[wire]
    return message


def _offsets(chance: random.Random) -> tuple[list[int], int]:
    """Return the offsets of chunks, and the end of the last one."""
    bounds = list(accumulate(chance.choices([3, 20, 500], k=chance.choice([0, 1, 2, 8])), initial=0))
    return bounds[:-1], bounds[-1]


def _odd_number(chance: random.Random, columns: list[list[int]]) -> None:
    """Change one of the numbers now and then: a little, or to any other."""
    column = chance.choice(columns)
    if column and chance.random() < 0.25:
        at = chance.randrange(len(column))
        column[at] = chance.choice([*_ODD, min(column[at] + 1, HIGH), max(column[at] - 1, 0)])


def _leaf_pages(chance: random.Random) -> tuple[Arguments, list[Any]]:
    """Damaged leaf pages as the arguments that list their blocks, and some keys."""
    has_bytes = chance.random() < 0.5
    data, ends, heads, all_keys = b"", list[int](), list[list[int]](), list[Any]()
    for _ in range(chance.choice([1, 1, 3])):
        leaf = random_leaf(chance, 1 << 20, has_bytes=has_bytes, size=chance.choice([1, 2, 30, 200]))
        pages = Pages()
        pages.add(leaf.blocks(), chance if chance.random() < 0.5 else None)
        page = (_damaged(chance, pages.data) if chance.random() < 0.4 else pages.data) or b"\0"
        first = sum(head[2] for head in heads)
        heads.append([first, len(leaf.keys), page[0], sum(leaf.counts)])
        data += page
        ends.append(len(data))
        all_keys += leaf.keys
    fields = np.zeros((len(heads), 11), np.int64)
    for at, (first, keys, _, rows) in enumerate(heads):
        fields[at, :3] = first, keys, rows
    blocks = np.zeros((sum(head[2] for head in heads), 4), np.int64)
    return [data, _ints(ends), has_bytes, fields, blocks], all_keys


def _ints(values: Any) -> Array:
    return np.array(values, np.int64)


def _zstd() -> Array:
    # the kernel must have been found before
    from hindex.orc.codec import zstd_functions

    return zstd_functions()


def _room(count: int) -> Array:
    return np.zeros(count, np.int64)


def _stops(chance: random.Random, arguments: Arguments) -> Array | None:
    return np.zeros((len(arguments[1]), 2), np.int64) if chance.random() < 0.5 else None


def _damaged(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([0, 0, 0, 1, 1, 3]) if data else 0):
        at = chance.choice([chance.randrange(len(data)), chance.randrange(min(len(data), 8))])
        changed[at] = chance.choice([0, 127, 128, 255, chance.randrange(256)])
    return bytes(changed[: chance.randint(0, len(data))] if chance.random() < 0.2 else changed)


def _spoil(chance: random.Random, arguments: Arguments) -> None:
    """Make one argument what no caller gives: other numbers, another length, none at all.

    Addresses stay what they are: only arrays of int64 get other numbers.
    """
    at = chance.randrange(len(arguments))
    value = arguments[at]
    if isinstance(value, bytes):
        arguments[at] = chance.choice([value[:-1], value + b"\xff", b"", None])
    elif isinstance(value, np.ndarray):
        kind = chance.randrange(4)
        if kind == 0 and value.dtype == np.int64 and value.size:
            value.reshape(-1)[chance.randrange(value.size)] = chance.choice(_ODD)
        elif kind == 1:
            arguments[at] = value[:-1].copy()
        elif kind == 2:
            arguments[at] = np.concatenate([value, value[:1]])
        else:
            arguments[at] = None


def call(function: Callable[..., int | None], arguments: Arguments) -> str:
    """Call the kernel, and say in a word what came of it."""
    allocations = Allocations()
    try:
        prepared = [np.frombuffer(each, np.uint8) if isinstance(each, bytes) else each for each in arguments]
        copies = [allocations.copy(each) if isinstance(each, np.ndarray) else each for each in prepared]
        result = function(*copies) or 0
    except (ValueError, IndexError, TypeError) as error:
        return type(error).__name__
    finally:
        allocations.free()
    if function.__name__ in ("list_chunks", "rescale"):
        return "done" if result >= 0 else "broken"
    return f"code {result & 255}" if result > 0 else "done" if result == 0 else "too long"


@contextmanager
def _notes() -> Iterator[mmap.mmap]:
    """The record that outlives this process: the current input."""
    path = FOLDER / "input"
    path.write_bytes(bytes(64))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 64) as memory:
        yield memory


def run_inputs(library: str, seed: int, functions: list[str], numbers: range) -> None:
    use_kernel(Path(library))
    from hindex.orc import kernel

    assert kernel.__file__ == library
    inputs = Inputs(seed)
    with _notes() as notes:
        for name in functions:
            function, outcomes, began = getattr(kernel, name), Counter[str](), time.monotonic()
            for number in numbers:
                notes[:64] = f"{name} {number}".encode().ljust(64)
                outcomes[call(function, inputs.make(name, number))] += 1
            seconds = time.monotonic() - began
            print(
                f"{name}: {len(numbers):,} inputs, {seconds:.0f} s,", dict(outcomes.most_common()), flush=True
            )


def functions_of_kernel() -> list[str]:
    """The names of the functions in the stub."""
    stub = (ROOT / "orc" / "kernel.pyi").read_text()
    return [line.split("(")[0].removeprefix("def ") for line in stub.splitlines() if line.startswith("def ")]


def sanitizers() -> list[str] | str:
    """Return the libraries to load with the kernel, or the reason why there are none."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    libraries = []
    for name in ("libasan.so", "libubsan.so"):
        try:
            command = [*compiler, f"-print-file-name={name}"]
            path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError) as error:
            return f"the kernel cannot be built with sanitizers: {error}"
        if not Path(path).is_absolute():
            return f"the kernel cannot be built with sanitizers: {compiler[0]} lacks {name}"
        libraries.append(path)
    return libraries


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.kernel", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--inputs", type=int, default=200_000, help="for each function")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--functions", nargs="+", default=functions_of_kernel(), metavar="NAME")
    parser.add_argument("--only", nargs=2, metavar=("FUNCTION", "NUMBER"))
    parser.add_argument("--extension", help=argparse.SUPPRESS)
    options = parser.parse_args()
    functions, numbers = options.functions, range(options.inputs)
    if options.only is not None:
        functions, numbers = [options.only[0]], range(int(options.only[1]), int(options.only[1]) + 1)
    if options.extension is not None:
        run_inputs(options.extension, options.seed, functions, numbers)
        return 0
    libraries = sanitizers()
    if isinstance(libraries, str):
        print(libraries)
        return 2
    # to optimize takes four times as long as to compile, more than a short run
    level = "-O1" if options.inputs > 10_000 else "-O0"
    library = build_kernel(FOLDER, (level, *FLAGS))
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        # what Python itself keeps to its end
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.kernel",
        "--extension",
        str(library),
        "--seed",
        str(options.seed),
    ]
    command += ["--functions", *functions, "--inputs", str(options.inputs)]
    command += ["--only", *options.only] if options.only is not None else []
    ran = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    if ran.returncode:
        name, number = (FOLDER / "input").read_bytes().decode().split("\0")[0].split()
        print(f"a finding, with code {ran.returncode}: --seed {options.seed} --only {name} {number}")
        return 1
    print("no findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
