"""Text to typed statements and predicates.

>>> parse("SELECT id FROM 'data/users' WHERE age > 20 LIMIT 5").limit
5
>>> str(parse_predicate("age between 20 and 25"))
'age >= 20 AND age <= 25'
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import cast

from sqlglot import Token, TokenType
from sqlglot.errors import ParseError, TokenError

from hindex.sql.dialect import ColumnsParser, Hindex, HindexParser, PredicateParser, new_parser
from hindex.sql.lexer import SqlSyntaxError, SqlText, check_quotes, split
from hindex.sql.parameters import Args, UnboundParameterError, bind_parameters, check_parameters
from hindex.sql.predicate import Expression, Predicate
from hindex.sql.statements import IndexStatement, Statement

__all__ = ["parse", "parse_columns", "parse_index_statement", "parse_predicate", "split"]

_BLANKS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
#: What statements about indexes begin with.
_INDEX_HEAD = re.compile(
    rf"{_BLANKS}*(?:CREATE|SHOW|DESCRIBE|DESC|DROP|REFRESH|UPDATE|ALTER|CHECK|VACUUM){_BLANKS}+"
    rf"(?:FORMATTED{_BLANKS}+)?INDEX(?:ES)?\b",
    re.IGNORECASE | re.DOTALL,
)

_BAD_BINARY = re.compile(r"\b[xX]'[^']*'")


def parse(text: str, args: Args | None = None, *, for_spark: bool = False) -> Statement:
    """Parse one statement; a ``;`` may end it.

    Args:
        args: bound to its parameters, see `hindex.sql.parameters.bind_parameters`.

    Raises:
        StatementError: its first line is the summary, then come the offending line and a caret.
    """
    return cast("Statement", _parse(text, HindexParser, "statement", args, for_spark))


def parse_index_statement(text: str) -> IndexStatement | None:
    """Parse a statement about indexes; return None for a text that does not begin like one.

    Raises:
        StatementError: as `parse`.
    """
    return cast("IndexStatement", parse(text)) if _INDEX_HEAD.match(text) else None


def parse_predicate(text: str) -> Predicate:
    """Parse a condition as it follows WHERE.

    Raises:
        StatementError: as `parse`.
    """
    return cast("Predicate", _parse(text, PredicateParser, "predicate"))


def parse_columns(text: str) -> tuple[Expression, ...]:
    """Parse what an index is on, as it follows the table in CREATE INDEX, without the parentheses.

    Raises:
        StatementError: as `parse`.
    """
    return cast("tuple[Expression, ...]", _parse(f"({text})", ColumnsParser, "columns"))


def _parse(
    text: str, kind: type[HindexParser], subject: str, args: Args | None = None, for_spark: bool = False
) -> object:
    source = SqlText(text)
    try:
        check_quotes(text)
        tokens = _one(Hindex().tokenize(text), subject)
        if not tokens:
            raise SqlSyntaxError(f"expected a {subject}, found nothing", 0)
        if args is not None:
            check_parameters(tokens, args, text)
            tokens = bind_parameters(tokens, args, for_spark=for_spark)
        trees = new_parser(kind).parse(tokens, text)
        if not trees or trees[0] is None:
            # sqlglot takes a leading ELSE for the end of a block, and gives nothing
            raise SqlSyntaxError(f"expected a {subject}, found {tokens[0].text!r}", tokens[0].start)
        return trees[0].args[subject]
    except SqlSyntaxError as error:
        raise source.error(error.message, error.offset, unsupported=error.unsupported) from None
    except UnboundParameterError as error:
        raise source.error(str(error), 0, unsupported=True) from None
    except TokenError:
        bad = _BAD_BINARY.search(text)
        message = "X'...' holds hexadecimal digits only" if bad else "cannot be split into words"
        raise source.error(message, bad.start() if bad else 0) from None
    except ParseError as error:
        raise source.error(str(error).splitlines()[0], 0) from None
    except RecursionError:
        # Raised far above the bound of the lexer only where the caller's own stack is nearly full.
        raise source.error(f"the {subject} is nested too deeply for the stack that is left", 0) from None


def _one(tokens: list[Token], subject: str) -> list[Token]:
    """Return the tokens without the ``;`` at the end; refuse any other ``;``."""
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.SEMICOLON:
            raise SqlSyntaxError(f"one {subject} at a time, found another after ;", following.start)
    return tokens
