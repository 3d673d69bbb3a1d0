"""Compare ORC files of other writers with Spark, at all rows and at random ones, in windows of any size.

    python -m tests.fuzz.samples FOLDER [--seed N]

Prints a line for each file of the folder; the exit code is 1 where hindex reads something else than Spark, or refuses
what Spark reads.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa

from hindex.errors import HindexError
from hindex.orc import OrcReader
from hindex.orc.reader import stripe_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ALIKE = "alike in windows of any size"


def orc_files(folder: Path) -> Iterator[Path]:
    """Files that begin as ORC files do, or are called so."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix == ".orc" or path.read_bytes()[:3] == b"ORC"):
            yield path


def compare(spark: SparkSession, path: Path, rng: random.Random) -> tuple[bool, str]:
    """Compare the reads of a file by hindex and Spark: return True if they are equal, and the outcome."""
    expected, refusal = _by_spark(spark, path)
    left_out: list[str] = []
    try:
        reader = OrcReader(path)
        left_out = _encrypted(reader)
        table = reader.read([name for name in reader.names if name not in left_out])
    except HindexError as error:
        message = str(error).replace(str(path), path.name)
        return expected is None, f"refused{' by both' if expected is None else ', Spark reads it'}: {message}"
    if expected is None:
        return True, f"{table.num_rows} rows, {_windows_agree(path, table, rng)}; Spark refuses it: {refusal}"
    # Spark reads masks where it has no key
    difference = _difference(table, expected.drop_columns(left_out))
    if difference is not None:
        return False, difference
    for name in left_out:
        if not _refused(path, name):
            return False, f"column {name} is encrypted, and is not refused"
    message = _windows_agree(path, table, rng)
    encrypted = f", but {', '.join(left_out)}, which are encrypted and refused by name" if left_out else ""
    return message == _ALIKE, f"{table.num_rows} rows as Spark reads them{encrypted}, {message}"


def _encrypted(reader: OrcReader) -> list[str]:
    """The columns that cannot be read without a key."""
    hidden = reader.tail.encrypted_columns
    fields = zip(reader.tail.schema.field_names, reader.tail.schema.children, strict=True)
    return [name for name, data_type in fields if any(node.column in hidden for node in data_type.walk())]


def _refused(path: Path, name: str) -> bool:
    try:
        OrcReader(path).read([name])
    except HindexError as error:
        return "encrypted" in str(error) and name in str(error)
    return False


def _by_spark(spark: SparkSession, path: Path) -> tuple[pa.Table | None, str]:
    from pyspark.errors import PySparkException

    # the driver's own reader: Spark hides files whose names begin with an underscore or a dot
    try:
        return spark.read.orc(str(path)).toArrow(), ""
    except (PySparkException, pa.ArrowException, TypeError, ValueError) as error:
        return None, str(error).strip().split("\n")[0][:160]
    except Exception as error:  # noqa: BLE001  py4j's, which has no name to import without Spark
        causes = [line for line in str(error).split("\n") if "Exception" in line]
        return None, (causes[-1] if causes else str(error))[:160]


def _difference(table: pa.Table, expected: pa.Table) -> str | None:
    """Return the first difference, or None."""
    if (table.num_rows, table.num_columns) != (expected.num_rows, expected.num_columns):
        shape = f"{expected.num_rows} of {expected.num_columns}"
        return f"{table.num_rows} rows of {table.num_columns} columns, Spark has {shape}"
    for i, name in enumerate(table.column_names):
        mine, theirs = table.column(i), expected.column(i)
        try:
            mine = mine.cast(theirs.type)
        except pa.ArrowException as error:
            return f"column {name} is {mine.type}, Spark has {theirs.type}: {error}"
        if mine.equals(theirs):
            continue
        if pa.types.is_timestamp(theirs.type):
            mine, theirs = mine.cast(pa.int64()), theirs.cast(pa.int64())
        for row, (one, other) in enumerate(zip(mine.to_pylist(), theirs.to_pylist(), strict=True)):
            # a NaN is not equal to itself
            if one != other and str(one) != str(other):
                return f"column {name}, row {row}: {str(one)[:100]!r} where Spark has {str(other)[:100]!r}"
    return None


def _windows_agree(path: Path, expected: pa.Table, rng: random.Random) -> str:
    count = expected.num_rows
    selections: list[list[int]] = [list(range(count))]
    if count:
        start = rng.randrange(count)
        selections += [
            [rng.randrange(count)],
            sorted({rng.randrange(count) for _ in range(50)}),
            list(range(start, min(count, start + 700))),
        ]
    for size in (1, stripe_reader.WINDOW_BYTES):
        with mock.patch.object(stripe_reader, "WINDOW_BYTES", size):
            for rows in selections:
                table = OrcReader(path).read(expected.column_names, rows)
                for i, name in enumerate(expected.column_names):
                    if not _same(table.column(i), expected.column(i), rows):
                        return f"but column {name} differs at {len(rows)} rows in windows of {size} bytes"
    return _ALIKE


def _same(column: pa.ChunkedArray, expected: pa.ChunkedArray, rows: list[int]) -> bool:
    if pa.types.is_union(expected.type):
        values = expected.to_pylist()
        return bool(column.to_pylist() == [values[row] for row in rows])
    wanted = expected.take(pa.array(rows, pa.int64()))
    return bool(column.equals(wanted)) or str(column.to_pylist()) == str(wanted.to_pylist())


def main() -> int:
    from hindex.spark.session import local_session

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    conf = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    spark = local_session(master="local[2]", conf=conf, app_name="hindex-samples")
    print(f"seed {options.seed}")
    wrong = 0
    for path in orc_files(options.folder):
        agrees, message = compare(spark, path, random.Random(options.seed))
        wrong += not agrees
        print(f"{'ok   ' if agrees else 'WRONG'} {path.relative_to(options.folder)}: {message}", flush=True)
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
