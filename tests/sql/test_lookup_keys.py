"""Conditions that restrict a column to keys of another table: where they follow, and where they do not."""

from __future__ import annotations

import pytest

from hindex.sql.lookup_keys import KeyColumn, marked_columns, with_keys
from hindex.sql.predicate import Literal, LiteralKind
from hindex.sql.queries import parse_query

COLUMNS = {
    "f": ["id", "k", "b", "x", "s"],
    "g": ["id", "k", "x"],
    "d": ["k", "s", "y"],
    "e": ["b", "k", "z"],
    "v": None,
}


def memberships(text: str) -> set[str]:
    """Return what is restricted by what, such as ``f.k d.k``; tables of one name are numbered from the second on."""
    query = parse_query(text)
    assert query is not None
    names = [str(table.ref) for table in query.tables]
    labels = [
        name + (str(names[:at].count(name) + 1) if name in names[:at] else "")
        for at, name in enumerate(names)
    ]
    conditions, _ = query.lookup_conditions([COLUMNS[name] for name in names])
    return {
        f"{label}.{column} {labels[key.table]}.{key.column}"
        for label, predicates in zip(labels, conditions, strict=True)
        for predicate in predicates
        for column, keys in marked_columns(predicate).items()
        for key in keys
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # joins
        ("SELECT * FROM f JOIN d ON f.k = d.k", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f, d WHERE d.k = f.b AND y = 1", {"f.b d.k", "d.k f.b"}),
        ("SELECT * FROM f t JOIN d u ON (t.k) = (u.k)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f JOIN d ON f.id = y", {"f.id d.y", "d.y f.id"}),
        ("SELECT * FROM f LEFT JOIN d ON f.k = d.k", {"d.k f.k"}),
        ("SELECT * FROM d LEFT JOIN f ON f.k = d.k", {"f.k d.k"}),
        ("SELECT * FROM f RIGHT JOIN d ON f.k = d.k", {"f.k d.k"}),
        ("SELECT * FROM f FULL JOIN d ON f.k = d.k", set()),
        ("SELECT * FROM f LEFT JOIN d ON true WHERE f.k = d.k", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f LEFT SEMI JOIN d ON f.k = d.k", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f LEFT ANTI JOIN d ON f.k = d.k", {"d.k f.k"}),
        ("SELECT * FROM f JOIN d USING (k)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f t LEFT JOIN d u USING (k)", {"d.k f.k"}),
        ("SELECT * FROM f JOIN d USING (k, s)", {"f.k d.k", "d.k f.k", "f.s d.s", "d.s f.s"}),
        ("SELECT * FROM f JOIN d USING (k) JOIN e USING (k)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f NATURAL JOIN d", set()),
        ("SELECT * FROM f, v JOIN d USING (k)", set()),
        # branches
        ("SELECT * FROM f, d WHERE (f.k = d.k AND y = 1) OR (f.k = d.k AND y = 2)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f, d WHERE f.k = d.k OR y = 2", {"d.k f.k"}),
        ("SELECT * FROM f, d WHERE NOT f.k = d.k", set()),
        ("SELECT * FROM f, d WHERE f.k <=> d.k", set()),
        ("SELECT * FROM f, d WHERE f.k = d.k + 1", set()),
        ("SELECT * FROM f, d WHERE f.k < d.k", set()),
        # subqueries and common table expressions
        ("SELECT * FROM f JOIN (SELECT k AS q FROM d WHERE y = 1) t ON f.k = q", {"f.k d.k", "d.k f.k"}),
        ("WITH w AS (SELECT * FROM d) SELECT * FROM f JOIN w ON f.k = w.k", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f JOIN (SELECT k + 1 AS k FROM d) t ON f.k = t.k", set()),
        ("SELECT * FROM f JOIN (SELECT max(k) AS k FROM d) t ON f.k = t.k", set()),
        ("SELECT * FROM f JOIN (SELECT k FROM d UNION SELECT k FROM e) t ON f.k = t.k", set()),
        # a chain
        (
            "SELECT * FROM d JOIN e ON d.k = e.k JOIN f ON f.b = e.b",
            {"d.k e.k", "e.k d.k", "e.b f.b", "f.b e.b"},
        ),
        # IN
        ("SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y = 1)", {"f.k d.k"}),
        ("SELECT * FROM f WHERE k IN (SELECT d.k FROM d, e GROUP BY d.k HAVING max(y) > 1)", {"f.k d.k"}),
        ("SELECT * FROM f WHERE k IN (SELECT q FROM (SELECT DISTINCT k AS q FROM d LIMIT 3) t)", {"f.k d.k"}),
        ("SELECT * FROM f WHERE k NOT IN (SELECT k FROM d)", set()),
        ("SELECT * FROM f WHERE k IN (SELECT k + 1 FROM d)", set()),
        ("SELECT * FROM f WHERE k IN (SELECT f.b FROM d)", set()),
        ("SELECT * FROM f WHERE k IN (SELECT k FROM d) OR x = 1", {"f.k d.k"}),
        ("SELECT * FROM f WHERE (k, x) IN (SELECT k, y FROM d)", set()),
        # EXISTS
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k AND y = 1)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = f.k)", {"d.k f.k"}),
        ("SELECT * FROM f WHERE EXISTS (SELECT count(*) FROM d WHERE d.k = f.k)", {"d.k f.k"}),
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k GROUP BY y)", {"d.k f.k"}),
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k OR y = 1)", {"d.k f.k"}),
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE b = d.k)", {"f.b d.k", "d.k f.b"}),
        # the name is of the inner table
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE k = f.k)", {"f.k d.k", "d.k f.k"}),
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d, v WHERE b = d.k)", set()),
        # correlated values
        (
            "SELECT * FROM f, d WHERE f.k = d.k AND x < (SELECT avg(x) FROM g WHERE g.k = d.k)",
            {"f.k d.k", "d.k f.k", "g.k d.k"},
        ),
        ("SELECT y, (SELECT count(*) FROM f WHERE f.k = d.k) FROM d", {"f.k d.k"}),
        ("SELECT y FROM d ORDER BY (SELECT count(*) FROM f WHERE f.k = d.k)", set()),
        ("SELECT y FROM d WHERE y > (SELECT count(*) FROM f WHERE f.k = d.k OR x = 1)", {"f.k d.k"}),
        (
            "SELECT * FROM e WHERE EXISTS (SELECT 1 FROM d WHERE y = (SELECT max(x) FROM f WHERE f.b = z))",
            {"f.b e.z"},
        ),
        # one table twice
        ("SELECT * FROM f t JOIN f u ON t.k = u.id", {"f.k f2.id", "f2.id f.k"}),
        ("SELECT * FROM f WHERE f.k = f.b", {"f.k f.b", "f.b f.k"}),
    ],
)
def test_memberships(text: str, expected: set[str]) -> None:
    assert memberships(text) == expected


