"""Spark's lexical rules where sqlglot's tokenizer differs: strings, numbers; nesting; the ends of statements.

Source: Spark's ``SqlBaseLexer.g4`` (literals) and its unescaping of string literals.
"""

from __future__ import annotations

import re

from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from hindex.errors import StatementError, UnsupportedError
from hindex.value_class import value_class

# Parsing and every later walk of a predicate use recursion for each level of parentheses or NOT.
MAX_NESTING = 32

_NUMBER_SUFFIXES = frozenset({"L", "S", "Y", "D", "F", "BD"})
_SIGNS = frozenset({"-", "+", "~"})
# What a sign after it connects to the next operand.
_OPERANDS = frozenset(
    {TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN}
)

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|.)", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}

# Comments nest in Spark; deeper ones than these count as not closed. Atomic groups, because `*+` around a lookahead
# matches too little before Python 3.11.5.
_COMMENT = r"/\*(?>(?:[^*/]|\*(?!/)|/(?!\*))*)\*/"
for _ in range(3):
    _COMMENT = rf"/\*(?>(?:[^*/]|\*(?!/)|/(?!\*)|{_COMMENT})*)\*/"

# Quoted text, comments and semicolons; an opening that has no end matches alone, as the last alternative.
PIECES = re.compile(
    r"""(?P<quoted>\b[rR]'[^']*'|\b[rR]"[^"]*"|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*`)"""
    rf"""|(?P<comment>--[^\r\n]*|{_COMMENT})"""
    r"""|(?P<end>;)"""
    r"""|(?P<open>['"`]|/\*)""",
    re.DOTALL,
)


# Longer lines are cut around the marked place.
_MAX_SHOWN = 100


