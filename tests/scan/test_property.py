"""Random tables times random predicates: the rows are Spark's, whatever is indexed, stale or missing.

``HINDEX_CASES`` says how many (table, predicate) pairs are tried; ``HINDEX_TEST_SEED`` repeats a failure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.orc import OrcReader
from hindex.orc.reader import stripe_reader
from hindex.plan.filter import residuals
from hindex.scan import included_columns, lookup_cost, scan_task_reader
from hindex.sql import parse_predicate
from hindex.sql.predicate import columns as named_columns
from tests.support.aggregates import check_aggregates
from tests.support.cases import cases
from tests.support.oracle import Ids, SparkAnswers, assert_same_rows, spark_answers, spark_where
from tests.support.predicates import random_predicate
from tests.support.tables import RandomTable
from tests.support.values import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

CASES_PER_TABLE = 20
TABLES = math.ceil(cases(20, 160) / CASES_PER_TABLE)

#: Indexes of a column, and how often they are its.
_KINDS = (("bitmap",), ("minmax",), ("bloom",), ("bitmap", "minmax", "bloom"))
_SHARES = (0.6, 0.1, 0.1, 0.2)

#: Of columns: row groups by themselves, and whole stripes.
_WINDOWS = (1, 1 << 40)


@contextmanager
def readers(window: int) -> Iterator[list[OrcReader]]:
    """Give the data file readers that scans open meanwhile; all decode windows of so many bytes."""
    opened: list[OrcReader] = []

    def open_reader(source: str, timezone: str | None = None) -> OrcReader:
        opened.append(OrcReader(source, timezone=timezone))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_task_reader, "OrcReader", open_reader)
        patch.setattr(stripe_reader, "WINDOW_BYTES", window)
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(TABLES))
def test_rows_are_those_of_spark(
    turn: int,
    spark: SparkSession,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the tables are small
    monkeypatch.setattr(lookup_cost, "_ROWS_PER_CROSSING", 4)
    # values come from indexes whatever the share of rows, or from few rows alone
    monkeypatch.setattr(lookup_cost, "_ROWS_PER_VALUE", int(rng.choice([1, 64])))
    # included columns are read wherever they are
    monkeypatch.setattr(included_columns, "block_micros", lambda *_, **__: 0.0)
    made = RandomTable(spark, rng, tmp_path / "table", turn, is_varied=True)
    table = hindex.connect(spark=spark).table(str(made.path))
    indexed = create_indexes(made, table)
    is_fresh = change(made)
    searchable = [*made.columns, *made.partitioning]
    predicates = [random_predicate(rng, searchable) for _ in range(CASES_PER_TABLE)]
    schema = spark_schema(spark, made)
    answers = spark_answers(spark, made.path, predicates, schema)

    everything = table.scan().to_arrow()
    messages = "\n".join(made.description)
    assert_same_rows(everything, answers.rows, messages)
    order = np.asarray(everything.column("id"))
    for number, predicate in enumerate(predicates):
        named = {".".join(ref.parts).lower() for ref in named_columns(parse_predicate(predicate))}
        all_indexed = is_fresh and named <= {*indexed, *(column.name for column in made.partitioning)}
        # what is evaluated on values is answered by no index
        all_indexed &= not any(residuals(table.scan(predicate).plan().filter))
        check(table, predicate, answers, answers.ids[number], order, all_indexed, rng, messages)
    # Spark cannot push a list with NULL in it down into ORC
    sound = [number for number, predicate in enumerate(predicates) if "NULL" not in predicate]
    for spot in rng.permutation(sound)[:1].tolist():
        kept = spark_where(spark, made.path, predicates[spot], schema)
        assert answers.ids[spot].tolist() == kept, predicates[spot]


def spark_schema(spark: SparkSession, made: RandomTable) -> str | StructType:
    """Return the schema of the files' columns for Spark; it knows CHAR only as files have it."""
    # the first file has every column
    return spark.read.orc(str(made.files[0])).schema if made.has_char else made.schema


