"""Indexes on expressions: rows against scans without an index, and what was skipped."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.index import Index
from hindex.api.table import IndexSpec, Table
from hindex.errors import BuildError, ColumnError, HindexWarning, IndexExistsError, StatementError
from hindex.maintain.results import BuildEstimate
from hindex.plan.index_columns import expression_column, index_column
from hindex.plan.reasons import Reason
from hindex.plan.time_zones import TimeZones
from hindex.store.definitions import PREFIX, decode_definition, encode_definition
from hindex.store.store import Store
from tests.support.cases import cases, sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import candidates, ids, reasons, write_columns

ROWS = 1200
TYPES = ("bitmap", "btree", "bloom", "minmax")
WORDS = ("ann@Example.com", "Ann@example.com", "BOB@x.org", "épée", "ΩMEGA", "😀x", "", "  pad ", "a_b%c")
EXPRESSIONS = (
    "lower(s)",
    "length(s)",
    "substring(s, 2, 3)",
    "year(d)",
    "quarter(d)",
    "a % 7 + 1",
    "coalesce(a, 0)",
    "CAST(q AS BIGINT)",
    "q * 2",
    "CASE WHEN a > 20 THEN 'many' WHEN a > 5 THEN 'some' END",
    "contains(s, 'x')",
    "concat(s, '/', t)",
    "hour(ts)",
    "get_json_object(p, '$.u.id')",
)


def values(chance: random.Random, rows: int) -> dict[str, pa.Array]:
    """Some nulls in every column; dates and numbers of few values in a stripe."""

    def some(value: object) -> object:
        return None if chance.random() < 0.07 else value

    days = [
        datetime.date(2015 + row * 8 // rows, 1, 1) + datetime.timedelta(chance.randrange(365))
        for row in range(rows)
    ]
    start = datetime.datetime(2020, 1, 1)
    return {
        "id": pa.array(range(rows), pa.int64()),
        "s": pa.array(
            [some(chance.choice(WORDS) + chance.choice(["", "x", "7"])) for _ in range(rows)], pa.string()
        ),
        "t": pa.array([some(chance.choice("abc")) for _ in range(rows)], pa.string()),
        "d": pa.array([some(day) for day in days], pa.date32()),
        "a": pa.array([some(chance.randrange(-9, 40)) for _ in range(rows)], pa.int32()),
        "q": pa.array(
            [some(Decimal(chance.randrange(-500, 500)) / 100) for _ in range(rows)], pa.decimal128(9, 2)
        ),
        "ts": pa.array(
            [some(start + datetime.timedelta(minutes=chance.randrange(9999))) for _ in range(rows)],
            pa.timestamp("ns"),
        ),
        "p": pa.array([some(payload(chance)) for _ in range(rows)], pa.string()),
    }


def payload(chance: random.Random) -> str:
    """Return JSON: of some, the name of the field that counts is not the only one, and some are cut off."""
    number = chance.choice([None, chance.randrange(30), f"user {chance.randrange(9)}", 1.5])
    text = json.dumps({"t": "é", "u": {"name": "x", "id": number}})
    if chance.random() < 0.2:
        text = text.replace('"u"', '"u": {"id": null}, "\\u0075"').replace('"', "'")
    return text[:-1] if chance.random() < 0.1 else text


def write_file(path: Path, seed: int, first_id: int) -> None:
    columns = values(random.Random(seed), ROWS)
    columns["id"] = pa.array(range(first_id, first_id + ROWS), pa.int64())
    write_columns(path, columns, stripe=16 << 10, stride=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for number in range(2):
        write_file(tmp_path / f"{number}.orc", number, number * ROWS)
    return tmp_path


def random_condition(chance: random.Random, expression: str, values_of: list[object]) -> str:
    """Return a condition on an expression, given its values."""

    def literal() -> str:
        value = chance.choice(values_of)
        if value is None:
            return "NULL"
        if isinstance(value, str):
            return hindex.lit(value).node.__str__()
        return str(value).upper() if isinstance(value, bool) else str(value)

    texts = [item for item in values_of if isinstance(item, str)]
    kinds = ["=", "<>", "<", "<=", ">", ">=", "<=>", "IN", "NOT IN", "BETWEEN", "IS NULL", "IS NOT NULL"]
    kind = chance.choice(kinds + ["LIKE"] * bool(texts))
    match kind:
        case "IN" | "NOT IN":
            return f"{expression} {kind} ({', '.join(literal() for _ in range(chance.randint(1, 4)))})"
        case "BETWEEN":
            return f"{expression} BETWEEN {literal()} AND {literal()}"
        case "LIKE":
            text = chance.choice(texts)
            head = hindex.lit(
                text[: chance.randint(0, 4)].replace("%", "\\%") + chance.choice(["%", "", "%m"])
            )
            return f"{expression} LIKE {head}"
        case "IS NULL" | "IS NOT NULL":
            return f"{expression} {kind}"
    sides = (expression, literal())
    return " ".join((sides[0], kind, sides[1]) if chance.random() < 0.8 else (sides[1], kind, sides[0]))


@pytest.mark.slow
@sampled(2)
@pytest.mark.parametrize("using", TYPES)
def test_random_conditions(path: Path, bare: Table, connection: LocalConnection, using: str) -> None:
    """Alone and combined: the rows of a scan without an index; all conditions on expressions are looked up."""
    chance = random.Random(using)
    table = connection.table(path)
    table.create_indexes([IndexSpec(f"e{at}", text, using) for at, text in enumerate(EXPRESSIONS)])
    arrays = bare.scan().to_arrow()
    values_of: Mapping[str, list[object]] = {
        text: [*dict.fromkeys(evaluated(text, arrays)), None] for text in EXPRESSIONS
    }
    skipped = 0
    turns = cases(10, 25)
    for turn in range(turns):
        parts = [
            random_condition(chance, text, values_of[text])
            for text in chance.choices(EXPRESSIONS, k=chance.randint(1, 3))
        ]
        parts = [f"NOT ({part})" if chance.random() < 0.2 else part for part in parts]
        where = chance.choice([" AND ", " OR "]).join(parts)
        expected = ids(bare.scan(where, ["id"]))
        scan = table.scan(where, ["id"])
        assert ids(scan) == expected, where
        assert scan.count() == len(expected), where
        kept = candidates(scan)
        assert kept >= len(expected), where
        skipped += 2 * ROWS - kept
        if turn < 5:
            assert ids(table.scan(where, ["id"], mode="prove")) == expected, where
    assert skipped > turns * ROWS / 25 * (12 if using == "bitmap" else 1)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("LOWER(S) = 'bob@x.orgx'", "BITMAP by_lower  exact"),
        ("lcase(s) LIKE 'bob%'", "BITMAP by_lower  exact"),
        ("lower(s) LIKE 'bob%x'", "BITMAP by_lower  may match"),
        ("lower(s) LIKE 'bob%x' OR lower(s) = 'a_b%c7'", "BITMAP by_lower  may match"),
        ("lower(s) LIKE 'bob%x' AND lower(s) > 'bob@x.org'", "BITMAP by_lower  may match"),
        ("NOT lower(s) IN ('bob@x.org', 'a')", "BITMAP by_lower  exact"),
        ("lower(s) NOT LIKE 'bob%'", "BITMAP by_lower  exact"),
        ("CAST(year(d) AS BIGINT) = 2017", "BITMAP by_year  exact"),
        ("2017 <= year(d) AND year(d) < 2018", "BITMAP by_year  exact"),
        ("year(d) = 2016 OR year(d) = 2018 OR lower(s) IS NULL", "BITMAP by_year  exact"),
        ("1 + a % 7 = 3", "UNSUPPORTED_PREDICATE"),
        ("get_json_object(P, '$[''u''].id') IN ('3', 'user 7')", "BITMAP by_id  exact"),
        ("get_json_object(p, '$.u.id') LIKE 'user%'", "BITMAP by_id  exact"),
        ("CAST(get_json_object(p, '$.u.name') AS STRING) = 'x'", "UNSUPPORTED_PREDICATE"),
    ],
)
def test_conditions_use_an_index_however_they_are_spelled(
    path: Path, bare: Table, connection: LocalConnection, where: str, text: str
) -> None:
    table = connection.table(path)
    table.create_indexes(
        [
            IndexSpec("by_lower", "lower(s)"),
            IndexSpec("by_year", "year(d)"),
            IndexSpec("by_a", "a % 7 + 1"),
            IndexSpec("by_id", "get_json_object(p, '$.u.id')"),
        ]
    )
    expected = ids(bare.scan(where, ["id"]))
    assert ids(table.scan(where, ["id"])) == expected
    assert table.scan(where).count() == len(expected) > 0
    assert text in str(table.scan(where).explain())


def test_explain_names_the_expression_of_a_similar_index(path: Path, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_index("by_lower", "lower(s)")
    for where, reason in (
        ("s = 'x'", Reason.NO_INDEX),
        ("upper(s) = 'X'", Reason.UNSUPPORTED_PREDICATE),
        ("NOT lower(s) LIKE 'ab%c'", Reason.UNSUPPORTED_PREDICATE),
    ):
        assert "by_lower is on lower(s)" in " ".join(str(table.scan(where).explain()).split()), where
        assert list(reasons(table.scan(where))) == [reason]


@pytest.mark.parametrize(
    ("using", "of_column", "used"),
    [
        ("bitmap", "bitmap", "BITMAP by_d  exact"),
        ("minmax", "bitmap", "BITMAP by_d  exact"),
        ("bitmap", "minmax", "BITMAP by_year, MINMAX by_d  exact"),
        ("bitmap", "bloom", "BITMAP by_year, BLOOM by_d  exact"),
        ("bloom", "minmax", "BLOOM by_year, MINMAX by_d"),
    ],
)
def test_the_better_index_is_used(
    path: Path, connection: LocalConnection, using: str, of_column: str, used: str
) -> None:
    """One on the column answers alone if it is as precise; otherwise it narrows what the one on the expression does."""
    table = connection.table(path)
    table.create_indexes([IndexSpec("by_year", "year(d)", using), IndexSpec("by_d", "d", of_column)])
    text = str(table.scan("year(d) = 2018").explain())
    assert used in text
    assert text.count(" by_") == used.count(" by_")


def test_texts_that_differ_in_letter_case_are_other_expressions(
    path: Path, connection: LocalConnection
) -> None:
    table = connection.table(path)
    table.create_indexes([IndexSpec("i", "contains(s, 'x')"), IndexSpec("j", "contains(s, 'X')")])
    assert "BITMAP j  exact" in str(table.scan("contains(s, 'X')").explain())


@pytest.mark.parametrize("column", ["year(d)", "YEAR( `D` )", hindex.call("year", hindex.col("D"))])
def test_spellings_of_a_definition(path: Path, connection: LocalConnection, column: Any) -> None:
    index = connection.table(path).create_index("y", column, "minmax")
    assert (index.column, index.column_type) == ("year(d)", "int")
    with pytest.raises(IndexExistsError):
        connection.table(path).create_index("z", "Year(d)", "minmax")
    statement = f"CREATE INDEX w USING bitmap ON '{path}' (a % 7 + year(d))"
    assert connection.sql(statement).column == "a % 7 + year(d)"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("year(nothing)", "Column 'nothing' cannot be resolved"),
        ("lower(s", "lower\\(s"),
        ("lower(s) AND", "syntax error"),
        ("size(s)", "function size"),
        ("soundex(s)", "soundex"),
        ("1 + 2", "it names no column"),
        ("datediff(current_date(), d)", "current_date has another value at another time"),
        ("year(a)", "cannot be indexed"),
        ("CAST(d AS TIMESTAMP)", "it makes timestamps"),
        ("lower(s) AND a", "cannot be indexed"),
        ("get_json_object(s, t)", "takes a path in quotes"),
        ("get_json_object(s, '$.a[*].b')", r"with \[\*\] is not evaluated"),
        ("get_json_object(s, 'a.b')", "it has the same value in all rows"),
    ],
)
def test_what_cannot_be_indexed(path: Path, connection: LocalConnection, column: str, message: str) -> None:
    with pytest.raises((ColumnError, StatementError), match=message):
        connection.table(path).create_index("i", column)
    assert not connection.table(path).indexes()


def test_ngrams_and_partitions_are_refused(tmp_path: Path, connection: LocalConnection) -> None:
    (tmp_path / "p=1").mkdir()
    write_file(tmp_path / "p=1" / "0.orc", 0, 0)
    table = connection.table(tmp_path)
    with raises(ColumnError):
        table.create_index("i", "length(s)", "ngram")
    with raises(ColumnError):
        table.create_index("i", "p + a")


def test_a_value_without_a_result_ends_the_build(path: Path, connection: LocalConnection) -> None:
    """It names the file and the expression; TRY_CAST does it."""
    table = connection.table(path)
    with raises(BuildError):
        table.create_index("i", "CAST(s AS INT)")
    assert not table.indexes()
    table.create_index("i", "TRY_CAST(s AS INT)")
    assert ids(table.scan("TRY_CAST(s AS INT) = 7", ["id"])) == [
        row for row, s in enumerate(table.scan().to_arrow()["s"].to_pylist()) if s == "7"
    ]


def test_changed_and_new_files_are_read(path: Path, bare: Table, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_indexes(
        [
            IndexSpec("by_lower", "lower(s)"),
            IndexSpec("m", "lower(s)", "minmax"),
            IndexSpec("j", "get_json_object(p, '$.u.id')", "btree"),
        ]
    )
    write_file(path / "1.orc", 7, ROWS)
    write_file(path / "2.orc", 8, 2 * ROWS)
    where = "lower(s) = 'bob@x.orgx'"
    expected = ids(bare.scan(where, ["id"]))
    assert ids(table.scan(where, ["id"])) == expected
    assert set(reasons(table.scan(where))) == {Reason.STALE_FILE, Reason.NEW_FILE}
    assert table.index("by_lower").status.startswith("stale: 1 changed, 1 added")
    table.refresh_indexes()
    assert ids(table.scan(where, ["id"])) == expected
    assert not table.scan(where).explain().notes
    assert [item.verified_stripes > 0 and not item.problems for item in table.check_indexes(verify=True)] == [
        True
    ] * 3


def test_statistics_of_the_column_rule_out_what_the_index_lacks(
    path: Path, connection: LocalConnection
) -> None:
    """A new file of other days is not read; an index on the column itself narrows what it leaves, too."""
    table = connection.table(path)
    table.create_index("by_year", "year(d)")
    later = {"id": pa.array([9000, 9001]), "d": pa.array([datetime.date(2030, 1, 1)] * 2)}
    write_columns(path / "2.orc", later)
    scan = table.scan("year(d) = 2018", ["id"])
    assert candidates(scan) == len(ids(scan)) > 0
    assert set(reasons(scan)) == {Reason.NEW_FILE}
    assert ids(table.scan("year(d) = 2030", ["id"])) == [9000, 9001]


def test_files_without_a_column_are_read(path: Path, bare: Table, connection: LocalConnection) -> None:
    """NULL in, and perhaps a value out."""
    rows = {"id": pa.array(range(9000, 9010), pa.int64()), "a": pa.array(range(10), pa.int32())}
    write_columns(path / "3.orc", rows)
    table = connection.table(path)
    table.create_indexes([IndexSpec("i", "coalesce(length(s), a)"), IndexSpec("y", "year(d)")])
    for where in (
        "coalesce(length(s), a) = 3",
        "coalesce(length(s), a) IS NULL",
        "year(d) IS NULL",
        "year(d) = 2016",
    ):
        assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"])), where
        assert not table.scan(where).explain().notes
    assert 9003 in ids(table.scan("coalesce(length(s), a) = 3", ["id"]))
    assert table.index("y").files_without_column == ("3.orc",)


def test_columns_of_other_types_end_the_use(path: Path, connection: LocalConnection) -> None:
    """`a % 7` of a bigint is another expression: the index is named unusable, and the data is read."""
    table = connection.table(path)
    table.create_index("i", "a % 7 + 1")
    rows = {"id": pa.array([9000], pa.int64()), "a": pa.array([1 << 40], pa.int64())}
    write_columns(path / "3.orc", rows)
    where = "a % 7 + 1 = 3"
    expected = [
        row
        for row, a in zip(*(table.scan().to_arrow()[name].to_pylist() for name in ("id", "a")), strict=True)
        if a is not None and a >= 0 and a % 7 == 2
    ]
    assert ids(table.scan(where, ["id"])) == sorted(expected)
    assert "the columns are struct<a:bigint> now" in str(table.scan(where).explain())
    assert "unusable" in table.index("i").status


def test_parts_of_wall_clocks_serve_sessions_in_utc(path: Path, connection: LocalConnection) -> None:
    table = connection.table(path)
    table.create_indexes([IndexSpec("h", "hour(ts)"), IndexSpec("y", "year(d)")])
    scan = table.scan("hour(ts) = 3 AND year(d) = 2018", ["id"])
    utc = scan.with_zones(lambda: TimeZones("UTC", "UTC"))
    elsewhere = scan.with_zones(lambda: TimeZones("America/Los_Angeles", "UTC"))
    assert ids(scan) == ids(utc)
    assert "BITMAP h  exact" in str(utc.explain())
    assert "BITMAP h" not in str(elsewhere.explain())
    reason = "(h on hour(ts) has the values of UTC, Java in UTC, and the query is in UTC, Java in America/"
    assert reason in " ".join(str(elsewhere.explain()).split())
    assert "BITMAP y  exact" in str(elsewhere.explain())


def test_expressions_that_compute_times_are_indexed_in_sessions_of_utc_only(
    path: Path, connection: LocalConnection
) -> None:
    schema = connection.table(path).snapshot().schema
    berlin = TimeZones("UTC", "Europe/Berlin")
    for text in ("hour(ts)", "CAST(ts AS STRING)", "CASE WHEN ts IS NULL THEN a ELSE minute(ts) END"):
        on = expression_column(text, schema).in_zones(lambda: berlin)
        assert (on.name, on.zones, on.time_zones) == (text, berlin, "UTC Europe/Berlin")
    for text in ("hour(date_trunc('HOUR', ts))", "hour(ts + INTERVAL 1 DAY)", "ts > ts", "hour(d)"):
        on = expression_column(text, schema)
        assert on.in_zones(lambda: TimeZones("Etc/UTC", "GMT")) == on
        with raises(ColumnError):
            on.in_zones(lambda: berlin)


def test_indexes_of_other_time_zones(
    path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay beside those of the session, which are the only ones that it uses."""

    def session(zone: str) -> None:
        monkeypatch.setattr(LocalConnection, "zones", lambda _: TimeZones("UTC", zone))

    table = connection.table(path)
    session("Europe/Berlin")
    berlin = table.create_index("berlin", "hour(ts)")
    assert berlin.time_zones == "Europe/Berlin, Java in UTC"
    assert table.scan("hour(ts) = 3").explain().exact
    session("+0530")
    where = "hour(ts) = 3"
    reason = "berlin on hour(ts) has the values of Europe/Berlin, Java in UTC, and the query is in +0530, Java in UTC"
    assert reason in " ".join(str(table.scan(where).explain()).split())
    advice = table.advise([where])
    assert [item.column for item in advice.create] == ["hour(ts)"]
    assert [(item.name, item.reason) for item in advice.unused] == [
        ("berlin", "it has the values of other time zones than the session's")
    ]
    with pytest.warns(
        HindexWarning, match=r"time zones Europe/Berlin, Java in UTC instead of \+05:30, Java in UTC"
    ):
        table.create_index("berlin", "hour(ts)", if_not_exists=True)
    table.create_index("india", "hour(ts)")
    assert [index.time_zones for index in table.indexes()] == [
        "Europe/Berlin, Java in UTC",
        "+05:30, Java in UTC",
    ]
    assert not table.advise([where]).create
    for zone, name in (("Europe/Berlin", "berlin"), ("GMT+5:30", "india")):
        session(zone)
        explained = table.scan(where).explain()
        assert explained.exact
        assert f"BITMAP {name}  exact" in str(explained)
    assert all(result.ok and result.verified_stripes for result in table.check_indexes(verify=True))


