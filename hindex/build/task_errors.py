"""Errors of build tasks, with the place where they occurred."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hindex.errors import BuildError, HindexError

#: What may go wrong with one file: its bytes, its values, or the memory that these take.
FAILURES = (HindexError, OSError, MemoryError, pa.ArrowException)


@dataclass(slots=True)
class Place:
    """The place of a task: its data file, stripe and index.

    :ivar what: the file, for messages.
    :ivar stripe: the stripe that is worked on, if it is one.
    """

    what: str
    stripe: int | None = None

    @classmethod
    def of(cls, path: str) -> Place:
        """A data file."""
        return cls(f"data file {path!r}")

    def failed(self, error: BaseException) -> BuildError:
        """The error of a build that failed here."""
        stripe = "" if self.stripe is None else f", stripe {self.stripe}"
        told = " ".join(str(error).split()) or type(error).__name__
        return BuildError(f"index build failed on {self.what}{stripe}: {told}")
