"""The dense path: pyarrow decodes whole columns of a stripe, and the wanted rows are taken.

Only flat columns whose values pyarrow gives as Spark does come here: its reader overflows on timestamps
outside 64-bit nanoseconds and stops the process on some valid composite columns.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.orc

from hindex.errors import OrcError
from hindex.orc.columns.temporal import rebased_dates
from hindex.orc.selection import RowSelection
from hindex.orc.source import ByteSource
from hindex.orc.tail import FileTail
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType

_DENSE_KINDS = (
    INTEGER_KINDS
    | STRING_KINDS
    | {
        Kind.BOOLEAN,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.BINARY,
        Kind.DATE,
        Kind.DECIMAL,
    }
)


class DenseReader:
    """Reads columns of one file through pyarrow; safe to share between threads."""

    def __init__(self, source: ByteSource, tail: FileTail) -> None:
        self._source = source
        self._tail = tail
        self._local = threading.local()

    def can_read(self, name: str) -> bool:
        return name in self._readable

    @cached_property
    def _readable(self) -> frozenset[str]:
        return _readable(self._tail)

    def read(
        self, stripe: int, columns: Sequence[tuple[str, OrcType]], selection: RowSelection
    ) -> list[pa.Array]:
        """The wanted rows of columns, in the order asked for."""
        file = getattr(self._local, "file", None)
        try:
            self._source.read([])  # a local file that was cut short is noticed here
            if file is None:
                file = self._local.file = pyarrow.orc.ORCFile(self._source.open_arrow())
            batch = file.read_stripe(stripe, columns=[name for name, _ in columns])
        except (pa.ArrowException, OSError) as error:
            raise OrcError(
                f"the columns cannot be decoded: {error}", path=self._tail.path, stripe=stripe
            ) from error
        if batch.num_rows != selection.num_rows:
            raise OrcError(
                f"the stripe should have {selection.num_rows} rows but its columns have {batch.num_rows}",
                path=self._tail.path,
                stripe=stripe,
            )
        indices = None if selection.is_all else selection.to_indices()
        found = []
        for name, of in columns:
            array = batch.column(name)
            if indices is not None:
                array = array.take(indices)
            if array.type != of.to_arrow():
                array = array.cast(of.to_arrow())
            if of.kind == Kind.DATE and not self._tail.is_proleptic:
                array = rebased_dates(array)
            found.append(array)
        return found


def _readable(tail: FileTail) -> frozenset[str]:
    """The columns that pyarrow may decode."""
    if tail.encrypted_columns or tail.version not in ((0, 11), (0, 12)):
        return frozenset()
    names = tail.schema.field_names
    return frozenset(
        name
        for name, of in zip(names, tail.schema.children, strict=True)
        # pyarrow takes a dot for a nested path, and cannot tell equal names apart
        if of.kind in _DENSE_KINDS
        and "." not in name
        and names.count(name) == 1
        # a decimal without a precision is of Hive 0.11, with a scale of its own for each value
        and not (of.kind == Kind.DECIMAL and of.precision == 0)
    )
