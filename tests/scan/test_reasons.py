"""Each reason code by something that brings it about, and the rows beside it, which are right all the same."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from hindex import col
from hindex.api.predicate_input import Where
from hindex.errors import HindexWarning
from hindex.index import index_type
from hindex.plan.reasons import Reason
from hindex.plan.time_zones import TimeZones
from tests.acid.writing import write_acid
from tests.scan.test_unnamed_zones import without_zone, write_times
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import OLD, deny_access, reasons, write_columns, write_rows
from tests.support.writers import write_pyarrow

ROWS = 900


class Case:
    """A table of two files whose row i has a = i % 10; ``a`` is indexed, ``id`` is not."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.patch = patch
        for number in range(2):
            write_rows(path / f"{number}.orc", number * ROWS, [i % 10 for i in range(ROWS)])
        self.connection = LocalConnection()
        self.table = self.connection.table(str(path))
        self.where = "a = 3"
        #: Where it is not rows that are asked for, the columns that these are grouped by.
        self.groups: tuple[str, ...] = ()
        self.zones: TimeZones | None = None

    def index(self) -> None:
        self.table.create_index("by_a", "a")

    def index_files(self) -> list[Path]:
        return sorted(self.path.rglob("*.hidx"))


def no_index(case: Case) -> None:
    case.index()
    case.where = "a = 3 AND id < 9999"


def index_missing(case: Case) -> None:
    case.index()
    for file in case.index_files():
        file.unlink()


def unreadable(case: Case) -> None:
    case.index()
    deny_access(case.patch, *case.index_files())


def deferred(case: Case) -> None:
    case.table.create_index("by_a", "a", deferred=True)


def not_built(case: Case) -> None:
    """Another index's refresh has seen the file, and this one's has not."""
    case.index()
    write_rows(case.path / "2.orc", 2 * ROWS, [7])
    case.table.create_index("by_s", "s")


def new_file(case: Case) -> None:
    case.index()
    write_rows(case.path / "2.orc", 2 * ROWS, [7])


def stale_file(case: Case) -> None:
    case.index()
    os.utime(case.path / "0.orc", ns=(OLD, OLD))


def file_gone(case: Case) -> None:
    case.index()
    (case.path / "1.orc").unlink()


def partition_not_indexed(case: Case) -> None:
    for p in (1, 2):
        write_rows(case.path / "parts" / f"p={p}" / "0.orc", 0, [3, 4])
    case.table = case.connection.table(str(case.path / "parts"))
    case.table.create_index("by_a", "a", where="p = 1")


def corrupt(case: Case) -> None:
    case.index()
    for file in case.index_files():
        file.write_bytes(b"\xff" * file.stat().st_size)


def quarantined(case: Case) -> None:
    case.index()
    case.table.quarantine_indexes(["by_a"], "a test")


def newer_format(case: Case) -> None:
    case.index()
    manifest = max(case.path.rglob("*.manifest"))
    data = manifest.read_bytes()
    data = data[:8] + struct.pack("<I", 99) + data[12:-4]
    manifest.write_bytes(data + struct.pack("<I", google_crc32c.value(data)))


def unknown_index_type(case: Case) -> None:
    case.index()
    case.patch.setattr(index_type, "_BUILT_IN", {})


def type_mismatch(case: Case) -> None:
    """A column whose decimals have more digits behind the point in a newer file."""
    path = case.path / "decimals"
    write_columns(path / "0.orc", {"a": pa.array([1, 3], pa.int64()).cast(pa.decimal128(20, 1))})
    case.table = case.connection.table(str(path))
    case.index()
    write_columns(path / "1.orc", {"a": pa.array([1, 3], pa.int64()).cast(pa.decimal128(25, 3))})


def unsupported_predicate(case: Case) -> None:
    case.index()
    case.where = "a + id % 3 = 3"


def quoted_name(case: Case) -> None:
    case.index()
    case.where = "a = 3 AND \"id\" <> 'x'"


def null_comparison(case: Case) -> None:
    case.index()
    case.where = "a = 3 OR id <> NULL"


def ignored_file(case: Case) -> None:
    for place in ("p=1/0.orc", "1.orc"):
        write_rows(case.path / "mixed" / place, 0, [3, 4])
    case.table = case.connection.table(str(case.path / "mixed"))
    case.index()


def unsupported_type(case: Case) -> None:
    write_columns(case.path / "lists" / "0.orc", {"l": pa.array([[1], None]), "a": pa.array([3, 3])})
    case.table = case.connection.table(str(case.path / "lists"))
    case.where = "l IS NOT NULL"


