"""Descriptions of tables in the catalog, and errors for unknown tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import NotOrcError, TableError, UnknownTableError, UnsupportedError
from hindex.plan.reasons import Reason
from hindex.spark import locations
from hindex.spark.catalog import describe_table, described_columns, run
from hindex.spark.compatibility import check_same_rows
from hindex.spark.session import session_time_zones
from hindex.sql import parse
from hindex.sql.statements import Select
from tests.support.cases import sampled
from tests.support.messages import raises
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
    description = describe_table(spark, table)
    assert description["location"] == f"file:{tmp_path}"
    assert description["provider"] == "orc"
    assert description["partition_columns"] == ["day"]


@pytest.mark.parametrize("name", ["missing", "no_such_schema.missing"])
def test_no_table(spark: SparkSession, name: str) -> None:
    with raises(TableError):
        describe_table(spark, name)


def test_an_invalid_name(spark: SparkSession) -> None:
    with pytest.raises(TableError, match=r"Table 'a b' is invalid: .+") as caught:
        describe_table(spark, "a b")
    assert "\n" not in str(caught.value)


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Create a partitioned table with two partitions, and return its name."""
    spark.sql(
        "CREATE TABLE made (a INT, s VARCHAR(9), t TIMESTAMP, n STRUCT<x: INT>, p INT) USING orc "
        f"PARTITIONED BY (p) LOCATION '{tmp_path}/made'"
    )
    spark.sql("INSERT INTO made VALUES (1, 'x', now(), struct(1), 1), (2, NULL, NULL, NULL, 2)")
    yield "made"
    spark.sql("DROP TABLE made")


def test_a_table_whose_files_match_the_catalog(spark: SparkSession, made: str) -> None:
    rows = hindex.connect(spark=spark).table(made).scan("p = 2").to_arrow()
    assert rows.column("a").to_pylist() == [2]


@sampled(4)
@pytest.mark.parametrize(
    ("change", "partitions"),
    [
        # the table is external: its files stay
        ("DROP PARTITION (p = 1)", [2]),
        ("ADD PARTITION (p = 3) LOCATION '{empty}'", [1, 2]),
        ("ADD PARTITION (p = 3) LOCATION '{copy}'", [1, 2, 2]),
        ("ADD PARTITION (p = 3) LOCATION '{missing}'", [1, 2]),
        # its old files stay where they are
        ("PARTITION (p = 2) SET LOCATION '{empty}'", [1]),
        ("PARTITION (p = 2) SET LOCATION '{copy}'", [1, 2]),
        # two partitions with one location
        ("ADD PARTITION (p = 4) LOCATION '{copy}' PARTITION (p = NULL) LOCATION '{copy}'", [1, 2, 2, 2]),
        # in the table's directory, with a name that is not a partition's
        ("ADD PARTITION (p = 5) LOCATION '{inside}'", [1, 2, 2]),
    ],
)
def test_partitions_are_those_of_the_catalog(
    spark: SparkSession, made: str, tmp_path: Path, change: str, partitions: list[int]
) -> None:
    """Scans take partitions and locations from the catalog; refreshed indexes cover all of them."""
    table = hindex.connect(spark=spark).table(made)
    table.create_index("i", "a")
    (tmp_path / "empty").mkdir()
    for place in ("copy dir/p=2", "made/_inside"):
        shutil.copytree(tmp_path / "made" / "p=2", tmp_path / place)
    places = {"copy": "copy dir/p=2", "inside": "made/_inside", "empty": "empty", "missing": "missing"}
    text = change.format(**{name: tmp_path / place for name, place in places.items()})
    spark.sql(f"ALTER TABLE made {text}")
    wanted = sorted(map(str, spark.sql("SELECT a, p FROM made").toLocalIterator()))
    assert [int(row[6]) for row in wanted] == partitions
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
    # queries that Spark runs return the same rows
    joined: Any = hindex.connect(spark=spark).sql(
        "SELECT m.a, m.p FROM made m JOIN range(9) r ON m.a = r.id WHERE m.a > 0"
    )
    assert sorted(map(str, joined.to_spark().collect())) == wanted


