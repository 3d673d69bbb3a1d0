"""CREATE INDEX ... DRY RUN: what a build would read, and about how large the index would be. Starts no Spark."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hindex.build.job import BuildPlan
from hindex.index.index_type import Level, file_index_type, index_type
from hindex.maintain.results import BuildEstimate
from hindex.orc.metadata.types import OrcType
from hindex.store.manifest import IndexEntry
from hindex.store.snapshot import FileView, Snapshot
from hindex.table.file_schema import bind_paths
from hindex.table.transactional import open_data_file

#: Files of which one stripe is read, spread evenly over those that a build would read.
SAMPLED_FILES = 4


@dataclass(frozen=True, slots=True)
class _Sample:
    """One stripe: its rows, the bytes of the column's streams, and the bytes that an index on it would take."""

    rows: int
    read_bytes: int
    index_bytes: int


def estimate_build(table: str, snapshot: Snapshot, entry: IndexEntry, plan: BuildPlan) -> BuildEstimate:
    """Estimate a build: the bytes to read exactly, the bytes to write from a sample of stripes.

    :raises OrcError: if a sampled file cannot be read.
    """
    wanted = plan.data_files
    views = [view for view in snapshot.files if view.file.path in wanted]
    rows = sum(view.num_rows for view in views)
    filled = [view for view in views if view.num_rows]
    if len(filled) > SAMPLED_FILES:
        filled = [filled[at * len(filled) // SAMPLED_FILES] for at in range(SAMPLED_FILES)]
    binding = tuple(item.name for item in snapshot.schema.data_columns)
    samples = [_sample(view, turn, entry, binding) for turn, view in enumerate(filled)]
    sampled = sum(sample.rows for sample in samples)
    scale = rows / sampled if sampled else 0.0
    return BuildEstimate(
        index=entry.name,
        table=table,
        column=entry.column,
        type=entry.type,
        files=len(views),
        stripes=sum(view.num_stripes for view in views),
        rows=rows,
        read_bytes=round(scale * sum(sample.read_bytes for sample in samples)),
        index_bytes=round(scale * sum(sample.index_bytes for sample in samples)),
        sampled_stripes=len(samples),
    )


def _sample(view: FileView, turn: int, entry: IndexEntry, binding: tuple[str, ...]) -> _Sample:
    acid = view.file.acid
    with open_data_file(view.file.uri, acid) as reader:
        schema, transactional = reader.tail.schema, acid is not None
        column = bind_paths(binding, schema, [entry.column], transactional=transactional)[entry.column]
        # the last stripe of a file is often a small one, so not always that, nor always the first
        number = turn % max(len(reader.stripes) - 1, 1)
        values = reader.read_stripe(number, [column.path]).column(0)
        return _Sample(
            rows=len(values),
            read_bytes=reader.stripe(number).data_length(column.type.column),
            index_bytes=_index_bytes(entry, column.type, values, reader.tail.row_index_stride),
        )


def _index_bytes(entry: IndexEntry, data_type: OrcType, values: pa.Array, row_group_rows: int) -> int:
    """The length of an index on one stripe: built in memory where that can be done for a stripe alone."""
    kind = index_type(entry.type)
    if Level.STRIPE not in kind.levels:
        return kind.estimate_bytes(data_type, len(values), pc.count_distinct(values).as_py())
    builder = file_index_type(entry.type).builder(
        io.BytesIO(), data_type, properties=dict(entry.properties), row_group_rows=row_group_rows
    )
    builder.add_stripe(values)
    return builder.finish().length
