"""Modes: the behaviour of a query if an index is unusable, or may be wrong."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from hindex.errors import ArgumentError, FallbackError
from hindex.plan.reasons import Note, group_notes


class Mode(enum.Enum):
    """A mode of queries; the value is its name for users."""

    #: Rows that no index answers for are read.
    LENIENT = "lenient"
    #: A query that no index answers is an error.
    STRICT = "strict"
    #: Every query also reads all data, and compares it with the answers of the indexes.
    PROVE = "prove"

    @classmethod
    def of(cls, text: str | Mode) -> Mode:
        """Return the mode of a name in any letter case.

        Raises:
            ArgumentError: for any other name; the message lists the modes.
        """
        if isinstance(text, Mode):
            return text
        mode = next((mode for mode in cls if mode.value == str(text).lower()), None)
        if mode is None:
            raise ArgumentError(f"Unknown mode {text!r}: it is {', '.join(mode.value for mode in cls)}")
        return mode

    def check(self, notes: Iterable[Note]) -> None:
        """Check in strict mode that the query did not fall back to reading.

        Raises:
            FallbackError: with the reasons, if it did.
        """
        if self is not Mode.STRICT:
            return
        groups = group_notes(note for note in notes if note.reason.is_fallback)
        if groups:
            reasons = "; ".join(f"{group}. {group.reason.sentence}" for group in groups)
            raise FallbackError(
                f"Strict mode: no index covers this query, and scanning is disabled. {reasons}"
            )
