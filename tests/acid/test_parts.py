"""Parts of stripes whose row ids need not be read: their deletes, the cost, and what is cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.api.table import Table
from hindex.orc import OrcReader
from hindex.orc.acid import deletes as acid_deletes
from hindex.orc.acid import delta_files as acid_files
from hindex.orc.acid import live_rows as acid_rows
from hindex.orc.acid.live_rows import is_consecutive
from tests.acid.tables import B0, MOST, ids_of, insert
from tests.acid.writing import Key, bucket_property, write_acid, write_flat
from tests.support import local_build
from tests.support.local_build import LocalConnection

ROWS = 4000
GONE = frozenset(range(3, ROWS, 10))


def write_stripe(path: Path, row_ids: Any) -> None:
    """An ACID file of one stripe, written by Arrow; ``id`` is the number of the row."""
    count = len(row_ids)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_text("2")
    ones = pa.array(np.ones(count, np.int64))
    numbers = pa.array(np.zeros(count, np.int32)), pa.array(np.full(count, B0, np.int32))
    user = pa.StructArray.from_arrays([pa.array(np.arange(count))], ["id"])
    names = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    table = pa.table([numbers[0], ones, numbers[1], pa.array(row_ids), ones, user], names)
    pa.orc.write_table(table, str(path), row_index_stride=100)


class Watched:
    """Counts the work of finding deleted rows."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        #: Files of deletes that are opened, delete rows that are decoded, and row ids that are.
        self.opened = self.deletes = self.row_ids = 0
        #: Looks at how row ids are stored.
        self.looks = 0
        open_file, batches = acid_files.open_file, acid_deletes._DeleteReader._batches
        read_stripe = OrcReader.read_stripe

        def opening(file: Any) -> OrcReader:
            self.opened += 1
            return open_file(file)

        def decoding(reader: Any, stripe: int, rows: Any) -> Any:
            for keys in batches(reader, stripe, rows):
                self.deletes += len(keys)
                yield keys

        def reading(reader: Any, stripe: int, columns: Any = None, rows: Any = None, *pool: Any) -> Any:
            self.row_ids += len(rows) if columns is not None and "rowId" in columns else 0
            return read_stripe(reader, stripe, columns, rows, *pool)

        def looking(*args: Any) -> bool:
            self.looks += 1
            return is_consecutive(*args)

        patch.setattr(acid_deletes, "open_file", opening)
        patch.setattr(acid_deletes._DeleteReader, "_batches", decoding)
        patch.setattr(OrcReader, "read_stripe", reading)
        patch.setattr(acid_rows, "is_consecutive", looking)

    def of(self, done: Callable[[], object]) -> tuple[int, int, int]:
        """Return the work of one call that begins without cached keys of deletes."""
        acid_deletes.KEYS.clear()
        self.opened = self.deletes = self.row_ids = self.looks = 0
        done()
        return self.opened, self.deletes, self.row_ids


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    local_build.install(monkeypatch)
    monkeypatch.setattr(acid_rows, "_FEW_ROWS", 50)
    return Watched(monkeypatch)


def table_of(path: Path, kind: str) -> Table:
    """One stripe, of which every tenth row is deleted; deletes are in row groups of 16. ``id`` is indexed."""
    if kind == "flat":
        write_flat(path / "000000_0", [(at, 0, "x") for at in range(ROWS)], stripe_rows=ROWS, stride=100)
    else:
        row_ids = np.arange(ROWS)
        if kind == "swapped":
            row_ids[[0, 2]] = row_ids[[2, 0]]
        write_stripe(path / "base_0000001" / "bucket_00000", row_ids)
    keys = [(int(kind != "flat"), B0, at) for at in sorted(GONE)]
    deleted = path / "delete_delta_0000002_0000002" / "bucket_00000"
    write_acid(deleted, [(key, 2, None) for key in keys], stripe_rows=ROWS)
    table = LocalConnection().table(str(path))
    table.create_index("by_id", "id", using="bitmap")
    return table


def check(table: Table, low: int, high: int) -> None:
    where = f"id >= {low} AND id < {high}"
    remaining = [at for at in range(low, high) if at not in GONE]
    assert table.scan(where=where, columns=["id"]).to_arrow()["id"].to_pylist() == remaining
    assert table.scan(where=where).count() == len(remaining)
    assert table.scan(where=where, columns=[]).explain().deleted == high - low - len(remaining)


@pytest.mark.parametrize("kind", ["flat", "counted"])
def test_parts_that_overlap_then_all(tmp_path: Path, watched: Watched, kind: str) -> None:
    """A small file of deletes is read whole whichever rows matter: then that of the whole stripe is known."""
    table = table_of(tmp_path, kind)
    # to find out its ranges, and its keys
    assert watched.of(lambda: check(table, 1000, 2500)) == (2, len(GONE), 0)
    for part in ((2000, 3500), (1003, 1004), (0, ROWS)):
        assert watched.of(lambda part=part: check(table, *part)) == (0, 0, 0)  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["flat", "counted"])
