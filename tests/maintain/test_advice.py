"""Advice on indexes: beside the best of all single indexes, as measured, and from every kind of workload."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex import IndexSpec, Table
from hindex.cli.main import _run
from hindex.errors import ArgumentError, ArgumentTypeError
from hindex.maintain import advice as advice_module
from hindex.maintain import included_advice
from hindex.maintain.advice import estimate_distinct
from hindex.maintain.workload import WorkloadTable, read_workload
from hindex.sql import parse
from hindex.sql.statements import CreateIndex
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns

FILES, FILE_ROWS = 4, 10_000
ROWS = FILES * FILE_ROWS
COLUMNS = ("id", "user", "country", "day", "status")
TYPES = ("minmax", "bloom", "btree", "bitmap")

POINTS = [f"SELECT id FROM events WHERE user = {user}" for user in (5, 777, 1234, 4001)]
RANGES = ["id BETWEEN 12000 AND 12100", "id > 39990", "id < 50"]
DAYS = ["day = DATE '2024-01-03'", "day >= DATE '2024-02-08'"]
COUNTS = ["SELECT count(*) FROM events WHERE country = 'NO'"]
RARE = ["SELECT * FROM events WHERE status = 500 AND country IN ('NO', 'DE')"]


@pytest.fixture(scope="module")
def written_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``id`` is sorted, ``day`` clustered, ``user`` nearly unique, ``country`` has 5 values, ``status`` a rare one."""
    path = tmp_path_factory.mktemp("written") / "events"
    rng = np.random.default_rng(1)
    for number in range(FILES):
        ids = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        columns = {
            "id": pa.array(ids),
            "user": pa.array(rng.integers(0, 5000, FILE_ROWS)),
            "country": pa.array(rng.choice(["DE", "FR", "IT", "NO", "PL"], FILE_ROWS)),
            "day": pa.array(
                [datetime.date(2024, 1, 1) + datetime.timedelta(int(i // 1000)) for i in ids], pa.date32()
            ),
            "status": pa.array(np.where(rng.random(FILE_ROWS) < 0.001, 500, 200)),
            "st": pa.array([{"x": int(i % 3000)} for i in ids]),
        }
        write_columns(path / f"{number}.orc", columns, stride=500)
    return path


@pytest.fixture
def events(written_events: Path, tmp_path: Path) -> Path:
    """A table whose files and indexes a test may change."""
    return shutil.copytree(written_events, tmp_path / "events")


@pytest.fixture(scope="module")
def single_indexes(
    written_events: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Table]:
    """Each column with an index of each type, by both; each in a store of its own."""
    tables = {}
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        for column in COLUMNS:
            for kind in TYPES:
                store = tmp_path_factory.mktemp(f"{column}-{kind}")
                table = LocalConnection(str(store)).table(str(written_events))
                table.create_index("only", column, kind)
                tables[column, kind.upper()] = table
    return tables


#: The rows that scans of a query need not look at, by column, type of index and query: see `skipped`.
SKIPPED: dict[tuple[str, str, str], int] = {}


def skipped(tables: Mapping[tuple[str, str], Table], column: str, kind: str, queries: Iterable[str]) -> int:
    """Return the rows that scans need not look at, over some queries."""
    for query in queries:
        if (column, kind, query) not in SKIPPED:
            scan = tables[column, kind].scan(query.rpartition(" WHERE ")[2])
            rows = scan.explain().rows
            assert rows is not None
            assert rows.kept is not None
            SKIPPED[column, kind, query] = ROWS - rows.kept
    return sum(SKIPPED[column, kind, query] for query in queries)


@pytest.mark.parametrize(
    "queries",
    [POINTS, RANGES, DAYS, RARE, [*POINTS, *RANGES], [*POINTS, *DAYS, *RARE, *COUNTS, *RANGES]],
    ids=["points", "ranges", "days", "rare", "points and ranges", "all"],
)
def test_advice_is_nearly_the_best_single_index(
    queries: list[str],
    written_events: Path,
    single_indexes: Mapping[tuple[str, str], Table],
    tmp_path: Path,
) -> None:
    advice = LocalConnection(str(tmp_path / "none")).table(str(written_events)).advise(queries)
    assert advice.queries == len(queries)
    assert not advice.ignored
    measured = {
        key: (skipped(single_indexes, *key, queries), table.index("only").size_bytes)
        for key, table in single_indexes.items()
    }
    best = max(rows for rows, _ in measured.values())
    first = advice.create[0]
    rows, size = measured[first.column_text, first.type]
    assert rows >= 0.9 * best, (first, measured)
    assert size / 4 <= first.index_bytes <= size * 4


@pytest.mark.parametrize(
    ("queries", "column", "types"),
    [
        (POINTS, "user", {"BTREE", "BLOOM", "BITMAP"}),
        (RANGES, "id", {"MINMAX"}),
        (DAYS, "day", {"MINMAX"}),
        (COUNTS, "country", {"BITMAP"}),
        (RARE, "status", {"BITMAP", "BTREE"}),
        (["st.x = 17"], "st.x", {"BTREE", "BLOOM", "BITMAP"}),
    ],
)
def test_columns_and_types(queries: list[str], column: str, types: set[str], events: Path) -> None:
    advice = hindex.connect().table(str(events)).advise(queries)
    first = advice.create[0]
    assert first.column == column
    assert first.type in types
    assert first.gain >= 1
    assert first.queries == len(queries)
    statement = parse(first.statement)
    assert isinstance(statement, CreateIndex)
    assert (str(statement.columns[0]), statement.using.upper()) == (column, first.type)


def test_expressions_and_elements(tmp_path: Path, connection: LocalConnection) -> None:
    """Advised indexes are what their statements make, and gain what they are advised for."""
    rng = np.random.default_rng(3)
    for number in range(2):
        names = [
            f"{'ab'[row % 2]}User{value}".swapcase() for row, value in enumerate(rng.integers(0, 500, 4000))
        ]
        tags = [[f"t{tag}" for tag in row] for row in rng.integers(0, 400, (4000, 2)).tolist()]
        maps = [[("k", int(value))] for value in rng.integers(0, 300, 4000)]
        columns = {
            "id": pa.array(range(4000 * number, 4000 * number + 4000)),
            "name": pa.array(names),
            "tags": pa.array(tags),
            "m": pa.array(maps, pa.map_(pa.string(), pa.int64())),
            "p": pa.array([f'{{"id": "{name}"}}' for name in names]),
        }
        write_columns(tmp_path / f"{number}.orc", columns, stripe=32 << 10, stride=500)
    table = connection.table(tmp_path)
    queries = [
        "lower(name) = 'auser7'",
        "arrays_overlap(tags, array('t1', 't2'))",
        "exists(tags, x -> x = 't3')",
        "m['k'] IN (5, 7)",
        "get_json_object(p, '$.id') = 'AuSER7'",
    ]
    advice = table.advise([*queries, "soundex(name) = 'x'"])
    assert {item.column for item in advice.create} == {
        "lower(name)",
        "tags[*]",
        "m['k']",
        "get_json_object(p, '$.id')",
    }
    assert {item.name for item in advice.create} == {
        "by_lower_name",
        "by_tags",
        "by_m_k",
        "by_get_json_object_p_id",
    }
    assert sum(advice.ignored.values()) == 1
    for item in advice.create:
        index = connection.sql(item.statement)
        assert isinstance(index, hindex.Index)
        assert 0.4 < item.index_bytes / index.size_bytes < 2.5
    for where in queries:
        assert not table.scan(where).explain().notes
    again = table.advise([*queries[:2], queries[-1]])
    assert not again.create
    assert [(item.column, item.reason) for item in again.unused] == [
        ("m['k']", "no query has a condition on the expression")
    ]


def test_parts_of_strings(tmp_path: Path) -> None:
    """By an NGRAM index; a BITMAP index on the same column serves the conditions on whole strings."""
    rng = np.random.default_rng(2)
    for number in range(2):
        texts = [f"session {value:08x} ended" for value in rng.integers(0, 1 << 32, 4000)]
        write_columns(tmp_path / "t" / f"{number}.orc", {"id": pa.array(range(4000)), "s": pa.array(texts)})
    table = LocalConnection().table(str(tmp_path / "t"))
    parts = ["SELECT id FROM t WHERE s LIKE '%0badf00d%'", "SELECT id FROM t WHERE s LIKE '%c0ffee%'"]
    (advised,) = table.advise(parts, alias="t").create
    assert (advised.column, advised.type, advised.queries) == ("s", "NGRAM", 2)
    assert "parts of them" in advised.reason
    table.create_index("n", "s", "ngram")
    assert not table.advise(parts, alias="t").create
    # an index on n-grams does not stand in the way of one on values
    (advised,) = table.advise(["SELECT id FROM t WHERE s < 'session 01'"], alias="t").create
    assert advised.type == "BITMAP"


def test_parts_of_strings_in_expressions(tmp_path: Path) -> None:
    """An index on n-grams is on the column where that has all of them."""
    texts = [f'{{"m": "session {value:08x} ended"}}' for value in range(0, 1 << 30, 1 << 18)]
    write_columns(tmp_path / "t" / "0.orc", {"id": pa.array(range(len(texts))), "s": pa.array(texts)})
    table = LocalConnection().table(str(tmp_path / "t"))
    queries = ["get_json_object(s, '$.m') LIKE '%0ba40%'", "lower(s) LIKE '%1f0%'"]
    advice = {where: table.advise([where]).create for where in queries}
    assert [(advised.column, advised.type) for (advised,) in advice.values()] == [
        ("get_json_object(s, '$.m')", "NGRAM"),
        ("s", "NGRAM"),
    ]
    for where, (advised,) in advice.items():
        LocalConnection().sql(advised.statement)
        rows = table.scan(where).explain().rows
        assert rows is not None
        assert rows.kept is not None
        assert 0 < rows.kept < len(texts) / 4
        assert not table.advise([where]).create
        table.drop_index(advised.name)


def test_an_index_on_several_columns_is_judged_by_the_first(events: Path) -> None:
    """BLOOM on two answers nothing of one."""
    hx = LocalConnection()
    table = hx.table(str(events))
    table.create_index("filter", ["user", "country"], "bloom")
    (advised,) = table.advise(POINTS).create
    assert advised.column == "user"
    (before,) = [item.gain for item in table.advise(POINTS).create]
    assert before > 50
    table.create_index("both", ["user", "country"])
    advice = table.advise(POINTS)
    assert not advice.create
    assert not advice.unused
    (filtered, unused) = table.advise(["status = 500"]).unused
    assert {filtered.name, unused.name} == {"filter", "both"}
    assert unused.reason == "no query has a condition on its first column, user"


def test_the_rest_is_empty_once_the_indexes_are_there(events: Path) -> None:
    hx = LocalConnection()
    table = hx.table(str(events))
    queries = [*POINTS, *RARE]
    first = table.advise(queries)
    assert [index.column for index in first.create] == ["user", "status"]
    for statement in first.statements:
        hx.sql(statement)
    table.create_index("spare", "country")
    again = table.advise([*POINTS, "status = 500"])
    assert again.create == ()
    assert [(item.name, item.reason) for item in again.unused] == [
        ("spare", "no query has a condition on the column")
    ]
    # names that are taken are not given again
    table.create_index("by_id", "country", "minmax")
    assert table.advise(RANGES).create[0].name == "by_id_minmax"


def test_nothing_helps_a_query_of_most_rows(events: Path) -> None:
    advice = hindex.connect().table(str(events)).advise(["user > 100", "country <> 'NO'"])
    assert advice.create == ()
    assert "none: another index would save less than 2 % of the work" in str(advice)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key with some twenty scattered rows a value, a sorted time, and wide columns."""
    rng = np.random.default_rng(5)
    root = tmp_path_factory.mktemp("people") / "people"
    for number in range(2):
        rows = 40_000
        columns = {
            "id": pa.array(np.arange(number * rows, (number + 1) * rows)),
            "key": pa.array(rng.integers(0, 4000, rows)),
            "day": pa.array(np.sort(rng.integers(0, 1000, rows))),
            "name": pa.array([f"{value:x}" for value in rng.integers(0, 1 << 60, rows)]),
            "note": pa.array([rng.bytes(40).hex() for _ in range(rows)]),
        }
        write_columns(root / f"{number}.orc", columns, stride=10_000)
    return root


def decompressed(table: Table, where: str, columns: list[str]) -> int:
    """Bytes of the data that a scan decompresses."""
    analyzed = table.scan(where, columns).explain(analyze=True).analyzed
    assert analyzed is not None
    return analyzed.bytes_decompressed


@pytest.fixture
def small_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what tables of thousands of rows save, too."""
    monkeypatch.setattr(included_advice, "_MIN_MICROS", 100)


@pytest.mark.usefixtures("small_gains")
def test_columns_to_include(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is advised spares scans the data; an equal index is not advised again."""
    local_build.install(monkeypatch)
    connection = LocalConnection(str(tmp_path))
    table = connection.table(str(people))
    queries = ["SELECT name, id FROM people WHERE key = 17", "SELECT note FROM people WHERE key IN (3, 500)"]
    key, rows = table.advise(queries).create
    assert (key.column, key.type, rows.type, rows.queries) == ("key", "BITMAP", "ROWS", 2)
    assert set(rows.column) == {"name", "id", "note"}
    assert set(table.advise(queries).to_arrow()["column"].to_pylist()[1].split(", ")) == set(rows.column)
    assert rows.gain > 50
    connection.sql(key.statement)
    before = [decompressed(table, "key = 17", ["name", "id"]), decompressed(table, "key = 3", ["note"])]
    connection.sql(rows.statement)
    after = [decompressed(table, "key = 17", ["name", "id"]), decompressed(table, "key = 3", ["note"])]
    assert min(before) > 100_000
    assert after == [0, 0]
    assert rows.index_bytes / 1.3 < table.index("included").size_bytes < rows.index_bytes * 1.3
    again = table.advise(queries)
    assert (again.create, again.not_included) == ((), "")


def test_a_small_table_needs_no_copy(people: Path) -> None:
    """A query of it takes as long to plan."""
    advice = hindex.connect().table(str(people)).advise(["SELECT name, id FROM people WHERE key = 17"])
    assert ([index.type for index in advice.create], advice.not_included) == (["BITMAP"], "")


@pytest.mark.usefixtures("small_gains")
@pytest.mark.parametrize(("distinct", "is_advised"), [(400, True), (40_000, False)])
def test_values_that_the_sample_lacks(
    people: Path, monkeypatch: pytest.MonkeyPatch, distinct: int, is_advised: bool
) -> None:
    """They have as many rows as others: of few values many, which are worth blocks; of unique ones a single one."""
    monkeypatch.setattr(included_advice, "_MIN_MICROS", 1_000)
    monkeypatch.setattr(advice_module, "SAMPLED_ROWS", 2_000)
    monkeypatch.setattr(advice_module._Sample, "distinct", lambda *_: distinct)
    advice = hindex.connect().table(str(people)).advise(["SELECT name, id FROM people WHERE key = 4001"])
    assert any(index.type == "ROWS" for index in advice.create) is is_advised


@pytest.mark.usefixtures("small_gains")
def test_columns_that_are_not_worth_a_copy(people: Path) -> None:
    table = hindex.connect().table(str(people))
    few, many = "SELECT name FROM people WHERE key = 17", "SELECT note, name FROM people WHERE id > 1000"
    advice = table.advise([few, *[many] * 4])
    assert [index.type for index in advice.create if index.type == "ROWS"] == []
    assert "below 20 %, they are not advised" in str(advice)
    # many rows, counts, and conditions alone, which say nothing of columns
    for queries in ([many], ["SELECT count(*) FROM people WHERE key = 5"], ["key = 5"]):
        advice = table.advise(queries)
        assert (advice.not_included, [index.type for index in advice.create if index.type == "ROWS"]) == (
            "",
            [],
        )


def test_included_columns_that_no_query_reads(tmp_path: Path, connection: LocalConnection) -> None:
    """A query reads the columns that it returns and those of its condition; not each condition says what it returns."""
    names = ("key", "name", "note")
    write_columns(tmp_path / "people" / "0.orc", {name: pa.array(range(1000)) for name in names})
    table = connection.table(str(tmp_path / "people"))
    table.create_index("by_key", "key", include=["note"])
    for query, unused in (
        ("SELECT name FROM people WHERE key = 17", ["no query reads its columns"]),
        ("SELECT NOTE FROM people WHERE key = 17", []),
        ("SELECT name FROM people WHERE key = 17 AND note <> 3", []),
        ("SELECT * FROM people WHERE key = 17", []),
        ("key = 17", []),
    ):
        reasons = [item.reason for item in table.advise([query]).unused if item.name == "by_key_rows"]
        assert reasons == unused, query


@pytest.mark.usefixtures("small_gains")
def test_columns_that_some_files_lack_are_not_included(
    tmp_path: Path, people: Path, connection: LocalConnection
) -> None:
    """An index covers only files with all of its columns."""
    for number, lacking in enumerate((["note"], [])):
        data = pyarrow.orc.read_table(people / f"{number}.orc").drop_columns(lacking)
        columns = {name: data[name].combine_chunks() for name in data.column_names}
        write_columns(tmp_path / "people" / f"{number}.orc", columns)
    table = connection.table(str(tmp_path / "people"))
    queries = ["SELECT * FROM people WHERE key = 17"]

    def advised() -> list[set[str]]:
        return [set(index.column_text.split(", ")) for index in table.advise(queries).create]

    everywhere = {"id", "key", "day", "name"}
    assert advised() == [{"key"}, everywhere]
    # what a usable index includes counts, what is not built does not
    table.create_index("by_key", "key", include=sorted(everywhere))
    assert advised() == []
    table.drop_index("by_key_rows")
    table.create_index("later", sorted(everywhere), "rows", deferred=True)
    assert advised() == [everywhere]


@pytest.mark.usefixtures("small_gains")
def test_statements_quote_names(tmp_path: Path, connection: LocalConnection) -> None:
    rng = np.random.default_rng(7)
    rows = 40_000
    columns = {
        "a.b": pa.array(rng.integers(0, 4000, rows)),
        "n, m": pa.array([f"{value:x}" for value in rng.integers(0, 1 << 60, rows)]),
        "note": pa.array([rng.bytes(40).hex() for _ in range(rows)]),
    }
    write_columns(tmp_path / "t" / "0.orc", columns, stride=10_000)
    table = connection.table(str(tmp_path / "t"))
    advice = table.advise(["SELECT `n, m`, note FROM t WHERE `a.b` = 17"])
    assert advice.create[-1].type == "ROWS"
    for statement in advice.statements:
        connection.sql(statement)
    assert table.scan("`a.b` = 17", ["note"]).explain().included
    stored = advice.create[-1]
    table.drop_index(stored.name)
    assert table.create_indexes([IndexSpec(stored.name, stored.column, stored.type)])[0].status == "fresh"


def test_partitions_prune_before_indexes(tmp_path: Path) -> None:
    for part in (1, 2):
        columns = {"a": pa.array([value % 700 for value in range(5000)])}
        write_columns(tmp_path / "t" / f"p={part}" / "x.orc", columns, stride=500)
    table = hindex.connect().table(str(tmp_path / "t"))
    assert table.advise(["p = 1"]).create == ()
    (index,) = table.advise(["p = 1 AND a = 3"]).create
    assert index.column == "a"


def test_columns_of_queries(named: WorkloadTable) -> None:
    """What they return or compute with; conditions alone say nothing."""
    names = tuple(named.schema.names)
    for text, columns in {
        "SELECT id FROM events WHERE user = 5": ("id",),
        "SELECT * FROM events WHERE user = 5": names,
        "SELECT e.st.x, upper(country) c FROM events e WHERE user = 5 ORDER BY day": ("country", "day", "st"),
        "SELECT country, count(*) FROM events WHERE user = 5 GROUP BY country": ("country",),
        "SELECT sum(id) FILTER (WHERE day > DATE '2024-01-02') FROM events WHERE user = 5": ("id", "day"),
        # a name may be a column of each table
        "SELECT e.id, u.name FROM events e JOIN users u ON e.user = u.id WHERE e.user = 5": None,
        "user = 5": None,
        f"x SELECT id, day FROM {named.uri} WHERE user = 5: 1 of 4 files, 1 of 4 stripes read, 1 row": (
            "id",
            "day",
        ),
        f"x SELECT * FROM {named.uri} WHERE user = 5: 1 of 4 files, 1 of 4 stripes read, 1 row": names,
        f"x SELECT sum(id) FROM {named.uri} WHERE user = 5: 1 of 4 files, 1 of 4 stripes read, 1 row": None,
        event("[EqualTo(user,5)]", f"file:{named.uri}", schema="struct<ID:bigint,st:struct<x:bigint>>"): (
            "id",
            "st",
        ),
        event("[EqualTo(user,5)]", f"file:{named.uri}", schema="struct<id:bigint,... 3 more fields>"): None,
    }.items():
        assert [query.columns for query in read_workload(text, named).queries] == [columns], text


def workload_text(table: WorkloadTable, text: str) -> tuple[list[str], dict[str, int]]:
    parsed = read_workload(text, table)
    return [
        f"{'count ' if query.is_count else ''}{query.predicate}" for query in parsed.queries
    ], parsed.ignored


@pytest.fixture
def named(events: Path) -> WorkloadTable:
    table = hindex.connect().table(str(events))
    return WorkloadTable.of(table.name, table.uri, table.schema, "Log")


def test_sql(named: WorkloadTable) -> None:
    text = f"""-- of the shop; by hand
SELECT id
FROM events
WHERE user = 5

(user = 6 OR user = 7)
select COUNT(*) from log where country = 'NO'
SELECT e.id FROM '{named.uri}' e JOIN users u ON e.user = u.id WHERE e.status = 500 AND u.name = 'x'
SELECT id FROM users WHERE id = 3
SELECT id FROM events
user ==
"""
    queries, ignored = workload_text(named, text)
    assert queries == ["user = 5", "user = 6 OR user = 7", "count country = 'NO'", "status = 500"]
    assert sum(ignored.values()) == 3
    assert ignored["it is of another table"] == 1
    assert ignored["it has no condition on the table alone"] == 1
    assert workload_text(named, "SELECT id FROM events WHERE user = 5;\nid = 3;")[0] == ["user = 5", "id = 3"]
    commented = "-- of the shop\nSELECT id FROM events WHERE user = 5;\n/* by hand */ id = 3;\n-- the end\n"
    assert workload_text(named, commented) == (["user = 5", "id = 3"], {})


def test_wrong_arguments(events: Path) -> None:
    table: Any = hindex.connect().table(str(events))
    with pytest.raises(ArgumentError, match="name a file of queries, or pass a list of queries"):
        table.advise("SELECT id FROM events WHERE user = 5")
    for queries in (5, b"user = 5", [5]):
        with raises(ArgumentTypeError):
            table.advise(queries)
    with raises(ArgumentTypeError):
        table.advise(["user = 5"], alias=5)


def test_hindex_log(named: WorkloadTable, events: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = LocalConnection().table(str(events))
    table.create_index("by_user", "user")
    table.create_index("by_country", "country")
    with caplog.at_level("INFO", "hindex"):
        table.scan("user = 5 AND id < 1000", ["id"]).to_arrow()
        table.scan("country = 'NO'").count()
        table.scan(limit=3).to_arrow()
        table.scan("status = 500", limit=3).to_arrow()
        table.scan(f"user IN ({', '.join(map(str, range(200)))})", ["id"]).to_arrow()
    lines = "\n".join(
        f"2026-11-25 12:00:00 INFO {record.name} {record.getMessage()}" for record in caplog.records
    )
    parsed = read_workload(lines, named)
    assert [str(query.predicate) for query in parsed.queries] == [
        "user = 5 AND id < 1000",
        "country = 'NO'",
        "status = 500",
    ]
    assert [query.is_count for query in parsed.queries] == [False, True, False]
    assert parsed.used_indexes == {"by_user", "by_country"}
    assert parsed.ignored == {
        "it has no condition on the table alone": 1,
        "the log has its condition only in part": 1,
    }


def test_log_of_an_accelerated_session(named: WorkloadTable) -> None:
    """A line has a query for each table of a plan that has conditions."""
    lines = f"""
INFO:hindex.queries:accelerated: '{named.uri}' through by_user, about 5 rows; u by Spark: NO_INDEX: it has no index \
| SELECT id, user FROM '{named.uri}' WHERE user = 7; SELECT x FROM u WHERE s = 'b;c'
INFO:hindex.queries:accelerated: '{named.uri}' through by_country alone \
| SELECT c0 FROM '{named.uri}' WHERE country = 'NO'
INFO:hindex.queries:not accelerated: u by Spark: NO_INDEX: it has no index | SELECT x FROM u WHERE x = 1
INFO:hindex.queries:not accelerated: u by Spark: NO_INDEX: it has no index |
""".replace("\\\n", "")
    parsed = read_workload(lines, named)
    assert [str(query.predicate) for query in parsed.queries] == ["user = 7", "country = 'NO'"]
    assert parsed.used_indexes is not None
    assert parsed.used_indexes >= {"by_user", "by_country"}
    assert parsed.ignored == {"it is of another table": 2}


def event(filters: str, location: str, name: str = "Scan orc ", schema: str = "struct<id:bigint>") -> str:
    metadata = {
        "PushedFilters": filters,
        "Location": f"InMemoryFileIndex(1 paths)[{location}]",
        "Format": "ORC",
        "ReadSchema": schema,
    }
    scan: dict[str, Any] = {"nodeName": name, "metadata": metadata, "children": []}
    plan = {"nodeName": "Project", "metadata": {}, "children": [scan]}
    start = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return json.dumps({"Event": start, "executionId": 1, "sparkPlanInfo": plan})


def test_event_log(named: WorkloadTable) -> None:
    here = f"file:{named.uri}"
    lines = [
        json.dumps({"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"}),
        event("[IsNotNull(user), EqualTo(user,5), In(country, [DE,NO])]", here),
        event("[Or(IsNull(status),Not(EqualTo(status,200)))]", here),
        event(
            "[IsNotNull(day), GreaterThanOrEqual(day,2024-01-03)]", "file:/elsewhere", "Scan orc shop.events"
        ),
        event("[StringStartsWith(country,N_)]", here),
        event("[IsNotNull(user)]", here),
        event("[EqualTo(user,5)]", "file:/elsewhere"),
        event("[Mystery(user,5)]", here),
    ]
    queries, ignored = workload_text(named, "\n".join(lines))
    assert queries == [
        "user = 5 AND country IN ('DE', 'NO')",
        "status IS NULL OR NOT status = 200",
        "day >= DATE '2024-01-03'",
        "country LIKE 'N\\\\_%'",
    ]
    assert ignored == {
        "it has no condition on the table alone": 1,
        "it is of another table": 1,
        "its filters cannot be read": 1,
    }


def test_command(events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "queries.sql").write_text("\n".join([*POINTS, "SELECT 1 FROM other WHERE x = 2"]))
    arguments = ["advise", str(events), "-f", str(tmp_path / "queries.sql")]
    assert _run(arguments) == 0
    out = capsys.readouterr().out
    assert f"Indexes for 4 queries of '{events}'" in out
    assert f"ON '{events}' (user);" in out
    assert "1 query ignored (1: it is of another table)" in out
    assert _run(["--output", "json", *arguments]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["column"], row["queries"]) == ("user", 4)
    assert _run(["advise", str(events), "-f", str(tmp_path / "missing")]) == 2
    with pytest.raises(ArgumentError, match="cannot read"):
        hindex.connect().table(str(events)).advise(tmp_path / "missing")


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (np.arange(1_000_000), 0.001),
        (np.arange(1_000_000) % 50_000, 0.02),
        (np.arange(1_000_000) % 1000, 0.0),
        (np.where(np.arange(1_000_000) % 2, np.arange(1_000_000), 0), 0.02),
    ],
    ids=["unique", "20 rows each", "1,000 rows each", "half unique"],
)
def test_distinct_values_are_estimated(values: np.ndarray[Any, np.dtype[np.int64]], error: float) -> None:
    sample = np.random.default_rng(1).choice(values, 100_000, replace=False)
    _, counts = np.unique(sample, return_counts=True)
    assert estimate_distinct(counts, len(sample), len(values)) == pytest.approx(
        len(np.unique(values)), rel=error
    )


def test_distinct_values_of_a_whole_table_are_counted() -> None:
    assert estimate_distinct(np.array([1, 1, 5]), 7, 7) == 3
    assert estimate_distinct(np.array([], np.int64), 0, 0) == 0