def not_selective(case: Case) -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({"a": pa.array(rng.integers(0, 50_000, 60_000)), "b": pa.array(np.arange(60_000))})
    write_pyarrow(case.path / "many" / "0.orc", rows, "none", stripe=1 << 26, stride=10_000)
    case.table = case.connection.table(str(case.path / "many"))
    case.index()
    case.where = "a > 25000"


def not_included(case: Case) -> None:
    case.table.create_index("stored", ["id", "s"], "rows", deferred=True)


def many_keys(case: Case) -> None:
    case.table.create_index("by_id", "id")
    case.index()
    case.groups = ("a", "id")


def row_key(case: Case) -> None:
    write_acid(
        case.path / "acid" / "delta_1_1" / "bucket_0", [((1, 0, i), 1, (i, i % 10, "x")) for i in range(50)]
    )
    case.table = case.connection.table(str(case.path / "acid"))
    case.where = "row__id.rowid = 3"


def no_row_index(case: Case) -> None:
    import pyorc

    (case.path / "plain").mkdir()
    with (
        (case.path / "plain" / "0.orc").open("wb") as file,
        pyorc.Writer(file, "struct<a:int,b:int>", row_index_stride=0) as writer,
    ):
        writer.writerows([(i % 10, i) for i in range(500)])
    case.table = case.connection.table(str(case.path / "plain"))
    case.index()


def unreliable_statistics(case: Case) -> None:
    rows = pa.table({"a": pa.array([float(i % 10) if i else float("nan") for i in range(500)])})
    write_pyarrow(case.path / "floats" / "0.orc", rows, "none", stride=100)
    case.table = case.connection.table(str(case.path / "floats"))


def no_writer_zone(case: Case) -> None:
    folder = case.path / "times"
    folder.mkdir()
    (folder / "0.orc").write_bytes(without_zone(write_times(folder / "0.orc")))
    case.table = case.connection.table(str(folder))
    case.table.create_index("t", "t")
    case.where = "t = TIMESTAMP '2000-07-12 16:00:00'"
    case.zones = TimeZones("America/Los_Angeles", "America/Los_Angeles")


#: What brings a reason about, and whether the rows are then read although strict mode forbids it.
PRODUCERS: dict[Reason, Callable[[Case], None]] = {
    Reason.NO_INDEX: no_index,
    Reason.INDEX_MISSING: index_missing,
    Reason.UNREADABLE: unreadable,
    Reason.DEFERRED: deferred,
    Reason.NOT_BUILT: not_built,
    Reason.NEW_FILE: new_file,
    Reason.STALE_FILE: stale_file,
    Reason.FILE_GONE: file_gone,
    Reason.PARTITION_NOT_INDEXED: partition_not_indexed,
    Reason.CORRUPT: corrupt,
    Reason.QUARANTINED: quarantined,
    Reason.NEWER_FORMAT: newer_format,
    Reason.UNKNOWN_INDEX_TYPE: unknown_index_type,
    Reason.TYPE_MISMATCH: type_mismatch,
    Reason.UNSUPPORTED_PREDICATE: unsupported_predicate,
    Reason.QUOTED_NAME: quoted_name,
    Reason.NULL_COMPARISON: null_comparison,
    Reason.IGNORED_FILE: ignored_file,
    Reason.UNSUPPORTED_TYPE: unsupported_type,
    Reason.NOT_SELECTIVE: not_selective,
    Reason.NOT_INCLUDED: not_included,
    Reason.MANY_KEYS: many_keys,
    Reason.ROW_KEY: row_key,
    Reason.NO_ROW_INDEX: no_row_index,
    Reason.NO_WRITER_ZONE: no_writer_zone,
    Reason.UNRELIABLE_STATISTICS: unreliable_statistics,
}
#: Those that strict mode lets pass: the index was used, or would have saved nothing.
NO_FALLBACK = {
    Reason.IGNORED_FILE,
    Reason.NULL_COMPARISON,
    Reason.QUOTED_NAME,
    Reason.FILE_GONE,
    Reason.NOT_SELECTIVE,
    Reason.NOT_INCLUDED,
    Reason.MANY_KEYS,
    Reason.ROW_KEY,
    Reason.NO_ROW_INDEX,
    Reason.UNRELIABLE_STATISTICS,
}


#: Why Spark reads a table by itself: scans have none of them.
OF_QUERIES = {
    *(Reason.NO_CONDITION, Reason.TOO_SMALL, Reason.SETTING),
    *(Reason.UNSUPPORTED_PLAN, Reason.UNSUPPORTED_TABLE),
}