@pytest.mark.parametrize(
    ("recorded", "problem"),
    [
        ("x", "made by a later version"),
        ("UTC Mars/Olympus", "time zones 'UTC Mars/Olympus', which are unknown here: install the tzdata"),
        ("Mars/Olympus UTC", "time zones 'Mars/Olympus UTC', which are unknown here: install the tzdata"),
    ],
)
def test_time_zones_that_are_unknown(
    path: Path, connection: LocalConnection, recorded: str, problem: str
) -> None:
    table = connection.table(path)
    table.create_index("h", "hour(ts)")
    snapshot = table.snapshot()
    entry = replace(snapshot.manifest.index("h"), time_zones=recorded)
    with pytest.raises(ColumnError, match=problem):
        index_column(entry, snapshot.schema)
    index = Index(table, entry, snapshot)
    assert problem in index.status
    assert index.time_zones is not None


def test_a_definition_that_is_not_understood_is_not_used(
    path: Path, bare: Table, connection: LocalConnection
) -> None:
    """Another version may have written it, and evaluate more."""
    table = connection.table(path)
    table.create_index("i", "lower(s)")
    store = Store.for_table(table.uri)
    for text in ("soundex(s)", "lower(s", "lower(s) OVER x"):
        (entry,) = table.snapshot().manifest.indexes
        changed = replace(entry, column=text)
        store.commit(partial(replace, indexes=(changed,)))
        where = "lower(s) = 'bob@x.orgx'"
        assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
        assert "unusable" in table.index("i").status


