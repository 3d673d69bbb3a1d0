"""Reasons why an index, a file or a shortcut was not used: a code for programs and a sentence for users.

A fallback never changes an answer; a reason gives its cost and the remedy.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from hindex.errors import HindexError, IndexFileError, NewerFormatError, StoreError, root_os_error
from hindex.formatting import plural
from hindex.value_class import value_class


class Reason(enum.Enum):
    """A reason. Its code is the member's name; ``noun`` names the subject; ``sentence`` has problem and remedy."""

    NO_INDEX = ("column", "No index covers the column; CREATE INDEX on it lets a scan skip rows.")
    INDEX_MISSING = (
        "index file",
        "The index file is not in the store any more; ALTER INDEX with REBUILD writes it again.",
    )
    UNREADABLE = (
        "index file",
        "The index file cannot be read, so it is ignored; grant or restore access to it.",
    )
    DEFERRED = ("index", "The index was created without being built; REFRESH INDEX builds it.")
    NOT_BUILT = ("file", "The index has no entry for this file; REFRESH INDEX adds it.")
    NEW_FILE = ("file", "The file was added after indexing, so it is read; REFRESH INDEX adds it.")
    STALE_FILE = ("file", "The file changed after indexing, so it is read; REFRESH INDEX indexes it anew.")
    FILE_GONE = ("file", "The indexed file is no longer in the table; its entries are ignored.")
    PARTITION_NOT_INDEXED = ("partition", "The index was created for other partitions, so this one is read.")
    CORRUPT = (
        "index file",
        "The index file fails its checks, so it is ignored; ALTER INDEX with REBUILD writes it again.",
    )
    QUARANTINED = ("index", "A proof found the index wrong, so it is not used; REFRESH INDEX builds it anew.")
    NEWER_FORMAT = ("index file", "A newer version of hindex wrote the index file; upgrade to use it.")
    UNKNOWN_INDEX_TYPE = ("index", "This installation does not know the index type, so the index is ignored.")
    TYPE_MISMATCH = (
        "column",
        "The column's type changed after indexing, so the index is not used; build it anew.",
    )
    UNSUPPORTED_PREDICATE = ("predicate", "Indexes cannot answer this part; it is checked on the rows read.")
    QUOTED_NAME = (
        "condition",
        "A name in double quotes is a string literal; backquotes name the column.",
    )
    NULL_COMPARISON = (
        "condition",
        "A comparison with NULL matches no row; use IS [NOT] NULL, and leave NULL out of NOT IN.",
    )
    IGNORED_FILE = (
        "file",
        "The file is outside the directories, or its stream's log: Spark and hindex ignore it; move it.",
    )
    NO_WRITER_ZONE = (
        "index file",
        "The data file names no time zone: the index serves sessions whose Java is in UTC.",
    )
    UNSUPPORTED_TYPE = ("column", "Values of this type cannot be indexed; the column is read.")
    NOT_SELECTIVE = (
        "index",
        "The index would rule out too few rows to pay for a lookup, so it is skipped here.",
    )
    NOT_INCLUDED = (
        "index",
        "The index stores columns that the scan reads, and cannot be used: they are read from the data.",
    )
    MANY_KEYS = (
        "grouping",
        "The indexes have too many keys for the remaining rows, so these are read and grouped.",
    )
    ROW_KEY = (
        "column",
        "Row keys have no index; they are pruned by the places and statistics of the files.",
    )
    NO_ROW_INDEX = ("file", "The file has no row index, so needed stripes are read whole.")
    UNRELIABLE_STATISTICS = (
        "column",
        "The file's own statistics of the column are not reliable here.",
    )
    # reasons why Spark itself reads a table of a query that it runs
    NO_CONDITION = ("table", "The query has no condition on the table, so Spark reads all of it.")
    TOO_SMALL = ("table", "Spark reads so few values sooner than indexes are looked up.")
    SETTING = (
        "session",
        "A setting of the session changes how Spark reads or computes, so Spark reads the table.",
    )
    UNSUPPORTED_PLAN = ("query", "The query uses the table in a way that needs Spark's own reading of it.")
    UNSUPPORTED_TABLE = (
        "table",
        "Spark reads other files, columns or types than those indexed, or hindex cannot read the table.",
    )

    def __init__(self, noun: str, sentence: str) -> None:
        self.noun = noun
        self.sentence = sentence

    def __str__(self) -> str:
        return self.name

    @property
    def is_fallback(self) -> bool:
        """True if no index covers rows that are read; strict mode rejects this reason.

        Indexes that are skipped because they save nothing, and notes on decoding, are no fallbacks.
        """
        return self not in _NO_FALLBACKS

    @property
    def is_surprise(self) -> bool:
        """True if a valid query probably has a surprising result, so that running it issues a warning."""
        return self in _SURPRISES

    @property
    def is_problem(self) -> bool:
        """True if an index that should have been used is stale, damaged or of an unknown type."""
        return self in _PROBLEMS


