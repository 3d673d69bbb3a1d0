"""Listings: the data files of a table, with their partitions and fingerprints.

The rules are those of Spark's file index, so that both engines read the same files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from hindex.errors import TableError, TableNotFoundError, UnsupportedError
from hindex.orc.acid.delta_files import AcidFile
from hindex.table.directory_tree import DirectoryTree, ListedFile, ListedFiles, list_tree
from hindex.table.location import is_local, join_uri, missing_remedy, normalize_uri
from hindex.table.partitions import (
    CatalogPartitions,
    PartitionColumn,
    PartitionFilter,
    Partitioning,
    PartitionLocation,
    RawPartition,
    discover,
)
from hindex.table.sink_log import DIRECTORY, read_sink_log
from hindex.table.transactional import AcidOptions, TransactionalDirectory, transactional_files
from hindex.value_class import value_class

Int64s: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


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

    def is_untouched_since(self, changed_ns: int) -> bool:
        """Return the answer of `DataFiles.are_untouched_since` for one file."""
        one = DataFiles.of([self])
        return bool(one.are_untouched_since(np.zeros(1, np.int64), np.full(1, changed_ns))[0])

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


class DataFiles(Sequence[DataFile]):
    """Data files as columns, in the order of their paths. An object is made for a file when it is needed. Immutable.

    Args:
        paths: as `DataFile.path`.
        uri: the table's; those of files elsewhere are in ``uris``.
        changed_ns: as `DataFile.changed_ns`, with any value in place of None.
        has_changed_ns: which of them are not None.
        partitions: the distinct partitions; ``partition_numbers`` are those of the files.
        versions: as `DataFile.version`; None if no file has one.
        acids: as `DataFile.acid`, by position.
        uris: of some files, by position.
    """

    def __init__(
        self,
        paths: Sequence[str],
        uri: str,
        lengths: Int64s,
        mtimes_ns: Int64s,
        changed_ns: Int64s,
        has_changed_ns: Mask,
        partitions: Sequence[RawPartition],
        partition_numbers: Int64s,
        versions: Sequence[Hashable | None] | None = None,
        acids: Mapping[int, AcidFile] | None = None,
        uris: Mapping[int, str] | None = None,
    ) -> None:
        self.paths = paths
        self.lengths = lengths
        self.mtimes_ns = mtimes_ns
        self.changed_ns = changed_ns
        self.has_changed_ns = has_changed_ns
        self.partitions = partitions
        self.partition_numbers = partition_numbers
        self.versions = versions
        self.acids = acids or {}
        self._uri = uri
        self._uris = uris or {}

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> DataFiles:
        """Return the columns of some files, whose paths ascend."""
        if isinstance(files, DataFiles):
            return files
        files = list(files)
        numbers: dict[RawPartition, int] = {}
        versions = [file.version for file in files]
        return cls(
            [file.path for file in files],
            "",
            _int64s(file.length for file in files),
            _int64s(file.mtime_ns for file in files),
            _int64s(file.changed_ns or 0 for file in files),
            np.fromiter((file.changed_ns is not None for file in files), np.bool_, len(files)),
            *_numbered([file.partition for file in files], numbers),
            versions if any(version is not None for version in versions) else None,
            {at: file.acid for at, file in enumerate(files) if file.acid is not None},
            {at: file.uri for at, file in enumerate(files)},
        )

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, at: int) -> DataFile: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[DataFile, ...]: ...

    def __getitem__(self, at: int | slice) -> DataFile | tuple[DataFile, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        at = range(len(self))[at]
        path = self.paths[at]
        return DataFile(
            path,
            self._uris.get(at) or (join_uri(self._uri, path) if path else self._uri),
            int(self.lengths[at]),
            int(self.mtimes_ns[at]),
            self.partitions[self.partition_numbers[at]],
            int(self.changed_ns[at]) if self.has_changed_ns[at] else None,
            self.acids.get(at),
            None if self.versions is None else self.versions[at],
        )

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, DataFiles | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} data files>"

    def are_untouched_since(self, positions: Int64s, changed_ns: Int64s) -> Mask:
        """Return a mask of the files that are certainly those with the recorded change time.

        The files must have the recorded lengths and times. The mask is False for local files that were copied,
        moved or had their access changed, even with the same content, and for files on a file system without
        change times.
        """
        untouched: Mask = np.where(
            self.has_changed_ns[positions],
            self.changed_ns[positions] == changed_ns,
            (self.mtimes_ns[positions] != 0) & (changed_ns != _UNSETTLED),
        )
        return untouched

    def take(self, positions: Int64s) -> DataFiles:
        """Return some of the files."""
        if len(positions) == len(self):
            return self
        listed = positions.tolist()
        new = {old: at for at, old in enumerate(listed)}
        return DataFiles(
            [self.paths[at] for at in listed],
            self._uri,
            self.lengths[positions],
            self.mtimes_ns[positions],
            self.changed_ns[positions],
            self.has_changed_ns[positions],
            self.partitions,
            self.partition_numbers[positions],
            None if self.versions is None else [self.versions[at] for at in listed],
            {new[at]: acid for at, acid in self.acids.items() if at in new},
            {new[at]: uri for at, uri in self._uris.items() if at in new},
        )

    def with_acids(self, acids: Mapping[int, AcidFile]) -> DataFiles:
        """Return the files with other deletes and write ids, by position."""
        return DataFiles(
            self.paths,
            self._uri,
            self.lengths,
            self.mtimes_ns,
            self.changed_ns,
            self.has_changed_ns,
            self.partitions,
            self.partition_numbers,
            self.versions,
            {**self.acids, **acids},
            self._uris,
        )


def _int64s(numbers: Iterable[int]) -> Int64s:
    return np.fromiter(numbers, np.int64)


def _numbered(
    partitions: Sequence[RawPartition], numbers: dict[RawPartition, int]
) -> tuple[list[RawPartition], Int64s]:
    """Return the distinct partitions, and the number of each one's."""
    own = _int64s(numbers.setdefault(partition, len(numbers)) for partition in partitions)
    return list(numbers), own


