"""Names of columns and fields, with dots, blanks and letters of other scripts, mean what they mean to Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Aggregate, Group
from hindex.api.table import Table
from hindex.errors import ColumnError
from hindex.plan.order import Order
from hindex.sql.statements import AggregateFunction
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 60
#: What can be indexed and compared, as SQL has it.
NAMES = (
    "`x.y`",
    "a.b",
    "`s.t`.u",
    "`s.t`.`V w`",
    "`c d`",
    "`größe`",
    "A.`ß`",
    "Upper",
    "`select`",
)

#: The same in other letter case.
OTHERS = ("upper", "`C D`", "`S.T`.U")

QUERIES = [
    "SELECT {0} FROM {1}",
    "SELECT n, {0} AS v FROM {1} WHERE {0} = 3",
    "SELECT n FROM {1} WHERE {0} IS NULL OR {0} > 4",
    "SELECT COUNT({0}), COUNT(DISTINCT {0}), MIN({0}), MAX({0}) FROM {1}",
    "SELECT {0}, COUNT(*) FROM {1} GROUP BY {0}",
    "SELECT {0} AS v, COUNT(*) FROM {1} GROUP BY {0} HAVING {0} > 2 OR COUNT({0}) = 0",
    "SELECT DISTINCT {0} FROM {1}",
    "SELECT {0} FROM {1} ORDER BY {0} LIMIT 17",
    "SELECT {0}, `x.y` FROM {1} WHERE {0} < 3",
]


def numbers(step: int) -> list[int | None]:
    return [None if row % 11 == step else row * step % 7 for row in range(ROWS)]


def columns() -> dict[str, pa.Array]:
    def struct(**fields: list[int | None]) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(v, pa.int32()) for v in fields.values()], list(fields))

    return {
        "n": pa.array(range(ROWS), pa.int64()),
        "x.y": pa.array(numbers(2), pa.int32()),
        "a": struct(b=numbers(3), ß=numbers(4)),
        "s.t": struct(**{"u": numbers(5), "V w": numbers(1)}),
        "c d": pa.array(numbers(6), pa.int32()),
        "größe": pa.array(numbers(2)[::-1], pa.int32()),
        "Upper": pa.array(numbers(4)[::-1], pa.int32()),
        "select": pa.array(numbers(5)[::-1], pa.int32()),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "t"
    write_columns(path / "0.orc", columns())
    return path


def rows(result: Any) -> Counter[str]:
    """Rows as Spark shows structs of their values, and how often each is there."""
    table = result.to_arrow()
    values = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Counter(
        f"{{{', '.join('null' if value is None else str(value) for value in row)}}}" for row in values
    )


@pytest.fixture(scope="module")
def answers(path: Path, spark: SparkSession) -> dict[str, list[Counter[str]]]:
    """Return Spark's answers to the queries of each name."""
    result = {}
    for name in (*NAMES, *OTHERS):
        texts = (query.format(name, f"orc.`{path}`") for query in QUERIES)
        every = " UNION ALL ".join(
            f"SELECT {at} AS number, CAST(struct(*) AS STRING) AS row FROM ({text})"
            for at, text in enumerate(texts)
        )
        counts = [Counter[str]() for _ in QUERIES]
        for number, row in spark.sql(every).collect():
            counts[number][row] += 1
        result[name] = counts
    return result


