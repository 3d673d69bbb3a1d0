"""Queries that Spark runs: which tables they name, and where, so that rows of a table can be filtered beforehand.

A query is never written anew: Spark gets its text, in which only the names of tables are replaced. What is learned
here may leave out conditions; it must not find one that the query does not apply.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from hindex.sql.dialect import Hindex, new_spark_parser
from hindex.sql.lexer import SqlText, check_quotes
from hindex.sql.parameters import Args, UnboundParameterError, bind_parameters
from hindex.sql.predicate import Predicate
from hindex.sql.pushdown import Pushdown, is_plain_table
from hindex.sql.statements import TableRef
from hindex.sql.words import NO_CHANGES
from hindex.value_class import value_class

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_BLANKS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_EXPLAIN = re.compile(rf"{_BLANKS}EXPLAIN\b", re.IGNORECASE | re.DOTALL)
#: What may follow EXPLAIN: Spark's kinds of it, and the one of hindex that reads the rows.
_KINDS = re.compile(rf"{_BLANKS}(ANALYZE|EXTENDED|FORMATTED|COST|CODEGEN)\b", re.IGNORECASE | re.DOTALL)
_FIRST_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
#: What may follow common table expressions and changes tables, or looks like it; no query begins with one.
_CHANGES = frozenset(
    {"ALTER", "CALL", "CREATE", "DELETE", "DROP", "INSERT", "MERGE", "REPLACE", "TRUNCATE", "UPDATE"}
)

#: A comment may end the text, and one whose line ends in a backslash goes on behind it.
_CLOSING = "\n\n)"

#: Functions whose values depend on how, and in how many parts, rows are read.
_READ_DEPENDENT = frozenset(
    {
        "INPUT_FILE_NAME",
        "INPUT_FILE_BLOCK_START",
        "INPUT_FILE_BLOCK_LENGTH",
        "MONOTONICALLY_INCREASING_ID",
        "SPARK_PARTITION_ID",
        "RAND",
        "RANDN",
        "RANDOM",
        "RANDSTR",
        "UNIFORM",
        "UUID",
        "SHUFFLE",
    }
)

_SHUFFLING = (exp.AggFunc, exp.Cluster, exp.Distinct, exp.Group, exp.Order, exp.SetOperation, exp.Window)


@value_class
class QueryTable:
    """One place of a query that names a table: ``text[start:end]``.

    Attributes:
        qualifier: the name that columns are qualified with there, where it is not an alias that follows.
        blocked: why its rows cannot be filtered beforehand, if that is so.
    """

    ref: TableRef
    start: int
    end: int
    qualifier: str | None = None
    blocked: str | None = None


class Query:
    """A query as Spark understands it. Make one with `parse_query`.

    Attributes:
        text: the query, without the EXPLAIN before it.
        args: the values of its parameters, which Spark has to be given again.
        tables: where it names tables, in order of the text; none where it could not be parsed.
        problem: why no table's rows can be filtered beforehand, if that is so.
    """

    def __init__(self, text: str, is_explain: bool, args: Args | None = None) -> None:
        self.text = text
        self.is_explain = is_explain
        self.args = args
        self.is_select = text.lstrip()[:6].upper() == "SELECT"
        self.problem: str | None = None
        self.tables: tuple[QueryTable, ...] = ()
        self._nodes: list[exp.Table] = []
        self._root: Node | None = None
        self._asks_for_all = True
        self._quoted: tuple[QueryTable, ...] = ()
        self._tokens: Sequence[Token] = ()
        self._parse()

    @property
    def is_parsed(self) -> bool:
        """Return True if hindex's parser knows the syntax; otherwise only Spark can interpret the query."""
        return self._root is not None

    @property
    def may_shuffle(self) -> bool:
        """Return True if Spark may shuffle rows of its tables: to join, group or sort them, for DISTINCT or a window.

        False if a generator, or a join without an equality, may make so many rows of few that tasks should share them.
        """
        if self._root is None or self._root.find(exp.Explode, exp.Inline, exp.Lateral) is not None:
            return False
        conditions = [join.args.get("on") for join in self._root.find_all(exp.Join)]
        if any(on is not None and on.find(exp.EQ, exp.NullSafeEQ) is None for on in conditions):
            return False
        return bool(conditions) or len(self._nodes) > 1 or self._root.find(*_SHUFFLING) is not None

    def leave(self, reason: str) -> None:
        """Filter no table beforehand: Spark may read the text otherwise, for one take names in quotes for names."""
        self.problem = reason
        self.tables = tuple(table for table in self.tables if self.text[table.start] != '"')

    def needed(self, columns: Iterable[str]) -> list[str]:
        """Return the columns whose names the query may need, from any of its tables."""
        if self._asks_for_all:
            return list(columns)
        names = {token.text.lower() for token in self._tokens}
        return [column for column in columns if column.lower() in names]

    def returned(self, columns: Iterable[str]) -> list[str]:
        """Return those of `needed` that a query of one table names outside of its conditions on rows."""
        needed = self.needed(columns)
        if self._asks_for_all or self._root is None:
            return needed
        nodes = (node for node in self._root.find_all(exp.Column) if not _is_in_where(node))
        names = {part.name.lower() for node in nodes for part in node.parts}
        return [column for column in needed if column.lower() in names]

    def conditions(self, columns: Sequence[Sequence[str] | None]) -> list[list[Predicate]]:
        """Return conditions for each table that all rows which can affect the answer satisfy.

        Args:
            columns: the columns of each table; None where they are not known.
        """
        if self._root is None or self.problem is not None:
            return [[] for _ in self.tables]
        known_columns = {
            id(node): names for node, names in zip(self._nodes, columns, strict=True) if names is not None
        }
        try:
            predicates = Pushdown(self.text, known_columns).run(self._root)
        except RecursionError:
            self.problem = "the query is nested too deeply"
            predicates = {}
        return [
            predicates.get(id(node), []) if table.blocked is None else []
            for node, table in zip(self._nodes, self.tables, strict=True)
        ]

    def with_tables(
        self,
        names: Sequence[str | None],
        *,
        is_format: bool = False,
    ) -> str:
        """Return the text in parentheses with other names for tables; None keeps a name as it is written.

        In parentheses Spark takes queries only: it carries out no statement that changes a table, whatever it reads
        in a text, and with what it puts in place of variables.

        Where no alias follows, a table goes on under the name that its columns are qualified with.

        Args:
            is_format: double the braces of everything but the new names, as ``str.format`` undoes it; names that are no
                fields of it are given with `as_literal`.
        """
        parts, at = [], 0

        def kept(text: str) -> str:
            return as_literal(text) if is_format else text

        for table, name in zip(self.tables, names, strict=True):
            if name is not None:
                parts += [kept(self.text[at : table.start]), name + kept(_alias(table))]
                at = table.end
        parts.append(kept(self.text[at:]))
        return "".join(["(", *parts, _CLOSING])

    def by_words(self) -> Query:
        """Return a query that could not be parsed with the tables that its tokens show: quoted paths.

        For what is wrong with it only. To Spark such a path is a mistake before any other, and with another name in
        its place Spark may run what was not meant.
        """
        query = copy.copy(self)
        query.tables = self._quoted or self.tables
        return query

    def place(self, at: int, names: Sequence[str | None]) -> int:
        """Return the position in `text` of a character of `with_tables`.

        The position of a substituted name is that of the original.

        Args:
            names: those that were given, without ``is_format``.
        """
        shift = 1  # the parenthesis
        for table, name in zip(self.tables, names, strict=True):
            start = table.start + shift
            if name is None or at < start:
                continue
            end = start + len(name) + len(_alias(table))
            if at < end:
                return table.start
            shift += end - start - (table.end - table.start)
        return min(max(at - shift, 0), len(self.text))

    def _parse(self) -> None:
        tokens: list[Token] = []
        unbound: str | None = None
        try:
            check_quotes(self.text)
            tokens = Hindex().tokenize(self.text)
            while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
                tokens = tokens[:-1]
            try:
                bound = bind_parameters(tokens, self.args)
            except UnboundParameterError:
                bound, unbound = tokens, "a parameter is of a type that hindex does not bind"
            trees = new_spark_parser().parse(bound, self.text)
        except (ParseError, TokenError, RecursionError):
            self.problem = "the query is written in a way that only Spark understands"
            self._quoted = tuple(_quoted_tables(tokens))
            return
        root: Any = trees[0] if len(trees) == 1 else None
        if not isinstance(root, exp.Query):
            self.problem = "the query is written in a way that only Spark understands"
            return
        self._root = root
        self._tokens = tokens
        self.problem = unbound or _problem(self.text, tokens)
        qualified = _database_qualified(root)
        places = []
        for node in root.find_all(exp.Table):
            if node.find_ancestor(exp.Hint) is None and (table := _query_table(self.text, node, qualified)):
                places.append((table, node))
        places.sort(key=lambda item: item[0].start)
        self.tables = tuple(table for table, _ in places)
        self._nodes = [node for _, node in places]
        self._asks_for_all = _asks_for_all(root)


