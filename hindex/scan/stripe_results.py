"""The rows of a stripe that are known before data is read, and the source of that knowledge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from pyroaring import BitMap

from hindex.index.index_type import Bounds
from hindex.plan.filter import Leaf
from hindex.scan.orc_answers import StatisticsSource


@dataclass(frozen=True, slots=True)
class LeafResult:
    """The answer of one source to one leaf for one stripe.

    A leaf has one for each source, in lookup order.

    ``index`` is None where the file itself has no such column. ``rows`` may match by this answer and those before
    it, and ``exact`` says that these leave nothing to check. What the file's own statistics, filters and place say has
    its ``source`` instead of an index; of the ``groups`` row groups that it was asked about, ``groups_kept`` are left
    (the place is asked about none).
    """

    leaf: Leaf
    index: str | None
    rows: int
    exact: bool = True
    source: StatisticsSource | None = None
    groups_kept: int = 0
    groups: int = 0


@dataclass(slots=True)
class StripeResult:
    """The rows of one stripe that are certainly, and possibly, wanted.

    ``unanswered`` are the leaves that no index could answer; leaves that no longer mattered are in neither. Of a
    transactional table, ``key_columns`` of the file tell the rows that are ``deleted`` and ``invisible``.
    """

    stripe: int
    num_rows: int
    bounds: Bounds
    answers: list[LeafResult] = field(default_factory=list)
    unanswered: list[Leaf] = field(default_factory=list)
    deleted: int = 0
    invisible: int = 0
    key_columns: tuple[str, ...] = ()

    @property
    def indexes(self) -> Iterator[str]:
        """The names of the indexes that answered; of one that answered for several leaves, several times."""
        return (answer.index for answer in self.answers if answer.index is not None)

    @property
    def undecided(self) -> int:
        return len(self.bounds.upper) - len(self.bounds.lower)

    def first(self, limit: int | None) -> StripeResult:
        """Without certain rows beyond a limit: a stripe need not give more than are asked for."""
        if limit is None or self.undecided or len(self.bounds.lower) <= limit:
            return self
        kept = BitMap(islice(self.bounds.lower, max(limit, 0)))
        return replace(self, bounds=Bounds.exactly(kept))
