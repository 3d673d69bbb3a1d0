"""S3 as a session of Spark reaches it: hindex takes over its settings, and Spark gets URIs that it knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hindex.spark.session import java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Hadoop's settings of S3, and the variables that say the same.
_VARIABLES = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "fs.s3a.endpoint.region": "AWS_REGION",
}
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE")


def adopt_s3_settings(spark: SparkSession) -> None:
    """Set the variables that the session's settings of S3 amount to, where the environment has no key of its own.

    They are those of this process and of the session's Python workers. Over Spark Connect, whose server has the
    settings, nothing is set.
    """
    if java_session(spark) is None or any(name in os.environ for name in _KEYS):
        return
    settings = {variable: _hadoop(spark, name) for name, variable in _VARIABLES.items()}
    endpoint = settings["AWS_ENDPOINT_URL"]
    if endpoint and "://" not in endpoint:
        is_secure = _hadoop(spark, "fs.s3a.connection.ssl.enabled") != "false"
        settings["AWS_ENDPOINT_URL"] = f"{'https' if is_secure else 'http'}://{endpoint}"
    given = {name: value for name, value in settings.items() if value}
    os.environ.update(given)
    spark.sparkContext.environment.update(given)


def spark_s3_uri(spark: SparkSession, uri: str) -> str:
    """Return a normalised URI with a scheme that the session has a file system for: Hadoop's own has ``s3a`` only."""
    if not uri.startswith("s3://") or (java_session(spark) is not None and _hadoop(spark, "fs.s3.impl")):
        return uri
    return f"s3a{uri.removeprefix('s3')}"


def _hadoop(spark: SparkSession, name: str) -> str:
    value = spark.sparkContext._jsc.hadoopConfiguration().get(name)
    return value or ""
