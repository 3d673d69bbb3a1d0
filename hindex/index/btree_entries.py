"""The entries of a BTREE index: which row groups hold which key, found stripe by stripe and brought together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hindex.index.postings import Postings, group
from hindex.orc.metadata.types import OrcType


def stripe_entries(data_type: OrcType, array: pa.Array, *, row_group_rows: int, first: int) -> Postings:
    """The keys of a stripe, ascending, each with the numbers of the row groups that hold it in the place of rows.

    :param array: of ``of.to_arrow()``, or a dictionary of it.
    :param row_group_rows: rows of a row group; 0 where the stripe is one.
    :param first: the number of the stripe's first row group.
    """
    found = group(data_type, array)
    step = np.uint32(row_group_rows or max(len(array), 1))
    nulls = np.unique(found.nulls // step) + np.uint32(first)
    if not len(found.rows):
        return replace(found, nulls=nulls)
    located = found.rows // step
    heads = np.ones(len(located), np.bool_)
    np.not_equal(located[1:], located[:-1], out=heads[1:])
    heads[found.starts[:-1]] = True
    ends = np.cumsum(heads, dtype=np.uint32)[found.starts[1:] - 1].astype(np.int64)
    return Postings(
        found.keys, np.concatenate([np.zeros(1, np.int64), ends]), located[heads] + np.uint32(first), nulls
    )
