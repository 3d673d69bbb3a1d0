"""S3 as a session of Spark reaches it: hindex takes over its settings, and Spark gets URIs that it knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hindex.spark.session import java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Hadoop's settings of credentials for S3, and the environment variables with the same meaning.
_KEYS = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
}
_ENDPOINT, _REGION = "AWS_ENDPOINT_URL_S3", "AWS_REGION"
#: The endpoint that finds buckets of every region.
_GLOBAL_ENDPOINT = "s3.amazonaws.com"

# the keys that came from a session: those of the environment itself are left alone
_adopted: dict[str, str] = {}


def adopt_s3_settings(spark: SparkSession) -> None:
    """Set the variables that the session's settings of S3 amount to, where the environment has no key of its own.

    They are those of this process and of the session's Python workers. Over Spark Connect, whose server has the
    settings, nothing is set.
    """
    own = {name for name in (*_KEYS.values(), "AWS_PROFILE") if name in os.environ} - {
        name for name, value in _adopted.items() if os.environ.get(name) == value
    }
    if java_session(spark) is None or own:
        return
    keys = {variable: _hadoop(spark, name) for name, variable in _KEYS.items()}
    for name in _adopted:
        os.environ.pop(name, None)
    _adopted.clear()
    _adopted.update((name, value) for name, value in keys.items() if value)
    os.environ.update(_adopted)
    endpoint = _hadoop(spark, "fs.s3a.endpoint")
    if endpoint and "://" not in endpoint:
        is_secure = _hadoop(spark, "fs.s3a.connection.ssl.enabled") != "false"
        endpoint = f"{'https' if is_secure else 'http'}://{endpoint}"
    if endpoint and "AWS_ENDPOINT_URL" not in os.environ and not endpoint.endswith(_GLOBAL_ENDPOINT):
        os.environ.setdefault(_ENDPOINT, endpoint)
    region = _hadoop(spark, "fs.s3a.endpoint.region")
    if region and "AWS_DEFAULT_REGION" not in os.environ:
        os.environ.setdefault(_REGION, region)
    names = [*_adopted, *(name for name in (_ENDPOINT, _REGION) if name in os.environ)]
    spark.sparkContext.environment.update((name, os.environ[name]) for name in names)


def spark_s3_uri(spark: SparkSession, uri: str) -> str:
    """Return a normalised URI with a scheme that the session has a file system for: Hadoop's own has ``s3a`` only."""
    if not uri.startswith("s3://") or (java_session(spark) is not None and _hadoop(spark, "fs.s3.impl")):
        return uri
    return f"s3a{uri.removeprefix('s3')}"


def _hadoop(spark: SparkSession, name: str) -> str:
    value = spark.sparkContext._jsc.hadoopConfiguration().get(name)
    return value or ""
