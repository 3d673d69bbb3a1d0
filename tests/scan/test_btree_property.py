"""Random tables of every type with BTREE indexes, alone and beside others: the rows are Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hindex.api.table import IndexSpec
from tests.scan.test_property import change
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.oracle import assert_same_rows, spark_answers
from tests.support.predicates import random_predicate
from tests.support.tables import RandomTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = 25


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_rows_are_those_of_spark(
    turn: int, spark: SparkSession, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    made = RandomTable(spark, rng, tmp_path / "table", turn)
    table = LocalConnection().table(str(made.path))
    if not any(path.stat().st_size for path in made.files):
        return
    specs = []
    for column in made.columns:
        level = str(rng.choice(["table", "partition"])) if made.partitioning else "table"
        properties = {"level": level, "values_per_page": str(rng.choice([1, 50, 4096]))}
        if rng.random() < 0.8:
            specs.append(IndexSpec(f"tree_{column.name}", column.name, "btree", properties=properties))
        if rng.random() < 0.3:
            specs.append(IndexSpec(f"bits_{column.name}", column.name, "bitmap"))
    if specs:
        table.create_indexes(specs)
        made.description.append(", ".join(spec.name for spec in specs))
    if not change(made) and rng.random() < 0.7:
        table.refresh_indexes()
        made.description.append("refreshed")
    predicates = [random_predicate(rng, [*made.columns, *made.partitioning]) for _ in range(CASES)]
    answers = spark_answers(spark, made.path, predicates, made.schema)
    for number, predicate in enumerate(predicates):
        context = "\n".join([predicate, *made.description])
        rows = table.scan(predicate).to_arrow()
        expected = answers.ids[number]
        assert sorted(rows.column("id").to_pylist()) == sorted(expected.tolist()), context
        at = np.searchsorted(np.asarray(answers.rows.column("id")), np.sort(expected))
        assert_same_rows(rows, answers.rows.select(rows.column_names).take(at), context)
        explained = table.scan(predicate).explain()
        assert explained.rows is not None
        assert (explained.rows.kept or 0) >= len(expected), context
