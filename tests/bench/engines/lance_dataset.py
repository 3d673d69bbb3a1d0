"""Lance: the rows converted to its format, with its scalar indexes."""

from __future__ import annotations

import shutil
import time
from typing import Any

import pyarrow as pa

from tests.bench.data import Distinct
from tests.bench.engines.base import Engine, orc_batches, tree_bytes
from tests.bench.predicates import cast_literal, sql
from tests.bench.queries import Mode, Query

#: What its documentation recommends: BITMAP for columns of few values, BTREE for many.
INDEX_TYPES = {Distinct.FEW: "BITMAP", Distinct.MANY: "BTREE"}


class Lance(Engine):
    name = "lance"
    label = "Lance, scalar indexes"
    settings = "data converted; BITMAP on columns of few values, BTREE on those of many, as its guide advises"
    package = "pylance"

    _dataset: Any

    def prepare(self) -> dict[str, float]:
        import lance

        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        rows = orc_batches(self.orc)
        started = time.perf_counter()
        dataset = lance.write_dataset(rows, str(self.directory))
        converted = time.perf_counter()
        for column, distinct in self.dataset.indexed.items():
            dataset.create_scalar_index(column, INDEX_TYPES[distinct])
        return {"convert": converted - started, "index": time.perf_counter() - converted}

    def open(self) -> None:
        import lance

        self._dataset = lance.dataset(str(self.directory))

    def forget(self) -> None:
        # a dataset that is opened again has a session of its own, with nothing in its caches
        self.open()

    def run(self, query: Query) -> pa.Table | int:
        where = None if query.where is None else sql(query.where, cast_literal)
        if query.mode is Mode.COUNT:
            return int(self._dataset.count_rows(filter=where))
        columns = None if query.columns is None else list(query.columns)
        table: pa.Table = self._dataset.to_table(columns=columns, filter=where)
        return table.group_by(table.column_names).aggregate([]) if query.mode is Mode.DISTINCT else table

    def sizes(self) -> dict[str, int]:
        index = tree_bytes(self.directory / "_indices")
        return {"data": tree_bytes(self.directory) - index, "index": index}
