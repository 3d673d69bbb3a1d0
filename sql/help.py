"""Help on each statement, for the shell's ``help create index``."""

from __future__ import annotations

from hindex.value_class import value_class


@value_class
class StatementHelp:
    """Help for one statement: one line of purpose, the spellings, and notes of a line each."""

    purpose: str
    syntax: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.purpose, "", *(f"  {line}" for line in self.syntax)]
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes])


#: By the statement's first words, in the order of an index's life.
HELP: dict[str, StatementHelp] = {
    "CREATE INDEX": StatementHelp(
        "Builds an index on a column of a table, on several, or on an expression.",
        (
            "CREATE INDEX [IF NOT EXISTS] name [USING type] ON table (column, ...) [INCLUDE (column, ...)]",
            "    [WITH ('level' = 'STRIPE|PARTITION|TABLE', 'key' = 'value', ...)] [COMMENT 'text']",
            "    [WHERE partition predicate] [WITH DEFERRED REBUILD] [DRY RUN];",
            "CREATE INDEX [IF NOT EXISTS] name ON TABLE table (column, ...) AS 'type'",
            "    [WITH DEFERRED REBUILD] [IDXPROPERTIES ('key' = 'value', ...)]",
            "    [TBLPROPERTIES ('key' = 'value', ...)] [COMMENT 'text'];",
        ),
        (
            "The type is bitmap unless another is given; USING type may stand before the columns, too.",
            "INCLUDE stores copies of columns in small blocks, which makes reading few rows quicker.",
            "WHERE chooses partitions by their columns: p = 1, or p IN (1, 2).",
            "WITH DEFERRED REBUILD records the index without building it: REFRESH INDEX builds it.",
            "DRY RUN estimates the bytes to read and the size of the index.",
        ),
    ),
    "SHOW INDEXES": StatementHelp(
        "Lists indexes with their status and size.",
        (
            "SHOW [FORMATTED] INDEX[ES] [name] [ON table];",
            "SHOW [FORMATTED] INDEX[ES] [name] IN [DATABASE] database;",
        ),
        (
            "Without ON, lists the indexes of the store; without a store, those of the current database of the",
            "Spark session, and of the tables named so far.",
        ),
    ),
    "DESCRIBE INDEX": StatementHelp(
        "Describes one index, one line for each property.",
        ("DESCRIBE INDEX name [ON table];",),
    ),
    "DESCRIBE TABLE": StatementHelp(
        "Lists the columns of a table with their types.",
        ("DESCRIBE [TABLE] table;",),
        ("Partition columns are listed again in a section of their own.",),
    ),
    "SHOW COLUMNS": StatementHelp(
        "Lists the names of the columns of a table.",
        ("SHOW COLUMNS IN table;   FROM table is the same",),
    ),
    "REFRESH INDEX": StatementHelp(
        "Updates an index: reads changed and new files, and drops deleted ones.",
        (
            "REFRESH INDEX name [ON table] [WHERE partition predicate] [DRY RUN];",
            "REFRESH INDEXES ON table [WHERE partition predicate] [DRY RUN];",
            "REFRESH INDEXES IN database [DRY RUN];",
            "UPDATE INDEX name ...;   is the same",
        ),
        ("REFRESH INDEXES reads each file once for all indexes of the table.",),
    ),
    "ADOPT INDEXES": StatementHelp(
        "Keeps the indexes of a table that was copied or moved with its _hindex, without a build.",
        ("ADOPT INDEXES ON table [DRY RUN];",),
        (
            "Files whose length and ORC tail are the recorded ones count as copies if a sample of their stripes agrees",
            "with the indexes. REFRESH INDEXES reads the others.",
        ),
    ),
    "ALTER INDEX": StatementHelp(
        "Rebuilds or renames an index.",
        (
            "ALTER INDEX name [ON table] [PARTITION (column = value, ...)] REBUILD;",
            "ALTER INDEX name [ON table] RENAME TO new_name;",
        ),
        ("A rebuild that fails leaves the index as it was.",),
    ),
    "CHECK INDEXES": StatementHelp(
        "Lists indexes that are stale or damaged.",
        ("CHECK INDEX[ES] [name] [ON table | IN database] [VERIFY];",),
        ("VERIFY reads a sample of stripes and compares them with the index.",),
    ),
    "DROP INDEX": StatementHelp(
        "Removes an index, or its part for some partitions.",
        ("DROP INDEX [IF EXISTS] name [ON table] [WHERE partition predicate];",),
        ("WHERE is for indexes that were created with WHERE. The files go with VACUUM INDEXES.",),
    ),
    "VACUUM INDEXES": StatementHelp(
        "Deletes unused index files: of dropped indexes, failed builds and old snapshots.",
        ("VACUUM INDEXES ON table [RETAIN n HOURS] [DRY RUN];",),
        (
            "Files younger than the retention (168 hours by default) stay: a build may be writing them.",
            "If the table no longer exists, its whole store is removed.",
        ),
    ),
    "SELECT": StatementHelp(
        "Reads the matching rows of a table through its indexes.",
        (
            "SELECT column [AS name], ... | * FROM table [[AS] alias] [WHERE predicate]",
            "    [ORDER BY column [ASC | DESC] [NULLS FIRST | LAST], ...] [LIMIT n] [OFFSET n];",
            "SELECT COUNT(*) | COUNT([DISTINCT] c) | MIN(c) | MAX(c) [AS name], ... FROM table [WHERE predicate];",
            "SELECT EXISTS(SELECT 1 FROM table [WHERE predicate]) [AS name];",
            "SELECT DISTINCT c, ... FROM table [WHERE predicate] [ORDER BY c, ...] [LIMIT n] [OFFSET n];",
            "SELECT c, ..., COUNT(*), ... FROM table [WHERE predicate] GROUP BY c | position, ...",
            "    [HAVING condition] [ORDER BY item | position, ...] [LIMIT n] [OFFSET n];",
        ),
        ("COUNT, MIN, MAX and DISTINCT are answered from indexes alone where possible.",),
    ),
    "EXPLAIN": StatementHelp(
        "Shows how a SELECT is answered: which indexes it uses, and what they skip.",
        ("EXPLAIN [ANALYZE] SELECT ...;",),
        ("ANALYZE also runs it, and shows the data read and the time of each step.",),
    ),
}

_OTHER_WORDS = {"UPDATE": "REFRESH", "DESC": "DESCRIBE"}


def statement_help(words: str) -> str | None:
    """Return the help for the statements that begin with some words, in any letter case; None if there are none."""
    first, *others = words.upper().replace("FORMATTED ", "").split() or [""]
    first = _OTHER_WORDS.get(first, first)
    matches = [
        str(text)
        for statement, text in HELP.items()
        if statement.split()[0] == first
        and (not others or others[0].removesuffix("ES") in statement.removesuffix("ES").split()[1:])
    ]
    return "\n\n".join(matches) or None
