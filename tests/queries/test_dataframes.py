"""DataFrames of an accelerated session: each action and transformation has Spark's rows and schema."""

from __future__ import annotations

import datetime
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.queries import selectivity
from hindex.scan.task_runner import Runner
from tests.spark.zones_run import session_zone
from tests.support.cases import sampled
from tests.support.chars import as_char
from tests.support.queries import compare_plans, count_calls, rows
from tests.support.small import write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Snippet = Callable[["SparkSession", Path], Any]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database ``frames`` with tables of many types, a folder of files by path, and indexes on both."""
    folder = tmp_path_factory.mktemp("frames")
    spark.sql("CREATE DATABASE frames")
    spark.sql("USE frames")
    spark.sql(
        "CREATE TABLE events (id BIGINT, k INT, s STRING, c CHAR(4), d DATE, ts TIMESTAMP, a DECIMAL(9, 2), "
        "f DOUBLE, st STRUCT<x: INT, y: STRING>, p INT) USING orc PARTITIONED BY (p)"
    )
    frame = spark.range(600).selectExpr(
        "id",
        "CAST(if(id % 11 = 0, NULL, id % 40) AS INT) AS k",
        "if(id % 13 = 0, NULL, concat('s', id % 30)) AS s",
        "concat('c', id % 9) AS c",
        "date_add(DATE '2024-01-01', CAST(id % 50 AS INT)) AS d",
        "timestamp_micros(1704067200000000 + id * 3600000000) AS ts",
        "CAST(id % 25 AS DECIMAL(9, 2)) / 2 AS a",
        "if(id % 17 = 0, double('NaN'), id / 8) AS f",
        "named_struct('x', CAST(id % 20 AS INT), 'y', concat('y', id % 5)) AS st",
        "CAST(id % 3 AS INT) AS p",
    )
    frame.repartition(2).write.insertInto("events")
    spark.sql("CREATE TABLE few USING orc AS SELECT id AS k, concat('n', id) AS name FROM range(6)")
    frame.drop("c").repartition(2).write.orc(str(folder / "files"))
    frame.drop("c").repartition(2).write.partitionBy("p").orc(str(folder / "parts"))
    hx = hindex.connect(spark=spark)
    for table in (hx.table("frames.events"), hx.table(folder / "files"), hx.table(folder / "parts")):
        names = ["k", "s", "d", "ts", "a", "f", "st.x"]
        names += ["c"] if "c" in table.columns else []
        table.create_indexes([hindex.IndexSpec(f"i_{name}", name) for name in names])
    yield folder
    spark.sql("USE default")
    spark.sql("DROP DATABASE frames CASCADE")


@pytest.fixture(autouse=True)
def in_database(spark: SparkSession, tables: Path) -> Iterator[None]:
    spark.sql("USE frames")
    yield
    spark.sql("USE default")


def _events(spark: SparkSession) -> DataFrame:
    return spark.table("events")


def _files(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.orc(str(folder / "files"))


def _temp_view(spark: SparkSession, folder: Path) -> Any:
    _files(spark, folder).where("k < 30").createOrReplaceTempView("recent")
    return spark.sql("SELECT s, count(*) AS n FROM recent WHERE k = 7 GROUP BY s")


def _global_view(spark: SparkSession, folder: Path) -> Any:
    _events(spark).createOrReplaceGlobalTempView("everything")
    return spark.table("global_temp.everything").where("k = 7")


def _cached(spark: SparkSession, folder: Path) -> Any:
    frame = _events(spark).where("k = 7").cache()
    try:
        return frame.count(), rows(frame.where("p = 1").drop("st"))
    finally:
        frame.unpersist()


def _written(spark: SparkSession, folder: Path) -> Any:
    place = str(folder / uuid.uuid4().hex)
    _events(spark).where("k = 7").select("id", "s").write.parquet(place)
    return spark.read.parquet(place)


def _saved(spark: SparkSession, folder: Path) -> Any:
    _events(spark).where("k = 7").select("id", "s").write.mode("overwrite").saveAsTable("saved")
    return spark.table("saved")


def _inserted(spark: SparkSession, folder: Path) -> Any:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW nothing AS SELECT 1")
    spark.sql("DROP TABLE IF EXISTS target")
    spark.sql("CREATE TABLE target (id BIGINT, s STRING) USING orc")
    _events(spark).where("k = 7").select("id", "s").write.insertInto("target")
    spark.sql("INSERT INTO target SELECT id, s FROM events WHERE k = 8")
    return spark.table("target")


def _created(spark: SparkSession, folder: Path) -> Any:
    spark.sql("DROP TABLE IF EXISTS made")
    spark.sql("CREATE TABLE made USING orc AS SELECT id, c, a FROM events WHERE k = 7")
    return spark.table("made")


def _iterated(spark: SparkSession, folder: Path) -> Any:
    return sorted(row.id for row in _events(spark).where("k = 7").toLocalIterator())


def _foreach(spark: SparkSession, folder: Path) -> Any:
    total = spark.sparkContext.accumulator(0)
    _events(spark).where("k = 7").select("id").foreach(lambda row: total.add(row.id))
    return total.value


def _map_in_arrow(spark: SparkSession, folder: Path) -> Any:
    return _events(spark).where("k = 7").select("id").mapInArrow(lambda batches: batches, "id BIGINT")


def _udf(spark: SparkSession, folder: Path) -> Any:
    from pyspark.sql.functions import udf

    shout = udf(lambda text: None if text is None else text.upper(), "string")
    return _events(spark).where("k = 7").select("id", shout("s").alias("u")).where("u <> 'S3'")


def _streamed(spark: SparkSession, folder: Path) -> Any:
    """The static side of a join with a stream."""
    place, name = folder / uuid.uuid4().hex, f"q{uuid.uuid4().hex}"
    spark.range(5).selectExpr("CAST(id + 5 AS INT) AS k").write.parquet(str(place))
    stream = spark.readStream.schema("k INT").parquet(str(place))
    joined = stream.join(_events(spark).where("k = 7").select("k", "id"), "k")
    query = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table(name)


def _pandas_on_spark(spark: SparkSession, folder: Path) -> Any:
    frame = _events(spark).where("k = 7").select("id", "p").pandas_api()
    return int(frame[frame.p > 0].id.sum())


#: Snippets of code, and whether an index can serve them.
SNIPPETS: dict[str, tuple[bool, Snippet]] = {
    "where": (True, lambda s, f: _events(s).where("k = 7")),
    "by path": (True, lambda s, f: _files(s, f).where("k = 7").select("id", "s")),
    "column expression": (True, lambda s, f: _events(s).where(_events(s).k.isin(3, 7, None)).select("id")),
    "between": (True, lambda s, f: _events(s).where("d BETWEEN DATE '2024-01-03' AND DATE '2024-01-04'")),
    "date as a string": (True, lambda s, f: _events(s).where("d = '2024-01-03'").select("id")),
    "timestamp": (True, lambda s, f: _events(s).where("ts = TIMESTAMP '2024-01-03 04:00:00'").select("id")),
    "relative to now": (True, lambda s, f: _events(s).where("ts > now() - INTERVAL 1 DAY").select("id")),
    "decimal": (True, lambda s, f: _events(s).where("a = 2.5").select("id")),
    "NaN": (True, lambda s, f: _events(s).where("f = double('NaN')").select("id", "f")),
    "prefix": (True, lambda s, f: _events(s).where("s LIKE 's2%'").select("s")),
    "null": (True, lambda s, f: _events(s).where("k IS NULL").select("id", "k")),
    "not": (True, lambda s, f: _events(s).where("NOT (k > 3 OR k IS NULL)").select("id")),
    "or": (True, lambda s, f: _events(s).where("k = 3 OR s = 's5'").select("id")),
    "or of an unknown part": (False, lambda s, f: _events(s).where("k = 3 OR upper(s) = 'S5'").select("id")),
    "and of an unknown part": (True, lambda s, f: _events(s).where("k = 3 AND upper(s) = 'S3'").select("id")),
    "struct field": (True, lambda s, f: _events(s).where("st.x = 3").select("st.y", "id")),
    "one struct field": (True, lambda s, f: _events(s).where("st.x = 3").select("st.x", "id")),
    "one struct field by path": (True, lambda s, f: _files(s, f).where("st.x = 3 AND p = 1").select("st.x")),
    "char": (True, lambda s, f: _events(s).where("c = 'c3'").select("id", "c")),
    "partition and column": (True, lambda s, f: _events(s).where("p = 1 AND k = 7")),
    "count of one constant": (
        False,
        lambda s, f: s.sql("SELECT k, count(DISTINCT 1) AS n FROM events GROUP BY k"),
    ),
    "many keys": (True, lambda s, f: _events(s).where(_events(s).k.isin(list(range(100, 400)))).select("id")),
    "renamed": (True, lambda s, f: _events(s).withColumnRenamed("k", "key").where("key = 7").select("id")),
    "computed column": (
        True,
        lambda s, f: _events(s).withColumn("t", _events(s).k * 2).where("k = 7").select("t", "id"),
    ),
    "count": (True, lambda s, f: _events(s).where("k = 7").count()),
    "count with an unknown part": (True, lambda s, f: _events(s).where("k = 3 AND upper(s) = 'S3'").count()),
    "first": (True, lambda s, f: _events(s).where("id < 300 AND k = 7").orderBy("id").first()),
    "take": (True, lambda s, f: _events(s).where("k = 7").orderBy("id").take(3)),
    "collect": (True, lambda s, f: sorted(map(str, _events(s).where("k = 7").collect()))),
    "toPandas": (True, lambda s, f: len(_events(s).where("k = 7").toPandas())),
    "toArrow": (True, lambda s, f: _events(s).where("k = 7").select("id").toArrow().num_rows),
    "isEmpty": (True, lambda s, f: _events(s).where("k = 77").isEmpty()),
    "rdd": (True, lambda s, f: sorted(_events(s).where("k = 7").rdd.map(lambda row: row.id).collect())),
    "iterator": (True, _iterated),
    "foreach": (True, _foreach),
    "group": (True, lambda s, f: _events(s).where("k < 4").groupBy("k").agg({"id": "sum", "a": "max"})),
    "group by index": (True, lambda s, f: _events(s).groupBy("k").count()),
    "distinct": (True, lambda s, f: _events(s).where("k = 7").select("s").distinct()),
    "join": (
        True,
        lambda s, f: _events(s).join(s.table("few").where("name LIKE 'n%4'"), "k").select("id", "name"),
    ),
    "semi join": (
        True,
        lambda s, f: _events(s).join(s.table("few").where("k > 3"), "k", "left_semi").select("id"),
    ),
    "anti join": (True, lambda s, f: s.table("few").join(_events(s), "k", "left_anti")),
    "left join": (
        True,
        lambda s, f: s.table("few").where("name = 'n4'").join(_events(s), "k", "left").select("id", "name"),
    ),
    "self join": (
        True,
        lambda s, f: (
            _events(s).alias("l").join(_events(s).where("k = 7").alias("r"), "id").select("l.s", "r.k")
        ),
    ),
    "union": (True, lambda s, f: _events(s).where("k = 7").union(_events(s).where("s = 's3'")).select("id")),
    "window": (
        True,
        lambda s, f: (
            _events(s).where("k < 9").selectExpr("id", "row_number() OVER (PARTITION BY k ORDER BY id) AS n")
        ),
    ),
    "limit": (True, lambda s, f: _events(s).where("k = 7").orderBy("id").limit(4).select("id")),
    "explode": (
        True,
        lambda s, f: _events(s).where("k = 7").selectExpr("explode(sequence(1, p)) AS e", "id"),
    ),
    "scalar subquery": (
        True,
        lambda s, f: s.sql("SELECT id FROM events WHERE k = (SELECT max(k) FROM few WHERE name < 'n4')"),
    ),
    "temporary view": (True, _temp_view),
    "global view": (True, _global_view),
    "cache": (True, _cached),
    "checkpoint": (True, lambda s, f: _events(s).where("k = 7").select("id").localCheckpoint()),
    "write": (True, _written),
    "saveAsTable": (True, _saved),
    "insertInto": (True, _inserted),
    "CREATE TABLE AS": (True, _created),
    "mapInArrow": (True, _map_in_arrow),
    "udf": (True, _udf),
    "pandas on Spark": (True, _pandas_on_spark),
    "static side of a stream": (True, _streamed),
    "_metadata": (False, lambda s, f: _events(s).where("k = 7").select("id", "_metadata.file_size")),
    "input_file_name": (False, lambda s, f: _events(s).where("k = 7").selectExpr("id", "input_file_name()")),
    "sample": (False, lambda s, f: _events(s).where("k = 7").sample(fraction=1.0, seed=3).select("id")),
    "sampleBy": (
        False,
        lambda s, f: _events(s).where("k IN (7, 8)").sampleBy("k", {7: 0.5, 8: 0.2}, seed=3).select("id"),
    ),
    "random numbers with a seed": (
        False,
        lambda s, f: _events(s).where("k = 7").selectExpr("id", "rand(3) AS r", "randn(4) AS n"),
    ),
    "normal random numbers with a seed": (
        False,
        lambda s, f: _events(s).where("k = 7").selectExpr("id", "randn(4) AS n"),
    ),
    "random numbers of each run": (
        True,
        lambda s, f: s.sql("SELECT id, rand() < 2 AS r FROM events WHERE k = 7"),
    ),
    "some files": (
        True,
        lambda s, f: s.read.orc(sorted(map(str, (f / "files").glob("*.orc")))[1:]).where("k = 7"),
    ),
    "files twice": (False, lambda s, f: s.read.orc([str(f / "files")] * 2).where("k = 7")),
    "two readings of a path": (
        True,
        lambda s, f: (
            s.read.option("pathGlobFilter", "part-00000*")
            .orc(str(f / "files"))
            .where("k = 7")
            .unionAll(_files(s, f).where("k = 7"))
        ),
    ),
    "a partition": (True, lambda s, f: s.read.orc(str(f / "parts/p=1")).where("k = 7")),
    "some partitions": (
        True,
        lambda s, f: s.read.orc([str(f / "parts/p=0"), str(f / "parts/p=2")]).where("k = 7"),
    ),
    "some partitions with their column": (
        True,
        lambda s, f: (
            s.read.option("basePath", str(f / "parts"))
            .orc([str(f / "parts/p=0"), str(f / "parts/p=2")])
            .where("k = 7 AND p > 1")
        ),
    ),
    "a partition whose column is declared": (
        False,
        lambda s, f: s.read.schema("id BIGINT, k INT, p INT").orc(str(f / "parts/p=1")).where("k = 7"),
    ),
    "a partition whose declared column is not used": (
        True,
        lambda s, f: (
            s.read.schema("id BIGINT, k INT, p INT").orc(str(f / "parts/p=1")).where("k = 7").select("id")
        ),
    ),
    "several tables": (
        False,
        lambda s, f: s.read.orc([str(f / "files"), str(f / "parts/p=1")]).where("k = 7").select("id"),
    ),
    "declared schema": (
        True,
        lambda s, f: s.read.schema("id BIGINT, k INT").orc(str(f / "files")).where("k = 7"),
    ),
    "another schema": (
        False,
        lambda s, f: s.read.schema("id BIGINT, k STRING").orc(str(f / "files")).where("k = '7'").select("id"),
    ),
    "another type of a field": (
        False,
        lambda s, f: (
            s.read.schema("id BIGINT, st STRUCT<x: STRING>")
            .orc(str(f / "files"))
            .where("st.x = '3'")
            .select("id")
        ),
    ),
    "option of files": (
        True,
        lambda s, f: (
            s.read.option("pathGlobFilter", "part-00000*").orc(str(f / "files")).where("k = 7").select("id")
        ),
    ),
}


def _value(result: Any) -> Any:
    return (result.schema.jsonValue(), rows(result)) if hasattr(result, "toArrow") else result


@sampled(40)
@pytest.mark.parametrize("name", SNIPPETS)
def test_rows_and_schema_are_sparks(
    spark: SparkSession, tables: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_indexed, snippet = SNIPPETS[name]
    expected = _value(snippet(spark, tables))
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark, always=True):
        assert _value(snippet(spark, tables)) == expected
    assert not any("failed" in line for line in caplog.messages), caplog.messages
    assert any(line.startswith("accelerated: ") for line in caplog.messages) is is_indexed, caplog.messages


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize(
    "condition",
    [
        "ts >= TIMESTAMP '2024-01-02 03:00:00' AND ts < TIMESTAMP '2024-01-02 07:00:00'",
        "ts = CAST('2024-01-02 03:00:00' AS TIMESTAMP)",
        "ts IN (TIMESTAMP '2024-01-02 03:00:00', TIMESTAMP '2024-01-02 03:00:00.5')",
        "d = DATE '2024-01-05' AND hour(ts) = 3",
    ],
)
def test_times_are_those_of_the_session(spark: SparkSession, tables: Path, zone: str, condition: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        expected = rows(spark.table("events").where(condition).select("id", "ts"))
        with hindex.accelerate(spark, always=True) as handle:
            assert rows(spark.table("events").where(condition).select("id", "ts")) == expected
            assert "i_" in handle.summary()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize(
    "condition", ["r = 0.1F", "r IN (0.3F, 2F, NULL)", "r > 0.7F", "r <= 0.2F", "r = float('NaN')"]
)
def test_constants_are_the_floats_that_spark_compares(
    spark: SparkSession, tables: Path, condition: str
) -> None:
    """A FLOAT of 0.1 is another number than a DOUBLE of it."""
    hx = hindex.connect(spark=spark)
    if not spark.catalog.tableExists("floats"):
        values = "CAST(if(id = 9, 'NaN', id / 10) AS FLOAT) AS r"
        spark.sql(f"CREATE TABLE floats USING orc AS SELECT id, {values} FROM range(10)")
        hx.table("floats").create_index("ir", "r")
    (decision,) = compare_plans(hx, f"SELECT id, r FROM floats WHERE {condition}").tables
    assert decision.is_accelerated
    assert spark.table("floats").where(condition).count() > 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (None, ""),
        ("spark.sql.legacy.noCharPaddingInPredicate", "true"),
        ("spark.sql.readSideCharPadding", "false"),
    ],
)
def test_char_columns_of_files_are_padded_by_settings(
    spark: SparkSession, tables: Path, tmp_path: Path, setting: str | None, value: str
) -> None:
    """No catalog has them, and an index has keys that are padded."""
    place = tmp_path / "t"
    place.mkdir()
    as_char(place / "0.orc", ["ab", "x", "", None, "abc", "ab  "] * 10, 4)
    hx = hindex.connect(spark=spark)
    hx.table(place).create_indexes([hindex.IndexSpec("ic", "c"), hindex.IndexSpec("ii", "id")])
    if setting is not None:
        spark.conf.set(setting, value)
    try:
        for condition in ("c = 'ab'", "c < 'ab '", "c IN ('ab', 'x ')", "c > 'a'", "c LIKE 'ab'", "id < 9"):
            text = f"SELECT id, c, length(c) AS n FROM orc.`{place}` WHERE {condition}"
            (decision,) = compare_plans(hx, text).tables
            assert decision.is_accelerated or setting is not None
    finally:
        if setting is not None:
            spark.conf.unset(setting)


@pytest.mark.parametrize("with_names", [True, False])
@pytest.mark.parametrize(("schema", "is_same"), [("a INT, b INT", True), ("b INT, a INT", False)])
def test_schemas_of_files_without_names(
    spark: SparkSession,
    tables: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    schema: str,
    *,
    is_same: bool,
    with_names: bool,
) -> None:
    """Each column of such a file is the one that the schema has at its position."""
    values = [pa.array([1, 2, 3], pa.int32()), pa.array([2, 3, 4], pa.int32())]
    write_columns(tmp_path / "t/day=1/0.orc", dict(zip(["_col0", "_col1"], values, strict=True)))
    if with_names:
        write_columns(tmp_path / "t/day=2/0.orc", dict(zip("ab", values, strict=True)))
    else:
        (tmp_path / "t/day=2").mkdir()
    column = "a" if with_names else "_col0"
    hindex.connect(spark=spark).table(tmp_path / "t").create_index("i", column)
    if not with_names:
        schema = schema.replace("a", "_col0").replace("b", "_col1")
    caplog.set_level(logging.INFO, "hindex.queries")

    def find() -> list[Any]:
        frame = spark.read.schema(schema).orc(str(tmp_path / "t"))
        return rows(frame.where(f"{column} = 2").select("*"))

    expected = find()
    with hindex.accelerate(spark, always=True):
        assert find() == expected
    assert len(expected) == 1 + with_names
    message = "through i" if is_same else "are read by position, and Spark's schema is another"
    assert message in caplog.messages[-1]


def test_warnings_about_changed_files_repeat(
    spark: SparkSession,
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where the reading is remembered as one that does not pay."""
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    for number in range(2):
        write_rows(tmp_path / "t" / f"{number}.orc", number * 100, [3] * 90)
    hindex.connect(spark=spark).table(tmp_path / "t").create_index("ia", "a")
    write_rows(tmp_path / "t" / "1.orc", 100, [3] * 91)
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    with hindex.accelerate(spark):
        for _ in range(3):
            caplog.clear()
            assert len(spark.read.orc(str(tmp_path / "t")).where("a = 3").select("s").collect()) == 181
            assert any("index not used on" in line and "1.orc" in line for line in caplog.messages), (
                caplog.messages
            )
    assert len(lookups) == 1


