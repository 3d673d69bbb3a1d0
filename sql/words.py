"""Words that cannot be a plain identifier everywhere: names equal to them are written in backquotes.

A test holds the list against the keywords of the installed sqlglot.
"""

from __future__ import annotations

KEYWORDS = frozenset(
    """
    ALL ALTER ALWAYS ANALYZE AND ANY ARRAY AS BETWEEN BY CASE CAST CONNECT_BY_ROOT CREATE CROSS CURRENT_DATE
    CURRENT_TIMESTAMP CURRENT_USER DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FETCH FOR
    FROM FULL GLOB GRANT GROUP HAVING IF ILIKE IN INDEX INNER INSERT INTERSECT INTERVAL INTO IS JOIN
    LATERAL LEFT LIKE LIMIT LIST LOCK MAP MINUS NATURAL NOT NOTNULL NULL NULLABLE OBJECT ON OR ORDER OUTER OVER
    PARTITIONED_BY QUALIFY RANGE REGEXP RETURNING REVOKE RIGHT RLIKE ROLLBACK SELECT SERDEPROPERTIES
    SESSION_USER SET SHOW STRUCT TABLE TABLESAMPLE THEN TRUE UNCACHE UNION USING VALUES WHEN WHERE WITH XOR
    """.split()  # noqa: SIM905
)

#: Who runs the queries that hindex alone does not, a sentence.
WITH_SPARK = (
    "With a Spark session, hindex.connect(spark=spark) or --master 'local[*]', Spark runs it; without one, DuckDB "
    "does: t = hx.table(...).dataset(), duckdb.sql('SELECT ... FROM t')"
)
#: The end of messages about statements that change tables.
NO_CHANGES = (
    "hindex changes no table. Run the statement by Spark; REFRESH INDEXES ON table then updates its indexes"
)
