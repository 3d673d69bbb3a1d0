"""A program: Spark and hindex on the same tables, where Spark alone has the credentials, by its own settings."""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession

import hindex

CONDITIONS = (
    "k = 7",
    "k IN (3, 999) AND p = 3",
    "k BETWEEN 10 AND 12 AND p < 2",
    "k IS NULL",
    "s = 's1234'",
)


def session(endpoint: str, jars: str, warehouse: str) -> SparkSession:
    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": warehouse,
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "tests",
        "spark.hadoop.fs.s3a.secret.key": "tests",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check(spark: SparkSession, place: str, table: str) -> None:
    """Compare the rows of scans and of accelerated frames with Spark's own."""
    scanned = hindex.connect(spark=spark).table(place)
    expected = {
        condition: sorted(spark.read.orc(place).where(condition).select("id", "p").collect())
        for condition in CONDITIONS
    }
    for condition, rows in expected.items():
        scan = scanned.scan(condition, ["id", "p"])
        assert sorted((row["id"], row["p"]) for row in scan.to_arrow().to_pylist()) == [
            tuple(row) for row in rows
        ]
        assert scan.count() == len(rows)
        assert not scan.explain().notes, condition
        assert sorted(scan.to_spark(spark).collect()) == rows
    with hindex.accelerate(spark, always=True) as accelerated:
        for condition, rows in expected.items():
            for frame in (spark.read.orc(place), spark.table(table)):
                assert sorted(frame.where(condition).select("id", "p").collect()) == rows, condition
        summary = str(accelerated.summary())
    assert summary.endswith("by_k 8, by_s 2"), summary


def main(endpoint: str, jars: str) -> None:
    with tempfile.TemporaryDirectory() as warehouse:
        spark = session(endpoint, jars, warehouse)
        place = "s3a://bucket/t"
        rows = spark.range(40_000).selectExpr("id", "id % 1000 AS k", "concat('s', id) AS s", "id % 4 AS p")
        rows.write.partitionBy("p").orc(place)
        table = hindex.connect(spark=spark).table(place)
        table.create_index("by_k", "k")
        table.create_index("by_s", "s", "btree")
        spark.sql(
            "CREATE TABLE t (id BIGINT, k BIGINT, s STRING, p BIGINT) USING orc PARTITIONED BY (p) "
            f"LOCATION '{place}'"
        )
        spark.sql("MSCK REPAIR TABLE t")
        check(spark, place, "t")
        spark.sql(
            "INSERT OVERWRITE t PARTITION (p = 3) SELECT id, id % 1000, concat('s', id) FROM range(500, 9000)"
        )
        refreshed = table.refresh_indexes()
        assert refreshed.files_read == len(list(spark.table("t").where("p = 3").inputFiles())), refreshed
        check(spark, place, "t")
        spark.stop()
    print("the same rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
