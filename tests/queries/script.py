"""A script of some fifty lines as people have them: nothing of hindex is in it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, database: str) -> dict[str, DataFrame]:
    """Run the job; the results of its queries, by name."""
    spark.sql(f"USE {database}")
    frames: dict[str, DataFrame] = {}
    frames["day"] = spark.sql("SELECT * FROM sales WHERE day = DATE '2024-01-03' AND shop = 7")
    frames["named"] = spark.sql(
        "SELECT id, amount, note FROM sales WHERE shop = :shop AND day >= :since ORDER BY id",
        args={"shop": 7, "since": date(2024, 1, 2)},
    )
    frames["listed"] = spark.sql(
        "SELECT s.id, s.amount FROM sales AS s WHERE s.shop IN (?, ?) AND s.amount > ?",
        args=[7, 11, Decimal("10.50")],
    )
    frames["join"] = spark.sql(
        """
        SELECT c.city, count(*) AS n, sum(s.amount) AS total
        FROM sales s JOIN shops c ON s.shop = c.shop
        WHERE s.day BETWEEN DATE '2024-01-01' AND DATE '2024-01-04' AND s.shop = 7
        GROUP BY c.city ORDER BY c.city
        """
    )
    frames["cte"] = spark.sql(
        """
        WITH one AS (SELECT id, shop, amount FROM sales WHERE shop = 7),  -- of one shop
             best AS (SELECT max(amount) AS top FROM one)
        SELECT one.* FROM one, best WHERE one.amount = best.top
        """
    )
    frames["window"] = spark.sql(
        """
        SELECT id, day, rank() OVER (PARTITION BY day ORDER BY amount DESC, id) AS place
        FROM sales WHERE shop = 11
        """
    )
    frames["outer"] = spark.sql(
        """
        SELECT c.city, s.id, s.note FROM shops c LEFT JOIN (SELECT * FROM sales WHERE shop = 3) s ON s.shop = c.shop
        """
    )
    frames["all"] = spark.sql("SELECT shop, avg(amount) AS mean FROM sales GROUP BY shop")
    frames["plain"] = spark.sql("SELECT 1 AS one, 'x' AS x, {braces} AS y", braces=2)
    spark.sql("DROP TABLE IF EXISTS daily")
    frames["created"] = spark.sql(
        "CREATE TABLE daily USING orc AS SELECT id, shop, amount, note FROM sales WHERE shop = 7"
    )
    frames["daily"] = spark.sql("SELECT * FROM daily")
    frames["inserted"] = spark.sql(
        "INSERT INTO daily SELECT id, shop, amount, note FROM sales WHERE shop = :other", args={"other": 3}
    )
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM sales WHERE shop = 11 AND amount > 20")
    frames["view"] = spark.sql("SELECT day, count(*) AS n FROM big GROUP BY day")
    frames["union"] = spark.sql(
        "SELECT id FROM sales WHERE shop = 3 UNION SELECT id FROM daily WHERE note IS NULL"
    )
    return frames
