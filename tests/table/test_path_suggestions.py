"""Paths that may have been meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, cast

import pytest

from hindex.errors import TableNotFoundError
from hindex.table.listing import list_data_files
from hindex.table.location import suggest_path
from tests.support.messages import raises


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
    (tmp_path / "data" / "users" / "x.orc").write_bytes(b"ORC")
    monkeypatch.chdir(tmp_path)
    assert suggest_path(text) == meant
    if text and not text.startswith("/"):
        assert suggest_path(f"{tmp_path}/{text}") == (None if meant is None else f"{tmp_path}/{meant}")


@pytest.mark.parametrize(
    ("file", "content", "is_suggested"),
    [
        ("tables/x.orc", b"ORC...", True),
        ("tables/000000_0", b"ORC...", True),
        ("tables/p=1/q=2/x.orc", b"ORC...", True),
        ("tables/_p=1/x.orc", b"ORC...", True),
        ("tables/delta_1_1/bucket_00000", b"ORC...", True),
        ("tables/p=1/base_5/bucket_00000", b"ORC...", True),
        ("tables", b"ORC...", True),
        ("tables/a.csv", b"1,2", False),
        ("tables/x.parquet", b"PAR1", False),
        ("tables/x.orc", b"", False),
        ("tables/_x.orc", b"ORC...", False),
        ("tables/below/x.orc", b"ORC...", False),
        ("tables", b"text", False),
    ],
)
def test_only_orc_tables_are_suggested(tmp_path: Path, file: str, content: bytes, is_suggested: bool) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    (tmp_path / "table_").mkdir()  # nearer, and empty
    assert suggest_path(f"{tmp_path}/table") == (f"{tmp_path}/tables" if is_suggested else None)


def test_few_files_are_opened_to_recognize_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2000):
        (tmp_path / "tables" / f"p={number}").mkdir(parents=True)
        (tmp_path / "tables" / f"p={number}" / "x.csv").touch()
    opened: list[Path] = []
    real = Path.open

    def count(path: Path, mode: str) -> IO[bytes]:
        opened.append(path)
        return cast("IO[bytes]", real(path, mode))

    monkeypatch.setattr(Path, "open", count)
    assert suggest_path(f"{tmp_path}/table") is None
    assert 0 < len(opened) <= 100


def test_names_that_cannot_be_shown_are_not_told(tmp_path: Path) -> None:
    for name in (b"li\nne", b"tab\xffle", b"\x1b[31mred"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"ORC")
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
    ("written", "expected"),
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
    written: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "users").mkdir(parents=True)
    (tmp_path / "data" / "users" / "x.orc").write_bytes(b"ORC")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(TableNotFoundError) as caught:
        list_data_files(written)
    _, _, remedy = str(caught.value).partition(
        f"no such file or directory: {os.path.realpath(written[written.find(':d') + 1 :])}"
    )
    assert remedy.startswith(expected.format(tmp_path))
    assert bool(remedy) == bool(expected)
    # of a table of a catalog, whose place is gone
    with raises(TableNotFoundError):
        list_data_files("/no/such/place", name="db.events")
