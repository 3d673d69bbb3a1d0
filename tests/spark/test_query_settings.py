"""Queries under settings of the session that change strings, types and names: hindex follows Spark."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.errors import UnsupportedError
from hindex.explanations.explanation import Explanation
from hindex.queries.query_execution import explain_query, run_query
from hindex.spark import catalog
from hindex.spark.compatibility import is_ansi, is_set
from hindex.spark.session import has_own_settings
from hindex.sql.queries import parse_query
from tests.support.messages import raises
from tests.support.queries import compare, rows
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_the_session_of_the_connection_runs_commands(tables: hindex.Connection, spark: SparkSession) -> None:
    """Its settings apply, and the active session stays active."""
    sessions: Any = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    name = "spark.sql.ansi.doubleQuotedIdentifiers"
    active = sessions.getActiveSession().get()
    other: Any = spark.newSession()._jsparkSession
    statement = 'DESCRIBE TABLE EXTENDED "qt" AS JSON'
    assert catalog._run_command(spark, statement) is None
    spark.conf.set(name, "true")
    try:
        sessions.setActiveSession(other)
        description = catalog._run_command(spark, statement)
        assert description is not None
        assert json.loads(description)["table_name"] == "qt"
        assert sessions.getActiveSession().get().equals(other)
        sessions.clearActiveSession()
        assert catalog._run_command(spark, statement) == description
        assert not sessions.getActiveSession().isDefined()
    finally:
        sessions.setActiveSession(active)
        spark.conf.unset(name)


def test_timestamps_outside_of_utc(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    stamps = pa.array([0, 10**15, None], pa.timestamp("us"))
    write_columns(tmp_path / "x.orc", {"a": pa.array([1, 2, 3]), "t": stamps})
    tables.table(str(tmp_path)).create_indexes([hindex.IndexSpec("i", "a"), hindex.IndexSpec("j", "t")])
    texts = [
        f"SELECT sum(a) FROM '{tmp_path}' WHERE a = 2",
        f"SELECT max(t) FROM '{tmp_path}' WHERE a = 2",
        f"SELECT count(*) FROM '{tmp_path}' WHERE t < TIMESTAMP '1990-01-01 00:00:00'",
    ]

    def accelerated_flags() -> list[bool]:
        flags = []
        for text in texts:
            query = parse_query(text)
            assert query is not None
            plain = spark.sql(text.replace(f"'{tmp_path}'", f"orc.`{tmp_path}`"))
            assert rows(run_query(tables, query)) == rows(plain)
            flags.append(explain_query(tables, query).tables[0].is_accelerated)
        return flags

    assert accelerated_flags() == [True, True, True]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert accelerated_flags() == [True, True, True]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("setting", "value", "text", "accelerated"),
    [
        ("spark.sql.caseSensitive", "true", "SELECT sum(id) FROM qt WHERE a = 3", [False]),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT sum(id) FROM "qt" WHERE s = "s"', []),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", "SELECT sum(id) FROM qt WHERE a = 3", [True]),
        (
            "spark.sql.parser.escapedStringLiterals",
            "true",
            r"SELECT sum(id) FROM qt WHERE s > '\\163'",
            [False],
        ),
        (
            "spark.sql.legacy.consecutiveStringLiterals.enabled",
            "true",
            "SELECT sum(id) FROM qt WHERE s = 's''3'",
            [False],
        ),
        ("spark.sql.orderByOrdinal", "false", "SELECT id FROM qt WHERE a = 3 ORDER BY 1", [False]),
        ("spark.sql.groupByOrdinal", "false", "SELECT sum(id) FROM qt WHERE a = 3 GROUP BY b", [False]),
        ("spark.sql.groupByOrdinal", "false", "SELECT sum(id) FROM qt WHERE a = 3", [True]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = 3", [True]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE s = 3", [False]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = 3F", [False]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = '3.0' AND b = 1.0", [True]),
    ],
)
def test_settings(
    setting: str,
    value: str,
    text: str,
    accelerated: list[bool],
    tables: hindex.Connection,
    spark: SparkSession,
) -> None:
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        explained = compare(tables, text)
    finally:
        spark.conf.unset(setting) if before is None else spark.conf.set(setting, before)
    assert [item.is_accelerated for item in explained.tables] == accelerated
    if accelerated != [True] and "ansi.enabled" not in setting:
        assert setting in str(explained)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT id FROM qt WHERE s = "s"'),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT id FROM "qt" WHERE a = 3'),
        ("spark.sql.parser.escapedStringLiterals", "true", r"SELECT count(*) FROM qt WHERE s = '\163\063'"),
        ("spark.sql.ansi.enabled", "false", "SELECT id FROM qt WHERE a IN ('03')"),
        ("spark.sql.ansi.enabled", "false", "SELECT id FROM qt WHERE a + 2147483647 < 0"),
        ("spark.sql.ansi.enabled", "false", "SELECT a, count(*) FROM qt GROUP BY a HAVING a / 0 IS NULL"),
        ("my.value", "s3", "SELECT id FROM qt WHERE s = '${my.value}'"),
    ],
)
def test_statements_that_settings_change(
    setting: str, value: str, text: str, tables: hindex.Connection, spark: SparkSession
) -> None:
    """Spark runs a query that hindex could answer if the session parses it in another way."""
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        result: Any = tables.sql(text)
        assert rows(result.to_spark()) == rows(spark.sql(text))
        explanation: Any = tables.sql("SELECT id FROM qt WHERE a = 3").explain()  # type: ignore[union-attr]
        assert isinstance(explanation, Explanation)
        if setting != "my.value":
            # such a connection will use the existing session
            without_setting = hindex.connect(conf={"spark.sql.shuffle.partitions": "1"})
            assert without_setting._is_set(setting, value != "true") is (value == "true")
            with_setting = hindex.connect(conf={setting: "true" if value == "false" else "false"})
            assert with_setting._is_set(setting, value == "true") is (value == "false")
    finally:
        spark.conf.unset(setting) if before is None else spark.conf.set(setting, before)
    lazy = hindex.connect(conf={"spark.sql.parser.escapedStringLiterals": "true"})
    with raises(UnsupportedError):
        lazy._check_settings(r"SELECT '\n'")


def test_settings_before_the_session_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They may come from the environment or a file; hindex starts no session only to read settings."""
    for name in ("SPARK_ANSI_SQL_MODE", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert has_own_settings("sc://localhost")
    assert not has_own_settings("local[1]")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not has_own_settings(None)
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.ansi.enabled false\n")
    assert has_own_settings(None)
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_ANSI_SQL_MODE", "false")
    assert has_own_settings(None)


def test_floats_are_compared_with_integers_as_floats_without_ansi_mode(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """No FLOAT is 16777217: beside one, Spark's older rules round it to 16777216."""
    values = [2.0**24, 2.0**24 + 2, 3.0, None]
    write_columns(tmp_path / "1.orc", {"f": pa.array(values, pa.float32())})
    tables.table(str(tmp_path)).create_index("by_f", "f")
    for value, expected in (("true", []), ("false", [2.0**24])):
        spark.conf.set("spark.sql.ansi.enabled", value)
        try:
            result: Any = tables.sql(f"SELECT f FROM '{tmp_path}' WHERE f = 16777217")
            assert result.to_arrow()["f"].to_pylist() == expected
            frame = spark.read.orc(str(tmp_path)).where("f = 16777217")
            assert [row.f for row in frame.collect()] == expected
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")


def test_partition_values_that_are_strings_in_the_session(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    for number, directory in enumerate(("p=1", "p=01")):
        write_columns(tmp_path / directory / "1.orc", {"id": pa.array([number])})
    name = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(name, "false")
    try:
        result: Any = tables.sql(f"SELECT id FROM '{tmp_path}' WHERE p = '01'")
        assert result.to_arrow()["id"].to_pylist() == [1]
    finally:
        spark.conf.unset(name)


def test_ansi_mode_is_read_from_spark() -> None:
    """Its default depends on the environment."""

    class Session:
        class conf:  # noqa: N801 as Spark calls it
            @staticmethod
            def get(key: str, default: str = "false") -> str:
                return default

    assert not is_ansi(partial(is_set, Session))  # type: ignore[arg-type]
