"""Conditions on expressions over a table: the rows, and that indexes narrow what is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex import col
from hindex.api.predicate_input import Where
from hindex.api.table import IndexSpec, Table
from hindex.errors import PredicateError
from hindex.orc import OrcReader, RowSelection
from hindex.orc.io.thread_pool import ThreadPool
from hindex.plan import filter_evaluation as evaluation
from hindex.plan.filter import Residual
from hindex.plan.reasons import Reason
from hindex.scan import scan_task_reader
from hindex.scan.scan_task import OutputColumn, StripeResult
from tests.support.small import ids, reasons
from tests.support.writers import write_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2000


def a_of(i: int) -> int | None:
    return None if i % 7 == 0 else i % 50


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Row i has a = i % 50 or NULL (indexed), b = i % 20, s = 's<i>', r.x = i; partitions p=1 and p=2 of 1,000 rows."""
    path = tmp_path_factory.mktemp("expressions") / "table"
    for p in (1, 2):
        rows = range((p - 1) * 1000, p * 1000)
        data = pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "a": pa.array(map(a_of, rows), pa.int32()),
                "b": pa.array([i % 20 for i in rows], pa.int32()),
                "s": [f"s{i}" for i in rows],
                "r": [{"x": i} for i in rows],
            }
        )
        write_pyarrow(path / f"p={p}" / "0.orc", data, "none", stripe=4096, stride=100)
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_x", "r.x", using="minmax")])
    return table


@pytest.fixture(scope="module")
def computed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Decimals that differ from 1 in their last digit only, and divisors of which one is 0."""
    path = tmp_path_factory.mktemp("computed") / "table"
    data = {
        "id": pa.array(range(4), pa.int64()),
        "d": pa.array(
            [Decimal("0." + "9" * 19), Decimal("0." + "9" * 18 + "4"), Decimal("0.5"), None],
            pa.decimal128(19, 19),
        ),
        "x": pa.array([1, 0, 20, None], pa.int32()),
        "s": ["ab", "c", "d", "efg"],
    }
    write_pyarrow(path / "0.orc", pa.table(data), "none")
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec(f"by_{name}", name) for name in "dxs"])
    return table


#: Conditions, and whether one of their parts has no value in a row that another part decides: Spark, which evaluates
#: the parts from left to right, may give an error then.
COMPUTED = [
    ("d = CAST(1 AS BIGINT)", False),
    ("d < CAST(1 AS BIGINT)", False),
    ("d = CAST(1 AS INT)", False),
    ("d = 1", False),
    ("10 / x > 1 OR length(s) = 1", True),
    ("length(s) = 1 OR 10 / x > 1", True),
    ("length(s) = 2 OR 10 / x > 1", False),
    ("10 / x > 1 OR length(s) = 2", False),
    ("10 / x > 1 AND length(s) = 2", True),
    ("length(s) = 2 AND 10 / x > 1", True),
    ("10 / x > 1 AND length(s) = 1", False),
    ("length(s) = 1 AND 10 / x > 1", False),
    ("NOT (10 / x > 1 OR length(s) = 1)", True),
    ("NOT (10 / x > 1 OR length(s) = 2)", False),
    ("x > 0 AND (10 / x > 1 OR length(s) = 1)", False),
    ("10 / x > 1 OR x = 0", True),
]


@pytest.mark.parametrize(("where", "is_decided"), COMPUTED, ids=[where for where, _ in COMPUTED])
def test_types_and_errors_are_those_of_spark(
    computed: Table, spark: SparkSession, where: str, is_decided: bool
) -> None:
    """An error counts unless another part decides its row."""
    from pyspark.errors import PySparkException

    def outcome(run: Callable[[], list[int]]) -> list[int] | str:
        try:
            return sorted(run())
        except (PredicateError, PySparkException) as error:
            if "zero" not in str(error):
                raise
            return "division by zero"

    def by_spark() -> list[int]:
        return [row.id for row in spark.read.orc(computed.uri).where(where).select("id").collect()]

    expected = outcome(by_spark)
    if is_decided:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            # a division by zero is NULL, so that the other part decides
            assert expected in (by_spark(), "division by zero")
            expected = sorted(by_spark())
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
    assert outcome(lambda: ids(computed.scan(where))) == expected


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows on which expressions were evaluated; constants are evaluated without columns."""
    seen: list[int] = []
    evaluate_truth = evaluation.evaluate_truth

    def counted(residual: Residual, columns: dict[str, pa.Array], n: int) -> object:
        if columns:
            seen.append(n)
        return evaluate_truth(residual, columns, n)

    monkeypatch.setattr(evaluation, "evaluate_truth", counted)
    return seen


def a_is(value: int) -> Callable[[int], bool]:
    return lambda i: a_of(i) == value


