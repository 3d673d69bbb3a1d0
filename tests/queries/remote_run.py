"""Compare the queries of an accelerated session of Spark Connect with those of Spark alone."""

from __future__ import annotations

import logging
from typing import Any

import hindex
from hindex.queries import selectivity
from tests.queries import script
from tests.queries.conftest import make_warehouse
from tests.support.queries import rows


def contents(frame: Any) -> list[Any]:
    return [frame.schema.jsonValue(), rows(frame)]


def condition(spark: Any, text: str) -> str:
    try:
        spark.sql(text).collect()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__} {getattr(error, 'getCondition', str)()}"
    return ""


def compare_queries(spark: Any, warehouse: str) -> dict[str, Any]:
    """Run queries and mistakes with and without hindex, however many rows match, and report the differences.

    Args:
        warehouse: that of the session.
    """
    limits = selectivity.MAX_SHARE, selectivity.MIN_VALUES
    selectivity.MAX_SHARE, selectivity.MIN_VALUES = 1.0, 0
    spark.conf.set("spark.sql.orc.filterPushdown", "true")
    make_warehouse(spark, "shopping")
    spark.sql("USE shopping")
    spark.sql("CREATE VIEW kept AS SELECT id, shop FROM sales")
    # as a pattern, the path of the second directory is that of the first
    for name, id_ in (("of1", 1), ("of[1]", 2)):
        spark.range(id_, id_ + 1).write.orc(f"{warehouse}/{name}")
    hindex.connect(spark=spark).table(f"{warehouse}/of[1]").create_index("i_id", "id", "bitmap")
    queries = [
        "SELECT * FROM kept WHERE shop = 7",
        "SELECT s.id FROM sales s JOIN big ON s.id = big.id AND s.shop = 11",
        "SELECT s.id, c.city FROM sales s JOIN shops c USING (shop) WHERE c.shop = 7 AND s.shop = 7",
        "SELECT s.id FROM sales s JOIN shops c ON s.shop = c.shop WHERE c.city = 'Ulm'",
        f"SELECT * FROM orc.`{warehouse}/of[1]` WHERE id > 0",
    ]
    mistakes = [
        "SELECT nosuch FROM sales WHERE shop = 7",
        "SELECT * FROM sales WHERE shop = 7 ORDER",
        "INSERT INTO nosuch SELECT * FROM sales WHERE shop = 7",
    ]
    expected = {name: contents(frame) for name, frame in script.run(spark, "shopping").items()}
    expected |= {text: contents(spark.sql(text)) for text in queries}
    conditions = [condition(spark, text) for text in mistakes]
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hindex.queries").addHandler(handler)
    logging.getLogger("hindex.queries").setLevel(logging.INFO)
    with hindex.accelerate(spark):
        results = {name: contents(frame) for name, frame in script.run(spark, "shopping").items()}
        results |= {text: contents(spark.sql(text)) for text in queries}
        same_conditions = [condition(spark, text) for text in mistakes] == conditions
        shown = [row.name for row in spark.sql("SHOW INDEXES ON sales").collect()]
        spark.sql("INSERT INTO sales SELECT * FROM sales WHERE shop = 7")
    selectivity.MAX_SHARE, selectivity.MIN_VALUES = limits
    spark.conf.set("spark.sql.orc.filterPushdown", "false")
    spark.sql("USE default")
    return {
        "different": [name for name, item in expected.items() if results[name] != item],
        "empty": [text for text in queries if not expected[text][1]],
        "conditions": same_conditions,
        "shown": sorted(shown),
        "lines": lines,
        "restored": "sql" not in vars(spark),
    }
