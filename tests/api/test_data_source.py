"""``spark.read.format("hindex")`` has the rows of Spark's own reader, whatever the queries of a frame are."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.data_source import SourceScan, SourceTable
from hindex.plan.time_zones import TimeZones
from hindex.spark.jobs import failure_message
from hindex.spark.tasks import read_group
from tests.acid.writing import bucket_property, write_acid
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 3000
UTC = TimeZones("UTC", "UTC")


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


@pytest.fixture(scope="module")
def frame(path: Path, spark: SparkSession) -> DataFrame:
    """One frame for the queries of many tests."""
    return spark.read.format("hindex").load(str(path))


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
        "t = TIMESTAMP '2020-01-01 00:00:07.000005'",
        "a <=> NULL OR id = 3001",
        "a + 1 = 3 AND id BETWEEN 3100 AND 3200",
        "id < 0",
        "true",
    ],
)
def test_rows_are_those_of_spark(where: str, path: Path, frame: DataFrame, spark: SparkSession) -> None:
    """As a filter of a query, and as the condition of a read."""
    expected = spark.read.orc(str(path))
    narrowed = spark.read.format("hindex").option("where", where).load(str(path))
    for result in (frame, narrowed):
        assert [(f.name, f.dataType) for f in result.schema] == [
            (f.name, f.dataType) for f in expected.schema
        ]
    expected_rows = rows(expected.where(where))
    assert rows(frame.where(where)) == expected_rows
    assert rows(narrowed) == expected_rows


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
QUERIES = ["n = 1", "n = 1 OR n = 2", None, "n > 1", None, "n + 0 = 1", "n IS NULL", "n <=> NULL OR n = 3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "pushdown"), [(None, "true"), (None, "false"), ("n IS NULL OR n > 1", "true")]
)
def test_queries_of_one_frame_do_not_narrow_each_other(
    where: str | None, pushdown: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Spark keeps the reader of one query for the next: no query may have narrowed it."""
    values = [None, 1, 2, 3]
    write_columns(tmp_path / "few" / "0.orc", {"n": pa.array(values, pa.int64())})
    hindex.enable(spark)
    kept = values if where is None else [None, 2, 3]
    reader = spark.read.format("hindex").options(**({} if where is None else {"where": where}))
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = reader.load(str(tmp_path / "few"))
        expected = spark.createDataFrame([(n,) for n in kept], "n bigint")

        def query(source: DataFrame, condition: str | None) -> DataFrame:
            return source if condition is None else source.where(condition)

        for condition in QUERIES:
            assert rows(query(frame, condition)) == rows(query(expected, condition)), condition
        assert frame.count() == len(kept)
        one, other = query(frame, "n = 2"), query(frame, "n = 3 OR n = 1")
        both = rows(query(expected, "n = 2 OR n = 3 OR n = 1"))
        assert rows(one.union(other)) == rows(other.union(one)) == both
        for condition in QUERIES:
            text = "SELECT * FROM {frame}" + ("" if condition is None else f" WHERE {condition}")
            assert rows(spark.sql(text, frame=frame)) == rows(query(expected, condition)), condition
    finally:
        spark.conf.unset(PUSHDOWN)


def test_enabling_changes_no_setting(spark: SparkSession) -> None:
    """Other Python sources that implement what it allows would have it too."""
    spark.conf.unset(PUSHDOWN)
    before = spark.conf.getAll
    hindex.enable(spark)
    assert spark.conf.getAll == before


def test_a_view_with_a_condition(path: Path, spark: SparkSession) -> None:
    hindex.enable(spark)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW narrowed USING hindex "
        f"OPTIONS (path '{path}', where 'a IN (1, 2) AND p = 1', columns 'id, a')"
    )
    ids = [i for i in range(ROWS, 2 * ROWS) if i % 7 and i % 10 in (1, 2)]
    for where, expected in [
        ("a = 1", [i for i in ids if i % 10 == 1]),
        ("a = 2 OR a = 3", [i for i in ids if i % 10 == 2]),
        ("true", ids),
    ]:
        assert (
            sorted(row["id"] for row in spark.sql(f"SELECT id FROM narrowed WHERE {where}").collect())
            == expected
        )
    spark.sql("DROP VIEW narrowed")


