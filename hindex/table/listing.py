"""Listings: which data files a table consists of.

The rules are those of Spark's file index, so that both engines read the same files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hindex.errors import TableError, TableNotFoundError
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
from hindex.table.transactional import AcidOptions, TransactionalDirectory, transactional_files


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The state of a data file when it was read.

    :param length: bytes.
    :param mtime_ns: modification time, nanoseconds since 1970 (0 where the store has none).
    :param tail_checksum: crc32c of the ORC tail, metadata, footer and postscript as stored.
    """

    length: int
    mtime_ns: int
    tail_checksum: int


#: What is recorded of a file that could be replaced without another time: its store tells whole seconds, and this one
#: is hardly over.
_UNSETTLED = -1


#: How far the store's clock and the one here may be apart, and the second itself.
_SETTLES_NS = 5 * 10**9


_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file.

    :param path: relative to the table, with forward slashes.
    :param uri: absolute local path, or URI.
    :param length: bytes; a file of 0 bytes has no rows and no ORC tail.
    :param mtime_ns: modification time, nanoseconds since 1970; 0 where the store has none.
    :param partition: the values as written in the directory names, in order of the partition columns.
    :param changed_ns: when a local file's status last changed, which nobody can set back, and its inode's number added
        in 64 bits, so that only equal ones mean anything; None of remote files, whose stores set ``mtime_ns``
        themselves, where they tell it.
    :param acid: of a file of a transactional directory, what tells the rows that are there.
    """

    path: str
    uri: str
    length: int
    mtime_ns: int
    partition: RawPartition = ()
    changed_ns: int | None = None
    acid: AcidFile | None = None

    @property
    def is_empty(self) -> bool:
        return self.length == 0

    def may_match(self, fingerprint: Fingerprint) -> bool:
        """Return True if length and time are the recorded ones.

        Readers of the file also compare the checksum of its tail.
        """
        return self.length == fingerprint.length and self.mtime_ns == fingerprint.mtime_ns

    def is_untouched_since(self, changed_ns: int) -> bool:
        """Return True if a file that passes :meth:`may_match` certainly is the one with the recorded change time.

        A local file that was copied, moved or had its access changed is not, though it may be as it was. Of one on a
        file system that tells no times, nothing is certain.
        """
        if self.changed_ns is None:
            return self.mtime_ns != 0 and changed_ns != _UNSETTLED
        return self.changed_ns == changed_ns

    def change_to_record(self) -> int:
        """Return the change time to record for :meth:`is_untouched_since`, for a file that is about to be read.

        Most object stores tell whole seconds: what is replaced in the one in which it was written looks as before.
        """
        if self.changed_ns is not None:
            return self.changed_ns
        is_young = self.mtime_ns + _SETTLES_NS > time.time_ns()
        return _UNSETTLED if is_young and self.mtime_ns % _SECOND_NS == 0 else 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The data files of a table at one moment.

    :param uri: the table's normalised URI.
    :param is_file: whether the table is one file.
    :param files: sorted by path, files of 0 bytes included.
    :param transactional: the directories of the table that are transactional, sorted by path.
    :param catalog: the partitions by which it was listed, if a catalog told any.
    :param unseen: paths of files of transactional directories that are there, and of which a list of valid write ids
        may hide some.
    """

    uri: str
    is_file: bool
    files: tuple[DataFile, ...]
    partitioning: Partitioning = field(default_factory=Partitioning)
    transactional: tuple[TransactionalDirectory, ...] = ()
    catalog: CatalogPartitions | None = None
    unseen: frozenset[str] = frozenset()

    def partition_values(self, file: DataFile) -> tuple[PartitionValue, ...]:
        """The typed partition values of a file, in the order of ``partitioning.columns``."""
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

    Left out, as Spark does: names that start with ``.``, or with ``_`` unless they contain ``=``, copies
    under way (``._COPYING_``), and files in directories that belong to no partition. A directory without data
    files gives an empty listing. Of transactional directories, those files are listed that count.

    :param options: how transactional directories are read.
    :param partitions: those of a catalog, if it has the table: no others count then.
    :param declared: the partition columns of a catalog, if it has the table: it is empty then where nothing is there.
    :raises TableNotFoundError: if the table does not exist; the message calls it ``name``.
    :raises TableError: if it cannot be listed, or its directories contradict each other.
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
        # its partitions may all be elsewhere
        is_file, tree = False, DirectoryTree()
    if is_file:
        only = tree.files[0]
        return Listing(
            uri, True, (DataFile(only.name, uri, only.length, only.mtime_ns, (), only.changed_ns),)
        )
    if partitions is not None and not tree.acid:
        tree = replace(tree, files=[file for file in tree.files if file.directory in partitions.here])
    # each with the directory that tells its partition
    found: list[tuple[ListedFile, str, AcidFile | None]]
    transactional: tuple[TransactionalDirectory, ...] = ()
    unseen: frozenset[str] = frozenset()
    if tree.acid:
        options = options or AcidOptions()
        counted, transactional = transactional_files(
            table, tree, lambda path: join_uri(uri, path) if path else uri, options
        )
        if not options.valid.is_all:
            unseen = frozenset(item.path for item in tree.files)
        found = [(item.found, item.root, item.acid) for item in counted]
    else:
        found = [(item, item.directory, None) for item in tree.files]
    files: list[DataFile] = []
    elsewhere = () if partitions is None else partitions.elsewhere
    away = [(other, _files_elsewhere(table, other)) for other in elsewhere]
    directories = dict.fromkeys(
        [place for _, place, _ in found] + [other.directory for other, some in away if some]
    )
    # where no file is left, the directories that are tell how the table is partitioned
    partitioning, partition_of = discover(
        table, directories or [item.path for item in transactional], declared
    )
    for other, some in away:
        raw = partition_of[other.directory] if some else ()
        for item in some:
            path, there = f"{other.path}/{item.name}", join_uri(other.uri, item.name)
            files.append(DataFile(path, there, item.length, item.mtime_ns, raw, item.changed_ns))
    for item, place, acid in found:
        partition = partition_of.get(place)
        if partition is not None:
            there = join_uri(uri, item.path)
            files.append(
                DataFile(item.path, there, item.length, item.mtime_ns, partition, item.changed_ns, acid)
            )
    files.sort(key=lambda item: item.path)
    return Listing(uri, False, tuple(files), partitioning, transactional, partitions, unseen)


def _files_elsewhere(table: str, place: PartitionLocation) -> list[ListedFile]:
    """The data files of a partition elsewhere: those directly in its directory, none where there is no such."""
    try:
        is_file, tree = list_tree(table, place.uri)
    except TableNotFoundError:
        return []
    if is_file or tree.acid:
        what = "a file" if is_file else "transactional"
        raise TableError(
            f"Table {table!r} is invalid: the place {place.uri!r} of partition {place.directory!r} is {what}, and "
            "partitions away from the table are read only where they are directories of plain files"
        )
    return [file for file in tree.files if not file.directory]