def test_parts_of_deletes_in_a_large_file(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Only deletes of rows that matter are decoded; those of whole stripes are cached."""
    monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 0)
    table = table_of(tmp_path, kind)
    check(table, 0, 1)
    for low, high in ((1000, 2500), (2000, 3500), (1200, 1300)):
        part = watched.of(lambda low=low, high=high: table.scan(where=f"id >= {low} AND id < {high}").count())  # type: ignore[misc]
        # in row groups of 16, two of which have others, too
        assert part[0] == 1
        assert (high - low) / 10 <= part[1] <= (high - low) / 10 + 2 * 16
        assert part[2] == 0
        check(table, low, high)
    # rows far apart: what lies between is left out
    far = watched.of(lambda: table.scan(where="id < 100 OR id >= 3900").count())
    assert 20 <= far[1] <= 4 * 16
    assert watched.of(lambda: table.scan().to_arrow())[1] == len(GONE)
    for low, high in ((0, ROWS), (1000, 2500), (7, 8)):
        assert watched.of(lambda low=low, high=high: check(table, low, high)) == (0, 0, 0)  # type: ignore[misc]


def test_few_rows_of_a_stripe_have_their_ids_read(tmp_path: Path, watched: Watched) -> None:
    """The others go by how the ids are stored."""
    table = table_of(tmp_path, "counted")
    for count, row_ids, looks in ((50, 50, 0), (51, 0, 1)):
        acid_rows.DELETED.clear()
        scan = table.scan(where=f"id >= 1000 AND id < {1000 + count}")
        assert watched.of(scan.count)[2] == row_ids
        assert watched.looks == looks
        check(table, 1000, 1000 + count)


def test_row_ids_that_do_not_count_up_are_looked_at_once(tmp_path: Path, watched: Watched) -> None:
    """Beyond that, a part of a stripe has those of its rows read by each scan."""
    table = table_of(tmp_path, "swapped")
    for low, high, looks in ((1000, 2000, 1), (1500, 2500, 0), (100, 200, 0)):
        scan = table.scan(where=f"id >= {low} AND id < {high}")
        assert watched.of(scan.count)[2] == high - low
        assert watched.looks == looks
        check(table, low, high)


@pytest.mark.parametrize("small", [True, False])
def test_columns_of_deletes_that_have_one_value_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """Statistics tell it, stripe by stripe: of the write id, of the bucket, of both or of none."""
    if not small:
        monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 0)
    b1 = bucket_property(1)
    rows: dict[Key, int] = {}
    for write_id, prop, first in ((1, B0, 0), (1, b1, 100), (2, B0, 200)):
        path = tmp_path / f"delta_{write_id}_{write_id}" / f"bucket_0000{int(prop == b1)}"
        insert(path, write_id, range(first, first + 50), prop)
        rows |= {(write_id, prop, at): first + at for at in range(50)}
    keys = [
        *((1, B0, 5 * at) for at in range(8)),
        *((1, (B0, b1)[at % 2], 1 + at) for at in range(8)),
        *((1 + at % 2, B0, 41 + at) for at in range(8)),
        *((1 + at % 2, (B0, b1)[at % 2], 10 + at) for at in range(8)),
    ]
    gone = {key: 3 + at % 3 % 2 for at, key in enumerate(keys)}
    path = tmp_path / "delete_delta_3_4_v9" / "bucket_00000"
    write_acid(path, [(key, gone[key], None) for key in keys], stripe_rows=8, stride=4)
    read: dict[int, tuple[str, ...]] = {}
    batches = OrcReader.batches

    def watched(self: Any, columns: Any = None, rows: Any = None, **options: Any) -> Any:
        if "delete_delta" in self.path:
            (stripe,) = rows
            assert read.setdefault(stripe, tuple(columns)) == tuple(columns)
        return batches(self, columns, rows, **options)

    monkeypatch.setattr(OrcReader, "batches", watched)
    assert ids_of(tmp_path) == sorted(i for key, i in rows.items() if key not in gone)
    wanted = {
        0: ("rowId",),
        1: ("bucket", "rowId"),
        2: ("originalTransaction", "rowId"),
        3: ("originalTransaction", "bucket", "rowId"),
    }
    assert read == wanted
    read.clear()
    # who wrote a delete is looked at where that is not seen of all
    assert ids_of(tmp_path, f"t:4:{MOST}::3") == sorted(i for key, i in rows.items() if gone.get(key) != 4)
    assert read == {stripe: (*names, "currentTransaction") for stripe, names in wanted.items()}
