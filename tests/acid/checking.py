"""Checks of a table with a random history: rows, keys and counts, without indexes and with them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.errors import TableError
from hindex.orc.acid import deletes, live_rows
from hindex.plan.reasons import Reason
from tests.acid.history import History, Sight
from tests.acid.writing import Key
from tests.support.local_build import LocalConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEX_TYPES = ("bitmap", "bloom", "minmax", "btree")

Found = list[tuple[object, ...]]


def run_history(root: Path, seed: int) -> str:
    """Make a history, look at it now and then, with indexes half of the time; what happened, for people.

    Raises:
        AssertionError: where the table is not what the history says.
    """
    history = History(root, seed)
    rng = random.Random(seed)
    # as large files are read, and as small ones are; and stripes of which few rows matter, or many
    usual = deletes.SMALL_ROWS, live_rows._FEW_ROWS
    deletes.SMALL_ROWS, live_rows._FEW_ROWS = rng.choice([0, 30, 1 << 16]), rng.choice([0, 10, 4096])
    sights: list[Sight] = []
    is_indexed = False
    connection = LocalConnection()
    try:
        for _ in range(rng.choice([2, 4, 8, 12])):
            history.step()
            if rng.random() < 0.3:
                sights.append(history.now)
            if rng.random() < 0.15:
                check(history, connection, history.now, rng)
            if not is_indexed and rng.random() < 0.15:
                is_indexed = create_indexes(history, connection, rng)
            elif is_indexed and rng.random() < 0.2:
                refresh(history, connection, rng)
        check(history, connection, history.now, rng)
        for seen in rng.sample(sights, min(len(sights), 2)):
            check(history, connection, seen, rng)
        if history.all_committed:
            check(history, connection, None, rng)
    except Exception as error:
        lines = "\n".join(history.log)
        raise AssertionError(f"seed {seed}, after\n{lines}\n{type(error).__name__}: {error}") from error
    finally:
        deletes.SMALL_ROWS, live_rows._FEW_ROWS = usual
    return f"{history.watermark} write ids, {'indexed' if is_indexed else 'no index'}"


def run_history_in_spark(root: Path, seed: int, spark: SparkSession) -> str:
    """Make a history, half of the time with indexes, and compare what Spark's executors read of it.

    Raises:
        AssertionError: where the table is not what the history says.
    """
    history, rng, connection = History(root, seed), random.Random(seed), LocalConnection()
    try:
        while history.watermark < 6 or history.lacks_history(history.now):
            history.step()
        is_indexed = rng.random() < 0.5 and create_indexes(history, connection, rng)
        table = table_of(history, connection, history.now)
        check_rows(table, history.expected(history.now), lambda scan: scan.to_spark(spark).toArrow(), rng)
    except Exception as error:
        lines = "\n".join(history.log)
        raise AssertionError(
            f"seed {seed} in Spark, after\n{lines}\n{type(error).__name__}: {error}"
        ) from error
    return f"{history.watermark} write ids, {'indexed' if is_indexed else 'no index'}"


def table_of(history: History, connection: LocalConnection, seen: Sight | None) -> Table:
    return connection.table(str(history.root), valid_write_ids="" if seen is None else seen.text())


def check(history: History, connection: LocalConnection, seen: Sight | None, rng: random.Random) -> None:
    """Compare the table with the rows of the history, as one reader sees them (None: everything)."""
    table = table_of(history, connection, seen)
    seen = seen or history.now
    if history.lacks_history(seen):
        with pytest.raises(TableError, match="not enough history"):
            table.snapshot()
        return
    expected = history.expected(seen)
    check_rows(table, expected, lambda scan: scan.to_arrow(), rng)


def check_rows(table: Table, expected: Found, read: Callable[..., pa.Table], rng: random.Random) -> None:
    """Compare all rows, and those of a few predicates."""
    snapshot = table.snapshot()
    if not snapshot.files:
        assert expected == []
        check_emptied(table)
        return
    has_keys = bool(snapshot.listing.transactional)
    names = ["id", "k", "s", *(["p"] if "p" in snapshot.schema.names else [])]
    assert sorted(snapshot.schema.names) == sorted(names)
    k, value = rng.randrange(9), rng.choice([item[1] for item in expected] or [0])
    cases: list[tuple[str | None, Callable[[tuple[object, ...]], bool]]] = [
        (None, lambda row: True),
        (f"k = {k}", lambda row: row[2] == k),
        (f"id = {value}", lambda row: row[1] == value),
        (f"k > {k} OR id < {value}", lambda row: (row[2] is not None and row[2] > k) or row[1] < value),  # type: ignore[operator]
        ("k IS NULL AND s <> 'x'", lambda row: row[2] is None and row[3] not in (None, "x")),
    ]
    if has_keys:
        keys = [item[-1] for item in expected] or [(0, 0, 0)]
        write_id, bucket, row_id = cast("Key", rng.choice(keys))

        def key_of(row: tuple[object, ...]) -> Key:
            return cast("Key", row[-1])

        cases += [
            (f"row__id.rowid = {row_id}", lambda row: key_of(row)[2] == row_id),
            (
                f"row__id.writeid >= {write_id} AND row__id.bucketid <> {bucket} OR k = {k}",
                lambda row: (key_of(row)[0] >= write_id and key_of(row)[1] != bucket) or row[2] == k,
            ),
        ]
    parts = _overlapping([item[1] for item in expected], rng) if rng.random() < 0.4 else []
    for where, keeps in [*parts, cases[0], rng.choice(cases[1:])]:
        wanted = [row for row in expected if keeps(row)]
        scan = table.scan(where=where, columns=[*names, *(["row__id"] if has_keys else [])])
        rows = _tuples(read(scan), has_keys)
        if not has_keys:
            wanted = [row[:-1] for row in wanted]
        assert rows == sorted(wanted, key=repr), f"{where}: {_difference(rows, wanted)}"
        assert table.scan(where=where).count() == len(wanted), f"count where {where}"
        check_aggregates(table, where, [(row[1], row[2]) for row in wanted], rng)


def _overlapping(ids: list[Any], rng: random.Random) -> list[tuple[str, Callable[[Any], bool]]]:
    """Conditions on two ranges of ids that overlap: parts of stripes, before all of them."""
    if not ids:
        return []
    a, b, c, d = sorted(rng.choice(ids) for _ in range(4))
    return [
        (f"id BETWEEN {a} AND {c}", lambda row: a <= row[1] <= c),
        (f"id BETWEEN {b} AND {d}", lambda row: b <= row[1] <= d),
    ]


def check_emptied(table: Table) -> None:
    """A table without rows is one like any other, as far as files that were indexed tell its columns."""
    assert table.scan().count() == 0
    assert table.scan().to_arrow().num_rows == 0
    snapshot = table.snapshot()
    schema = snapshot.schema
    if any(item.path for item in snapshot.listing.transactional):
        assert "p" in schema.names
    for name in schema.names:
        assert table.scan(where=f"{name} IS NOT NULL", columns=[name]).to_arrow().column_names == [name]
    if schema.data_columns:
        assert not {"id", "k", "s"} - set(schema.names)
        assert table.scan(where="k = 1 OR s = 'x'").count() == 0
        assert table.scan().max("id") is None


def check_aggregates(
    table: Table, where: str | None, wanted: list[tuple[object, object]], rng: random.Random
) -> None:
    """Check answers for which indexes and statistics, which know no deletes, might seem enough.

    Args:
        wanted: ``id`` and ``k`` of each row.
    """
    scan = table.scan(where=where)
    ids: list[int] = sorted(item for item, _ in wanted)  # type: ignore[misc]
    choice = rng.randrange(3)
    if choice == 0:
        counted = scan.value_counts("k").to_pylist()
        assert {row["k"]: row["count"] for row in counted} == Counter(k for _, k in wanted), (
            f"counts, {where}"
        )
    elif choice == 1:
        ends = scan.min("id"), scan.max("id")
        assert ends == (min(ids, default=None), max(ids, default=None)), f"ends where {where}"
        assert scan.exists() == bool(ids)
    else:
        down = rng.random() < 0.5
        first = table.scan(where=where, columns=["id"], limit=3).order_by("id", descending=down).to_arrow()
        assert first["id"].to_pylist() == sorted(ids, reverse=down)[:3], f"first where {where}"


def create_indexes(history: History, connection: LocalConnection, rng: random.Random) -> bool:
    table = table_of(history, connection, history.now)
    if history.lacks_history(history.now) or not table.snapshot().files:
        return False
    for number, column in enumerate(("id", "k")):
        table.create_index(f"i{number}", column, using=rng.choice(INDEX_TYPES))
    return True


def refresh(history: History, connection: LocalConnection, rng: random.Random) -> None:
    """After a refresh nothing is stale, and another one has nothing to do."""
    if history.lacks_history(history.now):
        return
    table = table_of(history, connection, history.now)
    table.refresh_indexes()
    if not table.snapshot().files:
        assert not table.refresh_indexes().changed
        return
    notes = {note.reason for note in table.scan(where="id = 1 AND k = 1").explain().notes}
    assert not notes & {
        Reason.NEW_FILE,
        Reason.STALE_FILE,
        Reason.NOT_BUILT,
        Reason.FILE_GONE,
        Reason.CORRUPT,
    }
    connection.built_paths.clear()
    assert not table.refresh_indexes().changed
    assert not connection.built_paths
    if rng.random() < 0.3:
        assert all(not result.problems for result in table.check_indexes(verify=True))


def _tuples(table: pa.Table, has_keys: bool) -> Found:
    tuples = []
    for row in table.to_pylist():
        values = (row.get("p"), row["id"], row["k"], row["s"])
        tuples.append((*values, tuple(row["row__id"].values())) if has_keys else values)
    return sorted(tuples, key=repr)


def _difference(rows: Found, wanted: Found) -> str:
    extra, missing = [row for row in rows if row not in wanted], [row for row in wanted if row not in rows]
    return (
        f"{len(rows)} rows and not {len(wanted)}; {len(extra)} too many: {extra[:3]}; "
        f"{len(missing)} missing: {missing[:3]}"
    )
