"""What the catalog tells of tables, and what it says where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import NotOrcError, TableError, UnsupportedError
from hindex.plan.reasons import Reason
from hindex.spark import locations
from hindex.spark.catalog import describe_table, described_columns, run
from hindex.spark.compatibility import check_same_rows
from hindex.spark.session import session_time_zones
from hindex.sql import parse
from hindex.sql.statements import Select
from tests.support.queries import compare
from tests.support.small import reasons, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(
        f"CREATE TABLE described (id BIGINT, day STRING) USING orc PARTITIONED BY (day) LOCATION '{tmp_path}'"
    )
    yield "described"
    spark.sql("DROP TABLE described")


def test_a_table(spark: SparkSession, table: str, tmp_path: Path) -> None:
    found = describe_table(spark, table)
    assert found["location"] == f"file:{tmp_path}"
    assert found["provider"] == "orc"
    assert found["partition_columns"] == ["day"]


@pytest.mark.parametrize("name", ["missing", "no_such_schema.missing"])
def test_no_table(spark: SparkSession, name: str) -> None:
    with pytest.raises(TableError, match=rf"Table '{name}' is invalid: .*no such table\. Quote a path: "):
        describe_table(spark, name)


def test_a_name_that_is_none(spark: SparkSession) -> None:
    with pytest.raises(TableError, match=r"Table 'a b' is invalid: .+") as caught:
        describe_table(spark, "a b")
    assert "\n" not in str(caught.value)


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A partitioned table with two partitions; where it stands in the catalog is up to the test."""
    spark.sql(
        "CREATE TABLE made (a INT, s VARCHAR(9), t TIMESTAMP, n STRUCT<x: INT>, p INT) USING orc "
        f"PARTITIONED BY (p) LOCATION '{tmp_path}/made'"
    )
    spark.sql("INSERT INTO made VALUES (1, 'x', now(), struct(1), 1), (2, NULL, NULL, NULL, 2)")
    yield "made"
    spark.sql("DROP TABLE made")


def test_a_table_whose_files_say_what_the_catalog_says(spark: SparkSession, made: str) -> None:
    found = hindex.connect(spark=spark).table(made).scan("p = 2").to_arrow()
    assert found.column("a").to_pylist() == [2]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        # the table is external: its files stay
        ("DROP PARTITION (p = 1)", [2]),
        ("ADD PARTITION (p = 3) LOCATION '{empty}'", [1, 2]),
        ("ADD PARTITION (p = 3) LOCATION '{copy}'", [1, 2, 2]),
        ("ADD PARTITION (p = 3) LOCATION '{missing}'", [1, 2]),
        # its old files stay where they are
        ("PARTITION (p = 2) SET LOCATION '{empty}'", [1]),
        ("PARTITION (p = 2) SET LOCATION '{copy}'", [1, 2]),
        # two partitions of one place
        ("ADD PARTITION (p = 4) LOCATION '{copy}' PARTITION (p = NULL) LOCATION '{copy}'", [1, 2, 2, 2]),
        # in the table, where no partition is by its name
        ("ADD PARTITION (p = 5) LOCATION '{inside}'", [1, 2, 2]),
    ],
)
def test_the_catalog_says_which_partitions_there_are(
    spark: SparkSession, made: str, tmp_path: Path, change: str, left: list[int]
) -> None:
    """And where they are; indexes tell of all of them, once they are refreshed."""
    table = hindex.connect(spark=spark).table(made)
    table.create_index("i", "a")
    (tmp_path / "empty").mkdir()
    for place in ("copy dir/p=2", "made/_inside"):
        shutil.copytree(tmp_path / "made" / "p=2", tmp_path / place)
    places = {"copy": "copy dir/p=2", "inside": "made/_inside", "empty": "empty", "missing": "missing"}
    text = change.format(**{name: tmp_path / place for name, place in places.items()})
    spark.sql(f"ALTER TABLE made {text}")
    wanted = sorted(map(str, spark.sql("SELECT a, p FROM made").toLocalIterator()))
    assert [int(row[6]) for row in wanted] == left
    scan = table.scan("a > 0", ["a", "p"])

    def rows() -> list[str]:
        return sorted(f"Row(a={row['a']}, p={row['p']})" for row in scan.to_arrow().to_pylist())

    assert rows() == wanted
    new = {Reason.NEW_FILE} if "{copy}" in change or "{inside}" in change else set()
    gone = {Reason.FILE_GONE} if "DROP" in change or "SET" in change else set()
    assert set(reasons(scan)) == new | gone
    table.refresh_indexes()
    assert rows() == wanted
    assert (scan.explain().exact, reasons(scan)) == (True, {})
    # the other queries that Spark runs see the same
    joined: Any = hindex.connect(spark=spark).sql(
        "SELECT m.a, m.p FROM made m JOIN range(9) r ON m.a = r.id WHERE m.a > 0"
    )
    assert sorted(map(str, joined.to_spark().collect())) == wanted


