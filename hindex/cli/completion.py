"""TAB completion in the shell: keywords, quoted paths, and names of the statement's table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hindex.errors import HindexError

if TYPE_CHECKING:
    from hindex.api.connection import Connection

#: What ends a word for the terminal. Not the quotes: it would close them behind what it completes within.
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


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a table."""

    columns: Sequence[str] = ()
    indexes: Sequence[str] = ()


class Completer:
    """Completes the word before the cursor.

    :param names: the names of a table, given as it is written; asked once between two statements.
    :ivar earlier: the lines of the statement before the present one.
    """

    def __init__(self, names: Callable[[str], Names]) -> None:
        self._names = names
        self._known: dict[str, Names] = {}
        self._found: list[str] = []
        self.earlier = ""

    def forget(self) -> None:
        """Ask anew for the names of tables: a statement may have changed them."""
        self._known.clear()

    def __call__(self, word: str, state: int) -> str | None:
        """One of the words that may stand in the place of ``word``, as the module readline asks for them."""
        import readline

        if state == 0:
            line, begin = readline.get_line_buffer(), readline.get_begidx()
            self._found = self.candidates(line[: begin + len(word)], begin, line[begin + len(word) :])
        return self._found[state] if state < len(self._found) else None

    def candidates(self, line: str, begin: int, after: str = "") -> list[str]:
        """Return the completions of ``line[begin:]``.

        :param line: what is typed before the cursor.
        :param after: what is typed after it.
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
        # the word may begin with the quote, or behind a blank within the quotes
        before, inner = text[: opened.end()], text[opened.end() :]
        if before[-2:-1] == before[-1]:
            # a quote that is doubled within quotes: what stands before it counts too
            return []
        if opened["open"] == "`":
            names = _fitting(self._of_table(text[start:] + after).columns, inner)
            found = [name.replace("`", "``") for name in names]
        elif _USING.search(before):
            found = _types(inner)
        else:
            found = _quoted_paths(inner, opened["open"], is_raw=_RAW.search(before) is not None)
        return [(before + item)[word_at:] for item in found]

    def _words(self, before: str, word: str, after: str) -> list[str]:
        from hindex.sql.help import HELP
        from hindex.sql.predicate import quote_name

        if not before:
            return _cased([*dict.fromkeys(name.split()[0] for name in HELP), *_SHELL_WORDS], word)
        if _USING.search(before):
            return _types(word)
        words = before.split()
        first = words[0].upper()
        if first == "HELP":
            given = [other.upper() for other in words[1:]]
            names = [name.split() for name in HELP]
            return _cased(
                [
                    name[len(given)]
                    for name in names
                    if name[: len(given)] == given and len(name) > len(given)
                ],
                word,
            )
        first = {"UPDATE": "REFRESH", "DESC": "DESCRIBE"}.get(first, first)
        begun = {first, "SELECT"} if first == "EXPLAIN" else {first}
        syntax = " ".join(
            line for name, text in HELP.items() if name.split()[0] in begun for line in text.syntax
        )
        keywords = dict.fromkeys(
            [*_KEYWORD.findall(syntax), *(_CONDITION if "WHERE" in before.upper() else ())]
        )
        whole = f"{before}{word}{after}"
        if _INDEX.search(before):
            return [*map(quote_name, _fitting(self._of_table(whole).indexes, word)), *_cased(keywords, word)]
        return [*map(quote_name, _fitting(self._of_table(whole).columns, word)), *_cased(keywords, word)]

    def _of_table(self, text: str) -> Names:
        from hindex.sql.lexer import unescape

        found = _TABLE.search(text)
        if found is None:
            return Names()
        table = found["name"] or unescape(found["single"] or found["double"])
        if table not in self._known:
            try:
                self._known[table] = self._names(table)
            except (HindexError, OSError):
                self._known[table] = Names()
        return self._known[table]


def table_names(connection: Connection, table: str) -> Names:
    """The names of a table that is a local directory; others, which may be far away, have none here.

    :raises HindexError: if it cannot be read.
    """
    if not Path(table).is_dir():
        return Names()
    found = connection.table(table)
    return Names(found.schema.names, [index.name for index in found.recorded_indexes()])


def _types(word: str) -> list[str]:
    from hindex.index.index_type import index_type_names

    return _cased(index_type_names(), word)


def _cased(keywords: Iterable[str], word: str) -> list[str]:
    """The keywords that begin with a word, in its letter case."""
    if word and word == word.lower():
        return _fitting([keyword.lower() for keyword in keywords], word)
    return [keyword for keyword in dict.fromkeys(keywords) if keyword.upper().startswith(word.upper())]


def _fitting(names: Iterable[str], word: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.lower().startswith(word.lower())]


def _quoted_paths(inner: str, quote: str, *, is_raw: bool) -> list[str]:
    """The paths that begin with what is typed within quotes, which stays as it is; the rest is escaped."""
    from hindex.sql.lexer import unescape
    from hindex.sql.predicate import within_quotes

    begun = inner if is_raw else unescape(inner)
    rests = [path[len(begun) :] for path in _paths(begun)]
    if is_raw:
        return [inner + rest for rest in rests if quote not in rest]
    return [inner + within_quotes(rest) for rest in rests]


def _paths(begun: str) -> list[str]:
    """The paths that begin so: directories end in ``/``; hidden ones are there for who types their first character."""
    directory, _, name = begun.rpartition("/")
    place = directory + "/" if "/" in begun else ""
    try:
        with os.scandir(place or ".") as entries:
            found = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in entries
                if entry.name.startswith(name) and (name or entry.name[0] not in "._")
            )
    except OSError:
        return []
    return [place + entry for entry in found]
