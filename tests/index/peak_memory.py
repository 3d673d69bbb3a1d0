"""Run by a test in a process of its own: how much memory building a BITMAP index takes, beside the column."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from hindex.index.bitmap import BitmapBuilder
from hindex.orc.metadata.types import Kind, OrcType

ROWS = 1_500_000
rng = np.random.default_rng(1)


def decimals() -> pa.Array:
    words = np.zeros(2 * ROWS, np.int64)
    words[::2] = rng.integers(0, 1 << 60, ROWS)
    return pa.Array.from_buffers(pa.decimal128(38, 2), ROWS, [None, pa.py_buffer(words.tobytes())])


COLUMNS: dict[str, tuple[OrcType, Callable[[], pa.Array]]] = {
    "int, some thousands": (
        OrcType(Kind.INT),
        lambda: pa.array(rng.integers(0, 2500, ROWS).astype(np.int32)),
    ),
    "int, nearly unique": (
        OrcType(Kind.INT),
        lambda: pa.array(rng.integers(0, 1 << 31, ROWS).astype(np.int32)),
    ),
    "bigint, unique": (OrcType(Kind.LONG), lambda: pa.array(rng.permutation(ROWS))),
    "double": (OrcType(Kind.DOUBLE), lambda: pa.array(rng.random(ROWS))),
    "string, few": (
        OrcType(Kind.STRING),
        lambda: pa.array(np.array(["MAIL", "SHIP", "AIR", "TRUCK"])[rng.integers(0, 4, ROWS)]),
    ),
    "string, unique": (
        OrcType(Kind.STRING),
        lambda: pa.array([f"Customer#{n:09}" for n in rng.permutation(ROWS)]),
    ),
    "decimal(38,2)": (OrcType(Kind.DECIMAL, precision=38, scale=2), decimals),
}


class Nowhere:
    def write(self, data: bytes, /) -> None:
        """Forget it."""


def status(field: str) -> int:
    """A size of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ValueError(field)


def main(name: str) -> None:
    data_type, make = COLUMNS[name]
    array = make()
    BitmapBuilder(Nowhere(), data_type).add_stripe(array.slice(0, 1000))
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
    before = status("VmRSS")
    builder = BitmapBuilder(Nowhere(), data_type)
    builder.add_stripe(array)
    builder.finish()
    print((status("VmHWM") - before + array.nbytes) / array.nbytes)


if __name__ == "__main__":
    main(sys.argv[1])
