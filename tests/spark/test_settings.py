"""Settings that may change rows leave a query to Spark, and the list of the others is complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import UnsupportedError
from hindex.spark.settings import FOLLOWED, HADOOP_DEFAULTS, is_neutral, reason_in, setting_reason
from tests.spark.layouts import rows
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.queries import compare, compare_plans
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURE = Path(__file__).parent / "fixtures" / "settings.txt"


def test_every_setting_is_known(spark: SparkSession) -> None:
    """A new version of Spark adds settings: list each in the fixture, or among the neutral ones."""
    # this statement also loads the settings of Hive
    names = {str(row[0]) for row in spark.sql("SET -v").collect()}
    module: Any = getattr(spark._jvm, "org.apache.spark.sql.internal.SQLConf$")
    names |= {str(entry.key()) for entry in module.__getattr__("MODULE$").getConfigEntries().toArray()}
    assert len(names) > 700
    listed = {line for line in FIXTURE.read_text().splitlines() if not line.startswith("#")}
    unknown = {name for name in names if not is_neutral(name)}
    assert unknown - listed == set()
    assert listed - unknown == set()
    assert names >= FOLLOWED
    assert not is_neutral("spark.sql.orc.ofALaterVersion")


def test_every_setting_of_orc_is_known(spark: SparkSession) -> None:
    java: Any = spark._jvm
    entries = getattr(java, "org.apache.orc.OrcConf").values()
    names = {name for entry in entries for name in (entry.getAttribute(), entry.getHiveConfName()) if name}
    defaults = {entry.getAttribute(): entry.getDefaultValue() for entry in entries}
    assert len(names) > 80
    for name in names:
        assert is_neutral(name) != (name.removeprefix("hive.exec.") in HADOOP_DEFAULTS), name
    for name, value in HADOOP_DEFAULTS.items():
        if name in defaults:
            default = defaults[name]
            assert value == (None if default is None else str(default).lower()), name
    assert not is_neutral("orc.of.a.later.version")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Any:
    """Create a table whose columns are in another order than those of its files, with decimals."""
    values: dict[str, pa.Array] = {
        "b": pa.array([1, 2, 3], pa.int32()),
        "a": pa.array([30, 20, 10], pa.int32()),
        "d": pa.array([1, 2, 3]).cast(pa.decimal128(38, 18)),
    }
    write_columns(tmp_path / "t" / "1.orc", values)
    spark.sql(f"CREATE TABLE settled (a INT, b INT, d DECIMAL(38, 18)) USING orc LOCATION '{tmp_path / 't'}'")
    hx = hindex.connect(spark=spark)
    hx.table("settled").create_index("i", "a")
    yield hx
    spark.sql("DROP TABLE settled")


@pytest.mark.slow
@sampled(6)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("orc.force.positional.evolution", "true", "a = 2"),
        ("orc.force.positional.evolution", "TRUE", "b > 10"),
        ("orc.skip.corrupt.data", "true", "a = 20"),
        ("hive.exec.orc.skip.corrupt.data", "true", "a = 20"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "d * 1.123456789012345678 > 2.2"),
        ("spark.sql.legacy.decimal.retainFractionDigitsOnTruncate", "true", "d * d > 2"),
        ("spark.sql.legacy.literal.pickMinimumPrecision", "false", "d + 1 > 2"),
        ("spark.sql.caseSensitive", "true", "a = 20"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "a = 20"),
        ("spark.sql.files.ignoreMissingFiles", "true", "a = 20"),
        ("spark.sql.orc.mergeSchema", "true", "a = 20"),
        ("spark.sql.files.ignoredPathSegmentRegex", "^[._1]", "a = 20"),
        ("spark.sql.ofALaterVersion", "1", "a = 20"),
    ],
)
def test_settings_that_may_change_rows(
    spark: SparkSession, table: hindex.Connection, key: str, value: str, where: str
) -> None:
    text = f"SELECT * FROM settled WHERE {where}"
    reason = f"the session has {key} = {value}"
    assert setting_reason(spark) is None
    spark.conf.set(key, value)
    try:
        assert setting_reason(spark) == reason
        expected = rows(spark.sql(text).toArrow())
        result: Any = table.sql(text)
        assert rows(result.to_arrow()) == expected
        assert reason in str(result.explain())
        explained = compare(table, text)
        assert not any(item.is_accelerated for item in explained.tables)
        # the index alone would answer it
        grouped = compare_plans(table, "SELECT a, count(*) AS n FROM settled GROUP BY a")
        assert not any(item.is_accelerated for item in grouped.tables)
        with raises(UnsupportedError):
            table.table("settled").scan(where).to_arrow()
    finally:
        spark.conf.unset(key)
    assert table.table("settled").scan("a = 20").explain().exact
    (decision,) = compare_plans(table, "SELECT a, count(*) AS n FROM settled GROUP BY a").tables
    assert decision.is_accelerated


@pytest.mark.usefixtures("always")
def test_settings_of_the_hadoop_configuration(spark: SparkSession, table: hindex.Connection) -> None:
    """A file of Hadoop, or ``spark.hadoop.*`` of the context, may set it: the session then has no setting."""
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    hadoop.set("orc.force.positional.evolution", "true")
    try:
        result: Any = table.sql("SELECT * FROM settled WHERE a = 2")
        assert result.to_arrow().to_pylist() == spark.table("settled").where("a = 2").toArrow().to_pylist()
        assert result.to_arrow().num_rows == 1
        assert "the session has orc.force.positional.evolution = true" in str(result.explain())
    finally:
        hadoop.unset("orc.force.positional.evolution")


@sampled(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.decimalOperations.allowPrecisionLoss", "true"),
        ("spark.sql.caseSensitive", "FALSE"),
        ("orc.force.positional.evolution", "False"),
        ("hive.exec.dynamic.partition.mode", "nonstrict"),
        ("my.variable", "7"),
        ("spark.sql.adaptive.enabled", "false"),
        ("orc.compress", "SNAPPY"),
    ],
)
def test_neutral_settings(spark: SparkSession, table: hindex.Connection, key: str, value: str) -> None:
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        assert setting_reason(spark) is None
        assert table.table("settled").scan("a = 20").to_arrow().num_rows == 1
        assert all(
            item.is_accelerated for item in compare(table, "SELECT sum(b) FROM settled WHERE a = 20").tables
        )
    finally:
        spark.conf.unset(key) if before is None else spark.conf.set(key, before)


def test_settings_before_the_session_starts() -> None:
    assert (
        reason_in({"spark.hadoop.orc.force.positional.evolution": "false", "spark.executor.cores": "4"})
        is None
    )
    settings = {"spark.hadoop.orc.force.positional.evolution": "true"}
    assert reason_in(settings) == "the session has spark.hadoop.orc.force.positional.evolution = true"
