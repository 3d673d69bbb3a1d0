"""Partition columns: what Spark 4.3 made of the same directories is the oracle (``partition_cases.json``)."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from hindex.errors import TableError
from hindex.keys import array_keys, float_key
from hindex.orc.metadata.types import Kind, OrcType
from hindex.table.partitions import NULL_PARTITION, PartitionColumn, PartitionValue, discover, unescape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("partition_cases.json").read_text("utf-8"))


def agrees(result: PartitionValue, kind: Kind, spark_text: str | None) -> bool:
    """Return True if a value is the one that Spark casts to that string."""
    if spark_text is None:
        return result.value is None and result.key is None
    match kind:
        case Kind.STRING:
            return (result.value, result.key) == (spark_text, spark_text.encode())
        case Kind.DOUBLE:
            return result.key == float_key(float(spark_text)) == float_key(result.value)
        case Kind.DATE:
            return result.key == int(np.datetime64(spark_text.lstrip("+"), "D").astype(np.int64))
        case Kind.TIMESTAMP:
            return result.key == int(np.datetime64(spark_text.replace(" ", "T"), "us").astype(np.int64))
        case Kind.DECIMAL:
            return isinstance(result.value, Decimal) and result.value == Decimal(spark_text)
        case _:
            return (result.value, result.key) == (int(spark_text), int(spark_text))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case["values"]))
def test_types_and_values_are_sparks(case: dict[str, Any]) -> None:
    partitioning, partition_of = discover("t", [f"p={raw}" for raw in case["values"]])
    (column,) = partitioning.columns
    assert (column.name, str(column.type)) == ("p", case["type"])
    for raw, text in case["values"].items():
        partition = partition_of[f"p={raw}"]
        (value,) = partitioning.values[partition]
        assert agrees(value, column.type.kind, text), (raw, value, text)
        (scalar,) = partitioning.scalars(partition)
        assert scalar.type == column.type.to_arrow()
        if value.key is not None:
            keys = array_keys(column.type, pa.array([scalar], scalar.type))
            key = keys[0].as_py() if isinstance(keys, pa.Array) else int(keys[0])
            assert key == value.key


def test_the_cases_are_still_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """Every case of one value as a column of one partition, read by the Spark that is installed."""
    single = [case for case in CASES if len(case["values"]) == 1]
    names = [next(iter(case["values"])) for case in single]
    columns = {f"c{at}": raw for at, raw in enumerate(names)}
    directory = tmp_path.joinpath(*(f"{name}={raw}" for name, raw in columns.items()))
    directory.mkdir(parents=True)
    orc.write_table(pa.table({"v": [1]}), str(directory / "x.orc"))
    frame = spark.read.orc(str(tmp_path))
    types = dict(frame.dtypes)
    (row,) = frame.select(*(frame[name].cast("string").alias(name) for name in columns)).collect()
    for case, (name, raw) in zip(single, columns.items(), strict=True):
        assert (types[name], row[name]) == (case["type"], case["values"][raw]), raw


def test_a_column_of_nulls_only_is_a_string() -> None:
    partitioning, partition_of = discover("t", [f"p={NULL_PARTITION}"])
    assert partition_of == {f"p={NULL_PARTITION}": (None,)}
    assert partitioning.columns[0].type.kind is Kind.STRING
    assert partitioning.values[(None,)] == (PartitionValue(None, None),)


@pytest.mark.parametrize(
    ("data_type", "raw", "value"),
    [
        (OrcType(Kind.FLOAT), "0.1", 0.1),
        (OrcType(Kind.FLOAT), "1e-50", 0.0),
        (OrcType(Kind.DOUBLE), "0.1", 0.1),
        (OrcType(Kind.BYTE), "-128", -128),
        (OrcType(Kind.BOOLEAN), "TRUE", True),
        (OrcType(Kind.DECIMAL, precision=5, scale=2), "1.5", Decimal("1.50")),
        (OrcType(Kind.CHAR, max_length=4), "a%2F", "a/  "),
        (OrcType(Kind.VARCHAR, max_length=4), "a%2F", "a/"),
        (OrcType(Kind.DATE), "2020-02-29", datetime.date(2020, 2, 29)),
        (
            OrcType(Kind.TIMESTAMP),
            "2020-02-29 10%3A30%3A00.25",
            datetime.datetime(2020, 2, 29, 10, 30, 0, 250_000),
        ),
    ],
    ids=lambda item: str(item),
)
def test_values_of_declared_types_are_those_of_columns(data_type: OrcType, raw: str, value: Any) -> None:
    """With the key that the same value has in a file."""
    partitioning, partition_of = discover("t", [f"p={raw}"], [PartitionColumn("p", data_type)])
    partition = partition_of[f"p={raw}"]
    column = pa.array([value], data_type.to_arrow())
    assert partitioning.scalars(partition) == (column[0],)
    keys = array_keys(data_type, column)
    assert partitioning.keys(partition) == {"p": keys[0].as_py() if isinstance(keys, pa.Array) else keys[0]}


def test_escaped_values_of_declared_columns() -> None:
    """A catalog has ``p=1`` for the directory ``p=%31``; without one it is a string, as Spark infers it."""
    paths = ["p=%31%32", "p=3"]
    for declared, values in ((None, ["12", "3"]), ([PartitionColumn("p", OrcType(Kind.INT))], [12, 3])):
        partitioning, partition_of = discover("t", paths, declared)
        assert [partitioning.values[partition_of[path]][0].value for path in paths] == values


def test_several_columns() -> None:
    partitioning, partition_of = discover("t", ["y=2020/d=2020-01-01", "y=2021/d=2021-12-31"])
    assert [(column.name, str(column.type)) for column in partitioning.columns] == [
        ("y", "int"),
        ("d", "date"),
    ]
    assert partition_of["y=2021/d=2021-12-31"] == ("2021", "2021-12-31")
    assert [item.value for item in partitioning.values["2020", "2020-01-01"]] == [
        2020,
        datetime.date(2020, 1, 1),
    ]


@pytest.mark.parametrize(
    ("directories", "columns", "belonging"),
    [
        # files of the table itself are no part of a partitioned table
        (["", "a=1"], ["a"], {"a=1": ("1",)}),
        ([""], [], {"": ()}),
        # neither are files in other directories, beside those of the table itself
        (["", "sub"], [], {"": ()}),
        (["a=1/sub", "a=2"], ["a"], {"a=1/sub": ("1",), "a=2": ("2",)}),
        (["sub/a=1"], ["a"], {"sub/a=1": ("1",)}),
        (["a=1/m/b=2"], ["b"], {"a=1/m/b=2": ("2",)}),
        (["_k=1"], ["_k"], {"_k=1": ("1",)}),
        (["a%20b=1"], ["a b"], {"a%20b=1": ("1",)}),
        (["a=b=c"], ["a"], {"a=b=c": ("b=c",)}),
        (["A=1", "a=2"], ["A"], {"A=1": ("1",), "a=2": ("2",)}),
        ([], [], {}),
    ],
)
def test_which_directories_belong(
    directories: list[str], columns: list[str], belonging: dict[str, tuple[str, ...]]
) -> None:
    partitioning, partition_of = discover("t", directories)
    assert [column.name for column in partitioning.columns] == columns
    assert partition_of == belonging


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        (["sub"], "not named column=value"),
        (["", "sub/a=1"], "conflicting directory structures"),
        (["a=1", "sub"], "conflicting directory structures"),
        (["p/a=1", "q/a=2"], "conflicting directory structures"),
        (["a=1/m/b=2", "a=1/n/b=2"], "conflicting directory structures"),
        (["a=1", "a=1/b=2"], "conflicting partition column names"),
        (["a=1", "b=1"], "conflicting partition column names"),
        (["a=1/A=2"], "occurs twice"),
        (["a="], "empty column name or value"),
        (["=1"], "empty column name or value"),
    ],
)
def test_contradictions(directories: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        discover("t", directories)
    assert str(caught.value).startswith("Table 't' is invalid: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("%", "%"),
        ("%4", "%4"),
        ("%41", "A"),
        ("%4g", "%4g"),
        ("%%41", "%A"),
        ("%2525", "%25"),
        ("%ff", "ÿ"),
        ("%+1", "%+1"),
        ("x%5F%5fy", "x__y"),
    ],
)
def test_unescape(text: str, expected: str) -> None:
    assert unescape(text) == expected
