"""Every statement about indexes in both spellings against a real table: one story, a line each."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.api.connection import Connection
from hindex.api.statement_table import StatementTable
from hindex.errors import HindexError
from hindex.maintain.results import CheckResult
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORY = Path(__file__).parent / "fixtures" / "statements.txt"


def outcome(connection: Connection, statement: str) -> str:
    """Format the outcome of a statement in a line."""
    try:
        result = connection.sql(statement)
    except HindexError as error:
        return f"error: {str(error).splitlines()[0]}"
    if isinstance(result, StatementTable) and result.schema.names == ["fact", "value"]:
        facts = dict(zip(result["fact"].to_pylist(), result["value"].to_pylist(), strict=True))
        shown = (
            "name",
            "column",
            "type",
            "level",
            "status",
            "comment",
            "annotations",
            "files",
            "rows covered",
        )
        return " ".join(f"{name}={facts[name]}" for name in shown if facts[name] is not None)
    if isinstance(result, StatementTable):
        return ", ".join(f"{row['name']} {row['status']}" for row in result.to_pylist()) or "-"
    if isinstance(result, list):
        return ", ".join(map(checked, result))
    return str(result)


def checked(result: CheckResult) -> str:
    assert result.ok, result.problems
    return f"{result.index} {result.state.value} {result.fresh}/{result.files}"


def fits(actual: str, expected: str) -> bool:
    """Return True if an outcome is the expected one, where ``*`` matches anything; an error may go on."""
    if expected.startswith("error: "):
        expected += "*"
    return fnmatch.fnmatchcase(actual, expected.replace("[", "[[]"))


@pytest.mark.filterwarnings("ignore:.* no effect in hindex")
def test_story(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> None:
    tables = {"T": tmp_path / "first", "U": tmp_path / "second"}
    for part in (1, 2, 3):
        write_rows(tables["T"] / f"p={part}" / "x.orc", part * 1000, [i % 10 for i in range(500)])
    write_rows(tables["U"] / "x.orc", 0, [i % 10 for i in range(500)])
    connection = hindex.connect(spark=spark)
    # SHOW INDEXES lists the tables of the current database, too
    spark.sql("CREATE DATABASE story")
    request.addfinalizer(lambda: (spark.sql("USE default"), spark.sql("DROP DATABASE story")))
    spark.sql("USE story")
    wrong = []
    lines = STORY.read_text(encoding="utf-8").splitlines()
    steps = [line for line in lines if line and not line.startswith("#")]
    for number, line in enumerate(steps):
        if line.startswith("! "):
            change(tables["T"], line.removeprefix("! "), number)
            continue
        statement, expected = line.split(" => ")
        for name, path in tables.items():
            statement = statement.replace(f" {name} ", f" '{path}' ")
            statement = statement.removesuffix(f" {name}") + (
                f" '{path}'" if statement.endswith(f" {name}") else ""
            )
        result = outcome(connection, statement)
        for name, path in tables.items():
            result = result.replace(f"'{path}'", name)
        if not fits(result, expected):
            wrong.append(f"{line}\n  was: {result}")
    assert not wrong, "\n".join(wrong)


def change(table: Path, what: str, number: int) -> None:
    match what.split():
        case ["add", part]:
            write_rows(table / part / f"added-{number}.orc", 100_000 + number, [i % 10 for i in range(500)])
        case ["remove", "everything"]:
            shutil.rmtree(table)
        case ["remove", part]:
            shutil.rmtree(table / part)
        case _:
            raise ValueError(what)
