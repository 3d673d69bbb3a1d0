"""``hindex.accelerate``: the rows and the schema are Spark's, and the log says what was read through which index."""

from __future__ import annotations

import datetime
import logging
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.errors import ArgumentError, ArgumentTypeError, IndexNotFoundError, StatementError
from hindex.queries import plan_rewriting, selectivity
from hindex.spark import catalyst
from tests.queries import script
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.queries import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Log:
    """The lines of the log of queries."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="hindex.queries")

    def take(self) -> list[str]:
        messages = [record.getMessage() for record in self._caplog.records if record.name == "hindex.queries"]
        self._caplog.clear()
        return messages

    def one(self) -> str:
        (line,) = self.take()
        return line


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def contents(frame: Any) -> tuple[Any, list[str]]:
    return frame.schema.jsonValue(), rows(frame)


def test_plans_are_sent_without_waiting_for_acknowledgements(spark: SparkSession, warehouse: str) -> None:
    """A text of more than 8 KiB leaves in several packets: the second would wait for an acknowledgement."""
    text = f"SELECT * FROM {warehouse}.sales WHERE shop = 3"
    with hindex.accelerate(spark):
        spark.sql(text).collect()
        python = spark.sparkContext._gateway.java_gateway_server.getCallbackClient()  # type: ignore[union-attr]
        socket = python.getPerThreadConnection().getSocket()
        socket.setTcpNoDelay(False)
        spark.sql(text).collect()
        assert socket.getTcpNoDelay()


def test_threads_may_share_connections(
    spark: SparkSession, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``PYSPARK_PIN_THREAD=false``, where the callback client is of another class."""
    server = type(spark.sparkContext._gateway.java_gateway_server)  # type: ignore[union-attr]
    other_client = spark.sparkContext._jvm.java.lang.Object()  # type: ignore[union-attr]
    monkeypatch.setattr(server, "getCallbackClient", lambda _: other_client, raising=False)
    with hindex.accelerate(spark, always=True) as handle:
        spark.sql(f"SELECT * FROM {warehouse}.sales WHERE shop = 3").collect()
        assert "through indexes: i_shop 1" in handle.summary()


def test_a_script_gives_the_same_with_the_one_line(spark: SparkSession, warehouse: str, log: Log) -> None:
    expected = {name: contents(frame) for name, frame in script.run(spark, warehouse).items()}
    with hindex.accelerate(spark, always=True):
        results = {name: contents(frame) for name, frame in script.run(spark, warehouse).items()}
    assert results == expected
    assert all(expected[name][1] for name in expected if name not in ("created", "inserted"))
    lines = log.take()
    accelerated = [line for line in lines if line.startswith("accelerated: ")]
    assert len(accelerated) >= 10
    assert sum("sales through i_day, i_shop" in line for line in accelerated) >= 1


@sampled(3)
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
    with hindex.accelerate(spark, always=True):
        assert [contents(spark.sql(query)) for query in queries] == expected
        spark.sql("CREATE TABLE copied USING orc AS SELECT * FROM typed WHERE k = 1")
        lines = log.take()
    assert len(lines) >= 3
    assert all("accelerated: typed through ik" in line for line in lines), lines
    spark.sql("CREATE TABLE expected USING orc AS SELECT * FROM typed WHERE k = 1")
    assert contents(spark.table("copied")) == contents(spark.table("expected"))


def test_statements_about_indexes_run_and_give_frames(spark: SparkSession, warehouse: str) -> None:
    with hindex.accelerate(spark, always=True):
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
        with raises(StatementError):
            spark.sql("CREATE INDEX ib USING bitmap ON sales amount")
        # DESCRIBE of a table of that name
        spark.sql("CREATE TABLE index (a INT) USING orc")
        assert [row.col_name for row in spark.sql("DESCRIBE index").collect()] == ["a"]


def test_views_see_later_rows_and_cached_tables_are_left_to_spark(
    spark: SparkSession, own_warehouse: str, log: Log
) -> None:
    with hindex.accelerate(spark, always=True):
        spark.sql("CREATE TEMPORARY VIEW seven AS SELECT id FROM sales WHERE shop = 7")
        spark.sql("CREATE VIEW kept AS SELECT id FROM sales WHERE shop = 7")
        before = spark.sql("SELECT * FROM sales WHERE shop = 7").count()
        spark.sql("INSERT INTO sales VALUES (1000, 7, NULL, 1, 'new')")
        for name in ("seven", "kept"):
            log.take()
            assert len(spark.table(name).collect()) == before + 1
            assert "sales through i_shop" in log.take()[-1]
        spark.sql("CACHE TABLE sales")
        log.take()
        assert spark.sql("SELECT * FROM sales WHERE shop = 7").count() == before + 1
        # the plan reads what Spark has cached, and no files
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
    spark: SparkSession, own_warehouse: str, log: Log
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
        log.take()
        with hindex.accelerate(spark, always=True) as handle:
            assert outcome(statement) == expected, statement
            assert "through" not in handle.summary().replace("through indexes", ""), statement
        assert not any("accelerated: sales through" in line for line in log.take()), statement
        spark.sql("INSERT OVERWRITE sales SELECT * FROM sales2")
        assert rows(spark.table("sales")) == initial


