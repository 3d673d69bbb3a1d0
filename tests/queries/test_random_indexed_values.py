"""Random conditions on what indexes have beside columns, in sessions of several time zones: the rows of Spark alone."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import PredicateError
from hindex.queries.selectivity import DECLINED
from tests.spark.zones_run import session_zone
from tests.support import local_build
from tests.support.cases import SEED, cases
from tests.support.small import candidates, ids, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 800
WORDS = ("red", "Green", "BLUE", "", "épée", "😀", "a_b%c", "it's", "ΣίγμαΣ", "x" * 40)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
#: Binary literals; the first and the fourth are invalid UTF-8.
BYTES = ("X'FFFE'", "X''", "X'61'", "X'E282'", "X'6162'")
START = datetime.datetime(2021, 1, 1)


def value_of(chance: random.Random, make: Callable[[], object]) -> object:
    return None if chance.random() < 0.1 else make()


def document(chance: random.Random) -> str:
    """Return JSON with escapes, and sometimes the same name twice, or without its end."""
    user = chance.choice(
        [None, chance.randrange(20), f"u{chance.randrange(9)}", 2.5, True, "é😀", [1], {"x": 1}]
    )
    text = json.dumps({"t": chance.choice(WORDS), "user": {"id": user}, "tags": [chance.choice(WORDS)]})
    if chance.random() < 0.2:
        text = text[:-1] + f', "t": "{chance.choice("ab")}"' + "}"
    if chance.random() < 0.2:
        text = text.replace('"user"', '"\\u0075ser"')
    return text[:-1] if chance.random() < 0.1 else text


def items_of(chance: random.Random, make: Callable[[], object]) -> object:
    return value_of(chance, lambda: [value_of(chance, make) for _ in range(chance.choice([0, 1, 1, 2, 5]))])


def write_file(path: Path, seed: int, first_id: int) -> None:
    """A file of several stripes, with nulls in all columns, empty arrays and elements that are there twice."""
    chance = random.Random(seed)

    def column(make: Callable[[], object], data_type: pa.DataType) -> pa.Array:
        return pa.array([value_of(chance, make) for _ in range(ROWS)], data_type)

    def arrays(make: Callable[[], object], data_type: pa.DataType) -> pa.Array:
        return pa.array([items_of(chance, make) for _ in range(ROWS)], pa.list_(data_type))

    def words() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))

    def pairs() -> object:
        keys = chance.sample(WORDS, chance.randrange(4))
        return [(key, value_of(chance, lambda: Decimal(chance.randrange(-50, 50)) / 10)) for key in keys]

    def item() -> object:
        return {"sku": value_of(chance, lambda: f"sku {chance.randrange(30)}"), "qty": chance.randrange(4)}

    columns = {
        "id": pa.array(range(first_id, first_id + ROWS), pa.int64()),
        "s": column(words, pa.string()),
        "w": column(lambda: chance.choice(WORDS), pa.string()),
        "a": column(lambda: chance.randrange(-5, 30), pa.int32()),
        "x": column(lambda: chance.choice([0.0, -0.0, 1.5, -2.0, float("nan")]), pa.float64()),
        "q": column(lambda: Decimal(chance.randrange(-300, 300)) / 100, pa.decimal128(9, 2)),
        "d": column(lambda: (START + datetime.timedelta(chance.randrange(900))).date(), pa.date32()),
        "ts": column(
            lambda: START + datetime.timedelta(minutes=chance.randrange(1_200_000)), pa.timestamp("ns")
        ),
        "p": column(lambda: document(chance), pa.string()),
        "tags": arrays(lambda: chance.choice(WORDS), pa.string()),
        "bs": arrays(lambda: bytes.fromhex(chance.choice(BYTES)[2:-1]), pa.binary()),
        "items": arrays(item, pa.struct({"sku": pa.string(), "qty": pa.int32()})),
        "m": column(pairs, pa.map_(pa.string(), pa.decimal128(8, 1))),
    }
    write_columns(path, columns, stripe=32 << 10, stride=100)


def quoted(text: str) -> str:
    return str(hindex.lit(text).node)


def word(chance: random.Random) -> str:
    return quoted(chance.choice([*WORDS, "none"]))


def compared(chance: random.Random, subject: str, literal: Callable[[], str]) -> str:
    """Return a comparison of a value with literals of its type."""
    return chance.choice(
        [
            f"{subject} = {literal()}",
            f"{literal()} <> {subject}",
            f"{subject} <=> {chance.choice([literal(), 'NULL'])}",
            f"{subject} IN ({literal()}, {literal()}, {literal()})",
            f"{subject} NOT IN ({literal()}, {literal()})",
            f"{subject} BETWEEN {literal()} AND {literal()}",
            f"{subject} > {literal()}",
            f"{literal()} >= {subject}",
            f"{subject} IS NULL",
            f"{subject} IS NOT NULL",
        ]
    )


def expression(chance: random.Random) -> str:
    number = str(chance.randrange(-6, 32))
    letters = quoted(chance.choice(["re", "xx", "é", "BL", "", "a_"]))
    return chance.choice(
        [
            compared(chance, "lower(w)", lambda: word(chance).lower()),
            compared(chance, "length(s)", lambda: str(chance.randrange(0, 60))),
            compared(chance, "substring(w, 2, 3)", lambda: quoted(chance.choice(WORDS)[1:4])),
            compared(chance, "year(d)", lambda: str(chance.randrange(2020, 2025))),
            compared(chance, "a % 7", lambda: str(chance.randrange(-7, 8))),
            compared(chance, "q * 2", lambda: str(chance.randrange(-9, 9) / 2)),
            compared(chance, "coalesce(a, 0)", lambda: number),
            compared(chance, "concat(w, '/', CAST(a AS STRING))", lambda: quoted(f"red/{number}")),
            f"startswith(lower(w), {letters})",
            f"lower(w) LIKE {quoted(chance.choice(['r%', '%e', 'b_ue', 'épée', '%']))}",
        ]
    )


def json_path(chance: random.Random) -> str:
    def literal() -> str:
        return chance.choice(
            [f"'{chance.randrange(20)}'", f"'u{chance.randrange(9)}'", "'2.5'", "'true'", "'é😀'"]
        )

    user = chance.choice(["get_json_object(p, '$.user.id')", "get_json_object(P, '$[''user''].id')"])
    return chance.choice(
        [
            compared(chance, user, literal),
            compared(chance, user, literal),
            compared(chance, "get_json_object(p, '$.t')", lambda: word(chance)),
            compared(chance, "get_json_object(p, '$.tags[0]')", lambda: word(chance)),
            f"{user} LIKE 'u%'",
        ]
    )


def elements(chance: random.Random) -> str:
    sku = f"'sku {chance.randrange(32)}'"
    return chance.choice(
        [
            f"array_contains(tags, {word(chance)})",
            f"NOT array_contains(tags, {word(chance)})",
            f"arrays_overlap(tags, array({word(chance)}, {word(chance)}))",
            f"exists(tags, x -> x = {word(chance)})",
            f"exists(tags, x -> x IN ({word(chance)}, {word(chance)}))",
            f"NOT exists(tags, x -> x IN ({word(chance)}, {word(chance)}))",
            f"array_contains(bs, {chance.choice(BYTES)})",
            f"array_contains(items.sku, {sku})",
            f"exists(items, i -> i.sku = {sku})",
        ]
    )


def maps(chance: random.Random) -> str:
    number = f"{chance.randrange(-50, 50) / 10}BD"
    return chance.choice(
        [
            f"map_contains_key(m, {word(chance)})",
            f"array_contains(map_keys(m), {word(chance)})",
            f"array_contains(map_values(m), CAST({number} AS DECIMAL(8, 1)))",
            compared(chance, "m['red']", lambda: f"{chance.randrange(-60, 60) / 10}"),
            compared(chance, "element_at(m, 'épée')", lambda: f"{chance.randrange(-60, 60) / 10}"),
        ]
    )


def substring(chance: random.Random) -> str:
    subject = chance.choice(["s", "s", "lower(s)", "concat(w, '/', s)"])
    text = " ".join(chance.choices(WORDS, k=2))
    start = chance.randrange(max(1, len(text) - 4))
    part = text[start : start + chance.randint(2, 9)]
    if "_" not in part and "%" not in part:
        return chance.choice(
            [
                f"{subject} LIKE {quoted(f'%{part}%')}",
                f"{subject} LIKE {quoted(f'{part}%')}",
                f"{subject} LIKE {quoted(f'%{part}')}",
                f"{subject} LIKE {quoted(f'%{part[:3]}%{part[3:]}%')}",
                f"{subject} ILIKE {quoted(f'%{part.upper()}%')}"
                if part.isascii()
                else f"contains({subject}, {quoted(part)})",
                f"{subject} RLIKE {quoted(part)}",
            ]
        )
    escaped = "".join(f"\\{c}" if c in "%_" else c for c in part)
    return chance.choice(
        [
            f"{subject} LIKE {quoted(f'%{escaped}%')}",
            f"contains({subject}, {quoted(part)})",
            f"startswith({subject}, {quoted(part)})",
            f"endswith({subject}, {quoted(part)})",
            f"instr({subject}, {quoted(part)}) > 0",
            f"locate({quoted(part)}, {subject}) > 0",
        ]
    )


def combination(chance: random.Random) -> str:
    number = f"{chance.randrange(-6, 31)}"
    day = f"DATE '{(START + datetime.timedelta(chance.randrange(900))).date()}'"
    time = f"TIMESTAMP '{START + datetime.timedelta(minutes=chance.randrange(1_200_000))}'"
    return chance.choice(
        [
            f"a = {number} AND {compared(chance, 'w', lambda: word(chance))}",
            f"(a, w) IN (({number}, {word(chance)}), ({chance.randrange(30)}, {word(chance)}))",
            f"w = {word(chance)} AND {compared(chance, 'd', lambda: day)}",
            f"a IN ({number}, 3, 4) AND {compared(chance, 'ts', lambda: time)}",
            f"a IS NULL AND {compared(chance, 'w', lambda: word(chance))}",
        ]
    )


def constant(chance: random.Random) -> str:
    """Return conditions that are sets of values of a column with an index, once constants are computed."""
    letters = quoted(chance.choice(["re", "xx", "é", "BL", "it"]))
    day = f"DATE '{(START + datetime.timedelta(chance.randrange(900))).date()}'"
    return chance.choice(
        [
            f"left(w, 2) = {letters}",
            f"substr(w, 1, 2) = {letters}",
            f"w = concat({letters}, 'd')",
            f"year(d) = {chance.randrange(2021, 2024)} AND month(d) = {chance.randrange(1, 13)}",
            f"d >= date_add({day}, {chance.randrange(-9, 9)}) AND d < {day} + INTERVAL 1 MONTH",
            f"ts >= CAST({day} AS TIMESTAMP) AND ts < {day} + INTERVAL '5' HOUR",
            f"CAST(ts AS DATE) = {day}",
            f"ts BETWEEN {day} AND date_add({day}, 30)",
            f"hour(ts) = {chance.randrange(24)}",
            f"year(ts) = {chance.randrange(2020, 2024)}",
            f"date_trunc('DAY', ts) = TIMESTAMP '{START + datetime.timedelta(chance.randrange(800))}'",
            f"coalesce(a, 0) = {chance.randrange(-2, 3)}",
            "isnan(x)",
            f"x IN (0.0D, {chance.choice(['1.5D', 'double(1)'])})",
        ]
    )


KINDS: dict[str, tuple[Callable[[random.Random], str], Sequence[IndexSpec]]] = {
    "expressions": (
        expression,
        [
            IndexSpec(f"by_{at}", text, using)
            for at, (text, using) in enumerate(
                [
                    ("lower(w)", "bitmap"),
                    ("length(s)", "btree"),
                    ("substring(w, 2, 3)", "bitmap"),
                    ("year(d)", "minmax"),
                    ("a % 7", "bitmap"),
                    ("q * 2", "bloom"),
                    ("coalesce(a, 0)", "bitmap"),
                    ("concat(w, '/', CAST(a AS STRING))", "bloom"),
                ]
            )
        ],
    ),
    "json": (
        json_path,
        [
            IndexSpec("by_user", "get_json_object(p, '$.user.id')", "bitmap"),
            IndexSpec("by_t", "get_json_object(p, '$.t')", "btree"),
            IndexSpec("by_tag", "get_json_object(p, '$.tags[0]')", "bitmap"),
        ],
    ),
    "elements": (
        elements,
        [
            IndexSpec("by_tags", "tags[*]", "bitmap"),
            IndexSpec("by_bs", "bs[*]", "btree"),
            IndexSpec("by_sku", "items[*].sku", "bitmap"),
        ],
    ),
    "maps": (
        maps,
        [
            IndexSpec("by_keys", "map_keys(m)", "bitmap"),
            IndexSpec("by_values", "map_values(m)", "bitmap"),
            IndexSpec("by_red", "m['red']", "btree"),
            IndexSpec("by_epee", "m['épée']", "bitmap"),
        ],
    ),
    "substrings": (
        substring,
        [
            IndexSpec(name, text, "ngram", properties={"block_rows": "4"})
            for name, text in (("by_s", "s"), ("by_lower", "lower(s)"), ("by_both", "concat(w, '/', s)"))
        ],
    ),
    "combinations": (
        combination,
        [
            IndexSpec("by_a_w", ["a", "w"], "bitmap"),
            IndexSpec("by_w_d", ["w", "d"], "btree"),
            IndexSpec("by_a_ts", ["a", "ts"], "bitmap"),
        ],
    ),
    "constants": (constant, [IndexSpec(f"by_{name}", name, "bitmap") for name in ("w", "d", "ts", "a", "x")]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values")
    for number in range(2):
        write_file(path / f"{number}.orc", number, number * ROWS)
    return path


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def table(
    spark: SparkSession, folder: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Table:
    with monkeypatch.context() as patch:
        local_build.install(patch)
        local_build.LocalConnection(str(tmp_path)).table(folder).create_indexes(KINDS[kind][1])
    return hindex.connect(str(tmp_path), spark=spark).table(folder)


@pytest.mark.slow
def test_conditions(spark: SparkSession, folder: Path, table: Table, kind: str, tmp_path: Path) -> None:
    make = KINDS[kind][0]
    chance = random.Random(f"{kind} {SEED}")
    number, used, refused, skipped = cases(3, 500), 0, 0, 0
    for zone in ZONES:
        conditions = [make(chance) for _ in range(number)]
        conditions = [f"NOT ({text})" if chance.random() < 0.15 else text for text in conditions]
        with session_zone(spark, zone):
            expected = ids_of(spark, folder, conditions)
            for at, (condition, rows) in enumerate(zip(conditions, expected, strict=True)):
                problem = ""
                try:
                    scan = table.scan(condition, ["id"])
                    assert ids(scan) == rows, (zone, condition)
                    assert scan.count() == len(rows), (zone, condition)
                    kept = candidates(scan)
                    assert kept >= len(rows), (zone, condition)
                    used += " by_" in str(scan.explain())
                    skipped += 2 * ROWS - kept
                except PredicateError as error:
                    problem = str(error)
                    refused += 1
                assert not problem or "in the session's time zone" in problem, condition
                if at % 20:
                    continue
                # the rule of Spark's optimizer takes what it understands of the same condition
                DECLINED.clear()
                with hindex.accelerate(spark, store=str(tmp_path), always=True):
                    frame = spark.read.orc(str(folder)).where(condition).select("id")
                    assert sorted(row.id for row in frame.collect()) == rows, (zone, condition)
    print(f"{kind}: {4 * number} conditions, {used} by indexes, {refused} refused, {skipped} rows skipped")
    assert used > number * 2
    assert refused <= (number if kind == "constants" else 0)
    assert skipped > number * ROWS


def ids_of(spark: SparkSession, folder: Path, conditions: Sequence[str]) -> list[list[int]]:
    """Return the ids of the rows of each condition by Spark alone."""
    wanted: list[list[int]] = []
    for start in range(0, len(conditions), 50):
        part = conditions[start : start + 50]
        frame = spark.read.orc(str(folder)).selectExpr(
            "id", *(f"{text} AS c{at}" for at, text in enumerate(part))
        )
        table = frame.toArrow()
        for at in range(len(part)):
            wanted.append(sorted(table.filter(table[f"c{at}"].fill_null(False))["id"].to_pylist()))
    return wanted
