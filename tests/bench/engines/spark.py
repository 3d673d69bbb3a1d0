"""Spark's native ORC reader: on the files as they are, with bloom filters in them, and sorted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.bench.data import Dataset, Distinct, Order, make, spark_session, write_orc
from tests.bench.engines.base import Engine, tree_bytes
from tests.bench.predicates import sql
from tests.bench.queries import Mode, Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark(Engine):
    name = "spark"
    label = "Spark"
    settings = (
        "native vectorised reader, `spark.sql.orc.filterPushdown` on (both are defaults), `local[*]`, rows fetched "
        "with `toArrow()`"
    )
    package = "pyspark"
    process = "spark"
    in_place = True

    _spark: SparkSession

    def open(self) -> None:
        self._spark = spark_session()

    @property
    def _path(self) -> Path:
        return self.orc

    def run(self, query: Query) -> pa.Table | int:
        frame = self._spark.read.orc(str(self._path))
        if query.where is not None:
            frame = frame.where(sql(query.where))
        if query.mode is Mode.COUNT:
            return frame.count()
        if query.columns is not None:
            frame = frame.select(*query.columns)
        return (frame.distinct() if query.mode is Mode.DISTINCT else frame).toArrow()


class SparkBloom(Spark):
    name = "spark-bloom"
    label = "Spark, ORC bloom filters"
    settings = (
        "as Spark; the files are written again with `orc.bloom.filter.columns` on the columns of many values and "
        "`orc.bloom.filter.fpp` 0.01"
    )
    in_place = False

    @property
    def _path(self) -> Path:
        return self.directory

    def prepare(self) -> dict[str, float]:
        frame = spark_session().read.orc(str(self.orc))
        keys = [column for column, distinct in self.dataset.indexed.items() if distinct is Distinct.MANY]
        started = time.perf_counter()
        write_orc(
            frame.coalesce(4),
            self.directory,
            orc_bloom_filter_columns=",".join(keys),
            orc_bloom_filter_fpp="0.01",
        )
        return {"convert": time.perf_counter() - started}


class SparkSorted(Spark):
    name = "spark-sorted"
    label = "Spark, data sorted"
    settings = "as Spark; the rows are written again sorted by the key of point queries (`l_partkey`)"
    in_place = False

    @property
    def _dataset(self) -> Dataset:
        return Dataset(self.dataset.table, self.dataset.scale, Order.SORTED)

    @property
    def _path(self) -> Path:
        return self._dataset.orc(self.data)

    def prepare(self) -> dict[str, float]:
        started = time.perf_counter()
        make(self._dataset, self.data)
        return {"convert": time.perf_counter() - started}

    def sizes(self) -> dict[str, int]:
        return {"data": tree_bytes(self._path), "index": 0}
