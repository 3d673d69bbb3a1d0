"""Merge the index files of consecutive stripes of one data file.

Several tasks index a large data file; each writes an index file of some adjacent stripes. The merged file equals
byte for byte the file that one task would have written: pages are copied, and references to them are shifted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

from google.protobuf.message import DecodeError, Message

from hindex.errors import IndexFileError
from hindex.index.index_file import MAGIC, BinarySink, Footer, IndexFileReader, IndexFileWriter
from hindex.index.index_type import file_index_type

#: The bytes that are copied at a time.
COPIED_BYTES = 4 << 20

M = TypeVar("M", bound=Message)


@runtime_checkable
class MergingType(Protocol):
    """An index type whose files can be merged. Other types index each data file in one task."""

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        """Copy the pages of some files, which differ only in their stripes.

        Args:
            parts: the files in order; each is open until the next one is taken.

        Returns:
            the directory (`Footer.body`) of all stripes.

        Raises:
            IndexFileError: if a part is corrupt.
        """
        ...


def is_merging(name: str) -> bool:
    """Return True if the files of an index type can be merged.

    Raises:
        HindexError: if there is no such type.
    """
    return isinstance(file_index_type(name), MergingType)


def merge_index_files(
    sink: str | os.PathLike[str] | BinarySink, parts: Iterable[IndexFileReader]
) -> tuple[int, int]:
    """Write one index file with the stripes of one or more files, in their order.

    Args:
        sink: a path that must not exist, or an output that the caller closes.
        parts: the files; each needs to be open only until the next one is taken.

    Returns:
        the file's length in bytes, and the crc32c of its footer.

    Raises:
        IndexFileError: if the parts are not of one index on one version of a data file, or one is corrupt.
    """
    rest = iter(parts)
    first = next(rest)
    footer = replace(first.footer, body=b"")
    index = file_index_type(footer.index_type)
    if not isinstance(index, MergingType):
        raise IndexFileError(f"Index files of type {footer.index_type} cannot be put together")
    writer = IndexFileWriter(sink)
    try:
        return writer.finish(replace(footer, body=index.join(writer, _check_parts(first, footer, rest))))
    except BaseException:
        writer.abort()
        raise


def _check_parts(
    first: IndexFileReader, footer: Footer, rest: Iterable[IndexFileReader]
) -> Iterator[IndexFileReader]:
    """Yield all parts, and check that their footers differ only in the directory."""
    yield first
    for part in rest:
        if replace(part.footer, body=b"") != footer:
            raise IndexFileError(
                f"Index files {first.path!r} and {part.path!r} are not parts of one; run the statement again"
            )
        yield part


def copy_pages(
    writer: IndexFileWriter, part: IndexFileReader, start: int = len(MAGIC), end: int | None = None
) -> int:
    """Append the pages between two offsets of a file, by default all; readers verify their checksums.

    Returns:
        the number of bytes by which the pages are shifted.
    """
    end = part.pages_end if end is None else end
    shift = writer.length - start
    for at in range(start, end, COPIED_BYTES):
        writer.append_bytes(part.read_bytes(at, min(COPIED_BYTES, end - at)))
    return shift


def directory(part: IndexFileReader, message_class: type[M]) -> M:
    """Decode the directory of a part.

    Raises:
        IndexFileError: if it is corrupt.
    """
    try:
        return message_class.FromString(part.footer.body)
    except DecodeError as error:
        raise part.error(f"its directory cannot be parsed ({error})") from error


def move_pages(stripes: Iterable[Message], fields: Sequence[str], shift: int) -> None:
    """Shift the page references of a directory's stripes, in some optional fields, by ``shift`` bytes."""
    for stripe in stripes:
        for field in fields:
            if stripe.HasField(field):
                getattr(stripe, field).offset += shift
