"""The schema of ACID files: told by the names of the fields, file by file, whatever directory a file is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hindex.errors import ColumnError, OrcError
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType

_FIELDS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")

#: The name of the column of row keys, and its type: what Hive calls it.
ROW_ID = "row__id"
ROW_ID_TYPE = OrcType(
    Kind.STRUCT,
    children=(OrcType(Kind.LONG), OrcType(Kind.INT), OrcType(Kind.LONG)),
    field_names=("writeId", "bucketId", "rowId"),
)
#: The fields of it by their dotted paths, in the order of the columns that hold them.
_KEY_FIELDS = {
    f"{ROW_ID}.{name}": of for name, of in zip(ROW_ID_TYPE.field_names, ROW_ID_TYPE.children, strict=True)
}


def row_key(parts: Sequence[str], own: Iterable[str]) -> tuple[str, OrcType] | None:
    """The row key, or the field of it, that the parts of a name stand for, and its type; None for another name.

    >>> row_key(["ROW__ID", "rowid"], ["id"])[0]
    'row__id.rowId'

    :param own: names of the table's columns: what they stand for is no row key.
    :raises ColumnError: for a field that it does not have.
    """
    if not parts or parts[0].lower() != ROW_ID:
        return None
    written = ".".join(parts)
    if _is_own(written, own):
        return None
    for name, of in ((ROW_ID, ROW_ID_TYPE), *_KEY_FIELDS.items()):
        if name.lower() == written.lower():
            return name, of
    raise ColumnError(
        f"Column {written!r} cannot be resolved; the fields of {ROW_ID!r} are {', '.join(ROW_ID_TYPE.field_names)}"
    )


def is_row_key(column: str, binding: Iterable[str]) -> bool:
    """Return True if a resolved name is the row key, or a field of it, and not a column of the table.

    :param binding: names of the table's columns.
    """
    return (column == ROW_ID or column in _KEY_FIELDS) and not _is_own(column, binding)


def _is_own(column: str, own: Iterable[str]) -> bool:
    """Return True if a table has a column of exactly that name, which may contain a dot or be that of the row key."""
    return not {ROW_ID, column.lower()}.isdisjoint(map(str.lower, own))


@dataclass(frozen=True, slots=True)
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
        """The columns of the row key."""
        return self.original_transaction, self.bucket, self.row_id

    def key_column(self, name: str) -> str | None:
        """The column that is a field of the row key, by its dotted path; None for anything else."""
        return dict(zip(_KEY_FIELDS, self.key, strict=True)).get(name)


def acid_columns(root: OrcType, path: str | None = None) -> AcidColumns | None:
    """The columns of a file of the ACID schema; None where it has another.

    :param path: of the file, for messages.
    :raises OrcError: if a column is not of the type that it should be.
    """
    if tuple(name.lower() for name in root.field_names) != _FIELDS:
        return None
    for name, of in zip(root.field_names, root.children, strict=True):
        if of.kind not in (INTEGER_KINDS if name.lower() != "row" else (Kind.STRUCT,)):
            raise OrcError(f"the column {name!r} of an ACID file is {of}", path=path, column=name)
    _, original, bucket, row_id, current, row = root.field_names
    return AcidColumns(original, bucket, row_id, current, row, root.children[-1])
