"""NGRAM indexes in scans: rows against plain Python, and what was skipped."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, PredicateError
from hindex.maintain.verification import ProveWarning
from hindex.plan.reasons import Reason
from tests.scan.wrong_indexes import exchange
from tests.support.cases import cases, sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import candidates, ids, reasons, write_columns

#: Rows of each of the two files, in several stripes of both.
ROWS = 1500
WORDS = ("alpha", "Beta", "gamma_ray", "delta%", "épée", "Ωmega", "x", "", "日本語文", "a.b")

Matches = Callable[[str], bool]


def messages(chance: random.Random, rows: int) -> list[str | None]:
    """Some words in a row, and a number that few have."""
    return [
        None
        if chance.random() < 0.05
        else " ".join([*chance.choices(WORDS, k=chance.randint(0, 4)), f"id={chance.randint(0, 999):03}"])
        for _ in range(rows)
    ]


def write_file(path: Path, first_id: int, texts: list[str | None], **columns: pa.Array) -> None:
    numbers = pa.array(range(first_id, first_id + len(texts)), pa.int64())
    write_columns(path, {"id": numbers, "s": pa.array(texts), **columns}, stripe=32 << 10, stride=100)


@pytest.fixture(scope="module")
def texts() -> list[str | None]:
    return messages(random.Random(11), 2 * ROWS)


@pytest.fixture
def table(tmp_path: Path, connection: LocalConnection, texts: list[str | None]) -> Table:
    for number in range(2):
        start = number * ROWS
        write_file(tmp_path / f"{number}.orc", start, texts[start : start + ROWS])
    table = connection.table(str(tmp_path))
    table.create_index("by_s", "s", "ngram", properties={"block_rows": "4"})
    return table


def like(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\\.|[%_])", pattern)
    body = "".join({"%": ".*", "_": "."}.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.compile(body, re.DOTALL)


CONDITIONS: list[tuple[str, Matches]] = [
    ("s LIKE '%d=123%'", lambda s: "d=123" in s),
    ("s LIKE '%id=12_'", lambda s: like("%id=12_").fullmatch(s) is not None),
    ("s ILIKE '%BETA%ID=5%'", lambda s: like("%beta%id=5%").fullmatch(s.lower()) is not None),
    ("contains(s, 'gamma_ray id=00')", lambda s: "gamma_ray id=00" in s),
    ("startswith(s, 'Beta alpha x')", lambda s: s.startswith("Beta alpha x")),
    ("s LIKE 'delta\\\\%%' AND s LIKE '%=77%'", lambda s: s.startswith("delta%") and "=77" in s),
    ("endswith(s, 'alpha id=321')", lambda s: s.endswith("alpha id=321")),
    ("s RLIKE 'a\\\\.b id=(1|2)'", lambda s: re.search(r"a\.b id=(1|2)", s) is not None),
    ("s RLIKE 'id=99\\\\d|épée épée'", lambda s: re.search(r"id=99\d|épée épée", s) is not None),
    ("s LIKE '%日本語文 日本語文 id%'", lambda s: "日本語文 日本語文 id" in s),
    ("s = 'x id=005' OR s = 'alpha id=006'", lambda s: s in ("x id=005", "alpha id=006")),
    ("substr(s, 1, 9) = 'alpha x i'", lambda s: s[:9] == "alpha x i"),
    ("trim(s) IN ('id=017', 'Beta id=018', NULL)", lambda s: s.strip(" ") in ("id=017", "Beta id=018")),
    ("contains(s, 'id=04') AND id < 2000", lambda s: "id=04" in s),
    ("s LIKE '%id=04%' OR id = -1", lambda s: "id=04" in s),
]


@pytest.mark.parametrize(("where", "matches"), CONDITIONS)
def test_rows(table: Table, texts: list[str | None], where: str, matches: Matches) -> None:
    last = 2000 if "id < 2000" in where else len(texts)
    expected = [row for row, s in enumerate(texts[:last]) if s is not None and matches(s)]
    scan = table.scan(where, ["id"])
    assert ids(scan) == expected
    assert scan.count() == len(expected)
    # block by block, and few others
    assert candidates(scan) <= 1000
    assert "by_s" in str(scan.explain())
    assert ids(table.scan(where, ["id"], mode="prove")) == expected


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("s LIKE '%ab%'", Reason.UNSUPPORTED_PREDICATE),
        ("s NOT LIKE '%alpha%'", Reason.UNSUPPORTED_PREDICATE),
        ("s RLIKE 'alpha|x'", Reason.UNSUPPORTED_PREDICATE),
        ("upper(s) LIKE '%ALPHA%'", Reason.UNSUPPORTED_PREDICATE),
        ("length(s) = 6", Reason.UNSUPPORTED_PREDICATE),
        ("s < 'alpha'", Reason.NO_INDEX),
        ("s IS NULL", Reason.NO_INDEX),
    ],
)
def test_conditions_reason_without_ngrams(table: Table, where: str, reason: Reason) -> None:
    """Read every row, and say why."""
    scan = table.scan(where, ["id"])
    assert reason in reasons(scan)
    # but for row groups that ORC's own statistics exclude
    assert candidates(scan) >= 2 * ROWS - 200
    bare = LocalConnection(str(Path(table.uri).parent / "other")).table(table.uri)
    assert ids(scan) == ids(bare.scan(where, ["id"]))


def test_the_note_names_the_index_and_what_it_needs(table: Table) -> None:
    text = str(table.scan("s LIKE '%ab%'").explain())
    assert "by_s answers conditions on parts of strings, of 3 characters in a row" in " ".join(text.split())
    text = str(table.scan("s < 'x'").explain())
    assert "by_s answers conditions on parts of the strings, and this one needs an index" in " ".join(
        text.split()
    )


@pytest.mark.slow
@sampled(1)
@pytest.mark.parametrize("others", [(), ("bitmap",), ("btree", "minmax", "bloom")])
def test_random_conditions(
    table: Table, texts: list[str | None], others: tuple[str, ...], rng: np.random.Generator
) -> None:
    """Parts of the strings themselves, with a wildcard in between; beside indexes on the strings."""
    for using in others:
        table.create_index(f"{using}_of_s", "s", using)
    chance = random.Random(int(rng.integers(1 << 32)))
    rows = [s for s in texts if s is not None and len(s) > 8]
    used, number = 0, cases(40, 150)
    for _ in range(number):
        part = chance.choice(rows)
        start = chance.randint(0, len(part) - 6)
        part = part[start : start + chance.randint(4, 12)]
        at = chance.randint(0, len(part))
        pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in part[:at]) + chance.choice(["%", "_", ""])
        pattern = f"%{pattern}{''.join(f'{chr(92)}{c}' if c in '%_' else c for c in part[at + 1 :])}%"
        expected = [row for row, s in enumerate(texts) if s is not None and like(pattern).fullmatch(s)]
        scan = table.scan("s LIKE '{}'".format(pattern.replace("\\", "\\\\")), ["id"])
        assert ids(scan) == expected, pattern
        used += candidates(scan) < 2 * ROWS
    assert used > number * 2 // 3


def test_files_that_changed_or_came_later_are_read(tmp_path: Path, table: Table) -> None:
    write_file(tmp_path / "1.orc", 5000, ["alpha id=123 new", None])
    write_file(tmp_path / "2.orc", 6000, ["late id=123"])
    scan = table.scan("s LIKE '%late%' OR s LIKE '%new%'", ["id"])
    assert ids(scan) == [5000, 6000]
    assert {Reason.STALE_FILE, Reason.NEW_FILE} <= set(reasons(scan))
    # the unchanged file is left out by its index
    assert candidates(scan) == 3
    table.index("by_s").refresh()
    assert ids(scan) == [5000, 6000]
    assert candidates(scan) == 3
    assert not {Reason.STALE_FILE, Reason.NEW_FILE} & set(reasons(scan))


def test_a_file_without_the_column_has_no_match(tmp_path: Path, table: Table) -> None:
    write_columns(tmp_path / "2.orc", {"id": pa.array([9000, 9001], pa.int64())})
    assert 9000 not in ids(table.scan("s = 'alpha id=123' OR s = 'x id=005'", ["id"]))
    scan = table.scan("contains(s, 'id=12')", ["id"])
    before = candidates(scan)
    assert max(ids(scan)) < 9000
    write_columns(tmp_path / "3.orc", {"id": pa.array([9002], pa.int64())})
    assert candidates(scan) == before
    assert before < ROWS


def test_an_index_on_values_answers_what_it_can(table: Table) -> None:
    """A set of values is found by its own index; parts of strings by n-grams, and both together."""
    table.create_index("values", "s")
    equal = str(table.scan("s = 'x id=005'").explain())
    assert "values" in equal
    assert "by_s" not in equal
    prefix = str(table.scan("s LIKE 'alpha%' AND s LIKE '%id=1%'").explain())
    assert "values" in prefix
    assert "by_s" in prefix


def test_damage_is_noted_and_read_around(tmp_path: Path, table: Table, texts: list[str | None]) -> None:
    expected = [row for row, s in enumerate(texts) if s is not None and "id=123" in s]
    for file in tmp_path.rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[40] ^= 0xFF
        file.write_bytes(bytes(data))
    scan = table.scan("s LIKE '%id=123%'", ["id"])
    assert ids(scan) == expected
    assert Reason.CORRUPT in reasons(scan)
    assert table.index("by_s").check(verify=True).problems


def test_prove_and_verify_find_an_index_of_other_data(tmp_path: Path, connection: LocalConnection) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    write_file(right / "0.orc", 0, [f"needle {number:05}" for number in range(500)])
    write_file(wrong / "0.orc", 0, [f"hidden {number:05}" for number in range(500)])
    table = connection.table(str(right))
    table.create_index("by_s", "s", "ngram")
    assert not table.index("by_s").check(verify=True).problems
    exchange(table, wrong, "s")
    assert any("wrong answer" in problem for problem in table.index("by_s").check(verify=True).problems)
    scan = table.scan("contains(s, 'needle 00012')", ["id"], mode="prove")
    with pytest.warns(ProveWarning, match="by_s"):
        assert ids(scan) == [12]


@pytest.mark.parametrize("data_type", [pa.int64(), pa.binary(), pa.list_(pa.string())])
def test_columns_that_are_no_strings_are_refused(
    tmp_path: Path, connection: LocalConnection, data_type: pa.DataType
) -> None:
    write_columns(tmp_path / "0.orc", {"c": pa.array([None, None], data_type)})
    with raises(ColumnError):
        connection.table(str(tmp_path)).create_index("i", "c", "ngram")


def test_small_files(tmp_path: Path, connection: LocalConnection) -> None:
    for number in range(12):
        write_file(
            tmp_path / f"{number:02}.orc", number * 10, [f"row {number * 10 + at:04}" for at in range(10)]
        )
    table = connection.table(str(tmp_path))
    table.create_indexes([IndexSpec("n", "s", "ngram", properties={"block_rows": "1"})])
    scan = table.scan("s LIKE '%0077%'", ["id"])
    assert ids(scan) == [77]
    assert candidates(scan) == 1


def test_strings_that_are_not_utf8(tmp_path: Path, connection: LocalConnection) -> None:
    """VERIFY compares the others, and prove passes over conditions that have no value."""
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe alpha"], pa.binary()).buffers())
    texts = pa.concat_arrays([pa.array(["alpha beta", "gamma"]), bad])
    write_columns(tmp_path / "0.orc", {"id": pa.array([0, 1, 2]), "s": texts})
    table = connection.table(str(tmp_path))
    table.create_index("n", "s", "ngram")
    checked = table.index("n").check(verify=True)
    assert (checked.problems, checked.verified_stripes) == ((), 1)
    assert ids(table.scan("contains(s, 'beta') AND id = 0", ["id"], mode="prove")) == [0]


@pytest.mark.parametrize("using", ["bloom", "minmax"])
def test_indexes_of_row_groups_leave_ngrams_to_narrow(table: Table, using: str) -> None:
    table.create_index("values", "s", using)
    scan = table.scan("s = 'x id=005' OR s LIKE 'alpha x id=00%'", ["id"])
    assert "by_s" in str(scan.explain())
    assert candidates(scan) <= 100


def test_errors_of_rows_that_no_index_excludes(tmp_path: Path, connection: LocalConnection) -> None:
    """A string that is not UTF-8 is compared only if its n-grams fit."""
    good = pa.array(["alpha beta", "gamma"])
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe alpha"], pa.binary()).buffers())
    write_columns(tmp_path / "0.orc", {"id": pa.array([0, 1, 2]), "s": pa.concat_arrays([good, bad])})
    table = connection.table(str(tmp_path))
    table.create_index("n", "s", "ngram", properties={"block_rows": "1"})
    assert ids(table.scan("contains(s, 'beta')", ["id"])) == [0]
    with raises(PredicateError):
        table.scan("contains(s, 'alpha')", ["id"]).to_arrow()


ON_EXPRESSIONS: list[tuple[str, Matches]] = [
    ("lower(s) LIKE '%beta%id=12_'", lambda s: like("%beta%id=12_").fullmatch(s.lower()) is not None),
    ("contains(lower(s), 'id=321')", lambda s: "id=321" in s),
    ("left(lower(s), 12) RLIKE 'alpha x'", lambda s: "alpha x" in s.lower()[:12]),
    ("get_json_object(p, '$.m') LIKE '%id=77%'", lambda s: "id=77" in s),
    ("endswith(get_json_object(p, '$.m'), 'x id=005')", lambda s: s.endswith("x id=005")),
    ("get_json_object(p, '$.m') = 'alpha id=123'", lambda s: s == "alpha id=123"),
    (
        "lower(s) LIKE '%gamma_ray x%' AND get_json_object(p, '$.m') LIKE '%id=1%'",
        lambda s: "gamma_ray x" in s.lower() and "id=1" in s,
    ),
]


def test_expressions(tmp_path: Path, connection: LocalConnection, texts: list[str | None]) -> None:
    """Scans return the rows that plain Python selects, and read only blocks that have the n-grams."""
    for number in range(2):
        part = texts[number * ROWS : number * ROWS + ROWS]
        payloads = pa.array([None if text is None else json.dumps({"m": text}) for text in part])
        write_file(tmp_path / f"{number}.orc", number * ROWS, part, p=payloads)
    table = connection.table(str(tmp_path))
    blocks = {"block_rows": "4"}
    specs = [
        IndexSpec("by_lower", "lower(s)", "ngram", properties=blocks),
        IndexSpec("by_m", "get_json_object(p, '$.m')", "ngram", properties=blocks),
    ]
    table.create_indexes(specs)
    for where, matches in ON_EXPRESSIONS:
        expected = [row for row, s in enumerate(texts) if s is not None and matches(s)]
        scan = table.scan(where, ["id"])
        assert ids(scan) == expected, where
        assert scan.count() == len(expected), where
        assert candidates(scan) < 2 * ROWS / 4, where
        assert ids(table.scan(where, ["id"], mode="prove")) == expected, where
    scan = table.scan("NOT lower(s) LIKE '%beta%'")
    assert candidates(scan) == 2 * ROWS
    assert "by_lower answers conditions on parts of lower(s), of 3 characters" in " ".join(
        str(scan.explain()).split()
    )
    write_columns(tmp_path / "2.orc", {"id": pa.array([9000]), "s": pa.array(["BETA ID=120"])})
    assert 9000 in ids(table.scan(ON_EXPRESSIONS[0][0], ["id"]))
    table.refresh_indexes()
    assert 9000 in ids(table.scan(ON_EXPRESSIONS[0][0], ["id"]))
    for result in table.check_indexes(verify=True):
        assert result.verified_stripes
        assert not result.problems


def test_equality_uses_the_bitmap_beside_an_ngram_index(
    tmp_path: Path, connection: LocalConnection, texts: list[str | None]
) -> None:
    write_file(tmp_path / "0.orc", 0, texts[:ROWS])
    table = connection.table(str(tmp_path))
    table.create_indexes([IndexSpec("parts", "lower(s)", "ngram"), IndexSpec("values", "lower(s)")])
    expected = [row for row, s in enumerate(texts[:ROWS]) if s is not None and s.lower() == "x id=005"]
    scan = table.scan("lower(s) = 'x id=005'", ["id"])
    assert ids(scan) == expected
    assert candidates(scan) == len(expected)
    assert "parts" not in str(scan.explain())
