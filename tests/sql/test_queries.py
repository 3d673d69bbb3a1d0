"""Analysis of a query: its table names, the conditions on their rows and the columns it reads."""

from __future__ import annotations

import pytest

from hindex.errors import StatementError, UnsupportedError
from hindex.sql import parse, parse_predicate
from hindex.sql.pushdown import of_nulls
from hindex.sql.queries import parse_query
from tests.support.messages import raises

COLUMNS = {"t": ["a", "b", "c", "k", "s"], "u": ["x", "y", "k"], "v": ["a", "z"]}

#: A query, and the conditions found for each table that it names, in order.
CONDITIONS: list[tuple[str, list[str]]] = [
    # what a reference to a common table expression is asked is judged part by part: t.s IS NULL is true of nulls
    # a pivot behind a join is of the whole join
    ("SELECT * FROM u JOIN v ON u.x = v.a PIVOT (sum(y) FOR k IN (1 AS k, 2 AS c)) WHERE k = 3", ["", ""]),
    ("SELECT * FROM u CROSS JOIN v PIVOT (sum(y) FOR k IN (1 AS k, 2 AS c)) WHERE k = 3", ["", ""]),
    ("SELECT * FROM u CROSS JOIN v UNPIVOT (k FOR n IN (x, y)) WHERE k = 3", ["", ""]),
    ("SELECT * FROM t WHERE a = 5 AND b > c", ["a = 5"]),
    ("SELECT * FROM t WHERE (a = 5 OR b = 6) AND NOT c IN (1, 2)", ["a = 5 OR b = 6, c NOT IN (1, 2)"]),
    ("SELECT * FROM t WHERE a = 5 OR b > c", [""]),
    ("SELECT * FROM t WHERE a = 5 OR (b > c AND a = 6)", ["a = 5 OR a = 6"]),
    ("SELECT * FROM t WHERE length(s) = 3 AND a + 1 = 2 AND coalesce(a, 1) = 1 AND a = 3", ["a = 3"]),
    ("SELECT a AS b FROM t WHERE b = 1", ["b = 1"]),
    ("SELECT a FROM t GROUP BY a HAVING a = 3", [""]),
    ("SELECT a FROM t WHERE b = date '1998-12-01' - interval '90' day", [""]),
    ("SELECT a FROM t WHERE b = date '1998-01-31' + interval '25' hours", [""]),
    ("SELECT a FROM t WHERE b = date '9999-01-31' + interval '1' year", [""]),
    ("SELECT a FROM t WHERE b = date '1998-01-31' + interval '²' day", [""]),
    # joins
    ("SELECT * FROM t, u WHERE t.k = u.k AND a = 1 AND x = 2", ["a = 1", "x = 2"]),
    (
        "SELECT * FROM t, u WHERE (t.k = u.k AND a = 1 AND x = 1) OR (t.k = u.k AND a = 2 AND x IN (2, 3))",
        ["a = 1 OR a = 2", "x = 1 OR x IN (2, 3)"],
    ),
    ("SELECT * FROM t JOIN u ON t.k = u.k AND a = 1 AND x = 2", ["a = 1", "x = 2"]),
    ("SELECT * FROM t CROSS JOIN u WHERE a = 1", ["a = 1", ""]),
    ("SELECT * FROM t x JOIN t y ON x.a = y.b WHERE x.a = 3 AND y.a = 4 AND a = 3", ["a = 3", "a = 4"]),
    ("SELECT * FROM t JOIN u USING (k) WHERE k = 3 AND a = 4 AND t.k = 5", ["a = 4, k = 5", ""]),
    # the column that USING merges is neither table's, in any letter case, also where the other one's are not known
    ("SELECT * FROM t JOIN (SELECT y AS k FROM u) s USING (k) WHERE k = 3 AND a = 4", ["a = 4", ""]),
    ("SELECT * FROM t RIGHT JOIN (SELECT y AS k FROM u) s USING (K) WHERE k = 3 AND a = 4", ["a = 4", ""]),
    ("SELECT * FROM t NATURAL JOIN u WHERE a = 4 AND t.b = 5", ["b = 5", ""]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k AND u.x = 3 AND t.a = 1", ["", "x = 3"]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE u.y = 4 AND t.b IS NULL", ["b IS NULL", "y = 4"]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE u.y IS NULL", ["", ""]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE u.y <=> NULL OR u.x = 3", ["", ""]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE NOT u.y <=> 3", ["", ""]),
    ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE NOT u.y = 3", ["", "NOT y = 3"]),
    ("SELECT * FROM t RIGHT JOIN u ON t.k = u.k AND t.a = 9 AND u.x = 3 WHERE y = 4", ["a = 9", "y = 4"]),
    ("SELECT * FROM t RIGHT JOIN u ON t.k = u.k WHERE a IS NULL AND b = 1", ["b = 1", ""]),
    (
        "SELECT * FROM t FULL JOIN u ON t.k = u.k AND t.a = 9 AND u.x = 1 WHERE y = 4 AND t.b IS NULL",
        ["", "y = 4"],
    ),
    ("SELECT * FROM t FULL JOIN u ON t.k = u.k WHERE t.b IS NULL AND u.y IS NULL", ["", ""]),
    (
        "SELECT * FROM t LEFT SEMI JOIN u ON t.k = u.k AND a = 9 AND x = 3 WHERE t.b <=> 1",
        ["b <=> 1, a = 9", "x = 3"],
    ),
    (
        "SELECT * FROM t LEFT ANTI JOIN u ON t.k = u.k AND a = 9 AND x = 3 WHERE t.b <=> 1",
        ["b <=> 1", "x = 3"],
    ),
    ("SELECT * FROM t ANTI JOIN u ON a = 9 AND x = 3 WHERE y = 4", ["", "x = 3"]),
    (
        "SELECT * FROM t LEFT JOIN u ON t.k = u.k JOIN v ON v.z = u.x AND u.y IS NULL AND t.a = 1 AND u.x = 2",
        ["a = 1", "x = 2", ""],
    ),
    (
        "SELECT * FROM t LEFT JOIN u ON t.k = u.k RIGHT JOIN v ON u.y IS NULL AND t.a = 1 AND u.x = 2",
        ["a = 1", "x = 2", ""],
    ),
    ("SELECT * FROM t JOIN u ON t.k = u.k FULL JOIN v ON v.a = t.a WHERE t.b IS NULL", ["", "", ""]),
    ("SELECT * FROM (t JOIN u ON t.a = u.x) WHERE t.a = 3", ["", ""]),
    (
        "SELECT * FROM t, LATERAL (SELECT x FROM u WHERE u.k = t.k AND y = 2) WHERE t.a = 3",
        ["a = 3", "y = 2"],
    ),
    ("SELECT * FROM t LATERAL VIEW explode(s) e AS f WHERE t.a = 3 AND f = 2", ["a = 3"]),
    # names that could mean two things
    ("SELECT * FROM t, v WHERE a = 3", ["", ""]),
    ("SELECT * FROM t JOIN w ON t.k = w.k WHERE a = 3 AND q = 4", ["a = 3", ""]),
    ("SELECT * FROM t WHERE k.f = 3 AND t.s.f = 4", ["k.f = 3, s.f = 4"]),
    ("SELECT * FROM t k WHERE k.f = 3 AND k.a = 4", ["a = 4"]),
    ("SELECT * FROM t JOIN K ON t.a = K.x WHERE k.f = 3", ["", ""]),
    ("SELECT * FROM t, t WHERE a = 3", ["", ""]),
    # fields of what a function returns
    ("SELECT * FROM t WHERE named_struct('a', b).a = 3 AND f(k).s.f = 4 AND (t.s).f = 5", ["s.f = 5"]),
    # a sign casts to a number
    ("SELECT * FROM t WHERE +a = '05' AND b = +5", ["b = 5"]),
    # subqueries
    (
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND y = 7 AND t.a = 1) AND b = 2",
        ["b = 2", "y = 7"],
    ),
    ("SELECT * FROM t WHERE a IN (SELECT x FROM u WHERE y = 1) OR a = 2", ["", "y = 1"]),
    ("SELECT (SELECT max(x) FROM u WHERE u.k = t.k AND y = 1) FROM t WHERE a = 2", ["y = 1", "a = 2"]),
    ("SELECT * FROM (SELECT * FROM t) z WHERE z.a = 3", [""]),
    ("SELECT * FROM (SELECT a, max(b) AS b FROM t GROUP BY a) z WHERE z.b = 3", [""]),
    ("SELECT * FROM (SELECT a, b FROM t GROUP BY ROLLUP (a, b)) z WHERE z.b = 3", [""]),
    ("SELECT * FROM (SELECT a, b FROM t GROUP BY a, b WITH CUBE) z WHERE z.b = 3", [""]),
    (
        "SELECT * FROM (SELECT a, b, grouping(a) FROM t GROUP BY GROUPING SETS ((a), (b))) z WHERE z.b = 3",
        [""],
    ),
    ("SELECT * FROM (SELECT a, row_number() OVER (ORDER BY b) n FROM t) z WHERE z.a = 3", [""]),
    ("SELECT * FROM (SELECT a FROM t LIMIT 5) z WHERE z.a = 3", [""]),
    ("SELECT * FROM (SELECT a FROM t OFFSET 5) z WHERE z.a = 3", [""]),
    ("SELECT * FROM (SELECT a FROM t LIMIT 5) z, u WHERE z.a = 3 AND x = 1", ["", "x = 1"]),
    ("SELECT a FROM t WHERE b = 1 LIMIT 5", ["b = 1"]),
    ("SELECT a, rank() OVER (ORDER BY c) FROM t WHERE b = 1", ["b = 1"]),
    ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT x FROM u) z WHERE z.a = 3", ["", ""]),
    ("SELECT * FROM t UNION ALL SELECT * FROM v WHERE a = 3", ["", "a = 3"]),
    ("SELECT a FROM t WHERE b = 1 EXCEPT SELECT a FROM v WHERE z = 3", ["b = 1", "z = 3"]),
    ("SELECT * FROM t LEFT JOIN (SELECT * FROM u) w ON t.k = w.k WHERE w.y IS NULL AND w.x = 2", ["", ""]),
    ("SELECT * FROM (SELECT * FROM t) AS z(p, q, r, m, n) WHERE p = 3", [""]),
    # common table expressions
    ("WITH q AS (SELECT * FROM t) SELECT * FROM q WHERE a = 5 AND s.f.g = 3", [""]),
    ("WITH Q AS (SELECT * FROM t) SELECT * FROM q WHERE a = 5", [""]),
    ("WITH q AS (SELECT * FROM t) SELECT * FROM q x JOIN q y ON x.k = y.k WHERE x.a = 1", [""]),
    (
        "WITH q AS (SELECT * FROM t) SELECT * FROM q WHERE a = 1 AND EXISTS (SELECT 1 FROM (q JOIN u ON true))",
        ["", ""],
    ),
    ("WITH q(m, n) AS (SELECT a, b FROM t) SELECT * FROM q WHERE m = 5", [""]),
    ("WITH q(b, a) AS (SELECT a, b FROM t) SELECT * FROM q WHERE a = 5", [""]),
    ("SELECT * FROM (SELECT a, b FROM t) AS z(b, a) WHERE z.a = 3", [""]),
    ("SELECT * FROM t AS z(b, a, c, k, s) WHERE z.a = 3", [""]),
    # within its own definition, and outside of the query that it is of, a name is a table's
    ("WITH t AS (SELECT * FROM t) SELECT * FROM t WHERE a = 5", [""]),
    ("WITH t AS (SELECT * FROM t WHERE b = 1) SELECT * FROM t WHERE a = 5", ["b = 1"]),
    ("WITH RECURSIVE t AS (SELECT * FROM t) SELECT * FROM t WHERE a = 5", []),
    (
        "WITH RECURSIVE r AS (SELECT * FROM t WHERE a = 1), t AS (SELECT * FROM u) SELECT * FROM r, t",
        ["a = 1", ""],
    ),
    (
        "SELECT * FROM (WITH t AS (SELECT * FROM u) SELECT * FROM t WHERE x = 1) q, t WHERE t.a = 5",
        ["", "a = 5"],
    ),
    ("WITH r AS (SELECT * FROM t WHERE a = 1), t AS (SELECT * FROM u) SELECT * FROM r, t", ["a = 1", ""]),
    ("WITH q AS (SELECT * FROM t) SELECT * FROM db.q WHERE a = 5", ["", ""]),
    (
        (
            "WITH RECURSIVE r AS (SELECT a FROM t WHERE b = 1 UNION ALL "
            "SELECT r.a FROM r JOIN t ON t.a = r.a WHERE c = 3) "
            "SELECT * FROM r WHERE a = 5"
        ),
        ["b = 1", "c = 3"],
    ),
    # tables of which nothing may be left out
    ("SELECT * FROM t TABLESAMPLE (5 ROWS) WHERE a = 1", [""]),
    ("SELECT * FROM t VERSION AS OF 3 WHERE a = 1", [""]),
    ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2)) WHERE c = 1", [""]),
    ("SELECT * FROM db.t WHERE db.t.a = 1", [""]),
    ("SELECT a, rand() FROM t WHERE a = 1", [""]),
    ("SELECT input_file_name() FROM t WHERE a = 1", [""]),
    ("SELECT _metadata.file_path FROM t WHERE a = 1", [""]),
    ("SELECT `input_file_name`() FROM t WHERE a = 1", [""]),
    ("SELECT a, builtin.`Rand`() FROM t WHERE a = 1", [""]),
    ("SELECT t.`_metadata`.file_path FROM t WHERE a = 1", [""]),
    ("SELECT `table` FROM t WHERE a = 1", ["a = 1"]),
    ("FROM t |> WHERE a = 1", [""]),
]