def test_a_property_alone_makes_no_table_transactional(
    spark: SparkSession, made: str, tmp_path: Path
) -> None:
    """Without a base or delta, its partitions are those of the catalog, too."""
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "made" / "p=9")
    spark.sql("ALTER TABLE made SET TBLPROPERTIES ('transactional' = 'true')")
    spark.sql(f"ALTER TABLE made ADD PARTITION (p = 3) LOCATION '{tmp_path}/elsewhere'")
    hx = hindex.connect(spark=spark)
    wanted = sorted(tuple(row) for row in spark.sql("SELECT a, p FROM made").collect())
    assert wanted == [(1, 1), (2, 2), (2, 3)]
    for is_indexed in (False, True):
        if is_indexed:
            hx.table(made).create_index("i", "a")
        scan = hx.table(made).scan(columns=["a", "p"])
        assert sorted((row["a"], row["p"]) for row in scan.to_arrow().to_pylist()) == wanted
        assert hx.table(made).scan("a = 2").count() == 2
    assert reasons(hx.table(made).scan("a = 2")) == {}


def test_a_file_that_spark_has_not_seen(spark: SparkSession, made: str, tmp_path: Path) -> None:
    table = hindex.connect(spark=spark).table(made)
    assert table.scan("p = 1").count() == spark.table(made).where("p = 1").count() == 1
    shutil.copy(next((tmp_path / "made" / "p=2").glob("*.orc")), tmp_path / "made" / "p=1" / "new.orc")
    # rows are those of now, as Spark has them when it has looked again
    assert table.scan("p = 1").count() == 2
    spark.sql("REFRESH TABLE made")
    assert spark.table(made).where("p = 1").count() == 2


