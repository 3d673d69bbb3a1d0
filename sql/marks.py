"""Positions in a statement: line, column and the marked line of an error message."""

from __future__ import annotations

from dataclasses import dataclass

from hindex.errors import StatementError, UnsupportedError

# A longer line is cut around the marked place.
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Source:
    """The text being parsed; offsets count characters from 0, lines and columns from 1."""

    text: str

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def error(self, message: str, offset: int, *, unsupported: bool = False) -> StatementError:
        """The error of a message at an offset: a summary line, the offending line, and a caret below it."""
        offset = max(0, min(offset, len(self.text)))
        line, column = self.place(offset)
        start = offset - column + 1
        stop = self.text.find("\n", start)
        shown = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        caret = column - 1
        if len(shown) > _SHOWN:
            cut = max(0, min(caret - _SHOWN // 2, len(shown) - _SHOWN))
            lead, tail = "..." if cut else "", "..." if cut + _SHOWN < len(shown) else ""
            caret += len(lead) - cut
            shown = lead + shown[cut : cut + _SHOWN] + tail
        # Tabs stay tabs below, so that the caret stands under its character whatever their width.
        blank = "".join("\t" if character == "\t" else " " for character in shown[:caret].ljust(caret))
        what, kind = ("unsupported", UnsupportedError) if unsupported else ("syntax error", StatementError)
        summary = f"{what} at line {line}, column {column}: {message}"
        return kind(f"{summary}\n  {shown}\n  {blank}^" if shown.strip() else summary)
