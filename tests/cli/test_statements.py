"""The command line over real tables: what users type, what they see, and that mistakes change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.cli.main import main
from hindex.queries import selectivity
from tests.support.cases import sampled
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 30_000


def write_users(directory: Path) -> None:
    directory.mkdir()
    users = pa.table(
        {
            "id": range(ROWS),
            "gender": ["F" if i % 3 else "M" for i in range(ROWS)],
            "age": pa.array([None if i % 7 == 0 else i % 90 for i in range(ROWS)], pa.int32()),
        }
    )
    pyarrow.orc.write_table(users, directory / "part-0.orc", compression="zstd")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    write_users(tmp_path / "users")
    return tmp_path / "users"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    directory = tmp_path_factory.mktemp("tables") / "users"
    write_users(directory)
    with pytest.raises(SystemExit) as exit_:
        main(["sql", f"CREATE INDEX g USING bitmap ON '{directory}' (gender)"])
    assert exit_.value.code == 0
    return directory


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the output of a command; it has to succeed, and to print nothing on standard error."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    out, err = capsys.readouterr()
    assert (exit_.value.code, err) == (0, "")
    return out


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a command, in one line."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "internal error" not in err
    return err


def test_rows(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    where = "gender = 'M' AND age BETWEEN 20 AND 21"
    out = run(capsys, "--output", "json", "sql", f"SELECT id, age FROM '{indexed}' WHERE {where}")
    expected = [{"id": i, "age": i % 90} for i in range(ROWS) if i % 3 == 0 and i % 7 and i % 90 in (20, 21)]
    assert expected
    assert sorted(json.loads(out), key=lambda row: row["id"]) == expected


def test_count(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    out = run(capsys, "sql", f"SELECT COUNT(*) FROM '{indexed}' WHERE gender = 'M'")
    assert out.splitlines() == ["count(1)", "────────", f"{ROWS // 3:>8}", "(1 row)"]


def test_limit(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    out = run(capsys, "--output", "csv", "sql", f"SELECT * FROM '{indexed}' LIMIT 2")
    assert out == "id,gender,age\n0,M,\n1,F,1\n"


def test_explain(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    select = f"SELECT id FROM '{indexed}' WHERE gender = 'M' AND age = 1"
    text = run(capsys, "explain", select)
    assert "BITMAP g" in text
    document = json.loads(run(capsys, "--output", "json", "explain", select))
    assert document["kept"]["rows"]["total"] == ROWS
    assert {note["reason"] for note in document["notes"]} == {"NO_INDEX"}


def test_the_life_of_an_index(
    capsys: pytest.CaptureFixture[str], spark: SparkSession, users: Path, tmp_path: Path
) -> None:
    def with_store(output: str, text: str) -> list[str]:
        with pytest.raises(SystemExit) as exit_:
            main(["--store", str(tmp_path / "store"), "--output", output, "sql", text])
        assert exit_.value.code == 0
        return capsys.readouterr().out.splitlines()

    create = f"CREATE INDEX IF NOT EXISTS a USING bitmap ON '{users}' (age)"
    for _ in range(2):
        created = with_store("csv", create)
        assert created[1].startswith("a,age,BITMAP,fresh,")
    (output,) = json.loads("\n".join(with_store("json", "SHOW INDEXES")))
    assert (output["name"], output["column"], output["status"]) == ("a", "age", "fresh")
    assert not list(users.glob("_*"))
    assert with_store("table", "DROP INDEX a") == [
        f"Index 'a' of '{users}' dropped; VACUUM INDEXES frees its space"
    ]
    assert with_store("json", "SHOW INDEXES") == ["[]"]


def test_if_not_exists_notes_another_definition(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    create = f"CREATE INDEX IF NOT EXISTS g USING bitmap ON '{indexed}' (age)"
    for _ in range(2):
        with pytest.raises(SystemExit) as exit_:
            main(["sql", create])
        assert exit_.value.code == 0
        assert capsys.readouterr().err == (
            f"Note: Index 'g' of '{indexed}' exists already and is kept, with column gender instead of age: "
            "drop it first, or choose another name\n"
        )


def test_check(capsys: pytest.CaptureFixture[str], users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support import local_build

    local_build.install(monkeypatch)
    table = local_build.LocalConnection().table(str(users))
    table.create_index("g", "gender")
    out = run(capsys, "--output", "csv", "check", str(users), "--verify")
    assert out.splitlines()[1].startswith(f"g,{users},fresh,1,1,0,0,0,100,")
    (file,) = users.rglob("*.hidx")
    file.unlink()
    with pytest.raises(SystemExit) as exit_:
        main(["check", str(users)])
    out, err = capsys.readouterr()
    assert (exit_.value.code, err) == (2, f"Error: 1 of 1 indexes of '{users}' have problems: g\n")
    assert "is missing" in out


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT * FROM 'no/such/table'", "no/such/table' is invalid"),
        ("SELECT nope FROM '{users}'", "Column 'nope' cannot be resolved"),
        ("SELECT id FROM '{users}' WHERE nope = 1", "Column 'nope' cannot be resolved"),
        ("CREATE INDEX x USING bitmap ON '{users}' (nope)", "Column 'nope' cannot be resolved"),
        ("CREATE INDEX x USING nonsense ON '{users}' (age)", "index type"),
        ("CREATE INDEX g USING bitmap ON '{users}' (age)", "Index 'g' already exists"),
        ("CREATE INDEX x USING bitmap ON '{users}' (gender)", "already exists"),
        ("CREATE INDEX x USING bitmap ON '{users}' (age) WHERE gender = 'F'", "partition columns"),
        ("DROP INDEX nope ON '{users}'", "Index 'nope' does not exist"),
        ("SHOW INDEXES nope ON '{users}'", "Index 'nope' does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], indexed: Path, statement: str, error: str
) -> None:
    show = ("--output", "json", "sql", f"SHOW INDEXES ON '{indexed}'")
    before = run(capsys, *show)
    message = fail(capsys, "sql", statement.format(users=indexed))
    assert error in message
    assert message.count("\n") == 1
    assert run(capsys, *show) == before


@pytest.mark.parametrize(
    ("statement", "marked"),
    [
        ("SELEC * FROM 't'", "SELEC"),
        ("SELECT * FROM 't' WHERE", "WHERE"),
        ("CREATE INDEX x USING bitmap ON 't'\n(a b)", "(a b)"),
    ],
)
def test_a_syntax_error_marks_its_place(
    capsys: pytest.CaptureFixture[str], statement: str, marked: str
) -> None:
    first, *lines = fail(capsys, "sql", statement).splitlines()
    assert "line " in first
    output, caret = lines
    assert marked in output
    assert caret.strip(" ~^") == ""
    assert "^" in caret


@pytest.mark.parametrize("damage", ["not ORC", "truncated"])
def test_a_damaged_file_is_named(capsys: pytest.CaptureFixture[str], users: Path, damage: str) -> None:
    file = users / "part-0.orc"
    data = file.read_bytes()
    file.write_bytes(b"PAR1" * 100 if damage == "not ORC" else data[: len(data) // 2])
    message = fail(capsys, "sql", f"SELECT COUNT(*) FROM '{users}' WHERE age = 1")
    assert "part-0.orc" in message
    assert message.count("\n") == 1


@sampled(4)
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT id, gender FROM '{}' WHERE gender = 'M' LIMIT 1", 0),
        ("SELECT id, gender FROM '{}' WHERE gender IS NULL LIMIT 1", 0),
        ("SELECT id FROM '{}' WHERE age > hour(TIMESTAMP '2024-01-01 12:00:00') LIMIT 1", 0),
        ("SELECT nope FROM '{}'", 2),
        ("SELECT id FROM '{}' WHERE gender", 2),
        ("SELECT gender, COUNT(*) FROM '{}'", 2),
        ("SELECT sum(id) FROM '{}'", 2),
        ("SELECT * FROM '{0}' JOIN '{0}'", 2),
        ("SELECT * FROM users", 2),
    ],
)
def test_a_query_starts_no_spark(indexed: Path, statement: str, code: int) -> None:
    """Nor does a mistake, or what only Spark runs, where nobody asked for a session."""
    unwanted = {"pyspark"}
    if "hour" not in statement:
        # constants are computed by what loads pandas
        unwanted.add("pandas")
    if code == 0:
        # each takes longer to import than an index to look up
        unwanted |= {"hindex.explanations.explanation", "hindex.maintain", "hindex.orc.acid.live_rows"}
    program = f"""
