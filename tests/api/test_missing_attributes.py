"""Missing attributes: an AttributeError with the nearest name, or the counterpart of another library's."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import Table
from hindex.errors import HindexError, UnknownNameError
from tests.support.small import write_rows


@pytest.fixture
def hx() -> hindex.Connection:
    return hindex.connect()


@pytest.fixture
def table(hx: hindex.Connection, tmp_path: Path) -> Table:
    write_rows(tmp_path / "t" / "x.orc", 0, [1, 2, 3])
    return hx.table(tmp_path / "t")


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("scan", "toPandas", "a scan has no 'toPandas': did you mean 'to_pandas'?"),
        ("scan", "groupBy", "a scan has no 'groupBy': did you mean 'value_counts'?"),
        ("scan", "collect", "a scan has no 'collect': did you mean 'to_arrow'?"),
        ("scan", "columns", "a scan has no 'columns': did you mean 'schema'?"),
        ("scan", "to_polars", "a scan has no 'to_polars': did you mean 'to_arrow'?"),
        ("scan", "xyzzy", "a scan has no 'xyzzy': it has aggregate, "),
        ("table", "to_pandas", "a table has no 'to_pandas': use table.scan().to_pandas"),
        ("table", "count", "a table has no 'count': use table.scan().count"),
        ("table", "creat_index", "a table has no 'creat_index': did you mean 'create_index'?"),
        ("table", "location", "a table has no 'location': did you mean 'uri'?"),
        ("hx", "execute", "a connection has no 'execute': did you mean 'sql'?"),
        ("hx", "load", "a connection has no 'load': did you mean 'table'?"),
        ("hx", "create_index", "a connection has no 'create_index': use hx.table(name).create_index"),
    ],
)
def test_missing_attribute(hx: hindex.Connection, table: Table, source: str, name: str, message: str) -> None:
    argument: Any = {"scan": table.scan("a = 2", ["id"], 1), "table": table, "hx": hx}[source]
    with pytest.raises(HindexError) as caught:
        # no matter what it is called with
        getattr(argument, name)("a > 1")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not message.endswith("?") or str(caught.value) == message
    assert type(caught.value) is UnknownNameError
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(argument, name)


def test_protocols_are_looked_up_without_suggestions(hx: hindex.Connection, table: Table) -> None:
    scan = table.scan("a = 2", ["id"])
    for argument in (scan, table, hx):
        assert not any(
            hasattr(argument, name) for name in ("__array__", "__len__", "_repr_png_", "_ipython_display_")
        )
        assert getattr(argument, "no_such_name", 5) == 5
    assert pa.table(scan).to_pylist() == [{"id": 1}]
    assert repr(copy.copy(scan)) == repr(scan)
    error = pickle.loads(pickle.dumps(UnknownNameError("x")))
    assert (type(error), str(error)) == (UnknownNameError, "x")


def test_an_error_of_a_property_is_its_own(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Table) -> None:
        raise AttributeError("of something else")

    monkeypatch.setattr(Table, "columns", property(broken))
    with pytest.raises(AttributeError, match=r"^of something else$"):
        table.columns  # noqa: B018


def test_names_of_the_package() -> None:
    for name, message in (
        ("conect", "module 'hindex' has no attribute 'conect'; did you mean 'connect'?"),
        ("read_orc", "module 'hindex' has no attribute 'read_orc'"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(hindex, name)
        assert str(caught.value) == message
