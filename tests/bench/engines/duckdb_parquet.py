"""DuckDB over Parquet files of the same rows."""

from __future__ import annotations

import shutil
import time
from typing import Any

import pyarrow as pa

from tests.bench.engines.base import Engine, orc_batches
from tests.bench.predicates import sql
from tests.bench.queries import Mode, Query


class DuckDb(Engine):
    name = "duckdb"
    label = "DuckDB, Parquet"
    settings = (
        "Parquet written by DuckDB: zstd, row groups of 122,880 rows (its default, with bloom filters where it finds "
        "them worth it); a view of the files, statistics and late materialisation as they come; "
        "`enable_object_cache` as it comes"
    )
    package = "duckdb"

    _connection: Any

    def prepare(self) -> dict[str, float]:
        import duckdb

        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        rows = orc_batches(self.orc)
        connection = duckdb.connect()
        connection.register("rows", rows)
        started = time.perf_counter()
        connection.execute("SET preserve_insertion_order = true")
        where = self.directory / "rows.parquet"
        connection.execute(f"COPY rows TO '{where}' (FORMAT parquet, COMPRESSION zstd)")
        return {"convert": time.perf_counter() - started}

    def open(self) -> None:
        import duckdb

        self._connection = duckdb.connect()

    def forget(self) -> None:
        self._connection.close()
        self.open()

    def run(self, query: Query) -> pa.Table | int:
        columns = "*" if query.columns is None else ", ".join(query.columns)
        if query.mode is Mode.COUNT:
            columns = "count(*)"
        elif query.mode is Mode.DISTINCT:
            columns = f"DISTINCT {columns}"
        where = "" if query.where is None else f" WHERE {sql(query.where)}"
        text = f"SELECT {columns} FROM read_parquet('{self.directory}/*.parquet'){where}"
        table: pa.Table = self._connection.sql(text).to_arrow_table()
        return int(table.column(0)[0].as_py()) if query.mode is Mode.COUNT else table
