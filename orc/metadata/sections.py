"""Parse sections of a file's metadata with limited memory.

A protobuf message takes more memory than its bytes: a message field of two bytes takes up to 130, and a chunk may
decompress to any size. So a section is decompressed up to a limit, and its fields are counted before it is parsed.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hindex.errors import OrcError
from hindex.orc import kernel
from hindex.orc.codec import Decompressor

#: A section with more decompressed bytes is refused.
MAX_BYTES = 1 << 30

#: A section may have so many bytes, or so many times its stored bytes. The footers of 10,000 columns have less
#: than 1 MiB. The limit of zlib is a ratio of 1,032; of the sections above 16 MiB, only filters and statistics
#: without values come near to it.
_FREE_BYTES = 16 << 20
_MAX_RATIO = 512

#: A section may have so many fields, or so many for each stored byte. 10,000 columns in 10,000 stripes have
#: 200,000 fields in the footer, 5 for each stored byte; they take at most 30 MiB.
_FREE_FIELDS = 1 << 18
_FIELDS_PER_BYTE = 16

#: The bytes of numbers in packed lists; numbers of other types are varints.
_WIDTHS = {
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
    FieldDescriptor.TYPE_FLOAT: 4,
}
_STRINGS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)

Section = TypeVar("Section", bound=Message)


def parse_section(
    section: type[Section], data: memoryview, decompressor: Decompressor, name: str, *, min_fields: int = 0
) -> tuple[Section, int]:
    """Decompress and parse a section.

    Args:
        data: its stored bytes.
        name: the section, for messages, such as "the stripe footer".
        min_fields: a number of fields that is always allowed, however few bytes are stored.

    Returns:
        the message, and the number of its fields, including those of nested messages.

    Raises:
        OrcError: if it is corrupt, or has too many bytes or fields for its stored bytes.
    """
    max_bytes = max(_FREE_BYTES, _MAX_RATIO * len(data), min_fields)
    content = decompressor.decompress_all(data, min(max_bytes, MAX_BYTES))
    max_fields = max(_FREE_FIELDS, _FIELDS_PER_BYTE * len(data), min_fields)
    fields = kernel.count_fields(np.frombuffer(content, np.uint8), _kinds(section.DESCRIPTOR), max_fields)
    if fields > max_fields:
        raise OrcError(f"{name} is corrupt: it has more than {max_fields} fields in {len(data)} stored bytes")
    try:
        if fields >= 0:
            return section.FromString(content), fields
    except DecodeError as error:
        raise OrcError(f"{name} is corrupt: {error}") from error
    raise OrcError(f"{name} is corrupt: it is not a protobuf message")


def is_repeated(field: object) -> bool:
    """Return True if a field's descriptor is that of a list."""
    # each version of protobuf has one of the two attributes
    is_list: bool | None = getattr(field, "is_repeated", None)
    if is_list is None:
        is_list = getattr(field, "label") == FieldDescriptor.LABEL_REPEATED  # noqa: B009 newer types lack it
    return is_list


@cache
def _kinds(descriptor: Descriptor) -> npt.NDArray[np.int64]:
    """Tabulate a message's fields for `kernel.count_fields`."""
    descriptors = [descriptor]
    fields: list[tuple[int, int, int]] = []
    for kind, item in enumerate(descriptors):
        for field in item.fields:
            below = field.message_type
            if below is not None:
                if below not in descriptors:
                    descriptors.append(below)
                fields.append((kind, field.number, descriptors.index(below)))
            elif is_repeated(field) and field.type not in _STRINGS:
                fields.append((kind, field.number, -_WIDTHS.get(field.type, 1)))
    kinds = np.zeros((len(descriptors), 1 + max(number for _, number, _ in fields)), np.int64)
    for kind, number, value in fields:
        kinds[kind, number] = value
    return kinds
