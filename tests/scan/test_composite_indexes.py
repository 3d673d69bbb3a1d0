"""Indexes on several columns: rows against scans without an index, and what was skipped."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, IndexExistsError
from hindex.explanations.explanation import ReadPath
from hindex.maintain.results import BuildEstimate
from hindex.plan.reasons import Reason
from hindex.plan.time_zones import TimeZones
from hindex.store.definitions import PREFIX, decode_definition, encode_definition
from hindex.store.store import Store
from tests.scan.wrong_indexes import damage_pages
from tests.support.cases import cases, sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import candidates, ids, reasons, write_columns

ROWS = 1500
TYPES = ("bitmap", "btree", "bloom", "minmax")
NAN = float("nan")
#: Values of each column; strings with the bytes that parts of keys end with, and doubles that are equal to others.
VALUES: dict[str, tuple[Any, ...]] = {
    "a": (*range(-3, 6), 2**31 - 1, -(2**31), None),
    "s": ("", "a", "a\0", "a\0\0b", "b", "\0", "é", "\U0001f600", "zz", None),
    "d": (0.0, -0.0, 1.5, -2.5, float("inf"), NAN, None),
    "q": (Decimal("-1.50"), Decimal("0.00"), Decimal("1.50"), Decimal("7.25"), None),
    "w": (Decimal(10) ** 30, -(Decimal(10) ** 30), Decimal(0), Decimal(1), None),
    "t": (*(datetime.datetime(2020, 3, day, 12) for day in range(1, 8)), None),
}
ARROW = {
    "a": pa.int32(),
    "s": pa.string(),
    "d": pa.float64(),
    "q": pa.decimal128(9, 2),
    "w": pa.decimal128(38, 0),
    "t": pa.timestamp("ns"),
}
#: Of each column, literals in SQL.
LITERALS = {
    "a": ("-3", "0", "2", "5", "2147483647"),
    "s": ("''", "'a'", "'a\\0'", "'b'", "'zz'", "'é'"),
    "d": ("0.0D", "1.5D", "CAST('NaN' AS DOUBLE)", "-2.5D"),
    "q": ("-1.5", "0", "1.50", "7.25"),
    "w": ("0", "1", "1000000000000000000000000000000"),
    "t": ("TIMESTAMP '2020-03-02 12:00:00'", "TIMESTAMP '2020-03-05 00:00:00'"),
}


def write_file(path: Path, seed: int, first_id: int, rows: int = ROWS) -> None:
    """Most values of a column are in each row group, and each combination of few is in few."""
    chance = random.Random(seed)
    columns = {"id": pa.array(range(first_id, first_id + rows), pa.int64())}
    for name, values in VALUES.items():
        columns[name] = pa.array([chance.choice(values) for _ in range(rows)], ARROW[name])
    write_columns(path, columns, stripe=16 << 10, stride=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for number in range(2):
        write_file(tmp_path / f"{number}.orc", number, number * ROWS)
    return tmp_path


def random_test(chance: random.Random, column: str) -> str:
    """Return a condition on a column."""
    one, other = chance.choice(LITERALS[column]), chance.choice(LITERALS[column])
    return chance.choice(
        [
            f"{column} = {one}",
            f"{column} IN ({one}, {other})",
            f"{column} > {one}",
            f"{column} <= {one}",
            f"{column} BETWEEN {one} AND {other}",
            f"{column} <> {one}",
            f"{column} IS NULL",
            f"{column} <=> {one}",
        ]
    )


@pytest.mark.slow
@sampled(2)
@pytest.mark.parametrize("using", TYPES)
def test_random_conditions(path: Path, bare: Table, connection: LocalConnection, using: str) -> None:
    """Two or three columns of any types and in any order, and conditions on some of them and on others."""
    chance = random.Random(using)
    table = connection.table(path)
    used = 0
    for _ in range(cases(2, 40)):
        columns = chance.sample(sorted(VALUES), chance.choice([2, 2, 3]))
        specs = [IndexSpec("joined", columns, using)]
        if chance.random() < 0.4:
            specs.append(IndexSpec("own", chance.choice(columns), chance.choice(TYPES)))
        table.create_indexes(specs)
        for _ in range(12):
            others = chance.sample(sorted(VALUES), chance.choice([0, 0, 1]))
            named = columns[: chance.randint(1, len(columns))] if chance.random() < 0.8 else columns[1:]
            where = " AND ".join(random_test(chance, name) for name in dict.fromkeys([*named, *others]))
            if chance.random() < 0.3:
                where = f"({where}) OR ({' AND '.join(random_test(chance, name) for name in columns)})"
            scan = table.scan(where, ["id"])
            assert ids(scan) == ids(bare.scan(where, ["id"])), (columns, where)
            used += " joined" in str(scan.explain())
        table.drop_index("joined")
        if len(specs) > 1:
            table.drop_index("own")
    assert used > cases(2, 40) * (1 if using == "bloom" else 5)


def test_each_type_skips_rows_of_a_combination(path: Path, connection: LocalConnection) -> None:
    """Each value is in every row group, and all together are in few."""
    table = connection.table(path)
    where = "a = 2 AND s = 'a\\0' AND q = 1.5"
    left = {}
    for using in TYPES:
        table.create_index("joined", ["a", "s", "q"], using)
        left[using] = candidates(table.scan(where, ["id"]))
        table.drop_index("joined")
    rows = ids(table.scan(where, ["id"]))
    assert left["bitmap"] == len(rows) > 0
    assert len(rows) < left["btree"] <= 100 * len(rows)
    assert len(rows) < left["bloom"] < 2 * left["btree"]
    assert left["minmax"] == 2 * ROWS
    table.create_indexes([IndexSpec(f"by_{name}", name, "btree") for name in ("a", "s", "q")])
    assert candidates(table.scan(where, ["id"])) > 2 * left["btree"]


def test_files_sorted_by_the_columns_are_skipped_by_their_ends(
    tmp_path: Path, connection: LocalConnection
) -> None:
    """MINMAX has the least and the greatest combination of each row group."""
    for number in range(4):
        columns = {
            "id": pa.array(range(1000 * number, 1000 * number + 1000), pa.int64()),
            "a": pa.array([number // 2] * 1000, pa.int32()),
            "b": pa.array([1000 * (number % 2) + at for at in range(1000)], pa.int32()),
        }
        write_columns(tmp_path / f"{number}.orc", columns, stride=100)
    table = connection.table(tmp_path)
    table.create_index("ends", ["a", "b"], "minmax")
    assert candidates(table.scan("a = 1 AND b = 1234", ["id"])) == 100
    assert ids(table.scan("a = 1 AND b BETWEEN 1098 AND 1101", ["id"])) == [3098, 3099, 3100, 3101]
    assert table.scan("a = 1 AND b < 5").explain().files.kept == 1


def test_counts_read_no_data(path: Path, bare: Table, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_index("joined", ["a", "s"])
    for where in (
        "a = 2 AND s = 'a'",
        "a IN (1, 2) AND s >= 'a'",
        "a IS NULL AND s IS NULL",
        "(a, s) IN ((1, 'a'), (2, 'b'))",
        "a = 2",
        "a > 3",
    ):
        assert table.scan(where).count() == len(ids(bare.scan(where, ["id"]))) > 0
        explanation: Any = connection.sql(f"EXPLAIN SELECT COUNT(*) FROM '{path}' WHERE {where}")
        assert explanation.path is ReadPath.INDEX_ONLY, where
        assert not explanation.notes, where


@pytest.mark.parametrize(
    ("where", "used"),
    [
        ("a = 2", ["own"]),
        ("a = 2 AND s = 'a'", ["joined"]),
        ("a > 2 AND s = 'a'", ["own", "second"]),
        ("s = 'a' AND q = 0", ["second"]),
        ("a = 2 AND s = 'a' AND q = 0", ["joined", "second"]),
        ("a = 2 OR a = 3 AND s = 'b'", ["joined", "own"]),
        ("q = 0", []),
        ("a IN (1, 2, 3) AND s IN ('a', 'b')", ["joined"]),
    ],
)
def test_the_index_that_answers_most_conditions_is_used(
    path: Path, bare: Table, connection: LocalConnection, where: str, used: list[str]
) -> None:
    table = connection.table(path)
    table.create_indexes(
        [
            IndexSpec("own", "a"),
            IndexSpec("joined", ["a", "s"]),
            IndexSpec("second", ["s", "q"]),
        ]
    )
    explanation = str(table.scan(where, ["id"]).explain())
    assert [name for name in ("joined", "own", "second") if f"BITMAP {name}" in explanation] == used
    assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))


def test_other_indexes_on_the_columns_narrow_its_answer(
    path: Path, bare: Table, connection: LocalConnection
) -> None:
    """Bitmaps on the columns remove the false positives of the bloom filter on both."""
    table = connection.table(path)
    table.create_indexes(
        [IndexSpec("joined", ["a", "s"], "bloom"), IndexSpec("by_a", "a"), IndexSpec("by_s", "s")]
    )
    scan = table.scan("a = 2 AND s = 'a'", ["id"])
    assert candidates(scan) == len(ids(scan)) == len(ids(bare.scan("a = 2 AND s = 'a'", ["id"])))
    text = str(scan.explain())
    assert "BLOOM joined" in text
    assert "BITMAP by_a" in text


def test_explain_says_which_columns_come_first(path: Path, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_index("joined", ["a", "s"], "btree")
    scan = table.scan("s = 'a'")
    assert reasons(scan) == {Reason.NO_INDEX: ["s"]}
    assert "joined on a, s answers comparisons of the first of these columns with constants" in " ".join(
        str(scan.explain()).split()
    )


def test_statements_name_several_columns(path: Path, connection: LocalConnection) -> None:
    created: Any = connection.sql(f"CREATE INDEX joined USING btree ON '{path}' (A, `s`)")
    assert (created.column, created.type) == ("a, s", "BTREE")
    (shown,) = connection.sql(f"SHOW INDEXES ON '{path}'").to_arrow().to_pylist()  # type: ignore[union-attr]
    assert shown["column"] == "a, s"
    with pytest.raises(IndexExistsError):
        connection.table(path).create_index("again", ["a", "s"], "btree")
    connection.table(path).create_index("reverse", ["s", "a"], "btree")
    (checked,) = connection.table(path).check_indexes(["joined"], verify=True)
    assert checked.verified_stripes > 0
    assert not checked.problems


@pytest.mark.parametrize(
    ("column", "using", "message"),
    [
        (["a", "A"], "bitmap", "'a' is named twice"),
        (["a", "p"], "bitmap", "'p' is a partition column"),
        (["a", "l"], "bitmap", "'l' is of type array<int>, which BITMAP cannot index"),
        (["a", "nothing"], "bitmap", "'nothing' cannot be resolved"),
        (["s", "u"], "ngram", "NGRAM is on one column"),
    ],
)
def test_columns_that_cannot_be_indexed_together(
    tmp_path: Path, connection: LocalConnection, column: list[str], using: str, message: str
) -> None:
    columns = {
        "a": pa.array([1], pa.int32()),
        "s": pa.array(["x"]),
        "u": pa.array(["x"]),
        "l": pa.array([[1]], pa.list_(pa.int32())),
    }
    (tmp_path / "p=1").mkdir()
    write_columns(tmp_path / "p=1" / "0.orc", columns)
    table = connection.table(tmp_path)
    with pytest.raises(ColumnError, match=message):
        table.create_index("i", column, using)
    assert not table.indexes()


@pytest.mark.parametrize("column", [["a", "lower(s)"], ["a", hindex.call("lower", hindex.col("s"))]])
def test_an_expression_among_columns_is_refused(
    path: Path, connection: LocalConnection, column: list[Any]
) -> None:
    with raises(ColumnError):
        connection.table(path).create_index("i", column)
    with raises(ColumnError):
        connection.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a, lower(s))")
    created = connection.table(path).create_index("i", ["a", hindex.col("s")])
    assert (created.column, created.column_type) == ("a, s", "int, string")


def test_a_column_with_the_name_of_the_list_is_another_one(
    tmp_path: Path, connection: LocalConnection
) -> None:
    """Neither of both is taken for the other, also if the column, or such a field, is added later."""
    columns = {"id": pa.array([0, 1]), "a": pa.array([1, 2]), "s": pa.array(["x", "y"])}
    named = {"a, s": pa.array(["q", "r"])}
    nested = {"x": pa.array([{"a": 1, "a, s": 7}, {"a": 2, "a, s": 8}])}
    write_columns(tmp_path / "0.orc", columns | nested)
    table = connection.table(tmp_path)
    table.create_index("i", ["a", "s"])
    with raises(ColumnError):
        table.create_index("j", [("x", "a"), "s"])
    write_columns(tmp_path / "0.orc", columns | named)
    with raises(ColumnError):
        table.refresh_indexes()
    assert ids(table.scan("`a, s` = 'q'", ["id"])) == [0]
    assert ids(table.scan("a = 2 AND s = 'y' AND `a, s` = 'r'", ["id"])) == [1]
    assert "the table has a column of that name" in table.index("i").status
    table.create_index("k", ("a, s",))
    assert ids(table.scan("`a, s` = 'q'", ["id"], mode="strict")) == [0]


def test_indexes_on_the_columns_stand_in_where_one_on_both_is_partial(
    tmp_path: Path, connection: LocalConnection
) -> None:
    for part in (1, 2):
        (tmp_path / f"p={part}").mkdir()
        write_file(tmp_path / f"p={part}" / "0.orc", part, part * ROWS)
    table = connection.table(tmp_path)
    table.create_index("joined", ["a", "s"], where="p = 1")
    scan = table.scan("a = 2 AND s = 'a'", ["id"])
    assert set(reasons(scan)) == {Reason.PARTITION_NOT_INDEXED}
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    assert not scan.explain().notes
    assert ids(table.scan("a = 2 AND s = 'a'", ["id"], mode="strict")) == ids(scan)
    assert candidates(scan) == len(ids(scan)) > 0


def test_explain_says_why_the_index_is_not_used(path: Path, connection: LocalConnection) -> None:
    table = connection.table(path)

    def explained(where: str) -> str:
        return " ".join(str(table.scan(where, ["id"]).explain()).split())

    table.create_index("filter", ["a", "s"], "bloom")
    assert "filter on a, s answers equality of all of these columns with constants" in explained("a = 1")
    table.drop_index("filter")
    table.create_index("later", ["a", "s"], deferred=True)
    assert "later on a, s is deferred: REFRESH INDEX builds it" in explained("a = 1 AND s = 'a'")


def test_changed_and_new_files_are_read(path: Path, bare: Table, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_indexes([IndexSpec(using, ["a", "s"], using) for using in TYPES])
    write_file(path / "1.orc", 7, ROWS)
    write_file(path / "2.orc", 8, 2 * ROWS)
    where = "a = 2 AND s = 'a'"
    assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
    assert set(reasons(table.scan(where))) == {Reason.STALE_FILE, Reason.NEW_FILE}
    table.refresh_indexes()
    assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
    assert not table.scan(where).explain().notes
    assert all(item.verified_stripes and not item.problems for item in table.check_indexes(verify=True))


def test_files_without_a_column_are_read(path: Path, bare: Table, connection: LocalConnection) -> None:
    """Their column is NULL in all rows. No index is missing there, so strict queries are answered."""
    columns = {"id": pa.array(range(9000, 9050), pa.int64()), "a": pa.array([2] * 50, pa.int32())}
    write_columns(path / "2.orc", columns)
    table = connection.table(path)
    for using in TYPES:
        table.create_index("joined", ["a", "s"], using)
        for where in ("a = 2 AND s IS NULL", "a = 2", "a = 2 AND s = 'a'"):
            if using == "bloom" and where != "a = 2 AND s = 'a'":
                continue
            scan = table.scan(where, ["id"], mode="strict")
            assert ids(scan) == ids(bare.scan(where, ["id"])), (using, where)
            assert not scan.explain().notes, (using, where)
        table.drop_index("joined")


@pytest.mark.parametrize("using", TYPES)
def test_times_are_those_of_the_session(
    path: Path, bare: Table, connection: LocalConnection, using: str
) -> None:
    table = connection.table(path)
    table.create_index("joined", ["a", "t"], using)
    where = "a = 2 AND t = TIMESTAMP '2020-03-05 12:00:00'"
    for session, reader in (("UTC", "UTC"), ("Asia/Tokyo", "UTC"), ("America/Los_Angeles", "Asia/Tokyo")):
        zones = partial(TimeZones, session, reader)
        scan = table.scan(where, ["id"]).with_zones(zones)
        assert ids(scan) == ids(bare.scan(where, ["id"]).with_zones(zones)), (session, reader)
        assert f"{using.upper()} joined" in str(scan.explain())


def test_damaged_pages_are_noticed(path: Path, bare: Table, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_index("joined", ["a", "s"])
    damage_pages(table)
    where = "a = 2 AND s = 'a'"
    scan = table.scan(where, ["id"])
    assert ids(scan) == ids(bare.scan(where, ["id"]))
    assert set(reasons(scan)) == {Reason.CORRUPT}


def test_many_combinations_use_fewer_columns(
    path: Path, bare: Table, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindex.plan.composites._MAX_COMBINATIONS", 4)
    table = connection.table(path)
    table.create_index("joined", ["a", "s"])
    where = "a IN (-3, 0, 2) AND s IN ('a', 'b')"
    assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
    answered = candidates(table.scan(where))
    assert answered == len(ids(bare.scan("a IN (-3, 0, 2)", ["id"])))
    where = "a IN (-3, -1, 0, 2, 4, 2147483647) AND s = 'a'"
    assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
    assert candidates(table.scan(where)) == 2 * ROWS


def test_estimates_are_of_all_columns(path: Path, connection: LocalConnection) -> None:
    table = connection.table(path)
    for using in TYPES:
        estimates = [table.create_index("i", on, using, dry_run=True) for on in (["a", "s"], ["a"], ["s"])]
        index = table.create_index("joined", ["a", "s"], using)
        both, first, second = [item for item in estimates if isinstance(item, BuildEstimate)]
        assert (both.column, both.files, both.stripes, both.rows) == ("a, s", 2, 2, 2 * ROWS)
        assert both.read_bytes == first.read_bytes + second.read_bytes
        # without what a footer says of the data file
        assert 0.7 < both.index_bytes / index.size_bytes <= 1
        table.drop_index("joined")


def test_definitions_are_stored_and_unusable_if_a_column_is_an_expression(
    path: Path, connection: LocalConnection
) -> None:
    table = connection.table(path)
    table.create_index("joined", ["a", "s"])
    (entry,) = table.snapshot().manifest.indexes
    assert decode_definition(PREFIX + entry.id, encode_definition(entry)) == replace(entry, refreshed_ms=0)
    assert entry.inputs == "struct<a:int,s:string>"
    other = replace(entry, column="a, lower(s)")
    Store.for_table(table.uri).commit(partial(replace, indexes=(other,)))
    assert "unusable" in table.index("joined").status
