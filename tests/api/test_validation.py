"""Arguments that cannot be: errors of hindex's family, which are those of Python too, before anything is done."""

from __future__ import annotations

import datetime
import io
import json
import os
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

import hindex
from hindex.aggregate.aggregation import Aggregate, Group
from hindex.api.table import Table
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    ColumnError,
    HindexError,
    PredicateError,
    StatementError,
    TableError,
)
from hindex.orc import OrcReader
from hindex.sql.statements import AggregateFunction
from hindex.validation import is_session
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import store_state, write_rows

# of no types: what is wrong is passed on purpose
connect: Callable[..., Any] = hindex.connect
col: Callable[..., Any] = hindex.col
lit: Callable[..., Any] = hindex.lit
call: Callable[..., Any] = hindex.call
opened: Callable[..., Any] = OrcReader
aggregate: Callable[..., Any] = Aggregate
group: Callable[..., Any] = Group
_SESSION = "pass a Spark session, such as SparkSession.builder.getOrCreate() gives"
_ITEMS = "pass a list of hindex.aggregate.aggregation.Aggregate and Group, one for each column of the result"
_NO_NAME = "the name of an index is 5: pass a string such as 'by_id'"
_VALID = "the list of valid write ids 5 cannot be read: it is not a string; write table:highWatermark:"