@pytest.mark.parametrize(("text", "expected"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions(text: str, expected: list[str]) -> None:
    query = parse_query(text)
    assert query is not None
    conditions = query.conditions([COLUMNS.get(table.ref.parts[-1]) for table in query.tables])
    assert [", ".join(map(str, some)) for some in conditions] == expected


def test_a_query_that_is_too_deep() -> None:
    text = "SELECT * FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(5000))
    query = parse_query(text)
    assert query is not None
    ((condition,),) = query.conditions([COLUMNS["t"]])
    assert str(condition).count("OR") == 4999


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t, u x WHERE t.a = 1", "SELECT a FROM {0} AS `t`, {1} x WHERE t.a = 1"),
        (
            "SELECT '{t}' FROM db.`t 1` JOIN t AS z(p) -- t",
            "SELECT '{{t}}' FROM {0} AS `t 1` JOIN {1} AS z(p) -- t",
        ),
        ("SELECT a FROM 'data/o''rd' o, orc.`/x/{y}`", "SELECT a FROM {0} o, {1}"),
        ('SELECT a FROM "data/x"', "SELECT a FROM {0}"),
        ("SELECT /*+ BROADCAST(t) */ a FROM t", "SELECT /*+ BROADCAST(t) */ a FROM {0} AS `t`"),
        (
            "SELECT a FROM range(5), t, VALUES (1) AS w(x)",
            "SELECT a FROM range(5), {0} AS `t`, VALUES (1) AS w(x)",
        ),
        ("SELECT a FROM `q{`", "SELECT a FROM {0} AS `q{{`"),
        ("explain -- x\n select a FROM t;", " -- x\n select a FROM {0} AS `t` "),
        ("SELECT a FROM t; ; -- ;", "SELECT a FROM {0} AS `t`    -- ;"),
    ],
)
def test_other_names_for_tables(text: str, expected: str) -> None:
    query = parse_query(text)
    assert query is not None
    names = [f"{{{number}}}" for number in range(len(query.tables))]
    assert query.with_tables(names, is_format=True) == f"({expected}\n\n)"
    assert query.with_tables([None] * len(names)) == f"({query.text}\n\n)"
    # places of the query are places of the text
    assert query.text == text[-len(query.text) :].replace(";", " ", text.count(";") - text.endswith("-- ;"))


