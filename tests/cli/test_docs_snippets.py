"""The pages' examples, run: Python as it stands, statements, and commands as a shell hands them over."""

from __future__ import annotations

import ast
import datetime
import re
import shlex
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.cli.main import _run
from hindex.plan.modes import Mode
from hindex.sql import split
from tests.acid.writing import bucket_property, write_acid
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns

ROOT = Path(__file__).parents[2]
FILE_ROWS = 2000
_ORDERS = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    "row:struct<id:bigint,amount:int>>"
)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables that the pages speak of; connections build without Spark."""
    for number in range(2):
        users = [user(number * FILE_ROWS + at) for at in range(FILE_ROWS)]
        columns = {name: pa.array([row[name] for row in users]) for name in users[0]}
        columns["age"] = columns["age"].cast(pa.int32())
        write_columns(tmp_path / "data" / "users" / f"part-{number}.orc", columns)
    events = {"user_id": pa.array(range(FILE_ROWS), pa.int64()), "status": pa.array([200] * FILE_ROWS)}
    write_columns(tmp_path / "data" / "events" / "part-0.orc", events)
    rows = [((40 + at, bucket_property(0), 0), 40 + at, (at, at * 60)) for at in range(4)]
    for key, current, values in rows:
        name = f"delta_{current:07}_{current:07}_0000"
        write_acid(
            tmp_path / "warehouse" / "orders" / name / "bucket_00000",
            [(key, current, values)],  # type: ignore[list-item]
            schema=_ORDERS,
        )
    local_build.install(monkeypatch)
    monkeypatch.setattr("hindex.api.connection.connect", connect)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def connect(*, mode: str = "lenient", **options: Any) -> LocalConnection:
    return LocalConnection(mode=Mode.of(mode), **options)


def user(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"{'ABC'[number % 3]}{number}",
        "gender": "FM"[number % 2],
        "age": number % 100,
        "city": ("Oslo", "Rome", "Lima")[number % 3],
        "address": {"city": f"c{number % 7}", "street": "s"},
        "price": Decimal(number % 500),
        "discount": Decimal(number % 4) / 10,
        "day": datetime.date(1994 + number % 4, 1, 1),
    }


def names() -> dict[str, Any]:
    """Return the names that the pages' examples assume."""
    hx = LocalConnection()
    t = hx.table("data/users")
    return {"hindex": hindex, "hx": hx, "t": t, "table": t, "Decimal": Decimal}