def test_texts_that_are_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command line makes them of bytes that are none."""
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "x.orc", 0, [1, 2])
    hx = LocalConnection()
    table = hx.table(str(tmp_path / "t"))
    with raises(ArgumentError):
        table.create_index("a\udcff", "a")
    with raises(ArgumentError):
        table.create_index("a", "a", comment="\udcff")
    with raises(StatementError):
        hx.sql(f"CREATE INDEX `\udcff` USING bitmap ON '{tmp_path}/t' (a)")
    assert table.indexes() == []


class _Session:
    def sql(self) -> None: ...

    def table(self) -> None: ...

    def createDataFrame(self) -> None: ...  # noqa: N802 the name that PySpark gave it


CASES: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda t: t.scan(limit=-1), ValueError, "limit is -1: it cannot be negative"),
    (lambda t: t.scan(limit="5"), ValueError, "limit is '5': pass a whole number, such as 10"),
    (lambda t: t.scan(limit=True), ValueError, "limit is True: pass a whole number, such as 10"),
    (lambda t: t.scan(limit=1.5), ValueError, "limit is 1.5: pass a whole number, such as 10"),
    (
        lambda t: t.scan(columns=col("id")),
        ColumnError,
        "columns is a list of names, such as ['a', 'b'], not Expr(id)",
    ),
    (
        lambda t: t.scan(columns=[col("id")]),
        ColumnError,
        "Expr(id) is not a column: pass a name as a string, or",
    ),
    (
        lambda t: t.scan(columns=[pc.field("id")]),
        ColumnError,
        "<pyarrow.compute.Expression id> is not a column",
    ),
    (
        lambda t: t.scan(columns=[["id", "a"]]).to_arrow(),
        ColumnError,
        "Column 'id.a' cannot be resolved: id is of type bigint, which has no fields; name several columns one",
    ),
    (
        lambda t: t.scan([("a", "=", 1)]),
        PredicateError,
        "[('a', '=', 1)] of type list is not a condition: give SQL",
    ),
    (
        lambda t: t.scan(pd.Series([True, False])),
        PredicateError,
        "0 True 1 False dtype: bool of type Series is not",
    ),
    (
        lambda _: col("a") == pd.Series([1, 2]),
        TypeError,
        "0 1 1 2 dtype: int64 of type Series is not a value of SQL",
    ),
    (lambda t: t.scan("SELECT * FROM t"), StatementError, "syntax error at line 1, column 1: "),
    (lambda t: t.scan(""), StatementError, "syntax error at line 1, column 1: expected a predicate, found"),
    (
        lambda t: t.scan().head(True),
        ValueError,
        "the number of rows is True: pass a whole number, such as 10",
    ),
    (lambda t: t.scan().head(1.5), ValueError, "the number of rows is 1.5: pass a whole number, such as 10"),
    (lambda t: t.scan(mode=5), HindexError, "Unknown mode 5: it is lenient, strict, prove"),
    (lambda t: t.scan(valid_write_ids=5), TableError, _VALID),
    (
        lambda t: t.scan(limit=5).min("id"),
        ValueError,
        "a scan with a limit has no aggregates but the count of its rows: leave the limit out",
    ),
    (
        lambda _: connect().table(5),
        TypeError,
        "name is 5: pass a path or URI as text, or a pathlib.Path",
    ),
    (
        lambda _: connect(store=5),
        TypeError,
        "store is 5: pass a path or URI as text, or a pathlib.Path",
    ),
    (lambda _: connect(store="s3:/b/x"), ValueError, "store is 's3:/b/x': write 's3://b/x'"),
    (lambda _: connect(store="hdfs:/user/x"), ValueError, "store is 'hdfs:/user/x': write 'hdfs:///user/x'"),
    (lambda _: connect(spark="x"), TypeError, f"spark is 'x': {_SESSION}"),
    (lambda _: connect(spark=_Session), TypeError, f"spark is {_Session!r}: {_SESSION}"),
    (lambda _: connect(master=5), TypeError, "master is 5: pass a string such as 'local[*]'"),
    (
        lambda _: connect(conf=["a"]),
        TypeError,
        "conf is ['a']: it is settings by name, such as {'spark.",
    ),
    (
        lambda _: connect(cache_bytes="x"),
        TypeError,
        "cache_bytes is 'x': pass a whole number of bytes",
    ),
    (lambda _: connect(cache_bytes=True), TypeError, "cache_bytes is True: pass a whole number of bytes"),
    (lambda _: connect(cache_bytes=-1), ValueError, "cache_bytes is -1: it cannot be negative"),
    (lambda _: connect(valid_write_ids=5), TableError, _VALID),
    (lambda t: t.create_index(5, "id"), TypeError, _NO_NAME),
    (lambda t: t.create_index("i", "id", 5), TypeError, "using is 5: pass a string such as 'bitmap'"),
    (
        lambda t: t.create_index("i", "id", properties=5),
        TypeError,
        "properties is 5: pass a mapping of names to strings",
    ),
    (
        lambda t: t.create_index("i", "id", properties={"level": 5}),
        ValueError,
        "Index type BITMAP has no level '5': its levels are STRIPE",
    ),
    (
        lambda t: t.create_index("i", "id", annotations={5: "x"}),
        TypeError,
        "a name in annotations is 5: pass a string such as '5'",
    ),
    (lambda t: t.create_indexes(5), TypeError, "specs is 5: pass a list of hindex.IndexSpec"),
    (lambda t: t.create_indexes(["i"]), TypeError, "specs is ['i']: pass a list of hindex.IndexSpec"),
    (lambda t: t.create_indexes(hindex.IndexSpec("i", "id")), TypeError, "specs is IndexSpec(name='i', "),
    (lambda t: t.index(5), TypeError, _NO_NAME),
    (lambda t: t.drop_index(5), TypeError, _NO_NAME),
    (lambda t: t.rename_index("by_a", 5), TypeError, _NO_NAME),
    (lambda t: t.rename_index(5, "x"), TypeError, _NO_NAME),
    (lambda t: t.rebuild_index(5), TypeError, _NO_NAME),
    (
        lambda t: t.refresh_indexes("by_a"),
        TypeError,
        "names is 'by_a': pass a list of names, such as ['by_a']",
    ),
    (lambda t: t.refresh_indexes([5]), TypeError, "a name in names is 5: pass a string such as '5'"),
    (
        lambda t: t.check_indexes("by_a"),
        TypeError,
        "names is 'by_a': pass a list of names, such as ['by_a']",
    ),
    (lambda t: t.check_indexes(5), TypeError, "names is 5: pass a list of names, such as ['5']"),
    (
        lambda t: t.vacuum(retain_hours=True),
        ValueError,
        "retain_hours is True: pass a number of hours, such as 168",
    ),
    (lambda t: t.vacuum(retain_hours=-1), ValueError, "retain_hours is -1: it cannot be negative"),
    (
        lambda t: t.vacuum(retain_hours="x"),
        ValueError,
        "retain_hours is 'x': pass a number of hours, such as 168",
    ),
    (
        lambda t: t.vacuum(retain_hours=float("nan")),
        ValueError,
        "retain_hours is nan: pass a number of hours, such as 168",
    ),
    (lambda _: col(5), TypeError, "col takes a string, not 5"),
    (lambda _: col("a..b"), ValueError, "'a..b' is not the name of a column; put a step with dots"),
    (
        lambda _: bool(col("a") == 1),
        TypeError,
        "a = 1 is a condition, neither true nor false in Python: write &",
    ),
    (lambda _: col("a").isin(), ValueError, "isin of a needs at least one value"),
    (lambda _: (col("a") == 1) & 5, ValueError, "expected a condition, found the literal 5: & | ~ bind"),
    (lambda _: lit(5).predicate, ValueError, "expected a condition, found the literal 5"),
    (
        lambda t: t.scan(lit(5)),
        PredicateError,
        "expected a condition, found the literal 5: compare it",
    ),
    (lambda _: lit(object()), TypeError, "<object object at "),
    (lambda _: lit(Decimal("NaN")), TypeError, "NaN is not a decimal of SQL; use a float"),
    (
        lambda _: lit(datetime.timedelta(1)),
        TypeError,
        "datetime.timedelta(days=1) of type timedelta is",
    ),
    (lambda _: call("nosuch", 1), ValueError, "unsupported function nosuch; "),
    (lambda _: call("abs"), ValueError, "unsupported function abs of 0 arguments, it takes 1"),
    (lambda _: call(5), TypeError, "call takes a string, not 5"),
    (lambda _: col("a").cast("nosuch"), ValueError, "'NOSUCH' is not a type to cast to: "),
    (lambda t: reader(t).read(rows=[3]), ValueError, "row 3 is outside the file's 3 rows"),
    (lambda t: reader(t).read(rows=5), ValueError, "rows is 5: pass a list of row numbers, such as [0, 5]"),
    (lambda t: reader(t).read(rows=[True]), ValueError, "rows are row numbers, not a mask: "),
    (lambda t: reader(t).read(rows={0: [7]}), ValueError, "row 7 is outside the stripe's 3 rows"),
    (lambda t: reader(t).read(rows={5: [1]}), ValueError, "stripe 5 is outside the file's 1 stripes"),
    (lambda _: opened(5), TypeError, "an ORC file is read from a path, a URI, or a pair of a file system"),
    (
        lambda _: opened(io.BytesIO(b"ORC")),
        TypeError,
        "an ORC file is read from a path, a URI, or a pair of a file system and a path, not from <_io.BytesIO",
    ),
    (lambda t: opened((t.uri,)), TypeError, "an ORC file is read from a path, a URI, or a pair of a file"),
    (lambda t: opened((5, t.uri)), TypeError, "a file system is one of pyarrow.fs or of fsspec, not 5"),
    (lambda t: t.scan().to_spark(5), TypeError, f"spark is 5: {_SESSION}"),
    (lambda t: t.scan().aggregate(5), TypeError, f"items is 5: {_ITEMS}"),
    (lambda t: t.scan().aggregate(["id"]), TypeError, f"items is ['id']: {_ITEMS}"),
    (
        lambda t: t.scan().aggregate([], "id", having="count > 1"),
        TypeError,
        "having is 'count > 1': pass a hindex.aggregate.aggregation.GroupFilter",
    ),
    (
        lambda _: aggregate("count", "id", "n"),
        TypeError,
        "function is 'count': it is one of AggregateFunction.COUNT,",
    ),
    (lambda _: aggregate(AggregateFunction.MIN, "id", 5), TypeError, "name is 5: pass a string such as 'n'"),
    (lambda _: group("id", None), TypeError, "name is None: pass a string such as 'n'"),
    (lambda t: reader(t).batches(batch_size=0), ValueError, "a batch has at least 1 row, not 0"),
]


def reader(table: Table) -> OrcReader:
    return OrcReader(os.path.join(table.uri, "x.orc"))  # noqa: PTH118


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "x.orc", 0, [1, 2, 3])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a")
    return table


def test_invalid_arguments_are_errors_and_change_nothing(table: Table) -> None:
    before = store_state(table)
    wrong = []
    for number, (run, kind, message) in enumerate(CASES):
        with pytest.raises(HindexError) as caught:
            run(table)
        if not isinstance(caught.value, kind) or not str(caught.value).startswith(message):
            wrong.append(f"{number}: expected {kind.__name__}: {message}\n  was {caught.value!r}")
    assert not wrong, "\n".join(wrong)
    assert store_state(table) == before
    assert table.scan("a = 2").count() == 1


def test_the_errors_are_those_of_python_too() -> None:
    for kind, base in ((ArgumentError, ValueError), (ArgumentTypeError, TypeError)):
        error = pickle.loads(pickle.dumps(kind("x")))
        assert type(error) is kind
        assert isinstance(error, HindexError)
        assert isinstance(error, base)


def test_a_session_is_recognized_by_its_methods() -> None:
    """Of whatever class: a session of Spark Connect has another than a classic one."""
    assert is_session(_Session())
    assert not any(map(is_session, (_Session, "x", None, 5, object())))
    assert repr(connect(spark=_Session())) == "Connection(store=None, spark='Spark Connect')"


def test_limits_of_numpy_are_plain_numbers(table: Table) -> None:
    two: Any = np.int64(2)
    items = [Aggregate(AggregateFunction.COUNT, None, "n")]
    for requests in (table.scan(limit=two), table.scan().aggregate(items, "a", two)):
        assert requests.to_arrow().num_rows == 2
        assert json.loads(json.dumps(requests.explain(analyze=True).to_json()))["limit"] == 2
    assert table.scan(limit=3).head(two).num_rows == 2


def test_names_and_places_of_a_table(table: Table) -> None:
    assert table.columns == ("id", "a", "s")
    assert repr(table) == f"Table({table.uri!r})"
    named = Table(LocalConnection(), "t", table.uri, table._store)
    assert repr(named) == f"Table('t', uri={table.uri!r})"
    assert repr(named.scan("a = 2", ["id"], 3)) == "Scan(SELECT id FROM 't' WHERE a = 2 LIMIT 3)"
    assert repr(named.scan().narrowed(None, ["a"], None)) == "Scan(SELECT a FROM 't')"
