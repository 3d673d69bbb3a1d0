"""BTREE index files as a released version wrote them; ``python -m tests.index.btree_fixtures`` makes this version's.

As with those of `tests.index.fixture_files`, never make the files of a released version again.
"""

from __future__ import annotations

from hindex.index.index_file import VERSION
from tests.index.btree_support import ModelFile, build
from tests.index.fixture_files import COLUMNS, DIRECTORY, ROW_GROUP_ROWS
from tests.index.support import TYPES


def files(name: str) -> list[ModelFile]:
    """The same column in two data files, one with a row index and one without."""
    return [ModelFile("p=1/a.orc", ROW_GROUP_ROWS, COLUMNS[name]), ModelFile("p=2/b.orc", 0, COLUMNS[name])]


def main() -> None:
    for name in COLUMNS:
        path = DIRECTORY / f"v{VERSION}" / f"btree-{name}.hidx"
        path.write_bytes(build(TYPES[name], files(name), values_per_page=3)[0])


if __name__ == "__main__":
    main()
