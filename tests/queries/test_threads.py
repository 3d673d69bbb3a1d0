"""The rule of the optimizer under threads, and when it is added and removed many times."""

from __future__ import annotations

import gc
import logging
import os
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from tests.support.cases import cases
from tests.support.queries import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``HINDEX_SECONDS=600`` runs the threads for ten minutes, ``HINDEX_CASES=200`` adds and removes the rule 200 times.
SECONDS = float(os.environ.get("HINDEX_SECONDS", "4"))
CYCLES = cases(4, 40)
THREADS = 8

QUERIES = [
    "SELECT id, note FROM sales WHERE shop = {0}",
    "SELECT count(*) FROM sales WHERE shop = {0}",
    "SELECT shop, count(*) FROM sales WHERE day >= DATE '2024-01-0{1}' GROUP BY shop",
    "SELECT s.id, c.city FROM sales s JOIN shops c ON s.shop = c.shop WHERE c.city = 'Ulm'",
    "SELECT id FROM sales WHERE shop IN (SELECT shop FROM shops WHERE city = 'Bonn') AND day = DATE '2024-01-0{1}'",
    "SELECT max(amount) FROM sales WHERE shop = {0} AND note LIKE 'note 1%'",
]


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
def test_threads_that_plan_and_run_different_queries(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [text.format(shop, day) for text in QUERIES for shop, day in ((1, 2), (7, 4), (11, 6))]
    expected = {text: rows(spark.sql(text)) for text in texts}
    different: list[str] = []
    counts: Counter[str] = Counter()
    caplog.set_level(logging.INFO, "hindex.queries")

    def work(seed: int) -> None:
        rng = random.Random(seed)
        hx = hindex.connect(spark=spark)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            text = rng.choice(texts)
            way = rng.choice(["session", "connection", "explain"])
            try:
                if way == "explain":
                    # by its own rule alone, although the session's is on
                    explained = hx.explain(spark.sql(text))
                    if "sales" not in str([item.table for item in explained.tables]):
                        different.append(f"{way}: {text}: {explained}")
                else:
                    query: Any = hx.sql(text) if way == "connection" else None
                    result = spark.sql(text) if query is None else query.to_spark()
                    if rows(result) != expected[text]:
                        different.append(f"{way}: {text}")
            except Exception as error:  # noqa: BLE001 reported below
                different.append(f"{way}: {text}: {error!r}")
            counts[way] += 1

    with hindex.accelerate(spark, always=True) as handle:
        threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 120)
        assert not any(thread.is_alive() for thread in threads), "a deadlock"
        summary = handle.summary()
    print(dict(counts), summary)
    assert different == []
    assert "i_shop" in summary
    assert not any("hindex failed" in line for line in caplog.messages)
    assert min(counts[way] for way in ("session", "connection", "explain")) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
def test_sessions_that_are_accelerated_and_stopped_leave_nothing(spark: SparkSession) -> None:
    """Neither callbacks in Python nor classes or rules in Java."""
    jvm: Any = spark._jvm
    classes = jvm.java.lang.management.ManagementFactory.getClassLoadingMXBean()
    gateway: Any = spark.sparkContext._gateway
    callbacks = gateway.gateway_property.pool
    text = "SELECT id FROM sales WHERE shop = 7"
    expected = rows(spark.sql(text))

    def cycle(session: SparkSession) -> None:
        with hindex.accelerate(session, always=True) as handle:
            assert rows(session.sql(text)) == expected
            assert "i_shop" in handle.summary()
        assert session._jsparkSession.experimental().extraOptimizations().size() == 0

    def remaining() -> tuple[int, int]:
        gc.collect()
        for _ in range(10):
            jvm.java.lang.System.gc()
            time.sleep(0.05)
        return len(callbacks), classes.getLoadedClassCount()

    def cycles(count: int) -> None:
        for _ in range(count):
            cycle(spark)
            session = spark.newSession()
            session.sql("USE shopping")
            cycle(session)

    cycles(2)
    before = remaining()
    cycles(CYCLES)
    after = remaining()
    print(f"{CYCLES} cycles: callbacks {before[0]} -> {after[0]}, classes {before[1]:,} -> {after[1]:,}")
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 200
