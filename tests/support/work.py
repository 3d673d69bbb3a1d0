"""The work of a scan, in counts: bytes, requests, chunks, row groups, index pages. No times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.index.index_file import IndexFileReader
from hindex.index.page_cache import shared_cache
from hindex.orc import OrcReader, ReadCounts
from hindex.orc.reader.file_cache import FILE_CACHE
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups
from hindex.store.metadata_copy import COPIES
from hindex.store.store import RECENT
from hindex.table import directory_tree


def forget() -> None:
    """Drop what this process keeps of manifests, index files and data files."""
    RECENT.clear()
    shared_cache().clear()
    FILE_CACHE.clear()
    COPIES.clear()


def scan_counts(scan: Scan) -> dict[str, int]:
    """Count the work of returning a scan's rows with empty caches, one stripe after the other.

    Returns:
        `hindex.orc.ReadCounts` summed over the data files; ``index_files`` opened, ``index_pages`` and ``index_bytes``
        read after their footers; ``rows`` that come out.
    """
    forget()
    tasks: list[ScanTaskReader] = []
    rows = 0
    with _opened() as indexes:
        plan = scan.plan()
        for task, answer in run_lookups(plan.tasks, every=True):
            if not tasks or tasks[-1] is not task:
                tasks.append(task)
            if len(answer.bounds.upper):
                rows += task.read(answer).num_rows if plan.columns else task.count(answer)
    total = {"rows": rows, **ReadCounts().as_dict()}
    for task in tasks:
        for name, count in task.reader.counts.as_dict().items():
            total[name] += count
    return total | {
        "index_files": len(indexes),
        "index_pages": sum(reader.pages_read for reader in indexes),
        "index_bytes": sum(reader.bytes_read for reader in indexes),
    }


@contextmanager
def _opened() -> Iterator[list[IndexFileReader]]:
    """The index files that are opened meanwhile."""
    index_files: list[IndexFileReader] = []
    real = IndexFileReader.__init__

    def noted(self: IndexFileReader, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        index_files.append(self)

    with mock.patch.object(IndexFileReader, "__init__", noted):
        yield index_files


def decoded(readers: list[OrcReader]) -> int:
    """Count the decoded columns: one for each row group, or for a whole stripe."""
    counts = [reader.counts for reader in readers]
    return sum(item.row_groups + item.whole_columns for item in counts)


def planned_rows(table: Table, where: str) -> int:
    """Rows that remain of files that are opened, before anything of them is read."""
    total = 0
    for task in table.scan(where).plan().tasks:
        with ScanTaskReader(task) as opened:
            total += sum(len(opened.look_up(stripe).bounds.upper) for stripe in opened.stripes)
    return total


def record_listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets each local directory that is listed from now on, relative to its table."""
    directories: list[str] = []
    real = directory_tree._scan

    def record(table: str, root: str, directory: str) -> directory_tree._DirectoryContent:
        directories.append(directory)
        return real(table, root, directory)

    monkeypatch.setattr(directory_tree, "_scan", record)
    return directories
