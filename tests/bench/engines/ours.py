"""hindex, with a BITMAP index on each column that predicates name, and with all columns included."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tests.bench.data import data_files, spark_session
from tests.bench.engines.base import Engine
from tests.bench.predicates import sql
from tests.bench.queries import FIVE, Mode, Query

if TYPE_CHECKING:
    from hindex.api.scan import Scan
    from hindex.api.table import Table


class Hindex(Engine):
    name = "hindex"
    label = "hindex"
    settings = "a BITMAP index on each column that a predicate names; all defaults"
    package = "hindex-orc"
    in_place = True
    #: Whether ROWS indexes have the columns of the queries.
    includes: ClassVar[bool] = False

    _table: Table

    def prepare(self) -> dict[str, float]:
        import hindex
        from tests.bench.workers import warm_workers

        shutil.rmtree(self.directory, ignore_errors=True)
        spark = spark_session()
        warm_workers(spark)
        table = hindex.connect(str(self.directory), spark).table(str(self.orc))
        specs = [hindex.IndexSpec(column, column) for column in self.dataset.indexed]
        if self.includes:
            specs += [
                hindex.IndexSpec("few_columns", FIVE, "rows"),
                hindex.IndexSpec("all_columns", table.columns, "rows"),
            ]
        started = time.perf_counter()
        table.create_indexes(specs)
        return {"index": time.perf_counter() - started}

    def open(self) -> None:
        import hindex

        self._table = hindex.connect(str(self.directory)).table(str(self.orc))

    def run(self, query: Query) -> pa.Table | int:
        scan = self._scan(query)
        if query.mode is Mode.COUNT:
            return scan.count()
        if query.mode is Mode.DISTINCT:
            assert query.columns is not None
            (column,) = query.columns
            return pa.table({column: scan.distinct(column)})
        return scan.to_arrow()

    def run_here(self, query: Query) -> object:
        from hindex.scan.task_runner import run_lookups

        if query.mode is not Mode.ROWS:
            return self.run(query)
        return [task.read(answer) for task, answer in run_lookups(self._scan(query).plan().tasks)]

    def _scan(self, query: Query) -> Scan:
        where = None if query.where is None else sql(query.where)
        return self._table.scan(where, query.columns)

    def forget(self) -> None:
        from hindex.index.page_cache import shared_cache
        from hindex.orc.reader.file_cache import FILE_CACHE

        shared_cache().clear()
        FILE_CACHE.clear()

    def counts(self, query: Query) -> dict[str, int]:
        from tests.support.work import scan_counts

        if query.mode is Mode.DISTINCT:
            return {}
        self.forget()
        return scan_counts(self._scan(query))

    def sizes(self) -> dict[str, int]:
        data = sum(file.stat().st_size for file in data_files(self.orc))
        return {"data": data, "index": sum(index.size_bytes for index in self._table.indexes())}


class HindexRows(Hindex):
    name = "hindex-rows"
    label = "hindex, columns included"
    settings = (
        "a BITMAP index on each column that a predicate names; ROWS indexes of the five columns of most queries and "
        "of all columns"
    )
    includes = True
    # it reads most rows from a copy
    in_place = False
    left_out = "measured in a section of its own"
