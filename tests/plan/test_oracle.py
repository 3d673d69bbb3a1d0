"""Filters keep exactly the rows that Spark keeps: the cases of fixtures/oracle.txt, asked of Spark itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyorc
import pytest

from hindex.errors import PredicateError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter_evaluation import mask
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import TimeZones
from hindex.sql import parse_predicate
from hindex.table.schema import TableColumn, TableSchema
from tests.support.cases import sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
SIMPLE = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "smallint": Kind.SHORT,
    "int": Kind.INT,
    "bigint": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp with local time zone": Kind.TIMESTAMP_INSTANT,
}


@dataclass
class Section:
    """One column's cases. ``answered`` are compared row by row, the others must raise."""

    type_text: str
    zone: str = "UTC"
    values: list[str] = field(default_factory=lambda: ["NULL"])
    answered: list[str] = field(default_factory=lambda: ["c IS NULL", "c IS NOT NULL"])
    refused: list[str] = field(default_factory=list)
    refused_here: list[str] = field(default_factory=list)

    @property
    def orc_type(self) -> OrcType:
        if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", self.type_text):
            return OrcType(Kind.DECIMAL, precision=int(match[1]), scale=int(match[2]))
        if match := re.fullmatch(r"(var)?char\((\d+)\)", self.type_text):
            return OrcType(Kind.VARCHAR if match[1] else Kind.CHAR, max_length=int(match[2]))
        return OrcType(SIMPLE[self.type_text])

    @property
    def spark_type(self) -> str:
        return "timestamp" if "time zone" in self.type_text else self.type_text


def read_sections() -> list[Section]:
    sections: list[Section] = []
    for line in (Path(__file__).parent / "fixtures" / "oracle.txt").read_text("utf-8").split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            type_text, _, zone = line[1:-1].partition(" @ ")
            sections.append(Section(type_text, zone or "UTC"))
            continue
        word, _, rest = line.partition(" ")
        if word == "values":
            sections[-1].values += rest.split(" | ")
        elif word == "literals":
            for literal, op in itertools.product(rest.split(" | "), OPERATORS):
                sections[-1].answered += [f"c {op} {literal}", f"NOT (c {op} {literal})"]
            sections[-1].answered += [f"{literal} < c" for literal in rest.split(" | ")]
        elif word == "!":
            sections[-1].refused.append(rest)
        elif word == "?":
            sections[-1].refused_here.append(rest)
        else:
            sections[-1].answered.append(line)
    return sections


SECTIONS = read_sections()
by_section = pytest.mark.parametrize("section", SECTIONS, ids=[s.type_text for s in SECTIONS])


@contextmanager
def session_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        assert before is not None
        spark.conf.set("spark.sql.session.timeZone", before)


def spark_column(spark: SparkSession, section: Section, folder: Path) -> DataFrame:
    """One column c with the section's values. CHAR and VARCHAR are types of files only, so they get one."""
    if "char" not in section.type_text:
        rows = ", ".join(f"(CAST({value} AS {section.spark_type}))" for value in section.values)
        return spark.sql(f"SELECT * FROM VALUES {rows} AS t(c)")
    texts = spark.sql(f"SELECT explode(array({', '.join(section.values)})) AS c").toArrow()["c"].to_pylist()
    path = folder / "column.orc"
    with path.open("wb") as file, pyorc.Writer(file, f"struct<c:{section.type_text}>") as writer:
        writer.writerows([(text,) for text in texts])
    return spark.read.orc(str(path))


def arrow_column(frame: DataFrame, data_type: OrcType) -> pa.ChunkedArray:
    column = frame.toArrow()["c"]
    if data_type.kind is Kind.CHAR:
        # files of other writers hold the values without the blanks
        column = pa.chunked_array(
            [[None if v is None else v.rstrip(" ") for v in column.to_pylist()]], pa.string()
        )
    return column.cast(data_type.to_arrow())


@sampled(10)
@by_section
def test_rows_are_sparks(spark: SparkSession, section: Section, tmp_path: Path) -> None:
    schema = TableSchema((TableColumn("c", section.orc_type),))
    zones = TimeZones("UTC", section.zone)
    with session_zone(spark, section.zone):
        frame = spark_column(spark, section, tmp_path)
        answers = frame.selectExpr(*(f"({p}) AS p{i}" for i, p in enumerate(section.answered))).toArrow()
        column = arrow_column(frame, section.orc_type)
    wrong = []
    for predicate, answer in zip(section.answered, answers.columns, strict=True):
        expected = [row is True for row in answer.to_pylist()]
        truth = mask(normalize(parse_predicate(predicate), schema, zones), {"c": column}, len(column))
        if truth.tolist() != expected:
            rows = [
                (str(v), e, f) for v, e, f in zip(column.to_pylist(), expected, truth, strict=True) if e != f
            ]
            wrong.append(f"{predicate}: (value, Spark, here) {rows}")
    assert not wrong, "\n".join(wrong)


@sampled(9)
@by_section
def test_refused_as_spark_refuses(spark: SparkSession, section: Section, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    schema = TableSchema((TableColumn("c", section.orc_type),))
    frame = spark_column(spark, section, tmp_path)
    column = arrow_column(frame, section.orc_type)
    for predicate in section.refused:
        with pytest.raises(PySparkException):
            frame.selectExpr(f"({predicate})").toArrow()
    for predicate in section.refused + section.refused_here:
        with raises(PredicateError) as caught:
            mask(normalize(parse_predicate(predicate), schema), {"c": column}, len(column))
        assert "\n" not in str(caught.value)
