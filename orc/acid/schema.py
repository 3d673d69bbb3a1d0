"""The schema of ACID files: told by the names of the fields, file by file, whatever directory a file is in."""

from __future__ import annotations

from dataclasses import dataclass

from hindex.errors import OrcError
from hindex.orc.types import INTEGER_KINDS, Kind, OrcType

_FIELDS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")

#: The name of the column of row keys, and its type: what Hive calls it.
ROW_ID = "row__id"
ROW_ID_TYPE = OrcType(
    Kind.STRUCT,
    children=(OrcType(Kind.LONG), OrcType(Kind.INT), OrcType(Kind.LONG)),
    field_names=("writeId", "bucketId", "rowId"),
)


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
