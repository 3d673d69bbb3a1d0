"""Prune original files of transactional tables by conditions on row keys: the keys follow from the file's place.

A task knows it of each stripe. The driver, which has counted the rows, knows it of the whole file: one of which nothing
is left is not opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyroaring import BitMap

from hindex.domain import Domain
from hindex.index.index_type import Bounds
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.acid.row_keys import bucket_property
from hindex.orc.acid.schema import ROW_ID, ROW_ID_TYPE, is_row_key
from hindex.plan.filter import Leaf
from hindex.scan.file_bounds import StripeBounds
from hindex.scan.orc_answers import StatisticsSource
from hindex.store.snapshot import FileView


class RowIdBounds:
    """Bounds of the row keys of original files, indexed or not, from their place.

    :param binding: the table's data columns.
    """

    needs_entry = False

    def __init__(self, binding: tuple[str, ...]) -> None:
        self._binding = binding

    def lookup(self, view: FileView, leaf: Leaf) -> Iterator[StripeBounds]:
        """All stripes of a file, or none, where that is known of all its rows."""
        acid = view.file.acid
        if acid is None or not is_row_key(leaf.column, self._binding):
            return
        rows = row_id_bounds(leaf.column, leaf.domain, acid, 0, view.num_rows)
        if rows is None:
            return
        if not rows.upper:
            yield StripeBounds(StatisticsSource.PLACE, Bounds.none())
        elif len(rows.lower) == view.num_rows:
            yield StripeBounds(StatisticsSource.PLACE, Bounds.all(view.num_stripes))


def row_id_bounds(column: str, domain: Domain, file: AcidFile, first_row: int, rows: int) -> Bounds | None:
    """The rows of a stripe whose row key, or field of it, is in a domain; None where that is not known.

    :param column: the key, or the field by its dotted path, as :func:`~hindex.orc.acid.schema.row_key` gives it.
    :param file: its place; that of a file which is not flat tells nothing.
    :param first_row: the stripe's first row, counted through the file.
    """
    if file.bucket is None or file.first_row_id is None:
        # to read the key tells that there is none
        return None
    if column == ROW_ID:
        # it can only be tested for NULL
        return Bounds.all(rows) if domain.ranges else Bounds.none()
    first = file.first_row_id + first_row
    write_id, bucket, row_id = (f"{ROW_ID}.{name}" for name in ROW_ID_TYPE.field_names)
    constants = {write_id: file.write_id, bucket: bucket_property(file.bucket, file.statement)}
    if column in constants:
        return Bounds.all(rows) if domain.contains(constants[column]) else Bounds.none()
    if column != row_id:
        return None
    found = BitMap()
    for item in domain.ranges:
        low = 0 if item.low is None else int(item.low) - first
        high = rows - 1 if item.high is None else int(item.high) - first
        if low < rows and high >= 0:
            found.add_range(max(low, 0), min(high, rows - 1) + 1)
    return Bounds.exactly(found)
