"""Listings: the data files of a table, with their partitions and fingerprints.

The rules are those of Spark's file index, so that both engines read the same files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Sequence
from dataclasses import field, replace

from hindex.errors import TableError, TableNotFoundError, UnsupportedError
from hindex.orc.acid.delta_files import AcidFile
from hindex.table.directory_tree import DirectoryTree, ListedFile, list_tree
from hindex.table.location import is_local, join_uri, missing_remedy, normalize_uri
from hindex.table.partitions import (
    CatalogPartitions,
    PartitionColumn,
    Partitioning,
    PartitionLocation,
    PartitionValue,
    RawPartition,
    discover,
)
from hindex.table.sink_log import DIRECTORY, read_sink_log
from hindex.table.transactional import AcidOptions, TransactionalDirectory, transactional_files
from hindex.value_class import value_class


@value_class
class Fingerprint:
    """The state of a data file when it was read.

    Args:
        length: bytes.
        mtime_ns: modification time, nanoseconds since 1970 (0 where the store has none).
        tail_checksum: crc32c of the ORC tail, metadata, footer and postscript as stored.
    """

    length: int
    mtime_ns: int
    tail_checksum: int


#: Recorded for a file that could be replaced without another time: its store keeps whole seconds, and the current one
#: may not be over.
_UNSETTLED = -1


#: Greatest difference between the store's clock and the local one, plus the second itself.
_SETTLES_NS = 5 * 10**9


_SECOND_NS = 10**9


#: Names that Spark and Hive give to data files of ORC.
_ORC_NAME = re.compile(r".*\.orc|[0-9]+_[0-9]+(_copy_[0-9]+)?", re.IGNORECASE)


@value_class
class DataFile:
    """One data file.

    Args:
        path: relative to the table, with forward slashes.
        uri: absolute local path, or URI.
        length: bytes; a file of 0 bytes has no rows and no ORC tail.
        mtime_ns: modification time, nanoseconds since 1970; 0 where the store has none.
        partition: the values as written in the directory names, in order of the partition columns.
        changed_ns: time of a local file's last status change plus its inode's number, in 64 bits: it can only be
            compared for equality, and no program can set it back. None for remote files: their stores set ``mtime_ns``.
        acid: the deletes and write ids that decide the visible rows of a file of a transactional directory.
        version: a value that changes when the file is written again, where a remote store's listing has it.
    """

    path: str
    uri: str
    length: int
    mtime_ns: int
    partition: RawPartition = ()
    changed_ns: int | None = None
    acid: AcidFile | None = None
    version: Hashable | None = None

    @property
    def is_empty(self) -> bool:
        return self.length == 0

    def is_untouched_since(self, changed_ns: int) -> bool:
        """Return True if a file of the recorded length and time is certainly the one with the recorded change time.

        False for a local file that was copied, moved or had its access changed, even with the same content, and for any
        file on a file system without times.
        """
        if self.changed_ns is None:
            return self.mtime_ns != 0 and changed_ns != _UNSETTLED
        return self.changed_ns == changed_ns

    def change_to_record(self, read_ns: int | None = None) -> int:
        """Return the change time to record for `is_untouched_since`.

        Most object stores keep whole seconds: a file replaced within the second of its writing looks unchanged.

        Args:
            read_ns: when reading the file began, nanoseconds since 1970; None if it is yet to begin.
        """
        if self.changed_ns is not None:
            return self.changed_ns
        is_young = self.mtime_ns + _SETTLES_NS > (time.time_ns() if read_ns is None else read_ns)
        return _UNSETTLED if is_young and self.mtime_ns % _SECOND_NS == 0 else 0


@value_class
class Listing:
    """The data files of a table at one moment.

    Args:
        uri: the table's normalised URI.
        is_file: whether the table is one file.
        files: sorted by path, files of 0 bytes included.
        transactional: the transactional directories of the table, sorted by path.
        catalog: the catalog's partitions, if the table was listed by them.
        ignored: paths of files that are named as data files, and belong to no partition or are not in the log of a
            streaming sink, sorted.
        unseen: paths of all files of transactional directories, if a list of valid write ids may hide some.
    """

    uri: str
    is_file: bool
    files: tuple[DataFile, ...]
    partitioning: Partitioning = field(default_factory=Partitioning)
    transactional: tuple[TransactionalDirectory, ...] = ()
    catalog: CatalogPartitions | None = None
    unseen: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()

    def partition_values(self, file: DataFile) -> tuple[PartitionValue, ...]:
        """Return the typed partition values of a file, in the order of ``partitioning.columns``."""
        return self.partitioning.values[file.partition]


def list_data_files(
    table: str,
    *,
    name: str | None = None,
    options: AcidOptions | None = None,
    partitions: CatalogPartitions | None = None,
    declared: Sequence[PartitionColumn] | None = None,
) -> Listing:
    """List the data files of a table: a directory, one file, or a URI.

    Skipped, as by Spark: names that start with ``.``, or with ``_`` unless they contain ``=``, copies
    under way (``._COPYING_``), empty objects that stand for directories (``_$folder$``), files in directories that
    belong to no partition, and files that are not in the log of a stream that writes to the table. A directory without
    data files gives an empty listing. Transactional directories contribute their valid files only.

    Args:
        options: of transactional directories.
        partitions: the catalog's partitions of the table; files of other partitions are skipped.
        declared: the catalog's partition columns of the table; a missing location is then an empty table.

    Raises:
        TableNotFoundError: if the table does not exist; the message calls it ``name``.
        TableError: if it cannot be listed, or its directories contradict each other.
        UnsupportedError: if the log of a stream contradicts the directories.
    """
    uri = normalize_uri(table)
    table = name or table
    try:
        is_file, tree = list_tree(table, uri)
    except TableNotFoundError as error:
        if declared is None and (partitions is None or not (partitions.here or partitions.elsewhere)):
            remedy = missing_remedy(table, uri) if is_local(uri) else ""
            if not remedy:
                raise
            raise TableNotFoundError(f"{error}; {remedy}") from error
        # all partitions may be external
        is_file, tree = False, DirectoryTree()
    if is_file:
        file = tree.files[0]
        return Listing(uri, True, (_data_file(file, file.name, uri, ()),))
    stray: list[ListedFile] = []
    if tree.sink_log is not None:
        tree, stray = _logged(table, uri, tree, tree.sink_log, partitions)
    if partitions is not None and not tree.acid:
        tree = replace(tree, files=[file for file in tree.files if file.directory in partitions.here])
    # each with the directory whose name gives its partition
    listed: list[tuple[ListedFile, str, AcidFile | None]]
    transactional: tuple[TransactionalDirectory, ...] = ()
    unseen: frozenset[str] = frozenset()
    if tree.acid:
        options = options or AcidOptions()
        acid_files, transactional = transactional_files(
            table, tree, lambda path: join_uri(uri, path) if path else uri, options
        )
        if not options.valid.is_all:
            unseen = frozenset(item.path for item in tree.files)
        listed = [(item.file, item.root, item.acid) for item in acid_files]
    else:
        listed = [(item, item.directory, None) for item in tree.files]
    files: list[DataFile] = []
    locations = () if partitions is None else partitions.elsewhere
    external = [(other, _files_elsewhere(table, other)) for other in locations]
    directories = dict.fromkeys(
        [place for _, place, _ in listed] + [other.directory for other, some in external if some]
    )
    # without files, the names of the directories give the partition columns
    partitioning, partition_of = discover(
        table, directories or [item.path for item in transactional], declared
    )
    for location, files_there in external:
        raw = partition_of[location.directory] if files_there else ()
        for item in files_there:
            path, file_uri = f"{location.path}/{item.name}", join_uri(location.uri, item.name)
            files.append(_data_file(item, path, file_uri, raw))
    ignored = [item.path for item in stray if _is_named_as_data(item)]
    for item, place, acid in listed:
        partition = partition_of.get(place)
        if partition is not None:
            file_uri = join_uri(uri, item.path)
            files.append(_data_file(item, item.path, file_uri, partition, acid))
        elif _is_named_as_data(item):
            ignored.append(item.path)
    files.sort(key=lambda item: item.path)
    return Listing(
        uri, False, tuple(files), partitioning, transactional, partitions, unseen, tuple(sorted(ignored))
    )


def _data_file(
    file: ListedFile, path: str, uri: str, partition: RawPartition, acid: AcidFile | None = None
) -> DataFile:
    return DataFile(path, uri, file.length, file.mtime_ns, partition, file.changed_ns, acid, file.version)


def _is_named_as_data(file: ListedFile) -> bool:
    return file.length > 0 and _ORC_NAME.fullmatch(file.name) is not None


def _logged(
    table: str, uri: str, tree: DirectoryTree, log: Sequence[str], partitions: CatalogPartitions | None
) -> tuple[DirectoryTree, list[ListedFile]]:
    """Split the files of a streaming sink into those that its log names, and others.

    Raises:
        TableError: for transactional directories.
        UnsupportedError: if the files are not as the log, or a catalog, has them.
    """
    if tree.acid:
        raise TableError(
            f"Table {table!r} is invalid: it has both transactional directories and the log of a stream, {DIRECTORY!r}"
        )
    if partitions is not None:
        raise UnsupportedError(
            f"Table {table!r} cannot be read here: it has partitions in the catalog and the log of a stream, "
            f"{DIRECTORY!r}; read it by Spark"
        )
    lengths = read_sink_log(table, uri, log)
    by_path = {file.path: file for file in tree.files}
    for path, length in lengths.items():
        if path not in by_path or by_path[path].length != length:
            state = "missing" if path not in by_path else f"of {by_path[path].length:,} bytes, not {length:,}"
            raise UnsupportedError(
                f"Table {table!r} cannot be read here: the log {DIRECTORY!r} of the stream that wrote it has the file "
                f"{path!r}, which is {state}: restore the file, or delete the log if the files are to count without it"
            )
    files = [file for file in tree.files if file.path in lengths]
    return replace(tree, files=files), [file for file in tree.files if file.path not in lengths]


def _files_elsewhere(table: str, location: PartitionLocation) -> list[ListedFile]:
    """List the data files directly in the directory of an external partition; none if it does not exist."""
    try:
        is_file, tree = list_tree(table, location.uri)
    except TableNotFoundError:
        return []
    if is_file or tree.acid:
        kind = "a file" if is_file else "transactional"
        raise TableError(
            f"Table {table!r} is invalid: the location {location.uri!r} of partition {location.directory!r} is "
            f"{kind}, and external partitions are read only if they are directories of plain files"
        )
    return [file for file in tree.files if not file.directory]