def test_a_property_alone_makes_no_table_transactional(
    spark: SparkSession, made: str, tmp_path: Path
) -> None:
    """Without a base or delta, its partitions are also those of the catalog."""
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
    # hindex reads the current files, as Spark does after a refresh
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


@sampled(1)
@pytest.mark.parametrize("lookup", ["at once", "one by one"])
def test_partitions_in_the_directories_of_others(
    spark: SparkSession, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookup: str
) -> None:
    """A file belongs to the partition whose location contains it, whatever the name of the directory."""
    statements: list[str] = []

    def record(spark: SparkSession, name: str, statement: str) -> Any:
        statements.append(statement)
        return run(spark, name, statement)

    monkeypatch.setattr(locations, "run", record)
    if lookup == "one by one":
        # as over Spark Connect
        monkeypatch.setattr(locations, "call_session_catalog", lambda *_: None)
    root = tmp_path / "made"
    table = hindex.connect(spark=spark).table(made)
    table.create_index("i", "a")
    is_first = True
    # Java's URIs and descriptions write both names alike
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
        rows = [(row["a"], row["p"]) for row in table.scan("a > 0", ["a", "p"]).to_arrow().to_pylist()]
        # the first scan of a table also lists its files to check the names of columns
        listings = 0 if lookup == "at once" else 2 if is_first else 1
        is_first = False
        assert len(statements) == listings * (1 + spark.sql("SHOW PARTITIONS made").count())
        assert sorted(rows) == wanted == sorted(map(tuple, spark.sql("SELECT a, p FROM made").collect()))
        ids_of_partition = [row["a"] for row in table.scan("a = 2 AND p = 2", ["a"]).to_arrow().to_pylist()]
        assert ids_of_partition == [2] * wanted.count((2, 2))
    # the root of the table has no files; Spark lists the files below it, and does not read them
    spark.sql(f"ALTER TABLE made PARTITION (p = 1) SET LOCATION '{root}'")
    assert table.scan("a > 0").count() == spark.table("made").where("a > 0").count() == 3
    shutil.rmtree(root / "p=1")
    spark.sql("REFRESH TABLE made")
    assert table.scan("a > 0").count() == spark.table("made").where("a > 0").count() == 3


@pytest.mark.parametrize("is_escaped", ["true", "false"])
def test_values_in_statements(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_escaped: str
) -> None:
    """Over Spark Connect, a statement describes each partition by its values."""
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
        partitions = locations.catalog_partitions(spark, "stated", describe_table(spark, "stated"))
        assert partitions.here == {
            "p q=a%5Cb%27%22c/r=1",
            "p q=x%2Fy/r=1",
            "p q=__HIVE_DEFAULT_PARTITION__/r=1",
            "p q=d%27e/r=1",
        }
        (external,) = partitions.elsewhere
        assert (external.directory, external.uri) == (
            "p q=f/r=__HIVE_DEFAULT_PARTITION__",
            f"{tmp_path}/a%20b",
        )
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
        spark.sql("DROP TABLE stated")


