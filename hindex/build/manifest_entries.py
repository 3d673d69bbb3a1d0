"""Convert the results of build tasks to manifest entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hindex.build.merge_parts import MergeTask, PartFile
from hindex.build.task import BuildTask
from hindex.index.column_stats import ColumnStats, decode_stripe_stats
from hindex.index.roaring import group_count
from hindex.proto import manifest_pb2 as pb
from hindex.store.manifest import FileEntry, IndexFileEntry


@dataclass(frozen=True, slots=True)
class BuiltData:
    """A data file that was indexed.

    :ivar entry: without index files where these are in parts.
    :ivar joins: what has to be put together.
    :ivar extents: for each of :attr:`joins`, the extents of the data file's stripes.
    """

    entry: FileEntry
    joins: tuple[MergeTask, ...] = ()
    extents: tuple[tuple[ColumnStats, ...], ...] = ()


def built_files(tasks: Sequence[BuildTask], table: pa.Table) -> list[BuiltData]:
    """Return what a build recorded for each indexed data file.

    :param tasks: one for each data file.
    :param table: rows as :func:`hindex.build.task.run_build_task` yields them.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["path"], []).append(row)
    found = [_built(task, sorted(rows[task.path], key=_stripe)) for task in tasks if task.path in rows]
    return [item for item in found if item is not None]


def merged_files(built: Sequence[BuiltData], table: pa.Table) -> list[FileEntry]:
    """The entries of data files whose parts are put together.

    :param table: rows as :func:`hindex.build.merge_parts.run_merge_task` yields them.
    """
    rows = {(row["data_file"], row["index_id"]): row for row in table.to_pylist()}
    entries = []
    for item in built:
        files = list(item.entry.index_files)
        for join, extents in zip(item.joins, item.extents, strict=True):
            row = rows[join.path, join.target.index_id]
            files.append(
                IndexFileEntry(row["index_id"], row["path"], row["length"], row["footer_checksum"], extents)
            )
        entries.append(replace(item.entry, index_files=tuple(files)))
    return entries


def _stripe(row: dict[str, Any]) -> int:
    stripe: int = row["stripe"]
    return stripe


def _built(task: BuildTask, rows: Sequence[dict[str, Any]]) -> BuiltData | None:
    # the last row of each task has the index files; no file has any where it lacks the columns
    ends = [row for row in rows if row["index_files"]]
    if not ends:
        return None
    stripe_rows = tuple(row["num_rows"] for row in rows if row["stripe"] >= 0)
    last = ends[-1]
    entry = FileEntry(
        path=task.path,
        length=task.length,
        mtime_ns=task.mtime_ns,
        tail_checksum=last["tail_checksum"],
        num_rows=sum(stripe_rows),
        stripe_rows=stripe_rows,
        schema=last["schema"],
        changed_ns=task.changed_ns,
        num_row_groups=sum(group_count(last["row_group_rows"], count) for count in stripe_rows),
    )
    if len(ends) == 1:
        files = (
            IndexFileEntry(
                index_id=item["index_id"],
                path=item["path"],
                length=item["length"],
                footer_checksum=item["footer_checksum"],
                stripe_stats=_extents(item["extents"], stripe_rows),
            )
            for item in last["index_files"]
        )
        return BuiltData(replace(entry, index_files=tuple(files)))
    targets = {target.index_id: target for target in task.targets}
    joins, extents = [], []
    for at, item in enumerate(last["index_files"]):
        files_of = [row["index_files"][at] for row in ends]
        target = targets[item["index_id"]]
        parts = tuple(
            PartFile(file["path"].rpartition("/")[2], file["length"], file["footer_checksum"])
            for file in files_of
        )
        joins.append(MergeTask(task.build_id, task.path, target, parts))
        found: list[ColumnStats] = []
        first = 0
        for file, row in zip(files_of, ends, strict=True):
            found += _extents(file["extents"], stripe_rows[first : row["stripe"] + 1])
            first = row["stripe"] + 1
        extents.append(tuple(found))
    return BuiltData(entry, tuple(joins), tuple(extents))


def _extents(data: bytes, stripe_rows: Sequence[int]) -> tuple[ColumnStats, ...]:
    return decode_stripe_stats(pb.StripeExtents.FromString(data), stripe_rows) if data else ()