@sampled(3)
@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE made USING parquet AS SELECT * FROM sales WHERE shop = 7",
        "CREATE TABLE IF NOT EXISTS made COMMENT 'AS' AS\nWITH x AS (SELECT * FROM sales WHERE shop = 7) TABLE x",
        "CREATE TABLE made USING orc PARTITIONED BY (shop) AS SELECT id, shop FROM sales WHERE shop = 7",
        "CREATE TABLE made USING orc LOCATION '{folder}/made' AS SELECT * FROM sales WHERE shop = 7;",
        "CREATE TABLE made USING orc OPTIONS (path '{folder}/made') AS SELECT * FROM sales WHERE shop = 7",
        "CREATE TABLE made USING orc SELECT * FROM sales WHERE shop = 7",
    ],
)
def test_created_tables_are_sparks(
    spark: SparkSession, warehouse: str, log: Log, tmp_path: Path, create: str
) -> None:
    create = create.format(folder=tmp_path)
    spark.sql(create)
    expected = contents(spark.table("made"))
    described = [row for row in spark.sql("DESCRIBE EXTENDED made").collect() if "ime" not in row.col_name]
    for file in (tmp_path / "made").glob("*"):
        file.unlink()
    spark.sql("DROP TABLE made")
    with hindex.accelerate(spark, always=True):
        spark.sql(create)
    assert any("sales through i_shop" in line for line in log.take())
    assert contents(spark.table("made")) == expected
    assert [
        row for row in spark.sql("DESCRIBE EXTENDED made").collect() if "ime" not in row.col_name
    ] == described


@sampled(3)
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
                with hindex.accelerate(spark, always=True):
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
        ("SELECT * FROM sales WHERE shop = 7 AND :b < 1", {"b": float("nan")}, False),
        ("SELECT * FROM sales WHERE shop = :date", {"date": 7, "unused": 5}, True),
        ("SELECT ':a' AS t, id FROM sales WHERE shop = :a -- :b ?", {"a": 7}, True),
    ],
)
def test_parameters(
    spark: SparkSession, warehouse: str, log: Log, query: str, args: Any, is_accelerated: bool
) -> None:
    expected = contents(spark.sql(query, args))
    with hindex.accelerate(spark, always=True):
        assert contents(spark.sql(query, args=args)) == expected
    assert any("accelerated: sales through i_" in line for line in log.take()) is is_accelerated


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
    with hindex.accelerate(spark, always=True), pytest.raises(Exception) as raised:
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


@pytest.mark.parametrize("owner", [plan_rewriting.PlanReading, catalyst.CatalystPlan])
def test_plans_are_left_alone_where_hindex_fails(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch, owner: type
) -> None:
    query = "SELECT * FROM sales WHERE shop = 7"
    expected = contents(spark.sql(query))

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("out of order")

    name = "put_in_place" if owner is plan_rewriting.PlanReading else "parse"
    monkeypatch.setattr(owner, name, fail)
    with hindex.accelerate(spark, always=True):
        assert contents(spark.sql(query)) == expected
        assert "hindex failed" in log.take()[-1]
        spark.sql("CREATE TABLE made USING orc AS " + query)
    assert contents(spark.table("made"))[1] == expected[1]


def test_tables_that_change_their_name_or_files_are_read_anew(
    spark: SparkSession, own_warehouse: str, log: Log
) -> None:
    query = "SELECT s.* FROM sales s LEFT JOIN shops c ON s.shop = c.shop WHERE s.shop = 7"
    with hindex.accelerate(spark, always=True):
        expected = contents(spark.sql(query))
        own_sql = type(spark).sql
        own_sql(spark, "ALTER TABLE sales RENAME TO before")
        own_sql(spark, "CREATE TABLE sales USING orc AS SELECT * FROM before WHERE id < 100")
        few = contents(spark.sql(query))
        assert few[1] != expected[1]
        spark.sql("INSERT INTO sales SELECT * FROM before WHERE id >= 100")
        assert contents(spark.sql(query))[1] == expected[1]
        spark.range(7, 8).selectExpr("id", "CAST(id AS INT) AS shop").createOrReplaceTempView("sales")
        assert spark.sql(query).collect() == [(7, 7)]
    spark.catalog.dropTempView("sales")