#: What changes tables, and where that is told.
CHANGES = [
    ("WITH x AS (SELECT 7 a) INSERT INTO t SELECT a FROM x", "INSERT"),
    ("with x as (select 7 a) insert overwrite t select a from x", "insert"),
    ("WITH x AS (SELECT 7 a) INSERT OVERWRITE DIRECTORY '/x' USING orc SELECT a FROM x", "INSERT"),
    ("WITH x AS (SELECT 9 a), y(b) AS (SELECT ')') FROM x INSERT INTO t SELECT a", "INSERT"),
    ("WITH x (SELECT 1 a), y AS (WITH z AS (SELECT 1) SELECT 1) INSERT INTO t TABLE x", "INSERT"),
    ("WITH x (a) (SELECT 7) INSERT INTO t SELECT a FROM x", "INSERT"),
    ("WITH RECURSIVE x (a) MAX RECURSION LEVEL 5 AS (SELECT 7) INSERT INTO t SELECT a FROM x", "INSERT"),
    ("WITH `DELETE` AS (SELECT 7 a) DELETE FROM t", "DELETE"),
    ("WITH x AS (SELECT 7 a) UPDATE t SET a = 1", "UPDATE"),
    ("WITH x AS (SELECT 7 a) MERGE INTO t USING x ON t.a = x.a WHEN MATCHED THEN DELETE", "MERGE"),
    ("WITH x AS (SELECT 7 a) CREATE TABLE u AS SELECT 1", "CREATE"),
    ("FROM t INSERT INTO t SELECT 8", "INSERT"),
    ("FROM t, LATERAL explode(array(1)) e(c) INSERT INTO TABLE t SELECT c", "INSERT"),
    ("FROM insert INSERT INTO t SELECT 8 INSERT INTO u SELECT 9", "INSERT"),
    ("FROM (FROM t SELECT a) INSERT OVERWRITE TABLE t SELECT 1", "INSERT"),
    (" -- SELECT 1\n /* x /* y */ */ FROM t\n INSERT INTO t SELECT 8;", "INSERT"),
]