def _alias(table: QueryTable) -> str:
    """Return the text that follows a substituted table name, so that qualified columns still resolve."""
    return "" if table.qualifier is None else f" AS `{table.qualifier.replace('`', '``')}`"


def _quoted_tables(tokens: Sequence[Token]) -> Iterator[QueryTable]:
    """Yield the quoted paths that the tokens show to be tables: after FROM, JOIN, and a comma after such a path."""
    is_query = [True]  # of each parenthesis that is open, and outside of all
    previous = [""] * 3  # the words before, the last one first; a table is "''"
    for token, following in zip(tokens, [*tokens, None][1:], strict=True):
        word = "" if token.token_type is TokenType.IDENTIFIER else token.text.upper()
        if token.token_type is TokenType.L_PAREN:
            is_query.append(following is not None and following.text.upper() in _FIRST_WORDS)
        elif token.token_type is TokenType.R_PAREN and len(is_query) > 1:
            is_query.pop()
        elif token.token_type is TokenType.STRING and token.text:
            is_from = previous[0] == "FROM" and previous[1] != "DISTINCT" and is_query[-1]
            is_listed = previous[0] == "," and "''" in previous[1:]
            word = "''" if is_from or is_listed or previous[0] == "JOIN" else ""
            if word:
                yield QueryTable(TableRef.path(token.text), token.start, token.end + 1)
        if word != "AS":
            previous = [word, *previous[:-1]]