@value_class
class SqlText:
    """A text of SQL; offsets count characters from 0, lines and columns from 1."""

    text: str

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def error(self, message: str, offset: int, *, unsupported: bool = False) -> StatementError:
        """Return an error at an offset: a summary line, the offending line, and a caret below it."""
        offset = max(0, min(offset, len(self.text)))
        line, column = self.line_and_column(offset)
        start = offset - column + 1
        stop = self.text.find("\n", start)
        shown = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        caret = column - 1
        if len(shown) > _MAX_SHOWN:
            cut = max(0, min(caret - _MAX_SHOWN // 2, len(shown) - _MAX_SHOWN))
            lead, tail = "..." if cut else "", "..." if cut + _MAX_SHOWN < len(shown) else ""
            caret += len(lead) - cut
            shown = lead + shown[cut : cut + _MAX_SHOWN] + tail
        # Tabs stay tabs below, so that the caret stands under its character whatever their width.
        blank = "".join("\t" if character == "\t" else " " for character in shown[:caret].ljust(caret))
        category, kind = (
            ("unsupported", UnsupportedError) if unsupported else ("syntax error", StatementError)
        )
        summary = f"{category} at line {line}, column {column}: {message}"
        return kind(f"{summary}\n  {shown}\n  {blank}^" if shown.strip() else summary)


class SqlSyntaxError(ParseError):
    """A syntax error at an offset of the text, on its way to a StatementError."""

    def __init__(self, message: str, offset: int, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.unsupported = unsupported


def unescape(body: str) -> str:
    r"""Resolve the backslashes in a string literal, given without its quotes, as Spark does.

    ``\%`` and ``\_`` keep the backslash, for LIKE; an unknown escape is its second character.
    """
    if "\\" not in body:
        return body
    text = _ESCAPE.sub(_unescape_one, body)
    # Two halves of a surrogate pair, each written as \uXXXX, are one character; Java encodes half of one as a ?
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return _HALF.sub("?", paired)


def _unescape_one(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "uU" and len(escape) > 1:
        code = int(escape[1:], 16)
        if code <= 0x10FFFF:
            return chr(code)
        # beyond Unicode, Spark computes the halves of a pair all the same
        high, low = divmod(code - 0x10000, 0x400)
        return chr((high + 0xD800) & 0xFFFF) + chr(low + 0xDC00)
    if len(escape) == 3:
        return chr(int(escape, 8))
    return _ESCAPED.get(escape, escape)


def spark_tokens(tokens: list[Token], sql: str) -> list[Token]:
    """Return the tokens of Spark's lexer: strings unescaped and joined, numbers with their suffix."""
    fixed: list[Token] = []
    is_raw = False  # the string before
    for token in tokens:
        before = fixed[-1] if fixed else None
        adjacent = before is not None and before.end + 1 == token.start
        written = sql[token.start : token.end + 1]
        match token.token_type:
            case TokenType.STRING | TokenType.RAW_STRING:
                text = token.text if token.token_type is TokenType.RAW_STRING else unescape(written[1:-1])
                if before is not None and before.token_type is TokenType.STRING:
                    # 'it''s' is one string with a quote, 'a' 'b' are two that are joined, and so are r'a''b'.
                    doubled = adjacent and sql[before.end] == written[0] and not is_raw
                    text = before.text + (written[0] if doubled else "") + text
                    fixed[-1] = _spanning(TokenType.STRING, text, before, token)
                else:
                    fixed.append(_spanning(TokenType.STRING, text, token, token))
                is_raw = token.token_type is TokenType.RAW_STRING
            case TokenType.IDENTIFIER if written[:1] == "`":
                # A backslash in a name is a backslash.
                fixed.append(_spanning(TokenType.IDENTIFIER, written[1:-1].replace("``", "`"), token, token))
            case TokenType.HEX_STRING | TokenType.BIT_STRING if written[:1] == "0":
                raise SqlSyntaxError(
                    f"{written} is not a number; binary values are written X'1F'", token.start
                )
            case _ if (
                adjacent
                and before is not None
                and before.token_type is TokenType.NUMBER
                and _is_word(written)
            ):
                if before.text[-1:].isalpha() or written.upper() not in _NUMBER_SUFFIXES:
                    word = sql[before.start : token.end + 1]
                    problem = f"invalid number '{word}'; a name that starts with a digit goes in `backquotes`"
                    raise SqlSyntaxError(problem, before.start)
                fixed[-1] = _spanning(TokenType.NUMBER, before.text + written.upper(), before, token)
            case _:
                fixed.append(token)
    return fixed


def _is_word(written: str) -> bool:
    return written[:1].isalpha() or written[:1] == "_"


def _spanning(kind: TokenType, text: str, first: Token, last: Token) -> Token:
    return Token(kind, text, line=first.line, col=first.col, start=first.start, end=last.end)


def check_nesting(tokens: list[Token]) -> None:
    """Refuse more than MAX_NESTING open parentheses and pending NOTs or signs, which could exhaust the stack."""
    depth, pending = 0, 0
    # How many prefix operators were pending when each open parenthesis began.
    outside: list[int] = []
    before: TokenType | None = None
    for token in tokens:
        match token.token_type:
            case TokenType.L_PAREN:
                outside.append(pending)
                depth += 1
            case TokenType.R_PAREN:
                depth = max(depth - 1, 0)
                pending = outside.pop() if outside else 0
            case TokenType.AND | TokenType.OR | TokenType.COMMA:
                pending = outside[-1] if outside else 0
            case TokenType.NOT:
                pending += 1
            case kind if token.text in _SIGNS and kind not in _OPERANDS and before not in _OPERANDS:
                pending += 1
        if depth + pending > MAX_NESTING:
            problem = f"nested deeper than {MAX_NESTING} levels; remove parentheses that are not needed"
            raise SqlSyntaxError(problem, token.start)
        before = token.token_type


def check_quotes(text: str) -> None:
    """Refuse quotes and comments that are not closed, and text that only sqlglot takes for a comment."""
    position = 0
    for piece in PIECES.finditer(text):
        _check_braces(text, position, piece.start())
        if piece["open"]:
            opening = "comment" if piece["open"] == "/*" else "quote"
            raise SqlSyntaxError(f"the {opening} {piece['open']} is not closed", piece.start())
        if piece["comment"] and piece[0][:2] == "--" and text[piece.end() - 1 : piece.end() + 1] == "\\\n":
            # sqlglot's tokenizer reads the next line, Spark's does not
            problem = "a comment that a backslash continues in the next line"
            raise SqlSyntaxError(problem, piece.end() - 1, unsupported=True)
        position = piece.end()
    _check_braces(text, position, len(text))


def _check_braces(text: str, start: int, stop: int) -> None:
    """Refuse ``{# ... #}``, which sqlglot's tokenizer skips in every dialect."""
    position = text.find("{#", start, stop)
    if position >= 0:
        raise SqlSyntaxError("unexpected '{'", position)


def without_leading_comments(text: str) -> str:
    """Return a text without the comments and blanks before it, and without the blanks behind it."""
    text = text.strip()
    while (piece := PIECES.match(text)) and piece["comment"]:
        text = text[piece.end() :].lstrip()
    return text


def split(text: str) -> list[str]:
    """Split a text into statements at each ``;`` outside quotes and comments; trim them and drop empty ones.

    An unclosed quote or comment extends to the end: parsing that statement reports it.
    """
    return [statement for _, statement in split_with_lines(text)]


def split_with_lines(text: str) -> list[tuple[int, str]]:
    """Split a text as `split` does; return the number of each statement's first line, too."""
    spans: list[tuple[int, int]] = []
    start, content = 0, False
    position = 0
    while piece := PIECES.search(text, position):
        content = content or bool(text[position : piece.start()].strip()) or bool(piece["quoted"])
        position = piece.end()
        if piece["open"]:
            content, position = True, len(text)
        elif piece["end"]:
            if content:
                spans.append((start, piece.start()))
            start, content = position, False
    if content or text[position:].strip():
        spans.append((start, len(text)))
    statements = []
    for start, stop in spans:
        statement = text[start:stop].lstrip()
        statements.append((text.count("\n", 0, stop - len(statement)) + 1, statement.rstrip()))
    return statements
