"""Paths that may have been meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hindex.table.near import near_path


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("data/user", "data/users"),
        ("dat/users", "data/users"),
        ("DATA/users/x.orc", "data/users/x.orc"),
        ("data/users/y.orc", "data/users/x.orc"),
        ("data/users/x.orc/y", None),  # below a file
        ("data/_hinde", None),  # hidden
        ("dta/usrs", None),  # more than one name differs
        ("dat/nothing", None),
        ("elsewhere", None),
        ("/no/such", None),
        ("", None),
        ("a" * 300, None),
        ("a\0b", None),
    ],
)
def test_near_path(text: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "users").mkdir(parents=True)
    (tmp_path / "data" / "_hindex").mkdir()
    (tmp_path / "data" / "users" / "x.orc").touch()
    monkeypatch.chdir(tmp_path)
    assert near_path(text) == meant
    if text and not text.startswith("/"):
        assert near_path(f"{tmp_path}/{text}") == (None if meant is None else f"{tmp_path}/{meant}")


def test_names_that_cannot_be_shown_are_not_told(tmp_path: Path) -> None:
    for name in (b"li\nne", b"tab\xffle", b"\x1b[31mred"):
        (tmp_path / os.fsdecode(name)).mkdir()
    for text in ("li-ne", "table", "[31mred"):
        assert near_path(f"{tmp_path}/{text}") is None


def test_few_names_of_a_large_directory_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a table have long names that are much alike: ten thousand of them took seconds."""
    for number in range(1200):
        (tmp_path / f"part-{number:05d}.orc").touch()
    compared: list[int] = []

    def count(wrong: str, names: list[str], most: int) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr("hindex.table.near.closest", count)
    assert near_path(f"{tmp_path}/part-x.orc") is None
    assert compared == [1000]
