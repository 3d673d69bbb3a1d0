"""Writing the files of transactional tables as Hive's writers do, but for the bytes themselves."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyorc

#: Columns of the tables here: names and types.
COLUMNS = "id:bigint,k:int,s:string"
Values = tuple[int, int | None, str | None]

#: Write id, bucket property and row id.
Key = tuple[int, int, int]
#: A row of an ACID file: its key, the transaction that wrote it, and its values; None for one that deletes.
AcidRow = tuple[Key, int, Values | None]

#: The type of an ACID file of such a table.
ACID = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    f"row:struct<{COLUMNS}>>"
)


def bucket_property(bucket: int, statement: int = 0) -> int:
    """As Hive 3 writes it."""
    return 1 << 29 | bucket << 16 | statement


def write_acid(
    path: Path,
    rows: Sequence[AcidRow],
    *,
    schema: str = ACID,
    version: bytes | None = b"2",
    stripe_rows: int = 48,
    stride: int = 16,
    operation: int | None = None,
) -> None:
    """Write a file of the ACID schema, by default of many small stripes and row groups.

    Args:
        operation: of all rows; an insert or a delete, as it has values or not, if None.
    """
    _write(
        path,
        schema,
        (
            (
                (0 if values is not None else 2) if operation is None else operation,
                *key,
                current,
                values,
            )
            for key, current, values in rows
        ),
        {} if version is None else {"hive.acid.version": version},
        stripe_rows,
        stride,
    )


def write_flat(
    path: Path,
    rows: Sequence[Values],
    *,
    schema: str = f"struct<{COLUMNS}>",
    stripe_rows: int = 48,
    stride: int = 16,
) -> None:
    """Write a file as tables have them that are not transactional."""
    _write(path, schema, rows, {}, stripe_rows, stride)


def write_version_file(directory: Path, version: str = "2") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "_orc_acid_version").write_text(version)


def write_marker(directory: Path, data_format: str = "compacted") -> None:
    """Write the metadata that marks a base as written by a compaction, a truncation or a drop."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"thisFileVersion": "0", "dataFormat": data_format}
    (directory / "_metadata_acid").write_text(json.dumps(content))


def write_side_file(path: Path, *lengths: int) -> None:
    """Write the side file that states how much of a file that is still written is complete."""
    content = b"".join(struct.pack(">q", length) for length in lengths)
    path.with_name(path.name + "_flush_length").write_bytes(content)


def _write(
    path: Path, schema: str, rows: Iterable[Any], metadata: dict[str, bytes], stripe_rows: int, stride: int
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file,
            schema,
            # without compression, a batch is more than a stripe should have
            compression=pyorc.CompressionKind.NONE,
            stripe_size=1,
            batch_size=stripe_rows,
            row_index_stride=stride,
        ) as writer,
    ):
        if metadata:
            writer.set_user_metadata(**metadata)
        remaining = iter(rows)
        while stripe := list(islice(remaining, stripe_rows)):
            writer.writerows(stripe)
            # and ends one where it takes no room that the writer counts, as rows without values do not
            writer.write_intermediate_footer()
