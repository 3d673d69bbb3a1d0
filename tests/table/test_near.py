"""Paths that may have been meant."""

from __future__ import annotations

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