def create_indexes(made: RandomTable, table: Table) -> frozenset[str]:
    """Index some columns in one pass, maybe for some partitions only.

    Returns:
        those that an index answers exactly wherever it is.
    """
    rng = made.rng
    # most often some columns have none, so that rows known by index and rows to check meet in one stripe
    share = (0.6, 1.0, 0.4, 1.0, 0.6, 0.0)[made.turn % 6]
    chosen = [column for column in made.columns if rng.random() < share]
    where = None
    if made.partitioning and rng.random() < 0.4:
        # the first file is in partition 1 or 2
        where = str(rng.choice(["part IN (1, 2)", "part <> 30", "part = 1 OR NOT part = 1"]))
    kinds = [_KINDS[int(rng.choice(len(_KINDS), p=_SHARES))] for _ in chosen]
    specs = [
        IndexSpec(f"{kind}_{column.name.replace('.', '_')}", column.name, kind, where=where)
        for column, some in zip(chosen, kinds, strict=True)
        for kind in some
    ]
    if rng.random() < 0.5:
        stored = [column.name for column in made.columns if "." not in column.name and rng.random() < 0.7]
        specs += [IndexSpec("stored", stored, "rows", where=where)] if stored else []
    names = [column.name for column in made.columns]
    for kind in rng.permutation(["bitmap", "btree", "bloom", "minmax"])[: int(rng.integers(0, 3))].tolist():
        joined = rng.permutation(names)[: int(rng.integers(2, 4))].tolist()
        specs += [IndexSpec(f"joined_{kind}", joined, kind, where=where)] if len(joined) > 1 else []
    if specs and _has_rows(made.files):
        table.create_indexes(specs)
        made.description.append(f"indexes: {', '.join(spec.name for spec in specs)} where {where}")
        # keys of decimals are of one scale
        scaled = {column.name for column in chosen if column.type.startswith("decimal")} & made.widened
        exact = {str(spec.column) for spec in specs if spec.using == "bitmap" and where is None}
        return frozenset(exact - scaled)
    return frozenset()


def _has_rows(files: Sequence[Path]) -> bool:
    return any(path.stat().st_size for path in files)


def change(made: RandomTable) -> bool:
    """Maybe add, rewrite and delete files. Returns whether all files are still as they were indexed."""
    rng = made.rng
    if rng.random() < 0.5:
        return True
    for what in rng.permutation(["add", "rewrite", "delete"])[: int(rng.integers(1, 4))]:
        if what == "add":
            old = made.add_file()
            os.utime(old, ns=(10**18, 10**18))
        elif what == "rewrite":
            made.add_file(made.files[int(rng.integers(0, len(made.files)))])
        elif len(made.files) > 1:
            # the first file has every column, and partition values that tell their types
            made.files.pop(int(rng.integers(1, len(made.files)))).unlink()
        made.description.append(str(what))
    return False


def check(
    table: Table,
    predicate: str,
    answers: SparkAnswers,
    expected: Ids,
    order: Ids,
    all_indexed: bool,
    rng: np.random.Generator,
    state: str,
) -> None:
    window = int(rng.choice(_WINDOWS))
    scan = table.scan(predicate)
    explained = scan.explain()
    context = f"WHERE {predicate} ({window})\n{state}\n{explained}"
    names = list(answers.rows.column_names)
    expected_values = [str(name) for name in rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]]
    with readers(window):
        rows = table.scan(predicate, sorted({"id", *expected_values})).to_arrow()
    in_order = order[np.isin(order, expected)]
    ids = np.asarray(rows.column("id"))
    assert sorted(ids.tolist()) == sorted(expected.tolist()), f"ids differ; {context}"
    assert ids.tolist() == in_order.tolist(), f"another order; {context}"
    at = np.searchsorted(np.asarray(answers.rows.column("id")), np.sort(expected))
    assert_same_rows(rows, answers.rows.select(rows.column_names).take(at), context)
    # in the order of the scan's rows
    in_scan = answers.rows.take(np.searchsorted(np.asarray(answers.rows.column("id")), in_order))
    check_aggregates(table, predicate, in_scan, rng, context)

    with readers(window) as opened:
        assert scan.count() == len(expected), context
    assert explained.rows is not None
    assert explained.rows.kept is not None
    assert explained.rows.kept >= len(expected), context
    if explained.exact or all_indexed:
        assert explained.rows.kept == len(expected), context
        assert sum(reader.counts.chunks for reader in opened) == 0, context
    if all_indexed and not _is_constant(explained.tree.kind):
        assert explained.exact, context


def _is_constant(kind: str) -> bool:
    return kind == "TRUE"


def test_the_columns_of_random_tables_cover_every_type(rng: np.random.Generator) -> None:
    from tests.support.values import TYPES, random_column, random_pool

    for of in TYPES:
        column = Column("c", of, random_pool(rng, of))
        assert len(random_column(rng, column, 100)) == 100
