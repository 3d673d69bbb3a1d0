"""A file that is being read: what all reads of its stripes share."""

from __future__ import annotations

from dataclasses import dataclass

from hindex.orc.columns.layout import PositionTable
from hindex.orc.compression import Decompressor
from hindex.orc.cost import DecodePath
from hindex.orc.counts import CountedSource, ReadCounts
from hindex.orc.dense import DenseReader
from hindex.orc.known_files import KnownFile
from hindex.orc.stripe import Stripe, read_stripe_footer
from hindex.orc.tail import FileTail, StripeInformation

#: Compressed bytes of stripes that may stay mapped when their rows are read.
RELEASE_BYTES = 4 << 20


@dataclass(slots=True, eq=False)
class OpenFile:
    """An open file; ``path`` is the one way of decoding flat columns, if one is forced.

    ``timezone`` is the reader's time zone, see :class:`~hindex.orc.OrcReader`.
    """

    source: CountedSource
    known: KnownFile
    counts: ReadCounts
    dense: DenseReader
    path: DecodePath | None
    timezone: str | None = None

    @property
    def tail(self) -> FileTail:
        return self.known.tail

    @property
    def tables(self) -> dict[tuple[int, int], PositionTable | None]:
        return self.known.tables

    def stripe(self, index: int, decompressor: Decompressor) -> Stripe:
        found = self.known.stripes.get(index)
        if found is None:
            found = self.known.stripes[index] = read_stripe_footer(
                self.source, self.tail, index, decompressor
            )
        return found

    def release(self, stripe: StripeInformation) -> None:
        """Let go of a stripe's mapped pages."""
        self.source.release(stripe.offset, stripe.index_length + stripe.data_length)
