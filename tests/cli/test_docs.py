"""The session of the pages on statements, one after the other: what each prints is what the page says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.cli.main import Context, report
from hindex.errors import HindexError
from tests.support import local_build
from tests.support.local_build import LocalConnection

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("sql-indexes.md", "sql-maintenance.md")
USERS = Path("data/users")
FILE_ROWS = 250_000

#: What differs from run to run: times, users, and sizes, which are those of another table.
_CHANGING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d[\d,.]* (bytes?|[kM]B)", "SIZE"),
    (r"(?m)^(size_bytes\s+│ )\d+$", r"\1N"),
    (r"(?m)^(creator\s+│ ).*$", r"\1USER"),
    (r"│ +\d{4,}\b", "│ N"),
    (r"(│ (?:string|int|bigint)\s+│) [^│]+ (│ TIME)", r"\1 USER \2"),
    (r"─+", "─"),
    (r" +", " "),
)


def write_partition(region: str, year: int) -> None:
    path = USERS / f"region={region}" / f"year={year}" / "part-0.orc"
    path.parent.mkdir(parents=True)
    ids = range(FILE_ROWS)
    users = {
        "id": pa.array(ids, pa.int64()),
        "gender": pa.array(["F", "M"] * (FILE_ROWS // 2)),
        "age": pa.array([i % 80 for i in ids], pa.int32()),
    }
    pyarrow.orc.write_table(pa.table(users), path, compression="zstd")


def replace_partition(old: str, region: str, year: int) -> None:
    shutil.rmtree(USERS / old)
    write_partition(region, year)


#: What the page says in a sentence before a statement.
BEFORE: dict[str, Callable[[], None]] = {
    "REFRESH INDEXES ON 'data/users' WHERE year = 2025 DRY RUN;": lambda: replace_partition(
        "region=US/year=2024", "EU", 2025
    ),
    "CHECK INDEXES ON 'data/users';": lambda: replace_partition("region=US/year=2023", "US", 2025),
}


def steady(text: str) -> list[str]:
    for pattern, name in _CHANGING:
        text = re.sub(pattern, name, text)
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join((DOCS / page).read_text("utf-8") for page in PAGES)
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    session = [item.partition("\n") for block in blocks for item in re.split("(?m)^hindex> ", block) if item]
    assert len(session) > 20
    assert BEFORE.keys() <= {statement for statement, _, _ in session}
    local_build.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for region in ("EU", "US"):
        for year in (2023, 2024):
            write_partition(region, year)
    context = Context(_connection=LocalConnection())
    for statement, _, output in session:
        BEFORE.get(statement, lambda: None)()
        try:
            context.execute(statement)
        except HindexError as error:
            report(error)
        assert steady("".join(capsys.readouterr())) == steady(output), statement
