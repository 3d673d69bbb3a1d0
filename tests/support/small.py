"""Small tables whose rows are told by plain Python."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.orc.io import source
from hindex.plan.reasons import Reason
from hindex.store.store import Store
from tests.support.writers import write_pyarrow

#: An mtime that no test's files have by themselves, in nanoseconds.
OLD = 1_000_000_000 * 10**9

#: Rows of each of the two files of the table that tests of change and damage share; its row i has a = i % 10.
ROWS = 3000
WHERE = "a IN (3, 4)"

#: Values of 500 rows of which those of each 100 lie apart from the others, each once; and the same with the tenth and
#: one of the third hundred exchanged: two files of them have the same length, and the same statistics in their tails.
APART = [1000 + 100 * (i // 100) + i * 37 % 100 for i in range(500)]
EXCHANGED = [APART[{10: 250, 250: 10}.get(i, i)] for i in range(500)]


def expected(start: int = 0, stop: int = 2 * ROWS) -> list[int]:
    """The ids of that table that `WHERE` keeps, of those in a range."""
    return [i for i in range(start, stop) if i % 10 in (3, 4)]


def write_rows(
    path: Path, first_id: int, a: Sequence[int | None], s: Sequence[str | None] | None = None
) -> Path:
    """A file of columns ``id``, ``a`` int and ``s`` string, uncompressed, several stripes where it is long."""
    texts = [None if value is None else f"s{value}" for value in a] if s is None else s
    columns = {
        "id": pa.array(range(first_id, first_id + len(a)), pa.int64()),
        "a": pa.array(a, pa.int32()),
        "s": pa.array(texts, pa.string()),
    }
    write_pyarrow(path, pa.table(columns), "none", stripe=4096, stride=100)
    return path


def write_columns(path: Path, columns: Mapping[str, pa.Array], **options: Any) -> Path:
    """A file of any columns."""
    write_pyarrow(path, pa.table(dict(columns)), **options)
    return path


def keep_stat(path: Path, change: Callable[[], object]) -> None:
    """Run a change of a file and set its old mtime again; its length must not change."""
    before = path.stat()
    change()
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def deny_access(patch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Let these files be opened by nobody, root included."""
    real, denied = os.open, {str(path) for path in paths}

    def open_(path: str | os.PathLike[str], *arguments: Any, **options: Any) -> int:
        if os.fspath(path) in denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return real(path, *arguments, **options)

    class File(io.FileIO):
        def __init__(self, path: str) -> None:
            os.close(os.open(path, os.O_RDONLY))
            super().__init__(path)

    patch.setattr(os, "open", open_)
    patch.setattr(source, "io", SimpleNamespace(FileIO=File))


def scan_of(path: Path, where: str) -> Scan:
    """A scan of the ids that a predicate keeps."""
    return hindex.connect().table(str(path)).scan(where, ["id"])


def ids(scan: Scan | QueryResult) -> list[int]:
    """The ids of a scan's or a query's rows, in order; counting them gives the same number."""
    row_ids: list[int] = scan.to_arrow().column("id").to_pylist()
    assert scan.count() == len(row_ids)
    return row_ids


def candidates(scan: Scan) -> int:
    """Return how many rows the indexes leave."""
    rows = scan.explain().rows
    assert rows is not None
    assert rows.kept is not None
    return rows.kept


def reasons(scan: Scan) -> dict[Reason, list[str]]:
    """Return the subjects that EXPLAIN lists as not used, by reason."""
    subjects: dict[Reason, list[str]] = {}
    for note in scan.explain().notes:
        subjects.setdefault(note.reason, []).append(note.subject)
    return subjects


def store_state(table: Table) -> dict[str, bytes]:
    """Every file of the store beside a table with its content."""
    root = Path(Store.for_table(table.uri).root)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