def test_a_path_does_not_know_external_partitions(spark: SparkSession, made: str, tmp_path: Path) -> None:
    """A path covers only files below it; a refresh by path keeps the entries of all other files."""
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "else")
    spark.sql(f"ALTER TABLE made ADD PARTITION (p = 3) LOCATION '{tmp_path}/else'")
    hx = hindex.connect(spark=spark)
    table = hx.table(made)
    table.create_index("i", "a", where="p > 1")
    scan = table.scan("a > 0", ["a", "p"])
    assert sorted(scan.to_arrow().column("p").to_pylist()) == [1, 2, 3]
    assert set(reasons(scan)) == {Reason.PARTITION_NOT_INDEXED}
    paths = [entry.path for entry in table.snapshot().manifest.files]
    prefix = f"_at/{str(tmp_path).replace('/', '%2F')}%2Felse/p=3/"
    assert [path.startswith(prefix) for path in paths] == [True, False]
    by_path = hx.table(str(tmp_path / "made"))
    assert sorted(by_path.scan("a > 0").to_arrow().column("p").to_pylist()) == [1, 2]
    assert set(reasons(by_path.scan("a > 0"))) == {Reason.PARTITION_NOT_INDEXED}
    by_path.refresh_indexes()
    assert [entry.path for entry in table.snapshot().manifest.files] == paths
    assert all(not check.problems for check in table.check_indexes(verify=True))
    # Spark does not read files in directories below a partition
    (tmp_path / "made" / "p=1" / "deep").mkdir()
    shutil.copy(next((tmp_path / "else").glob("*.orc")), tmp_path / "made" / "p=1" / "deep" / "x.orc")
    assert scan.count() == spark.table("made").where("a > 0").count() == 3
    shutil.rmtree(tmp_path / "made" / "p=1" / "deep")
    # the data source keeps the partitions of the time it was enabled
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "made" / "p=4")
    for partitions in ([1, 2, 3], [1, 2]):
        hindex.enable(spark, [made])
        read = spark.read.format("hindex").option("table", made)
        assert sorted(row["p"] for row in read.load().collect()) == partitions
        spark.sql("ALTER TABLE made DROP IF EXISTS PARTITION (p = 3)")
        assert sorted(row["p"] for row in read.load().where("a > 0").collect()) == partitions


@sampled(6)
@pytest.mark.usefixtures("always")
@pytest.mark.filterwarnings("ignore:deep/3.orc. the file is outside")
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
        ("(a INT, c INT) OPTIONS (recursivefilelookup 'TRUE')", "the option 'recursivefilelookup'"),
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
def test_tables_that_only_spark_reads(
    spark: SparkSession, tmp_path: Path, definition: str, message: str | None
) -> None:
    """Reject types without a conversion and options that choose files; answer queries of other columns."""
    columns = {
        "a": pa.array([1, 2], pa.int32()),
        "s": pa.array([{"B c": 1}] * 2, pa.struct([("B c", pa.int32())])),
    }
    write_columns(tmp_path / "1.orc", columns)
    write_columns(tmp_path / "2.orc", columns | {"c": pa.array([7, 8], pa.int32())})
    write_columns(tmp_path / "deep" / "3.orc", columns)
    hindex.connect().table(str(tmp_path)).create_index("i", "c")
    clauses, _, options = definition.partition(" OPTIONS ")
    spark.sql(
        f"CREATE TABLE partial {clauses} USING orc {options and 'OPTIONS ' + options} LOCATION '{tmp_path}'"
    )
    try:
        hx = hindex.connect(spark=spark)
        if message is None:
            assert hx.table("partial").scan("c IS NULL").count() == 2
        else:
            with pytest.raises(UnsupportedError, match=message):
                hx.table("partial").scan("a > 0").to_arrow()
        text = "SELECT count(a) AS n, sum(c + 0) AS m FROM partial WHERE c = 7"
        compare(hx, text)
        if "OPTIONS" not in definition:
            assert hx.table("partial").scan("c = 7", ["a", "c"]).to_arrow().to_pylist() == [{"a": 1, "c": 7}]
    finally:
        spark.sql("DROP TABLE partial")


def test_partition_columns_keep_their_letter_case(spark: SparkSession, tmp_path: Path) -> None:
    for partition in (1, 2):
        write_columns(tmp_path / f"Part={partition}" / "1.orc", {"a": pa.array([partition] * 3, pa.int32())})
    spark.sql(f"CREATE TABLE cased (a INT, Part INT) USING orc PARTITIONED BY (Part) LOCATION '{tmp_path}'")
    try:
        spark.sql("MSCK REPAIR TABLE cased")
        table = hindex.connect(spark=spark).table("cased")
        assert list(table.columns) == spark.table("cased").columns == ["a", "Part"]
        for where, count in (("PART = 1", 3), ("part > 1 AND A = 2", 3), ("Part IS NULL", 0)):
            assert table.scan(where).count() == spark.table("cased").where(where).count() == count
    finally:
        spark.sql("DROP TABLE cased")