def test_the_second_data_source_interface(
    spark: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark.conf.set("spark.sql.sources.useV1SourceList", "parquet")
    try:
        expected = _value(_files(spark, tables).where("k = 7 AND p = 1").select("id", "s"))
        caplog.set_level(logging.INFO, "hindex.queries")
        with hindex.accelerate(spark, always=True):
            frame = _files(spark, tables).where("k = 7 AND p = 1").select("id", "s")
            assert _value(frame) == expected
        assert expected[1]
        assert "through i_k" in caplog.messages[-1]
    finally:
        spark.conf.unset("spark.sql.sources.useV1SourceList")


def test_explain_shows_the_index(
    spark: SparkSession, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hindex.accelerate(spark, always=True) as handle:
        frame = spark.table("events").where("k = 7").select("id")
        frame.explain()
        assert "events through i_k: id" in capsys.readouterr().out
        explained = handle.explain(frame)
        (table,) = explained.tables
        assert (table.table, table.is_accelerated) == ("events", True)
        assert "i_k" in explained.to_text()
        assert '"scan": {' in json.dumps(explained.to_json())
        # explaining reads no plan of the session's own
        assert handle.summary().startswith("tables read through indexes: i_k 1")


def test_only_used_columns_are_read(
    spark: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark, always=True):
        spark.table("events").where("k = 7").groupBy("p").sum("id").collect()
        spark.table("events").where("k = 7").selectExpr("id + 1").collect()
    assert [line.partition("| ")[2] for line in caplog.messages] == [
        "SELECT id, k, p FROM events WHERE k = 7",
        "SELECT id, k FROM events WHERE k = 7",
    ]


def test_stopping_removes_only_the_rule(spark: SparkSession, tables: Path) -> None:
    experimental = spark._jsparkSession.experimental()
    before = experimental.extraOptimizations().size()
    for _ in range(3):
        handle = hindex.accelerate(spark)
        assert hindex.accelerate(spark) is handle
        assert experimental.extraOptimizations().size() == before + 1
        handle.stop()
        handle.stop()
        assert experimental.extraOptimizations().size() == before
    with hindex.accelerate(spark, always=True) as handle:
        other = spark.newSession()
        other.sql("USE frames")
        assert rows(other.table("events").where("k = 7").select("id"))
        assert handle.summary() == "tables read through indexes: none"


def test_files_that_changed_since_spark_listed_them_are_left_to_spark(
    spark: SparkSession, tables: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "t"
    spark.range(100).selectExpr("id", "id % 5 AS k").coalesce(1).write.orc(str(place))
    hindex.connect(spark=spark).table(place).create_index("ik", "k")
    frame = spark.read.orc(str(place))
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark, always=True):
        assert frame.where("k = 3").count() == 20
        # Spark's frame has the files of its own listing
        spark.range(100, 200).selectExpr("id", "id % 5 AS k").coalesce(1).write.mode("append").orc(str(place))
        assert frame.where("k = 3 AND id > 0").count() == 20
        assert spark.read.orc(str(place)).where("k = 3").count() == 40
        caplog.clear()
        (first,) = (Path(name.removeprefix("file://")) for name in frame.inputFiles())
        content = first.read_bytes()
        first.with_name(f".{first.name}.crc").unlink(missing_ok=True)
        first.write_bytes(content)
        assert frame.where("k = 3 AND id > 1").count() == 20
        assert "was changed after Spark listed it" in caplog.messages[-1]
        # of the same time and another length
        status = first.stat()
        frame = spark.read.orc(str(place))
        write_columns(first, {"id": pa.array([7] * 9), "k": pa.array([3] * 9)})
        os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
        caplog.clear()
        frame.where("k = 3 AND id > 1").explain()
        assert "Spark's list of its files differs from the files" in caplog.messages[-1]


def test_a_statement_that_writes_what_it_reads_is_sparks(
    spark: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("CREATE TABLE own USING orc AS SELECT id, id % 5 AS k FROM range(50)")
    hindex.connect(spark=spark).sql("CREATE INDEX ik USING bitmap ON own (k)")
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark, always=True):
        spark.sql("INSERT INTO own SELECT id + 1000, k FROM own WHERE k = 3")
        assert any("writes the files that it reads" in line for line in caplog.messages)
        assert not any(line.startswith("accelerated") for line in caplog.messages)
        assert spark.table("own").where("k = 3").count() == 20


def test_a_statement_that_writes_the_files_of_a_path_it_reads_is_sparks(
    spark: SparkSession, tables: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = str(tmp_path / "own")
    spark.range(50).selectExpr("id", "id % 5 AS k").coalesce(1).write.orc(place)
    hindex.connect(spark=spark).table(place).create_index("ik", "k")
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark, always=True):
        spark.read.orc(place).where("k = 3").selectExpr("id + 1000 AS id", "k").write.mode("append").orc(
            place
        )
        assert any("writes the files that it reads" in line for line in caplog.messages)
        assert not any(line.startswith("accelerated") for line in caplog.messages)
        assert spark.read.orc(place).where("k = 3").count() == 20


def test_a_cached_table_stays_cached(spark: SparkSession, tables: Path) -> None:
    frame = spark.table("few").where("k = 3")
    frame.cache()
    try:
        expected = rows(frame)
        with hindex.accelerate(spark, always=True) as handle:
            assert rows(spark.table("few").where("k = 3")) == expected
            assert handle.summary() == "tables read through indexes: none"
    finally:
        frame.unpersist()


def test_now_is_one_time(spark: SparkSession, tables: Path) -> None:
    later = datetime.datetime.now() + datetime.timedelta(days=400)
    assert later.year > 2024
    with hindex.accelerate(spark, always=True) as handle:
        assert spark.table("events").where("d < current_date() AND k = 7").count() > 0
        assert "i_k" in handle.summary()


def test_a_frame_keeps_the_time_zone_that_it_was_made_in(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark computes days by the zone of the session when the frame was made, not when it runs."""
    minutes = "timestamp_seconds(1700000000 + id * 60) AS ts"
    spark.range(5000).selectExpr("id", minutes).coalesce(1).write.orc(str(tmp_path / "t"))
    hindex.connect(spark=spark).table(tmp_path / "t").create_index("i", "ts")
    conditions = (
        "date_trunc('DAY', ts) = TIMESTAMP '2023-11-16 00:00:00'",
        "year(ts) = 2023 AND date_trunc('DAY', ts) < TIMESTAMP '2023-11-15 12:00:00'",
        "CAST(ts AS DATE) = DATE '2023-11-16' AND hour(ts) = 3",
    )
    caplog.set_level(logging.INFO, "hindex.queries")
    for made_in, run_in in (("Asia/Tokyo", "UTC"), ("UTC", "Asia/Tokyo"), ("Asia/Tokyo", "Asia/Tokyo")):
        for condition in conditions:
            with session_zone(spark, made_in):
                frame = spark.read.orc(str(tmp_path / "t")).where(condition).select("id")
                expected = rows(frame)
            with session_zone(spark, run_in), hindex.accelerate(spark, always=True):
                caplog.clear()
                assert rows(frame.where("true")) == expected
                is_used = " through i, " in caplog.text
            assert len(expected) > 50
            if made_in == run_in:
                assert is_used


def test_partitions_keep_the_time_zone_that_a_frame_was_made_in(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has read the times in directory names when it listed the files."""
    place = str(tmp_path / "t")
    frame = spark.range(60).selectExpr("id", "timestamp_seconds(1700000000 + (id % 5) * 7200) AS p")
    frame.coalesce(1).write.partitionBy("p").orc(place)
    hindex.connect(spark=spark).table(place).create_index("i", "id")
    for made_in, run_in in (("Asia/Tokyo", "UTC"), ("UTC", "Asia/Tokyo")):
        with session_zone(spark, made_in):
            kept = spark.read.orc(place)
            frames = [
                kept.where("id IN (5, 7)").selectExpr("id", "CAST(p AS LONG)"),
                kept.where("p >= '2023-11-15 00:00:00' AND id < 20").select("id"),
                kept.where("p >= '2023-11-15 00:00:00'").groupBy().count(),
            ]
            expected = [rows(item) for item in frames]
        with session_zone(spark, run_in), hindex.accelerate(spark, always=True):
            assert [rows(item) for item in frames] == expected


def test_a_condition_that_needs_the_sessions_clock_does_not_hide_others(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    minutes = "timestamp_seconds(1700000000 + id * 60) AS ts"
    spark.range(5000).selectExpr("id", "id % 9 AS a", minutes).coalesce(1).write.orc(str(tmp_path / "t"))
    hindex.connect(spark=spark).table(tmp_path / "t").create_index("i", "a")
    caplog.set_level(logging.INFO, "hindex.queries")
    with session_zone(spark, "America/New_York"):
        for condition in ("date_trunc('HOUR', ts) = TIMESTAMP '2023-11-16 12:00:00'", "year(ts) < 12000"):
            frame = spark.read.orc(str(tmp_path / "t")).where(f"a = 3 AND {condition}").select("id")
            expected = rows(frame)
            assert expected
            with hindex.accelerate(spark, always=True):
                caplog.clear()
                assert rows(frame.where("true")) == expected
                assert " through i, " in caplog.text
