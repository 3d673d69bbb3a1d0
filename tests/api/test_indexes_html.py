"""The indexes of a table in notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows


def test_indexes_are_an_html_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "x.orc", 1, [1, 2])
    table = LocalConnection().table(str(tmp_path / "t"))
    assert "0 rows" in table.indexes()._repr_html_()
    for column in ("a", "s", "id"):
        for using in ("bitmap", "bloom", "minmax", "btree"):
            table.create_index(f"<{using}_{column}>", column, using=using)
    html = table.indexes()._repr_html_()
    names = ("name", "column", "type", "status", "size_bytes")
    assert f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>" in html
    assert "<td>&lt;minmax_id&gt;</td><td>id</td><td>MINMAX</td><td>fresh</td>" in html
    assert "12 rows, 5 columns" in html
