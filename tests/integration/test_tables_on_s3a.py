"""Tables that Spark writes and reads over s3a, with the credentials in its settings alone."""

from __future__ import annotations

import os
import subprocess
import sys

import boto3

from tests.support.elsewhere import ROOT
from tests.support.s3 import ENVIRONMENT, s3_server


def test_spark_and_hindex_read_the_same_rows(s3a_jars: list[str]) -> None:
    with s3_server() as server:
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            aws_access_key_id="tests",
            aws_secret_access_key="tests",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="bucket")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_EC2_METADATA_DISABLED": ENVIRONMENT["AWS_EC2_METADATA_DISABLED"]}
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.integration.spark_on_s3a",
                server.endpoint,
                os.pathsep.join(s3a_jars),
            ],
            cwd=ROOT,
            env=environment | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.strip().endswith("the same rows")
    # the store is beside the data, and the copies of the metadata in it
    assert server.count("PUT", r"/t/_hindex/manifests/.*manifest$") >= 3
    assert server.count("GET", r"/t/_hindex/metadata/") > 0