def test_types_of_a_file_that_was_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """The new file has the length and time of the old one, as copies may have."""
    data = spark.range(3).selectExpr("INTERVAL '1' DAY AS N")
    data.coalesce(1).write.option("compression", "none").orc(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.orc")
    select = parse("SELECT n FROM 't'")
    assert isinstance(select, Select)

    def error_message() -> str:
        snapshot = hindex.connect().table(str(tmp_path / "t")).snapshot()
        with pytest.raises(UnsupportedError) as raised:
            check_same_rows(lambda: session_time_zones(spark), lambda _, default: default, snapshot, select)
        return str(raised.value)

    before = path.stat()
    assert error_message() == error_message() == "Spark has the column 'N' as interval day"
    path.write_bytes(path.read_bytes().replace(b"interval day", b"interval new"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert error_message() == "Spark has the column 'N' as interval new"


def test_partition_values_that_need_escapes(spark: SparkSession, tmp_path: Path) -> None:
    """The table is behind a link, and its path contains a blank."""
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
            rows = table.scan(where).to_arrow().to_pylist()
            wanted = [row.asDict() for row in spark.table("escaped").where(where).collect()]
            assert sorted(map(str, rows)) == sorted(map(str, wanted))
            assert rows
    finally:
        spark.sql("DROP TABLE escaped")


def test_files_of_other_formats_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """An index on such a table is an error that names the format."""
    spark.range(3).write.parquet(str(tmp_path / "users"))
    hx = hindex.connect(spark=spark)
    with raises(NotOrcError):
        hx.sql("CREATE INDEX i USING bitmap ON parquet.`nowhere` (a)")
    result: Any = hx.sql(f"SELECT * FROM parquet.`{tmp_path}/users` WHERE id > 0")
    assert sorted(result.to_arrow()["id"].to_pylist()) == [1, 2]
    # a database may have the name of a format
    spark.sql("CREATE DATABASE json")
    try:
        spark.sql(f"CREATE TABLE json.events USING orc LOCATION '{tmp_path}/events' AS SELECT 7 AS a")
        counted: Any = hx.sql("SELECT COUNT(*) FROM json.events WHERE a = 7")
        assert counted.to_arrow().to_pylist() == [{"count(1)": 1}]
    finally:
        spark.sql("DROP DATABASE json CASCADE")


def test_a_table_of_another_database_is_suggested(spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    spark.sql("CREATE DATABASE wh")
    spark.sql("CREATE TABLE wh.all_events USING orc AS SELECT 1 AS a")
    try:
        for run in (
            lambda: hx.table("all_events"),
            lambda: hx.sql("CREATE INDEX i USING bitmap ON all_events (a)"),
            lambda: hx.sql("SHOW INDEXES ON all_events"),
        ):
            with raises(UnknownTableError):
                run()
        with raises(UnknownTableError):
            hx.sql("SHOW INDEXES ON other_events")
    finally:
        spark.sql("DROP DATABASE wh CASCADE")


def test_a_name_of_a_table_and_of_a_path_is_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("both_places", "only_path", "no-name"):
        write_columns(tmp_path / name / "1.orc", {"a": pa.array([1, 2, 3])})
    hx = hindex.connect(spark=spark)
    spark.sql("CREATE TABLE both_places USING orc AS SELECT 9 AS a")
    try:
        assert hx.table("both_places").scan().to_arrow().to_pydict() == {"a": [9]}
        (message,) = (record.getMessage() for record in caplog.records)
        assert message == (
            "'both_places' is the table of Spark's catalog, not the path: write './both_places' for the path"
        )
        for path in ("./both_places", Path("both_places"), "only_path", "no-name"):
            assert hx.table(path).scan().count() == 3
        assert hindex.connect().table("both_places").scan().count() == 3
        assert len(caplog.records) == 1
    finally:
        spark.sql("DROP TABLE both_places")