@pytest.mark.filterwarnings("ignore::hindex.errors.HindexWarning")
@pytest.mark.parametrize("reason", [item for item in Reason if item not in OF_QUERIES], ids=str)
def test_every_reason_has_something_that_brings_it_about(
    reason: Reason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    case = Case(tmp_path / "t", monkeypatch)
    assert reason not in notes_of_used_index(case)
    PRODUCERS[reason](case)
    scan = case.table.scan(case.where).with_zones(lambda: case.zones)
    explanation = scan.aggregate([], case.groups).explain() if case.groups else scan.explain()
    assert reason in {note.reason for note in explanation.notes}
    assert reason.sentence in " ".join(explanation.to_text().split())
    assert reason.name in {note["reason"] for note in explanation.to_json()["notes"]}
    assert reason.name in explanation.to_html()
    assert reason.is_fallback == (reason not in NO_FALLBACK)
    # whatever the reason, the rows are those of the data
    everything = scan.to_arrow()
    assert everything.num_rows == scan.count() > 0
    with monkeypatch.context() as patch:
        patch.setattr(index_type, "_BUILT_IN", {})
        assert everything.equals(case.table.scan(case.where).with_zones(lambda: case.zones).to_arrow())


@pytest.mark.parametrize(
    ("where", "subjects"),
    [
        ("a = NULL", ["a = NULL"]),
        ("NULL < a", ["a > NULL"]),
        ("a <> NULL AND s = 's3'", ["a <> NULL"]),
        ("NOT a = NULL", ["a <> NULL"]),
        ("lower(s) = NULL OR a = NULL", ["lower(s) = NULL", "a = NULL"]),
        ("a BETWEEN 1 AND NULL", ["a <= NULL"]),
        ("a IN (NULL)", ["a IN (NULL)"]),
        ("a IN (NULL, NULL)", ["a IN (NULL, NULL)"]),
        ("a NOT IN (1, NULL)", ["a NOT IN (1, NULL)"]),
        ("NOT (a IN (1, NULL) OR id > 5)", ["a NOT IN (1, NULL)"]),
        ("NOT NOT a NOT IN (1, NULL)", ["a NOT IN (1, NULL)"]),
        (col("a").isin([None]), ["a IN (NULL)"]),
        (~col("a").isin([*range(1000), None]), ["a NOT IN (0, 1, 2, 3, 4, 5, 6, 7, … 993 more)"]),
        # these match rows, or say what they mean
        ("a IN (1, NULL)", []),
        ("NOT (a NOT IN (1, NULL))", []),
        (col("a").isin([*range(1000), None]), []),
        ("a <=> NULL", []),
        ("a IS NULL OR NOT a IS NULL", []),
        ("NULL", []),
        ("a = 3", []),
    ],
)
def test_comparisons_with_null(
    connection: LocalConnection, tmp_path: Path, where: Where, subjects: list[str]
) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, [1, 2, 3, None])
    scan = connection.table(str(tmp_path / "t")).scan(where)
    assert [
        note.subject for note in scan.explain().notes if note.reason is Reason.NULL_COMPARISON
    ] == subjects
    with warnings.catch_warnings(record=True, action="always") as caught:
        scan.to_arrow()
        scan.count()
    messages = [str(item.message) for item in caught]
    assert len(messages) == (2 if subjects else 0)
    assert all(message == messages[0] for message in messages)
    if subjects:
        start = subjects[0] if len(subjects) == 1 else f"{len(subjects)} conditions, e.g. {subjects[0]}"
        assert messages[0].startswith(f"{start}: a comparison with NULL matches no row; use IS [NOT] NULL")
        assert {(item.category, item.filename) for item in caught} == {(HindexWarning, __file__)}


def test_ignored_files_are_noted(
    connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    for place in ("p=1/0.orc", "1.orc", "2.orc"):
        write_rows(tmp_path / "t" / place, 0, [3, 4])
    table = connection.table(str(tmp_path / "t"))
    message = (
        "2 files, e.g. 1.orc: the file is outside the directories, or its stream's log: Spark and hindex ignore it; "
        "move it"
    )
    assert table.create_index("by_a", "a").check().notes == (message,)
    assert table.check_indexes(verify=True)[0].notes == (message,)
    for scan in (table.scan("a = 3"), table.scan(columns=["id"])):
        with pytest.warns(HindexWarning, match=message):
            assert len(scan.to_arrow()) == (1 if scan.predicate else 2)
    # files that are no data files, and files of 0 bytes, have no rows to miss
    (tmp_path / "t" / "1.orc").write_bytes(b"")
    (tmp_path / "t" / "2.orc").rename(tmp_path / "t" / "2.orc.bak")
    assert table.index("by_a").check().notes == ()
    assert len(table.scan().to_arrow()) == 2


def notes_of_used_index(case: Case) -> dict[Reason, list[str]]:
    """Return the notes of a predicate that a usable index answers."""
    case.index()
    notes = reasons(case.table.scan(case.where))
    case.table.drop_index("by_a")
    return notes
