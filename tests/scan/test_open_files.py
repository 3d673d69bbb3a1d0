"""Scans of tables with many files close their index files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hindex.index import page_cache
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns
from tests.support.work import forget

FILES = 30


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed by Linux")
def test_index_files_do_not_stay_open(
    tmp_path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FILES):
        write_columns(tmp_path / "t" / f"{number:02}.orc", {"n": pa.array([3 * number, 3 * number + 1])})
    table = connection.table(tmp_path / "t")
    table.create_index("by_n", "n")
    monkeypatch.setattr(page_cache, "MAX_FILES", 4)
    forget()
    keys = [3 * number for number in range(FILES)]
    for _ in range(2):
        assert table.scan(f"n IN ({', '.join(map(str, keys))})").to_arrow().column("n").to_pylist() == keys
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        # tables of other tests may be open in this process
        open_files = [link for link in links if link.suffix == ".hidx" and tmp_path in link.parents]
        assert 0 < len(open_files) <= 4
