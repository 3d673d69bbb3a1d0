"""Statements that write the rows of a query into a table: INSERT ... SELECT and CREATE TABLE ... AS SELECT.

Only the forms whose head is certain are recognized; any other statement is None here, and Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from hindex.errors import StatementError
from hindex.sql.parameters import count_positional
from hindex.sql.queries import Query, parse_query
from hindex.sql.statements import TableRef
from hindex.value_class import value_class

_QUERY_WORDS = ("SELECT", "WITH")


@value_class
class WriteStatement:
    """A statement that writes the rows of a query.

    Attributes:
        head: the text before the query.
        target: the table that is written.
        is_create: True for CREATE TABLE ... AS.
        location: the LOCATION of a new table, if the statement names one.
        query_args: the parameters that are left for the query.
    """

    head: str
    target: TableRef
    query: Query
    is_create: bool
    location: str | None
    query_args: Mapping[str, Any] | Sequence[Any] | None


def parse_write(text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> WriteStatement | None:
    """Parse a statement that writes the rows of a query; return None for any other.

    Args:
        args: the values of its parameters.
    """
    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        return None
    head = _Head(tokens)
    target_and_kind = head.insert() if head.accept("INSERT") else head.create()
    if target_and_kind is None:
        return None
    target, is_create = target_and_kind
    start = tokens[head.at].start
    rest = args
    if args is not None and not isinstance(args, Mapping):
        rest = args[count_positional(tokens[: head.at]) :]
    try:
        query = parse_query(text[start:], rest)
    except StatementError:
        return None
    if query is None or query.is_explain:
        return None
    return WriteStatement(text[:start], TableRef.name(*target), query, is_create, head.location, rest)


class _Head:
    """The tokens before the query; ``at`` is the next one."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.at = 0
        self.location: str | None = None

    def word(self, ahead: int = 0) -> str:
        """Return the word of a token in upper case; an empty string for a quoted one and at the end."""
        at = self.at + ahead
        if at >= len(self._tokens):
            return ""
        token = self._tokens[at]
        return "" if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else token.text.upper()

    def accept(self, *words: str) -> bool:
        """Go past some words, if all of them come next."""
        if all(self.word(number) == word for number, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def insert(self) -> tuple[list[str], bool] | None:
        """Parse ``{INTO | OVERWRITE} [TABLE] name [PARTITION (...)] [IF NOT EXISTS] [BY NAME | (columns)]``."""
        if not (self.accept("INTO") or self.accept("OVERWRITE")):
            return None
        self.accept("TABLE")
        name = self._name()
        if not name:
            return None
        if self.accept("PARTITION") and not self._skip_parentheses():
            return None
        self.accept("IF", "NOT", "EXISTS")
        if not self.accept("BY", "NAME") and self.word() == "(":
            self._skip_parentheses()
        return (name, False) if self.word() in _QUERY_WORDS else None

    def create(self) -> tuple[list[str], bool] | None:
        """Parse ``CREATE [EXTERNAL] TABLE [IF NOT EXISTS] name ... AS``."""
        if not self.accept("CREATE"):
            return None
        self.accept("EXTERNAL")
        if not self.accept("TABLE"):
            return None
        self.accept("IF", "NOT", "EXISTS")
        name = self._name()
        while name and self.at < len(self._tokens):
            if self.word() == "AS" and self.word(1) in _QUERY_WORDS:
                self.at += 1
                return name, True
            if self.word() == "OPTIONS":
                return None  # a path may be among them
            if self.word() == "LOCATION" and self.at + 1 < len(self._tokens):
                following = self._tokens[self.at + 1]
                if following.token_type is not TokenType.STRING or self.location is not None:
                    return None
                self.location = following.text
            if self.word() != "(":
                self.at += 1
            elif not self._skip_parentheses():
                return None
        return None

    def _name(self) -> list[str]:
        """Parse the parts of a table's name; return an empty list if none comes next."""
        parts: list[str] = []
        while self.at < len(self._tokens):
            token = self._tokens[self.at]
            is_quoted = token.token_type is TokenType.IDENTIFIER
            if not is_quoted and not (token.text.isidentifier() and token.token_type is not TokenType.STRING):
                return []
            parts.append(token.text)
            self.at += 1
            if self.at >= len(self._tokens) or self._tokens[self.at].token_type is not TokenType.DOT:
                break
            self.at += 1
        # IDENTIFIER(...) names a table by a string
        return [] if self.word() == "(" and parts[-1:] == ["IDENTIFIER"] else parts

    def _skip_parentheses(self) -> bool:
        """Go past what is in parentheses, if they come next and are closed."""
        depth = 0
        for at in range(self.at, len(self._tokens)):
            kind = self._tokens[at].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                self.at = at + 1
                return at > self.at or kind is TokenType.R_PAREN
        return False