@pytest.mark.parametrize("explain", ["", "EXPLAIN ", "/* x */ explain\n"])
@pytest.mark.parametrize(("text", "word"), CHANGES)
def test_what_changes_tables_is_no_query(text: str, word: str, explain: str) -> None:
    with raises(StatementError) as caught:
        parse_query(explain + text)
    _, line, mark = str(caught.value).splitlines()
    assert f"expected a query, found '{word}'" in str(caught.value)
    assert line[len(mark) - 1 :].startswith(f"{word} ")


@pytest.mark.parametrize("text", ["FROM t SELECT a) UNION (SELECT 1", "EXPLAIN VALUES (1, ')'))"])
def test_parentheses_are_closed_once(text: str) -> None:
    with raises(StatementError):
        parse_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS insert, 2 delete, 'INSERT INTO t' AS `update`",
        "WITH insert AS (SELECT 1 a), delete AS (SELECT 'INSERT INTO t') SELECT insert.a FROM insert, delete",
        "WITH x AS (SELECT 1 insert) SELECT insert overwrite FROM x",
        "WITH x (SELECT 1 AS delete) (SELECT delete FROM x)",
        "WITH x AS (SELECT 1 a) -- INSERT INTO t\n FROM x SELECT a",
        "FROM insert SELECT a",
        "FROM insert overwrite JOIN x SELECT a",
        "FROM t LATERAL VIEW explode(array(1)) insert overwrite SELECT overwrite",
        "FROM t LATERAL VIEW explode(array(1)) `insert` overwrite LATERAL VIEW explode(array(1)) x y SELECT y",
        "FROM t insert SELECT a /* INSERT INTO t */",
        "FROM t SELECT insert overwrite, 1",
        "FROM t, insert overwrite, x SELECT 1",
        "FROM (SELECT 1 AS update) |> WHERE update = 1",
        "VALUES ('FROM t INSERT INTO t SELECT 1')",
        "TABLE insert",
    ],
)
def test_names_as_of_statements_that_change_tables(text: str) -> None:
    assert parse_query(text) is not None


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("SELECT a, count(*) FROM t WHERE T.B = 1 GROUP BY ALL", "ab"),
        ("SELECT `A` FROM t ORDER BY u.c", "ac"),
        ("SELECT a * b FROM t", "ab"),
        ("SELECT * FROM t", "abcks"),
        ("SELECT t.* FROM t", "abcks"),
        ("SELECT * EXCEPT (a) FROM t", "abcks"),
        ("SELECT struct(*) FROM t", "abcks"),
        ("SELECT count(t.*) FROM t", "abcks"),
        ("SELECT a, count(*) FROM t GROUP BY a", "a"),
        ("SELECT count(*, a) FROM t", "abcks"),
        ("SELECT count(a, *) FROM t", "abcks"),
        ("SELECT count(* EXCEPT (a)) FROM t", "abcks"),
        ("FROM t", "abcks"),
        ("SELECT a FROM t NATURAL JOIN u", "abcks"),
        ("SELECT a FROM t JOIN u USING (k)", "ak"),
        ("SELECT `(a|b)` FROM t", "abcks"),
        ("SELECT x FROM t AS z(x, y)", "abcks"),
        ("SELECT x FROM (t) AS z(x, y)", "abcks"),
        ("SELECT identifier('a') FROM t", "abcks"),
        ('SELECT "a" FROM t', "a"),
        ("SELECT 1 FROM t PIVOT (sum(a) FOR b IN (1))", "abcks"),
    ],
)
def test_columns_that_are_asked_for(text: str, needed: str) -> None:
    query = parse_query(text)
    assert query is not None
    assert "".join(query.needed(COLUMNS["t"])) == needed
    assert "".join(query.needed([name.upper() for name in COLUMNS["t"]])) == needed.upper()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t WHERE k = 1", False),
        ("SELECT a FROM (SELECT a, b FROM t) WHERE b > 1 LIMIT 5", False),
        ("SELECT max(a) FROM t", True),
        ("SELECT a FROM t GROUP BY a", True),
        ("SELECT DISTINCT a FROM t", True),
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t CLUSTER BY a", True),
        ("SELECT row_number() OVER (PARTITION BY a) FROM t", True),
        ("SELECT a FROM t UNION SELECT 1", True),
        ("SELECT a FROM t JOIN range(10) AS r ON t.a = r.id", True),
        ("SELECT a FROM t, u WHERE t.a = u.k", True),
        ("SELECT a FROM t WHERE a IN (SELECT k FROM u)", True),
        ("WITH c AS (SELECT a FROM t) SELECT x.a FROM c AS x JOIN c AS y USING (a)", True),
        # few rows may become many
        ("SELECT count(*) FROM t JOIN u ON t.a < u.k", False),
        ("SELECT count(x) FROM t LATERAL VIEW explode(sequence(1, a)) AS x", False),
        ("SELECT x, count(*) FROM (SELECT explode(a) AS x FROM t) GROUP BY x", False),
        ("SELECT a FROM t SELECT", False),
    ],
)
def test_queries_for_which_spark_may_shuffle(text: str, expected: bool) -> None:
    query = parse_query(text)
    assert query is not None
    assert query.may_shuffle == expected


