"""pyarrow alone: stripes decoded on all processors, rows filtered."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.orc

from tests.bench.data import data_files
from tests.bench.engines.base import Engine
from tests.bench.predicates import arrow_mask, columns
from tests.bench.queries import Mode, Query


class PyArrow(Engine):
    name = "pyarrow"
    label = "pyarrow"
    settings = (
        "`ORCFile.read_stripe`, a thread for each processor; the predicate's columns first, and the others where a "
        "row of the stripe matches"
    )
    package = "pyarrow"
    in_place = True

    def open(self) -> None:
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        # what a first use initialises
        self._stripes()

    def _stripes(self) -> list[tuple[Path, int]]:
        return [
            (path, stripe)
            for path in data_files(self.orc)
            for stripe in range(pyarrow.orc.ORCFile(path).nstripes)
        ]

    def run(self, query: Query) -> pa.Table | int:
        batches = list(self._pool.map(lambda place: self._read(query, *place), self._stripes()))
        if query.mode is Mode.COUNT:
            return sum(batch.num_rows for batch in batches)
        table = pa.Table.from_batches(batches)
        if query.mode is Mode.DISTINCT:
            return table.group_by(table.column_names).aggregate([])
        return table

    @staticmethod
    def _read(query: Query, path: Path, stripe: int) -> pa.RecordBatch:
        file = pyarrow.orc.ORCFile(path)
        names = list(query.columns) if query.columns is not None else file.schema.names
        if query.where is None:
            return file.read_stripe(stripe, columns=names).select(names)
        needed = list(columns(query.where))
        batch = file.read_stripe(stripe, columns=needed)
        mask = arrow_mask(query.where, batch)
        others = [name for name in names if name not in needed]
        matching = batch.filter(mask)
        if not others:
            return matching.select(names) if names else matching
        rest = file.read_stripe(stripe, columns=others) if matching.num_rows else None
        if rest is None:
            empty = pa.schema([file.schema.field(name) for name in names])
            return pa.RecordBatch.from_pylist([], empty)
        more = rest.filter(mask)
        return pa.RecordBatch.from_arrays(
            [(matching if name in needed else more).column(name) for name in names], names=names
        )