@pytest.mark.parametrize(
    ("text", "subqueries"),
    [
        (
            "SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y = 1) AND x > 1",
            ["k IN (SELECT k FROM d WHERE y = 1)"],
        ),
        ("SELECT * FROM f t WHERE (t.`k` IN (SELECT u.k FROM d u))", ["t.`k` IN (SELECT u.k FROM d u)"]),
        (
            "SELECT * FROM f WHERE`k`IN(\nSELECT DISTINCT k FROM d WHERE\ny BETWEEN 1 AND 3)AND x = 1",
            ["`k`IN(\nSELECT DISTINCT k FROM d WHERE\ny BETWEEN 1 AND 3)"],
        ),
        (
            "SELECT * FROM f WHERE EXISTS (SELECT 1, NULL, s AS t FROM d WHERE d.k = f.k AND y = 1)",
            ["EXISTS (SELECT 1, NULL, s AS t FROM d WHERE d.k = f.k AND y = 1)"],
        ),
        (
            "SELECT * FROM f WHERE k IN (SELECT k FROM d) AND EXISTS (SELECT * FROM e WHERE f.b = e.b)",
            ["k IN (SELECT k FROM d)", "EXISTS (SELECT * FROM e WHERE f.b = e.b)"],
        ),
        (
            "SELECT * FROM d LEFT JOIN e ON d.k = e.k WHERE d.k IN (SELECT k FROM f)",
            ["d.k IN (SELECT k FROM f)"],
        ),
        (
            "SELECT * FROM (SELECT x, '{' AS s FROM f WHERE k IN (SELECT k FROM d WHERE s = ')'))",
            ["k IN (SELECT k FROM d WHERE s = ')')"],
        ),
    ],
)
def test_subqueries_that_keys_imply(text: str, subqueries: list[str]) -> None:
    """TRUE takes their place; the rest of the text stays where it is, for the places of errors."""
    query = parse_query(text)
    assert query is not None
    names = [COLUMNS[str(table.ref)] for table in query.tables]
    _, implied = query.lookup_conditions(names)
    spans = [(item.start, item.end) for item in implied]
    assert [text[start:end] for start, end in spans] == subqueries
    sent = query.with_tables([None] * len(names), implied=spans)
    expected = text
    for subquery in subqueries:
        blanks = "".join("\n" if char == "\n" else " " for char in subquery)
        expected = expected.replace(subquery, blanks.replace(" " * 6, " TRUE ", 1))
    assert sent == f"({expected}\n\n)"
    formatted = query.with_tables([None] * len(names), implied=spans, is_format=True)
    assert formatted == sent.replace("{", "{{")


