"""The indexes of a table in notebooks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api.index_statements import SHOW_INDEXES_SCHEMA
from hindex.api.statement_table import StatementTable
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


def test_statements_are_html_tables_and_arrow_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    path = write_rows(tmp_path / "t<b>" / "p=1" / "x.orc", 1, [1, 2]).parents[1]
    hx = LocalConnection()
    hx.table(str(path)).create_index("<by_a>", "a")
    shown = hx.sql(f"SHOW  INDEXES ON '{path}'")
    assert isinstance(shown, StatementTable)
    html = shown._repr_html_()
    names = ("name", "table", "column", "type", "status", "size_bytes")
    assert f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>" in html
    assert f"<code>SHOW INDEXES ON &#x27;{str(path).replace('<b>', '&lt;b&gt;')}&#x27;</code>" in html
    assert "<td>&lt;by_a&gt;</td>" in html
    assert repr(shown).splitlines()[1].split("|")[1:-1] == [
        name.ljust(len(cell))
        for name, cell in zip(names, repr(shown).splitlines()[1].split("|")[1:-1], strict=True)
    ]
    # every column, by the methods of an Arrow table
    assert shown.column_names == SHOW_INDEXES_SCHEMA.names
    assert shown.to_arrow().equals(pa.table(shown))
    assert shown["name"].to_pylist() == shown.column("name").to_pylist() == ["<by_a>"]
    assert len(shown) == shown.num_rows == 1
    assert pickle.loads(pickle.dumps(shown)).to_pylist() == shown.to_pylist()
    with pytest.raises(AttributeError, match="nope"):
        shown.nope  # noqa: B018
    hx.sql(f"CREATE INDEX part USING bloom ON '{path}' (a) WHERE p = 1")
    assert "<th>partitions</th>" in hx.sql("SHOW INDEXES")._repr_html_()  # type: ignore[union-attr]
    described = hx.sql(f"DESCRIBE INDEX `<by_a>` ON '{path}'")._repr_html_()  # type: ignore[union-attr]
    assert "22 rows, 2 columns" in described
    table = hx.sql(f"DESCRIBE '{path}'")._repr_html_()  # type: ignore[union-attr]
    assert "<td># Partition Information</td>" in table
    assert "7 rows, 3 columns" in table