@sampled(6)
@pytest.mark.parametrize(
    ("views", "query"),
    [
        (["v AS SELECT * FROM sales"], "SELECT * FROM v WHERE shop = 7"),
        (
            ["v AS SELECT id, shop AS s FROM sales; -- c"],
            "SELECT v.s, x.id FROM v JOIN v x ON v.id = x.id WHERE v.s = 7",
        ),
        (["v (a, b) AS SELECT id, shop FROM sales WHERE shop > 3"], "SELECT a FROM shopping.v WHERE b = 7"),
        (
            ["v AS SELECT id, shop FROM sales WHERE shop = 7"],
            "SELECT count(*) AS n FROM v AS w WHERE w.id > 5",
        ),
        (
            ["v AS SELECT id, shop FROM sales", "w AS SELECT id AS i, shop AS s FROM v"],
            "SELECT * FROM w WHERE s = 7",
        ),
        (
            ["v AS WITH x AS (SELECT * FROM sales) SELECT x.* FROM x WHERE shop = 7"],
            "SELECT id FROM v -- the end",
        ),
        (["v AS SELECT shop, count(*) AS n FROM sales GROUP BY shop"], "SELECT n FROM v WHERE shop = 7"),
        (
            ["v AS SELECT s.id, c.city FROM sales s LEFT JOIN shops c USING (shop) WHERE s.shop = 7"],
            "SELECT * FROM v",
        ),
        (["v AS SELECT id, shop FROM sales"], "WITH v AS (SELECT 1 AS shop) SELECT * FROM v WHERE shop = 1"),
        # its column says something else than that of the table
        (["v (k COMMENT 'other') AS SELECT shop FROM sales"], "SELECT * FROM v WHERE k = 7"),
        (["v AS SELECT id, shop, rand() AS r FROM sales"], "SELECT id FROM v WHERE shop = 7"),
        (["v AS SELECT id, shop FROM sales"], "SELECT id FROM v TABLESAMPLE (100 PERCENT) WHERE shop = 7"),
    ],
)
def test_views_are_read_through_the_indexes_of_their_tables(
    spark: SparkSession, warehouse: str, log: Log, views: list[str], query: str
) -> None:
    for view in views:
        spark.sql(f"CREATE VIEW {view}")
    if "n FROM v" in query or "shopping" in query:
        # names of a view are those of its own database
        spark.sql("USE default")
        query = query.replace("FROM v", "FROM shopping.v")
    expected = contents(spark.sql(query))
    with hindex.accelerate(spark, always=True):
        assert contents(spark.sql(query)) == expected
    is_of_sales = "WITH v AS" not in query and "TABLESAMPLE" not in query
    lines = log.take()
    assert any("sales through i_shop" in line for line in lines) is is_of_sales, lines
    hx = hindex.connect(spark=spark)
    assert sorted(map(repr, hx.sql(query).to_arrow().to_pylist())) == expected[1]  # type: ignore[union-attr]


