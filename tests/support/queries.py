"""Queries that Spark runs on tables with indexes, compared with Spark alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import hindex
import hindex.api.table
from hindex.queries.query_execution import QueryExplanation, explain_query, run_query
from hindex.sql.queries import parse_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ROWS = 300


def column(rng: random.Random, most: int, nulls: float, rows: int = ROWS) -> list[int | None]:
    return [None if rng.random() < nulls else rng.randrange(most) for _ in range(rows)]


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def compare(hx: hindex.Connection, text: str) -> QueryExplanation:
    """The answer is that of Spark alone, with its columns; what EXPLAIN says of it."""
    wanted = hx.spark().sql(text)
    query = parse_query(text)
    assert query is not None
    found = run_query(hx, query)
    assert found.schema == wanted.schema
    assert rows(found) == rows(wanted), text
    return explain_query(hx, query)


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[str]:
    """What is added to whenever a function is called."""
    real = getattr(owner, name)
    calls: list[str] = []

    def noted(*arguments: object, **options: object) -> object:
        calls.append(name)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, noted)
    return calls