def test_columns_of_a_description(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE typed (`A.b` STRING, `c d` STRUCT<`x w`: ARRAY<STRING>, `y``z`: DECIMAL(9, 2)>, "
        "m MAP<DATE, BINARY>, t TIMESTAMP, n TIMESTAMP_NTZ, s STRING COLLATE UTF8_LCASE, b BOOLEAN, "
        "i TINYINT, j SMALLINT, k BIGINT, f FLOAT, g DOUBLE, v ARRAY<VARCHAR(9)>, p INT) USING orc PARTITIONED BY (p)"
    )
    try:
        described = describe_table(spark, "typed")
        assert described_columns(described) == spark.table("typed").schema.names
    finally:
        spark.sql("DROP TABLE typed")


@pytest.mark.parametrize("lookup", ["at once", "one by one"])
def test_partitions_in_the_directories_of_others(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookup: str
) -> None:
    """Files are those of the partition whose place they are in, whatever the name of the directory says."""
    statements: list[str] = []

    def told(spark: SparkSession, name: str, statement: str) -> Any:
        statements.append(statement)
        return run(spark, name, statement)

    monkeypatch.setattr(locations, "run", told)
    if lookup == "one by one":
        # as over Spark Connect
        monkeypatch.setattr(locations, "call_session_catalog", lambda *_: None)
    root = tmp_path / "made"
    table = hindex.connect(spark=spark).table(made)
    table.create_index("i", "a")
    is_first = True
    # Java's URIs and descriptions write the second one alike
    shutil.copytree(root / "p=1", tmp_path / "a b")
    shutil.copytree(root / "p=2", tmp_path / "a%20b")
    for changes, wanted in [
        (
            [f"PARTITION (p = 1) SET LOCATION '{root}/p=2'", f"PARTITION (p = 2) SET LOCATION '{root}/p=1'"],
            [(1, 2), (2, 1)],
        ),
        ([f"PARTITION (p = 2) SET LOCATION '{tmp_path}/nothing'"], [(2, 1)]),
        ([f"PARTITION (p = 2) SET LOCATION '{root}/p=2'"], [(2, 1), (2, 2)]),
        (
            [
                f"ADD PARTITION (p = 3) LOCATION '{tmp_path}/a b' PARTITION (p = 4) LOCATION '{tmp_path}/a%20b'"
            ],
            [(1, 3), (2, 1), (2, 2), (2, 4)],
        ),
    ]:
        for change in changes:
            spark.sql(f"ALTER TABLE made {change}")
        statements.clear()
        found = [(row["a"], row["p"]) for row in table.scan("a > 0", ["a", "p"]).to_arrow().to_pylist()]
        # the first scan of a table also lists it to check the names of the scan
        listings = 0 if lookup == "at once" else 2 if is_first else 1
        is_first = False
        assert len(statements) == listings * (1 + spark.sql("SHOW PARTITIONS made").count())
        assert sorted(found) == wanted == sorted(map(tuple, spark.sql("SELECT a, p FROM made").collect()))
        in_one = [row["a"] for row in table.scan("a = 2 AND p = 2", ["a"]).to_arrow().to_pylist()]
        assert in_one == [2] * wanted.count((2, 2))
    # at the root of the table are no files; below it are some that Spark lists, and does not read
    spark.sql(f"ALTER TABLE made PARTITION (p = 1) SET LOCATION '{root}'")
    assert table.scan("a > 0").count() == spark.table("made").where("a > 0").count() == 3
    shutil.rmtree(root / "p=1")
    spark.sql("REFRESH TABLE made")
    assert table.scan("a > 0").count() == spark.table("made").where("a > 0").count() == 3


@pytest.mark.parametrize("is_escaped", ["true", "false"])
def test_values_in_statements(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_escaped: str
) -> None:
    """Over Spark Connect, each partition is asked for by its values."""
    monkeypatch.setattr(locations, "call_session_catalog", lambda *_: None)
    spark.sql(
        f"CREATE TABLE stated (a INT, `p q` STRING, r INT) USING orc PARTITIONED BY (`p q`, r) LOCATION '{tmp_path}/s'"
    )
    try:
        values = ["'a\\\\b\\'\"c'", "'x/y'", "NULL", "'d''e'"]
        spark.sql(
            "ALTER TABLE stated ADD "
            + " ".join(f"PARTITION (`p q` = {v}, r = 1)" for v in values)
            + f" PARTITION (`p q` = 'f', r = NULL) LOCATION '{tmp_path}/a%20b'"
        )
        spark.conf.set("spark.sql.parser.escapedStringLiterals", is_escaped)
        found = locations.catalog_partitions(spark, "stated", describe_table(spark, "stated"))
        assert found.here == {
            "p q=a%5Cb%27%22c/r=1",
            "p q=x%2Fy/r=1",
            "p q=__HIVE_DEFAULT_PARTITION__/r=1",
            "p q=d%27e/r=1",
        }
        (away,) = found.elsewhere
        assert (away.directory, away.uri) == ("p q=f/r=__HIVE_DEFAULT_PARTITION__", f"{tmp_path}/a%20b")
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
        spark.sql("DROP TABLE stated")


def test_what_a_path_cannot_know(spark: SparkSession, made: str, tmp_path: Path) -> None:
    """Of a table that is named by its path, only files below it are known; what is recorded of others stays."""
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "else")
    spark.sql(f"ALTER TABLE made ADD PARTITION (p = 3) LOCATION '{tmp_path}/else'")
    hx = hindex.connect(spark=spark)
    table = hx.table(made)
    table.create_index("i", "a", where="p > 1")
    scan = table.scan("a > 0", ["a", "p"])
    assert sorted(scan.to_arrow().column("p").to_pylist()) == [1, 2, 3]
    assert set(reasons(scan)) == {Reason.PARTITION_NOT_INDEXED}
    paths = [entry.path for entry in table.snapshot().manifest.files]
    away = f"_at/{str(tmp_path).replace('/', '%2F')}%2Felse/p=3/"
    assert [path.startswith(away) for path in paths] == [True, False]
    by_path = hx.table(str(tmp_path / "made"))
    assert sorted(by_path.scan("a > 0").to_arrow().column("p").to_pylist()) == [1, 2]
    assert set(reasons(by_path.scan("a > 0"))) == {Reason.PARTITION_NOT_INDEXED}
    by_path.refresh_indexes()
    assert [entry.path for entry in table.snapshot().manifest.files] == paths
    assert all(not check.problems for check in table.check_indexes(verify=True))
    # a file in a directory below a partition, which Spark does not read there
    (tmp_path / "made" / "p=1" / "deep").mkdir()
    shutil.copy(next((tmp_path / "else").glob("*.orc")), tmp_path / "made" / "p=1" / "deep" / "x.orc")
    assert scan.count() == spark.table("made").where("a > 0").count() == 3
    shutil.rmtree(tmp_path / "made" / "p=1" / "deep")
    # the source has the partitions of when it was enabled
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "made" / "p=4")
    for known in ([1, 2, 3], [1, 2]):
        hindex.enable(spark, [made])
        read = spark.read.format("hindex").option("table", made)
        assert sorted(row["p"] for row in read.load().collect()) == known
        spark.sql("ALTER TABLE made DROP IF EXISTS PARTITION (p = 3)")
        assert sorted(row["p"] for row in read.load().where("a > 0").collect()) == known


@pytest.mark.filterwarnings("ignore:deep/3.orc. the file lies outside")
@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            "(a INT, s STRUCT<`b C`: STRING>, c INT)",
            r"column 's' is struct<B c:int> in data file .* and struct<b",
        ),
        (
            "(a INT, s INT, c INT)",
            "column 's' is struct<B c:int> in data file '1.orc' and int in the catalog",
        ),
        (
            "(a INT, s STRUCT<`B c`: INT>, c INT) OPTIONS (pathGlobFilter '1*')",
            "with the option 'pathGlobFilter'",
        ),
        ("(a INT, c INT) OPTIONS (recursiveFileLookup true)", "the option 'recursiveFileLookup'"),
        ("(a INT, c INT) OPTIONS (recursiveFileLookup false)", None),
        ("(a INT, c INT) OPTIONS (modifiedBefore '2020-01-01T00:00:00')", "the option 'modifiedBefore'"),
        ("(a INT, c INT, i INTERVAL DAY)", "Column 'i' cannot be read here: its type is interval day"),
        (
            "(a INT, c INT, u STRING COLLATE UNICODE)",
            "Column 'u' cannot be read here: its strings have a coll",
        ),
        (
            "(a INT, c INT, s STRUCT<x: CHAR(3)>)",
            r"Column 's' cannot be read here: CHAR within struct<x:char",
        ),
        (
            "(a INT, c INT, t TIMESTAMP DEFAULT TIMESTAMP '2024-01-01 00:00:00')",
            "its default for older files is",
        ),
    ],
)
def test_what_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, definition: str, message: str | None
) -> None:
    """Types that are not converted, and options that choose files; a query of other columns is answered here."""
    columns = {
        "a": pa.array([1, 2], pa.int32()),
        "s": pa.array([{"B c": 1}] * 2, pa.struct([("B c", pa.int32())])),
    }
    write_columns(tmp_path / "1.orc", columns)
    write_columns(tmp_path / "2.orc", columns | {"c": pa.array([7, 8], pa.int32())})
    write_columns(tmp_path / "deep" / "3.orc", columns)
    hindex.connect().table(str(tmp_path)).create_index("i", "c")
    columns_, _, options = definition.partition(" OPTIONS ")
    spark.sql(
        f"CREATE TABLE told {columns_} USING orc {options and 'OPTIONS ' + options} LOCATION '{tmp_path}'"
    )
    try:
        hx = hindex.connect(spark=spark)
        if message is None:
            assert hx.table("told").scan("c IS NULL").count() == 2
        else:
            with pytest.raises(UnsupportedError, match=message):
                hx.table("told").scan("a > 0").to_arrow()
        text = "SELECT count(a) AS n, sum(c + 0) AS m FROM told WHERE c = 7"
        compare(hx, text)
        if "OPTIONS" not in definition:
            assert hx.table("told").scan("c = 7", ["a", "c"]).to_arrow().to_pylist() == [{"a": 1, "c": 7}]
    finally:
        spark.sql("DROP TABLE told")


