"""Queries that Spark runs on tables with indexes, compared with Spark alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import hindex
import hindex.api.table
from hindex.queries.decisions import QueryExplanation
from hindex.queries.query_execution import explain_query, run_query
from hindex.sql.queries import parse_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ROWS = 300


def column(rng: random.Random, most: int, nulls: float, rows: int = ROWS) -> list[int | None]:
    return [None if rng.random() < nulls else rng.randrange(most) for _ in range(rows)]


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def compare(hx: hindex.Connection, text: str) -> QueryExplanation:
    """Compare the answer by the conditions of the text with Spark's, as over Spark Connect; return the explanation."""
    wanted = hx.spark().sql(text)
    query = parse_query(text)
    assert query is not None
    result = run_query(hx, query)
    assert result.schema == wanted.schema
    assert rows(result) == rows(wanted), text
    return explain_query(hx, query)


def compare_plans(hx: hindex.Connection, text: str) -> QueryExplanation:
    """Compare the answer of an accelerated session with Spark's, using every index; return the explanation."""
    spark = hx.spark()
    wanted = spark.sql(text)
    expected = wanted.schema, rows(wanted)
    with hindex.accelerate(spark, always=True) as handle:
        frame = spark.sql(text)
        assert (frame.schema, rows(frame)) == expected, text
        return handle.explain(frame)


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: object, function: Callable[..., object]) -> list[str]:
    """Return a list that gets the name of a module's or class's function with each call of it."""
    name = function.__name__
    calls: list[str] = []

    def counted(*arguments: object, **options: object) -> object:
        calls.append(name)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls
