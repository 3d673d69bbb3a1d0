"""Spark's daemon of Python workers, which has imported what its workers import: they are forked with it.

A worker collects garbage after each task; frozen objects are exempt from that.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401
from pyspark.daemon import manager

import hindex.api.data_source
import hindex.build.job
import hindex.spark.tasks  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
