"""TAB completes keywords by statement, paths in quotes, and names of the statement's table."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api.connection import Connection
from hindex.cli.completion import DELIMITERS, Completer, Names, table_names
from hindex.errors import HindexError, TableError
from hindex.sql import parse
from hindex.sql.predicate import quote_string
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns, write_rows


class Tables:
    """Stands for a connection; notes which tables it is asked about."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __call__(self, table: str) -> Names:
        self.requests.append(table)
        if table == "broken":
            raise TableError("Table 'broken' is invalid")
        if table == "gone":
            raise FileNotFoundError(table)
        return Names(("gender", "group", "age", "my column", "x`y z"), ("by_gender", "by_age"))


def complete(text: str, completer: Completer | None = None) -> list[str]:
    """The candidates where the cursor is at the sign ^ of the last line."""
    before, _, after = text.partition("^")
    earlier, _, line = before.rpartition("\n")
    completer = completer or Completer(Tables())
    completer.earlier = earlier
    begin = max((at + 1 for at, c in enumerate(line) if c in DELIMITERS), default=0)
    return completer.candidates(line, begin, after)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("cr^", ["create"]),
        ("CR^", ["CREATE"]),
        ("Cr^", ["CREATE"]),
        ("SELECT 1; dro^", ["drop"]),
        ("SELECT 1;\ndro^", ["drop"]),
        ("-- a comment; 'x\ndro^", ["drop"]),
        ("he^", ["help"]),
        ("help al^", ["alter"]),
        ("help create ^", ["INDEX"]),
        ("help Show ^", ["INDEXES", "COLUMNS"]),
        ("help select ^", []),
        ("help create index ^", []),
        ("create ind^", ["index"]),
        ("desc ind^", ["index"]),
        ("show ind^", ["index", "indexes"]),
        ("SHOW ^", ["FORMATTED", "INDEX", "INDEXES", "ON", "IN", "DATABASE", "COLUMNS", "FROM"]),
        ("CREATE INDEX g USI^", ["USING"]),
        ("CREATE INDEX g USING bl^", ["bloom"]),
        ("CREATE INDEX g USING B^", ["BITMAP", "BLOOM", "BTREE"]),
        ("CREATE INDEX g ON TABLE 't' (a) AS 'bit^", ["'bitmap"]),
        ("CREATE INDEX g USING bitmap ON 't' (ge^", ["gender"]),
        ("CREATE INDEX g ON TABLE 't' (ge^", ["gender"]),
        ("SELECT ge^ FROM 't'", ["gender"]),
        ("SELECT GE^ FROM 't'", ["gender"]),
        ("SELECT my^ FROM t", ["`my column`"]),
        ("SELECT `my^ FROM t", ["my column"]),
        ('SELECT id FROM "t"\nWHERE g^', ["gender", "`group`", "group"]),
        ("SELECT id FROM t WHERE gender = 'F' an^", ["and"]),
        ("SELECT id FROM t WHERE gender BETW^", ["BETWEEN"]),
        ("EXPLAIN SELECT id FROM t WHERE ag^", ["age"]),
        ("DROP INDEX by_g^ ON 't'", ["by_gender"]),
        ("DROP INDEX IF EXISTS by_^ ON 't'", ["by_gender", "by_age"]),
        ("UPDATE INDEX by_a^ ON 't'", ["by_age"]),
        ("SELECT `x^ FROM t", ["x``y z"]),
        ("SELECT x^ FROM t", ["`x``y z`"]),
        ("SELECT `x``^ FROM t", []),
        ("SELECT id FROM broken WHERE ge^", []),
        ("SELECT id FROM gone WHERE ge^", []),
        ("SELECT ge^", []),
        ("/* SELECT ge^", []),
    ],
)
def test_words(text: str, result: list[str]) -> None:
    assert complete(text) == result


def test_paths_in_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data/users/_hindex", "data/user data/part 1", "data/.hidden"):
        Path(name).mkdir(parents=True)
    Path("data/users/x.orc").touch()
    assert complete("SELECT * FROM 'da^") == ["'data/"]
    assert complete("SELECT * FROM 'data/^") == ["'data/user data/", "'data/users/"]
    assert complete('SELECT * FROM "data/users/^') == ['"data/users/x.orc']
    assert complete("SELECT * FROM 'data/users/_^") == ["'data/users/_hindex/"]
    # a blank ends a word for the terminal: only what is behind it is replaced
    assert complete("SELECT * FROM 'data/user da^") == ["data/"]
    assert complete("SELECT * FROM 'data/user data/p^") == ["data/part 1/"]
    assert complete(f"SELECT * FROM '{tmp_path}/da^") == [f"'{tmp_path}/data/"]
    assert complete("SELECT * FROM 'nowhere/^") == []
    assert complete("SELECT * FROM 's3://bucket/^") == []


