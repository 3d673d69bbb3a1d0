"""``spark.read.format("hindex")`` has the rows of Spark's own reader, and takes filters from Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.spark.source import SourceScan, SourceTable
from tests.acid.writing import bucket_property, write_acid
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 3000


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("source")
    for part in (1, 2):
        ids = range(part * ROWS, (part + 1) * ROWS)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([None if i % 7 == 0 else i % 10 for i in ids], pa.int32()),
            "s": pa.array([f"s%_{i % 50}\\x" for i in ids]),
            "d": pa.array([Decimal(i % 100).scaleb(-1) for i in ids], pa.decimal128(9, 1)),
            "f": pa.array([float("nan") if i % 11 == 0 else i / 4 for i in ids]),
            "day": pa.array([datetime.date(2020, 1, 1) + datetime.timedelta(i % 30) for i in ids]),
            "t": pa.array([datetime.datetime(2020, 1, 1, 0, 0, i % 60, 5) for i in ids], pa.timestamp("us")),
            "n": pa.array([{"x": i % 3, "l": ["y"]} for i in ids]),
        }
        write_columns(root / f"p={part}" / "x.orc", columns, stripe=4096, stride=100)
    spark.sql(f"CREATE TABLE source_table USING orc OPTIONS (path '{root}')")
    spark.sql("MSCK REPAIR TABLE source_table")
    table = hindex.connect(spark=spark).table(str(root))
    table.create_indexes([hindex.IndexSpec(name, name) for name in ("id", "a", "s")])
    hindex.enable(spark, tables=["source_table"])
    yield root
    spark.sql("DROP TABLE source_table")


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


@pytest.mark.parametrize(
    "where",
    [
        "id = 3001",
        "a IN (1, 2) AND p = 1",
        "a IS NULL AND s LIKE 's\\\\%\\\\_1%'",
        "s LIKE '%9\\\\\\\\x' AND NOT a = 3",
        "s LIKE '%\\\\_4%' AND d = 1.0",
        "f = double('NaN') AND id < 3500",
        "day >= DATE '2020-01-29' AND n.x = 1 AND a > 7",
        "t = TIMESTAMP_NTZ '2020-01-01 00:00:07.000005'",
        "a <=> NULL OR id = 3001",
        "a + 1 = 3 AND id BETWEEN 3100 AND 3200",
        "id < 0",
        "true",
    ],
)
def test_rows_are_those_of_spark(where: str, path: Path, spark: SparkSession) -> None:
    expected = spark.read.orc(str(path)).withColumn("t", _ntz("t"))
    found = spark.read.format("hindex").load(str(path))
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in expected.schema]
    assert rows(found.where(where)) == rows(expected.where(where))


def _ntz(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(name).cast("timestamp_ntz")


def test_options(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    found = spark.read.format("hindex").option("table", "SOURCE_table").option("columns", "s, id").load()
    assert (found.columns, found.where("id = 3001").count()) == (["s", "id"], 1)
    read = spark.read.format("hindex").option("columns", '["n", "a"]').option("store", str(tmp_path))
    assert read.load(str(path)).columns == ["n", "a"]
    for options, message in [
        ({"table": "nope"}, "Table 'nope' is not known here: name it in hindex.enable"),
        ({"path": str(path), "table": "source_table"}, "a read names one table"),
        ({}, "a read names one table"),
        ({"path": str(path), "nope": "1"}, "unknown option 'nope'"),
        ({"path": str(path), "columns": "[1"}, "option 'columns' is not a JSON list"),
        ({"path": str(path), "columns": "zz"}, "Column 'zz' cannot be resolved"),
    ]:
        with pytest.raises(Exception, match="(?s)" + message):
            spark.read.format("hindex").options(**options).load()


def test_filters_that_are_taken(path: Path) -> None:
    """Every filter that is not returned is answered row by row, from what the indexes leave."""
    from pyspark.sql.datasource import EqualTo, Filter, In, IsNotNull, Not

    scan = SourceScan(SourceTable({"path": str(path), "columns": "id,a"}, {}, None), ["id", "a"])
    strange: Filter = EqualTo(("n",), {"x": 1})
    missing: Filter = IsNotNull(("nope",))
    pushed: list[Filter] = [IsNotNull(("a",)), In(("a",), (1, 2)), strange, Not(EqualTo(("p",), 2)), missing]
    assert scan.push(pushed) == [strange, missing]
    plan = scan.plan()
    assert [task.partition for task in plan.tasks] == [("1",)]
    assert {use.name for task in plan.tasks for use in task.indexes} == {"a"}
    assert sum(len(group) for group in scan.groups(4)) == 1


def test_write_ids_that_are_seen(tmp_path: Path) -> None:
    for number in (1, 2):
        write_acid(
            tmp_path / f"delta_{number}_{number}" / "bucket_00000",
            [((number, bucket_property(0), row), number, (row, row, "x")) for row in range(3)],
        )
    for ids, files in ((None, 2), ("t:2:9223372036854775807::2", 1)):
        options = {"path": str(tmp_path)} | ({} if ids is None else {"valid_write_ids": ids})
        assert len(SourceTable(options, {}, None).snapshot().files) == files


@pytest.fixture
def dotted(tmp_path: Path) -> Path:
    """Columns whose names have dots, one of them what a field's path is."""

    def struct(**fields: list[int]) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(v, pa.int32()) for v in fields.values()], list(fields))

    columns = {
        "n": pa.array([1, 2, 3], pa.int64()),
        "a": struct(b=[5, 6, 7]),
        "a.b": pa.array([6, 60, 70], pa.int32()),
        "s.t": struct(u=[1, 1, 2]),
        "x.y": pa.array([8, 9, None], pa.int32()),
    }
    write_columns(tmp_path / "dotted" / "0.orc", columns)
    return tmp_path / "dotted"


