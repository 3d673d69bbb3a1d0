"""The SQL dialect of hindex: Spark's, with statements about indexes.

The classes extend sqlglot's as its custom dialects do; they are used by `hindex.sql.parsing` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel

from hindex.sql.convert import FILTER_WITH_SPARK, WRITTEN, to_predicate
from hindex.sql.lexer import SqlSyntaxError, check_nesting, spark_tokens
from hindex.sql.predicate import ColumnRef, Expression, Predicate, as_value
from hindex.sql.statements import Statement, TableRef
from hindex.sql.words import KEYWORDS

T = TypeVar("T")

_NAME = re.compile(r"[^\W\d]\w*")
#: The hint after an expression that cannot be indexed.
_INDEXED = "An index takes a column, or an expression that hindex evaluates"
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
# Signs that cannot begin a condition: operators, which sqlglot would report at its end, and {fn f(a)}.
_OPERATORS = frozenset({"{", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "AND", "OR"})
# Words and signs that may follow a column: a word before one is a column.
_AFTER_COLUMNS = _OPERATORS | {",", ".", ")", "IN", "IS", "LIKE", "RLIKE", "BETWEEN", "FROM"}
# Words and signs that may follow an item of a list: a word alone before one is a column.
_AFTER_ITEM = frozenset(
    {",", ")", "", "AS", "FROM", "HAVING", "ORDER BY", "ASC", "DESC", "NULLS", "LIMIT", "OFFSET"}
)
# Words that are values and never names.
_CONSTANTS = ("NULL", "TRUE", "FALSE")
# Words that begin the clause after a name, so they are names only in backquotes.
_CLAUSE_WORDS = frozenset({"FROM", "IN", "LIMIT", "ON", "SELECT", "USING", "WHERE", "WITH"})


class ParsedStatement(exp.Expression):
    """The parser's result for a statement."""

    arg_types: ClassVar[dict[str, bool]] = {"statement": True}


class ParsedColumns(exp.Expression):
    """The parser's result for what an index is on."""

    arg_types: ClassVar[dict[str, bool]] = {"columns": True}


class ParsedPredicate(exp.Expression):
    """The parser's result for a predicate."""

    arg_types: ClassVar[dict[str, bool]] = {"predicate": True}


def _positioned(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_and_mark(parser: HindexParser, token: Token) -> object:
        node = parse(parser, token)
        return node.update_positions(token) if isinstance(node, exp.Expression) else node

    return parse_and_mark


if TYPE_CHECKING:
    from sqlglot.parsers.spark import SparkParser
else:
    # Older versions of sqlglot nest the class.
    SparkParser = Spark.Parser


class MarkingParser(SparkParser):
    """Keeps what sqlglot drops: which parentheses are written, as it puts others around operands, and the sign +."""

    UNARY_PARSERS: ClassVar = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.positive(),
    }

    def positive(self) -> exp.Expression | None:
        """Parse the operand of +, which Spark casts to a number."""
        sign = self._prev
        operand: Any = self._parse_unary()
        if operand is None or operand.unnest().is_number:
            return cast("exp.Expression | None", operand)
        return exp.Anonymous(this="positive", expressions=[operand]).update_positions(sign)

    def _parse_paren(self) -> exp.Expression | None:
        node: Any = super()._parse_paren()
        if isinstance(node, exp.Paren):
            node.meta[WRITTEN] = True
        return cast("exp.Expression | None", node)


