"""Paths that may have been meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hindex.errors import TableNotFoundError
from hindex.table.listing import list_data_files
from hindex.table.location import suggest_path


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
    assert suggest_path(text) == meant
    if text and not text.startswith("/"):
        assert suggest_path(f"{tmp_path}/{text}") == (None if meant is None else f"{tmp_path}/{meant}")


def test_names_that_cannot_be_shown_are_not_told(tmp_path: Path) -> None:
    for name in (b"li\nne", b"tab\xffle", b"\x1b[31mred"):
        (tmp_path / os.fsdecode(name)).mkdir()
    for text in ("li-ne", "table", "[31mred"):
        assert suggest_path(f"{tmp_path}/{text}") is None


def test_few_names_of_a_large_directory_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a table have long names that are much alike: ten thousand of them took seconds."""
    for number in range(1200):
        (tmp_path / f"part-{number:05d}.orc").touch()
    compared: list[int] = []

    def count(wrong: str, names: list[str], most: int) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr("hindex.table.location.nearest_names", count)
    assert suggest_path(f"{tmp_path}/part-x.orc") is None
    assert compared == [1000]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("data/user", "; did you mean '{}/data/users'?"),
        ("~/data", "; did you mean '{}/data'? a ~ is not expanded"),
        ("~/nothing", ""),
        ("orc.`data/users`", "; write the path alone: 'data/users'"),
        ("data/users/*.orc", "; a pattern is not a table: name the directory of its files, or one file"),
        ("s3:/bucket/t", "; a URI has two slashes: 's3://bucket/t'"),
        ("/no/such", ""),
        ("no such", ""),
        ("db.events", "; a table of Spark's catalog is named without quotes in SQL, and needs a session: "),
        ("`db`.events", "; a table of Spark's catalog is named without quotes in SQL, and needs a session: "),
        ("file:db.events", ""),
    ],
)
def test_what_may_have_been_meant(
    written: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "users").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(TableNotFoundError) as caught:
        list_data_files(written)
    _, _, remedy = str(caught.value).partition(
        f"no such file or directory: {os.path.realpath(written[written.find(':d') + 1 :])}"
    )
    assert remedy.startswith(told.format(tmp_path))
    assert bool(remedy) == bool(told)
    # of a table of a catalog, whose place is gone
    with pytest.raises(TableNotFoundError, match=r"no such file or directory: /no/such/place$"):
        list_data_files("/no/such/place", name="db.events")