def test_completions_within_quotes_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["it's", "it's a", 'q"t', "b\\c", "n\nl"]
    for name in names:
        Path("d", name).mkdir(parents=True)
    for quote in "'\"":
        completed = complete(f"SELECT * FROM {quote}d/^")
        assert len(completed) == len(names)
        result = [parse(f"SELECT a FROM {text}{quote}") for text in completed]
        assert result == [
            parse(f"SELECT a FROM {quote_string(f'd/{name}/')}") for name in sorted(names, key="{}/".format)
        ]
    # what is typed stays as it is typed
    assert complete(r"SELECT * FROM 'd/it\'^") == [r"'d/it\'s a/", r"'d/it\'s/"]
    assert complete(r"SELECT * FROM 'd/it\u0027s ^") == ["a/"]
    assert complete("SELECT * FROM 'd/it's^") == []
    assert complete("SELECT * FROM 'd/it''s^") == []
    assert complete("SELECT * FROM r'd/b^") == ["r'd/b\\c/"]
    assert complete("SELECT * FROM r'd/i^") == []
    tables = Tables()
    assert complete(r"SELECT ag^ FROM 'd/it\'s'", Completer(tables)) == ["age"]
    assert complete(r'SELECT ag^ FROM "q\"t"', Completer(tables)) == ["age"]
    assert tables.requests == ["d/it's", 'q"t']


def test_names_are_read_once_between_statements() -> None:
    tables = Tables()
    completer = Completer(tables)
    for _ in range(3):
        assert complete("SELECT ag^ FROM 't'", completer) == ["age"]
        assert complete("SELECT id FROM broken WHERE ag^", completer) == []
    assert tables.requests == ["t", "broken"]
    completer.forget()
    complete("SELECT ag^ FROM 't'", completer)
    assert tables.requests == ["t", "broken", "t"]


def test_names_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    path = str(write_rows(tmp_path / "t" / "x.orc", 0, [1, 2]).parent)
    LocalConnection().table(path).create_index("by_a", "a")
    names = table_names(Connection(), path)
    assert (list(names.columns), list(names.indexes)) == (["id", "a", "s"], ["by_a"])


@pytest.mark.parametrize("table", ["s3://bucket/t", "db.t", "nowhere"])
def test_names_of_remote_tables_are_not_read(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(table)

    monkeypatch.setattr(Connection, "table", refuse)
    assert table_names(Connection(), table) == Names()


def test_a_table_that_cannot_be_read_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.orc").write_bytes(b"nothing")
    with pytest.raises(HindexError):
        table_names(Connection(), str(tmp_path))
    completer = Completer(lambda table: table_names(Connection(), table))
    assert complete(f"SELECT id^ FROM '{tmp_path}'", completer) == []


def test_every_keyword_of_help_is_known_to_its_statement() -> None:
    from hindex.sql.help import HELP

    for name, text in HELP.items():
        for keyword in re.findall(r"\b[A-Z]{2,}\b", " ".join(text.syntax).replace("[ES]", "")):
            assert keyword in complete(f"{name} x {keyword[:2]}^") or keyword == name.split()[0]


def test_fields_of_structs(tmp_path: Path) -> None:
    city = {"city": "x", "my zip": 1, "at": {"x": 1}}
    path = write_columns(tmp_path / "t" / "x.orc", {"address": pa.array([city]), "age": pa.array([1])}).parent
    completer = Completer(lambda table: table_names(Connection(), table))
    assert complete(f"SELECT address.ci^ FROM '{path}'", completer) == ["address.city"]
    assert complete(f"SELECT * FROM '{path}' WHERE address.m^", completer) == []
    names = ["address.city", "address.`my zip`", "address.at", "address.at.x"]
    assert complete(f"SELECT * FROM '{path}' WHERE address.^", completer) == names


def test_indexes_of_the_last_table() -> None:
    """An index is named before its table."""
    completer = Completer(Tables())
    assert "by_age" not in complete("DROP INDEX by_^", completer)
    completer.forget("SELECT * FROM t")
    assert complete("DROP INDEX by_^", completer) == ["by_gender", "by_age"]
