"""Index files of every released version of the format answer as they did when they were written."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from hindex.domain import Domain
from hindex.index.index_file import VERSION, IndexFileReader
from hindex.orc.io.source import LocalSource
from tests.index.fixture_files import COLUMNS, DIRECTORY, make
from tests.index.support import FILE_TYPES, TYPES, key_of, open_index

FILES = sorted(DIRECTORY.glob("*/*.hidx"))


def test_every_type_and_version_has_its_files() -> None:
    names = {file.relative_to(DIRECTORY).with_suffix("").as_posix() for file in FILES}
    assert {
        f"v{version}/{using.lower()}-{name}"
        for version, using, name in product(range(1, VERSION + 1), FILE_TYPES, COLUMNS)
    } <= names


@pytest.mark.parametrize(
    "path",
    [file for file in FILES if file.stem.split("-")[0].upper() in FILE_TYPES],
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_what_a_file_says(path: Path) -> None:
    using, name = path.stem.split("-")
    data_type = TYPES[name]
    reader = open_index(path.read_bytes())
    footer = IndexFileReader(LocalSource(path)).footer
    assert (footer.index_type, footer.column, footer.column_type) == (using.upper(), "c", str(data_type))
    assert footer.metadata == {"data_file": "part-0.orc", "length": "123"}
    # of this version's reader, a file that is written now says the same
    now = open_index(make(using.upper(), name))
    columns = COLUMNS[name]
    assert reader.stripe_rows == tuple(map(len, columns))
    for stripe, column in enumerate(columns):
        keys = [None if value is None else key_of(data_type, value) for value in column]
        distinct = sorted({key for key in keys if key is not None})
        domains = [Domain.points([key]) for key in distinct]
        domains += [Domain.between(low, high) for low, high in product(distinct, distinct)]
        domains += [Domain.only_null(), Domain.not_null(), Domain.points(distinct[:1], null_allowed=True)]
        for domain in domains:
            bounds = reader.lookup(stripe, domain)
            true = {row for row, key in enumerate(keys) if domain.contains(key)}
            assert set(bounds.lower) <= true <= set(bounds.upper)
            assert using != "bitmap" or bounds.exact
            assert bounds == now.lookup(stripe, domain)