import sys
from hindex.cli.main import main
try:
    main(["sql", {statement.format(indexed)!r}])
except SystemExit as done:
    assert done.code == {code}
assert not {unwanted} & set(sys.modules)
"""
    gone = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def test_help_where_a_statement_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "sql", "help") == run(capsys, "sql", "HELP;")
    assert "RENAME TO new_name" in run(capsys, "sql", "help alter index")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["explan", "SELECT 1"],
            "there is no command 'explan'; did you mean 'explain'? hindex --help lists them",
        ),
        (["help", "crate", "index"], "there is no statement 'crate index'; did you mean 'create index'?"),
    ],
)
def test_words_that_are_mistyped(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "ids", "message"),
    [
        ("""\"gender" = 'M'""", 0, "'gender' = 'M' (the column is written `gender`)"),
        ("""\"GENDER" <> 'M'""", ROWS, "'GENDER' <> 'M' (the column is written `gender`)"),
        (
            """id < 5 AND "gender" IN ('M', 'F')""",
            0,
            "'gender' IN ('M', 'F') (the column is written `gender`)",
        ),
        ("""id < 5 AND NOT "gender" LIKE 'M%'""", 5, "'gender' LIKE 'M%' (the column is written `gender`)"),
        ("""\"age" IS NULL OR id < 5""", 5, "'age' IS NULL (the column is written `age`)"),
        (
            """lower("gender") BETWEEN 'e' AND 'z' AND id < 5""",
            5,
            "2 conditions, e.g. lower('gender') >= 'e' (the column is",
        ),
        # what is meant as it is written
        ("""gender = "M" AND id < 5""", 2, ""),
        ("""gender = "gender" AND id < 5""", 0, ""),
        ("""lower(gender) <> "gender" AND id < 5""", 5, ""),
        ("""'gender' = 'M'""", 0, ""),
        ("""\"M" = 'F'""", 0, ""),
        ("1 = 2", 0, ""),
        ("""`gender` = "M" AND id IN (0, 1)""", 1, ""),
    ],
)
def test_a_name_in_double_quotes_is_remarked_on(
    capsys: pytest.CaptureFixture[str], indexed: Path, where: str, ids: int, message: str
) -> None:
    """It is a string to Spark as well: rows do not change, and a note names the column."""
    for items in ("id", "COUNT(*)", "EXISTS"):
        select = f"SELECT {items} FROM '{indexed}' WHERE {where}"
        if items == "EXISTS":
            select = f"SELECT EXISTS(SELECT 1 FROM '{indexed}' WHERE {where})"
        with pytest.raises(SystemExit) as exit_:
            main(["--output", "csv", "sql", select])
        out, err = capsys.readouterr()
        assert exit_.value.code == 0
        lines = out.splitlines()[1:]
        if items == "id":
            assert len(lines) == ids
        else:
            assert lines == [str(ids) if items == "COUNT(*)" else str(ids > 0).lower()]
        assert err.count("\n") == bool(message)
        assert err.startswith(f"Note: {message}" if message else "")
        explained = json.loads(run(capsys, "--output", "json", "explain", select))
        quoted = [note for note in explained["notes"] if note["reason"] == "QUOTED_NAME"]
        assert bool(quoted) == bool(message)
        assert not message or quoted[0]["subject"] in message


def test_a_name_in_double_quotes_beside_a_number(capsys: pytest.CaptureFixture[str], indexed: Path) -> None:
    message = fail(capsys, "sql", f"""SELECT id FROM '{indexed}' WHERE "age" > 20""")
    assert message.endswith("; the column is written `age`\n")
    for statement, place in (
        (f"""SELECT "id" FROM '{indexed}'""", "select expression '\"id\"'"),
        (f"""SELECT id FROM '{indexed}' ORDER BY "id\"""", "ORDER BY of '\"id\"'"),
        (f"""CREATE INDEX i USING bitmap ON '{indexed}' ("id")""", 'expected a column, found "id"'),
    ):
        assert f"{place}; a name is written in `backquotes`" in fail(capsys, "sql", statement)


