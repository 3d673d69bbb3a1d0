"""``hindex.accelerate``: the rows and the schema are Spark's, and the log says what was read through which index."""

from __future__ import annotations

import datetime
import json
import logging
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.api import acceleration
from hindex.errors import ArgumentError, ArgumentTypeError, IndexNotFoundError, StatementError
from hindex.queries import query_plan
from hindex.queries.query_plan import TOO_MANY
from tests.queries import script
from tests.support.queries import count_calls, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


class Log:
    """The lines of the log of queries."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="hindex.queries")

    def take(self) -> list[str]:
        messages = [record.getMessage() for record in self._caplog.records if record.name == "hindex.queries"]
        lines = [text for text in messages if not text.startswith("spark.sql(...) of this session")]
        self._caplog.clear()
        return lines

    def one(self) -> str:
        (line,) = self.take()
        return line


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def contents(frame: Any) -> tuple[Any, list[str]]:
    return frame.schema.jsonValue(), rows(frame)


def test_a_script_gives_the_same_with_the_one_line(spark: SparkSession, warehouse: str, log: Log) -> None:
    expected = {name: contents(frame) for name, frame in script.run(spark, warehouse).items()}
    with hindex.accelerate(spark):
        results = {name: contents(frame) for name, frame in script.run(spark, warehouse).items()}
    assert results == expected
    assert all(expected[name][1] for name in expected if name not in ("created", "inserted"))
    lines = log.take()
    accelerated = [line for line in lines if line.startswith("accelerated: ")]
    assert len(accelerated) == 10
    assert sum("sales through i_day, i_shop" in line for line in accelerated) == 3
    assert any("CREATE TABLE daily" in line for line in accelerated)
    assert any("INSERT INTO daily" in line for line in accelerated)
    # of a view, rows are those of its query whenever it is asked
    assert not any("CREATE OR REPLACE TEMPORARY VIEW" in line for line in lines)


@pytest.mark.parametrize(
    "columns",
    [
        "k INT NOT NULL COMMENT 'key', v STRING",
        "k INT, v STRING DEFAULT 'x' COMMENT 'with \"quotes\"'",
        "k INT, c CHAR(5) DEFAULT 'x' COMMENT 'padded', v VARCHAR(4) DEFAULT 'y', t TIMESTAMP_NTZ",
        "k INT, s STRUCT<a: INT COMMENT 'within', `b c`: STRING>, m MAP<STRING, ARRAY<INT>>, v STRING",
        "K INT, `a b` DATE, D DECIMAL(12, 3), f FLOAT, b BINARY, v STRING",
    ],
)
def test_the_schema_is_sparks(spark: SparkSession, warehouse: str, log: Log, columns: str) -> None:
    spark.sql(f"CREATE TABLE typed ({columns}) USING orc")
    spark.sql("INSERT INTO typed (k, v) VALUES (1, 'a'), (2, 'b')")
    hindex.connect(spark=spark).sql("CREATE INDEX ik USING bitmap ON typed (k)")
    condition = "k = 1 AND c = 'x' AND c > v" if " c CHAR" in columns else "k = 1"
    queries = [f"SELECT {items} FROM typed WHERE {condition}" for items in ("*", "v, k + 1 AS n")]
    expected = [contents(spark.sql(query)) for query in queries]
    assert all(rows for _, rows in expected)
    with hindex.accelerate(spark):
        assert [contents(spark.sql(query)) for query in queries] == expected
        spark.sql("CREATE TABLE copied USING orc AS SELECT * FROM typed WHERE k = 1")
    assert ["accelerated: typed through ik" in line for line in log.take()] == [True] * 3
    spark.sql("CREATE TABLE expected USING orc AS SELECT * FROM typed WHERE k = 1")
    assert contents(spark.table("copied")) == contents(spark.table("expected"))


def test_statements_about_indexes_run_and_give_frames(spark: SparkSession, warehouse: str) -> None:
    with hindex.accelerate(spark):
        (made,) = spark.sql("CREATE INDEX ia USING bloom ON sales (amount)").collect()
        assert (made.name, made.column, made.type, made.status) == ("ia", "amount", "BLOOM", "fresh")
        shown = spark.sql("SHOW INDEXES ON sales")
        assert sorted(row.name for row in shown.collect()) == ["i_day", "i_shop", "ia"]
        assert spark.sql("CHECK INDEXES ON sales").count() == 3
        assert spark.sql("-- gone\nREFRESH INDEX ia ON sales;").count() == 1
        assert spark.sql("ALTER INDEX ia ON sales RENAME TO ib").count() == 1
        assert spark.sql("DESCRIBE INDEX ib ON sales").where("fact = 'name'").collect()[0].value == "ib"
        assert spark.sql("DROP INDEX ib ON sales").count() == 1
        assert spark.sql("VACUUM INDEXES ON sales DRY RUN").columns == ["path", "bytes", "reason"]
        assert spark.sql("SHOW INDEXES ON shops").collect() == []
        with pytest.raises(IndexNotFoundError):
            spark.sql("DROP INDEX ib ON sales")
        with pytest.raises(StatementError, match="line 1, column"):
            spark.sql("CREATE INDEX ib USING bitmap ON sales amount")
        # DESCRIBE of a table of that name
        spark.sql("CREATE TABLE index (a INT) USING orc")
        assert [row.col_name for row in spark.sql("DESCRIBE index").collect()] == ["a"]


def test_views_and_cached_tables_see_later_rows(spark: SparkSession, own_warehouse: str, log: Log) -> None:
    with hindex.accelerate(spark):
        spark.sql("CREATE TEMPORARY VIEW seven AS SELECT id FROM sales WHERE shop = 7")
        spark.sql("CREATE VIEW kept AS SELECT id FROM sales WHERE shop = 7")
        before = spark.sql("SELECT * FROM sales WHERE shop = 7").count()
        spark.sql("INSERT INTO sales VALUES (1000, 7, NULL, 1, 'new')")
        for name in ("seven", "kept"):
            assert spark.table(name).count() == before + 1
        assert spark.sql("SELECT * FROM sales WHERE shop = 7").count() == before + 1
        log.take()
        spark.sql("CACHE TABLE sales")
        assert spark.sql("SELECT * FROM sales WHERE shop = 7").count() == before + 1
        assert "Spark has cached table sales" in log.take()[-1]
        spark.sql("UNCACHE TABLE sales")
        spark.sql("CACHE TABLE some AS SELECT id FROM sales WHERE shop = 7")
        assert log.take() == []
    spark.catalog.clearCache()


#: Statements that write a table which they also read.
SELF_WRITES = (
    "INSERT OVERWRITE sales SELECT * FROM sales WHERE shop = 7",
    "INSERT OVERWRITE TABLE changing.sales SELECT s.* FROM `sales` s JOIN shops USING (shop) WHERE shop = 7",
    "INSERT INTO sales SELECT * FROM sales WHERE shop = 7",
    "INSERT INTO sales SELECT * FROM through WHERE shop = 7",
    "INSERT INTO sales SELECT t.* FROM temporary t JOIN sales2 s ON s.id = t.id WHERE s.shop = 7",
    "INSERT INTO same SELECT * FROM sales WHERE shop = 7",
    "WITH x AS (SELECT * FROM sales WHERE shop = 7) INSERT INTO sales SELECT * FROM x",
    "FROM sales INSERT INTO sales SELECT * WHERE shop = 7",
)


def test_a_statement_that_writes_a_table_which_it_reads_is_sparks(
    spark: SparkSession, own_warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    spark.sql("CREATE VIEW through AS SELECT * FROM sales")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW temporary AS SELECT * FROM through")
    location = next(
        row.data_type for row in spark.sql("DESCRIBE EXTENDED sales").collect() if row.col_name == "Location"
    )
    spark.sql(f"CREATE TABLE same USING orc LOCATION '{location}'")
    spark.sql("CREATE TABLE sales2 USING orc AS SELECT * FROM sales")
    hindex.connect(spark=spark).sql("CREATE INDEX i USING bitmap ON sales2 (shop)")
    initial = rows(spark.table("sales2"))
    assert initial

    def outcome(statement: str) -> tuple[str, list[str]]:
        condition = ""
        try:
            spark.sql(statement)
        except PySparkException as error:
            condition = str(error.getCondition())
        spark.sql("REFRESH TABLE sales")
        return condition, rows(spark.table("sales"))

    for statement in SELF_WRITES:
        expected = outcome(statement)
        spark.sql("INSERT OVERWRITE sales SELECT * FROM sales2")
        with monkeypatch.context() as patch:
            submitted = counted_statements(spark, patch)
            with hindex.accelerate(spark):
                assert outcome(statement) == expected, statement
        assert submitted.count(statement) == 1
        assert not any("INSERT" in text and text != statement for text in submitted)
        assert not any(line.startswith("accelerated") for line in log.take()), statement
        spark.sql("INSERT OVERWRITE sales SELECT * FROM sales2")
        assert rows(spark.table("sales")) == initial


def counted_statements(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the session's own ``sql`` is given from now on."""
    texts: list[str] = []
    own = spark.sql

    def sql(sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
        texts.append(sqlQuery)
        return own(sqlQuery, args, **kwargs)

    monkeypatch.setitem(vars(spark), "sql", sql)
    return texts


def test_statements_with_effects_are_submitted_once(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    spark.sql("CREATE TABLE few (id BIGINT, n INT) USING orc")
    submitted = counted_statements(spark, monkeypatch)
    with hindex.accelerate(spark):
        spark.sql("INSERT INTO few SELECT id, shop FROM sales WHERE shop = 7")
        assert sum(text.startswith("INSERT") for text in submitted) == 1
        assert "sales through i_shop" in log.one()
        count = spark.table("few").count()
        assert count == spark.sql("SELECT * FROM sales WHERE shop = 7").count() > 0
        submitted.clear()
        # it fails at the first row, when Spark carries it out
        with pytest.raises(PySparkException, match="seven"):
            spark.sql("INSERT INTO few SELECT id, raise_error('seven') FROM sales WHERE shop = 7")
        assert sum(text.startswith("INSERT") for text in submitted) == 1
        # and this one has a mistake that only the statement shows
        submitted.clear()
        with pytest.raises(PySparkException) as raised:
            spark.sql("INSERT INTO few SELECT id FROM sales WHERE shop = 7")
        assert raised.value.getCondition() == "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"
        assert sum(text.startswith("INSERT") for text in submitted) == 1
    assert spark.table("few").count() == count


@pytest.mark.parametrize(
    ("create", "is_accelerated"),
    [
        ("CREATE TABLE made USING parquet AS SELECT * FROM sales WHERE shop = 7", True),
        (
            "CREATE TABLE IF NOT EXISTS made COMMENT 'AS' AS\nWITH x AS (SELECT * FROM sales WHERE shop = 7) TABLE x",
            False,
        ),
        (
            "CREATE TABLE made USING orc PARTITIONED BY (shop) AS SELECT id, shop FROM sales WHERE shop = 7",
            True,
        ),
        ("CREATE TABLE made USING orc LOCATION '{folder}/made' AS SELECT * FROM sales WHERE shop = 7;", True),
        (
            "CREATE TABLE made USING orc OPTIONS (path '{folder}/made') AS SELECT * FROM sales WHERE shop = 7",
            False,
        ),
        ("CREATE TABLE made USING orc SELECT * FROM sales WHERE shop = 7", False),
    ],
)
def test_created_tables_are_sparks(
    spark: SparkSession, warehouse: str, log: Log, tmp_path: Path, create: str, is_accelerated: bool
) -> None:
    create = create.format(folder=tmp_path)
    spark.sql(create)
    expected = contents(spark.table("made"))
    described = [row for row in spark.sql("DESCRIBE EXTENDED made").collect() if "ime" not in row.col_name]
    for file in (tmp_path / "made").glob("*"):
        file.unlink()
    spark.sql("DROP TABLE made")
    with hindex.accelerate(spark):
        spark.sql(create)
    assert any(line.startswith("accelerated") for line in log.take()) is is_accelerated
    assert contents(spark.table("made")) == expected
    assert [
        row for row in spark.sql("DESCRIBE EXTENDED made").collect() if "ime" not in row.col_name
    ] == described


@pytest.mark.parametrize(
    ("insert", "is_accelerated"),
    [
        ("INSERT INTO into SELECT id, shop FROM sales WHERE shop = 7", True),
        (
            "INSERT OVERWRITE TABLE shopping.into PARTITION (shop = 7) SELECT id FROM sales WHERE shop = 7",
            True,
        ),
        (
            "INSERT OVERWRITE into PARTITION (shop) IF NOT EXISTS SELECT id, shop FROM sales WHERE shop = 7",
            True,
        ),
        ("INSERT INTO into (shop, id) SELECT shop, id FROM sales WHERE shop = 7 -- the end", True),
        ("INSERT INTO into BY NAME SELECT shop, id FROM sales WHERE shop = 7", True),
        ("INSERT INTO into PARTITION (shop = ?) SELECT id FROM sales WHERE shop = ?", True),
        ("INSERT INTO into VALUES (1, 2)", False),
        ("INSERT INTO into TABLE shops2", False),
    ],
)
def test_inserted_rows_are_sparks(
    spark: SparkSession, warehouse: str, log: Log, insert: str, is_accelerated: bool
) -> None:
    from pyspark.errors import PySparkException

    args = [3, 7] if "?" in insert else None
    outcomes = []
    for is_first in (True, False):
        spark.sql("CREATE TABLE into (id BIGINT, shop INT) USING orc PARTITIONED BY (shop)")
        spark.sql("INSERT INTO into VALUES (1, 1)")
        condition = None
        try:
            if is_first:
                spark.sql(insert, args)
            else:
                log.take()
                with hindex.accelerate(spark):
                    spark.sql(insert, args)
                assert any(line.startswith("accelerated") for line in log.take()) is is_accelerated
        except PySparkException as error:
            condition = error.getCondition()
        outcomes.append((condition, rows(spark.table("into"))))
        spark.sql("DROP TABLE into")
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("query", "args", "is_accelerated"),
    [
        ("SELECT * FROM sales WHERE shop = :a", {"a": 7}, True),
        ("SELECT * FROM sales WHERE shop = :a AND note = :b", {"a": 7, "b": "note '1\\'"}, True),
        ("SELECT * FROM sales WHERE shop > :a", {"a": -7}, True),
        ("SELECT * FROM sales WHERE shop > :a", {"a": 6.5}, True),
        ("SELECT * FROM sales WHERE shop <=> :a", {"a": None}, True),
        ("SELECT * FROM sales WHERE day = :a", {"a": datetime.date(2024, 1, 3)}, True),
        ("SELECT * FROM sales WHERE amount > ? AND shop = ? LIMIT ?", [Decimal("1E+1"), 7, 1000], True),
        ("SELECT * FROM sales WHERE shop = ? AND ? = ?", [7, b"\x00'", b"\x00'"], True),
        ("SELECT * FROM sales WHERE shop = :a AND :b", {"a": 7, "b": True}, True),
        ("SELECT * FROM sales WHERE shop = :a AND id > :b", {"a": 7, "b": 2**40}, True),
        ("SELECT * FROM sales WHERE array_contains(:a, shop)", {"a": [7, 3]}, False),
        ("SELECT * FROM sales WHERE shop = 7 AND :b < 1", {"b": float("nan")}, True),
        ("SELECT * FROM sales WHERE shop = :date", {"date": 7, "unused": 5}, True),
        ("SELECT ':a' AS t, id FROM sales WHERE shop = :a -- :b ?", {"a": 7}, True),
    ],
)
def test_parameters(
    spark: SparkSession, warehouse: str, log: Log, query: str, args: Any, is_accelerated: bool
) -> None:
    if args == {"a": [7, 3]}:
        from pyspark.sql.functions import array, lit

        args = {"a": array(lit(7), lit(3))}
    expected = contents(spark.sql(query, args))
    with hindex.accelerate(spark):
        assert contents(spark.sql(query, args=args)) == expected
    assert log.one().startswith("accelerated: sales through i_") is is_accelerated


@pytest.mark.parametrize(
    "query",
    [
        "SELECT nosuch FROM sales WHERE shop = 7",
        "SELECT * FROM sales WHERE shop = 7 AND nosuch = 1",
        "SELECT * FROM nosuch JOIN sales USING (shop) WHERE shop = 7",
        "SELECT shop, count(*) FROM sales WHERE shop = 7",
        "SELECT * FROM sales WHERE shop = 7 ORDER",
        "SELECT * FROM sales\n  WHERE shop = 7 AND (",
        "SELECT * FROM sales WHERE shop = :unbound",
        "SELECT * FROM sales WHERE shop = 7 LIMIT x",
        "SELECT * FROM 'sales' WHERE shop = 7",
        "SELECT * FROM sales WHERE shop = 7)",
        "SELECT sales.shop FROM sales AS other WHERE shop = 7",
        "SELECT nosuch(id) FROM sales WHERE shop = 7",
        "INSERT INTO nosuch SELECT * FROM sales WHERE shop = 7",
        "INSERT INTO shops SELECT nosuch FROM sales WHERE shop = 7",
        "INSERT INTO shops SELECT day, id FROM sales WHERE shop = 7",
        "CREATE TABLE shops USING orc AS SELECT * FROM sales WHERE shop = 7",
        "CREATE TABLE other USING nosuch AS SELECT * FROM sales WHERE shop = 7",
        "SELEC 1",
        "",
    ],
)
def test_errors_are_sparks(spark: SparkSession, warehouse: str, query: str) -> None:
    with pytest.raises(Exception) as expected:
        spark.sql(query)
    with hindex.accelerate(spark), pytest.raises(Exception) as raised:
        spark.sql(query)
    assert type(raised.value) is type(expected.value)
    conditions = [getattr(error.value, "getCondition", str)() for error in (raised, expected)]
    assert conditions[0] == conditions[1]
    # Spark numbers columns anew every time
    messages = [
        re.sub(r"#\d+L?", "", str(error.value).split("JVM stacktrace")[0]) for error in (raised, expected)
    ]
    if expected.type.__name__ != "Py4JJavaError":
        assert messages[0] == messages[1]


def test_what_hindex_cannot_do_is_left_to_spark(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT * FROM sales WHERE shop = 7"
    expected = contents(spark.sql(query))

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("out of order")

    with hindex.accelerate(spark):
        with monkeypatch.context() as patch:
            patch.setattr(acceleration, "plan_query", fail)
            assert contents(spark.sql(query)) == expected
            assert "hindex failed" in log.one()
        with monkeypatch.context() as patch:
            patch.setattr(acceleration, "make_frames", fail)
            assert contents(spark.sql(query)) == expected
            assert "hindex failed" in log.take()[-1]
            spark.sql("CREATE TABLE made USING orc AS " + query)
        assert contents(spark.table("made"))[1] == expected[1]


def test_the_schema_is_compared(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hindex.queries.query_plan import PlannedTable

    query = "SELECT * FROM sales WHERE shop = 7"
    expected = contents(spark.sql(query))
    own = PlannedTable.frame
    monkeypatch.setattr(PlannedTable, "frame", lambda self, *args: own(self, *args).drop("note"))
    with hindex.accelerate(spark):
        assert contents(spark.sql(query)) == expected
    assert "its columns would differ" in log.take()[-1]


def test_the_catalog_is_asked_again_before_rows_are_read(
    spark: SparkSession, own_warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hindex.api.connection import Connection

    asked: list[str] = []
    own = Connection.describe

    def describe(self: Connection, ref: Any, **options: Any) -> Any:
        asked.append(str(ref))
        return own(self, ref, **options)

    monkeypatch.setattr(Connection, "describe", describe)
    query = "SELECT s.* FROM sales s LEFT JOIN shops c ON s.shop = c.shop WHERE s.shop = 7"
    with hindex.accelerate(spark):
        for _ in range(3):
            spark.sql("SELECT count(*) FROM shops WHERE city = 'Ulm'")
        assert asked == ["shops"]
        expected = contents(spark.sql(query))
        assert sorted(asked) == ["sales", "sales", "shops", "shops"]
        # of these nothing is seen here
        own_sql = type(spark).sql
        own_sql(spark, "ALTER TABLE sales RENAME TO before")
        own_sql(spark, "CREATE TABLE sales USING orc AS SELECT * FROM before WHERE id < 100")
        few = contents(spark.sql(query))
        assert few[1] != expected[1]
        assert few[1] == rows(spark.table("sales").where("shop = 7"))
        spark.range(7, 8).selectExpr("id", "CAST(id AS INT) AS shop").createOrReplaceTempView("sales")
        assert spark.sql(query).collect() == [(7, 7)]
    spark.catalog.dropTempView("sales")


def test_files_are_listed_again_before_rows_are_read(
    spark: SparkSession, own_warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hindex.api.connection import Connection

    listed = count_calls(monkeypatch, Connection, Connection.list_table)
    with hindex.accelerate(spark):
        with monkeypatch.context() as patch:
            patch.setattr(query_plan, "MAX_SHARE", 0.0)
            for shop in (3, 7, 11):
                spark.sql(f"SELECT count(*) FROM sales WHERE shop = {shop}")
                assert "NOT_SELECTIVE" in log.one()
            assert len(listed) == 1
            # a commit to the store is seen
            hindex.connect(spark=spark).table("sales").create_index("i_note", "note")
            spark.sql("SELECT count(*) FROM sales WHERE note = 'note 3'")
            assert "NOT_SELECTIVE" in log.one()
            assert len(listed) == 2
        query = "SELECT count(*) AS n FROM sales WHERE shop = 7"
        few = spark.sql(query).collect()[0]["n"]
        # rows that are written past hindex: remembered files are not what is read
        spark.range(2).selectExpr("id", "7", "NULL", "NULL", "NULL").write.insertInto("sales")
        frame = spark.sql(query)
        assert sum(line.startswith("accelerated") for line in log.take()) == 2
        assert frame.collect()[0]["n"] == few + 2
        # a statement of the session that lists what it writes
        monkeypatch.setattr(query_plan, "MIN_VALUES", 450)
        spark.sql("SELECT max(shop) FROM sales WHERE shop = 7")
        assert "TOO_SMALL" in log.take()[-1]
        spark.sql("INSERT INTO sales SELECT * FROM sales WHERE shop = 7")
        assert "it writes sales" in log.take()[-1]
        spark.sql("SELECT max(shop) FROM sales WHERE shop = 7")
        assert log.take()[-1].startswith("accelerated")


@pytest.mark.parametrize(
    ("views", "query", "is_accelerated"),
    [
        (["v AS SELECT * FROM sales"], "SELECT * FROM v WHERE shop = 7", True),
        (
            ["v AS SELECT id, shop AS s FROM sales; -- c"],
            "SELECT v.s, x.id FROM v JOIN v x ON v.id = x.id WHERE v.s = 7",
            False,
        ),
        (
            ["v (a, b) AS SELECT id, shop FROM sales WHERE shop > 3"],
            "SELECT a FROM shopping.v WHERE b = 7",
            True,
        ),
        (
            ["v AS SELECT id, shop FROM sales WHERE shop = 7"],
            "SELECT count(*) AS n FROM v AS w WHERE w.id > 5",
            True,
        ),
        (
            ["v AS SELECT id, shop FROM sales", "w AS SELECT id AS i, shop AS s FROM v"],
            "SELECT * FROM w WHERE s = 7",
            True,
        ),
        (
            ["v AS WITH x AS (SELECT * FROM sales) SELECT x.* FROM x WHERE shop = 7"],
            "SELECT id FROM v -- the end",
            True,
        ),
        (
            ["v AS SELECT shop, count(*) AS n FROM sales GROUP BY shop"],
            "SELECT n FROM v WHERE shop = 7",
            True,
        ),
        (
            ["v AS SELECT s.id, c.city FROM sales s LEFT JOIN shops c USING (shop) WHERE s.shop = 7"],
            "SELECT * FROM v",
            True,
        ),
        (
            ["v AS SELECT id, shop FROM sales"],
            "WITH v AS (SELECT 1 AS shop) SELECT * FROM v WHERE shop = 1",
            False,
        ),
        # its column says something else than that of the table
        (["v (k COMMENT 'other') AS SELECT shop FROM sales"], "SELECT * FROM v WHERE k = 7", False),
        (["v AS SELECT id, shop, rand() AS r FROM sales"], "SELECT id FROM v WHERE shop = 7", False),
        (
            ["v AS SELECT id, shop FROM sales"],
            "SELECT id FROM v TABLESAMPLE (100 PERCENT) WHERE shop = 7",
            False,
        ),
    ],
)
def test_views_are_expanded(
    spark: SparkSession, warehouse: str, log: Log, views: list[str], query: str, is_accelerated: bool
) -> None:
    for view in views:
        spark.sql(f"CREATE VIEW {view}")
    if "n FROM v" in query or "shopping" in query:
        # names of a view are those of its own database
        spark.sql("USE default")
        query = query.replace("FROM v", "FROM shopping.v")
    expected = contents(spark.sql(query))
    with hindex.accelerate(spark):
        assert contents(spark.sql(query)) == expected
    lines = log.take()
    assert any("sales through i_shop" in line for line in lines) is is_accelerated, lines
    hx = hindex.connect(spark=spark)
    assert sorted(map(repr, hx.sql(query).to_arrow().to_pylist())) == expected[1]  # type: ignore[union-attr]
    assert "through its indexes" in str(hx.sql("EXPLAIN " + query)) or not is_accelerated


def test_a_view_made_with_other_settings_is_sparks(spark: SparkSession, warehouse: str, log: Log) -> None:
    query = "SELECT * FROM v WHERE shop = 7"
    spark.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", "false")
    try:
        spark.sql("CREATE VIEW v AS SELECT shop, amount * amount AS a FROM sales")
        with hindex.accelerate(spark):
            spark.sql(query)
            assert log.take()[-1].startswith("accelerated")
            spark.conf.unset("spark.sql.decimalOperations.allowPrecisionLoss")
            expected = contents(spark.table("v").where("shop = 7"))
            assert contents(spark.sql(query)) == expected
            assert "allowPrecisionLoss was 'false'" in log.take()[-1]
        # and one that was made before they were
        spark.sql("CREATE OR REPLACE VIEW v AS SELECT shop, amount FROM sales")
        spark.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", "false")
        with hindex.accelerate(spark):
            spark.sql(query)
            assert "allowPrecisionLoss was None" in log.take()[-1]
    finally:
        spark.conf.unset("spark.sql.decimalOperations.allowPrecisionLoss")


def test_a_view_of_other_types_than_its_table_is_sparks(
    spark: SparkSession, warehouse: str, log: Log
) -> None:
    spark.sql("CREATE TABLE typed (k INT, id INT) USING orc")
    spark.sql("CREATE VIEW v AS SELECT k, id FROM typed")
    spark.sql("DROP TABLE typed")
    spark.sql("CREATE TABLE typed (k INT, id DOUBLE) USING orc")
    spark.sql("INSERT INTO typed VALUES (1, 7.5), (1, 8.5), (2, 7.5)")
    hindex.connect(spark=spark).sql("CREATE INDEX ik USING bitmap ON typed (k)")
    query = "SELECT count(*) AS n FROM v WHERE k = 1 AND id = 7"
    # Spark makes 7 of 7.5
    assert spark.sql(query).collect()[0].n == 1
    with hindex.accelerate(spark):
        assert spark.sql(query).collect()[0].n == 1
        assert "v declares other columns than its query has" in log.one()


def test_temporary_views_are_sparks(spark: SparkSession, warehouse: str, log: Log) -> None:
    spark.sql("CREATE TEMPORARY VIEW part AS SELECT * FROM sales WHERE id < 200")
    spark.sql("CREATE TEMPORARY VIEW towns AS SELECT * FROM shops")
    query = "SELECT s.id, t.note FROM sales s JOIN {} t ON s.{} = t.{} WHERE s.shop = 7"
    for view, key, is_accelerated in [("part", "id", False), ("towns", "shop", True)]:
        text = query.format(view, key, key).replace("t.note", "s.note")
        expected = contents(spark.sql(text))
        with hindex.accelerate(spark):
            assert contents(spark.sql(text)) == expected
        # of one table there are not two states in a query
        assert log.one().startswith("accelerated") is is_accelerated
    # a view of a view, which has the name of a table
    spark.sql("CREATE TEMPORARY VIEW sales AS SELECT * FROM shopping.sales WHERE id < 50")
    spark.sql("CREATE TEMPORARY VIEW over AS SELECT * FROM sales")
    expected = contents(spark.sql("SELECT * FROM over WHERE shop = 7"))
    with hindex.accelerate(spark):
        assert contents(spark.sql("SELECT * FROM over WHERE shop = 7")) == expected


def test_temporary_names_are_not_those_of_a_view(spark: SparkSession, warehouse: str, log: Log) -> None:
    spark.sql("CREATE VIEW v AS SELECT id, shop FROM sales")
    expected = contents(spark.sql("SELECT * FROM v WHERE shop = 7"))
    spark.sql("CREATE TEMPORARY VIEW sales AS SELECT 1L AS id, 7 AS shop")
    with hindex.accelerate(spark):
        assert contents(spark.sql("SELECT * FROM v WHERE shop = 7")) == expected
        assert "through i_shop" in log.one()
        # the one place is the view's, the other that of its table
        log.take()
        query = "SELECT count(*) AS n FROM shopping.sales s JOIN sales t ON s.shop = t.shop WHERE s.shop = 7"
        assert spark.sql(query).collect()[0].n == len(expected[1])
        assert "shopping.sales through i_shop" in log.one()


def test_stop_restores_what_was_there(
    spark: SparkSession, warehouse: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "sql" not in vars(spark)
    caplog.set_level(logging.INFO, logger="hindex.queries")
    handle = hindex.accelerate(spark)
    assert "spark.read.orc(...) do not" in caplog.messages[-1]
    replaced = spark.sql
    assert hindex.accelerate(spark) is handle
    with pytest.raises(ArgumentError, match="with the store None"):
        hindex.accelerate(spark, store=str(Path("elsewhere").absolute()))
    assert "sql" not in vars(spark.newSession())
    assert type(spark).builder.getOrCreate() is spark
    assert replaced.__doc__ == type(spark).sql.__doc__
    handle.stop()
    handle.stop()
    assert "sql" not in vars(spark)
    # a reference that was kept is Spark's again
    assert replaced("SELECT 1 AS a").collect()[0].a == 1

    def other(*arguments: Any, **options: Any) -> Any:
        return type(spark).sql(spark, *arguments, **options)

    vars(spark)["sql"] = other
    with hindex.accelerate(spark):
        assert spark.sql is not other
    assert vars(spark).pop("sql") is other
    with pytest.raises(ArgumentTypeError):
        hindex.accelerate("spark")  # type: ignore[arg-type]


def test_a_store_of_its_own(spark: SparkSession, warehouse: str, log: Log, tmp_path: Path) -> None:
    with hindex.accelerate(spark, store=tmp_path / "store"):
        spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
        assert "it has no index" in log.one()
        spark.sql("CREATE INDEX elsewhere USING bitmap ON sales (shop)")
        spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
        assert "sales through elsewhere" in log.one()
    assert list((tmp_path / "store").iterdir())


def test_warnings_name_indexes_that_could_not_be_used(
    spark: SparkSession,
    own_warehouse: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark.sql("INSERT INTO sales SELECT 5000 + id, 7, NULL, NULL, NULL FROM range(3)")
    caplog.set_level(logging.WARNING, logger="hindex")
    with hindex.accelerate(spark):
        for share in (1.0, 0.0):
            monkeypatch.setattr(query_plan, "MAX_SHARE", share)
            TOO_MANY.clear()
            spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
            (warning,) = caplog.messages
            assert "NEW_FILE: " in warning
            assert "not used" in warning or "through i_shop" in warning
            caplog.clear()


def test_queries_through_a_connection_are_planned_once(spark: SparkSession, warehouse: str, log: Log) -> None:
    hx = hindex.connect(spark=spark)
    query = "SELECT s.id FROM sales s JOIN shops c ON s.shop = c.shop WHERE s.shop = 7"
    with hindex.accelerate(spark):
        expected = spark.sql(query)
        log.take()
        assert sorted(map(repr, hx.sql(query).to_arrow().to_pylist())) == rows(expected)  # type: ignore[union-attr]
    assert not any("hindex_0" in line or "_pyspark" in line for line in log.take())
    assert json.dumps(expected.schema.jsonValue())


def test_planning_takes_few_calls_of_java(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning starts no job of Spark, and analyses no more than the query, as written and as it is read."""
    from py4j.java_gateway import GatewayClient

    commands: list[str] = []
    send = GatewayClient.send_command

    def counted(self: GatewayClient, command: str, *args: Any, **kwargs: Any) -> Any:
        commands.append(command)
        return send(self, command, *args, **kwargs)

    def called(text: str) -> list[str]:
        """The methods of Java objects that planning a query calls, tables warm."""
        spark.sql(text)
        log.take()
        commands.clear()
        with monkeypatch.context() as patch:
            patch.setattr(GatewayClient, "send_command", counted)
            spark.sql(text)
        return [command.split("\n")[2] for command in commands if command.startswith("c\n")]

    with hindex.accelerate(spark):
        methods = called("SELECT id FROM sales WHERE shop = 7")
        assert "sales through i_shop" in log.one()
        # the statement that authorizers see, the query as written, and the one that is run
        assert methods.count("sql") == 3
        assert not {"collectToPython", "isCached"} & set(methods)
        monkeypatch.setattr(query_plan, "MAX_SHARE", 0.01)
        methods = called("SELECT count(id) FROM sales WHERE shop > 7")
        assert "not accelerated" in log.one()
        assert methods.count("sql") == 1
        assert len(methods) < 20
        assert len(called("SELECT count(id) FROM sales")) < 10
