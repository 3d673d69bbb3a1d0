"""Modes: how a query takes it that an index could not be used, or could be wrong."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from hindex.errors import ArgumentError, FallbackError
from hindex.plan.reasons import Note, group_notes


class Mode(enum.Enum):
    """The value is how people spell it."""

    #: What no index answers is read.
    LENIENT = "lenient"
    #: What no index answers is an error.
    STRICT = "strict"
    #: Every query also reads everything, and what the indexes said is compared.
    PROVE = "prove"

    @classmethod
    def of(cls, text: str | Mode) -> Mode:
        """Return the mode of a name in any letter case.

        Raises:
            ArgumentError: naming those that there are.
        """
        if isinstance(text, Mode):
            return text
        mode = next((mode for mode in cls if mode.value == str(text).lower()), None)
        if mode is None:
            raise ArgumentError(f"Unknown mode {text!r}: it is {', '.join(mode.value for mode in cls)}")
        return mode

    def check(self, notes: Iterable[Note]) -> None:
        """Refuse what fell back to reading, where that is an error.

        Raises:
            FallbackError: with the reasons.
        """
        if self is not Mode.STRICT:
            return
        groups = group_notes(note for note in notes if note.reason.is_fallback)
        if groups:
            reasons = "; ".join(f"{group}. {group.reason.sentence}" for group in groups)
            raise FallbackError(
                f"Strict mode: no index covers this query, and scanning is disabled. {reasons}"
            )
