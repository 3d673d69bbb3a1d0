"""The number of fields of protobuf messages, against protobuf itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hindex.orc import kernel
from hindex.orc.metadata.sections import _kinds, is_repeated
from hindex.proto import orc_metadata_pb2 as pb
from tests.support.messages import raises

SECTIONS: list[type[Message]] = [pb.Footer, pb.Metadata, pb.StripeFooter, pb.RowIndex, pb.BloomFilterIndex]
NO_LIMIT = 1 << 40


def fill(message: Message, chance: random.Random, depth: int = 5) -> Message:
    """Set fields by chance."""
    for field in message.DESCRIPTOR.fields:
        if depth < 5 and chance.random() < 0.3:
            continue
        is_list = is_repeated(field)
        for _ in range(chance.choice([1, 2, 40]) if is_list and depth > 3 else 1):
            if field.message_type is not None:
                if depth:
                    below = getattr(message, field.name)
                    fill(below.add() if is_list else below, chance, depth - 1)
                continue
            value = {
                FieldDescriptor.TYPE_STRING: "x" * chance.choice([0, 1, 200]),
                FieldDescriptor.TYPE_BYTES: b"\xff" * chance.choice([0, 1, 200]),
                FieldDescriptor.TYPE_BOOL: True,
                FieldDescriptor.TYPE_DOUBLE: 1.5,
            }.get(field.type, chance.choice([0, 1, 127, 128, (1 << 31) - 1]))
            if is_list:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def fields_of(message: Message) -> int:
    count = 0
    for field, value in message.ListFields():
        values: list[Any] = list(value) if is_repeated(field) else [value]
        # a packed list is one field
        count += len(values) + field.GetOptions().packed
        count += sum(fields_of(item) for item in values if isinstance(item, Message))
    return count


def count(section: type[Message], data: bytes, limit: int = NO_LIMIT) -> int:
    return kernel.count_fields(np.frombuffer(data, np.uint8), _kinds(section.DESCRIPTOR), limit)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_fields_of_messages(section: type[Message], seed: int) -> None:
    message = fill(section(), random.Random(seed))
    data = message.SerializeToString()
    expected = fields_of(message)
    assert count(section, data) == expected
    assert expected
    # unknown fields count, too: of a varint, four bytes, eight bytes, a string
    unknown = b"\xf8\x07\x01\xfd\x07abcd\xf9\x07abcdefgh\xfa\x07\x02ab"
    section.FromString(data + unknown)
    assert count(section, data + unknown) == expected + 4
    assert expected // 2 < count(section, data, expected // 2) <= expected


@pytest.mark.parametrize(
    "data",
    [
        b"\x22",  # a type without a length
        b"\x22\x05ab",  # longer than the message
        b"\x22\x02\x1a\x05abcde",  # longer than the message that it lies in
        b"\x09abc",  # eight bytes
        b"\x0dabc",  # four
        b"\x80" * 11,
        b"\x0b\x0c",  # a group
        b"\x0e\x00",  # an unknown kind of field
    ],
)
def test_malformed_messages(data: bytes) -> None:
    assert count(pb.Footer, data) == -1


def test_numbers_in_packed_lists() -> None:
    numbers = [1, 300, 1 << 40]
    assert count(pb.RowIndexEntry, pb.RowIndexEntry(positions=numbers).SerializeToString()) == 4
    # as fields of their own
    assert count(pb.RowIndexEntry, b"\x08\x01\x08\x02") == 2
    assert count(pb.BloomFilter, b"\x12\x10" + bytes(16)) == 3


def test_messages_far_within_each_other() -> None:
    kinds = np.array([[0, 1], [0, 1]])
    data = b""
    for _ in range(15):
        data = bytes([1 << 3 | 2, len(data)]) + data
    assert kernel.count_fields(np.frombuffer(data, np.uint8), kinds, NO_LIMIT) == 15
    data = bytes([1 << 3 | 2, len(data)]) + data
    assert kernel.count_fields(np.frombuffer(data, np.uint8), kinds, NO_LIMIT) == -1


def test_kinds_that_do_not_exist() -> None:
    for kinds in (np.zeros((0, 1), np.int64), np.array([[0, 1]])):
        with raises(ValueError):
            kernel.count_fields(np.zeros(1, np.uint8), kinds, NO_LIMIT)
