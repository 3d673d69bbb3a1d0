"""The measured tables: made once in a directory, and used again by later runs."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Order(enum.Enum):
    """The order of a table's rows in its files."""

    #: As it was made: lineitem and orders by the order's key, events by time.
    MADE = "made"
    #: By the key of point queries: customers, parts, users.
    SORTED = "sorted"
    #: Equal months or countries together, and shuffled within.
    CLUSTERED = "clustered"
    SHUFFLED = "shuffled"


class Distinct(enum.Enum):
    """The number of distinct values of a column, which decides the suitable kind of index."""

    FEW = "few"
    MANY = "many"


#: The columns that predicates name and that every engine with indexes indexes.
INDEXED: dict[str, dict[str, Distinct]] = {
    "lineitem": {
        "l_orderkey": Distinct.MANY,
        "l_partkey": Distinct.MANY,
        "l_suppkey": Distinct.MANY,
        "l_quantity": Distinct.FEW,
        "l_discount": Distinct.FEW,
        "l_tax": Distinct.FEW,
        "l_returnflag": Distinct.FEW,
        "l_shipdate": Distinct.FEW,
        "l_shipmode": Distinct.FEW,
    },
    "orders": {
        "o_custkey": Distinct.MANY,
        "o_clerk": Distinct.FEW,
        "o_orderdate": Distinct.FEW,
        "o_orderpriority": Distinct.FEW,
    },
    "events": {
        "user_id": Distinct.MANY,
        "country": Distinct.FEW,
        "kind": Distinct.FEW,
        "status": Distinct.FEW,
        "url": Distinct.MANY,
        "referrer": Distinct.FEW,
    },
}

_SORTED_BY = {"lineitem": "l_partkey", "orders": "o_custkey", "events": "user_id"}
_CLUSTERED_BY = {
    "lineitem": "date_trunc('month', l_shipdate)",
    "orders": "date_trunc('month', o_orderdate)",
    "events": "country",
}
_FILES = 4
#: Rows of the events at scale 1.
EVENT_ROWS = 1_000_000
_EVENT_PIECE = 100_000


@dataclass(frozen=True, slots=True)
class Dataset:
    """One table at one scale, in one order. At scale 1, lineitem has six million rows and events have one."""

    table: str
    scale: float
    order: Order = Order.MADE

    @property
    def name(self) -> str:
        variant = "" if self.order is Order.MADE else f"-{self.order.value}"
        return f"{self.table}-{self.scale:g}{variant}"

    @classmethod
    def parse(cls, name: str) -> Dataset:
        table, scale, *order = name.split("-")
        return cls(table, float(scale), Order(order[0]) if order else Order.MADE)

    def orc(self, data: Path) -> Path:
        """Return the directory of its ORC files."""
        return data / self.name / "orc"

    @property
    def indexed(self) -> dict[str, Distinct]:
        return INDEXED[self.table]


def data_files(directory: Path) -> list[Path]:
    """List the ORC files of a flat directory, by name."""
    return sorted(directory.glob("*.orc"))


def is_made(dataset: Dataset, data: Path) -> bool:
    return (dataset.orc(data) / "_SUCCESS").exists()


def make(dataset: Dataset, data: Path) -> None:
    """Make a table, and the one that it is made from, where they are not there; Spark is started for all but events.

    Raises:
        HindexError: if tpchgen-cli is missing or fails.
    """
    from hindex.spark.session import local_session

    if is_made(dataset, data):
        return
    where = dataset.orc(data)
    where.parent.mkdir(parents=True, exist_ok=True)
    if dataset.table == "events" and dataset.order is Order.MADE:
        _make_events(dataset.scale, where)
        return
    spark = local_session(app_name="hindex-bench", conf={"spark.sql.shuffle.partitions": str(_FILES)})
    try:
        if dataset.order is Order.MADE:
            from hindex.cli.demo import make_tpch_table

            make_tpch_table(spark, dataset.table, dataset.scale, where)
        else:
            made = Dataset(dataset.table, dataset.scale)
            make(made, data)
            frame = spark.read.orc(str(made.orc(data)))
            write_orc(_reordered(frame, dataset), where)
    finally:
        spark.stop()


