"""Damaged files: a seed and a number give the same one each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hindex.orc.metadata.sections import is_repeated
from hindex.orc.metadata.stripe import StreamKind
from hindex.proto import orc_metadata_pb2 as pb
from tests.fuzz.corpus import CODECS
from tests.fuzz.parts import FileParts, Hooks, compressed, put_together
from tests.support.rle_v2 import odd_patches, runs_of, varint

#: Numbers at which something changes: bounds of types, of the format and of what fits in memory.
_EDGES = [
    *range(20),
    *(1 << n for n in (7, 8, 10, 14, 16, 20, 23, 24, 27, 30, 31, 32, 33, 40, 48, 62, 63)),
    *((1 << n) - 1 for n in (7, 8, 14, 16, 23, 31, 32, 33, 40, 62, 63, 64)),
    *range(99, 104),
    512,
    513,
    130,
    9999,
]

#: For so many values there are lengths written.
_MOST_CLAIMED = 1 << 21

#: By protobuf type: the bits of a field, and whether it has a sign.
_WIDTHS = {
    FieldDescriptor.TYPE_UINT32: (32, False),
    FieldDescriptor.TYPE_UINT64: (64, False),
    FieldDescriptor.TYPE_FIXED64: (64, False),
    FieldDescriptor.TYPE_INT32: (32, True),
    FieldDescriptor.TYPE_SINT32: (32, True),
    FieldDescriptor.TYPE_SINT64: (64, True),
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sound files, and those that can be put together anew."""

    files: Mapping[str, bytes]
    parts: Mapping[str, FileParts]


def damaged(corpus: Corpus, seed: int, number: int) -> tuple[str, bytes]:
    """The damaged file of a number, and what was done to which file."""
    rng = random.Random(f"{seed} {number}")
    (way,) = rng.choices(list(_WAYS), list(_WAYS.values()))
    if way in (_bytes, _shape):
        name = rng.choice(list(corpus.files))
        data = bytearray(corpus.files[name])
        way(rng, data, corpus)
        return f"{name}: {way.__name__}", bytes(data)
    name = rng.choice(list(corpus.parts))
    codec = rng.choice((0, 0, *CODECS))
    block = rng.choice([64, 256, 1000, 1 << 16, 1 << 18])
    return f"{name}: {way.__name__} codec {codec} block {block}", way(rng, corpus.parts[name], codec, block)


def _times(rng: random.Random) -> range:
    return range(rng.choice([1, 1, 1, 2, 3, 8]))


def _bytes(rng: random.Random, data: bytearray, corpus: Corpus) -> None:
    """Single bytes and bits, most of them where the metadata are."""
    for _ in _times(rng):
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            at = max(len(data) - 1 - int(rng.expovariate(1 / 80)), 0)
        match rng.randrange(3):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            case _:
                data[at] = (data[at] + rng.choice([-1, 1])) % 256


def _shape(rng: random.Random, data: bytearray, corpus: Corpus) -> None:
    """Cut, spliced, doubled, emptied or longer."""
    at = rng.randrange(len(data))
    size = min(int(rng.expovariate(1 / 40)) + 1, len(data) - at)
    match rng.randrange(7):
        case 0:
            del data[at:]
        case 1:
            del data[at : at + size]
        case 2:
            data[at:at] = data[at : at + size]
        case 3:
            data[at : at + size] = bytes(size)
        case 4:
            data[at:at] = rng.randbytes(size)
        case 5:
            data += rng.randbytes(rng.randrange(1, 40))
        case _:
            other = corpus.files[rng.choice(list(corpus.files))]
            data[at:] = other[min(at, len(other) - 1) :] if rng.random() < 0.5 else other[-len(data) + at :]


