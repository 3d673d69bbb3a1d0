"""Bundles: one file with the index files of several small data files.

Creating, syncing and opening a file costs more than indexing some hundred rows. A bundle (``.bundle.hidx``) is an
index file of its own type, whose pages are whole index files. A manifest names the bundle, and the length and
footer checksum of an index file in it, by which the file is looked up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate

from google.protobuf.message import DecodeError

from hindex.errors import IndexFileError
from hindex.index.index_file import MAGIC, BinarySink, Footer, IndexFileReader, IndexFileWriter
from hindex.keys import KeyKind
from hindex.orc.io.source import BytesSource
from hindex.proto import index_file_pb2 as pb
from hindex.value_class import value_class

#: The index type in the footer of a bundle, and the suffix of its file name.
BUNDLE = "BUNDLE"
BUNDLE_SUFFIX = ".bundle.hidx"


def is_bundle(path: str) -> bool:
    """Return True if a path names a bundle."""
    return path.endswith(BUNDLE_SUFFIX)


@value_class
class BundledFile:
    """The bytes of an index file, and the crc32c of its footer."""

    data: bytes
    footer_checksum: int


def write_bundle(
    sink: str | os.PathLike[str] | BinarySink,
    column: str,
    files: Sequence[BundledFile],
    restrict: Callable[[], None],
) -> None:
    """Write index files, at least one, as a bundle.

    Args:
        sink: a path that must not exist, or something to write to that the caller closes.
        column: the dotted path of the indexed column, for display.
        restrict: called before values are written.

    Raises:
        IndexFileError: if it cannot be written, or if two files have the same length and footer checksum.
    """
    writer = IndexFileWriter(sink)
    try:
        restrict()
        if len({(len(file.data), file.footer_checksum) for file in files}) < len(files):
            raise IndexFileError("two index files of a bundle have the same length and checksum")
        for file in files:
            writer.append_bytes(file.data)
        body = pb.BundleBody(
            length=[len(file.data) for file in files], footer_crc32c=[file.footer_checksum for file in files]
        )
        footer = Footer(
            index_type=BUNDLE,
            column=column,
            column_type="",
            key_kind=KeyKind.INT64,
            properties={},
            metadata={},
            body=body.SerializeToString(deterministic=True),
            writer="hindex",
        )
        writer.finish(footer)
    except BaseException:
        writer.abort()
        raise


class Bundle:
    """An open bundle; may be shared by threads.

    Raises:
        IndexFileError: if the file is not a bundle, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        if file.footer.index_type != BUNDLE:
            raise file.error(f"it is an index of type {file.footer.index_type}, not a bundle")
        try:
            body = pb.BundleBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        keys = list(zip(body.length, body.footer_crc32c, strict=False))
        offsets = list(accumulate(body.length, initial=len(MAGIC)))
        if len(body.length) != len(body.footer_crc32c) or offsets[-1] != file.pages_end:
            raise file.error("its directory does not fit its index files")
        self._offsets = dict(zip(keys, offsets, strict=False))

    @property
    def files(self) -> Collection[tuple[int, int]]:
        """The length and footer checksum of each index file."""
        return self._offsets.keys()

    def __iter__(self) -> Iterator[BytesSource]:
        """Read all index files, in order."""
        return (self.open(*key) for key in self._offsets)

    def open(self, length: int, footer_checksum: int) -> BytesSource:
        """Read an index file.

        Raises:
            IndexFileError: if the bundle does not contain the file, or cannot be read.
        """
        offset = self._offsets.get((length, footer_checksum))
        if offset is None:
            raise IndexFileError(
                f"Index file {self.file.path!r} is not the one that the manifest records; rebuild the index"
            )
        return BytesSource(bytes(self.file.read_bytes(offset, length)), self.file.path)
