"""How many values a file says that it has, beside the bytes that could hold them.

Nothing in the format bounds the rows of a stripe or the elements of a list: run-length encoding and compression put
any number of values into a few bytes. So where a claim is great and the bytes are few, the last value is looked for
before room is made for all.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.stripe import Stripe
from hindex.orc.types import OrcType

#: For so many values, or entries of a dictionary, there is always room.
_VALUES = 1 << 20

#: More of them for each stored byte than this are doubtful.
_PER_BYTE = 64

#: No string is so long: sums of lengths below it stay far from 64 bits.
LONGEST = 1 << 40

#: Bytes of all strings of one array.
MOST_BYTES = (1 << 31) - 1

#: More bytes for each value no writer's runs take, and so many there may always be.
_BYTES_PER_VALUE = 32
_LEAST_BYTES = 1 << 20


def most_run_bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bytes after which a stream is not looked at any further for so many integers, or values as small."""
    return np.maximum(_BYTES_PER_VALUE * values, _LEAST_BYTES)


def is_doubtful(stripe: Stripe, nodes: Iterable[OrcType], values: int) -> bool:
    """Whether a column's last value should be looked for before there is room made for all.

    :param nodes: of the column, and those above it whose nulls are values of it, too.
    :raises OrcError: if there is no stream that could hold any.
    """
    if values <= _VALUES:
        return False
    held = sum(stripe.data_length(node.column) for node in nodes)
    if not held:
        raise OrcError(f"there should be {values} values and there is no stream of them: the file is corrupt")
    return values > _PER_BYTE * held


def check_dictionary(entries: int, stored: int) -> None:
    """Refuse a dictionary of more entries than ``stored`` bytes of its column hold.

    As no two of them are the same, writers need some bytes for each, however well they are compressed.
    """
    if entries > max(_VALUES, _PER_BYTE * stored):
        raise OrcError(
            f"there should be {entries} entries of a dictionary and its column has {stored} bytes: the file is corrupt"
        )


def dictionary_bytes(lengths: npt.NDArray[np.int64]) -> int | None:
    """How many bytes a dictionary's entries take; None where a length is negative or absurdly large."""
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) >= LONGEST):
        return None
    return int(lengths.sum())


def values_bytes(codes: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> int:
    """How many bytes values take that are entries of a dictionary; more than ``MOST_BYTES`` is not exact.

    :raises OrcError: if there is no such entry.
    """
    if not len(codes):
        return 0
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= len(lengths):
        raise OrcError(f"a value is entry {high if low >= 0 else low} of a dictionary of {len(lengths)}")
    return int(np.bincount(codes, minlength=len(lengths)).dot(np.minimum(lengths, MOST_BYTES + 1)))