def test_files_of_other_formats(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("parquet.`users`", "delta.`users`", "JSON.`users`"):
        message = fail(capsys, "sql", f"SELECT * FROM {name}")
        assert (
            f"hindex reads tables of ORC files, and this names {name.split('.')[0].lower()} files. With"
            in message
        )
        assert message.count("\n") == 1
    message = fail(capsys, "sql", "CREATE INDEX i USING bitmap ON parquet.`users` (a)")
    assert "hindex reads tables of ORC files, and this names parquet files. With a Spark session" in message


def test_a_name_of_the_catalog_is_checked(
    capsys: pytest.CaptureFixture[str], spark: SparkSession, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import local_build

    local_build.install(monkeypatch)
    monkeypatch.chdir(users.parent)
    local_build.LocalConnection().table(str(users)).create_index("g", "gender")
    spark.sql(f"CREATE TABLE checked USING orc LOCATION '{users}'")
    try:
        for name in ("checked", "default.checked"):
            out = run(
                capsys,
                "--conf",
                "spark.sql.shuffle.partitions=1",
                "--output",
                "csv",
                "check",
                name,
                "--verify",
            )
            assert out.splitlines()[1].startswith(f"g,{name},fresh,1,1,0,0,0,100,")
        # what is a path stays one, and without a session nothing else can be
        out = run(capsys, "--conf", "spark.sql.shuffle.partitions=1", "--output", "csv", "check", "users")
        assert out.splitlines()[1].startswith("g,users,fresh,")
        message = fail(capsys, "check", "default.checked")
        assert message.endswith(
            "; a table of Spark's catalog is named without quotes in SQL, and needs a session: "
            "hindex.connect(spark=spark) or --master 'local[*]'\n"
        )
        message = fail(capsys, "--conf", "spark.sql.shuffle.partitions=1", "check", "nowhere")
        assert message.startswith("Error: Table 'nowhere' is invalid: Spark's catalog has no such table")
    finally:
        spark.sql("DROP TABLE checked")


def test_a_proof_follows_the_result(users: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["sql", f"SELECT id FROM '{users}' WHERE id = 7", "--mode", "prove", "--output", "csv"])
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (0, "id\n7\n")
    assert err.startswith("Proof: indexes of ")
    assert "agree with the data: 30,000 rows of 1 files" in err or "1 rows of 1 files" in err


def test_queries_that_spark_runs_are_not_proved(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    path = write_rows(tmp_path / "t" / "x.orc", 0, [i % 1000 for i in range(20_000)]).parent
    hindex.connect(spark=spark).table(str(path)).create_index("by_a", "a")
    for where, line in (
        (
            "a = 7",
            f"Not proved: Spark runs this query and reads '{path}' through indexes; SELECT of one table is proved",
        ),
        ("s LIKE '%7'", "Nothing to prove: Spark alone runs this query"),
    ):
        text = f"SELECT sum(id) AS n FROM '{path}' WHERE {where}"
        expected = spark.sql(text.replace(f"'{path}'", f"orc.`{path}`")).collect()[0].n
        with pytest.raises(SystemExit):
            main(
                [
                    "sql",
                    text,
                    "--mode",
                    "prove",
                    "--output",
                    "csv",
                    "--conf",
                    "spark.sql.shuffle.partitions=1",
                ]
            )
        out, err = capsys.readouterr()
        assert out == f"n\n{expected}\n", err
        assert err.splitlines()[-1] == line
