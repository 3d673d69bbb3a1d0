"""The values of data files that are indexed as those of their table."""

from __future__ import annotations

import pyarrow as pa

from hindex.errors import BuildError
from hindex.orc.metadata.types import OrcType
from hindex.table.file_schema import in_table


def table_values(array: pa.Array, data_type: OrcType, wanted: OrcType) -> pa.Array:
    """A file's values, of the type ``of``, as a query sees them: of the table's type.

    :raises BuildError: if one does not fit.
    """
    try:
        return in_table(array, data_type, wanted)
    except pa.ArrowException as error:
        raise BuildError(
            f"a value of type {array.type} does not fit the table's {wanted}: {error}"
        ) from error
