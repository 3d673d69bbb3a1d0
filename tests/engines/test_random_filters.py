"""Random tables times random filters: each engine gets the rows that it gets of the same Arrow table in memory.

`cases` says how many filters each engine tries; ``HINDEX_TEST_SEED`` repeats a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hindex import Table
from hindex.api.index import IndexSpec
from hindex.engines.dataset import IndexedDataset
from hindex.errors import PredicateError
from tests.engines.random_filters import Filter, clean, random_filter
from tests.support.cases import cases
from tests.support.local_build import LocalConnection
from tests.support.values import TYPES, Column, random_column, random_pool
from tests.support.writers import write_pyarrow

pytestmark = pytest.mark.slow

FILTERS_PER_TABLE = 20
TABLES = -(-cases(40, 200) // FILTERS_PER_TABLE)


def random_table(
    rng: np.random.Generator, connection: LocalConnection, path: Path
) -> tuple[Table, pa.Table, list[Column]]:
    """Make a table with indexes of all types on some of its columns, and its rows."""
    types = rng.permutation([*TYPES, *TYPES])[: int(rng.integers(3, 9))]
    columns = []
    for i, of in enumerate(map(str, types)):
        name = f"{of.partition('(')[0][:3]}_{i}"
        columns.append(Column(name, of, tuple(clean(value) for value in random_pool(rng, of))))
    parts: list[pa.Table] = []
    for number in range(int(rng.integers(1, 4))):
        rows = int(rng.choice([1, 300, 1500]))
        first = sum(part.num_rows for part in parts)
        part = pa.table(
            {"id": pa.array(range(first, first + rows), pa.int64())}
            | {column.name: random_column(rng, column, rows) for column in columns}
        )
        stripe, stride = int(rng.choice([2000, 20_000, 1 << 26])), int(rng.choice([100, 1000]))
        write_pyarrow(path / f"{number}.orc", part, stripe=stripe, stride=stride)
        parts.append(part)
    table = connection.table(str(path))
    specs = []
    for column in columns:
        kinds = ["bitmap", "minmax", "bloom", "btree"]
        specs += [
            IndexSpec(f"{kind}_{column.name}", column.name, kind)
            for kind in kinds
            if rng.random() < 0.3 and not (kind == "btree" and column.type == "boolean")
        ]
    if specs:
        table.create_indexes(specs)
    # old days are read by the calendar of Spark's reader
    plain = table.scan().to_arrow()
    assert plain["id"].to_pylist() == list(range(sum(part.num_rows for part in parts)))
    return table, plain, columns


def in_duckdb(source: object, wanted: Filter, columns: list[str]) -> pa.Table:
    with duckdb.connect() as database:
        database.register("source", source)
        query = f"SELECT {', '.join(columns)} FROM source WHERE {wanted.sql}"
        return database.sql(query, params=list(wanted.parameters)).to_arrow_table()


def in_polars(source: object, wanted: Filter, columns: list[str]) -> pa.Table:
    dataset = source if isinstance(source, IndexedDataset) else ds.dataset(source)
    return pl.scan_pyarrow_dataset(dataset).filter(wanted.polars).select(columns).collect().to_arrow()


def in_pyarrow(source: object, wanted: Filter, columns: list[str]) -> pa.Table:
    dataset = source if isinstance(source, IndexedDataset) else ds.dataset(source)
    return dataset.to_table(columns=columns, filter=wanted.arrow)


def rows(read: Callable[[], pa.Table]) -> object:
    """The rows in the order of their ids, as text, in which NaN equals NaN; or the error."""
    try:
        return list(map(repr, read().sort_by("id").to_pylist()))
    except (duckdb.Error, pl.exceptions.PolarsError, pa.ArrowException) as error:
        return type(error)


@pytest.mark.parametrize("turn", range(TABLES))
def test_rows_are_those_of_the_arrow_table(
    turn: int, connection: LocalConnection, rng: np.random.Generator, tmp_path: Path
) -> None:
    table, plain, columns = random_table(rng, connection, tmp_path / "table")
    dataset = table.dataset()
    assert dataset.schema == plain.schema
    kept = total = 0
    for _ in range(FILTERS_PER_TABLE):
        wanted = random_filter(rng, columns)
        names = ["id", *(c.name for c in columns if rng.random() < 0.4)]
        for engine in (in_duckdb, in_polars, in_pyarrow):
            expected = rows(lambda: engine(plain, wanted, names))  # noqa: B023
            found = rows(lambda: engine(dataset, wanted, names))  # noqa: B023
            # a cast may fail on a row that indexes rule out
            assert found == expected or expected is pa.ArrowInvalid, (engine.__name__, wanted)
        explained = dataset.explain(wanted.arrow)
        check_scan(table, plain, wanted)
        assert explained.scan.rows is not None
        assert explained.scan.rows.kept is not None
        kept, total = kept + explained.scan.rows.kept, total + plain.num_rows
    assert kept < total, "nothing was skipped"


def check_scan(table: Table, plain: pa.Table, wanted: Filter) -> None:
    """A scan takes the expression as its condition where its own semantics allow that, and has PyArrow's rows then."""
    try:
        scan = table.scan(wanted.arrow, ["id"])
    except PredicateError:
        return
    expected = rows(lambda: in_pyarrow(plain, wanted, ["id"]))
    if isinstance(expected, list):
        assert rows(scan.to_arrow) == expected, wanted
        assert scan.count() == len(expected)
