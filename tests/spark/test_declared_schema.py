"""Tables as warehouses declare them: rows, types, schemas and pruning match Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.errors import PredicateError, UnsupportedError
from hindex.plan.reasons import Reason
from tests.spark.layouts import (
    LAYOUTS,
    LAYOUTS_OF_TIMES,
    brief_queries,
    compare_layout,
    drop_layout,
    make_layout,
    rows,
)
from tests.support.cases import IS_NIGHTLY, cases, sampled
from tests.support.messages import raises
from tests.support.queries import compare
from tests.support.small import reasons, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@sampled(8)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.usefixtures("always")
def test_layouts(spark: SparkSession, tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    try:
        # by day, Spark builds the indexes where time zones matter
        make_layout(spark, "wt", layout, tmp_path, has_job=IS_NIGHTLY or name in LAYOUTS_OF_TIMES)
        queries = layout.queries if IS_NIGHTLY else brief_queries(layout)
        report = compare_layout(spark, "wt", layout, is_brief=not IS_NIGHTLY)
        assert report["different"] == []
        assert dict(zip([where for where, _ in queries], report["counts"], strict=True)) == dict(queries)
        assert report["refused"] == []
        assert report["accelerated"][: layout.exact] == [True] * min(layout.exact, len(queries))
        table = hindex.connect(spark=spark).table("wt")
        for where, _ in layout.queries[: layout.exact]:
            explained = table.scan(where).explain()
            assert explained.exact, where
            assert not {note.reason for note in explained.notes} - {Reason.NOT_SELECTIVE}, where
    finally:
        drop_layout(spark, "wt")


@sampled(2)
@pytest.mark.parametrize("declared", ["TIMESTAMP", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_partitions_of_times_with_fractions(spark: SparkSession, declared: str, zone: str) -> None:
    """Spark infers times from one digit of fraction at most; of a declared type, it reads six."""
    texts = [f"2024-10-26 02:30:00{fraction}" for fraction in ("", ".5", ".25", ".123456")]
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.sql(f"CREATE TABLE times (id INT, pt {declared}) USING orc PARTITIONED BY (pt)")
    try:
        values = ", ".join(f"({at}, {declared} '{text}')" for at, text in enumerate(texts))
        spark.sql(f"INSERT INTO times VALUES {values}")
        hx = hindex.connect(spark=spark)
        hx.table("times").create_index("i", "id")
        for where in [*(f"pt = '{text}'" for text in texts), "pt > '2024-10-26 02:30:00.2'", "id = 3"]:
            expected = spark.sql(f"SELECT * FROM times WHERE {where}").toArrow()
            scan = hx.table("times").scan(where)
            assert rows(scan.to_arrow()) == rows(expected), where
            assert len(list(scan.plan().tasks)) == expected.num_rows, where
    finally:
        spark.sql("DROP TABLE times")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_path_and_a_name_share_an_index(spark: SparkSession, tmp_path: Path) -> None:
    """They share it if the column types are equal; an index of another type is reported and not used."""
    spark.sql(f"CREATE TABLE shared (id INT, n TIMESTAMP_NTZ, c CHAR(3)) USING orc LOCATION '{tmp_path}/s'")
    try:
        spark.sql("INSERT INTO shared VALUES (1, TIMESTAMP_NTZ '2024-01-01 00:00:00', 'x'), (2, NULL, 'y')")
        hx = hindex.connect(spark=spark)
        by_path, by_name = hx.table(str(tmp_path / "s")), hx.table("shared")
        by_path.create_indexes([hindex.IndexSpec("n", "n"), hindex.IndexSpec("c", "c")])
        by_name.create_index("id", "id")
        where = "n = '2024-01-01'"
        for table in (by_path, by_name):
            scan = table.scan(where, ["id", "n"])
            assert scan.to_arrow().num_rows == spark.table("shared").where(where).count() == 1
            assert (scan.explain().exact, reasons(scan)) == (True, {})
            assert table.scan("id = 2").explain().exact
        assert str(by_path.schema.resolve("n").type) == "timestamp_ntz"
        scan = by_name.scan("c = 'x'")
        assert scan.to_arrow().column("id").to_pylist() == [1]
        assert set(reasons(scan)) == {Reason.TYPE_MISMATCH}
    finally:
        spark.sql("DROP TABLE shared")


def test_a_file_of_another_type_is_left_unindexed(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads it; the other files are indexed."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2], pa.int32()), "s": pa.array(["7", "8"])})
    write_columns(tmp_path / "2.orc", {"id": pa.array([3], pa.int32()), "s": pa.array([9], pa.int64())})
    spark.sql(f"CREATE TABLE mixed (id INT, s STRING) USING orc LOCATION '{tmp_path}'")
    try:
        hx = hindex.connect(spark=spark)
        table = hx.table("mixed")
        index = table.create_index("s", "s")
        assert (index.status, index.num_files, index.files_without_column) == ("fresh", 1, ("2.orc",))
        with raises(hindex.HindexError):
            table.scan("s = '7'").to_arrow()
        assert table.scan("id = 3", ["id"]).to_arrow().num_rows == 1
        compare(hx, "SELECT * FROM mixed WHERE s = '9'")
    finally:
        spark.sql("DROP TABLE mixed")


@sampled(6)
@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("_col0 INT, price INT", "_col0 _col1"),
        ("price INT, _col0 INT", "_col0 _col1"),
        ("_col1 INT, _col0 INT", "_col0 _col1"),
        ("_COL1 INT, _col0 INT", "_col0 _col1"),
        ("a INT, _col0 INT", "_col0"),
        ("_col5 INT, _col7 INT", "_col7 _col5"),
        ("x INT, _column_a INT", "_column_a"),
        ("_column_a INT, x INT", "_column_a"),
        ("_column_b INT, _column_a INT", "_column_a _column_b"),
        ("a INT, b INT, _col2x INT", "_col0 _col2x"),
        ("_colX INT, b INT", "_col0 _col1"),
        ("_COL1 INT, b INT", "_COL0 _COL1"),
        ("_col INT, b INT", "_col _col1"),
    ],
)
def test_names_that_mean_no_name(spark: SparkSession, tmp_path: Path, declared: str, names: str) -> None:
    values = [pa.array([10 * at + row for row in range(4)], pa.int32()) for at in range(3)]
    write_columns(tmp_path / "t" / "1.orc", dict(zip(names.split(), values, strict=False)))
    spark.sql(f"CREATE TABLE unnamed ({declared}) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        table = hindex.connect(spark=spark).table("unnamed")
        columns = [part.split()[0] for part in declared.split(",")]
        table.create_indexes([hindex.IndexSpec(column, column) for column in columns])
        wheres = [f"{column} {condition}" for column in columns for condition in ("= 2", "= 12", "IS NULL")]
        wheres.append("true")
        stored = spark.table("unnamed")
        truth = stored.selectExpr("*", *(f"({where}) AS `keeps {where}`" for where in wheres)).toArrow()
        for where in wheres:
            wanted = truth.filter(truth.column(f"keeps {where}")).select(stored.columns)
            assert rows(table.scan(where).to_arrow()) == rows(wanted), where
    finally:
        spark.sql("DROP TABLE unnamed")


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("struct<a:int,b:int>", pa.struct({"a:int,b": pa.int32()})),
        ("struct<`a:int,b`:int>", pa.struct({"a": pa.int32(), "b": pa.int32()})),
        ("struct<`a:int,b`:int>", pa.struct({"a:int,b": pa.int32()})),
        ("array<struct<`a:int,b`:int>>", pa.list_(pa.struct({"a": pa.int32(), "b": pa.int32()}))),
        ("struct<x:struct<`p:int>,y`:int>>", pa.struct({"x": pa.struct({"p": pa.int32()}), "y": pa.int32()})),
    ],
)
def test_field_names_that_look_like_types(
    spark: SparkSession, tmp_path: Path, declared: str, stored: pa.DataType
) -> None:
    def value(data_type: pa.DataType) -> object:
        if pa.types.is_struct(data_type):
            return {field.name: value(field.type) for field in data_type}
        return [value(data_type.value_type)] if pa.types.is_list(data_type) else 7

    columns = {"id": pa.array([1, 2], pa.int32()), "s": pa.array([value(stored), None], stored)}
    write_columns(tmp_path / "t" / "1.orc", columns)
    spark.sql(f"CREATE TABLE fields (id INT, s {declared}) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        scan = hindex.connect(spark=spark).table("fields").scan("id < 3")
        assert rows(scan.to_arrow()) == rows(spark.table("fields").toArrow())
    finally:
        spark.sql("DROP TABLE fields")


def test_index_of_a_column_at_another_position(spark: SparkSession, tmp_path: Path) -> None:
    """By path, a file without names has its placeholders as columns; a catalog may use them for other columns."""
    values = {f"_col{at}": pa.array([10 * at + row for row in range(4)], pa.int32()) for at in range(2)}
    write_columns(tmp_path / "t" / "1.orc", values)
    spark.sql(f"CREATE TABLE unnamed (price INT, _col0 INT) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        hx = hindex.connect(spark=spark)
        by_path, by_name = hx.table(str(tmp_path / "t")), hx.table("unnamed")
        by_path.create_index("i", "_col0")
        assert by_path.scan("_col0 = 2").explain().exact
        assert by_name.scan("_col0 = 12").to_arrow().to_pylist() == [{"price": 2, "_col0": 12}]
        assert not by_name.scan("_col0 = 12").explain().exact
        by_path.index("i").drop()
        index = by_name.create_index("i", "_col0")
        assert (index.num_files, index.files_without_column) == (0, ("1.orc",))
        assert by_path.scan("_col0 = 2").to_arrow().to_pylist() == [{"_col0": 2, "_col1": 12}]
    finally:
        spark.sql("DROP TABLE unnamed")


TYPES = {
    "INT": ["0", "7", "-1"],
    "BIGINT": ["0", "7", "3000000000"],
    "STRING": ["''", "'x'", "'x '", "'01'"],
    "CHAR(3)": ["''", "'x'", "'xyz'", "'01'"],
    "VARCHAR(5)": ["''", "'x'", "'x '", "'01'"],
    "DATE": ["DATE '2024-01-01'", "DATE '1960-02-29'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '1960-02-29 12:30:00.5'"],
    "TIMESTAMP": ["TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '1960-02-29 12:30:00.5'"],
    "DECIMAL(9, 2)": ["0.00", "7.25", "-1.10"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0D", "7.25D", "CAST('NaN' AS DOUBLE)"],
}
PARTITION_TYPES = ["INT", "STRING", "CHAR(3)", "DATE", "DECIMAL(9, 2)", "BOOLEAN"]


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_random_tables(spark: SparkSession, rng: np.random.Generator) -> None:
    for case in range(cases(1, 4)):
        spark.sql("DROP TABLE IF EXISTS wild")
        try:
            _check_random_table(spark, rng)
        except Exception:
            print(f"case {case}")
            raise
        finally:
            spark.sql("DROP TABLE IF EXISTS wild")


def _check_random_table(spark: SparkSession, rng: np.random.Generator) -> None:
    def pick(items: Sequence[str]) -> str:
        return items[int(rng.integers(len(items)))]

    def value(data_type: str) -> str:
        return "NULL" if rng.random() < 0.2 else pick(TYPES[data_type])

    columns = {f"c{n}": pick(list(TYPES)) for n in range(int(rng.integers(1, 5)))}
    partitions = {f"p{n}": pick(PARTITION_TYPES) for n in range(int(rng.integers(0, 3)))}

    def insert() -> str:
        wanted = [*columns.values(), *partitions.values()]
        values = ", ".join(f"({', '.join(map(value, wanted))})" for _ in range(6))
        return f"INSERT INTO wild VALUES {values}"

    definition = ", ".join(f"{name} {data_type}" for name, data_type in (columns | partitions).items())
    partitioned = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    spark.sql(f"CREATE TABLE wild ({definition}) USING orc{partitioned}")
    hx = hindex.connect(spark=spark)
    table = hx.table("wild")
    if rng.random() < 0.5:
        spark.sql(insert())
    for _ in range(int(rng.integers(0, 3))):
        data_type = pick(list(TYPES))
        default = f" DEFAULT {pick(TYPES[data_type])}" if rng.random() < 0.5 else ""
        name = f"c{len(columns)}"
        spark.sql(f"ALTER TABLE wild ADD COLUMNS ({name} {data_type}{default})")
        columns[name] = data_type
        if rng.random() < 0.6:
            spark.sql(insert())
    readable = [column.name for column in table.schema.data_columns if column.problem is None]
    table.create_indexes(
        [hindex.IndexSpec(name, name, using=pick(["bitmap", "btree", "minmax"])) for name in readable]
    )
    if rng.random() < 0.5:
        spark.sql(insert())
    if rng.random() < 0.5:
        table.refresh_indexes()
    names = columns | partitions
    compare(hx, "SELECT * FROM wild")
    for _ in range(5):
        parts = []
        for _ in range(int(rng.integers(1, 3))):
            name = pick(list(names))
            constant = pick(TYPES[names[name]])
            parts.append(
                pick(
                    [
                        f"{name} = {constant}",
                        f"{name} <= {constant}",
                        f"{name} <> {constant}",
                        f"{name} IS NULL",
                        f"{name} IN ({constant}, {pick(TYPES[names[name]])})",
                    ]
                )
            )
        where = pick([" AND ", " OR "]).join(parts)
        print(definition, partitioned, where)
        compare(hx, f"SELECT * FROM wild WHERE {where}")
        compare(hx, f"SELECT count(*) AS n FROM wild WHERE {where}")
        wanted = rows(spark.table("wild").where(where).toArrow())
        try:
            frame = table.scan(where).to_spark(spark)
        except (UnsupportedError, PredicateError):
            continue  # Spark ran the comparison above, too
        assert rows(frame.toArrow()) == wanted