#: The detail of a stale file with the same length and time.
REPLACED = "length and time are as indexed, but the ORC tail's checksum is not: it was replaced"

#: The detail if the length or the modification time differs: a permutation of the rows may have the same tail.
REPLACED_SINCE = "its length or modification time changed after the scan was planned: it was replaced"

_SURPRISES = frozenset({Reason.QUOTED_NAME, Reason.NULL_COMPARISON, Reason.IGNORED_FILE})

_NO_FALLBACKS = _SURPRISES | frozenset(
    {
        Reason.FILE_GONE,
        Reason.NOT_SELECTIVE,
        Reason.NOT_INCLUDED,
        Reason.MANY_KEYS,
        Reason.ROW_KEY,
        Reason.NO_ROW_INDEX,
        Reason.UNRELIABLE_STATISTICS,
        Reason.NO_CONDITION,
        Reason.TOO_SMALL,
        Reason.SETTING,
        Reason.UNSUPPORTED_PLAN,
        Reason.UNSUPPORTED_TABLE,
    }
)


_PROBLEMS = frozenset(
    {
        Reason.INDEX_MISSING,
        Reason.UNREADABLE,
        Reason.NOT_BUILT,
        Reason.NEW_FILE,
        Reason.STALE_FILE,
        Reason.CORRUPT,
        Reason.QUARANTINED,
        Reason.NEWER_FORMAT,
        Reason.UNKNOWN_INDEX_TYPE,
        Reason.TYPE_MISMATCH,
    }
)


@value_class
class Note:
    """An index, file or shortcut that was not used, and the reason.

    Args:
        subject: a file's path, an index's or column's name, or the text of a predicate.
        detail: the details, such as ``length 10 -> 20``; may be empty.
    """

    reason: Reason
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.subject} ({self.detail})" if self.detail else self.subject


@value_class
class NoteGroup:
    """All notes of one reason; ``example`` is the first of them."""

    reason: Reason
    count: int
    example: Note

    def __str__(self) -> str:
        """Return the line of EXPLAIN: ``STALE_FILE: 3 files, e.g. x.orc (length 10 -> 20)``."""
        noun = plural(self.count, self.reason.noun)
        such = ", e.g." if self.count > 1 else ":" if self.example.subject else ""
        return f"{self.reason.name}: {self.count:,} {noun}{such} {self.example}".rstrip()

    @property
    def message(self) -> str:
        """The notes as a message, without the code: the subjects, the problem and the remedy."""
        subjects = str(self.example)
        if self.count > 1:
            subjects = f"{self.count:,} {plural(self.count, self.reason.noun)}, e.g. {subjects}"
        sentence = self.reason.sentence.rstrip(".")
        return f"{subjects}: {sentence[0].lower()}{sentence[1:]}"


def failure_reason(error: HindexError) -> Reason:
    """Return the reason why an index file or manifest could not be used."""
    if isinstance(error, NewerFormatError):
        return Reason.NEWER_FORMAT
    if not isinstance(error, IndexFileError | StoreError):
        return Reason.UNKNOWN_INDEX_TYPE
    cause = root_os_error(error)
    if isinstance(cause, FileNotFoundError):
        return Reason.INDEX_MISSING if isinstance(error, IndexFileError) else Reason.CORRUPT
    # other errors do not mean that the file's content is corrupt
    return Reason.CORRUPT if isinstance(cause, IsADirectoryError | None) else Reason.UNREADABLE


def group_notes(notes: Iterable[Note]) -> tuple[NoteGroup, ...]:
    """Group distinct notes by reason, in the order of `Reason`."""
    by_reason: dict[Reason, dict[Note, None]] = {}
    for note in notes:
        by_reason.setdefault(note.reason, {})[note] = None
    return tuple(
        NoteGroup(reason, len(by_reason[reason]), next(iter(by_reason[reason])))
        for reason in Reason
        if reason in by_reason
    )
