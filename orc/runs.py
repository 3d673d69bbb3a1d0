"""Where the last values of a row group end that stand in runs behind the next one's position."""

from __future__ import annotations

import enum

from hindex.errors import OrcError
from hindex.orc.encoding.rle_v2.chain import follow

#: The longest run of any integer encoding, in bytes: 512 values of 8 bytes, a header and a full patch list.
MAX_RUN_LENGTH = 512 * 8 + 4 + 8 + 32 * 16


class Runs(enum.Enum):
    """How values are encoded that a row group's position may lie in the midst of."""

    BITS = "booleans"
    BYTES = "bytes"
    INTEGERS_V1 = "integers, version 1"
    INTEGERS_V2 = "integers, version 2"

    def end(self, data: memoryview, at: int, values: int) -> int | None:
        """Where the runs end that hold some values from a byte of a chunk's content on.

        :param data: the content, and a byte more.
        :returns: None where that is not known, or not within the content.
        """
        limit = len(data) - 1
        if self is Runs.INTEGERS_V1:
            return None
        if self is Runs.INTEGERS_V2:
            try:
                return follow(data, at, limit, values, [])
            except OrcError:
                # who decodes the values will tell if the stream is corrupt
                return None
        missing = (values + 7) // 8 if self is Runs.BITS else values
        while missing > 0 and at < limit:
            control = data[at]
            missing -= control + 3 if control < 128 else 256 - control
            at += 2 if control < 128 else 257 - control
        return at if missing <= 0 and at <= limit else None
