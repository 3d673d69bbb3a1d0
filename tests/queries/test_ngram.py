"""Conditions on parts of strings in an accelerated session, by an NGRAM index: rows and schema of Spark alone."""

from __future__ import annotations

import logging
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 the usual name

import hindex
from hindex.queries import selectivity
from tests.queries.comparison import compare, compare_accelerated
from tests.support.cases import sampled
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.usefixtures("nothing_declined")

ROWS = 1200
WORDS = [
    "alpha",
    "Beta",
    "gamma_ray",
    "delta%",
    "épée",
    "Σίγμας",
    "İstanbul",
    "x",
    "",
    "日本語文",
    "😀😀😀",
    "a.b",
    "\\n",
    "it's",
]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of strings, two of which in each are not UTF-8, with an NGRAM and a BITMAP index."""
    chance = random.Random(7)
    path = tmp_path_factory.mktemp("ngrams")
    for number in range(2):
        texts = [
            None
            if chance.random() < 0.05
            else " ".join(chance.choices(WORDS, k=chance.randint(0, 4))).encode()
            for _ in range(ROWS)
        ]
        texts[5], texts[700] = b"\xff\xfe alpha", b"alpha \xe2\x82"
        data = pa.array(texts, pa.binary())
        strings = pa.Array.from_buffers(pa.string(), ROWS, data.buffers(), data.null_count)
        columns = {
            "id": pa.array(range(number * ROWS, number * ROWS + ROWS), pa.int64()),
            "s": strings,
            "t": pa.array([f"t{row % 40}" for row in range(ROWS)]),
        }
        write_columns(path / f"{number}.orc", columns, stripe=64 << 10, stride=100)
    table = hindex.connect(spark=spark).table(path)
    table.create_index("n", "s", "ngram", properties={"block_rows": "2"})
    table.create_index("b", "t")
    return path


CONDITIONS = [
    "contains(s, 'alpha Beta')",
    "s LIKE '%gamma_ray%alpha%'",
    r"s LIKE '%gamma\\_ray x%'",
    "s ILIKE '%BETA BETA%'",
    "s RLIKE 'épée (alpha|x)'",
    r"s RLIKE 'épée$|^it\'s it\'s'",
    "startswith(s, 'delta% x')",
    "endswith(s, '日本語文 日本語文')",
    "contains(lower(s), 'beta a.b')",
    "instr(s, 'alpha Beta') > 0",
    "0 < locate('épée x', s)",
    "lower(s) = 'beta beta'",
    r"lower(s) IN ('beta x', 'x beta', '\\n x')",
    "contains(s, '😀😀😀 😀😀😀')",
    "contains(s, 'Σίγμας Σίγμας') AND t < 't3'",
    "contains(s, 'İstanbul ') AND contains(s, 'épée')",
    r"contains(s, 'it\'s a') OR t = 't7'",
    r"contains(s, '\\n \\n')",
]


@sampled(9)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(
    spark: SparkSession, folder: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = compare_accelerated(spark.read.orc(str(folder)).where(condition), caplog)
    assert re.search(r" through (b, )?n, ", log)


def test_strings_that_are_not_utf8_stay_for_spark(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their condition has no value in a scan; the Filter that stays above decides it."""
    frame = spark.read.orc(str(folder)).where(F.col("s").contains("alpha")).select("id")
    count, log = compare(frame, caplog)
    assert count > 100
    assert "accelerated: " in log
    assert "not accelerated" not in log
    assert {5, 700} <= {row.id for row in frame.collect()}


@pytest.mark.parametrize(
    "condition",
    [
        "NOT contains(s, 'alpha Beta')",
        "contains(s, 'al')",
        "s RLIKE '(?i)alpha Beta'",
        "contains(upper(s), 'ALPHA')",
    ],
)
def test_conditions_that_the_index_does_not_answer(
    spark: SparkSession, folder: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, log = compare(spark.read.orc(str(folder)).where(condition), caplog)
    assert "not accelerated" in log


@pytest.mark.slow
def test_random_conditions(
    spark: SparkSession, folder: Path, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    """Parts of strings, in several functions, under AND, OR and NOT, with conditions on another indexed column."""
    chance = random.Random(int(rng.integers(1 << 32)))
    frame = spark.read.orc(str(folder))
    used = 0
    for _ in range(30):
        conditions = [random_condition(chance) for _ in range(chance.randint(1, 3))]
        condition = conditions[0]
        for other in conditions[1:]:
            condition = chance.choice([condition & other, condition | other])
        _, log = compare(frame.where(condition), caplog)
        used += "not accelerated" not in log
    assert used > 8


def random_condition(chance: random.Random) -> Column:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 3)))
    start = chance.randint(0, max(len(text) - 3, 0))
    part = text[start : start + chance.randint(2, 9)]
    column = F.col("s")
    condition = chance.choice(
        [
            column.contains(part),
            column.startswith(part),
            column.endswith(part),
            F.lower(column).contains(part.lower()),
            column.like(
                "%" + "".join(f"\\{c}" if c in "%_\\" else c for c in part) + chance.choice(["%", ""])
            ),
            column == text,
            F.col("t") == f"t{chance.randint(0, 45)}",
        ]
    )
    return ~condition if chance.random() < 0.15 else condition


def test_small_tables_are_read_for_parts_of_strings_first(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing parts takes Spark longer than decoding, so fewer rows are enough."""
    monkeypatch.setattr(selectivity, "MIN_VALUES", 2 * ROWS * 10)
    monkeypatch.setattr(selectivity, "MAX_SHARE", 1.0)
    logs = []
    for condition in ("contains(s, 'alpha Beta')", "t = 't3'"):
        frame = spark.read.orc(str(folder)).where(condition)
        with hindex.accelerate(spark), caplog.at_level(logging.INFO, "hindex.queries"):
            caplog.clear()
            frame.where("true").collect()
            logs.append(caplog.text)
    assert "not accelerated" not in logs[0]
    assert "TOO_SMALL" in logs[1]