def test_estimates_and_definitions(path: Path, connection: LocalConnection) -> None:
    """DRY RUN reads the columns of the expression; the definition survives as text."""
    table = connection.table(path)
    for using in TYPES:
        estimate = table.create_index("i", "lower(s)", using, dry_run=True)
        index = table.create_index("i", "lower(s)", using)
        assert isinstance(estimate, BuildEstimate)
        assert 0.3 < estimate.index_bytes / index.size_bytes < 3
        assert estimate.read_bytes > 1000
        table.drop_index("i")
    table.create_index("i", "concat(s, '/', t)")
    (entry,) = table.snapshot().manifest.indexes
    assert decode_definition(PREFIX + entry.id, encode_definition(entry)) == replace(entry, refreshed_ms=0)
    assert entry.inputs == "struct<s:string,t:string>"


def user_id(text: str) -> str | None:
    try:
        number = json.loads(text.replace("'", '"'))["u"]["id"]
    except json.JSONDecodeError:
        return None
    return None if number is None else str(number)


def evaluated(expression: str, rows: pa.Table) -> list[object]:
    """Return the values of an expression, by plain Python."""
    columns = rows.to_pydict()
    functions: dict[str, Callable[[dict[str, Any]], object]] = {
        "lower(s)": lambda row: row["s"].lower(),
        "length(s)": lambda row: len(row["s"]),
        "substring(s, 2, 3)": lambda row: row["s"][1:4],
        "year(d)": lambda row: row["d"].year,
        "quarter(d)": lambda row: (row["d"].month + 2) // 3,
        "a % 7 + 1": lambda row: abs(row["a"]) % 7 * (-1 if row["a"] < 0 else 1) + 1,
        "coalesce(a, 0)": lambda row: row["a"] or 0,
        "CAST(q AS BIGINT)": lambda row: int(row["q"]),
        "q * 2": lambda row: row["q"] * 2,
        "CASE WHEN a > 20 THEN 'many' WHEN a > 5 THEN 'some' END": lambda row: (
            "many" if row["a"] > 20 else "some" if row["a"] > 5 else None
        ),
        "contains(s, 'x')": lambda row: "x" in row["s"],
        "concat(s, '/', t)": lambda row: row["s"] + "/" + row["t"],
        "hour(ts)": lambda row: row["ts"].hour,
        "get_json_object(p, '$.u.id')": lambda row: user_id(row["p"]),
    }
    function = functions[expression]
    evaluated = []
    for at in range(rows.num_rows):
        row = {name: column[at] for name, column in columns.items()}
        try:
            evaluated.append(function(row))
        except (AttributeError, TypeError):
            evaluated.append(None)
    return evaluated
