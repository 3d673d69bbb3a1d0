"""The error family: every error that hindex raises on purpose is a :class:`HindexError`.

Each message says what was found, where, and what to do about it, in one line.
"""

from __future__ import annotations


class HindexError(Exception):
    """Root of all errors raised by hindex."""


class ArgumentError(HindexError, ValueError):
    """A parameter has a value that it cannot have."""


class ArgumentTypeError(HindexError, TypeError):
    """A parameter is of a type that it cannot be of, or a value is used as what it is not."""


class UnknownNameError(HindexError, AttributeError):
    """An object has no method or property of a name; the message says what there is instead."""


class StatementError(HindexError):
    """A statement cannot be parsed; the message marks the position."""


class UnsupportedError(StatementError):
    """A statement is Spark's SQL, but none that hindex runs by itself; the message marks the position."""


class TableError(HindexError):
    """A table cannot be found, listed or understood."""


class TableNotFoundError(TableError):
    """There is nothing at the table's place."""


class DeletedFileError(TableError):
    """A data file was deleted between the plan of a query and the reading of the file."""


class UnknownTableError(TableError):
    """Spark's catalog has no table of a name."""


class NotOrcError(TableError):
    """A name of Spark's catalog is a view, or a table of other files than ORC, or of types that ORC has not."""


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
    """In strict mode, an index could not be used: rows would have been read without it."""


class BuildError(HindexError):
    """An index build failed; nothing was committed."""


class MissingRuntimeError(HindexError):
    """Something outside hindex is missing: Java, PySpark, a codec library."""


class OrcError(HindexError):
    """An ORC file is corrupt, truncated, hostile or uses something unsupported.

    :param message: what is wrong.
    :param path: the file.
    :param stripe: ordinal of the stripe, counted from 0.
    :param column: dotted path of the column.
    :param stream: kind of the stream, as the specification names it.
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
        """The same error with the places filled in that were not known where it was raised."""
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
