"""The files and directories below a table's location, walked as Spark's file index walks them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hindex.errors import TableError, TableNotFoundError
from hindex.orc.acid.directory import METADATA_FILE, VERSION_FILE, is_acid_directory, is_union_directory
from hindex.orc.io.file_system import (
    FileInfo,
    FileSystem,
    MissingBucketError,
    file_system,
    is_walked,
    request_limit,
)
from hindex.orc.io.source import listed_mtime, one_line
from hindex.orc.io.thread_pool import ThreadPool
from hindex.table.location import check_name, is_local
from hindex.table.partitions import PartitionFilter
from hindex.table.sink_log import DIRECTORY as SINK_LOG
from hindex.value_class import value_class

#: Hidden files that describe a base or delta.
_MARKERS = frozenset({METADATA_FILE, VERSION_FILE})


#: End of the names of empty objects by which EMR and old versions of Hadoop mark directories of object stores.
_FOLDER_SUFFIX = "_$folder$"


#: Odd, with bits everywhere: neighbouring inodes differ by more than times do.
_INODE_FACTOR = 0x9E3779B97F4A7C15


@value_class
class ListedFile:
    """A listed file: its directory relative to the table (``""`` is the table) and its name."""

    directory: str
    name: str
    length: int
    mtime_ns: int
    changed_ns: int | None = None
    version: Hashable | None = None

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}" if self.directory else self.name


class ListedFiles:
    """Listed files as columns: a large table has more of them than objects can be made of in the time of a query.

    Attributes:
        directories: the directories with files, relative to the table.
        directory_numbers: for each file, the number of its directory among these.
    """

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.directory_numbers: list[int] = []
        self.names: list[str] = []
        self.lengths: list[int] = []
        self.mtimes_ns: list[int] = []
        self.changed_ns: list[int | None] = []
        self.versions: list[Hashable | None] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, at: int) -> ListedFile:
        return ListedFile(
            self.directories[self.directory_numbers[at]],
            self.names[at],
            self.lengths[at],
            self.mtimes_ns[at],
            self.changed_ns[at],
            self.versions[at],
        )

    def __iter__(self) -> Iterator[ListedFile]:
        return (self[at] for at in range(len(self)))

    def add(
        self,
        directory: str,
        name: str,
        length: int,
        mtime_ns: int,
        changed_ns: int | None = None,
        version: Hashable | None = None,
    ) -> None:
        """Add a visible file, unless an object stands for a directory of which object stores know nothing."""
        if not length and name.endswith(_FOLDER_SUFFIX):
            return
        number = self._numbers.get(directory)
        if number is None:
            number = self._numbers[directory] = len(self.directories)
            self.directories.append(directory)
        self.directory_numbers.append(number)
        self.names.append(name)
        self.lengths.append(length)
        self.mtimes_ns.append(mtime_ns)
        self.changed_ns.append(changed_ns)
        self.versions.append(version)

    def extend(
        self,
        directory: str,
        names: Sequence[str],
        lengths: Sequence[int],
        mtimes_ns: Sequence[int],
        changed_ns: Sequence[int],
    ) -> None:
        """Add all visible local files of a directory."""
        if not names:
            return
        if 0 in lengths:
            for file in zip(names, lengths, mtimes_ns, changed_ns, strict=True):
                self.add(directory, *file)
            return
        self.directory_numbers += [len(self.directories)] * len(names)
        self._numbers[directory] = len(self.directories)
        self.directories.append(directory)
        self.names += names
        self.lengths += lengths
        self.mtimes_ns += mtimes_ns
        self.changed_ns += changed_ns
        self.versions += [None] * len(names)

    def paths(self) -> list[str]:
        """Return the paths relative to the table."""
        prefixes = [f"{directory}/" if directory else "" for directory in self.directories]
        return [prefixes[at] + name for at, name in zip(self.directory_numbers, self.names, strict=True)]

    def split(self, wanted: Callable[[ListedFile], bool]) -> tuple[ListedFiles, ListedFiles]:
        """Return the files that are wanted, and the others."""
        parts = ListedFiles(), ListedFiles()
        for file in self:
            parts[not wanted(file)].add(
                file.directory, file.name, file.length, file.mtime_ns, file.changed_ns, file.version
            )
        return parts


@dataclass(slots=True)
class DirectoryTree:
    """The visible files of a table, and its base and delta directories.

    ``acid`` maps each base, delta and delete delta to the paths of visible directories in it, relative to it. Of these,
    only the files of UNION ALL's directories are listed. ``markers`` are the paths of hidden files that describe these
    directories. ``sink_log`` are the names in the log of a streaming sink; None if the table has none. ``pruned`` are
    the directories of partitions that were not listed.
    """

    files: ListedFiles = field(default_factory=ListedFiles)
    acid: dict[str, list[str]] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)
    sink_log: list[str] | None = None
    pruned: list[str] = field(default_factory=list)

    def acid_directory(self, directory: str) -> str | None:
        """Return the base, delta or delete delta that the files of a directory belong to."""
        if directory in self.acid:
            return directory
        above, _, name = directory.rpartition("/")
        return above if above in self.acid and is_union_directory(name) else None


def list_tree(table: str, uri: str, within: PartitionFilter | None = None) -> tuple[bool, DirectoryTree]:
    """List a table's location: True and its only file if it is one, or False and all files below a directory.

    Args:
        table: name for messages.
        uri: normalised.
        within: which partitions are listed; all if None.

    Raises:
        TableNotFoundError: if the location does not exist.
        TableError: if it cannot be listed.
    """
    return _local_files(table, uri, within) if is_local(uri) else _remote_files(table, uri, within)


def _one_file(
    name: str, length: int, mtime_ns: int, changed_ns: int | None, version: Hashable | None = None
) -> DirectoryTree:
    tree = DirectoryTree()
    tree.files.add("", name, length, mtime_ns, changed_ns, version)
    return tree


def _local_files(table: str, root: str, within: PartitionFilter | None) -> tuple[bool, DirectoryTree]:
    try:
        status = Path(root).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TableNotFoundError(f"Table {table!r} is invalid: no such file or directory: {root}") from error
    except OSError as error:
        raise TableError(f"Table {table!r} is invalid: cannot read {root}: {error.strerror}") from error
    if stat.S_ISREG(status.st_mode):
        return True, _one_file(Path(root).name, status.st_size, *_times(status))
    if not stat.S_ISDIR(status.st_mode):
        raise TableError(f"Table {table!r} is invalid: {root} is neither a file nor a directory")
    tree = DirectoryTree()
    try:
        _walk(table, root, (status.st_dev, status.st_ino), tree, within)
    except OSError as error:
        raise TableError(
            f"Table {table!r} is invalid: cannot list {error.filename or root}: {error.strerror}"
        ) from error
    return False, tree


def _walk(
    table: str, root: str, identity: tuple[int, int], tree: DirectoryTree, within: PartitionFilter | None
) -> None:
    """Collect the files below a directory.

    Args:
        identity: device and inode of the directory.
    """
    # directories to list, each with the identities of itself and its ancestors; not recursive, as names of one letter
    # nest deeper than Python calls. In one thread: each status of a file that is in memory would wait for Python's lock
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", (identity,))]
    while waiting:
        directory, ancestors = waiting.pop()
        content = _scan(table, root, directory)
        for name in content.hidden:
            if name in _MARKERS and directory in tree.acid:
                tree.markers.add(f"{directory}/{name}")
            if name == SINK_LOG and not directory:
                tree.sink_log = os.listdir(f"{root}/{name}")  # noqa: PTH208 names, not paths
        tree.files.extend(directory, content.names, content.lengths, content.mtimes_ns, content.changed_ns)
        for name, identity in content.directories:
            path = f"{directory}/{name}" if directory else name
            if not _enters(tree, directory, name, path):
                continue
            if within is not None and not within.keeps(path):
                tree.pruned.append(path)
                continue
            if identity in ancestors:
                raise TableError(
                    f"Table {table!r} is invalid: the symbolic link {path!r} leads back above itself"
                )
            waiting.append((path, (*ancestors, identity)))


class _DirectoryContent:
    """What is directly in a local directory.

    Attributes:
        hidden: names of hidden files and directories.
        directories: names of the others, each with its device and inode.
        names: those of visible files, with their lengths and times.
    """

    def __init__(self) -> None:
        self.hidden: list[str] = []
        self.directories: list[tuple[str, tuple[int, int]]] = []
        self.names: list[str] = []
        self.lengths: list[int] = []
        self.mtimes_ns: list[int] = []
        self.changed_ns: list[int] = []


def _scan(table: str, root: str, directory: str) -> _DirectoryContent:
    """List one directory. Broken links and deleted files are left out, as by Spark."""
    content = _DirectoryContent()
    with os.scandir(f"{root}/{directory}" if directory else root) as entries:
        for entry in entries:
            name = entry.name
            if is_hidden(name):
                content.hidden.append(name)
                continue
            if not name.isascii():
                check_name(table, name)
            try:
                status = entry.stat()
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    continue
                raise
            if stat.S_ISREG(status.st_mode):
                mtime_ns, changed_ns = _times(status)
                content.names.append(name)
                content.lengths.append(status.st_size)
                content.mtimes_ns.append(mtime_ns)
                content.changed_ns.append(changed_ns)
            elif stat.S_ISDIR(status.st_mode):
                content.directories.append((name, (status.st_dev, status.st_ino)))
    return content


def _times(status: os.stat_result) -> tuple[int, int]:
    """Return the modification and change time of a file in 64 bits: years from 2262 on wrap around.

    The change time includes the inode's number: clocks of file systems tick every few milliseconds, and files written
    in one tick may change places without a new change time, as when directories above them are renamed.
    """
    changed = status.st_ctime_ns + _INODE_FACTOR * status.st_ino
    return listed_mtime(status), (changed + (1 << 63)) % (1 << 64) - (1 << 63)


def _enters(tree: DirectoryTree, directory: str, name: str, path: str) -> bool:
    """Return True if a directory belongs to the table; record it in the tree if it is transactional."""
    acid = tree.acid_directory(directory)
    if acid is not None:
        tree.acid[acid].append(path.removeprefix(f"{acid}/"))
        return acid == directory and is_union_directory(name)
    if is_acid_directory(name):
        tree.acid.setdefault(path, [])
    return True


def _remote_files(table: str, uri: str, within: PartitionFilter | None) -> tuple[bool, DirectoryTree]:
    files, root = file_system(uri)
    tree = DirectoryTree()
    try:
        if within is not None:
            infos = _entries_within(files, root, within, tree.pruned)
            if infos:
                return False, _visible_tree(infos, tree)
        # a listing shows most tables in one request
        infos = [] if uri.endswith(".orc") else _listed(files, root)
        if not infos:
            info = _info(files, root)
            if info is not None and not info.is_directory:
                return True, _one_file(info.path, info.length, info.mtime_ns, None, info.version)
            infos = list(files.entries(root))
            if not infos and info is None:
                raise FileNotFoundError
    except FileNotFoundError as error:
        missing = "bucket or container" if isinstance(error, MissingBucketError) else "file or directory"
        raise TableNotFoundError(f"Table {table!r} is invalid: no such {missing}: {uri}") from error
    except OSError as error:
        raise TableError(f"Table {table!r} is invalid: cannot list {uri}: {one_line(error)}") from error
    return False, _visible_tree(infos, tree)


def _entries_within(
    files: FileSystem, root: str, within: PartitionFilter, pruned: list[str]
) -> list[FileInfo]:
    """List the directories of partitions level by level, and what is in those that are wanted."""
    infos: list[FileInfo] = []
    level = [""]
    with ThreadPool(request_limit() - 1) as pool:
        for depth in range(len(within.columns) + 1):
            is_leaf = depth == len(within.columns)
            paths = [_join(root, directory) for directory in level]
            below: list[str] = []
            for directory, listed in zip(
                level, pool.map(partial(_list_entries, files, recursive=is_leaf), paths), strict=True
            ):
                for info in listed:
                    if not info.path:
                        continue  # an object that stands for the directory itself
                    path = _join(directory, info.path)
                    infos.append(replace(info, path=path))
                    if not is_leaf and info.is_directory and is_walked(info.path):
                        (below if within.keeps(path) else pruned).append(path)
            level = below
    return infos


def _list_entries(files: FileSystem, path: str, *, recursive: bool) -> list[FileInfo]:
    return list(files.entries(path, recursive=recursive))


def _join(directory: str, path: str) -> str:
    return f"{directory.rstrip('/')}/{path}" if directory and path else directory or path


def _visible_tree(infos: Iterable[FileInfo], tree: DirectoryTree) -> DirectoryTree:
    """Collect what is visible of the files below a directory."""
    visible: dict[str, bool] = {"": True}
    # a directory comes before its content, if the store lists directories at all
    for info in sorted(infos, key=lambda item: item.path):
        path = info.path
        if "" in path.split("/"):
            continue  # Spark's file systems have no path for an object with two slashes in its name
        directory, _, name = path.rpartition("/")
        if SINK_LOG in (path, directory):
            tree.sink_log = tree.sink_log or []
            if directory:
                tree.sink_log.append(name)
        if info.is_directory:
            _sees(tree, path, visible)
        elif _sees(tree, directory, visible):
            if not is_hidden(name):
                tree.files.add(directory, name, info.length, info.mtime_ns, None, info.version)
            elif name in _MARKERS and directory in tree.acid:
                tree.markers.add(path)
    return tree


def _info(files: FileSystem, path: str) -> FileInfo | None:
    """Return what is at a path; None if nothing is, or a directory of an object store, which has none."""
    try:
        return files.info(path)
    except FileNotFoundError:
        return None


def _listed(files: FileSystem, root: str) -> list[FileInfo]:
    """Return all files below a directory; none if it is missing, or a file."""
    try:
        return list(files.entries(root))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sees(tree: DirectoryTree, directory: str, visible: dict[str, bool]) -> bool:
    """Return True if a directory belongs to the table; the answer is cached in ``visible``."""
    if directory not in visible:
        parent, _, name = directory.rpartition("/")
        visible[directory] = (
            _sees(tree, parent, visible) and not is_hidden(name) and _enters(tree, parent, name, directory)
        )
    return visible[directory]


def is_hidden(name: str) -> bool:
    """Return True if a file or directory of this name is never part of a table."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
