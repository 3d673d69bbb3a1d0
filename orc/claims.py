"""How many values a file says that it has, beside the bytes that could hold them.

Nothing in the format bounds the rows of a stripe or the elements of a list: run-length encoding and compression put
any number of values into a few bytes. So where a claim is great and the bytes are few, the last value is looked for
before room is made for all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import OrcType

#: For so many values there is always room.
_ROOM = 1 << 20

#: More values for each stored byte than this are doubtful.
_PER_BYTE = 64


#: No string is so long: sums of lengths below it stay far from 64 bits.
LONGEST = 1 << 40

#: Bytes of all strings of one array.
MOST_BYTES = (1 << 31) - 1

#: More bytes for each value no writer's runs take, and so many there may always be.
_RUN_BYTES = 32
_RUN_ROOM = 1 << 20


def most_run_bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bytes after which a stream is not looked at any further for so many integers, or values as small."""
    return np.maximum(_RUN_BYTES * values, _RUN_ROOM)


def is_doubtful(stripe: Stripe, of: OrcType, values: int) -> bool:
    """Whether a column's last value should be looked for before there is room made for all.

    :raises OrcError: if there is no stream that could hold any.
    """
    if values <= _ROOM:
        return False
    columns = {node.column for node in of.walk()}
    held = sum(
        stream.length
        for (column, kind), stream in stripe.streams.items()
        if column in columns and kind < StreamKind.ROW_INDEX
    )
    if not held:
        raise OrcError(f"there should be {values} values and there is no stream of them: the file is corrupt")
    return values > _PER_BYTE * held
