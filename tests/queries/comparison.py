"""Frames with and without the rule of Spark's optimizer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import hindex

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame


def compare(frame: DataFrame, caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    """Compare a frame with and without the rule; return its rows, and the line of the log."""
    spark = frame.sparkSession
    expected = sorted(map(repr, frame.collect()))
    with hindex.accelerate(spark, always=True), caplog.at_level(logging.INFO, "hindex.queries"):
        caplog.clear()
        again = frame.where("true")
        assert sorted(map(repr, again.collect())) == expected
        assert again.schema == frame.schema
    return len(expected), "; ".join(record.getMessage() for record in caplog.records)


def compare_accelerated(frame: DataFrame, caplog: pytest.LogCaptureFixture) -> str:
    """Compare a frame of some rows that hindex accelerates; return the line of the log."""
    count, log = compare(frame, caplog)
    assert count
    assert "accelerated: " in log
    assert "not accelerated" not in log
    return log
