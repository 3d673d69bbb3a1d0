"""Expressions have Spark's types and values: the lines of fixtures/expressions.txt, asked of Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hindex.errors import PredicateError
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import Node
from hindex.expr.typing import typed
from hindex.expr.vector import Vector
from hindex.orc.metadata.types import Kind, OrcType
from hindex.sql import parse_predicate
from hindex.sql.predicate import Call, Expression, IsNull
from tests.support.cases import sampled
from tests.support.oracle import comparable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _decimal(precision: int, scale: int) -> OrcType:
    return OrcType(Kind.DECIMAL, precision=precision, scale=scale)


# column: type, and its values as SQL. Those of one word have extremes that most functions refuse.
COLUMNS: dict[str, tuple[OrcType, str]] = {
    "y": (OrcType(Kind.BYTE), "1 | -2 | NULL | 3 | 0 | 11"),
    "h": (OrcType(Kind.SHORT), "100 | NULL | -7 | 0 | 1 | 300"),
    "i": (OrcType(Kind.INT), "1 | 2 | 3 | NULL | -7 | 10"),
    "i2": (OrcType(Kind.INT), "3 | -2 | 1 | 7 | 2 | NULL"),
    "z": (OrcType(Kind.INT), "0 | 1 | NULL | 4 | 0 | 3"),
    "l": (OrcType(Kind.LONG), "2 | NULL | -3000000000 | 10 | 2 | 3"),
    "l2": (OrcType(Kind.LONG), "2 | NULL | -3 | 10 | 7 | 3000000000"),
    "f": (OrcType(Kind.FLOAT), "0.1 | -2.5 | NULL | 'NaN' | '-0.0' | 1e10"),
    "f2": (OrcType(Kind.FLOAT), "0.1 | -2.5 | NULL | 3.5 | 7 | -1.5"),
    "d": (OrcType(Kind.DOUBLE), "0.1 | 1.5 | NULL | 'NaN' | 'Infinity' | '-0.0'"),
    "d2": (OrcType(Kind.DOUBLE), "0.1 | -1.5 | NULL | 100.999 | -0.5 | 2"),
    "e": (_decimal(10, 2), "1.50 | -2.25 | NULL | 0 | 99999.99 | 0.01"),
    "e2": (_decimal(10, 2), "1.50 | -2.25 | NULL | 7 | 3.33 | 0.01"),
    "g": (_decimal(38, 10), "1.5 | -123456789012345678.0123456789 | NULL | 0 | 1 | 0.0000000001"),
    "g2": (_decimal(38, 10), "1.5 | -1234567890.0123456789 | NULL | 3 | 1 | 0.7"),
    "n": (_decimal(5, 5), "0.12345 | -0.99999 | NULL | 0 | 0.5 | 0.00001"),
    "s": (OrcType(Kind.STRING), "'ab' | '' | NULL | 'A%_b' | '2020-01-01' | 'abcab'"),
    "u": (OrcType(Kind.STRING), "' a ' | 'ab' | '\\t\\n' | NULL | '  ' | 'a'"),
    "v": (OrcType(Kind.STRING), "'é' | '😀' | 'a\\nb' | 'b\\r\\n' | 'Жü\\u2028' | NULL"),
    "s2": (
        OrcType(Kind.STRING),
        "'2020-01-02' | '1969' | NULL | ' 2000-2-29 ' | '0001-01-01' | '9999-12-31 23:59:59.9'",
    ),
    "s3": (OrcType(Kind.STRING), "'1' | ' -2 ' | NULL | '+3' | '007' | '0'"),
    "x": (OrcType(Kind.BINARY), "X'61' | X'' | NULL | X'6162' | X'C3A9' | X'00'"),
    "p": (OrcType(Kind.BOOLEAN), "TRUE | FALSE | NULL | TRUE | FALSE | TRUE"),
    "t": (
        OrcType(Kind.DATE),
        "'2020-01-01' | '1969-12-31' | NULL | '2020-02-29' | '1582-10-04' | '2024-12-30'",
    ),
    "t2": (
        OrcType(Kind.DATE),
        "'2020-01-01' | '2020-12-31' | '1900-03-01' | NULL | '0001-01-01' | '2021-01-03'",
    ),
    "w": (
        OrcType(Kind.TIMESTAMP),
        (
            "'2020-01-01 00:00:00' | '1969-12-31 23:59:59.999999' | NULL | '1960-02-29 12:34:56.1' "
            "| '1582-10-04 01:02:03' | '2024-12-30 23:00:00.000100'"
        ),
    ),
    "w2": (
        OrcType(Kind.TIMESTAMP),
        "'2020-01-01' | '2020-01-01' | NULL | '2020-01-01' | NULL | '2030-01-01'",
    ),
    "tmax": (OrcType(Kind.BYTE), "127 | 127 | 127 | 127 | 127 | 127"),
    "hmax": (OrcType(Kind.SHORT), " | ".join(["32767"] * 6)),
    "imax": (OrcType(Kind.INT), " | ".join(["2147483647"] * 6)),
    "imin": (OrcType(Kind.INT), " | ".join(["-2147483648"] * 6)),
    "lmax": (OrcType(Kind.LONG), " | ".join(["9223372036854775807"] * 6)),
    "lmin": (OrcType(Kind.LONG), " | ".join(["-9223372036854775808"] * 6)),
    "gmax": (_decimal(38, 0), " | ".join(["9" * 38] * 6)),
}


def _lines() -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {"": [], "!": [], "?": []}
    for line in (Path(__file__).parent / "fixtures" / "expressions.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            mark = line[0] if line[0] in "!?" and line[1] == " " else ""
            lines[mark].append(line[2:] if mark else line)
    return lines


LINES = _lines()
#: Expressions that only hindex refuses, and the beginning of the error.
REFUSED = [(text, subject) for text, _, subject in (line.rpartition(" -> ") for line in LINES["?"])]


def parsed(text: str) -> Expression:
    predicate = parse_predicate(f"coalesce(({text}), NULL) IS NULL")
    assert isinstance(predicate, IsNull)
    assert isinstance(predicate.value, Call)
    return predicate.value.args[0]


def resolve(parts: tuple[str, ...]) -> tuple[str, OrcType]:
    return parts[0], COLUMNS[parts[0]][0]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows = zip(*(text.split(" | ") for _, text in COLUMNS.values()), strict=True)
    listed = ", ".join(
        "("
        + ", ".join(
            f"CAST({v} AS {data_type})" for v, (data_type, _) in zip(row, COLUMNS.values(), strict=True)
        )
        + ")"
        for row in rows
    )
    return spark.sql(f"SELECT * FROM VALUES {listed} AS t({', '.join(COLUMNS)})")


@pytest.fixture(scope="module")
def arrays(frame: DataFrame) -> dict[str, pa.Array]:
    table = frame.toArrow().combine_chunks()
    return {
        name: table.column(name).combine_chunks().cast(data_type.to_arrow())
        for name, (data_type, _) in COLUMNS.items()
    }


def evaluated(text: str, arrays: dict[str, pa.Array]) -> tuple[Node, Vector]:
    node = typed(parsed(text), resolve)
    return node, evaluate(node, arrays, 6)


def test_types_and_values_are_sparks(frame: DataFrame, arrays: dict[str, pa.Array]) -> None:
    texts = LINES[""]
    answers = frame.selectExpr(*(f"({text}) AS c{at}" for at, text in enumerate(texts)))
    types = [field.dataType.simpleString() for field in answers.schema.fields]
    table = answers.toArrow()
    wrong = []
    for text, spark_type, column in zip(texts, types, table.columns, strict=True):
        try:
            _, vector = evaluated(text, arrays)
        except PredicateError as error:
            wrong.append(f"{text}: {error}")
            continue
        if spark_type != "void" and str(vector.type) != spark_type:
            wrong.append(f"{text}: of type {vector.type}, in Spark {spark_type}")
            continue
        if vector.errors is not None:
            wrong.append(f"{text}: {vector.errors.problem} in rows {vector.errors.rows}")
            continue
        expected = comparable(column.cast(vector.array.type))
        if not comparable(pa.chunked_array([vector.array])).equals(expected):
            wrong.append(f"{text}: {vector.array.to_pylist()}, in Spark {column.to_pylist()}")
    assert not wrong, "\n".join(wrong)
    assert len(texts) > 300


@sampled(45)
@pytest.mark.parametrize("text", LINES["!"])
def test_refused_as_spark_refuses(text: str, frame: DataFrame, arrays: dict[str, pa.Array]) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        frame.selectExpr(f"({text})").toArrow()
    refusal(text, arrays)


def test_refused_here_only(frame: DataFrame) -> None:
    """Spark evaluates in all rows what errors of ``?`` send there."""
    texts = [text for text, _ in REFUSED]
    assert texts
    assert frame.selectExpr(*(f"({text}) AS c{at}" for at, text in enumerate(texts))).toArrow().num_rows == 6


@pytest.mark.parametrize(("text", "subject"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refused_by_name(text: str, subject: str, arrays: dict[str, pa.Array]) -> None:
    assert refusal(text, arrays).startswith(subject)


def refusal(text: str, arrays: dict[str, pa.Array]) -> str:
    """Return the error of an expression that is refused as such, or for some of the rows."""
    try:
        _, vector = evaluated(text, arrays)
    except PredicateError as error:
        problem = str(error)
    else:
        assert vector.errors is not None, vector.array.to_pylist()
        problem = vector.errors.problem
    assert problem
    assert "\n" not in problem
    return problem