@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
def test_names_mean_the_same_columns_as_in_spark(
    is_indexed: bool,
    path: Path,
    answers: dict[str, list[Counter[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_build.install(monkeypatch)
    hx: Any = LocalConnection(store=str(tmp_path / "store"))
    if is_indexed:
        for at, name in enumerate(NAMES):
            hx.sql(f"CREATE INDEX i{at} USING bitmap ON '{path}' ({name})")
        assert [index.status for index in hx.table(str(path)).indexes()] == ["fresh"] * len(NAMES)
    for name, expected in answers.items():
        for query, answer in zip(QUERIES, expected, strict=True):
            text = query.format(name, f"'{path}'")
            assert rows(hx.sql(text)) == answer, text
            assert answer, text
        if is_indexed:
            for query in ("SELECT n FROM '{1}' WHERE {0} = 3", "SELECT COUNT(DISTINCT {0}) FROM '{1}'"):
                explained = hx.sql(f"EXPLAIN {query.format(name, path)}")
                assert explained.exact, name
                assert explained.notes == (), name


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("x.y", r"did you mean `x\.y`\?"),
        ("`a.b`", r"did you mean a\.b\?"),
        ("s.t.u", r"did you mean `s\.t`\.u\?"),
        ("`s.t.u`", r"did you mean `s\.t`\.u\?"),
        ("`s.t`.`V.w`", r"did you mean `V w`\? the fields are: u, `V w`$"),
        (
            "c.d",
            r"did you mean `c d`\? the columns are: n, `x.y`, a, `s.t`, `c d`, `größe`, Upper, `select`$",
        ),
    ],
)
def test_one_name_is_no_path_and_a_path_no_name(
    name: str, remedy: str, path: Path, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import AnalysisException

    hx: Any = LocalConnection(store=str(tmp_path / "store"))
    for query in QUERIES:
        with pytest.raises(AnalysisException):
            spark.sql(query.format(name, f"orc.`{path}`"))
        with pytest.raises(ColumnError, match=remedy):
            hx.sql(query.format(name, f"'{path}'"))
    with pytest.raises(ColumnError, match=remedy):
        hx.sql(f"CREATE INDEX i USING minmax ON '{path}' ({name})")


def test_texts_and_tuples_of_names(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    table: Table = LocalConnection(store=str(tmp_path / "store")).table(str(path))
    requests: list[str | tuple[str, ...]] = ["x.y", "s.t.u", ("a", "b"), ("s.t", "V w"), ("x.y",), "S.T.v W"]
    scan = table.scan(columns=requests)
    assert scan.to_arrow().column_names == ["x.y", "s.t.u", "a.b", "s.t.V w", "x.y", "s.t.V w"]
    assert repr(scan) == f"Scan(SELECT x.y, s.t.u, a.b, `s.t`.`V w`, `x.y`, S.T.v W FROM {table.name!r})"
    result = [column.to_pylist() for column in scan.to_arrow().columns]
    assert result == [numbers(step) for step in (2, 5, 3, 1, 2, 1)]
    whole = table.scan()
    for name in ("s.t.u", ("s.t", "u")):
        values = [value for value in numbers(5) if value is not None]
        assert (whole.min(name), whole.max(name)) == (min(values), max(values))
        assert (whole.count(name), whole.count_distinct(name)) == (len(values), len(set(values)))
        assert whole.distinct(name).to_pylist() == [None, *sorted(set(values))]
        counts = whole.value_counts(name)
        assert counts.column_names == ["s.t.u", "count"]
        assert dict(zip(*(column.to_pylist() for column in counts.columns), strict=True)) == Counter(
            numbers(5)
        )
        assert whole.order_by(name).head(6).num_rows == 6
    for wrong in (("s", "t.u"), ("a.b",), ("a", "b", "c")):
        with raises(ColumnError):
            table.scan(columns=[wrong]).to_arrow()
    assert table.create_index("i", ("s.t", "u")).column == "s.t.u"
    assert table.index("i").check(verify=True).problems == ()


def test_lists_of_names_are_tuples(path: Path) -> None:
    table = LocalConnection().table(str(path))
    scan = table.scan()
    requests: list[Callable[[Any], object]] = [
        lambda name: table.scan(columns=[name]).to_arrow(),
        lambda name: repr(table.scan(columns=[name])),
        scan.count,
        scan.count_distinct,
        scan.min,
        scan.max,
        lambda name: scan.distinct(name).to_pylist(),
        scan.value_counts,
        lambda name: scan.value_counts("n", name),
        lambda name: scan.order_by(name).head(9),
        lambda name: repr(scan.order_by(name)),
        lambda name: scan.aggregate([Group(name, "g")], group=[name], limit=5).to_arrow(),
        lambda name: scan.aggregate([Aggregate(AggregateFunction.MAX, name, "g")]).to_arrow(),
    ]
    for at, ask in enumerate(requests):
        for name in (("s.t", "u"), ("x.y",)):
            assert ask(list(name)) == ask(name), at
    assert scan.order_by(cast("Any", ["x.y"])).orders == (Order(("x.y",)),)
    for wrong in (None, 5, (), [], ("a", 5), ("a", None), ["a", ["b"]], b"n", {"n"}):
        for ask in requests:
            if wrong is None and ask == scan.count:
                assert scan.count(None) == ROWS
                continue
            with raises(ColumnError):
                ask(wrong)
    several: Any
    for several in (5, "n", b"n", bytearray(b"n")):
        with raises(ColumnError):
            table.scan(columns=several)
    for several in (5, b"n"):
        with raises(ColumnError):
            scan.aggregate([], group=several)


def test_messages_about_texts_have_no_backquotes(path: Path) -> None:
    table = LocalConnection().table(str(path))
    for name in ["c.d", "a.c"]:
        with raises(ColumnError):
            table.scan(columns=[name]).to_arrow()


def test_groups_by_several_columns_and_by_a_field(tmp_path: Path) -> None:
    values = {"a": pa.array([{"b": 1}, {"b": 1}]), "b": pa.array([1, 2]), "c": pa.array([3, 3])}
    write_columns(tmp_path / "t" / "0.orc", values)
    scan = LocalConnection().table(str(tmp_path / "t")).scan()
    count = Aggregate(AggregateFunction.COUNT, None, "count")
    assert scan.aggregate([count], group=("c", "b")).to_arrow().to_pydict() == {"count": [1, 1]}
    assert scan.aggregate([count], group=[("a", "b")]).to_arrow().to_pydict() == {"count": [2]}


def test_an_empty_name_has_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    values = {"s": pa.array([{"": 1, "x": 4}, {"": 2, "x": 5}]), "": pa.array([6, 7])}
    write_columns(tmp_path / "t" / "0.orc", values)
    table = LocalConnection().table(str(tmp_path / "t"))
    for name in ("", "s.", ("",), ("s", "")):
        with raises(ColumnError):
            table.create_index("i", name)
    assert table.indexes() == []
    assert (table.scan().max(("s", "")), table.scan().max("")) == (2, 7)
    table.create_index("i", "s.x")
    assert table.index("i").check(verify=True).problems == ()


def test_a_name_that_is_a_fields_path_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    path = tmp_path / "t"
    source = pa.struct({"b": pa.int32()})
    values = {
        "n": pa.array([1, 2]),
        "a": pa.array([{"b": 5}, {"b": 6}], source),
        "a.b": pa.array([6, 7], pa.int32()),
    }
    write_columns(path / "0.orc", values)
    hx: Any = LocalConnection()
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (`a.b`)")
    for text, expected in [
        ("SELECT `a.b` FROM {}", ["{6}", "{7}"]),
        ("SELECT n FROM {} WHERE `a.b` = 6", ["{1}"]),
        ("SELECT MIN(`a.b`), COUNT(DISTINCT `a.b`) FROM {}", ["{6, 2}"]),
        ("SELECT `a.b`, COUNT(*) FROM {} GROUP BY `a.b` HAVING `a.b` > 6", ["{7, 1}"]),
        ("SELECT n FROM {} ORDER BY `a.b` DESC LIMIT 1", ["{2}"]),
    ]:
        result = hx.sql(text.format(f"'{path}'"))
        assert rows(result) == Counter(expected), text
    with raises(ColumnError):
        hx.table(str(path)).scan(columns=["a.b"]).to_arrow()
    assert hx.table(str(path)).scan(columns=[("a.b",)]).to_arrow().column(0).to_pylist() == [6, 7]
    for text in ("SELECT a.b FROM {}", "SELECT n FROM {} WHERE a.b = 6", "SELECT MIN(a.b) FROM {}"):
        with raises(ColumnError):
            hx.sql(text.format(f"'{path}'"))
