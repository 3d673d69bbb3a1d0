"""S3 as a session of Spark reaches it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hindex.spark import object_stores
from hindex.spark.object_stores import adopt_s3_settings, spark_s3_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
]


@pytest.fixture
def hadoop(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Hadoop's settings in the session; the variables of S3 are unset, and all is as before afterwards."""
    monkeypatch.setattr(object_stores, "_adopted", {})
    for name in [*NAMES, "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"]:
        # set first, so that what a test sets is taken back, too
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
        monkeypatch.setitem(spark.sparkContext.environment, name, "")
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    names = [
        "access.key",
        "secret.key",
        "session.token",
        "endpoint",
        "endpoint.region",
        "connection.ssl.enabled",
    ]
    yield settings
    for name in [*(f"fs.s3a.{name}" for name in names), "fs.s3.impl"]:
        settings.unset(name)


@pytest.mark.parametrize(
    ("endpoint", "secure", "url"),
    [
        ("http://127.0.0.1:9000", "", "http://127.0.0.1:9000"),
        ("s3.example.org", "", "https://s3.example.org"),
        ("127.0.0.1:9000", "false", "http://127.0.0.1:9000"),
    ],
)
def test_settings_of_s3a_become_variables(
    spark: SparkSession, hadoop: Any, endpoint: str, secure: str, url: str
) -> None:
    hadoop.set("fs.s3a.access.key", "key")
    hadoop.set("fs.s3a.secret.key", "secret")
    hadoop.set("fs.s3a.endpoint", endpoint)
    hadoop.set("fs.s3a.endpoint.region", "eu-west-1")
    if secure:
        hadoop.set("fs.s3a.connection.ssl.enabled", secure)
    adopt_s3_settings(spark)
    expected = ["key", "secret", None, url, "eu-west-1"]
    assert [os.environ.get(name) for name in NAMES] == expected
    assert [spark.sparkContext.environment[name] or None for name in NAMES] == expected


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"])
def test_the_environments_own_keys_come_first(
    spark: SparkSession, hadoop: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "mine")
    hadoop.set("fs.s3a.access.key", "key")
    hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:9000")
    adopt_s3_settings(spark)
    assert "AWS_ENDPOINT_URL_S3" not in os.environ
    assert os.environ[name] == "mine"


def test_other_keys_of_the_session_are_adopted_again(
    spark: SparkSession, hadoop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a token that is renewed; what the environment says of the place stays."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9001")
    hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:9000")
    for token in ("one", "two", ""):
        hadoop.set("fs.s3a.access.key", "key")
        hadoop.set("fs.s3a.session.token", token)
        adopt_s3_settings(spark)
        assert (os.environ["AWS_ACCESS_KEY_ID"], os.environ.get("AWS_SESSION_TOKEN", "")) == ("key", token)
    assert "AWS_ENDPOINT_URL_S3" not in os.environ


def test_uris_have_a_scheme_that_spark_knows(spark: SparkSession, hadoop: Any) -> None:
    assert spark_s3_uri(spark, "s3://bucket/t") == "s3a://bucket/t"
    assert spark_s3_uri(spark, "/s3://t") == "/s3://t"
    hadoop.set("fs.s3.impl", "com.amazon.ws.emr.hadoop.fs.EmrFileSystem")
    assert spark_s3_uri(spark, "s3://bucket/t") == "s3://bucket/t"