def as_literal(text: str) -> str:
    """Double the braces of a text, so that ``str.format`` returns it unchanged."""
    return text.replace("{", "{{").replace("}", "}}")


def parse_query(text: str, args: Args | None = None) -> Query | None:
    """Parse a query, with or without EXPLAIN before it; return None for a text that does not begin like one.

    Args:
        args: the values of its parameters, by name or in their order; Spark has to be given them again.

    Raises:
        StatementError: if it begins like a query, and goes on as a statement that changes a table, or closes a
            parenthesis that is not open.
    """
    explain = _EXPLAIN.match(text)
    start = explain.end() if explain else 0
    rest = text[start:]
    tokens = _query_tokens(rest)
    if not tokens:
        return None
    change = _change(tokens)
    if change is not None:
        message = f"expected a query, found {change.text!r}: {NO_CHANGES}"
        raise SqlText(text).error(message, start + change.start)
    if (closing := _closing_nothing(tokens)) is not None:
        raise SqlText(text).error("found ')' without the '(' that it closes", start + closing.start)
    while tokens[-1].token_type is TokenType.SEMICOLON:
        end = tokens.pop()
        rest = f"{rest[: end.start]} {rest[end.end + 1 :]}"
    return Query(rest, explain is not None, args)


def explain_kind(text: str) -> str | None:
    """Return the words between EXPLAIN and a query, such as EXTENDED; None if there are none."""
    explain = _EXPLAIN.match(text)
    kind = _KINDS.match(text, explain.end()) if explain else None
    if kind is None or not _query_tokens(text[kind.end() :]):
        return None
    # for a query with a syntax error, the error message is more helpful
    is_sound = kind[1].upper() != "ANALYZE" or Query(text[kind.end() :], is_explain=True).is_parsed
    return kind[1].upper() if is_sound else None


def _query_tokens(text: str) -> list[Token]:
    """Return the tokens of a text that begins like a query; an empty list for any other."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        return []
    begins = bool(tokens) and tokens[0].token_type is not TokenType.STRING
    return tokens if begins and tokens[0].text.upper() in _FIRST_WORDS else []


def _change(tokens: Sequence[Token]) -> Token | None:
    """Return the token that makes a text a statement which changes a table, after common table expressions or FROM.

    It serves the message only. What is missed here Spark refuses, as `Query.with_tables` has it.
    """
    outer = _outer(tokens)
    words = [
        "" if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else token.text.upper()
        for token in outer
    ]
    at = 0
    if words[0] == "WITH":
        following = zip(words, [*words[1:], ""], strict=True)
        ends = [
            n
            for n, (word, then) in enumerate(following)
            if word == ")" and then not in (",", "AS", "(", "MAX")
        ]
        at = ends[0] + 1 if ends else len(words)
    if at < len(words) and words[at] in _CHANGES:
        return outer[at]
    if at == len(words) or words[at] != "FROM":
        return None
    # behind FROM itself and signs comes a name; what changes a table comes before any column is asked for
    for n in range(at + 2, len(words) - 2):
        if words[n] == "SELECT":
            break
        is_insert = (
            words[n] == "INSERT" and words[n + 1] in ("INTO", "OVERWRITE") and words[n + 2] != "SELECT"
        )
        if is_insert and words[n - 1] not in (",", ".", "JOIN", "AS"):
            return outer[n]
    return None


def _closing_nothing(tokens: Sequence[Token]) -> Token | None:
    """Return the first parenthesis that closes none in the text."""
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0:
            return token
    return None


def _outer(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens outside parentheses, with the parentheses themselves."""
    outer, depth = [], 0
    for token in tokens:
        if token.token_type is TokenType.R_PAREN:
            depth -= 1
        if depth <= 0:
            outer.append(token)
        if token.token_type is TokenType.L_PAREN:
            depth += 1
    return outer