# the condition, the rows it keeps, and on how many rows an expression is evaluated
CASES: list[tuple[Where, Callable[[int], bool], int]] = [
    ("a + 1 = b", lambda i: a_of(i) is not None and a_of(i) == i % 20 - 1, ROWS),
    ("a = 3 AND b * 2 = 6", lambda i: a_of(i) == 3 and i % 20 == 3, sum(map(a_is(3), range(ROWS)))),
    ("a = 3 AND a + b = 6", lambda i: a_of(i) == 3 and i % 20 == 3, sum(map(a_is(3), range(ROWS)))),
    (
        "a = 3 OR b % 7 = 6",
        lambda i: a_of(i) == 3 or i % 20 % 7 == 6,
        ROWS - sum(map(a_is(3), range(ROWS))),
    ),
    ("a = 200 AND b + 1 = 2", lambda i: False, 0),
    ("a = 1 AND a = 2 AND b + 1 = 2", lambda i: False, 0),
    ("a IS NULL OR a IS NOT NULL OR b + 1 = 2", lambda i: True, 0),
    ("p + 1 = 2", lambda i: i < 1000, 0),
    ("p * 2 = 4 AND b + p = 3", lambda i: i >= 1000 and i % 20 == 1, 1000),
    ("p + 1 = 2 OR b + p = 3", lambda i: i < 1000 or i % 20 == 1, 1000),
    ("p + 1 > 9", lambda i: False, 0),
    ("r.x + 1 = 5", lambda i: i == 4, ROWS),
    ("r.x < 100 AND r.x % 10 = 4", lambda i: i < 100 and i % 10 == 4, 100),
    ("CAST(a AS BIGINT) = 3", a_is(3), 0),
    ("a = 1 + 2", a_is(3), 0),
    ("a = 3 AND s LIKE 's1%3'", lambda i: a_of(i) == 3 and str(i)[0] == "1" and str(i)[-1] == "3", -1),
    ("a = 0 OR 100 / a > 40", lambda i: a_of(i) is not None and a_of(i) in (0, 1, 2), -1),
    (col("a").isin(3) & (col("b") + 1 > col("a")), lambda i: a_of(i) == 3 and i % 20 + 1 > 3, -1),
    (col("r.x") % 1000 == 7, lambda i: i % 1000 == 7, ROWS),
]


@pytest.mark.parametrize(("where", "keep", "rows"), CASES, ids=[str(case[0]) for case in CASES])
def test_rows(
    table: Table, evaluated: list[int], where: Where, keep: Callable[[int], bool], rows: int
) -> None:
    expected = [i for i in range(ROWS) if keep(i)]
    scan = table.scan(where)
    assert scan.to_arrow().column("id").to_pylist() == expected
    if rows >= 0:
        assert sum(evaluated) == rows
    assert ids(scan) == expected
    assert ids(table.scan(where, ["s", "id"], limit=3)) == expected[:3]


def test_columns_of_pyspark_are_conditions(table: Table) -> None:
    from pyspark.sql import functions as f

    where = f.col("a").isin(3) & f.col("s").endswith("53")
    assert ids(table.scan(where)) == [i for i in range(ROWS) if a_of(i) == 3 and str(i).endswith("53")]


def test_columns_of_a_condition_are_read_first(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], int]] = []
    read_columns = scan_task_reader.ScanTaskReader._read_columns

    def spied(
        self: scan_task_reader.ScanTaskReader,
        columns: list[OutputColumn],
        result: StripeResult,
        selection: RowSelection,
        pool: ThreadPool,
    ) -> object:
        names = tuple(column.name for column in columns)
        asked.append((names, len(selection)))
        return read_columns(self, columns, result, selection, pool)

    monkeypatch.setattr(scan_task_reader.ScanTaskReader, "_read_columns", spied)
    rows = table.scan("a = 3 AND b * 2 = 6 AND p + 0 = 1", ["id", "s", "a"]).to_arrow()
    kept = [i for i in range(1000) if a_of(i) == 3 and i % 20 == 3]
    assert rows.column("id").to_pylist() == kept
    assert {names for names, _ in asked} <= {("a", "b"), ("id", "s"), ("id", "s", "a")}
    assert sum(n for names, n in asked if names == ("a", "b")) == sum(map(a_is(3), range(1000)))
    assert sum(n for names, n in asked if "s" in names) == len(kept)


def test_explanations_name_what_no_index_answers(table: Table) -> None:
    scan = table.scan("a = 3 AND lower(s) = 's3' AND p + 1 = 2")
    assert reasons(scan) == {Reason.UNSUPPORTED_PREDICATE: ["lower(s) = 's3'"]}
    text = str(scan.explain())
    assert "lower(s) = 's3'  no index  UNSUPPORTED_PREDICATE" in text
    assert "PARTITION  exact" in text
    explained = scan.explain()
    assert explained.rows is not None
    assert explained.rows.kept == sum(map(a_is(3), range(1000)))
    assert not explained.exact


def test_counting_reads_no_more_than_the_expression(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[OrcReader] = []

    def open_reader(source: str | Path, timezone: str | None = None) -> OrcReader:
        readers.append(OrcReader(source, timezone=timezone))
        return readers[-1]

    monkeypatch.setattr(scan_task_reader, "OrcReader", open_reader)
    assert table.scan("p + 1 = 2").count() == 1000
    assert table.scan("a = 200 AND b + 1 = 2").count() == 0
    assert sum(reader.counts.row_groups + reader.counts.whole_columns for reader in readers) == 0
    assert table.scan("a = 3 AND b + 1 = 4").count() == sum(a_of(i) == 3 and i % 20 == 3 for i in range(ROWS))
    assert sum(reader.counts.row_groups + reader.counts.whole_columns for reader in readers) > 0


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("100 / a > 40", "division by zero, which is an error in Spark too"),
        ("CAST(s AS INT) = 1", "'s.*' cannot be cast to int"),
        ("s = 1", "'s.*' cannot be cast to bigint"),
        ("year(a) = 1", "the cast from int to date is not evaluated here; filter with Spark on"),
        ("a RLIKE '\\\\bx'", "which is not evaluated here"),
    ],
)
def test_errors_are_spark_s_or_name_the_remedy(table: Table, where: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        table.scan(where).to_arrow()


def test_the_rows_are_those_of_spark(table: Table, spark: SparkSession) -> None:
    frame = table.scan("s LIKE '%3' AND a + b > 20 AND p <> 7").to_spark(spark)
    read = spark.read.orc(table.uri).where("s LIKE '%3' AND a + b > 20 AND p <> 7")
    assert sorted(row.id for row in frame.collect()) == sorted(row.id for row in read.select("id").collect())
    assert frame.count() > 0
