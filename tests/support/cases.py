"""How much random and exhaustive tests try: few cases at every change, many in ``make nightly``."""

from __future__ import annotations

import os

import pytest

#: The seed of random tests: fixed, so that runs have the same cases; ``make nightly`` gives a fresh one.
SEED = int(os.environ.get("HINDEX_TEST_SEED", "0"))
#: True in ``make nightly``, and in the programs that its tests start.
IS_NIGHTLY = "HINDEX_NIGHTLY" in os.environ
#: For tests that take long and rarely fail where the others pass.
nightly = pytest.mark.skipif(not IS_NIGHTLY, reason="runs in make nightly")


def cases(few: int, many: int) -> int:
    """Return the number of cases to try: few or, at night, many. ``HINDEX_CASES`` overrides both."""
    return int(os.environ.get("HINDEX_CASES", many if IS_NIGHTLY else few))
