"""TAB completion in the shell: keywords, quoted paths, and the names of the statement's table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.errors import HindexError
from hindex.value_class import value_class

if TYPE_CHECKING:
    from hindex.api.connection import Connection

#: Ends of a word for readline. Quotes are not among them: readline would close them.
DELIMITERS = " \t\n`(),;=<>!+*%|&"

_TABLE = re.compile(
    r"""\b(?:FROM|ON)\s+(?:TABLE\s+)?"""
    r"""(?:'(?P<single>(?:[^'\\]|\\.)+)'|"(?P<double>(?:[^"\\]|\\.)+)"|(?P<name>(?!TABLE\b)[^\s'"`(),;]+))""",
    re.IGNORECASE | re.DOTALL,
)
_USING = re.compile(r"\b(?:USING\s+|AS\s+')$", re.IGNORECASE)
_RAW = re.compile(r"\b[rR]['\"]$")
_INDEX = re.compile(r"\bINDEX(?:ES)?\s+(?:IF\s+EXISTS\s+)?$", re.IGNORECASE)
_KEYWORD = re.compile(r"\b[A-Z]{2,}\b")
_CONDITION = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "RLIKE", "IS", "NULL", "TRUE", "FALSE")
_SHELL_WORDS = ("help", "quit")


@value_class
class Names:
    """The names of a table."""

    columns: Sequence[str] = ()
    indexes: Sequence[str] = ()
    #: Fields of structs by dotted path, quoted where SQL needs it.
    fields: Sequence[str] = ()


class Completer:
    """Completes the word before the cursor.

    Attributes:
        earlier: the previous lines of the statement.

    Args:
        names: returns the names of a table; called once for each table between two statements.
    """

    def __init__(self, names: Callable[[str], Names]) -> None:
        self._names = names
        self._known: dict[str, Names] = {}
        # of the last statement: a new one names its index before its table
        self._last: re.Match[str] | None = None
        self._completions: list[str] = []
        self.earlier = ""

    def forget(self, statement: str = "") -> None:
        """Drop the cached names of tables, which a statement may have changed, and note its table."""
        self._known.clear()
        if match := _TABLE.search(statement):
            self._last = match

    def __call__(self, word: str, state: int) -> str | None:
        """Return a completion of ``word`` by its number, as the module readline expects."""
        import readline

        if state == 0:
            line, begin = readline.get_line_buffer(), readline.get_begidx()
            self._completions = self.candidates(line[: begin + len(word)], begin, line[begin + len(word) :])
        return self._completions[state] if state < len(self._completions) else None

    def candidates(self, line: str, begin: int, after: str = "") -> list[str]:
        """Return the completions of ``line[begin:]``.

        Args:
            line: the text before the cursor.
            after: the text after it.
        """
        from hindex.sql.lexer import PIECES

        text = f"{self.earlier}\n{line}" if self.earlier else line
        start, opened = 0, None
        for piece in PIECES.finditer(text):
            if piece["end"] or (piece["comment"] and not text[start : piece.start()].strip()):
                start = piece.end()
            elif piece["open"]:
                opened = piece
                break
        word_at = len(text) - (len(line) - begin)
        if opened is None:
            return self._words(text[start:word_at].lstrip(), text[word_at:], after)
        if opened["open"] == "/*":
            return []
        # the word begins with the quote, or after a blank within the quotes
        before, inner = text[: opened.end()], text[opened.end() :]
        if before[-2:-1] == before[-1]:
            # a doubled quote within quotes
            return []
        if opened["open"] == "`":
            names = _with_prefix(self._names_in(text[start:] + after).columns, inner)
            completions = [name.replace("`", "``") for name in names]
        elif _USING.search(before):
            completions = _types(inner)
        else:
            completions = _quoted_paths(inner, opened["open"], is_raw=_RAW.search(before) is not None)
        return [(before + item)[word_at:] for item in completions]

    def _words(self, before: str, word: str, after: str) -> list[str]:
        from hindex.sql.help import HELP
        from hindex.sql.predicate import quote_name

        if not before:
            return _keywords_with_prefix(
                [*dict.fromkeys(name.split()[0] for name in HELP), *_SHELL_WORDS], word
            )
        if _USING.search(before):
            return _types(word)
        words = before.split()
        first = words[0].upper()
        if first == "HELP":
            typed = [other.upper() for other in words[1:]]
            names = [name.split() for name in HELP]
            return _keywords_with_prefix(
                [
                    name[len(typed)]
                    for name in names
                    if name[: len(typed)] == typed and len(name) > len(typed)
                ],
                word,
            )
        first = {"UPDATE": "REFRESH", "DESC": "DESCRIBE"}.get(first, first)
        statements = {first, "SELECT"} if first == "EXPLAIN" else {first}
        syntax = " ".join(
            line for name, text in HELP.items() if name.split()[0] in statements for line in text.syntax
        ).replace("INDEX[ES]", "INDEX INDEXES")
        keywords = dict.fromkeys(
            [*_KEYWORD.findall(syntax), *(_CONDITION if "WHERE" in before.upper() else ())]
        )
        # EXISTS(SELECT ...) alone has the first word of its statement again
        if first != "SELECT":
            keywords.pop(first, None)
        whole = f"{before}{word}{after}"
        if _INDEX.search(before):
            return [
                *map(
                    quote_name,
                    _with_prefix(self._names_in(whole if _TABLE.search(whole) else before).indexes, word),
                ),
                *_keywords_with_prefix(keywords, word),
            ]
        table = self._names_in(whole)
        if "." in word:
            return _with_prefix(table.fields, word)
        return [
            *map(quote_name, _with_prefix(table.columns, word)),
            *_keywords_with_prefix(keywords, word),
        ]

    def _names_in(self, text: str) -> Names:
        from hindex.sql.lexer import unescape

        match = _TABLE.search(text) or (self._last if _INDEX.search(text) else None)
        if match is None:
            return Names()
        table = match["name"] or unescape(match["single"] or match["double"])
        if table not in self._known:
            try:
                self._known[table] = self._names(table)
            except (HindexError, OSError):
                self._known[table] = Names()
        return self._known[table]


