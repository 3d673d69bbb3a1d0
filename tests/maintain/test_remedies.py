"""The remedies that messages name do help."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import hindex
from hindex.errors import IndexNotFoundError, StoreError
from hindex.plan.reasons import Reason
from hindex.store.storage import write_remedy
from tests.maintain.conftest import ROWS, add_file
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, store_state

_ELSEWHERE = (
    "name another directory as the store: store= of connect(), --store of the command, or HINDEX_STORE"
)
_REFRESH = "REFRESH INDEX i ON {}"
_REBUILD = "ALTER INDEX i ON {} REBUILD"


def index_files(path: Path) -> list[Path]:
    return sorted((path / "_hindex").rglob("*.hidx"))


def damage(path: Path) -> None:
    file = index_files(path)[0]
    file.write_bytes(file.read_bytes()[:-20] + bytes(20))


def replace(path: Path) -> None:
    add_file(path / "p=1" / "x.orc", 10_000, ROWS // 2)


@pytest.mark.parametrize(
    ("reason", "change", "problem", "remedy"),
    [
        (Reason.NEW_FILE, lambda path: add_file(path / "p=1" / "y.orc", 90_000), "REFRESH INDEX", _REFRESH),
        (Reason.STALE_FILE, replace, "REFRESH INDEX", _REFRESH),
        (
            Reason.INDEX_MISSING,
            lambda path: index_files(path)[0].unlink(),
            "ALTER INDEX with REBUILD",
            _REBUILD,
        ),
        (Reason.CORRUPT, damage, "ALTER INDEX with REBUILD", _REBUILD),
    ],
    ids=["new file", "stale file", "index missing", "corrupt"],
)
def test_what_explain_says_helps(
    path: Path, reason: Reason, change: Callable[[Path], object], problem: str, remedy: str
) -> None:
    hx = LocalConnection()
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a)")
    change(path)
    scan = hx.table(str(path)).scan("a = 3", ["id"])
    explained = scan.explain()
    assert [note.reason for note in explained.notes] == [reason]
    assert f"; {problem} " in reason.sentence
    assert reason.sentence in explained.to_text()
    before = ids(scan)
    if remedy is _REBUILD:
        # a refresh looks at data files, which are as they were
        hx.sql(_REFRESH.format(f"'{path}'"))
        assert list(reasons(scan)) == [reason]
    hx.sql(remedy.format(f"'{path}'"))
    assert reasons(scan) == {}
    assert ids(scan) == before


def test_no_sentence_has_a_remedy_that_is_none() -> None:
    for reason in Reason:
        assert "build the index" not in reason.sentence


def test_a_refresh_without_indexes(path: Path, hx: LocalConnection) -> None:
    for dry_run in ("", " DRY RUN"):
        with raises(IndexNotFoundError):
            hx.sql(f"REFRESH INDEXES ON '{path}'{dry_run}")
    assert not (path / "_hindex").exists()


@pytest.mark.parametrize("given", ["parameter", "environment"])
def test_a_store_that_is_a_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    place = tmp_path / "some" / "file"
    place.parent.mkdir()
    place.write_text("in the way")
    if given == "environment":
        monkeypatch.setenv("HINDEX_STORE", str(place))
    table = hindex.connect(place if given == "parameter" else None).table(path)
    with pytest.raises(StoreError) as caught:
        table.create_index("i", "a")
    message = str(caught.value)
    assert message.startswith(f"cannot create '{place}")
    assert message.endswith(
        f": Not a directory; there is a file where a directory has to be: move it away, or {_ELSEWHERE}"
    )
    assert place.read_text() == "in the way"
    assert store_state(hindex.connect("").table(path)) == {}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOTDIR, "there is a file where a directory has to be: move it away"),
        (errno.ENOSPC, "make room there"),
        (errno.EDQUOT, "make room there"),
        (errno.EACCES, "grant access there"),
        (errno.EROFS, "grant access there"),
        (errno.EIO, "make room or grant access there"),
        (None, "make room or grant access there"),
    ],
)
def test_what_helps_where_a_store_cannot_be_written(number: int | None, expected: str) -> None:
    error = OSError("no reason") if number is None else OSError(number, os.strerror(number))
    assert write_remedy(error) == f"{expected}, or {_ELSEWHERE}"


def test_a_store_that_readers_would_take_for_data(path: Path, tmp_path: Path) -> None:
    """Spark would refuse the partitioned table ever after: nothing is written, and another place does."""
    before = sorted(path.rglob("*"))
    for deferred in (False, True):
        with pytest.raises(
            StoreError, match=r"is within the table .*; name a directory beside the table as the"
        ):
            LocalConnection(store=str(path / "idx")).table(str(path)).create_index(
                "i", "a", deferred=deferred
            )
    assert sorted(path.rglob("*")) == before
    for place in (path / "_idx", path / ".a" / "b", tmp_path / "table-idx"):
        table = LocalConnection(store=str(place)).table(str(path))
        table.create_index("i", "a")
        assert len(ids(table.scan("a = 3"))) == 3 * ROWS // 10
    # of a table without partitions, Spark passes over directories
    flat = LocalConnection(store=str(path / "p=1" / "idx")).table(str(path / "p=1"))
    flat.create_index("i", "a")
    assert len(ids(flat.scan("a = 3"))) == ROWS // 10