def test_options(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    hindex.enable(spark, tables=["source_table"])
    result = spark.read.format("hindex").option("table", "SOURCE_table").option("columns", "s, id").load()
    assert (result.columns, result.where("id = 3001").count()) == (["s", "id"], 1)
    read = spark.read.format("hindex").option("columns", '["n", "a"]').option("store", str(tmp_path))
    assert read.load(str(path)).columns == ["n", "a"]
    for options, message in [
        ({"table": "nope"}, "Table 'nope' is not enabled: name it in hindex.enable"),
        ({"path": str(path), "table": "source_table"}, "a read names one table"),
        ({}, "a read names one table"),
        ({"path": str(path), "nope": "1"}, "unknown option 'nope'"),
        ({"path": str(path), "columns": "[1"}, "option 'columns' is not a JSON list"),
        ({"path": str(path), "columns": " , "}, "option 'columns' names none"),
        ({"path": str(path), "columns": "[]"}, "option 'columns' names none"),
        ({"path": str(path), "columns": "id, s, ID"}, "option 'columns' names 'id' twice"),
        ({"path": str(path), "columns": "zz"}, "Column 'zz' cannot be resolved"),
        ({"path": str(path), "where": "id ="}, "StatementError: syntax error at line 1, column 5"),
        ({"path": str(path), "where": ""}, "StatementError: .* expected a predicate, found nothing"),
        ({"path": str(path), "where": "zz = 1"}, "ColumnError: Column 'zz' cannot be resolved"),
        ({"path": str(path), "where": "id = 'x'"}, "PredicateError: cannot evaluate id = 'x'"),
        ({"path": str(path), "where": "id IN (SELECT 1)"}, "UnsupportedError: .* subquery"),
    ]:
        with pytest.raises(Exception, match="(?s)" + message):
            spark.read.format("hindex").options(**options).load()


def test_sessions_of_one_program(path: Path, spark: SparkSession) -> None:
    """The source is known to each that it was enabled in, whichever is the active one."""
    hindex.enable(spark)
    for _ in range(2):
        other = spark.newSession()
        for store in (None, str(path)):
            hindex.enable(other, store=store)
        assert other.read.format("hindex").option("where", "id = 3001").load(str(path)).count() == 1
    assert type(spark).getActiveSession() == spark
    assert spark.read.format("hindex").option("where", "id = 3001").load(str(path)).count() == 1


def test_a_frame_of_other_types(tmp_path: Path, spark: SparkSession) -> None:
    """Values that fit are given in these; of an instant, nobody said which clock shows it."""
    hindex.enable(spark)
    clock = pa.array([datetime.datetime(2020, 1, 1, 12)], pa.timestamp("ns"))
    write_columns(
        tmp_path / "t" / "x.orc", {"n": pa.array([7], pa.int32()), "t": clock, "l": pa.array([[1]])}
    )
    read = spark.read.format("hindex")
    frame = read.load(str(tmp_path / "t"))
    assert read.schema("l array<string>, n bigint").load(str(tmp_path / "t")).first() == (["1"], 7)
    with pytest.raises(
        Exception,
        match=r"TableError: column 't' is timestamp\[us, tz=UTC\] in the files and timestamp\[us\] in",
    ):
        read.schema("t timestamp_ntz").load(str(tmp_path / "t")).collect()
    write_columns(
        tmp_path / "t" / "y.orc", {"n": pa.array([1 << 40], pa.int64()), "t": clock, "l": pa.array([[1]])}
    )
    with pytest.raises(
        Exception, match="TableError: column 'n' is int64 in the files and int32 in the frame: "
    ):
        frame.collect()


def test_a_condition_reads_fewer_rows(path: Path) -> None:
    """Partitions that it excludes are not read, and of the others the rows that indexes leave."""

    def scan(**options: str) -> SourceScan:
        return SourceScan(
            SourceTable({"path": str(path), "columns": "id,a"} | options, {}, None, UTC), ["id", "a"]
        )

    def handed(source: SourceScan) -> int:
        return sum(batch.num_rows for group in source.groups(4) for batch in read_group(group))

    narrowed, whole = scan(where="a IN (1, 2) AND p = 1"), scan()
    plan = narrowed.plan()
    assert [task.partition for task in plan.tasks] == [("1",)]
    assert {use.name for task in plan.tasks for use in task.indexes} == {"a"}
    assert sum(len(group) for group in narrowed.groups(4)) == 1
    assert handed(narrowed) == sum(i % 7 > 0 and i % 10 in (1, 2) for i in range(ROWS, 2 * ROWS))
    assert [task.partition for task in whole.plan().tasks] == [("1",), ("2",)]
    assert handed(whole) == 2 * ROWS
    assert scan(where="id < 0").groups(4) == []


def test_write_ids_that_are_seen(tmp_path: Path) -> None:
    for number in (1, 2):
        write_acid(
            tmp_path / f"delta_{number}_{number}" / "bucket_00000",
            [((number, bucket_property(0), row), number, (row, row, "x")) for row in range(3)],
        )
    for ids, files in ((None, 2), ("t:2:9223372036854775807::2", 1)):
        options = {"path": str(tmp_path)} | ({} if ids is None else {"valid_write_ids": ids})
        assert len(SourceTable(options, {}, None, UTC).snapshot().files) == files


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
    expected, result = spark.read.orc(str(dotted)), spark.read.format("hindex").load(str(dotted))
    assert result.columns == expected.columns
    assert rows(result.where(where)) == rows(expected.where(where)) != []
    picked = ("`a.b`", "a.b AS f", "`s.t`.u", "`x.y`")
    assert rows(result.where(where).selectExpr(*picked)) == rows(expected.where(where).selectExpr(*picked))


def test_a_field_without_a_name(tmp_path: Path, spark: SparkSession) -> None:
    """Spark's own reader of ORC files refuses it."""
    columns = {"n": pa.array([1, 2, 3]), "e": pa.array([{"": value, "x": 0} for value in (4, 5, 6)])}
    write_columns(tmp_path / "empty" / "0.orc", columns)
    hindex.enable(spark)
    result = spark.read.format("hindex").load(str(tmp_path / "empty"))
    assert [row.n for row in result.where(result["e"].getField("") == 5).collect()] == [2]


def test_fields_of_a_json_list(dotted: Path, spark: SparkSession) -> None:
    hindex.enable(spark)

    def read(columns: str) -> Any:
        return spark.read.format("hindex").option("columns", columns).load(str(dotted))

    result = read('["n", ["a.b"], ["s.t", "u"], "x.y"]')
    assert result.columns == ["n", "a.b", "s.t.u", "x.y"]
    assert [tuple(row) for row in result.where("`a.b` >= 60 AND `s.t.u` = 1").collect()] == [(2, 60, 1, 9)]
    for columns, message in [
        ('["n", "a.b"]', "as a tuple of names"),
        ('["n", ["a", "b"]]', "Column 'a.b' is ambiguous"),
        ('["n", 5]', "5 is not a column: pass a name as a string"),
        ('["n", []]', "is not a column: pass a name as a string"),
    ]:
        with pytest.raises(Exception, match="(?s)" + message):
            read(columns)


def test_conditions_on_names_with_dots(dotted: Path, spark: SparkSession) -> None:
    """A name that could be a field or a column is refused, where Spark's own filters take the field."""
    options = {"path": str(dotted), "where": "`a.b` = 6 AND `s.t`.u = 1"}
    scan = SourceScan(SourceTable(options, {}, None, UTC), ["n", "a", "a.b"])
    plan = scan.plan()
    assert str(plan.filter) == "`a.b` = 6 AND `s.t`.u = 1"
    assert [column.name for column in plan.columns] == ["n", "a", "a.b"]
    hindex.enable(spark)
    assert [row.n for row in spark.read.format("hindex").options(**options).load().collect()] == [1]
    with pytest.raises(Exception, match=r"ColumnError: Column .*a\.b"):
        spark.read.format("hindex").option("where", "a.b = 6").load(str(dotted))


def test_a_stream_is_refused(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    """Spark asks for its reader when the query begins; below its own words, the last line says what to do."""
    hindex.enable(spark)
    stream = spark.readStream.format("hindex").load(str(path))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        writer.start().awaitTermination(60)
    assert failure_message(caught.value) == (
        "format('hindex') reads a table as it is, and is no stream: use spark.read.format('hindex'), or "
        "spark.readStream.orc(path) for new files as they come"
    )


def test_tables_have_their_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "declared"
    spark.sql(
        f"CREATE TABLE declared_types (id INT, n TIMESTAMP_NTZ, dt STRING) USING orc PARTITIONED BY (dt) "
        f"LOCATION '{place}'"
    )
    try:
        spark.sql(
            "INSERT INTO declared_types VALUES (1, TIMESTAMP_NTZ '2024-03-31 02:30:00', '01'), (2, NULL, '1')"
        )
        hindex.enable(spark, tables=["declared_types"])
        frame = spark.read.format("hindex").option("table", "declared_types").load()
        expected = spark.table("declared_types")
        assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in expected.schema]
        assert rows(frame) == rows(expected)
    finally:
        spark.sql("DROP TABLE declared_types")
