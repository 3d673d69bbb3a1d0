"""Arithmetic on runs of unequal length."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from hindex.orc.encoding.buffers import begins_of


def test_begins_are_the_first_of_equal_neighbours(rng: np.random.Generator) -> None:
    for length in (0, 1, 2, 50):
        values = rng.integers(-1, 2, length)
        expected = [i == 0 for _, equal in groupby(values.tolist()) for i, _ in enumerate(equal)]
        assert begins_of(values).tolist() == expected