def test_a_view_of_other_types_than_its_table_keeps_them(
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
    with hindex.accelerate(spark, always=True):
        assert spark.sql(query).collect()[0].n == 1
        assert "typed through ik" in log.one()


def test_temporary_names_are_not_those_of_a_view(spark: SparkSession, warehouse: str, log: Log) -> None:
    spark.sql("CREATE VIEW v AS SELECT id, shop FROM sales")
    expected = contents(spark.sql("SELECT * FROM v WHERE shop = 7"))
    spark.sql("CREATE TEMPORARY VIEW sales AS SELECT 1L AS id, 7 AS shop")
    with hindex.accelerate(spark, always=True):
        assert contents(spark.sql("SELECT * FROM v WHERE shop = 7")) == expected
        assert "sales through i_shop" in log.one()
        # the one place is the view's, the other that of its table
        log.take()
        query = "SELECT count(*) AS n FROM shopping.sales s JOIN sales t ON s.shop = t.shop WHERE s.shop = 7"
        assert spark.sql(query).collect()[0].n == len(expected[1])
        assert "sales through i_shop" in log.one()


def test_stop_restores_what_was_there(spark: SparkSession, warehouse: str) -> None:
    assert "sql" not in vars(spark)
    handle = hindex.accelerate(spark, always=True)
    replaced = spark.sql
    assert hindex.accelerate(spark, always=True) is handle
    with raises(ArgumentError):
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
    with hindex.accelerate(spark, always=True):
        assert spark.sql is not other
    assert vars(spark).pop("sql") is other
    with pytest.raises(ArgumentTypeError):
        hindex.accelerate("spark")  # type: ignore[arg-type]


def test_a_store_of_its_own(spark: SparkSession, warehouse: str, log: Log, tmp_path: Path) -> None:
    with hindex.accelerate(spark, store=tmp_path / "store", always=True):
        spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
        assert "it has no index" in log.one()
        spark.sql("CREATE INDEX elsewhere USING bitmap ON sales (shop)")
        spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
        assert "sales through elsewhere" in log.one()
    assert list((tmp_path / "store").iterdir())


def test_warnings_name_indexes_that_could_not_be_used(
    spark: SparkSession, own_warehouse: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("INSERT INTO sales SELECT 5000 + id, 7, NULL, NULL, NULL FROM range(3)")
    caplog.set_level(logging.WARNING, logger="hindex")
    with hindex.accelerate(spark, always=True):
        spark.sql("SELECT * FROM sales WHERE shop = 7").collect()
    (warning,) = caplog.messages
    assert "index not used on sales: NEW_FILE: " in warning


def test_queries_of_a_connection_use_the_rule_while_they_run(
    spark: SparkSession, warehouse: str, log: Log
) -> None:
    hx = hindex.connect(spark=spark)
    hx.plan_rule().rewriter.always = True
    query = "SELECT s.id FROM sales s JOIN shops c ON s.shop = c.shop WHERE s.shop = 7"
    expected = rows(spark.sql(query))
    assert log.take() == []
    result = hx.sql(query)
    assert sorted(map(repr, result.to_arrow().to_pylist())) == expected  # type: ignore[union-attr]
    assert any("sales through i_shop" in line for line in log.take())
    assert result.count() == len(expected)  # type: ignore[union-attr, call-arg]
    assert any("sales through i_shop" in line for line in log.take())
    # the plan of a DataFrame is made once
    assert rows(hx.sql(query).to_spark()) == expected  # type: ignore[union-attr]
    assert any("sales through i_shop" in line for line in log.take())
    assert "sales: through its indexes" in str(hx.sql("EXPLAIN " + query))
    # also in a session whose own rule is on
    with hindex.accelerate(spark, always=True):
        assert "sales: through its indexes" in str(hx.explain(spark.sql(query)))
        assert "sales: through its indexes" in str(hindex.explain(spark.sql(query)))
    # Spark's own plans stay as they are
    log.take()
    assert rows(spark.sql(query)) == expected
    assert log.take() == []


def test_only_dataframes_are_explained() -> None:
    with raises(ArgumentTypeError):
        hindex.explain(5)  # type: ignore[arg-type]


def test_a_plan_that_does_not_change_takes_few_calls_of_java(
    spark: SparkSession, warehouse: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.clientserver import ClientServerConnection

    commands: list[str] = []
    send = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> Any:
        commands.append(command)
        return send(self, command)

    def calls(text: str) -> int:
        """The calls of Java that planning a query takes with the rule, beyond those without."""
        counts = []
        for is_on in (False, True):
            frame = spark.sql(text)
            commands.clear()
            with monkeypatch.context() as patch, hx.plan_rule().forced(is_on):
                patch.setattr(ClientServerConnection, "send_command", counted)
                frame._jdf.queryExecution().optimizedPlan()
            counts.append(sum(command.startswith("c\n") for command in commands))
        return counts[1] - counts[0]

    hx = hindex.connect(spark=spark)
    calls("SELECT id FROM sales WHERE shop = 7")
    assert calls("SELECT id FROM shops, range(3) WHERE city = 'Ulm'") <= 20
    assert calls("SELECT count(id) FROM sales") <= 20
    assert calls("SELECT id FROM sales WHERE upper(note) = 'X'") <= 20
    assert calls("SELECT * FROM range(5)") == 0


@pytest.mark.parametrize(
    ("condition", "unused"),
    [
        ("note = 7", "CAST(note AS bigint) = 7 (compared as a number: write note = '7')"),
        ("note IN (7, 8)", "CAST(note AS bigint) IN (7, 8) (compared as a number: write note IN ('7', '8'))"),
        ("lower(note) = 'x  y'", "lower(note) = 'x  y'"),
        ("shop + 1 = id", "CAST(shop + 1 AS bigint) = id"),
        ("day > DATE'2024-01-01' AND length(note) < shop", "length(note) < shop"),
    ],
)
def test_the_log_names_conditions_that_no_index_answers(
    spark: SparkSession,
    warehouse: str,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    unused: str,
) -> None:
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    query = f"SELECT id FROM sales WHERE {condition}"
    with hindex.accelerate(spark) as handle:
        frame = spark.sql(query)
        explained = handle.explain(frame)
        assert explained.tables[0].unused == (unused,)
        assert f"unused     {unused}" in explained.to_text()
        log.take()
        frame._jdf.queryExecution().optimizedPlan()
        assert f"; no index answers {unused}" in log.one()
        spark.table("sales").collect()
        assert (
            log.take()[-1] == f"not accelerated: sales by Spark: NO_CONDITION: {plan_rewriting.NO_CONDITION}"
        )
