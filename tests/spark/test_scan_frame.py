"""Scans as Spark DataFrames have the rows and types of Spark's own ORC reader."""

from __future__ import annotations

import datetime
import decimal
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

import hindex
import hindex.spark.scan as spark_scan
import hindex.spark.tasks as spark_tasks
from hindex.errors import ColumnError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.spark.scan import split_native
from hindex.spark.types import is_same_type, spark_ddl
from hindex.table.type_text import parse_type
from tests.support.cases import sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "struct<id:bigint,bool:boolean,tiny:tinyint,small:smallint,whole:int,single:float,real:double,"
    "money:decimal(12,2),huge:decimal(38,10),text:string,short:varchar(9),fixed:char(4),blob:binary,day:date,"
    "stamp:timestamp,list:array<int>,pairs:map<string,double>,"
    "nested:struct<a:tinyint,b:array<struct<c:string,d:varchar(3)>>>>"
)
ROWS, FILES = 4_000, 3


def record(number: int, rng: random.Random) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return (
        number,
        maybe(rng.random() < 0.5),
        maybe(rng.randrange(-128, 128)),
        maybe(rng.randrange(-(2**15), 2**15)),
        maybe(rng.randrange(50)),
        maybe(rng.choice([0.5, -0.25, float("inf")])),
        maybe(rng.gauss(0, 1e9)),
        maybe(decimal.Decimal(rng.randrange(-(10**11), 10**11)).scaleb(-2)),
        maybe(decimal.Decimal(rng.randrange(-(10**30), 10**30)).scaleb(-10, decimal.Context(prec=60))),
        maybe(f"text {rng.randrange(100)} Ä𝄞"),
        maybe(f"v{rng.randrange(9)}"),
        maybe("cdef"[: rng.randrange(5)]),
        maybe(rng.randbytes(5)),
        maybe(datetime.date(1960, 1, 1) + datetime.timedelta(rng.randrange(40_000))),
        maybe(
            datetime.datetime(1980, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**9), microseconds=7)
        ),
        maybe([maybe(1), 2]),
        maybe({"k": maybe(1.5)}),
        maybe((maybe(3), maybe([(maybe("c"), "d")]))),
    )