def _query_table(text: str, node: exp.Table, qualified: set[tuple[str, str]]) -> QueryTable | None:
    """Return the position and form of a table name; None for CTEs, functions and unclear cases."""
    parts = node.parts
    if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
        return None
    names = [str(part.name) for part in parts]
    start, end = int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1
    written = text[start:end]
    is_path = len(names) == 1 and written[:1] in "'\""
    if len(names) == 1 and not is_path and _is_cte(node):
        return None
    blocked = None if is_plain_table(node) else "it is sampled, pivoted or read as of an earlier time"
    if is_path:
        return QueryTable(TableRef.path(names[0]), start, end, None, blocked)
    if len(names) == 2 and names[0].lower() == "orc" and written[-1:] == "`":
        return QueryTable(TableRef.path(names[1]), start, end, None, blocked)
    named = (pair for pair in qualified if pair[-1] == names[-1].lower())
    if not node.alias and any(len(names) == 1 or pair[0] == names[-2].lower() for pair in named):
        blocked = "its columns are written with the name of its database"
    return QueryTable(TableRef.name(*names), start, end, None if node.alias else names[-1], blocked)


def _is_cte(node: exp.Table) -> bool:
    """Return True if a name may refer to a common table expression that precedes it in an enclosing query.

    Within its own definition, the name is that of a table, unless it is recursive; one that comes later is never seen.
    """
    name = node.name.lower()
    inside: Node = node
    ancestor = node.parent
    while ancestor is not None:
        with_ = ancestor.args.get("with_")
        if isinstance(ancestor, exp.With):
            ctes = ancestor.expressions
            at = next(at for at, cte in enumerate(ctes) if cte is inside)
            seen = ctes[: at + 1] if ancestor.args.get("recursive") else ctes[:at]
        else:
            seen = with_.expressions if isinstance(with_, exp.With) and with_ is not inside else []
        if any(cte.alias.lower() == name for cte in seen):
            return True
        inside, ancestor = ancestor, ancestor.parent
    return False


def _problem(text: str, tokens: Sequence[Token]) -> str | None:
    if "${" in text:
        return "the query has variables that Spark replaces"
    for at, (token, following) in enumerate(zip(tokens, [*tokens[1:], None], strict=True)):
        if token.token_type is TokenType.STRING:
            continue
        # of a function, and of the metadata, the name may be in quotes
        word, is_quoted = token.text.upper(), token.token_type is TokenType.IDENTIFIER
        if (
            at
            and not is_quoted
            and (word == "TABLE" or (word == "IDENTIFIER" and following and following.text == "("))
        ):
            return f"the query names a table by {word}"
        if word in _READ_DEPENDENT and following is not None and following.token_type is TokenType.L_PAREN:
            return f"{word.lower()}() depends on how rows are read"
        if word == "_METADATA":
            return "the query asks for the metadata of files"
        if word == "|>" and not is_quoted:
            return "the query is written with |>"
    return None


def _is_in_where(node: Node) -> bool:
    """Return True within the WHERE of a query; that of an aggregate's FILTER is none."""
    where = node.find_ancestor(exp.Where)
    return where is not None and not isinstance(where.parent, exp.Filter)


def _asks_for_all(root: Node) -> bool:
    """Return True if the query may need columns that it does not name."""
    for node in root.walk():
        match node:
            case exp.Star():
                # COUNT(*) only says that rows count; beside other arguments, and cut, it is of the columns
                is_alone = isinstance(node.parent, exp.Count) and not node.parent.expressions
                select = node.parent
                # a row exists whatever its columns are
                is_existence = isinstance(select, exp.Select) and isinstance(select.parent, exp.Exists)
                if not (is_alone or is_existence) or any(node.args.values()):
                    return True
            case exp.Pivot():
                return True
            case exp.Join() if node.args.get("method"):
                return True
            case exp.TableAlias() if node.columns and isinstance(node.parent, exp.Table | exp.Subquery):
                return True
            case exp.Anonymous() if node.name.upper() in ("IDENTIFIER", "TABLE"):
                return True
            case exp.Identifier() if re.search(r"[^\w .:/%-]", node.name):
                # a name may be a pattern of names
                return True
    return False


def _database_qualified(root: Node) -> set[tuple[str, str]]:
    """Return the pairs of adjacent names in columns, which may be a database and a table."""
    pairs: set[tuple[str, str]] = set()
    for node in root.find_all(exp.Column, exp.Dot):
        assert isinstance(node, exp.Column | exp.Dot)
        names = [part.name.lower() for part in node.parts if isinstance(part, exp.Identifier)]
        pairs.update(pairwise(names))
    return pairs