def write_orc(frame: DataFrame, where: Path, **options: str) -> None:
    """Write zstd ORC files, with Spark's own defaults for stripes and row groups."""
    writer = frame.write.mode("overwrite").option("compression", "zstd")
    for key, value in options.items():
        writer = writer.option(key.replace("_", "."), value)
    writer.orc(str(where))


def _reordered(frame: DataFrame, dataset: Dataset) -> DataFrame:
    from pyspark.sql import functions as f

    keys = {
        Order.SORTED: [f.col(_SORTED_BY[dataset.table])],
        Order.CLUSTERED: [f.expr(_CLUSTERED_BY[dataset.table]), f.rand(1)],
        Order.SHUFFLED: [f.rand(1)],
    }[dataset.order]
    return frame.repartitionByRange(_FILES, *keys).sortWithinPartitions(*keys)


def spark_session(spark_conf: dict[str, str] | None = None) -> SparkSession:
    """Start a session with the settings that Spark's documentation gives for reading ORC."""
    from hindex.spark.session import local_session

    settings = {"spark.sql.orc.filterPushdown": "true", "spark.sql.orc.impl": "native"}
    return local_session("local[*]", {**settings, **(spark_conf or {})}, "hindex-bench")


def _make_events(scale: float, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    rows = int(EVENT_ROWS * scale)
    ends = [rows * at // _FILES for at in range(_FILES + 1)]
    for number, (first, last) in enumerate(itertools.pairwise(ends)):
        with pyarrow.orc.ORCWriter(str(where / f"part-{number:05}.orc"), compression="zstd") as writer:
            for piece in event_pieces(first, last, rows):
                writer.write(piece)
    (where / "_SUCCESS").touch()


def event_pieces(first: int, last: int, rows: int) -> Iterator[pa.Table]:
    """Some of the events, by their numbers: strings and keys of Zipf's skew, a struct, a list, and nulls.

    Structs and lists are never null themselves: ClickHouse has no such values.
    """
    for start in range(first, last, _EVENT_PIECE):
        yield _events(np.arange(start, min(start + _EVENT_PIECE, last)), rows)


def _events(ids: np.ndarray, rows: int) -> pa.Table:
    rng = np.random.default_rng((7, int(ids[0])))
    n = len(ids)

    def skewed(values: int, a: float = 1.3) -> np.ndarray:
        return (rng.zipf(a, n) - 1) % values

    def texts(prefix: str, codes: np.ndarray) -> pa.Array:
        distinct, positions = np.unique(codes, return_inverse=True)
        return pa.array([f"{prefix}{code}" for code in distinct.tolist()]).take(pa.array(positions))

    def nullable(array: pa.Array, share: float) -> pa.Array:
        import pyarrow.compute as pc

        return pc.if_else(pa.array(rng.random(n) < share), pa.scalar(None, array.type), array)

    counts = rng.integers(0, 4, n)
    tags = texts("tag-", (rng.zipf(1.5, int(counts.sum())) - 1) % 500)
    statuses = np.array([200, 204, 301, 302, 404, 500, 503], np.int32)
    columns: dict[str, pa.Array] = {
        "id": pa.array(ids, pa.int64()),
        "day": pa.array((18_262 + ids * 365 // max(rows, 1)).astype(np.int32)).cast(pa.date32()),
        "user_id": pa.array(skewed(max(rows // 20, 5000), 1.15), pa.int64()),
        "country": texts("c", skewed(200)),
        "kind": texts("kind-", skewed(30)),
        "url": texts("/shop/", skewed(100_000, 1.2)),
        "referrer": nullable(texts("https://example.com/", skewed(300)), 0.4),
        "status": pa.array(statuses[rng.choice(7, n, p=[0.9, 0.04, 0.02, 0.02, 0.015, 0.004, 0.001])]),
        "device": pa.StructArray.from_arrays(
            [nullable(texts("os-", skewed(12)), 0.05), pa.array(rng.integers(1, 30, n), pa.int32())],
            ["os", "version"],
        ),
        "tags": pa.ListArray.from_arrays(
            pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32()), tags
        ),
    }
    for number in range(15):
        columns[f"count_{number:02}"] = nullable(pa.array(skewed(10_000), pa.int64()), number / 20)
        columns[f"value_{number:02}"] = nullable(pa.array(np.round(rng.gamma(2, 50, n), 2)), number / 20)
    return pa.table(columns)
