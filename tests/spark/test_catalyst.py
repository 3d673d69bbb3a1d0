"""Conditions of Spark's optimized plans become predicates that hold for each row for which the conditions do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hindex.spark.catalyst import Attribute, CatalystPlan, ConditionReader, Relation, literal
from hindex.sql.predicate import ColumnRef

A: list[Any] = ["Attribute", 1, "a"]
S: list[Any] = ["Attribute", 2, "s"]
ST: list[Any] = ["Attribute", 3, "st"]
FIVE = ["Literal", "int", "5"]
ONE = ["Literal", "int", "1"]
NOTHING = ["Literal", "null", None]
DAY = ["Literal", "date", "5"]
SUBSTRING = ["Substring", S, ["Literal", "int", "1"], ["Literal", "int", "2"]]
ROW = ["CreateNamedStruct", ["Literal", "string", "a"], A, ["Literal", "string", "b"], S]
UNKNOWN = ["Upper", S]


def read(*conditions: list[Any], zone_is_utc: bool = True) -> tuple[str | None, bool]:
    reader = ConditionReader({1: ("a",), 2: ("s",), 3: ("st",)}, lambda: zone_is_utc, {"s"})
    predicate, is_exact = reader.predicate(conditions)
    return (None if predicate is None else str(predicate)), is_exact


@pytest.mark.parametrize(
    ("condition", "text", "is_exact"),
    [
        (["EqualTo", A, FIVE], "a = 5", True),
        (["GreaterThan", FIVE, A], "a < 5", True),
        (["EqualNullSafe", A, ["Literal", "int", None]], "a <=> NULL", True),
        (["In", A, FIVE, ["Literal", "int", None]], "a IN (5, NULL)", True),
        (["IsNotNull", A], "a IS NOT NULL", True),
        (["And", ["IsNotNull", A], ["LessThan", A, FIVE]], "a < 5", True),
        (["And", ["IsNotNull", A], ["EqualNullSafe", A, FIVE]], "a IS NOT NULL AND a <=> 5", True),
        (["StartsWith", S, ["Literal", "string", "1%_\\"]], r"s LIKE '1\\%\\_\\\\%'", True),
        (["Like", S, ["Literal", "string", "a/%%"], "/"], "s LIKE 'a/%%' ESCAPE '/'", True),
        (["Contains", S, ["Literal", "string", "a%"]], "contains(s, 'a%')", True),
        (
            ["GreaterThan", ["StringInstr", S, ["Literal", "string", "ab"]], ["Literal", "int", "0"]],
            "contains(s, 'ab')",
            True,
        ),
        (
            [
                "GreaterThan",
                ["StringLocate", ["Literal", "string", "ab"], S, ["Literal", "int", "1"]],
                ["Literal", "int", "0"],
            ],
            "contains(s, 'ab')",
            True,
        ),
        (
            ["GreaterThan", ["StringInstr", S, ["Literal", "string", "ab"]], ["Literal", "int", "1"]],
            None,
            False,
        ),
        (["EndsWith", S, ["Literal", "string", "ab"]], "endswith(s, 'ab')", True),
        (["Contains", ["Lower", S], ["Literal", "string", "ab"]], "contains(lower(s), 'ab')", True),
        (["EqualTo", ["Literal", "string", "ab"], ["Lower", S]], "lower(s) = 'ab'", True),
        (["In", ["Lower", S], ["Literal", "string", "ab"]], "lower(s) IN ('ab')", True),
        (["RLike", S, ["Literal", "string", "a.*b"]], "s RLIKE 'a.*b'", True),
        (["And", ["IsNotNull", S], ["RLike", S, ["Literal", "string", "ab"]]], "s RLIKE 'ab'", True),
        (["RLike", S, ["Literal", "string", "(?i)ab"]], None, False),
        (["Contains", S, ["Literal", "string", None]], None, False),
        (["Contains", S, ["Attribute", 1, "a"]], None, False),
        (["EqualTo", ["Field", ST, "x"], FIVE], "st.x = 5", True),
        (["Padded", S, FIVE], None, False),
        (["EqualTo", ["Padded", S, FIVE], ["Literal", "string", "ab"]], "s = 'ab'", False),
        (["In", ["Padded", S, FIVE], ["Literal", "string", "ab"]], "s IN ('ab')", False),
        (["Like", ["Padded", S, FIVE], ["Literal", "string", "a%"], "\\"], "s LIKE 'a%'", False),
        (["StartsWith", ["Padded", S, FIVE], ["Literal", "string", "a"]], "s LIKE 'a%'", False),
        # functions of a column that are domains of it
        (["EqualTo", SUBSTRING, ["Literal", "string", "ab"]], "substring(s, 1, 2) = 'ab'", True),
        (["Not", ["In", SUBSTRING, ["Literal", "string", "ab"]]], "substring(s, 1, 2) NOT IN ('ab')", True),
        (["EqualTo", SUBSTRING, ["Literal", "binary", "6162"]], None, False),
        (["EqualTo", ["Substring", S, FIVE, FIVE], ["Literal", "string", "ab"]], None, False),
        (
            ["EqualTo", ["Substring", ["Padded", S, FIVE], ONE, FIVE], ["Literal", "string", "ab"]],
            None,
            False,
        ),
        (["EqualTo", ["Year", A], FIVE], "year(a) = 5", True),
        (["EqualTo", ["Year", ["Cast", A, "timestamp", "date"]], FIVE], "year(CAST(a AS DATE)) = 5", True),
        (["EqualTo", ["Month", A], FIVE], None, False),
        (["And", ["IsNotNull", A], ["EqualTo", ["Month", A], FIVE]], "a IS NOT NULL", False),
        (
            [
                "And",
                ["EqualTo", ["Year", A], FIVE],
                ["In", ["Month", A], FIVE],
                ["EqualTo", ["Month", S], FIVE],
            ],
            "year(a) = 5 AND month(a) IN (5)",
            False,
        ),
        (["Or", ["EqualTo", ["Year", A], FIVE], ["EqualTo", ["Month", A], FIVE]], None, False),
        (
            ["LessThan", ["TruncDate", A, ["Literal", "string", "MM"]], DAY],
            "trunc(a, 'MM') < DATE '1970-01-06'",
            True,
        ),
        (
            ["EqualTo", ["TruncTimestamp", ["Literal", "string", "DAY"], A], ["Literal", "timestamp", "0"]],
            "date_trunc('DAY', a) = TIMESTAMP '1970-01-01 00:00:00'",
            True,
        ),
        (["Not", ["IsNaN", A]], "NOT isnan(a)", True),
        (["IsNaN", UNKNOWN], None, False),
        (["Coalesce", A, ["Literal", "boolean", "false"]], "coalesce(a, FALSE)", True),
        (["EqualTo", ["Coalesce", A, ONE], FIVE], "coalesce(a, 1) = 5", True),
        (["EqualTo", ["Coalesce", A, S], FIVE], None, False),
        (["IsNull", ["Coalesce", A, ONE]], None, False),
        # such a condition may hold for NULL
        (
            ["And", ["IsNotNull", A], ["EqualTo", ["Coalesce", A, ONE], FIVE]],
            "a IS NOT NULL AND coalesce(a, 1) = 5",
            True,
        ),
        (
            ["In", ROW, ["Row", ONE, FIVE], ["Row", FIVE, NOTHING]],
            "a <=> 1 AND s <=> 5 OR a <=> 5 AND s <=> NULL",
            True,
        ),
        (["Not", ["EqualTo", ROW, ["Row", ONE, FIVE]]], "NOT (a <=> 1 AND s <=> 5)", True),
        (["IsNotNull", ROW], None, False),
        (["EqualNullSafe", ROW, ["Row", ONE, FIVE]], None, False),
        (["In", ROW, ["Row", ONE, ["Value"]]], None, False),
        (["In", ROW, ["Row", ONE, FIVE], NOTHING], None, False),
        # a part that is not understood is left out where the rest still holds for all rows
        (["And", ["EqualTo", A, FIVE], ["EqualTo", UNKNOWN, FIVE]], "a = 5", False),
        (["Or", ["EqualTo", A, FIVE], ["EqualTo", UNKNOWN, FIVE]], None, False),
        (
            ["Or", ["EqualTo", A, FIVE], ["And", ["IsNull", A], ["EqualTo", UNKNOWN, FIVE]]],
            "a = 5 OR a IS NULL",
            False,
        ),
        (["Not", ["EqualTo", A, FIVE]], "NOT a = 5", True),
        (["Not", ["And", ["EqualTo", A, FIVE], ["EqualTo", UNKNOWN, FIVE]]], None, False),
        (["Not", ["EqualTo", ["Padded", S, FIVE], ["Literal", "string", "ab"]]], None, False),
        # casts, columns on both sides, columns of another table, values without a literal
        (["EqualTo", ["Cast", A, "int", "bigint"], ["Literal", "bigint", "5"]], None, False),
        (["EqualTo", A, S], None, False),
        (["EqualTo", ["Attribute", 9, "a"], FIVE], None, False),
        (["EqualTo", S, ["Value"]], None, False),
        (["In", S, ["Literal", "string", "ab"], ["Value"]], None, False),
        (["EqualTo", A, ["Literal", "interval day", "5"]], None, False),
    ],
)
def test_conditions(condition: list[Any], text: str | None, is_exact: bool) -> None:
    assert read(condition) == (text, is_exact)


def test_times_are_computed_by_days_in_every_zone() -> None:
    time = ["Literal", "timestamp", "0"]
    for condition, text in (
        (["EqualTo", ["Year", ["Cast", A, "timestamp", "date"]], FIVE], "year(CAST(a AS DATE)) = 5"),
        (
            ["EqualTo", ["TruncTimestamp", ["Literal", "string", "DAY"], A], time],
            "date_trunc('DAY', a) = TIMESTAMP '1970-01-01 00:00:00Z'",
        ),
        (["EqualTo", ["Coalesce", A, time], time], None),
        (["EqualTo", ["Year", ["OfOtherZone", A]], FIVE], None),
    ):
        assert read(condition, zone_is_utc=False) == (text, text is not None)
        assert (read(condition)[0] is None) is ("OfOtherZone" in str(condition))


def test_parts_of_strings_are_read_for_an_index_on_ngrams_alone() -> None:
    """Without one, other conditions are read, and Spark compares the parts."""
    columns = {1: ("a",), 2: ("S",)}
    equal, part = ["EqualTo", A, FIVE], ["Contains", S, ["Literal", "string", "ab"]]
    for conditions in ([equal, part], [equal, ["EqualTo", ["Lower", S], ["Literal", "string", "ab"]]]):
        predicate, is_exact = ConditionReader(columns).predicate(conditions)
        assert (str(predicate), is_exact) == ("a = 5", False)
        predicate, is_exact = ConditionReader(columns, ngram_columns={"s"}).predicate(conditions)
        assert (str(predicate) != "a = 5", is_exact) == (True, True)


@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        ("decimal(9,2)", "3.50", "3.50"),
        ("date", "-719528", "DATE '0000-01-01'"),
        ("date", "19723", "DATE '2024-01-01'"),
        ("timestamp", "1704067200500000", "TIMESTAMP '2024-01-01 00:00:00.5'"),
        ("boolean", "false", "FALSE"),
        ("double", "NaN", "double('NaN')"),
        ("float", "0.10000000149011612", "0.10000000149011612D"),
        ("binary", "00ff", "X'00FF'"),
    ],
)
def test_literals(data_type: str, value: str, text: str) -> None:
    made = literal(data_type, value)
    assert made is not None
    if data_type not in ("double",) and value != "-719528":
        assert str(made) == text
    if value == "-719528":
        assert made.value == -719528


def test_timestamps_are_instants() -> None:
    condition = ["EqualTo", A, ["Literal", "timestamp", "0"]]
    assert read(condition)[0] == "a = TIMESTAMP '1970-01-01 00:00:00'"
    assert read(condition, zone_is_utc=False)[0] == "a = TIMESTAMP '1970-01-01 00:00:00Z'"


def test_columns_compared_as_they_are_stored_are_known() -> None:
    reader = ConditionReader({1: ("a",), 2: ("s",)}, lambda: True)
    reader.predicate(
        [["And", ["IsNotNull", S], ["EqualTo", ["Padded", S, FIVE], ["Literal", "string", "x"]]]]
    )
    assert reader.unpadded == set()
    reader.predicate([["EqualTo", S, ["Literal", "string", "x"]]])
    assert reader.unpadded == {ColumnRef(("s",))}


def test_a_plan_knows_what_is_above_and_below() -> None:
    nodes = [
        {
            "kind": "LogicalRelation",
            "children": [],
            "output": [1],
            "relation": {
                "table": "`spark_catalog`.`d`.`a``b`",
                "paths": ["/w/d/t"],
                "location": "/w/d/t",
                "transactional": False,
                "attributes": [[1, "x", '"integer"']],
                "has_metadata": False,
            },
        },
        {
            "kind": "Filter",
            "children": [0],
            "output": [1],
            "condition": ["IsNotNull", A],
            "deterministic": True,
        },
        {"kind": "LocalRelation", "children": [], "output": [2]},
        {"kind": "Join", "children": [1, 2], "output": [1, 2], "join": "Inner"},
    ]
    plan = CatalystPlan.parse(json.dumps({"database": "d", "nodes": nodes}))
    (relation,) = plan.relations
    assert (relation.name, relation.name_parts) == ("a`b", ("spark_catalog", "d", "a`b"))
    assert relation.attributes == (Attribute(1, "x", '"integer"'),)
    assert [node.kind for node in plan.ancestors(0)] == ["Filter", "Join"]
    assert [list(plan.subtree(number)) for number in range(4)] == [[0], [0, 1], [2], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("paths", "roots"),
    [
        (["file:/w/t"], ["file:/w/t"]),
        (["file:/w/t/"], ["file:/w/t"]),
        (["/w/t/part-1.orc"], ["/w/t/part-1.orc", "/w/t"]),
        (["/w/t/p=1/q=a"], ["/w/t/p=1/q=a", "/w/t/p=1", "/w/t"]),
        (["/w/t/p=1/q=a", "/w/t/p=1/q=b"], ["/w/t/p=1", "/w/t"]),
        (["/w/t/p=1", "/w/t/p=11"], ["/w/t"]),
        # what comes after the first difference is no part of it
        (["/w/a/t", "/w/b/t"], ["/w"]),
        (["/t", "/u"], []),
        (["s3a://b/x", "s3a://c/x"], []),
    ],
)
def test_the_table_of_paths(paths: list[str], roots: list[str]) -> None:
    assert list(Relation(0, None, tuple(paths), ()).roots) == roots
    assert Relation(0, "`t`", tuple(paths), (), "/w/t").roots == ("/w/t",)


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (["EqualTo", ["Lower", S], ["Literal", "string", "x  y"]], ("lower(s) = 'x  y'",)),
        (
            ["EqualTo", ["Cast", S, "string", "bigint"], ["Literal", "bigint", "7"]],
            ("CAST(s AS bigint) = 7 (compared as a number: write s = '7')",),
        ),
        (
            ["EqualTo", ["Literal", "int", "5"], ["Cast", S, "string", "int"]],
            ("5 = CAST(s AS int) (compared as a number: write s = '5')",),
        ),
        (
            ["EqualTo", ["Cast", S, "string", "double"], ["Literal", "double", "7.5"]],
            ("CAST(s AS double) = 7.5D",),
        ),
        (
            ["In", ["Cast", S, "string", "int"], FIVE, ["Literal", "int", "6"]],
            ("CAST(s AS int) IN (5, 6) (compared as a number: write s IN ('5', '6'))",),
        ),
        (["In", ["Cast", S, "string", "int"], ["Literal", "int", None]], ("CAST(s AS int) IN (NULL)",)),
        (["EqualTo", ["Cast", A, "int", "bigint"], ["Literal", "bigint", "5"]], ("CAST(a AS bigint) = 5",)),
        (["GreaterThan", ["Multiply", ["Add", A, FIVE], FIVE], A], ("(a + 5) * 5 > a",)),
        (["Like", ["StringTrim", S], ["Literal", "string", "a%"], "\\"], ("trim(s) LIKE 'a%'",)),
        (["And", ["EqualTo", A, FIVE], ["Not", ["IsNull", ["Year", S]]]], ("NOT (year(s) IS NULL)",)),
        (["Or", ["EqualTo", UNKNOWN, FIVE], ["IsNotNull", A]], ("upper(s) = 5 OR a IS NOT NULL",)),
        # understood, of another table, and without a column
        (["EqualTo", A, FIVE], ()),
        (["EqualTo", ["Attribute", 9, "b"], ["Rand"]], ()),
        (["And", *(["EqualTo", UNKNOWN, ["Literal", "int", str(n)]] for n in range(9))], 3),
        (["EqualTo", UNKNOWN, ["Literal", "string", "x" * 900]], 1),
    ],
)
def test_conditions_without_an_index_are_named(condition: list[Any], texts: tuple[str, ...] | int) -> None:
    reader = ConditionReader({1: ("a",), 2: ("s",), 3: ("st",)}, lambda: True)
    named = reader.unread([condition])
    assert (len(named) if isinstance(texts, int) else named) == texts
    assert all(len(text) < 200 for text in named)