def test_a_line_break_at_the_beginning_of_a_subquery() -> None:
    query = parse_query("SELECT * FROM f WHERE k\nIN (SELECT k FROM d)\n AND x = 1")
    assert query is not None
    _, (implied,) = query.lookup_conditions([COLUMNS["f"], COLUMNS["d"]])
    sent = query.with_tables([None, None], implied=[(implied.start, implied.end)])
    assert [line.strip() for line in sent.splitlines()[:3]] == [
        "(SELECT * FROM f WHERE  TRUE",
        "",
        "AND x = 1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM f WHERE k NOT IN (SELECT k FROM d)",
        "SELECT * FROM f WHERE NOT EXISTS (SELECT * FROM d WHERE d.k = f.k)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d) OR x = 1",
        "SELECT * FROM f WHERE (k IN (SELECT k FROM d)) = true",
        "SELECT k IN (SELECT k FROM d) FROM f",
        "SELECT * FROM f WHERE k + 1 IN (SELECT k FROM d)",
        # the subquery has not all the rows that its conditions on d keep
        "SELECT * FROM f WHERE k IN (SELECT k FROM d LIMIT 3)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d GROUP BY k HAVING count(*) > 1)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d GROUP BY k)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d QUALIFY row_number() OVER (ORDER BY k) = 1)",
        "SELECT * FROM f WHERE k IN (SELECT d.k FROM d JOIN e ON d.k = e.k)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d UNION SELECT k FROM e)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d TABLESAMPLE (10 ROWS))",
        "WITH w AS (SELECT k FROM d LIMIT 1) SELECT * FROM f WHERE k IN (SELECT k FROM w)",
        # conditions of the subquery that hindex does not evaluate, or that depend on the outer row
        "SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y * 2 = 4)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y = x)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE false)",
        "SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y = (SELECT max(z) FROM e))",
        "SELECT * FROM f WHERE EXISTS (SELECT * FROM d WHERE d.k = f.k AND y * 2 = 4)",
        "SELECT * FROM f WHERE EXISTS (SELECT * FROM d WHERE d.k = f.k AND y = x)",
        "SELECT * FROM f WHERE EXISTS (SELECT * FROM d WHERE d.k = f.k AND y < x)",
        "SELECT * FROM f WHERE EXISTS (SELECT max(y) FROM d WHERE d.k = f.k)",
        # rows of f may be missing in the join
        "SELECT * FROM e LEFT JOIN f ON e.k = f.k WHERE f.k IN (SELECT k FROM d)",
        "SELECT * FROM f RIGHT JOIN e ON e.k = f.k WHERE f.k IN (SELECT k FROM d)",
        "SELECT * FROM f FULL JOIN e ON e.k = f.k WHERE f.k IN (SELECT k FROM d)",
        "SELECT * FROM e JOIN f ON e.k = f.k AND f.k IN (SELECT k FROM d)",
        # Spark has an error, or may have one
        "SELECT * FROM f WHERE EXISTS (SELECT nothing FROM d WHERE d.k = f.k)",
        "SELECT * FROM f WHERE EXISTS (SELECT d.k FROM d u WHERE u.k = f.k)",
        "SELECT * FROM f WHERE EXISTS (SELECT u.k.z FROM d u WHERE u.k = f.k)",
        "SELECT * FROM f WHERE EXISTS (SELECT v.* FROM d WHERE d.k = f.k)",
        "SELECT * FROM f WHERE k IN (SELECT DISTINCT ON (y) k FROM d)",
        "SELECT * FROM f, v WHERE f.k IN (SELECT k FROM d)",
        "SELECT * FROM f, explode(array(1)) t(k) WHERE k IN (SELECT k FROM d)",
        "SELECT * FROM f, (SELECT 1 AS k UNION SELECT 2) u WHERE k IN (SELECT k FROM d)",
        "SELECT * FROM f LATERAL VIEW explode(array(1)) t AS k WHERE k IN (SELECT k FROM d)",
        # the span is not certain
        "SELECT * FROM f WHERE (k) IN (SELECT k FROM d)",
        "SELECT * FROM f WHERE k IN ((SELECT k FROM d))",
    ],
)
def test_subqueries_that_spark_evaluates(text: str) -> None:
    query = parse_query(text)
    assert query is not None
    _, implied = query.lookup_conditions([COLUMNS.get(str(table.ref)) for table in query.tables])
    assert implied == []


