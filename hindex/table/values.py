"""Values of a data file in the types of its table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.types import Kind, OrcType


def in_table(array: pa.Array, of: OrcType, wanted: OrcType) -> pa.Array:
    """Values of the file's type ``of`` as those of the table's.

    :raises pyarrow.ArrowException: if one does not fit.
    """
    if of.kind is Kind.CHAR and wanted.kind is not Kind.CHAR:
        # the blanks that fill a CHAR are no part of it where it is read as a text of any length, as in Spark
        array = pc.ascii_rtrim(array, characters=" ")
    arrow = wanted.to_arrow()
    return array if array.type == arrow else array.cast(arrow)