def write(path: Path, schema: str, records: list[tuple[Any, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, pyorc.Writer(file, schema, stripe_size=1 << 16) as writer:
        writer.writerows(records)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> hindex.Table:
    """Write a table of every type in several files, with indexes on two columns."""
    path = tmp_path_factory.mktemp("everything")
    rng = random.Random(7)
    records = [record(number, rng) for number in range(ROWS)]
    for file in range(FILES):
        write(path / f"part-{file}.orc", SCHEMA, records[file::FILES])
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([hindex.IndexSpec("i", "id"), hindex.IndexSpec("w", "whole")])
    return table


@pytest.fixture(params=["here", "executors"])
def anywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read few rows in this process, or let executors read all rows."""
    place: str = request.param
    if place == "executors":
        monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 0)
    return place


def row_texts(frame: DataFrame) -> list[str]:
    # strings can be sorted, whatever the types of the values
    return sorted(map(repr, frame.toArrow().to_pylist()))


def check(scan: hindex.Scan, spark: SparkSession, expected: DataFrame) -> DataFrame:
    frame = scan.to_spark(spark)
    assert types(frame) == types(expected)
    assert row_texts(frame) == row_texts(expected)
    return frame


def table_row_texts(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True))


def types(frame: DataFrame) -> list[tuple[str, str, bool]]:
    return [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema]


def explain_text(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain()
    return capsys.readouterr().out


@sampled(7)
@pytest.mark.parametrize(
    "where",
    [
        "id = 1234",
        "whole = 7",
        "whole = 7 AND id < 2000 AND tiny > 0",
        "whole IS NULL OR money < 0",
        "id < 0",
        "money > 9999999999",
        None,
    ],
)
def test_rows_and_types_are_those_of_spark(
    where: str | None, anywhere: str, everything: hindex.Table, spark: SparkSession
) -> None:
    expected = spark.read.orc(everything.uri)
    check(everything.scan(where), spark, expected.where(where) if where else expected)


def test_columns_in_any_order_and_case(anywhere: str, everything: hindex.Table, spark: SparkSession) -> None:
    columns = ["stamp", "id", "nested", "fixed"]
    expected = spark.read.orc(everything.uri).where("whole < 3").select(*columns)
    check(everything.scan("WHOLE < 3", ["STAMP", "Id", "nested", "fixed"]), spark, expected)


def test_a_column_twice_and_none_at_all(anywhere: str, everything: hindex.Table, spark: SparkSession) -> None:
    twice = everything.scan("id < 3", ["id", "id"]).to_spark(spark)
    assert twice.columns == ["id", "id"]
    assert sorted(tuple(row) for row in twice.collect()) == [(0, 0), (1, 1), (2, 2)]
    none = everything.scan("id < 3", []).to_spark(spark)
    assert (none.columns, none.count()) == ([], 3)


def test_few_rows_are_read_locally_and_many_by_executors(
    everything: hindex.Table,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = everything.scan("id BETWEEN 100 AND 110", ["id"])
    all_rows = everything.scan("tiny <> 300", ["id"])
    assert "MapInArrow" not in explain_text(few.to_spark(spark), capsys)
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 11)
    assert "MapInArrow" not in explain_text(few.to_spark(spark), capsys)
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 10)
    assert "MapInArrow" in explain_text(few.to_spark(spark), capsys)
    assert "MapInArrow" in explain_text(all_rows.to_spark(spark), capsys)
    # a limit that undisputed rows fill needs no other rows
    limited = everything.scan(None, ["id"], limit=10).to_spark(spark)
    assert "MapInArrow" not in explain_text(limited, capsys)
    assert limited.count() == 10
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 1_000_000)
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_FILES", FILES - 1)
    assert "MapInArrow" in explain_text(few.to_spark(spark), capsys)


@sampled(5)
@pytest.mark.parametrize(
    ("where", "limit", "offset"),
    [
        (None, 0, 0),
        ("whole < 9", 150, 0),
        ("tiny > 5", 1, 40),
        ("tiny > 5", ROWS + 1, 7),
        ("whole < 9", None, 99),
    ],
)
def test_a_limit_is_that_of_all_files(
    where: str | None,
    limit: int | None,
    offset: int,
    anywhere: str,
    everything: hindex.Table,
    spark: SparkSession,
) -> None:
    wanted = everything.scan(where).to_arrow()
    frame = everything.scan(where).limit(limit, offset=offset).to_spark(spark)
    assert types(frame) == types(spark.read.orc(everything.uri))
    ids = frame.toArrow()["id"].to_pylist()
    assert len(ids) == wanted.slice(offset, limit).num_rows
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(wanted["id"].to_pylist())
    ordered = everything.scan(where).order_by("id").limit(limit, offset=offset).to_spark(spark)
    assert ordered.toArrow()["id"].to_pylist() == sorted(wanted["id"].to_pylist())[offset:][:limit]


def test_spark_reads_whole_files(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark reads files if it certainly returns the same rows; hindex reads all others, and partitions."""
    schema = "struct<id:bigint,name:string,money:decimal(9,2),deep:struct<l:array<map<string,date>>>>"
    day = datetime.date(1999, 1, 2)
    records = [(i, f"n{i}", decimal.Decimal(i).scaleb(-2), ([{"k": day}, None],)) for i in range(50)]
    write(tmp_path / "a.orc", schema, records)
    write(tmp_path / "b c.orc", schema, [(i + 50, *rest) for i, *rest in records])
    write(tmp_path / "c.orc", "struct<name:string,id:bigint>", [(f"n{i}", i) for i in range(100, 150)])
    write(tmp_path / "d.orc", schema.replace("bigint", "int"), [(i + 150, *rest) for i, *rest in records])
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 0)
    scan = hindex.connect(spark=spark).table(str(tmp_path)).scan(columns=["deep", "id", "money"])
    native, rest = split_native(scan.plan())
    assert [task.path for task in native] == ["a.orc", "b c.orc"]
    assert [task.path for task in rest.tasks] == ["c.orc", "d.orc"]
    frame = scan.to_spark(spark)
    plan = explain_text(frame, capsys)
    assert "MapInArrow" in plan
    assert "FileScan orc" in plan
    assert frame.columns == ["deep", "id", "money"]
    wanted = table_row_texts(scan.to_arrow())
    assert table_row_texts(frame.toArrow()) == wanted
    assert len(wanted) == 200
    assert scan.to_spark(spark).limit(7).count() == 7
    for where, columns in [
        ("id >= 0", ["id"]),
        (None, ["id", "p"]),
        (None, ["id", "t"]),
        (None, ["id", "id"]),
    ]:
        other = tmp_path / "other" / "p=1"
        write(other / "x.orc", "struct<id:bigint,t:timestamp>", [(1, datetime.datetime(2020, 1, 1))])
        table = hindex.connect(spark=spark).table(str(tmp_path / "other"))
        assert split_native(table.scan(where, columns).plan())[0] == []
    assert len(split_native(table.scan("p = 1", ["id"]).plan())[0]) == 1


@pytest.mark.parametrize("names", ["a:bigint,A:bigint", "a:bigint,s:struct<x:bigint,X:bigint>"])
def test_hindex_reads_names_that_differ_in_letter_case(
    names: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own reader rejects a schema with both names."""
    values: list[tuple[object, object]] = (
        [(1, 2), (3, 4)] if "struct" not in names else [(1, (2, 3)), (4, (5, 6))]
    )
    write(tmp_path / "t" / "x.orc", f"struct<{names}>", values)
    monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 0)
    scan = hindex.connect(spark=spark).table(str(tmp_path / "t")).scan()
    assert sorted(tuple(row) for row in scan.to_spark(spark).collect()) == values
    assert split_native(scan.plan())[0] == []


def test_batches_are_cut(everything: hindex.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "BATCH_ROWS", 100)
    (task, *_) = everything.scan(None, ["id"]).plan().tasks
    batches = list(spark_tasks.read_group((task,), 250))
    assert [batch.num_rows for batch in batches] == [100, 100, 50]


@sampled(3)
@pytest.mark.parametrize(
    "directories",
    [
        ["p=1/q=x", "p=2/q=y%2Fz", "p=__HIVE_DEFAULT_PARTITION__/q=x"],
        ["p=1/q=2020-01-01", "p=30000000000/q=2020-02-02"],
        ["p=1.5/q=2020-01-01 10:00:00", "p=2/q=2021-01-01 00:00:00.5"],
    ],
    ids=["int-string", "bigint-date", "double-timestamp"],
)
def test_partitions(directories: list[str], anywhere: str, tmp_path: Path, spark: SparkSession) -> None:
    for number, directory in enumerate(directories):
        write(
            tmp_path / directory / "part.orc",
            "struct<id:bigint,name:string>",
            [(number * 10 + i, f"n{i}") for i in range(10)],
        )
    table = hindex.connect(spark=spark).table(str(tmp_path))
    table.create_index("i", "id")
    everything = spark.read.orc(str(tmp_path))
    for where in (None, "id IN (3, 15) AND q IS NOT NULL", "p = 1", "p = 77"):
        check(table.scan(where), spark, everything.where(where) if where else everything)
    check(table.scan("id = 3", ["q", "id"]), spark, everything.where("id = 3").select("q", "id"))


def test_a_column_that_one_file_lacks(anywhere: str, tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "a.orc", "struct<id:bigint>", [(i,) for i in range(10)])
    write(tmp_path / "b.orc", "struct<id:bigint,added:string>", [(i, f"x{i}") for i in range(10, 20)])
    table = hindex.connect(spark=spark).table(str(tmp_path))
    table.create_index("i", "id")
    expected = spark.read.option("mergeSchema", "true").orc(str(tmp_path))
    for where in (None, "added IS NULL", "id > 8 AND id < 13"):
        check(table.scan(where), spark, expected.where(where) if where else expected)


def test_names_that_need_quotes(anywhere: str, tmp_path: Path, spark: SparkSession) -> None:
    names = ["a.b", "two words", "c0"]
    columns = [[1, 2], [datetime.datetime(2020, 1, 2), None], [{"f g": 1}, {"f g": None}]]
    pa.orc.write_table(
        pa.table(dict(zip(names, [pa.array(values) for values in columns], strict=True))), tmp_path / "t.orc"
    )
    table = hindex.connect(spark=spark).table(str(tmp_path))
    frame = table.scan().to_spark(spark)
    assert frame.columns == names
    assert row_texts(frame) == row_texts(spark.read.orc(str(tmp_path)))


def test_timestamps_with_a_zone(anywhere: str, tmp_path: Path, spark: SparkSession) -> None:
    instant = datetime.datetime(2020, 7, 1, 12, 30, 0, 250, tzinfo=datetime.UTC)
    write(
        tmp_path / "t.orc",
        "struct<id:bigint,at:timestamp with local time zone,all:array<timestamp with local time zone>>",
        [(1, instant, [instant]), (2, None, [])],
    )
    frame = check(
        hindex.connect(spark=spark).table(str(tmp_path)).scan(), spark, spark.read.orc(str(tmp_path))
    )
    rows = {row["id"]: row for row in frame.toArrow().to_pylist()}
    assert (rows[1]["at"], rows[1]["all"]) == (instant, [instant])


def test_executors_need_neither_spark_nor_a_parser(everything: hindex.Table, tmp_path: Path) -> None:
    scan = everything.scan("whole = 7", ["id"])
    (tmp_path / "tasks").write_bytes(pickle.dumps(scan.plan().tasks))
    code = f"""
import sys
for name in ("sqlglot", "pyspark", "pandas"):
    sys.modules[name] = None
import pickle
from hindex.spark.tasks import read_group
tasks = pickle.load(open({str(tmp_path / "tasks")!r}, "rb"))
print(sum(batch.num_rows for task in tasks for batch in read_group((task,))))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == scan.count() > 0


def test_a_union_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "t.orc", "struct<id:int,u:uniontype<int,string>>", [(1, 5), (2, "x")])
    table = hindex.connect(spark=spark).table(str(tmp_path))
    with raises(ColumnError):
        table.scan().to_spark(spark)
    assert table.scan(columns=["id"]).to_spark(spark).count() == 2


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("tinyint", "tinyint"),
        ("char(3)", "string"),
        ("decimal(12,2)", "decimal(12,2)"),
        ("timestamp", "timestamp"),
        ("timestamp with local time zone", "timestamp_ltz"),
        ("map<varchar(2),array<date>>", "map<string,array<date>>"),
        ("struct<`a b`:int,c:timestamp>", "struct<`a b`:int,`c`:timestamp>"),
    ],
)
def test_ddl(text: str, ddl: str) -> None:
    assert spark_ddl(parse_type(text)) == ddl