@pytest.mark.parametrize(
    "text", ["SHOW TABLES", "", "CREATE TABLE t AS SELECT 1", "EXPLAIN", "'select'", "INSERT INTO t SELECT 1"]
)
def test_no_queries(text: str) -> None:
    assert parse_query(text) is None


def test_what_only_spark_understands() -> None:
    for text in ("TABLE t", "SELECT a b c FROM t", "SELECT ' FROM t", "SELECT 1; SELECT 2"):
        query = parse_query(text)
        if query is not None:
            assert query.problem == "the query is written in a way that only Spark understands"
            assert query.tables == ()
    query = parse_query("SELECT ${x} FROM t WHERE a = 1")
    assert query is not None
    assert query.problem is not None


@pytest.mark.parametrize(
    "text",
    [
        "WITH q AS (SELECT * FROM t) SELECT a FROM q WHERE a = 1 UNION ALL SELECT a FROM IDENTIFIER('q')",
        "WITH q AS (SELECT * FROM t) SELECT q.a FROM q JOIN (TABLE q) z ON q.b = z.b WHERE q.a = 1",
        "WITH q AS (SELECT * FROM t) SELECT q.a FROM q WHERE q.a = 1 AND EXISTS (SELECT 1 FROM (table q) z)",
    ],
)
def test_tables_that_are_named_otherwise(text: str) -> None:
    """Such a reader of a common table expression reads all of it."""
    query = parse_query(text)
    assert query is not None
    assert query.problem is not None
    assert query.conditions([COLUMNS.get(str(table.ref)) for table in query.tables]) == [[]] * len(
        query.tables
    )
    quoted = parse_query("SELECT a FROM t WHERE `table` = 1 AND s = 'TABLE'")
    assert quoted is not None
    assert quoted.problem is None