def _field(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """A field of the file's messages, after all lengths and offsets were made to fit."""
    names = ["postscript", "footer", "metadata", "stripe footer", "row index", "bloom filters"]
    (target,) = rng.choices(names, [2, 5, 1, 5, 4, 1])
    budget = [rng.randrange(3)]

    def change(name: str, message: Message) -> None:
        if name == target:
            if budget[0] == 0:
                for _ in _times(rng):
                    _change_message(rng, message)
            budget[0] -= 1

    return put_together(parts, codec, block, Hooks(message=change))


def _many(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """Very many of a list within a section, of which few bytes are stored."""
    codec, block = codec or rng.choice(CODECS[1:]), max(block, 1 << 12)
    names = ["footer", "metadata", "stripe footer", "row index", "bloom filters"]
    (target,) = rng.choices(names, [5, 1, 4, 3, 1])
    (count,) = rng.choices([100, 10_000, 300_000, 1_000_000], [30, 30, 30, 3])
    damage = random.Random(rng.random())
    is_done = [False]

    def change(name: str, message: Message) -> None:
        if name == target and not is_done[0]:
            is_done[0] = True
            _repeat_field(damage, message, count)

    return put_together(parts, codec, block, Hooks(message=change))


def _repeat_field(rng: random.Random, message: Message, count: int) -> None:
    """Add a list's item many times to a message, or to one that is in it."""
    while True:
        lists = [
            field
            for field in message.DESCRIPTOR.fields
            if is_repeated(field) or field.message_type is not None
        ]
        if not lists:
            return
        field = rng.choice(lists)
        below = getattr(message, field.name)
        if isinstance(below, Message):
            message = below
        elif field.message_type is not None and len(below) and rng.random() < 0.5:
            message = rng.choice(below)
        else:
            break
    if field.message_type is not None:
        item = rng.choice([b"", below[-1].SerializeToString() if len(below) else b""])
    else:
        item = rng.choice([b"", b"a", b"a.a"]) if isinstance(field.default_value, str | bytes) else b""
    is_number = field.message_type is None and field.type not in (
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
    )
    if is_number and field.type != FieldDescriptor.TYPE_FIXED64:
        content = rng.choice([b"\0", b"\1", b"\x7f"]) * count
        message.MergeFromString(varint(field.number << 3 | 2) + varint(len(content)) + content)
    elif not is_number:
        # at most some megabytes, which are compressed next
        count = min(count, (4 << 20) // (len(item) + 2))
        message.MergeFromString((varint(field.number << 3 | 2) + varint(len(item)) + item) * count)


def _types(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """Another type tree: deep, wide, or of other kinds, which may fit the streams in part."""
    types: list[Any] = []

    def grow(depth: int, room: int) -> int:
        number, kind = len(types), rng.choice([0, 1, 3, 4, 6, 7, 9, 10, 11, 12, 12, 13, 14, 15, 17, 18])
        children = {10: 1, 11: 2, 12: rng.choice([0, 1, 3, width]), 13: rng.choice([0, 1, 2, 120])}.get(
            kind, 0
        )
        if depth >= deepest or len(types) + room + children > most:
            kind, children = 4, 0
        node = pb.Type(kind=kind, maximum_length=rng.choice([0, 3, 255, 1 << 16]))
        if kind == 14:
            node.precision, node.scale = rng.choice([(0, 0), (10, 2), (38, 38)])
        types.append(node)
        for left in reversed(range(children)):
            node.subtypes.append(grow(depth + 1, room + left))
            if kind == 12:
                node.field_names.append(rng.choice(["a", "b", "a.a", f"f{left}"]))
        return number

    deepest, width, most = rng.choice([(3, 40, 3000), (140, 2, 2000), (149, 1, 10_000), (10, 6, 3000)])
    types.append(pb.Type(kind=12))
    for column in range(rng.choice([1, 5, 60])):
        types[0].subtypes.append(grow(1, 0))
        types[0].field_names.append(f"c{column}")

    def change(name: str, message: Any) -> None:
        if name == "footer":
            del message.types[:]
            message.types.extend(types)
        elif name == "stripe footer" and rng.random() < 0.7:
            missing = len(types) - len(message.columns)
            message.MergeFromString(rng.choice([b"\x12\0", b"\x12\2\x08\2"]) * max(missing, 0))

    return put_together(parts, codec, block, Hooks(message=change))


def _claims(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """Numbers of rows, row groups, entries, and lengths that nothing vouches for."""
    huge = [1 << n for n in (20, 24, 27, 30, 31, 33, 40, 61)]

    def change(name: str, message: Any) -> None:
        numbers = [value + rng.choice([-1, 0]) for value in rng.choices(huge, k=4)]
        if name == "footer":
            if rng.random() < 0.7:
                rng.choice(message.stripes).number_of_rows = numbers[0]
            if rng.random() < 0.5:
                message.row_index_stride = rng.choice([1, 7, numbers[1] & 0xFFFFFFFF])
        elif name == "stripe footer" and rng.random() < 0.5:
            rng.choice(message.columns).dictionary_size = numbers[2] & 0xFFFFFFFF
        elif name == "row index" and rng.random() < 0.3:
            entry = rng.choice(message.entry)
            if len(entry.positions):
                entry.positions[rng.randrange(len(entry.positions))] = rng.choice([0, 1, numbers[3]])

    return put_together(parts, codec, block, Hooks(message=change))


def _change_message(rng: random.Random, message: Message) -> None:
    """One field of a message or of one that is in it."""
    while True:
        present = [field for field, _ in message.ListFields()]
        fields: Sequence[Any] = present if present and rng.random() < 0.9 else list(message.DESCRIPTOR.fields)
        field: FieldDescriptor = rng.choice(fields)
        if field.type != FieldDescriptor.TYPE_MESSAGE or rng.random() < 0.1:
            break
        below = getattr(message, field.name)
        if isinstance(below, Message):
            message = below
        elif len(below):
            message = rng.choice(below)
        else:
            break
    if rng.random() < 0.1:
        message.ClearField(field.name)
        return
    value = getattr(message, field.name)
    if not isinstance(value, Message | int | float | str | bytes):
        _change_list(rng, value, field)
    elif not isinstance(value, Message):
        setattr(message, field.name, _changed(rng, value, field))


def _change_list(rng: random.Random, values: object, field: FieldDescriptor) -> None:
    items = list(values)  # type: ignore[call-overload]
    at = rng.randrange(len(items) + 1)
    match rng.randrange(5):
        case 0 if items:
            del items[at % len(items)]
        case 1 if items:
            items.insert(at, rng.choice(items))
        case 2 if len(items) > 1:
            rng.shuffle(items)
        case _ if field.type == FieldDescriptor.TYPE_MESSAGE:
            items = items[:at]
        case 3 if items:
            items[at % len(items)] = _changed(rng, items[at % len(items)], field)
        case _:
            blank: object = "" if field.type == FieldDescriptor.TYPE_STRING else 0
            items.insert(at, _changed(rng, blank, field))
    del values[:]  # type: ignore[attr-defined]
    values.extend(items)  # type: ignore[attr-defined]


def _changed(rng: random.Random, value: object, field: FieldDescriptor) -> object:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(
                ["", "x", "UTC", "Asia/Tokyo", "No/Where", "../x", "a.b", "𝄞" * 50, f"{value}{value}"]
            )
        case FieldDescriptor.TYPE_BYTES:
            return rng.choice([b"", b"\xff", rng.randbytes(9), rng.randbytes(64)])
        case FieldDescriptor.TYPE_BOOL:
            return not value
        case FieldDescriptor.TYPE_DOUBLE:
            return rng.choice([0.0, float("nan"), float("inf"), -1.5])
    old, (width, signed) = int(value), _WIDTHS[field.type]  # type: ignore[call-overload]
    near = [old + 1, old - 1, old * 2, old // 2, old ^ 1 << rng.randrange(width), old + 128]
    new = rng.choice([rng.choice(_EDGES), rng.choice(near)]) * (rng.choice([1, -1]) if signed else 1)
    new &= (1 << width) - 1
    return new - (1 << width) if signed and new >> (width - 1) else new


def _stream(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """The content of data streams, before it is compressed."""
    parts = parts.copy()
    for _ in _times(rng):
        stripe = rng.choice(parts.stripes)
        positions = [
            i for i, s in enumerate(stripe.footer.streams) if s.kind < StreamKind.ROW_INDEX and s.length
        ]
        if not positions:
            continue
        at = rng.choice(positions)
        stripe.streams[at] = _changed_stream(rng, stripe.streams[at], stripe.streams)
    return put_together(parts, codec, block)


def _lengths(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """Many lengths of one size each, none of them long: of a column that has some, and of all that are below it."""
    parts = parts.copy()
    stripe = rng.choice(parts.stripes)
    positions = {s.column: i for i, s in enumerate(stripe.footer.streams) if s.kind == StreamKind.LENGTH}
    nodes = [node for node in parts.schema.walk() if node.column in positions]
    if not nodes:
        return _stream(rng, parts, codec, block)
    claimed = stripe.num_rows
    for node in rng.choice(nodes).walk():
        if node.column not in positions or claimed > _MOST_CLAIMED:
            continue
        length = rng.choice([1, 3, 60, 255, 1000, 1000, 3000, 65_535])
        if rng.random() < 0.2:
            stripe.streams[positions[node.column]] = odd_patches(rng, rng.choice([2, 10, 512])) * 3
        else:
            run = b"\xc1\xff" + varint(length) + b"\0"
            stripe.streams[positions[node.column]] = run * (-(-claimed // 512) + rng.randrange(2))
        claimed *= length
    return put_together(parts, codec, block)


def _changed_stream(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    damaged = bytearray(data)
    at = rng.randrange(len(damaged)) if damaged else 0
    if rng.random() < 0.3:
        at = min(at, rng.randrange(4))
    match rng.randrange(11):
        case 0:
            del damaged[at:]
        case 1:
            del damaged[at : at + rng.randrange(1, 10)]
        case 2:
            damaged[at:at] = rng.randbytes(rng.randrange(1, 10))
        case 3:
            damaged[at : at + 9] = bytes([rng.choice([0, 0x7F, 0x80, 0xFF])]) * 9
        case 4:
            damaged = bytearray(rng.choice(others))
        case 5:
            kinds = [rng.randrange(4) for _ in range(rng.choice([1, 3, 20]))]
            damaged[at:] = runs_of(rng, kinds, signed=rng.random() < 0.5)[0]
        case 6:
            damaged[at:] = b"".join(odd_patches(rng, rng.choice([2, 10, 512])) for _ in _times(rng))
        case _ if damaged:
            for _ in _times(rng):
                damaged[rng.randrange(at, len(damaged))] = rng.choice(
                    [0, 0x7F, 0x80, 0xC1, 0xFF, rng.randrange(256)]
                )
    return bytes(damaged)


def _chunk(rng: random.Random, parts: FileParts, codec: int, block: int) -> bytes:
    """Chunks: their headers, their packed bytes, and content that is larger than a block."""
    codec = codec or rng.choice(CODECS[1:])
    wanted = rng.randrange(40)
    seen = [0]

    def change(chunk: bytes) -> bytes:
        seen[0] += 1
        if seen[0] - 1 != wanted:
            return chunk
        header, body = int.from_bytes(chunk[:3], "little"), bytearray(chunk[3:])
        match rng.randrange(8):
            case 0:
                header ^= 1
            case 1:
                header = (
                    rng.choice([0, 1, 2, 3, 0xFFFFFF, header + 2, header - 2, rng.getrandbits(24)]) & 0xFFFFFF
                )
            case 2:
                bomb = compressed(codec, bytes(rng.choice([block + 1, 4 * block, 1 << 20])))
                header, body = len(bomb) << 1, bytearray(bomb)
            case 3:
                header, body = rng.choice([0, 1]), bytearray()
            case 4:
                # another piece behind or before what is there, of lengths below zero or of nothing
                lengths = b"\x7f\xff" + b"\xff" * 4096
                other = compressed(codec, rng.choice([lengths, bytes(body), b"", rng.randbytes(20)]))
                body = bytearray(b"".join(rng.sample([bytes(body), other, b""], 3)))
                header = len(body) << 1
            case 5:
                nothing = compressed(codec, b"")
                empty = rng.choice([b"\1\0\0", (len(nothing) << 1).to_bytes(3, "little") + nothing])
                return rng.choice([empty + chunk, chunk + empty])
            case _ if body:
                for _ in _times(rng):
                    body[rng.randrange(len(body))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        return (header & 0xFFFFFF).to_bytes(3, "little") + body

    return put_together(parts, codec, block, Hooks(chunk=change))


#: Ways to damage a file, and how often each is chosen.
_WAYS: dict[Callable[..., Any], int] = {
    _bytes: 25,
    _shape: 10,
    _field: 30,
    _stream: 25,
    _lengths: 8,
    _many: 8,
    _types: 6,
    _claims: 12,
    _chunk: 12,
}
