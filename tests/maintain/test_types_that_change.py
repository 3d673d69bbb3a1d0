"""Columns whose type in the table changes with its files, so that keys are others: SHOW, EXPLAIN and REFRESH agree."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.errors import ColumnError
from hindex.plan.reasons import Reason
from tests.support.cases import sampled
from tests.support.chars import as_char
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, write_columns


def chars(path: Path, number: int) -> None:
    """Blanks fill a CHAR, and belong to no other text."""
    if number == 0:
        as_char(path, ["ab", None, "ab"], 4)
    else:
        write_columns(path, {"id": pa.array([3, 4, 5]), "c": pa.array(["ab", "ab  ", "x"])})


def decimals(path: Path, number: int) -> None:
    """Keys are unscaled numbers."""
    values = [Decimal(text) for text in (("1.50", "2.50", "1.50"), ("1.5000", "2.0000", "1.5001"))[number]]
    data_type = pa.decimal128(*((9, 2), (12, 4))[number])
    write_columns(path, {"id": pa.array(range(3 * number, 3 * number + 3)), "c": pa.array(values, data_type)})


def wide_decimals(path: Path, number: int) -> None:
    """Decimals of one scale that get more than 18 digits: their keys become bytes."""
    values = [Decimal(text) for text in (("1.50", "2.50", "1.50"), ("1.50", "2.00", "1.51"))[number]]
    data_type = pa.decimal128((9, 30)[number], 2)
    write_columns(path, {"id": pa.array(range(3 * number, 3 * number + 3)), "c": pa.array(values, data_type)})


CHANGES = [
    pytest.param(chars, "c = 'ab'", "char(4)", "string", id="char"),
    pytest.param(decimals, "c = 1.5", "decimal(9,2)", "decimal(12,4)", id="decimal"),
    pytest.param(wide_decimals, "c = 1.5", "decimal(9,2)", "decimal(30,2)", id="wide decimal"),
]
BEFORE, AFTER = [0, 2], [0, 2, 3]


@sampled(8)
@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
@pytest.mark.parametrize("bring", [Table.refresh_indexes, lambda table: table.rebuild_index("i")])
@pytest.mark.parametrize(("write", "where", "old", "new"), CHANGES)
def test_an_index_of_another_type_is_stale_until_it_is_built_anew(
    tmp_path: Path,
    hx: LocalConnection,
    write: Callable[[Path, int], None],
    where: str,
    old: str,
    new: str,
    using: str,
    bring: Callable[[Table], object],
) -> None:
    subject = "i" if using == "btree" else "i on 0.orc"
    path = tmp_path / "t"
    write(path / "0.orc", 0)
    table = hx.table(str(path))
    table.create_index("i", "c", using)
    # once more than there and back
    for _ in range(2):
        assert str(table.schema.resolve("c").type) == table.index("i").column_type == old
        assert ids(table.scan(where)) == BEFORE
        assert (table.index("i").status, reasons(table.scan(where))) == ("fresh", {})
        write(path / "1.orc", 1)
        assert str(table.schema.resolve("c").type) == new
        assert ids(table.scan(where)) == AFTER
        assert reasons(table.scan(where)) == {Reason.TYPE_MISMATCH: [subject], Reason.NEW_FILE: ["1.orc"]}
        assert table.index("i").status.startswith("stale: 1 changed, 1 added; 0 of 2 files")
        bring(table)
        assert (table.index("i").status, reasons(table.scan(where))) == ("fresh", {})
        assert table.index("i").column_type == new
        assert ids(table.scan(where)) == AFTER
        assert table.scan(where).explain().exact is (using == "bitmap")
        assert table.index("i").check(verify=True).problems == ()
        assert not table.refresh_indexes().changed
        (path / "1.orc").unlink()
        assert ids(table.scan(where)) == BEFORE
        assert reasons(table.scan(where)) == {Reason.TYPE_MISMATCH: [subject], Reason.FILE_GONE: ["1.orc"]}
        assert table.index("i").status.startswith("stale: 1 changed, 1 gone; 0 of 1 file")
        bring(table)
        assert not table.refresh_indexes().changed


def test_the_type_of_a_part_that_is_built_anew_is_not_that_of_all(
    tmp_path: Path, hx: LocalConnection
) -> None:
    path = tmp_path / "t"
    for part in (0, 1):
        decimals(path / f"p={part}" / "0.orc", 0)
    table = hx.table(str(path))
    table.create_index("i", "c")
    decimals(path / "p=0" / "1.orc", 1)
    table.refresh_indexes()
    assert table.index("i").status == "fresh"
    (path / "p=0" / "1.orc").unlink()
    table.refresh_indexes(where="p = 0")
    assert table.index("i").status.startswith("stale: 1 changed; 1 of 2 files")
    assert reasons(table.scan("c = 1.5")) == {Reason.TYPE_MISMATCH: ["i on p=1/0.orc"]}
    table.refresh_indexes()
    assert (table.index("i").status, reasons(table.scan("c = 1.5"))) == ("fresh", {})


@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
@pytest.mark.parametrize("is_deferred", [False, True])
def test_a_type_that_was_that_of_a_part_only(
    tmp_path: Path, hx: LocalConnection, using: str, is_deferred: bool
) -> None:
    path = tmp_path / "t"
    for part in (0, 1):
        decimals(path / f"p={part}" / "0.orc", 0)
    table = hx.table(str(path))
    table.create_index("i", "c", using, deferred=is_deferred)
    decimals(path / "p=0" / "1.orc", 1)
    for _ in range(2):
        table.refresh_indexes(where="p = 0")
    (path / "p=0" / "1.orc").unlink()
    assert table.index("i").status.startswith("stale: ")
    table.refresh_indexes()
    assert ids(table.scan("c = 1.5")) == BEFORE * 2
    assert (table.index("i").status, reasons(table.scan("c = 1.5"))) == ("fresh", {})
    assert table.index("i").column_type == "decimal(9,2)"
    assert not table.refresh_indexes().changed


def test_a_refresh_of_all_leaves_out_those_that_no_longer_fit(tmp_path: Path, hx: LocalConnection) -> None:
    """They are named with the remedy, in the result, by CHECK, and by EXPLAIN of a scan of their columns."""
    path = tmp_path / "t"
    write_columns(path / "0.orc", {"a": pa.array([1, 2]), "s": pa.array(["x", "Y"])})
    table = hx.table(str(path))
    table.create_index("by_a", "a")
    table.create_index("by_lower", "lower(s)")
    table.create_index("stored", ["a", "s"], "rows")
    (path / "0.orc").unlink()
    write_columns(path / "1.orc", {"a": pa.array([2, 3, 2]), "s": pa.array([5, 6, 7])})
    refreshed = table.refresh_indexes()
    assert refreshed.indexes == ("by_a",)
    assert [reason.split()[1] for reason in refreshed.unusable] == ["'by_lower'", "'stored'"]
    assert str(refreshed).count("drop the index and create it again") == 2
    assert refreshed.to_arrow()["unusable"].to_pylist() == [list(refreshed.unusable)]
    # nothing names the file that is gone any more, though an unusable index covered it
    assert Reason.FILE_GONE not in reasons(table.scan("a = 2", ["a"]))
    assert [index.status.partition(":")[0] for index in table.indexes()] == ["fresh", "unusable", "unusable"]
    assert [len(result.problems) for result in table.check_indexes()] == [0, 1, 1]
    scan = table.scan("a = 2", ["s"])
    assert scan.to_arrow()["s"].to_pylist() == [5, 7]
    assert scan.explain().exact
    assert reasons(scan) == {Reason.NOT_INCLUDED: ["stored"]}
    assert table.scan("a = 2", ["s"], mode="strict").count() == 2
    # a scan of other columns than those it includes, and a count
    assert reasons(table.scan("a = 2", [])) == {}
    for names in (["by_lower"], ["by_a", "stored"]):
        with raises(ColumnError):
            table.refresh_indexes(names)
    table.drop_index("by_a")
    with raises(ColumnError):
        table.refresh_indexes()