def test_types_of_a_file_that_was_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """By one of the same length and time, as it may be where these are copied along."""
    data = spark.range(3).selectExpr("INTERVAL '1' DAY AS n")
    data.coalesce(1).write.option("compression", "none").orc(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.orc")
    select = parse("SELECT n FROM 't'")
    assert isinstance(select, Select)

    def told() -> str:
        snapshot = hindex.connect().table(str(tmp_path / "t")).snapshot()
        with pytest.raises(UnsupportedError) as raised:
            check_same_rows(lambda: session_time_zones(spark), lambda _, default: default, snapshot, select)
        return str(raised.value)

    before = path.stat()
    assert told() == told() == "Spark has the column 'n' as interval day"
    path.write_bytes(path.read_bytes().replace(b"interval day", b"interval new"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert told() == "Spark has the column 'n' as interval new"


def test_partition_values_that_need_escapes(spark: SparkSession, tmp_path: Path) -> None:
    """Also in a table whose path has a blank, and is reached by a link."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    spark.sql(
        "CREATE TABLE escaped (a INT, p STRING, q STRING) USING orc PARTITIONED BY (p, q) "
        f"LOCATION '{tmp_path}/link/t'"
    )
    try:
        spark.sql("INSERT INTO escaped VALUES (1, 'x y/z', 'ä%'), (2, 'b=c', '#'), (3, 'b:c', 'd?')")
        table = hindex.connect(spark=spark).table("escaped")
        table.create_index("i", "a")
        for where in ("p = 'x y/z'", "q = '#' AND a = 2", "a >= 2 AND q <> 'ä%'"):
            found = table.scan(where).to_arrow().to_pylist()
            wanted = [row.asDict() for row in spark.table("escaped").where(where).collect()]
            assert sorted(map(str, found)) == sorted(map(str, wanted))
            assert found
    finally:
        spark.sql("DROP TABLE escaped")


def test_files_of_other_formats_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """And told as what they are where an index is wanted."""
    spark.range(3).write.parquet(str(tmp_path / "users"))
    hx = hindex.connect(spark=spark)
    with pytest.raises(
        NotOrcError, match=r"^Table 'parquet.nowhere' is invalid: hindex reads tables of ORC files, and"
    ):
        hx.sql("CREATE INDEX i USING bitmap ON parquet.`nowhere` (a)")
    found: Any = hx.sql(f"SELECT * FROM parquet.`{tmp_path}/users` WHERE id > 0")
    assert sorted(found.to_arrow()["id"].to_pylist()) == [1, 2]
    # a database may be called like a format
    spark.sql("CREATE DATABASE json")
    try:
        spark.sql(f"CREATE TABLE json.events USING orc LOCATION '{tmp_path}/events' AS SELECT 7 AS a")
        counted: Any = hx.sql("SELECT COUNT(*) FROM json.events WHERE a = 7")
        assert counted.to_arrow().to_pylist() == [{"count(1)": 1}]
    finally:
        spark.sql("DROP DATABASE json CASCADE")
