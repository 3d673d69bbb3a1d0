"""How much random and exhaustive tests try: few cases at every change, many in ``make nightly``."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence

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


def sampled(few: int) -> pytest.MarkDecorator:
    """Mark a test of which a few cases run at every change, evenly chosen; ``make nightly`` runs all.

    For cases that take long, and that take the same way through the code as others.
    """
    return pytest.mark.sampled(few)


def beyond_samples(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of tests marked by `sampled` that run only in ``make nightly``."""
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_test[item.nodeid.partition("[")[0]].append(item)
    beyond: set[pytest.Item] = set()
    for test_cases in by_test.values():
        marker = test_cases[0].get_closest_marker("sampled")
        if marker is not None and not IS_NIGHTLY:
            (few,) = marker.args
            chosen = {(2 * at + 1) * len(test_cases) // (2 * few) for at in range(few)}
            beyond.update(case for at, case in enumerate(test_cases) if at not in chosen)
    return beyond
