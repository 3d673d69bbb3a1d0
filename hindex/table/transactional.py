"""Transactional tables: the data files of the valid directories, and the deletes that apply to their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from hindex.errors import DeletedFileError, OrcError, TableError
from hindex.orc import OrcReader
from hindex.orc.acid.delta_files import (
    AcidFile,
    DeleteFile,
    StoredFile,
    flush_length,
    is_compacted,
    open_file,
)
from hindex.orc.acid.directory import (
    FLUSH_LENGTH,
    METADATA_FILE,
    VERSION_FILE,
    AcidDirectory,
    AcidState,
    DirectoryKind,
    ListedDirectory,
    acid_state,
    is_bucket_file,
    parse_bucket,
)
from hindex.orc.acid.row_keys import first_row_ids
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from hindex.orc.io.file_system import open_source
from hindex.orc.reader.file_cache import FILE_CACHE, FileCache
from hindex.table.directory_tree import DirectoryTree, ListedFile
from hindex.value_class import value_class

#: Bytes of a marker that are read; Hive writes some fifty.
_MARKER_BYTES = 256


@value_class
class AcidOptions:
    """Options for reading a transactional table.

    Attributes:
        valid: the visible write ids.
        insert_only: whether the table's properties say that it has no deletes.
    """

    valid: ValidWriteIds = ALL_VALID
    insert_only: bool = False


@value_class
class TransactionalDirectory:
    """A transactional table or partition directory: its path relative to the table, and its valid state."""

    path: str
    state: AcidState


@value_class
class AcidDataFile:
    """A valid data file, and the table or partition directory that it belongs to."""

    file: ListedFile
    root: str
    acid: AcidFile


def open_data_file(uri: str, acid: AcidFile | None, cache: FileCache = FILE_CACHE) -> OrcReader:
    """Open a data file, of a transactional directory or another.

    Args:
        cache: keeps what is read of files, as for `hindex.orc.OrcReader`.

    Raises:
        OrcError: if it is not readable as ORC, or is of Hive before 3.
    """
    return OrcReader(uri, cache=cache) if acid is None else open_file(acid.file, cache)


def transactional_files(
    table: str, tree: DirectoryTree, uri_of: Callable[[str], str], options: AcidOptions
) -> tuple[list[AcidDataFile], tuple[TransactionalDirectory, ...]]:
    """List the valid data files of a table with a transactional directory.

    Directories with original files only are part of such a table.

    Args:
        table: name for messages.
        uri_of: gives the URI of a path within the table; ``""`` is the table itself.

    Raises:
        TableError: if the directories are not as Hive writes them.
    """
    inside: dict[str, list[ListedFile]] = {}
    originals: dict[str, list[ListedFile]] = {}
    for file in tree.files:
        acid = tree.acid_directory(file.directory)
        if acid is not None:
            inside.setdefault(acid, []).append(file)
        else:
            originals.setdefault(_root(file.directory), []).append(file)
    directories: dict[str, list[str]] = {root: [] for root in originals}
    for path in tree.acid:
        root, _, _ = path.rpartition("/")
        if _root(root) != root:
            raise TableError(
                f"Table {table!r} is invalid: the transactional directory {path!r} is in {root!r}, which is not named "
                "column=value; name a directory that holds base and delta directories itself"
            )
        directories.setdefault(root, []).append(path)
    _check_levels(table, directories)
    files_of_table: list[AcidDataFile] = []
    states = []
    for root, paths in sorted(directories.items()):
        directory = _Directory(table, root, tree.markers, uri_of, options)
        state, files = directory.files(
            {path: inside.get(path, []) for path in paths}, tree.acid, originals.get(root, [])
        )
        files_of_table += files
        states.append(TransactionalDirectory(root, state))
    return files_of_table, tuple(states)


def with_row_ids(files: Iterable[tuple[AcidFile, str, int]]) -> dict[str, AcidFile]:
    """Number the rows of flat files, for all files of a table at once.

    Args:
        files: every flat file, its path in the table and its number of rows.

    Returns:
        by path, the files with the row id of their first row.
    """
    by_directory: dict[str, list[tuple[AcidFile, str, int]]] = {}
    for item in files:
        by_directory.setdefault(item[0].directory, []).append(item)
    with_ids: dict[str, AcidFile] = {}
    for files_of_directory in by_directory.values():
        first = first_row_ids((path, acid.bucket, rows) for acid, path, rows in files_of_directory)
        with_ids |= {
            path: replace(acid, first_row_id=first.get(path)) for acid, path, _ in files_of_directory
        }
    return with_ids


def _root(directory: str) -> str:
    """Return the table or partition directory at or above a directory."""
    parts = directory.split("/")
    while parts and "=" not in parts[-1]:
        parts.pop()
    return "/".join(parts)


def _check_levels(table: str, directories: Mapping[str, Sequence[str]]) -> None:
    """Reject deltas above partitions: the partition of their rows is undefined."""
    for below in directories:
        above = below
        while above:
            above = above.rpartition("/")[0]
            if directories.get(above):
                raise TableError(
                    f"Table {table!r} is invalid: the transactional directory {directories[above][0]!r} stands beside "
                    f"the partition {below!r}; remove one of them"
                )


class _Directory:
    """One table or partition directory."""

    def __init__(
        self, table: str, root: str, markers: set[str], uri_of: Callable[[str], str], options: AcidOptions
    ) -> None:
        self._table = table
        self._root = root
        self._markers = markers
        self._uri_of = uri_of
        self._options = options

    def files(
        self,
        inside: Mapping[str, list[ListedFile]],
        subdirectories: Mapping[str, Sequence[str]],
        originals: Sequence[ListedFile],
    ) -> tuple[AcidState, list[AcidDataFile]]:
        """Return the valid state of a directory, and its data files.

        Args:
            inside: the files in each base, delta and delete delta, by its path.
        """
        listed = [
            ListedDirectory(
                path.rpartition("/")[2],
                tuple(subdirectories[path]),
                self._marker(path),
            )
            for path in inside
        ]
        flat, flat_lengths = self._split(originals)
        prefix = f"{self._root}/" if self._root else ""
        names = {file.path.removeprefix(prefix): file for file in flat if file.length}
        state = acid_state(
            self._uri_of(self._root),
            listed,
            names,
            self._options.valid,
            insert_only=self._options.insert_only,
        )
        deletes = self._deletes(state, inside, prefix)
        # a delete delta deletes nothing that was written after it; files written at one time share a tuple
        since: dict[int, tuple[DeleteFile, ...]] = {}

        def described(
            file: ListedFile,
            directory: str,
            min_write_id: int,
            write_id: int,
            statement: int,
            lengths: Mapping[str, int],
            *,
            is_newer: bool = False,
        ) -> AcidDataFile:
            if min_write_id not in since:
                since[min_write_id] = tuple(item for item in deletes if item.max_write_id >= min_write_id)
            acid = AcidFile(
                file=self._stored(file, lengths),
                directory=directory,
                write_id=write_id,
                bucket=parse_bucket(file.name),
                statement=statement,
                deletes=since[min_write_id],
                valid=self._options.valid,
                changed_ns=file.changed_ns or file.mtime_ns,
                is_newer=is_newer,
            )
            if acid.file.flush_length is not None:
                file = replace(file, length=min(file.length, acid.file.flush_length))
            return AcidDataFile(file, self._root, acid)

        data_files = []
        for directory in state.directories:
            if directory.kind is DirectoryKind.DELETE_DELTA:
                continue
            is_base = directory.kind is DirectoryKind.BASE
            files, lengths = self._split(inside[prefix + directory.name])
            first_id, last_id = directory.min_write_id, directory.max_write_id
            is_newer = first_id < last_id and not self._options.valid.all_decided(first_id, last_id)
            data_files += [
                described(
                    file,
                    prefix + directory.name,
                    0 if is_base else first_id,
                    first_id,
                    directory.statement,
                    lengths,
                    is_newer=is_newer,
                )
                for file in files
            ]
        data_files += [described(names[name], self._root, 0, 0, -1, flat_lengths) for name in state.originals]
        return state, data_files

    def _deletes(
        self, state: AcidState, inside: Mapping[str, list[ListedFile]], prefix: str
    ) -> list[DeleteFile]:
        delete_files = []
        for directory in state.delete_deltas:
            files, lengths = self._split(inside[prefix + directory.name])
            for file in files:
                self._check_delete(file, directory)
                stored = self._stored(file, lengths)
                if file.length and stored.flush_length != 0:
                    changed = file.changed_ns or file.mtime_ns
                    write_ids = directory.min_write_id, directory.max_write_id
                    delete_files.append(DeleteFile(stored, *write_ids, file.length, changed))
        return delete_files

    def _check_delete(self, file: ListedFile, directory: AcidDirectory) -> None:
        if not is_bucket_file(file.name):
            raise TableError(
                f"Table {self._table!r} is invalid: the delete delta {directory.name!r} holds {file.path!r}, which is "
                "not named bucket_N: remove it"
            )

    def _split(self, files: Iterable[ListedFile]) -> tuple[list[ListedFile], dict[str, int]]:
        """Return the data files of a directory, and the lengths recorded in side files."""
        data, lengths = [], {}
        for file in files:
            if file.name.endswith(FLUSH_LENGTH):
                lengths[file.path.removesuffix(FLUSH_LENGTH)] = self._flushed(file)
            else:
                data.append(file)
        return sorted(data, key=lambda file: file.path), lengths

    def _flushed(self, side: ListedFile) -> int:
        return flush_length(self._content(side.path))

    def _marker(self, directory: str) -> Callable[[], bool] | None:
        """Return a reader of the file that marks a directory as written by a compaction, or None."""
        marker = f"{directory}/{METADATA_FILE}"
        return partial(self._is_compacted, marker) if marker in self._markers else None

    def _is_compacted(self, marker: str) -> bool:
        try:
            return is_compacted(self._content(marker, _MARKER_BYTES))
        except ValueError as error:
            raise TableError(
                f"Table {self._table!r} is invalid: {marker!r} should name the compaction that wrote its base: {error}"
                "; restore it, or run a major compaction with Hive"
            ) from error

    def _content(self, path: str, max_bytes: int | None = None) -> bytes:
        """Read a small file, or its first bytes."""
        try:
            source = open_source(self._uri_of(path))
        except OrcError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise DeletedFileError(
                    f"Table {self._table!r} changed while it was listed: {path!r} was removed, as after a compaction: "
                    "run the query again"
                ) from error
            raise
        try:
            size = source.size()
            (content,) = source.read([(0, size if max_bytes is None else min(size, max_bytes))])
            return bytes(content)
        finally:
            source.close()

    def _stored(self, file: ListedFile, lengths: Mapping[str, int]) -> StoredFile:
        version = f"{file.directory}/{VERSION_FILE}" if file.directory else VERSION_FILE
        return StoredFile(
            self._uri_of(file.path),
            lengths.get(file.path),
            self._uri_of(version) if version in self._markers else None,
        )