def test_subqueries_of_queries_with_parameters() -> None:
    """Spark gets all parameters, in the order of the whole text."""
    query = parse_query("SELECT * FROM f WHERE k IN (SELECT k FROM d WHERE y = ?) AND x = ?", [1, 2])
    assert query is not None
    _, implied = query.lookup_conditions([COLUMNS["f"], COLUMNS["d"]])
    assert implied == []


def test_columns_of_a_subquery_that_spark_does_not_get() -> None:
    query = parse_query("SELECT x FROM f WHERE k IN (SELECT k FROM d WHERE y = 1)")
    assert query is not None
    _, (implied,) = query.lookup_conditions([COLUMNS["f"], COLUMNS["d"]])
    assert query.needed(["x", "k", "y", "b"]) == ["x", "k", "y"]
    assert query.needed(["x", "k", "y", "b"], [(implied.start, implied.end)]) == ["x"]


def test_keys_take_the_place_of_their_markers() -> None:
    query = parse_query("SELECT * FROM f, d WHERE (f.k = d.k AND x = 1) OR (f.b = d.k AND x = 2)")
    assert query is not None
    ((predicate,), _), _ = query.lookup_conditions([COLUMNS["f"], COLUMNS["d"]])
    keys = tuple(Literal(value, LiteralKind.INTEGER) for value in (3, 5))
    assert (
        str(with_keys(predicate, {KeyColumn(1, "k"): keys}))
        == "k IN (3, 5) AND x = 1 OR b IN (3, 5) AND x = 2"
    )
    assert str(with_keys(predicate, {KeyColumn(1, "k"): ()})) == "FALSE AND x = 1 OR FALSE AND x = 2"
    # without keys, the conditions on the table alone are left
    assert str(with_keys(predicate, {})) == "x = 1 OR x = 2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT x FROM f WHERE EXISTS (SELECT * FROM d WHERE d.k = f.k)", False),
        ("SELECT x FROM f WHERE NOT EXISTS (SELECT * FROM d WHERE d.k = f.k)", False),
        ("SELECT * FROM f WHERE EXISTS (SELECT * FROM d WHERE d.k = f.k)", True),
        ("SELECT x FROM f WHERE k IN (SELECT * FROM e)", True),
        ("SELECT x FROM f WHERE EXISTS (SELECT * FROM (SELECT * FROM d) t WHERE t.k = f.k)", True),
    ],
)
def test_columns_after_exists_are_not_needed(text: str, expected: bool) -> None:
    query = parse_query(text)
    assert query is not None
    assert query.needed(["y", "k"]) == (["y", "k"] if expected else ["k"])