def table_names(connection: Connection, table: str) -> Names:
    """Return the names of a table in a local directory; other tables may be slow to reach, and have none.

    Raises:
        HindexError: if it cannot be read.
    """
    if not Path(table).is_dir():
        return Names()
    indexed = connection.table(table)
    indexes = [index.name for index in indexed.recorded_indexes()]
    columns = indexed.schema.columns
    fields = [pa.field(column.name, column.type.to_arrow()) for column in columns]
    return Names(indexed.schema.names, indexes, _struct_fields(fields))


def _struct_fields(fields: Iterable[pa.Field], prefix: str = "") -> list[str]:
    """Return the fields of structs in columns, at every depth."""
    from hindex.sql.predicate import quote_name

    paths = []
    for field in fields:
        path = prefix + quote_name(field.name)
        paths += [path] if prefix else []
        if pa.types.is_struct(field.type):
            paths += _struct_fields(list(field.type), f"{path}.")
    return paths


def _types(word: str) -> list[str]:
    from hindex.index.index_type import index_type_names

    return _keywords_with_prefix(index_type_names(), word)


def _keywords_with_prefix(keywords: Iterable[str], word: str) -> list[str]:
    """Return the keywords that begin with a word, in its letter case."""
    if word and word == word.lower():
        return _with_prefix([keyword.lower() for keyword in keywords], word)
    return [keyword for keyword in dict.fromkeys(keywords) if keyword.upper().startswith(word.upper())]


def _with_prefix(names: Iterable[str], word: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.lower().startswith(word.lower())]


def _quoted_paths(inner: str, quote: str, *, is_raw: bool) -> list[str]:
    """Complete a path within quotes: the typed part stays unchanged, the rest is escaped."""
    from hindex.sql.lexer import unescape
    from hindex.sql.predicate import within_quotes

    typed = inner if is_raw else unescape(inner)
    rests = [path[len(typed) :] for path in _paths(typed)]
    if is_raw:
        return [inner + rest for rest in rests if quote not in rest]
    return [inner + within_quotes(rest) for rest in rests]


def _paths(typed: str) -> list[str]:
    """Return the paths with a prefix, directories with ``/``; hidden ones only if their first character is typed."""
    directory, _, name = typed.rpartition("/")
    prefix = directory + "/" if "/" in typed else ""
    try:
        with os.scandir(prefix or ".") as entries:
            entries_found = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in entries
                if entry.name.startswith(name) and (name or entry.name[0] not in "._")
            )
    except OSError:
        return []
    return [prefix + entry for entry in entries_found]
