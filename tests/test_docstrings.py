"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"hindex": "hindex", "orc": "hindex.orc", "sql": "hindex.sql"}
MODULES = sorted(
    ".".join((PACKAGES[package], *path.relative_to(ROOT / package).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_their_results(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed
