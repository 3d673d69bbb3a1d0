"""The error family: every error that hindex raises on purpose is a `HindexError`.

Each message is one line: the error, its position, and the remedy.
"""

from __future__ import annotations

import sys
import warnings


class HindexError(Exception):
    """Root of all errors raised by hindex."""


class HindexWarning(UserWarning):
    """A call or statement is valid, but its effect may surprise."""


def warn(message: str) -> None:
    """Issue a `HindexWarning` at the line that called hindex."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "hindex":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, HindexWarning, stacklevel=level)


def root_os_error(error: BaseException) -> OSError | None:
    """Return the error of the operating system or object store that an error of hindex was raised from, if any."""
    cause = error.__cause__
    while isinstance(cause, HindexError):
        cause = cause.__cause__
    return cause if isinstance(cause, OSError) else None


class ArgumentError(HindexError, ValueError):
    """A parameter has an invalid value."""


class ArgumentTypeError(HindexError, TypeError):
    """A parameter has the wrong type, or a value does not support an operation."""


class UnknownNameError(HindexError, AttributeError):
    """An object has no attribute of a name; the message suggests others."""


class StatementError(HindexError):
    """A statement cannot be parsed; the message marks the position."""


class UnsupportedError(StatementError):
    """A statement uses a feature of Spark SQL that hindex does not support; the message marks the position."""


class TableError(HindexError):
    """A table cannot be found, listed or understood."""


class TableNotFoundError(TableError):
    """The table's location does not exist."""


class DeletedFileError(TableError):
    """A data file was deleted after the query was planned."""


class UnknownTableError(TableError):
    """Spark's catalog has no table of this name.

    Attributes:
        hint: the remedy, with a blank before it: the same name in other databases, or "".
    """

    hint = ""


class NotOrcError(TableError):
    """A table of Spark's catalog is a view, has files of another format, or types that ORC lacks."""

    @property
    def reason(self) -> str:
        """The reason why Spark reads it, where that is no mistake: one line, without the remedy."""
        line = str(self).partition("\n")[0].partition("; ")[0]
        return line.replace(" is invalid: it is ", " is ", 1)


class ColumnError(HindexError):
    """A column cannot be resolved, or its type does not support the operation."""


class PredicateError(HindexError):
    """A predicate cannot be typed against the table's columns."""


class IndexNotFoundError(HindexError):
    """No index of that name."""


class IndexExistsError(HindexError):
    """An index of that name, or with the same column and type, exists already."""


class IndexFileError(HindexError):
    """An index file is missing, corrupt or not an index file."""


class NewerFormatError(IndexFileError):
    """A file was written by a newer version of hindex than this one."""


class StoreError(HindexError):
    """The index store cannot be read or written."""


class CommitConflictError(StoreError):
    """Another writer committed first and the change does not apply on top of it."""


class FallbackError(HindexError):
    """Strict mode: an index could not be used, and rows would have been read without it."""


class BuildError(HindexError):
    """An index build failed; nothing was committed."""


class MissingRuntimeError(HindexError):
    """A dependency is missing: Java, PySpark, a codec library."""


class OrcError(HindexError):
    """An ORC file is corrupt, truncated, hostile or uses an unsupported feature.

    Args:
        message: the error without its position.
        path: the file.
        stripe: ordinal of the stripe, counted from 0.
        column: dotted path of the column.
        stream: kind of the stream, as the specification names it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        stripe: int | None = None,
        column: str | None = None,
        stream: str | None = None,
    ) -> None:
        self.message = message
        self.path = path
        self.stripe = stripe
        self.column = column
        self.stream = stream
        super().__init__(message)

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (
                ("file", self.path),
                ("stripe", self.stripe),
                ("column", self.column),
                ("stream", self.stream),
            )
            if value is not None
        ]
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_orc_error, (self.message, self.path, self.stripe, self.column, self.stream))

    def at(
        self,
        *,
        path: str | None = None,
        stripe: int | None = None,
        column: str | None = None,
        stream: str | None = None,
    ) -> OrcError:
        """Return the error with a more complete position."""
        return OrcError(
            self.message,
            path=self.path if self.path is not None else path,
            stripe=self.stripe if self.stripe is not None else stripe,
            column=self.column if self.column is not None else column,
            stream=self.stream if self.stream is not None else stream,
        )


def _rebuild_orc_error(
    message: str, path: str | None, stripe: int | None, column: str | None, stream: str | None
) -> OrcError:
    return OrcError(message, path=path, stripe=stripe, column=column, stream=stream)
