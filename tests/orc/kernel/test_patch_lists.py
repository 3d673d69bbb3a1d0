"""Patch lists that no writer makes mean what they mean in pyarrow."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.orc

from hindex.orc import kernel
from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.parts import put_together, take_apart
from tests.orc.kernel.segments import as_ints
from tests.support.rle_v2 import odd_patches

ROWS = 512


def test_random_lists(rng: np.random.Generator) -> None:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": pa.array(range(ROWS))}), sink, compression="uncompressed")
    parts = take_apart(sink.getvalue().to_pybytes())
    stripe = parts.stripes[0]
    place = [(s.column, s.kind) for s in stripe.footer.streams].index((1, StreamKind.DATA))
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        data, total = b"", 0
        while total < ROWS:
            count = min(chance.choice([1, 2, 7, 40, 300]), ROWS - total)
            data += odd_patches(chance, count)
            total += count
        stripe.streams[place] = data
        expected = pa.orc.ORCFile(io.BytesIO(put_together(parts))).read().column("c").to_pylist()
        for wanted in (None, sorted(chance.sample(range(ROWS), 20))):
            out = np.zeros(ROWS if wanted is None else len(wanted), np.int64)
            positions = None if wanted is None else as_ints(wanted)
            result = kernel.decode_integers(
                np.frombuffer(data, np.uint8),
                as_ints([0]),
                as_ints([len(data)]),
                None,
                as_ints([0, len(out)]),
                positions,
                out,
                True,
                True,
            )
            assert result == 0
            assert out.tolist() == [expected[row] for row in wanted or range(ROWS)]
