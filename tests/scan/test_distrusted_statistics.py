"""Statistics that contradict the data, as some writers left them, rule out nothing and prove nothing."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hindex.orc.metadata.statistics import Distrust
from hindex.orc.metadata.stripe import StreamKind
from hindex.plan.reasons import Reason
from hindex.proto import orc_metadata_pb2 as pb
from tests.fuzz.parts import FileParts, Hooks, put_together, take_apart
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.writers import write_pyarrow

ROWS = 1000
START = datetime.datetime(2020, 1, 1)


def swapped_doubles(parts: FileParts) -> Hooks:
    """Store values in the other byte order, and name no writer: ApacheOrcDotNet before it corrected that."""
    stripe = parts.stripes[0]
    at = [(item.column, item.kind) for item in stripe.footer.streams].index((2, StreamKind.DATA))
    stripe.streams[at] = np.frombuffer(stripe.streams[at], ">f8").astype("<f8").tobytes()
    parts.postscript.writer_version = 5
    parts.footer.ClearField("writer")
    return Hooks()


def small_timestamps(parts: FileParts) -> Hooks:
    """Count milliseconds as nanoseconds in all statistics, as cuDF does."""
    parts.footer.writer = 5
    parts.postscript.writer_version = 7

    def shrink(statistics: pb.ColumnStatistics) -> None:
        if statistics.HasField("timestamp_statistics"):
            detail = statistics.timestamp_statistics
            detail.minimum_utc //= 10**6
            detail.maximum_utc //= 10**6

    def change(name: str, message: object) -> None:
        match message:
            case pb.RowIndex():
                for entry in message.entry:
                    shrink(entry.statistics)
            case pb.Metadata():
                for stripe in message.stripe_stats:
                    for item in stripe.col_stats:
                        shrink(item)
            case pb.Footer():
                for item in message.statistics:
                    shrink(item)

    return Hooks(message=change)


def narrow(writer: int | None, version: int) -> Callable[[FileParts], Hooks]:
    """Return a damage: all statistics of the column have one value, which most rows do not have.

    Args:
        writer: the writer that the file names; None if it names none.
    """
    wrong: dict[type, tuple[object, object]] = {
        pb.DoubleStatistics: (1.0, 1.0),
        pb.StringStatistics: (b"b", b"b"),
        pb.DecimalStatistics: ("0", "0"),
        pb.DateStatistics: (1, 1),
        pb.TimestampStatistics: (1, 1),
    }

    def shrink(statistics: pb.ColumnStatistics) -> None:
        for descriptor, detail in statistics.ListFields():
            if type(detail) in wrong:
                utc = "_utc" if isinstance(detail, pb.TimestampStatistics) else ""
                for name, value in zip(("minimum", "maximum"), wrong[type(detail)], strict=True):
                    setattr(getattr(statistics, descriptor.name), name + utc, value)

    def change(name: str, message: object) -> None:
        match message:
            case pb.RowIndex():
                for entry in message.entry:
                    shrink(entry.statistics)
            case pb.Metadata():
                for stripe in message.stripe_stats:
                    for item in stripe.col_stats:
                        shrink(item)
            case pb.Footer():
                for item in message.statistics:
                    shrink(item)

    def damage(parts: FileParts) -> Hooks:
        parts.postscript.writer_version = version
        if writer is None:
            parts.footer.ClearField("writer")
        else:
            parts.footer.writer = writer
        return Hooks(message=change)

    return damage


CENTS = pa.array([decimal.Decimal(at).scaleb(-2) for at in range(ROWS)], pa.decimal128(9, 2))
LONG_CENTS = CENTS.cast(pa.decimal128(30, 2))
NAMES = pa.array([f"n{at:04}" for at in range(ROWS)])
DAYS = pa.array([START.date() + datetime.timedelta(days=at) for at in range(ROWS)])
EIGHTHS = pa.array(np.arange(ROWS) / 8)
NUMBERS = ["= 3", "> 2", "< 9.5", "IN (1, 2, 5)", "IS NOT NULL"]
STRINGS = ["= 'n0007'", "> 'n05'", "LIKE 'n09%'", "IS NOT NULL"]
DATES = ["= DATE'2020-03-01'", "> DATE'2022-01-01'", "< DATE'1980-01-01'"]

CASES: dict[str, tuple[pa.Array, Callable[[FileParts], Hooks], Distrust, list[str]]] = {
    "doubles": (
        pa.array(np.arange(ROWS) / 8),
        swapped_doubles,
        Distrust.UNNAMED_WRITER,
        ["<= 125", "< 60", "> 124.875", "> 130", "= 3", "BETWEEN 0 AND 124.875", "IN (1, 2, 500)"],
    ),
    "timestamps": (
        pa.array([START + datetime.timedelta(hours=at) for at in range(ROWS)], pa.timestamp("us")),
        small_timestamps,
        Distrust.CUDF_TIMESTAMPS,
        [
            *("= TIMESTAMP '2020-01-02 00:00:00'", "> TIMESTAMP '2020-01-20 00:00:00'"),
            *("< TIMESTAMP '2020-01-02 00:00:00'", "<= TIMESTAMP '1970-02-01 00:00:00'", "IS NOT NULL"),
        ],
    ),
    # the first writers, whatever name is in the file
    "old strings": (NAMES, narrow(0, 0), Distrust.OLD_WRITER, STRINGS),
    "old strings of no writer": (NAMES, narrow(None, 0), Distrust.OLD_WRITER, STRINGS),
    "old dates": (DAYS, narrow(0, 0), Distrust.OLD_WRITER, DATES),
    "old decimals": (CENTS, narrow(0, 0), Distrust.OLD_WRITER, NUMBERS),
    "old long decimals": (LONG_CENTS, narrow(0, 0), Distrust.OLD_WRITER, NUMBERS),
    "old doubles": (EIGHTHS, narrow(0, 0), Distrust.OLD_WRITER, NUMBERS),
    # short decimals of ORC 1.5
    "decimals of Java": (CENTS, narrow(0, 6), Distrust.OLD_DECIMAL64, NUMBERS),
    "decimals of no writer": (CENTS, narrow(None, 6), Distrust.OLD_DECIMAL64, NUMBERS),
    "floats of no writer": (EIGHTHS.cast(pa.float32()), narrow(None, 6), Distrust.UNNAMED_WRITER, NUMBERS),
    "doubles of no writer": (EIGHTHS, narrow(None, 6), Distrust.UNNAMED_WRITER, NUMBERS),
    "timestamps of cuDF with nulls": (
        pa.array([None if at % 3 else START + datetime.timedelta(hours=at) for at in range(ROWS)]),
        narrow(5, 7),
        Distrust.CUDF_TIMESTAMPS,
        ["= TIMESTAMP '2020-01-01 03:00:00'", "> TIMESTAMP '2020-01-20 00:00:00'", "IS NULL"],
    ),
}


@sampled(20)
@pytest.mark.parametrize("using", [None, "minmax", "bitmap"])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_the_data(
    tmp_path: Path, connection: LocalConnection, case: str, using: str | None
) -> None:
    values, damage, distrust, conditions = CASES[case]
    file = tmp_path / "t" / "x.orc"
    write_pyarrow(file, pa.table({"id": np.arange(ROWS), "c": values}), "none", stride=100)
    parts = take_apart(file.read_bytes())
    hooks = damage(parts)
    file.write_bytes(put_together(parts, hooks=hooks))
    table = connection.table(str(file.parent))
    if using is not None:
        table.create_index("i", "c", using)
    for condition in conditions:
        expected = table.scan(f"id >= 0 AND coalesce(c, c) {condition}", ["id"]).to_arrow()["id"].to_pylist()
        for columns in (["id"], ["id", "c"]):
            scan = table.scan(f"c {condition}", columns)
            assert (condition, scan.to_arrow()["id"].to_pylist()) == (condition, expected)
            assert (condition, scan.count()) == (condition, len(expected))
    if using is None:
        explained = table.scan(f"c {conditions[0]}", ["id"]).explain()
        assert explained.rows is not None
        assert explained.rows.kept == ROWS
        noted = [note.detail for note in explained.notes if note.reason is Reason.UNRELIABLE_STATISTICS]
        assert noted == [distrust.value]


@pytest.mark.parametrize("using", [None, "bloom"])
def test_is_null_keeps_row_groups_without_value_counts(
    tmp_path: Path, connection: LocalConnection, using: str | None
) -> None:
    """Without the number of values, any row may be null, and none certainly is."""

    def change(name: str, message: object) -> None:
        items: list[pb.ColumnStatistics] = []
        match message:
            case pb.RowIndex():
                items = [entry.statistics for entry in message.entry]
            case pb.Metadata():
                items = [item for stripe in message.stripe_stats for item in stripe.col_stats]
            case pb.Footer():
                items = list(message.statistics)
        for item in items:
            item.ClearField("number_of_values")

    numbers = [None if at % 7 == 3 else at for at in range(ROWS)]
    file = tmp_path / "t" / "x.orc"
    write_pyarrow(
        file, pa.table({"id": np.arange(ROWS), "c": pa.array(numbers, pa.int64())}), "none", stride=100
    )
    file.write_bytes(put_together(take_apart(file.read_bytes()), hooks=Hooks(message=change)))
    table = connection.table(str(file.parent))
    if using is not None:
        table.create_index("i", "c", using)
    for where, expected, kept in (
        ("c IS NULL", [at for at, value in enumerate(numbers) if value is None], ROWS),
        ("c IS NOT NULL", [at for at, value in enumerate(numbers) if value is not None], ROWS),
        ("c <= 150", [at for at, value in enumerate(numbers) if value is not None and value <= 150], 200),
        ("NOT c > 150", [at for at, value in enumerate(numbers) if value is not None and value <= 150], 200),
    ):
        scan = table.scan(where, ["id"])
        assert (where, scan.to_arrow()["id"].to_pylist()) == (where, expected)
        assert (where, scan.count()) == (where, len(expected))
        rows = scan.explain().rows
        assert rows is not None
        assert (where, rows.kept) == (where, kept)