@pytest.mark.parametrize("where", ["a.b = 6", "`a.b` = 60 AND a.b = 6", "`s.t`.u = 1 AND `x.y` IS NOT NULL"])
def test_names_with_dots(where: str, dotted: Path, spark: SparkSession) -> None:
    hindex.enable(spark)
    expected, found = spark.read.orc(str(dotted)), spark.read.format("hindex").load(str(dotted))
    assert found.columns == expected.columns
    assert rows(found.where(where)) == rows(expected.where(where)) != []
    picked = ("`a.b`", "a.b AS f", "`s.t`.u", "`x.y`")
    assert rows(found.where(where).selectExpr(*picked)) == rows(expected.where(where).selectExpr(*picked))


def test_a_field_without_a_name(tmp_path: Path, spark: SparkSession) -> None:
    """Spark's own reader of ORC files refuses it."""
    columns = {"n": pa.array([1, 2, 3]), "e": pa.array([{"": value, "x": 0} for value in (4, 5, 6)])}
    write_columns(tmp_path / "empty" / "0.orc", columns)
    hindex.enable(spark)
    found = spark.read.format("hindex").load(str(tmp_path / "empty"))
    assert [row.n for row in found.where(found["e"].getField("") == 5).collect()] == [2]


def test_fields_of_a_json_list(dotted: Path, spark: SparkSession) -> None:
    hindex.enable(spark)

    def read(columns: str) -> Any:
        return spark.read.format("hindex").option("columns", columns).load(str(dotted))

    found = read('["n", ["a.b"], ["s.t", "u"], "x.y"]')
    assert found.columns == ["n", "a.b", "s.t.u", "x.y"]
    assert [tuple(row) for row in found.where("`a.b` >= 60 AND `s.t.u` = 1").collect()] == [(2, 60, 1, 9)]
    for columns, message in [
        ('["n", "a.b"]', "as a tuple of names"),
        ('["n", ["a", "b"]]', "Column 'a.b' cannot be told from another of that name"),
        ('["n", 5]', "5 is no column: it is a name as text"),
        ('["n", []]', "is no column: it is a name as text"),
    ]:
        with pytest.raises(Exception, match="(?s)" + message):
            read(columns)


def test_filters_on_names_with_dots(dotted: Path) -> None:
    """What could be a field or a column is left to Spark, and what has no name."""
    from pyspark.sql.datasource import EqualTo, Filter

    scan = SourceScan(SourceTable({"path": str(dotted)}, {}, None), ["n", "a", "a.b"])
    left: list[Filter] = [EqualTo(("a", "b"), 6), EqualTo(("e", ""), 5), EqualTo(("s", "t", "u"), 1)]
    assert scan.push([EqualTo(("a.b",), 6), EqualTo(("s.t", "u"), 1), *left]) == left
    plan = scan.plan()
    assert str(plan.filter) == "`a.b` = 6 AND `s.t`.u = 1"
    assert [column.name for column in plan.columns] == ["n", "a", "a.b"]