def test_a_decimal_without_precision() -> None:
    assert spark_ddl(OrcType(Kind.DECIMAL)) == "decimal(38,18)"


def test_empty_batches_do_not_end_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes an empty batch for the last one, so hindex drops empty batches of few rows."""
    for number in range(6):
        ids = range(10 * number, 10 * number + 10)
        texts = [f"{'even' if number % 3 == 0 and i % 2 == 0 else 'odd'} {i}" for i in ids]
        pyarrow.orc.write_table(pa.table({"id": ids, "s": texts}), tmp_path / f"{number}.orc")
    scan = hindex.connect().table(str(tmp_path)).scan("s LIKE '%ven%'", ["id"])
    expected = [*range(0, 10, 2), *range(30, 40, 2)]
    assert sorted(row.id for row in scan.to_spark(spark).collect()) == expected
    assert sorted(row.id for row in scan.order_by("id").to_spark(spark).collect()) == expected
    assert scan.to_spark(spark).count() == 10
    nothing = hindex.connect().table(str(tmp_path)).scan("s LIKE '%none%'", ["id"]).to_spark(spark)
    assert nothing.collect() == []


@pytest.mark.parametrize(
    ("text", "spark_type", "expected"),
    [
        ("struct<`a:int,b`:int>", "struct<`a:int,b`:int>", True),
        ("struct<a:int,b:int>", "struct<`a:int,b`:int>", False),
        ("struct<`a:int,b`:int>", "struct<a:int,b:int>", False),
        ("struct<x:struct<`p:int>,y`:int>>", "struct<x:struct<p:int>,y:int>", False),
        ("array<struct<a:int,b:int>>", "array<struct<`a:int,b`:int>>", False),
        ("map<int,struct<a:int,b:int>>", "map<int,struct<`a:int,b`:int>>", False),
        ("struct<`a``b`:int>", "struct<ab:int>", False),
        ("struct<`timestamp_ltz`:int>", "struct<`timestamp`:int>", False),
        ("struct<t:timestamp>", "struct<t:timestamp>", True),
        ("array<timestamp with local time zone>", "array<timestamp>", True),
        ("timestamp_ntz", "timestamp", False),
        ("map<varchar(3),char(2)>", "map<string,string>", True),
        ("decimal(9,2)", "decimal(9,3)", False),
        ("struct<a:int>", "struct<A:int>", False),
        ("array<int>", "int", False),
        ("int", "array<int>", False),
        ("uniontype<int>", "int", False),
    ],
)
@pytest.mark.usefixtures("spark")
def test_types_are_compared_by_structure(text: str, spark_type: str, *, expected: bool) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(f"c {spark_type}")
    assert isinstance(schema, StructType)
    assert is_same_type(parse_type(text), schema["c"].dataType) is expected
