"""Tests that are marked ``sampled`` run with a few of their cases, the same in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cases

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", range(7))
def test_sampled(n): pass

@pytest.mark.parametrize("n", range(3))
def test_all(n): pass

@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", ["only"])
def test_one(n): pass
"""


@pytest.mark.parametrize(
    ("is_nightly", "sampled"), [(False, ["1", "5"]), (True, ["0", "1", "2", "3", "4", "5", "6"])]
)
def test_few_cases_run(
    is_nightly: bool, sampled: list[str], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "IS_NIGHTLY", is_nightly)
    pytester.makeini("[pytest]\nmarkers = sampled")
    items, _ = pytester.inline_genitems(pytester.makepyfile(TESTS), "-p", "no:cacheprovider")
    beyond = cases.beyond_samples(items)
    remaining = [Path(item.nodeid).name.partition("::")[2] for item in items if item not in beyond]
    wanted = [f"test_sampled[{n}]" for n in sampled]
    assert remaining == [*wanted, *(f"test_all[{n}]" for n in range(3)), "test_one[only]"]