@pytest.mark.parametrize("column", ["default.t.a", "spark_catalog.default.t.a"])
def test_columns_with_the_name_of_the_database(column: str) -> None:
    for text, blocked in (("t", True), ("default.t", True), ("t AS t", False), ("u", False)):
        query = parse_query(f"SELECT {column} FROM {text}")
        assert query is not None
        assert [table.blocked is not None for table in query.tables] == [blocked], text


@pytest.mark.parametrize(
    ("predicate", "value"),
    [
        ("a = 1", None),
        ("a <=> 1", False),
        ("a <=> NULL", True),
        ("a IS NULL", True),
        ("a IS NOT NULL", False),
        ("a = 1 OR b IS NULL", True),
        ("a = 1 AND b IS NULL", None),
        ("a = 1 AND b IS NOT NULL", False),
        ("NOT (a = 1 AND b IS NOT NULL)", True),
        ("NOT a IN (1, 2)", None),
        ("a LIKE 'x%' OR FALSE", None),
    ],
)
def test_predicates_of_nulls(predicate: str, value: bool | None) -> None:
    assert of_nulls(parse_predicate(predicate)) is value


def test_places_are_those_of_the_text() -> None:
    """Each character of a query with other names is found where it was written."""
    text = "SELECT t.a, 'x'\nFROM 'some/path' p JOIN t ON p.a = t.a\nJOIN db.u AS z WHERE 1 = 2"
    query = parse_query(text)
    assert query is not None
    assert len(query.tables) == 3
    for names in (
        [None] * 3,
        ["orc.`/a/longer/some/path`", None, None],
        ["p", "a.b", None],
        ["p", "q", "rr"],
    ):
        sent = query.with_tables(names)
        kept = [at for at in range(len(text)) if not any(t.start <= at < t.end for t in query.tables)]
        places = [query.place(at, names) for at in range(1, len(sent))]
        assert [at for at in dict.fromkeys(places) if at in set(kept)] == kept
        for at, place in enumerate(places, 1):
            if place in set(kept) and place < len(text):
                assert sent[at] == text[place]
        assert query.place(len(sent), names) == len(text)


@pytest.mark.parametrize("condition", ["(" * 40 + "TRUE" + ")" * 40, "a = 1 {# OR TRUE #}"])
def test_a_query_that_has_no_tokens_here_is_left_to_spark(condition: str) -> None:
    query = parse_query(f"SELECT a FROM 't' WHERE {condition}")
    assert query is not None
    assert (query.is_parsed, query.tables) == (False, ())


def test_a_comment_that_goes_on_in_spark_is_not_answered_here() -> None:
    with raises(UnsupportedError):
        parse("SELECT a FROM t WHERE a = 1 -- x\\\nOR TRUE")
    # a blank behind it, or quotes around it, make it one backslash of others
    for text in ("SELECT a FROM t -- x\\ \nWHERE a = 1", "SELECT a FROM t /* -- x\\\n */ WHERE a = 1"):
        assert str(parse(text)) == "SELECT a FROM t WHERE a = 1"
    assert str(parse("SELECT a FROM t WHERE s = '-- \\\\\n'")) == "SELECT a FROM t WHERE s = '-- \\\\\\n'"
