"""The messages of openLooKeng: the same words, followed by the remedy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hindex.errors import HindexError
from tests.support.local_build import LocalConnection
from tests.support.small import store_state, write_columns

MESSAGES = [
    ("DROP INDEX x ON {t}", "Index 'x' does not exist; the table's indexes are: 'g', 'some'"),
    ("SHOW INDEX x ON {t}", "Index 'x' does not exist; SHOW INDEXES lists those that do"),
    ("DESCRIBE INDEX x ON {t}", "Index 'x' does not exist; the table's indexes are: 'g', 'some'"),
    ("CHECK INDEX x ON {t}", "Index 'x' does not exist; SHOW INDEXES lists those that do"),
    ("REFRESH INDEX x ON {t}", "Index 'x' does not exist; the table's indexes are: 'g', 'some'"),
    ("ALTER INDEX x ON {t} REBUILD", "Index 'x' does not exist; the table's indexes are: 'g', 'some'"),
    ("ALTER INDEX x ON {t} RENAME TO y", "Index 'x' does not exist; the table's indexes are: 'g', 'some'"),
    ("UPDATE INDEX x", "Index 'x' does not exist in the tables used so far"),
    (
        "DROP INDEX sone ON {t}",
        "Index 'sone' does not exist; did you mean 'some'? the table's indexes are: 'g', ",
    ),
    ("SHOW INDEX sone ON {t}", "Index 'sone' does not exist; did you mean 'some'? SHOW INDEXES lists those"),
    ("UPDATE INDEX Sone", "Index 'Sone' does not exist in the tables used so far; did you mean 'some'?"),
    (
        "CREATE INDEX g USING bitmap ON {t} (s)",
        "Index 'g' already exists; drop it first, or choose another name",
    ),
    (
        "ALTER INDEX some ON {t} RENAME TO G",
        "Index 'g' already exists; drop it first, or choose another name",
    ),
    (
        "CREATE INDEX h USING bitmap ON {t} (a)",
        "Index with same (table, column, index type) already exists: 'g' on column 'a' using BITMAP; use it, or drop",
    ),
    (
        "CREATE INDEX h USING bitmap ON {empty} (a)",
        "The table is empty. No index will be created. No data files in",
    ),
    (
        "CREATE INDEX h USING bitmap ON '/no/such' (a)",
        "Table '/no/such' is invalid: no such file or directory",
    ),
    ("CREATE INDEX h USING bitmap ON {t} (nope)", "Column 'nope' cannot be resolved; "),
    (
        "CREATE INDEX h USING minmax ON {t} (s) WITH (fpp = 0.1)",
        "Unknown property 'fpp' of index type MINMAX: it has none of its own",
    ),
    (
        "CREATE INDEX h USING bitmap ON {t} (s) WHERE s = 'x'",
        (
            "index creation is only supported for predicates on partition columns: 's' is not a partition column "
            "(partition columns: p)"
        ),
    ),
    (
        "CREATE INDEX h USING bitmap ON {t} (s) WHERE p = 1 OR id = 2",
        (
            "index creation is only supported for predicates on partition columns: 'id' is not a partition column "
            "(partition columns: p)"
        ),
    ),
    (
        "DROP INDEX g ON {t} WHERE p = 1",
        "Index 'g' was not created with explicit partitions. Partial drop by partition is not supported. Drop it whole",
    ),
    (
        "DROP INDEX some ON {t} WHERE p IN (1, 3)",
        "Index 'some' does not contain partitions: p = 3; it covers p IN (1, 2)",
    ),
    (
        "DROP INDEX some ON {t} WHERE p = 'x'",
        "cannot evaluate p = 'x': the literal 'x' cannot be cast to bigint, as Spark would to compare it",
    ),
    (
        "DROP INDEX some ON {t} WHERE p IS NULL",
        "Index 'some' does not contain partitions: p IS NULL; it covers p IN (1, 2)",
    ),
    (
        "CREATE INDEX h USING bitmap ON {nested} (l)",
        "Column 'l' is of type array<bigint>, which BITMAP cannot index",
    ),
    (
        "CREATE INDEX h USING bitmap ON {nested} (st)",
        "Column 'st' is of type struct<x:bigint>, which BITMAP cannot index",
    ),
    (
        "CREATE INDEX h USING blom ON {t} (a)",
        "Unknown index type 'blom': did you mean BLOOM? known types are",
    ),
    (
        "CREATE INDEX h USING bloom ON {t} (a) WITH ('bloom.fp' = 1)",
        "Unknown property 'bloom.fp' of index type BLOOM: did you mean 'fpp'? known properties are fpp",
    ),
    ("CREATE INDEX h USING nonsense ON {t} (a)", "Unknown index type 'nonsense': known types are B"),
    ("CREATE INDEX h USING bitmap ON {t} (a", "syntax error at line 1, column "),
]


@pytest.fixture
def places(tmp_path: Path, path: Path, hx: LocalConnection) -> dict[str, str]:
    hx.sql(f"CREATE INDEX g USING bitmap ON '{path}' (a)")
    hx.sql(f"CREATE INDEX some USING bitmap ON '{path}' (a) WHERE p IN (1, 2)")
    (tmp_path / "empty").mkdir()
    (tmp_path / "nested").mkdir()
    columns = {
        "l": pa.array([[1]], pa.list_(pa.int64())),
        "st": pa.array([{"x": 1}], pa.struct([("x", pa.int64())])),
    }
    write_columns(tmp_path / "nested" / "x.orc", columns)
    return {"t": f"'{path}'", "empty": f"'{tmp_path / 'empty'}'", "nested": f"'{tmp_path / 'nested'}'"}


def test_messages(places: dict[str, str], path: Path, hx: LocalConnection) -> None:
    before = store_state(hx.table(str(path)))
    wrong = []
    for statement, message in MESSAGES:
        with pytest.raises(HindexError) as caught:
            hx.sql(statement.format(**places))
        message_text = str(caught.value)
        if not message_text.startswith(message):
            wrong.append(f"{statement}\n  expected {message}\n  was      {message_text}")
    assert not wrong, "\n".join(wrong)
    assert store_state(hx.table(str(path))) == before


def test_a_syntax_error_marks_its_place(hx: LocalConnection) -> None:
    with pytest.raises(HindexError) as caught:
        hx.sql("ALTER INDEX g ON t REBUIL")
    summary, text, caret = str(caught.value).splitlines()
    assert summary.endswith("expected PARTITION, REBUILD or RENAME, found 'REBUIL'; did you mean REBUILD?")
    assert text[caret.index("^") :] == "REBUIL"
