"""The schema of ACID files, which is recognized by a file's field names, and the row key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hindex.errors import ColumnError, OrcError
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.value_class import value_class

_FIELDS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")

#: Hive's name for the column of row keys, and its type.
ROW_ID = "row__id"
ROW_ID_TYPE = OrcType(
    Kind.STRUCT,
    children=(OrcType(Kind.LONG), OrcType(Kind.INT), OrcType(Kind.LONG)),
    field_names=("writeId", "bucketId", "rowId"),
)
#: The types of its fields by dotted path, in the order of the file's columns.
_KEY_FIELDS = {
    f"{ROW_ID}.{name}": data_type
    for name, data_type in zip(ROW_ID_TYPE.field_names, ROW_ID_TYPE.children, strict=True)
}


def row_key(parts: Sequence[str], columns: Iterable[str]) -> tuple[str, OrcType] | None:
    """Resolve a name to the row key or one of its fields, with its type; return None for any other name.

    >>> row_key(["ROW__ID", "rowid"], ["id"])[0]
    'row__id.rowId'

    Args:
        columns: the names of the table's columns, which hide the row key.

    Raises:
        ColumnError: for an unknown field of the row key.
    """
    if not parts or parts[0].lower() != ROW_ID:
        return None
    written = ".".join(parts)
    if _has_column(columns, written):
        return None
    for name, data_type in ((ROW_ID, ROW_ID_TYPE), *_KEY_FIELDS.items()):
        if name.lower() == written.lower():
            return name, data_type
    raise ColumnError(
        f"Column {written!r} cannot be resolved; the fields of {ROW_ID!r} are {', '.join(ROW_ID_TYPE.field_names)}"
    )


def is_row_key(name: str, columns: Iterable[str]) -> bool:
    """Return True if a resolved name is the row key, or a field of it, and not a column of the table.

    Args:
        columns: the names of the table's columns.
    """
    return (name == ROW_ID or name in _KEY_FIELDS) and not _has_column(columns, name)


def _has_column(columns: Iterable[str], name: str) -> bool:
    """Return True if a table has a column of that full name, or one with the name of the row key."""
    return not {ROW_ID, name.lower()}.isdisjoint(map(str.lower, columns))


@value_class
class AcidColumns:
    """The names of an ACID file's columns as it spells them; ``user`` is the struct of the user's columns."""

    original_transaction: str
    bucket: str
    row_id: str
    current_transaction: str
    row: str
    user: OrcType

    @property
    def key(self) -> tuple[str, str, str]:
        """The names of the columns of the row key."""
        return self.original_transaction, self.bucket, self.row_id

    def key_column(self, name: str) -> str | None:
        """Return the column of a field of the row key, by its dotted path; None for any other name."""
        return dict(zip(_KEY_FIELDS, self.key, strict=True)).get(name)


def acid_columns(root: OrcType, path: str | None = None) -> AcidColumns | None:
    """Return the columns of a file of the ACID schema, or None if it has another schema.

    Args:
        path: the file, for messages.

    Raises:
        OrcError: if a column has an unexpected type.
    """
    if tuple(name.lower() for name in root.field_names) != _FIELDS:
        return None
    for name, data_type in zip(root.field_names, root.children, strict=True):
        if data_type.kind not in (INTEGER_KINDS if name.lower() != "row" else (Kind.STRUCT,)):
            raise OrcError(
                f"the column {name!r} of an ACID file has the unexpected type {data_type}",
                path=path,
                column=name,
            )
    _, original, bucket, row_id, current, row = root.field_names
    return AcidColumns(original, bucket, row_id, current, row, root.children[-1])