@pytest.mark.parametrize(
    "page",
    [
        "docs/sql-predicates.md",
        "docs/sql-from-python.md",
        "docs/aggregates.md",
        "docs/explain.md",
        "docs/modes.md",
        "docs/acid.md",
    ],
)
def test_python(page: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected_name = names()
    (block,) = blocks(page, "python")
    block = block.replace("EXPLAIN SELECT … ", "EXPLAIN SELECT id FROM 'data/users'")
    for node in ast.parse(block).body:
        if not isinstance(node, ast.Expr):
            exec(compile(ast.Module([node], []), page, "exec"), expected_name)
            continue
        result = eval(compile(ast.Expression(node.value), page, "eval"), expected_name)
        if isinstance(result, hindex.Scan | hindex.QueryResult):
            assert result.count() > 0, ast.unparse(node)
    capsys.readouterr()


def test_other_python_can_be_read() -> None:
    """Snippets that need a session, or that run elsewhere, can at least be parsed."""
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        for block in blocks(page, "python"):
            ast.parse(block)


def test_conditions_in_python(place: Path) -> None:
    """Those of the page keep the rows that plain Python keeps."""
    expected_name = names()
    (block,) = blocks("docs/sql-predicates.md", "python")
    scans = [line for line in block.splitlines() if line.startswith("table.scan(")]
    keeps: list[Callable[[dict[str, Any]], bool]] = [
        lambda row: 20 <= row["age"] <= 25,
        lambda row: row["price"] * (1 - row["discount"]) > 100,
        lambda row: row["day"].year in (1995, 1996),
    ]
    exec("from hindex import call, col", expected_name)
    for line, keep in zip(scans, keeps, strict=True):
        expected = [number for number in range(2 * FILE_ROWS) if keep(user(number))]
        assert eval(line, expected_name).to_arrow().column("id").to_pylist() == expected, line


def test_aggregates(place: Path) -> None:
    hx = LocalConnection()
    users = [user(number) for number in range(2 * FILE_ROWS)]
    women = [row for row in users if row["gender"] == "F"]
    (block,) = blocks("docs/aggregates.md", "sql")
    tables = []
    for text in split(block):
        result: Any = hx.sql(text)
        tables.append(result.to_arrow())
    first, any_, distinct, grouped, pairs, count, by_city, oldest = (item.to_pylist() for item in tables)
    ages = [row["age"] for row in women]
    assert list(first[0].values()) == [len(women), len(women), min(ages), max(ages)]
    assert any_ == [{"any": any(row["city"] == "Oslo" and row["age"] > 90 for row in users)}]
    cities = sorted({row["city"] for row in users})
    assert [row["city"] for row in distinct] == cities
    assert sum(row["n"] for row in grouped) == len(users)
    assert len(pairs) == len({(row["city"], row["gender"]) for row in users})
    assert list(count[0].values()) == [len(cities)]
    assert [row["city"] for row in by_city] == cities
    assert [row["age"] for row in oldest] == sorted(ages, reverse=True)[:10]


@pytest.mark.parametrize(
    "page",
    [
        "docs/explain.md",
        "docs/modes.md",
        "docs/inspect.md",
        "docs/acid.md",
        "docs/hive.md",
        "docs/operations.md",
    ],
)
def test_commands(page: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hx = LocalConnection()
    for column in ("gender", "age", "id"):
        hx.table("data/users").create_index(f"by_{column}", column)
    hx.table("data/events").create_index("by_user", "user_id")
    for number in range(2):
        shutil.copy(place / "data" / "users" / f"part-{number}.orc", place)
    ran = 0
    for block in blocks(page, "console"):
        for line in re.findall(r"(?m)^\$ hindex (.*)$", block):
            if "…" in line or "s3://" in line or "hdfs://" in line or "--master" in line:
                continue
            assert _run(shlex.split(line, comments=True)) == 0, f"{line}: {capsys.readouterr().err}"
            assert capsys.readouterr().out or "--html" in line, line
            ran += 1
    assert ran or page == "docs/modes.md"


def test_the_first_example(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a table that is like the one of the page, what is printed differs in numbers and values only."""
    rows = 200_000
    modes = ["MAIL", "AIR", "SHIP", "RAIL"]
    for number in range(2):
        columns = {
            "l_orderkey": pa.array(range(number * rows, (number + 1) * rows), pa.int64()),
            "l_partkey": pa.array(
                [
                    777 if number and at in (5, 70_000, 90_001) else at * 7 % 199_999 + 1000
                    for at in range(rows)
                ],
                pa.int64(),
            ),
            "l_shipmode": pa.array(
                [modes[0] if at in (5, 70_000, 90_001) else modes[at % 4] for at in range(rows)]
            ),
            "l_shipdate": pa.array([datetime.date(1992 + at % 7, 1, 1 + at % 28) for at in range(rows)]),
        }
        write_columns(place / "demo-data" / "lineitem-1" / f"{number}.orc", columns)
    (block, *_), (output, *_) = blocks("README.md", "python"), blocks("README.md", "text")
    exec(block, {})
    assert shape(capsys.readouterr().out) == shape(output)


def shape(text: str) -> list[str]:
    """Return the output without numbers and blanks."""
    return [
        re.sub(r" +", " ", re.sub(r"<?\d[\d,.-]*", "N", line)).strip() for line in text.strip().splitlines()
    ]


def test_the_picture_of_explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local_build.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    rows = 50_000
    for region in ("EU", "US"):
        for number in range(2):
            ids = range(number * rows, (number + 1) * rows)
            columns = {
                "id": pa.array(ids, pa.int64()),
                "age": pa.array([at * 7919 % 80 for at in ids], pa.int32()),
                "name": pa.array([f"n{at * 31 % 1000}" for at in ids]),
            }
            path = Path(f"data/users/region={region}/part-{number}.orc")
            path.parent.mkdir(parents=True, exist_ok=True)
            pyarrow.orc.write_table(pa.table(columns), path, compression="zstd")
    table = LocalConnection().table("data/users")
    table.create_index("by_age", "age")
    table.create_index("by_id", "id", using="minmax")
    (output,) = blocks("docs/explain.md", "text")
    (where,) = re.findall(r"(?m)^  where +(.*)$", output)
    print(table.scan(where=where, columns=["id", "name"]).explain())
    assert without_bytes(capsys.readouterr().out) == without_bytes(output)
    picture = (ROOT / "docs" / "images" / "explain.svg").read_text("utf-8")
    for line in ("row groups", "rows", "files"):
        (kept,) = re.findall(rf"(?m)^  {line} +(\S+ of \S+)", output)
        assert kept in picture


def without_bytes(text: str) -> list[str]:
    """Return the lines of an explanation but for the bytes, which depend on the compressor."""
    return [line for line in text.strip().splitlines() if not line.startswith("  bytes ")]