class HindexParser(MarkingParser):
    """Statements by their first word from `hindex.sql.grammar.STATEMENTS`; expressions as Spark's."""

    # Every literal keeps its position, for error messages.
    PRIMARY_PARSERS: ClassVar = {
        kind: _positioned(parse) for kind, parse in SparkParser.PRIMARY_PARSERS.items()
    }
    RANGE_PARSERS: ClassVar = {
        **SparkParser.RANGE_PARSERS,
        TokenType.IN: lambda self, this: self.in_list(this),
    }

    # Every function is a name with arguments; hindex.sql.functions lists them.
    FUNCTIONS: ClassVar = {}

    #: The names of the table that may stand before its columns, the longest first.
    qualifiers: tuple[tuple[str, ...], ...] = ()

    #: How to run what is refused here, a sentence for messages.
    alternative: str = FILTER_WITH_SPARK

    # IF without parentheses would be taken for a procedural statement, with a warning on the log.
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        word: parse for word, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if word != "IF"
    }

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """Parse a list: sqlglot ignores a comma at its end."""

        def parse() -> object:
            item = parse_method()
            if item is None and self._prev and self._prev.token_type is sep:
                self.raise_error("")
            return item

        return super()._parse_csv(parse, sep)

    def _parse_statement(self) -> exp.Expression | None:
        from hindex.sql.grammar import statement

        if self._index:
            # the query after WITH in parentheses
            return cast("exp.Expression | None", super()._parse_statement())
        parsed: Statement = statement(self)
        self.end()
        return ParsedStatement(statement=parsed)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        if message.startswith("Expecting "):
            self.fail(f"expected {message.removeprefix('Expecting ')}, found {self.token_text()}")
        self.fail(
            f"expected an expression, found {self.token_text()}{self.backquote_hint()}"
            if not self.at_end
            else "expected an expression, found the end"
        )

    # Versions of sqlglot differ in what they pass.
    def expression(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        node = super().expression(*arguments, **named)
        # Nodes without arguments (CURRENT_DATE, a parameter) have no part with a position.
        return node if node.args else node.update_positions(self._prev)

    # Tokens: the functions that parse statements use these.

    @property
    def at_end(self) -> bool:
        return not self._curr

    @property
    def offset(self) -> int:
        """Return the offset of the current token; at the end, that behind the last token."""
        if self._curr:
            return int(self._curr.start)
        return int(self._prev.end) + 1 if self._prev else len(self.sql)

    def written(self, token: Token | None = None) -> str:
        """Return a token as it is written, by default the current one."""
        token = token or self._curr
        return self.sql[token.start : token.end + 1] if token else ""

    @property
    def is_argument(self) -> bool:
        """True if the current token is of the argument of a parameter."""
        return self.written()[:1] in ("?", ":") and self._curr.text != self.written()

    def token_text(self) -> str:
        """Return the current token for a message."""
        if self.at_end:
            return "the end"
        is_quoted = self._curr.token_type in _QUOTED
        # words of one token may be on several lines
        text = self.written() if is_quoted else " ".join(self.written().split())
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        return shown if is_quoted else f"'{shown}'"

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        raise SqlSyntaxError(message, self.offset if offset is None else offset)

    def unsupported(self, feature: str, offset: int | None = None, remedy: str | None = None) -> NoReturn:
        """Refuse SQL that Spark accepts and hindex does not.

        Args:
            remedy: what to do instead; by default, `alternative`.
        """
        message = f"{feature}. {self.alternative}" if remedy is None else f"{feature}; {remedy}"
        raise SqlSyntaxError(message, self.offset if offset is None else offset, unsupported=True)

    def word(self) -> str:
        """Return the current token in upper case if it is an unquoted word, otherwise an empty string."""
        if self.at_end or self._curr.token_type in _QUOTED:
            return ""
        word = self.written().upper()
        # words of one token, such as GROUP BY, may be on several lines
        return word if len(word) == 1 or word.isalnum() else " ".join(word.split())

    def accept(self, *words: str) -> bool:
        """Consume these unquoted words or signs if they come next, all or none."""
        start = self._index
        for expected in words:
            if self.word() != expected:
                self._advance(start - self._index)
                return False
            self._advance()
        return True

    def accept_any(self, *words: str) -> bool:
        """Consume the next unquoted word or sign if it is one of these."""
        if self.word() not in words:
            return False
        self._advance()
        return True

    def expect(self, *words: str) -> None:
        """Consume these unquoted words or signs, each must come next."""
        for expected in words:
            if not self.accept(expected):
                self.fail(f"expected {expected}, found {self.token_text()}{self.suggest(expected)}")

    @property
    def following(self) -> str:
        """The token after the current one in upper case, or an empty string at the end."""
        return str(self._next.text).upper() if self._next else ""

    def closest(self, *words: str, cutoff: float = 0.6) -> str:
        """Return the word that the current token misspells, or an empty string.

        Args:
            cutoff: how alike they have to be, from 0 to 1.
        """
        from difflib import get_close_matches

        close = get_close_matches(self.word(), words, n=1, cutoff=cutoff) if self.word() not in words else []
        return close[0] if close else ""

    def suggest(self, *words: str) -> str:
        """Return a suggestion if the current token misspells one of some words."""
        close = self.closest(*words)
        return f"; did you mean {close}?" if close else ""

    def backquote_hint(self) -> str:
        """Return a remark if a keyword seems to be the name of a column."""
        if self.word() not in KEYWORDS or self.following not in _AFTER_COLUMNS:
            return ""
        return f"; a column of that name is written `{self.written()}`"

    def double_quote_hint(self) -> str:
        """Return a remark if a string in double quotes seems to be a name, as other databases write it."""
        return "; a name is written in `backquotes`" if self.written()[:1] == '"' else ""

    def string(self) -> str | None:
        """Consume a string in single or double quotes if one comes next."""
        if self.at_end or self._curr.token_type is not TokenType.STRING:
            return None
        text = str(self._curr.text)
        self._advance()
        return text

    @property
    def is_name(self) -> bool:
        """Return True if a word or a backquoted name comes next."""
        return bool(self._curr) and (
            self._curr.token_type is TokenType.IDENTIFIER or _NAME.fullmatch(self.written()) is not None
        )

    def text_from(self, offset: int) -> str:
        """Return the text from an offset to the end of the last consumed token."""
        return self.sql[offset : self._prev.end + 1]

    def number_text(self) -> str:
        """Consume an unsigned number as written if one comes next."""
        if not self._curr or self._curr.token_type is not TokenType.NUMBER:
            return ""
        text = self.written()
        self._advance()
        return text

    def whole_number(self, *, or_argument: bool = False) -> int | None:
        """Consume an unsigned whole number of at most 18 digits if one comes next.

        Args:
            or_argument: take one that is bound to a parameter, too.
        """
        is_number = bool(self._curr) and self._curr.token_type is TokenType.NUMBER
        text = str(self._curr.text) if is_number and or_argument else self.written()
        if not is_number or not text.isdigit() or len(text) > 18:
            return None
        self._advance()
        return int(text)

    def identifier(self, subject: str) -> str:
        """Consume a name, plain or in backquotes; ``subject`` names it in the message."""
        token = self._curr
        if token and token.token_type is TokenType.IDENTIFIER:
            name = str(token.text)
        else:
            name = self.written() if self.word() and _NAME.fullmatch(self.written()) else ""
            if self.word() in _CLAUSE_WORDS:
                name = ""
        if not name:
            self.fail(
                f"expected {subject}, found {self.token_text()}{self.backquote_hint() or self.double_quote_hint()}"
            )
        self._advance()
        return name

    def name(self, subject: str) -> str:
        """Consume a name that may also stand in quotes."""
        text = self.string()
        if text == "":
            self.fail(f"{subject} is empty", self._prev.start)
        return text if text is not None else self.identifier(subject)

    def column(self) -> ColumnRef:
        """Consume a column with dotted steps."""
        parts = [self.identifier("a column")]
        while self.accept("."):
            parts.append(self.identifier("a column"))
        return ColumnRef(tuple(parts))

    def column_or_value(self) -> Expression:
        """Consume the column or expression of an index; a word alone is a column, keyword or not."""
        start = self._index
        if not (self.is_name or self.at_end or self.written() in ("(", "-")):
            return self.column()  # refused
        if self.is_name and self.following in (",", ")", "."):
            column = self.column()
            if self.word() in (",", ")"):
                return column
            self._retreat(start)
        return as_value(to_predicate(self.condition(), self.sql, _INDEXED, self.unqualified))

    def unqualified(self, column: ColumnRef) -> ColumnRef:
        """Return a column without the name of its table; the same object if it has none."""
        parts = tuple(part.lower() for part in column.parts)
        for qualifier in self.qualifiers:
            width = len(qualifier)
            if len(parts) > width and parts[:width] == tuple(part.lower() for part in qualifier):
                return ColumnRef(column.parts[width:])
        return column

    def table(self) -> TableRef:
        """Consume a table: a quoted path or URI, ``orc.`path```, or a catalog name."""
        start = self.offset
        text = self.string()
        if text is not None:
            if not text:
                self.fail("the path is empty", start)
            return TableRef.path(text)
        subject = "a table: a quoted path or a name"
        parts = [self.identifier(subject)]
        while self.accept("."):
            parts.append(self.identifier(subject))
        if len(parts) == 2 and self._prev.token_type is TokenType.IDENTIFIER:
            if parts[0].upper() == "ORC":
                return TableRef.path(parts[1])
            if TableRef.name(*parts).other_format and "/" in parts[1]:
                self.unsupported(f"format {parts[0]}", start, "hindex reads tables of ORC files")
        if self.word() in ("/", ":", "-", "~", "\\"):
            self.fail(f"unexpected {self.token_text()} in a table's name; put a path into quotes")
        return TableRef.name(*parts)

    def predicate(self) -> Predicate:
        """Consume a condition."""
        return to_predicate(self.condition(), self.sql, self.alternative, self.unqualified)

    def condition(self, subject: str = "a condition") -> exp.Expression:
        """Consume a condition or a value, as it is written; ``subject`` names it in the message."""
        start = self.offset
        if self.word() in _OPERATORS:
            self.fail(f"expected {subject}, found {self.token_text()}")
        node: Any = self._parse_disjunction()
        if node is None:
            self.fail(f"expected {subject}, found {self.token_text()}{self.backquote_hint()}", start)
        return cast("exp.Expression", node)

    def item(self) -> exp.Expression:
        """Consume a value in a list, and mark its ``start`` and ``end``; a word alone is a column, keyword or not."""
        start = self.offset
        is_column = self.is_name and self.word() not in _CONSTANTS and self.following in _AFTER_ITEM
        is_column |= self.word() in _CLAUSE_WORDS  # refused
        node = exp.column(self.identifier("a column")) if is_column else self.condition("a column")
        node.meta.update(start=start, end=self._prev.end)
        return node

    def list_of(self, parse: Callable[[], T]) -> list[T]:
        """Consume one or more items with commas between them."""
        items = [parse()]
        while self.accept(","):
            items.append(parse())
        return items

    def list_to_parenthesis(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """Consume one or more items with commas between them, and the closing parenthesis."""
        items = self.list_of(parse)
        if not self.accept(")"):
            self.fail(f"expected , or ), found {self.token_text()}")
        return tuple(items)

    def end(self) -> None:
        """Refuse further tokens."""
        if not self.at_end:
            hint = self.suggest("AND", "OR", "LIMIT", "OFFSET", "WHERE") or self._conjunction_hint()
            self.fail(f"unexpected {self.token_text()}{hint}")

    def _conjunction_hint(self) -> str:
        """Return a remark if the next tokens seem to be the rest of a name, or another condition joined by ``&&``."""
        if self.word() == "&&":
            return "; conditions are joined by AND"
        is_rest = self._prev.token_type is TokenType.VAR and self.is_name and self.following in _OPERATORS
        return (
            "; conditions are joined by AND, and a name with blanks is written in `backquotes`"
            if is_rest
            else ""
        )

    def in_list(self, this: exp.Expression | None) -> exp.Expression:
        """Parse ``(value, ...)`` after IN; plain literals bypass the expression parser, so that long lists are fast."""
        if not self.accept("("):
            self.fail(f"expected ( after IN, found {self.token_text()}")
        if self.word() in ("SELECT", "WITH", "FROM", "VALUES"):
            self.unsupported("subquery: list the values")
        items: list[exp.Expression] = []
        while True:
            token, following = self._curr, self._next
            plain = following and following.token_type in (TokenType.COMMA, TokenType.R_PAREN)
            if plain and token.token_type in (TokenType.NUMBER, TokenType.STRING):
                is_string = token.token_type is TokenType.STRING
                items.append(exp.Literal(this=token.text, is_string=is_string).update_positions(token))
                self._advance()
            else:
                item: Any = self._parse_disjunction()
                if item is None:
                    self.fail(f"expected a value, found {self.token_text()}")
                items.append(item)
            if self.accept(")"):
                return exp.In(this=this, expressions=items)
            if not self.accept(","):
                self.fail(f"expected , or ) in the list of IN, found {self.token_text()}")


class PredicateParser(HindexParser):
    """Parses a condition alone."""

    def _parse_statement(self) -> exp.Expression | None:
        if self.word() in ("SELECT", "WHERE") and not self.backquote_hint():
            self.fail(
                f"expected a condition, found {self.token_text()}: write the text after WHERE, as in age > 20"
            )
        predicate = self.predicate()
        self.end()
        return ParsedPredicate(predicate=predicate)


class ColumnsParser(HindexParser):
    """Parses what an index is on, in parentheses."""

    def _parse_statement(self) -> exp.Expression | None:
        self.expect("(")
        columns = self.list_to_parenthesis(self.column_or_value)
        self.end()
        return ParsedColumns(columns=columns)


class Hindex(Spark):
    """Registered with sqlglot under the name ``hindex``."""

    # Spark's literals are put together by spark_tokens(), so that their spelling is kept.
    IDENTIFIERS_CAN_START_WITH_DIGIT = False

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar = set()
        NUMERIC_LITERALS: ClassVar = {}

        def tokenize(self, sql: str) -> list[Token]:
            tokens = spark_tokens(super().tokenize(sql), sql)
            check_nesting(tokens)
            return tokens

    Parser = HindexParser


def new_parser(kind: type[HindexParser]) -> HindexParser:
    """Return a parser that stops at the first error."""
    return kind(dialect=Hindex, error_level=ErrorLevel.IMMEDIATE)


def new_spark_parser() -> SparkParser:
    """Return a parser of Spark's own dialect that stops at the first error."""
    return MarkingParser(dialect=Spark, error_level=ErrorLevel.IMMEDIATE)
