"""Statements and predicates, one case per line of a fixture file: text => canonical text or error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from hindex.errors import StatementError
from hindex.sql import parse, parse_predicate

FIXTURES = Path(__file__).with_name("fixtures")
PARSERS: dict[str, Callable[[str], object]] = {"statements": parse, "predicates": parse_predicate}


def _cases() -> Iterator[ParameterSet]:
    for name in PARSERS:
        lines = (FIXTURES / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if line and not line.startswith("#"):
                text, expected = line.rsplit(" => ", 1)
                yield pytest.param(name, text, expected, id=f"{name}:{number}")


@pytest.mark.parametrize(("name", "text", "expected"), list(_cases()))
def test_case(name: str, text: str, expected: str) -> None:
    read = PARSERS[name]
    if expected.startswith("error: "):
        with pytest.raises(StatementError) as caught:
            read(text)
        assert str(caught.value).startswith(expected.removeprefix("error: "))
        return
    parsed = read(text)
    assert str(parsed) == expected
    assert read(expected) == parsed
