"""Names of other libraries: one error that says what is written here, which Python takes for a missing attribute."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hindex
from hindex.api.attribute_hints import CONNECTION_NAMES, RESULT_NAMES, SCAN_NAMES, TABLE_NAMES
from hindex.api.scan import Scan
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
    ("of", "name", "told"),
    [
        (
            "scan",
            "filter",
            "a scan has no 'filter': its condition is given to the table: table.scan(where=\"a > 1\")",
        ),
        ("scan", "where", "a scan has no 'where': its condition is given to the table"),
        ("scan", "select", "a scan has no 'select': its columns are named to the table"),
        ("scan", "limit", "a scan has no 'limit': table.scan(limit=10) has a limit, and .head(10) gives"),
        ("scan", "toPandas", "a scan has no 'toPandas': did you mean 'to_pandas'? there are aggregate, "),
        ("scan", "groupBy", "a scan has no 'groupBy': .value_counts(column) counts the rows of each value"),
        (
            "scan",
            "collect",
            "a scan has no 'collect': .to_arrow(), .to_batches() and .to_pandas() give the rows",
        ),
        ("scan", "nonsense", "a scan has no 'nonsense': there are aggregate, "),
        ("table", "filter", "a table has no 'filter': its rows are those of a scan: table.scan(where="),
        ("table", "to_pandas", "a table has no 'to_pandas': table.scan().to_pandas is there"),
        ("table", "count", "a table has no 'count': table.scan().count is there"),
        ("table", "creat_index", "a table has no 'creat_index': did you mean 'create_index'? there are "),
        ("hx", "execute", "a connection has no 'execute': .sql(text) runs a statement"),
        ("hx", "load_table", "a connection has no 'load_table': .table(name) is a table by its path"),
        ("hx", "create_index", "a connection has no 'create_index': hx.table(name).create_index is there"),
    ],
)
def test_names_of_other_libraries(hx: hindex.Connection, table: Table, of: str, name: str, told: str) -> None:
    given: Any = {"scan": table.scan("a = 2", ["id"], 1), "table": table, "hx": hx}[of]
    with pytest.raises(HindexError) as caught:
        # no matter what it is called with
        getattr(given, name)("a > 1")
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)
    assert type(caught.value) is UnknownNameError
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(given, name)


def test_remedies_are_there() -> None:
    """What is named in the place of another name exists, and does not have that name itself."""
    for names, kind, scan in (
        (SCAN_NAMES, Scan, Scan),
        (RESULT_NAMES, hindex.QueryResult, None),
        (TABLE_NAMES, Table, Scan),
        (CONNECTION_NAMES, hindex.Connection, None),
    ):
        for name, remedy in names.items():
            assert name == name.lower().replace("_", "")
            assert name not in {known.replace("_", "") for known in dir(kind) if known[0] != "_"}
            for method in re.findall(r"(?<![\w)])\.(\w+)\(", remedy):
                assert hasattr(kind, method) or hasattr(scan, method), remedy
            assert "table.scan(" not in remedy or hasattr(Table, "scan")


def test_what_looks_for_protocols_finds_those_that_there_are(hx: hindex.Connection, table: Table) -> None:
    scan = table.scan("a = 2", ["id"])
    for given in (scan, table, hx):
        assert not any(
            hasattr(given, name) for name in ("__array__", "__iter__", "_repr_png_", "_ipython_display_")
        )
        assert getattr(given, "no_such_name", 5) == 5
    assert pa.table(scan).to_pylist() == [{"id": 1}]
    assert pd.DataFrame.from_arrow(scan).values.tolist() == [[1]]
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
    for name, told in (
        ("conect", "module 'hindex' has no attribute 'conect'; did you mean 'connect'?"),
        ("read_orc", "module 'hindex' has no attribute 'read_orc'"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(hindex, name)
        assert str(caught.value) == told