@value_class
class Listing:
    """The data files of a table at one moment.

    Args:
        uri: the table's normalised URI.
        is_file: whether the table is one file.
        files: sorted by path, files of 0 bytes included. They become `DataFiles`.
        transactional: the transactional directories of the table, sorted by path.
        catalog: the catalog's partitions, if the table was listed by them.
        ignored: paths of files that are named as data files, and belong to no partition or are not in the log of a
            streaming sink, sorted.
        unseen: paths of all files of transactional directories, if a list of valid write ids may hide some.
        is_pruned: whether partitions were left out that are not wanted.
    """

    uri: str
    is_file: bool
    files: Sequence[DataFile]
    partitioning: Partitioning = field(default_factory=Partitioning)
    transactional: tuple[TransactionalDirectory, ...] = ()
    catalog: CatalogPartitions | None = None
    unseen: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()
    is_pruned: bool = False

    def __post_init__(self) -> None:
        self.files = DataFiles.of(self.files)  # type: ignore[misc]

    @property
    def columns(self) -> DataFiles:
        """The files, typed as `DataFiles`."""
        assert isinstance(self.files, DataFiles)
        return self.files


def list_data_files(
    table: str,
    *,
    name: str | None = None,
    options: AcidOptions | None = None,
    partitions: CatalogPartitions | None = None,
    declared: Sequence[PartitionColumn] | None = None,
    within: PartitionFilter | None = None,
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
        within: which partitions are wanted, of a table without transactional directories. The others may be missing
            from the listing, which then `is_pruned`.

    Raises:
        TableNotFoundError: if the table does not exist; the message calls it ``name``.
        TableError: if it cannot be listed, or its directories contradict each other.
        UnsupportedError: if the log of a stream contradicts the directories.
    """
    uri = normalize_uri(table)
    table = name or table
    try:
        is_file, tree = list_tree(table, uri, within)
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
    stray: Iterable[ListedFile] = ()
    if tree.pruned and (tree.acid or tree.sink_log is not None):
        # what these need may be in the directories that were left out
        return list_data_files(uri, name=name, options=options, partitions=partitions, declared=declared)
    if tree.sink_log is not None:
        tree, stray = _logged(table, uri, tree, tree.sink_log, partitions)
    elsewhere = () if partitions is None else partitions.elsewhere
    wanted = [
        other for other in elsewhere if within is None or declared is None or within.keeps(other.directory)
    ]
    external = [(other, _files_elsewhere(table, other)) for other in wanted]
    if tree.acid:
        return _list_transactional(table, uri, tree, options or AcidOptions(), partitions, external, declared)
    listed = tree.files
    kept = [partitions is None or directory in partitions.here for directory in listed.directories]
    places = [directory for directory, is_kept in zip(listed.directories, kept, strict=True) if is_kept]
    partitioning, partition_of = discover(table, _with_external(places, external), declared)
    if within is not None and tree.pruned and declared is None:
        # files of other partitions may give the columns other types, empty directories do not: the types are certain if
        # they are those of the listed partitions, and those of all directories
        every, _ = discover(table, [*_with_external(places, external), *tree.pruned])
        if not within.columns == partitioning.columns == every.columns:
            return list_data_files(uri, name=name, options=options, partitions=partitions)
    # by directory, the number of its partition; -1 if it belongs to none
    numbers: dict[RawPartition, int] = {}
    by_directory = np.full(len(listed.directories), -1, np.int64)
    for at, directory in enumerate(listed.directories):
        partition = partition_of.get(directory) if kept[at] else None
        if partition is not None:
            by_directory[at] = numbers.setdefault(partition, len(numbers))
    directory_numbers = np.array(listed.directory_numbers, np.int64)
    partition_numbers = by_directory[directory_numbers]
    paths = listed.paths()
    ignored = [item.path for item in stray if _is_named_as_data(item)]
    for at in np.flatnonzero((partition_numbers < 0) & np.array(kept, np.bool_)[directory_numbers]).tolist():
        if _is_named_as_data(listed[at]):
            ignored.append(paths[at])
    order = [at for at in sorted(range(len(paths)), key=paths.__getitem__) if partition_numbers[at] >= 0]
    positions = np.array(order, np.int64)
    changed = listed.changed_ns
    is_local_table = bool(changed) and changed[0] is not None
    files: Sequence[DataFile] = DataFiles(
        [paths[at] for at in order],
        uri,
        np.array(listed.lengths, np.int64)[positions],
        np.array(listed.mtimes_ns, np.int64)[positions],
        np.array(changed if is_local_table else [0] * len(paths), np.int64)[positions],
        np.full(len(order), is_local_table),
        list(numbers),
        partition_numbers[positions],
        None if is_local_table else [listed.versions[at] for at in order],
    )
    files_elsewhere = _external_files(external, partition_of)
    if files_elsewhere:
        files = sorted([*files, *files_elsewhere], key=lambda item: item.path)
    return Listing(
        uri,
        False,
        files,
        partitioning,
        (),
        partitions,
        frozenset(),
        tuple(sorted(ignored)),
        bool(tree.pruned) or len(wanted) < len(elsewhere),
    )


_External: TypeAlias = "Sequence[tuple[PartitionLocation, Sequence[ListedFile]]]"


def _list_transactional(
    table: str,
    uri: str,
    tree: DirectoryTree,
    options: AcidOptions,
    partitions: CatalogPartitions | None,
    external: _External,
    declared: Sequence[PartitionColumn] | None,
) -> Listing:
    """Return the valid files of a table with transactional directories."""
    acid_files, transactional = transactional_files(
        table, tree, lambda path: join_uri(uri, path) if path else uri, options
    )
    unseen = frozenset() if options.valid.is_all else frozenset(tree.files.paths())
    # without files, the names of the directories give the partition columns
    places = _with_external([item.root for item in acid_files], external)
    partitioning, partition_of = discover(table, places or [item.path for item in transactional], declared)
    files = _external_files(external, partition_of)
    ignored = []
    for item in acid_files:
        partition, file = partition_of.get(item.root), item.file
        if partition is not None:
            files.append(_data_file(file, file.path, join_uri(uri, file.path), partition, item.acid))
        elif _is_named_as_data(file):
            ignored.append(file.path)
    files.sort(key=lambda item: item.path)
    return Listing(uri, False, files, partitioning, transactional, partitions, unseen, tuple(sorted(ignored)))


def _with_external(places: Iterable[str], external: _External) -> list[str]:
    """Return the directories whose names give partitions, each once."""
    return list(dict.fromkeys([*places, *(other.directory for other, files in external if files)]))


def _external_files(external: _External, partition_of: Mapping[str, RawPartition]) -> list[DataFile]:
    return [
        _data_file(
            item,
            f"{location.path}/{item.name}",
            join_uri(location.uri, item.name),
            partition_of[location.directory],
        )
        for location, files in external
        for item in files
    ]


def _data_file(
    file: ListedFile, path: str, uri: str, partition: RawPartition, acid: AcidFile | None = None
) -> DataFile:
    return DataFile(path, uri, file.length, file.mtime_ns, partition, file.changed_ns, acid, file.version)


def _is_named_as_data(file: ListedFile) -> bool:
    return file.length > 0 and _ORC_NAME.fullmatch(file.name) is not None


def _logged(
    table: str, uri: str, tree: DirectoryTree, log: Sequence[str], partitions: CatalogPartitions | None
) -> tuple[DirectoryTree, ListedFiles]:
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
    files, others = tree.files.split(lambda file: file.path in lengths)
    return replace(tree, files=files), others


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
