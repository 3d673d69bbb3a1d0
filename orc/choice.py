"""The choice of a way to decode each column of a stripe, by what is known of its data; see :mod:`hindex.orc.cost`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from hindex.orc.columns.decimals import can_hand_over
from hindex.orc.columns.layout import has_present, run_streams
from hindex.orc.compression import Decompressor
from hindex.orc.cost import (
    COLUMN_NS,
    LENGTH_KINDS,
    MOST_RUNS,
    REMOTE_BYTE_NS,
    VALUE_NS,
    DecodePath,
    NodeData,
    Wanted,
    dense_cost,
    sparse_cost,
)
from hindex.orc.density import runs_per_value
from hindex.orc.elements import value_counts, values_held
from hindex.orc.open_file import OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import RowSelection
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import Kind, OrcType
from hindex.orc.vetting import may_have_null_keys

#: With fewer touched row groups, the sparse path wins whatever the data is like where they are a small part of all, and
#: gathering their rows takes less than a call of pyarrow's; or where very few rows are wanted.
_FEW_GROUPS = 12
_SMALL_PART = 4
_MOST_ROWS = int(COLUMN_NS / VALUE_NS)
_FEW_ROWS = 100


class Costs(NamedTuple):
    """Nanoseconds of the two ways."""

    sparse: float
    dense: float


class PathChoice:
    """Chooses for the columns of one read of one stripe."""

    def __init__(
        self, file: OpenFile, stripe: Stripe, selection: RowSelection, decompressor: Decompressor
    ) -> None:
        self._file = file
        self._stripe = stripe
        self._selection = selection
        self._decompressor = decompressor

    def of(self, column: Projection) -> DecodePath:
        file, of = self._file, column.of
        is_flat = not any(has_present(self._stripe, parent.column) for parent in column.parents)
        dense = is_flat and file.dense.can_read(column.name)
        dense = dense and not may_have_null_keys(self._stripe, of)
        if file.path is not None:
            return file.path if dense or file.path is not DecodePath.DENSE else DecodePath.SPARSE
        dense = dense and not self._is_refused(of)
        if self._selection.is_all:
            return DecodePath.DENSE if dense else DecodePath.WHOLE
        if dense and self._selection.is_nearly_all:
            return DecodePath.DENSE
        if not dense or self._is_few(of):
            return DecodePath.SPARSE
        nodes = self._nodes(of)
        # at the least and at the most runs first: data need not be looked at where both tell the same
        least, most = self._costs(nodes, lambda _: 0.0), self._costs(nodes, lambda _: MOST_RUNS)
        if least.sparse >= most.dense:
            return DecodePath.DENSE
        if most.sparse < least.dense:
            return DecodePath.SPARSE
        costs = self._costs(nodes, self._runs_per_value)
        return DecodePath.SPARSE if costs.sparse < costs.dense else DecodePath.DENSE

    def _is_refused(self, of: OrcType) -> bool:
        """Whether it was found that pyarrow may not decode a column."""
        # the file's state need not be asked for where nothing is known
        return (
            of.column in self._stripe.vetted
            and self._stripe.verdict(of.column, self._file.source.identity()) is False
        )

    def _is_few(self, of: OrcType) -> bool:
        """Whether so little of a column is wanted that the ways to it need not be weighed."""
        if self._num_groups >= _FEW_GROUPS:
            return False
        rows = len(self._selection)
        if rows < _MOST_ROWS and self._num_groups * _SMALL_PART <= self._all_groups:
            return True
        return rows < _FEW_ROWS and all(node.kind not in LENGTH_KINDS for node in of.walk())

    def costs(self, of: OrcType) -> Costs:
        """What both ways take for a column, in nanoseconds."""
        return self._costs(self._nodes(of), self._runs_per_value)

    def _costs(
        self, nodes: Sequence[tuple[OrcType, NodeData]], runs_per_value: Callable[[OrcType], float]
    ) -> Costs:
        file, stripe = self._file, self._stripe
        wanted = Wanted(self._num_groups, self._all_groups, len(self._selection), self._selection.num_rows)
        sparse, dense = 0.0, COLUMN_NS
        for node, stored in nodes:
            encoding = stripe.encodings[node.column]
            runs = runs_per_value(node) if run_streams(node, encoding, file.tail.version) else 0.0
            marked = encoding.is_v2 and stripe.marks_of(node.column).reads > 1
            sparse += sparse_cost(node, stored, wanted, runs, marked=marked)
            dense += dense_cost(node, stored, wanted, runs)
            if file.source.is_remote:
                # pyarrow fetches the column whole
                left_out = 1 - wanted.groups / wanted.all_groups
                dense += (stored.data_bytes + stored.present_bytes) * left_out * REMOTE_BYTE_NS
        return Costs(sparse, dense)

    def _nodes(self, of: OrcType) -> list[tuple[OrcType, NodeData]]:
        """The nodes of a column that have streams of their own, and what is known of each."""
        tail, stripe = self._file.tail, self._stripe
        places = value_counts(tail, stripe, of)
        found = []
        for node in of.walk():
            stream = stripe.streams.get((node.column, StreamKind.PRESENT))
            if node.kind == Kind.STRUCT and stream is None:
                continue
            present = stream.length if stream is not None else 0
            encoding, count = stripe.encodings[node.column], places[node.column]
            data = NodeData(
                places=count,
                values=values_held(tail, stripe, node, count) if present else count,
                data_bytes=stripe.data_length(node.column) - present,
                present_bytes=present,
                is_dictionary=encoding.is_dictionary,
                is_vetted=of.column in stripe.vetted,
                can_hand_over=encoding.is_v2 and (node.kind != Kind.DECIMAL or can_hand_over(node, tail)),
            )
            found.append((node, data))
        return found

    def _runs_per_value(self, of: OrcType) -> float:
        file, stripe = self._file, self._stripe
        streams = run_streams(of, stripe.encodings[of.column], file.tail.version)
        return runs_per_value(file.source, stripe, of.column, streams, self._decompressor)

    @property
    def _all_groups(self) -> int:
        stride = self._file.tail.row_index_stride
        return -(-self._selection.num_rows // stride) if stride else 1

    @cached_property
    def _num_groups(self) -> int:
        """How many row groups are touched."""
        return self._selection.count_groups(self._file.tail.row_index_stride)
