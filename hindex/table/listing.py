"""Listings: which data files a table consists of.

The rules are those of Spark's file index, so that both engines read the same files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow.fs

from hindex.errors import TableError, TableNotFoundError
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.acid.directory import METADATA_FILE, VERSION_FILE, is_acid_directory
from hindex.orc.io.source import listed_mtime, one_line, resolve_filesystem
from hindex.table.external_partitions import CatalogPartitions, PartitionLocation
from hindex.table.fingerprint import Fingerprint
from hindex.table.partitions import (
    PartitionColumn,
    Partitioning,
    PartitionValue,
    RawPartition,
    discover,
)
from hindex.table.path_suggestions import missing_remedy
from hindex.table.transactional import AcidOptions, TransactionalDirectory, transactional_files
from hindex.table.tree import DirectoryTree, ListedFile
from hindex.validation import is_utf8

__all__ = [
    "DataFile",
    "Fingerprint",
    "Listing",
    "is_hidden",
    "is_local",
    "join_uri",
    "list_data_files",
    "local_path",
    "normalize_uri",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
#: Hidden files in a base or delta that are looked for.
_MARKERS = frozenset({METADATA_FILE, VERSION_FILE})

#: Schemes that name the same store.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3"}
#: What is recorded of a file that could be replaced without another time: its store tells whole seconds, and this one
#: is hardly over.
_UNSETTLED = -1
#: How far the store's clock and the one here may be apart, and the second itself.
_SETTLES_NS = 5 * 10**9
_SECOND_NS = 10**9
#: Odd, with bits everywhere: neighbouring inodes differ by more than times do.
_INODE_FACTOR = 0x9E3779B97F4A7C15


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


def is_local(uri: str) -> bool:
    """Return True if a path or URI is on a local file system."""
    return _scheme(uri) in ("", "file")


def local_path(text: str) -> str:
    """The absolute local path of a path or ``file:`` URI; symbolic links are kept.

    ``file:`` URIs are percent-decoded, unless only the name as written exists: Hadoop writes both kinds.
    """
    if _scheme(text) == "file":
        path = text[len("file:") :]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise TableError(f"Table {text!r} is invalid: a 'file:' URI cannot name a host: {host!r}")
            path = slash + rest
        decoded = unquote(path)
        text = path if decoded != path and os.path.lexists(path) and not os.path.lexists(decoded) else decoded
    if not text or "\0" in text:
        raise TableError(f"Table {text!r} is invalid: that is not a path")
    return str(Path(text).absolute())


def normalize_uri(text: str) -> str:
    """One spelling for every way to write a table's place.

    Local paths and ``file:`` URIs become absolute paths without symbolic links; ``s3a`` and ``s3n`` become
    ``s3``; trailing slashes go. ``~`` is not expanded.

    >>> normalize_uri("S3A://bucket/table//"), normalize_uri("file:///no/such/../dir/")
    ('s3://bucket/table', '/no/dir')

    :raises TableError: if it is neither a path nor a URI.
    """
    scheme = _scheme(text)
    if scheme in ("", "file"):
        path = os.path.realpath(local_path(text))
        _check_name(path, path)
        return path
    rest = text[len(scheme) + 1 :]
    place, mark, query = rest.partition("?")
    return f"{_SAME_SCHEMES.get(scheme, scheme)}:{place.rstrip('/')}{mark}{query}"


def join_uri(base: str, path: str) -> str:
    """The normalised path or URI of something below another; the options of a URI stay at its end.

    >>> join_uri("s3://bucket/table?region=eu-west-1", "p=1/x.orc"), join_uri("/", "x")
    ('s3://bucket/table/p=1/x.orc?region=eu-west-1', '/x')
    """
    place, mark, query = (base, "", "") if is_local(base) else base.partition("?")
    return f"{place.rstrip('/')}/{path}{mark}{query}"


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
        is_file, tree = _local_files(table, uri) if is_local(uri) else _remote_files(table, uri)
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
        tree = partitions.kept(tree)
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
        is_file, tree = (_local_files if is_local(place.uri) else _remote_files)(table, place.uri)
    except TableNotFoundError:
        return []
    if is_file or tree.acid:
        what = "a file" if is_file else "transactional"
        raise TableError(
            f"Table {table!r} is invalid: the place {place.uri!r} of partition {place.directory!r} is {what}, and "
            "partitions away from the table are read only where they are directories of plain files"
        )
    return [file for file in tree.files if not file.directory]


def _local_files(table: str, root: str) -> tuple[bool, DirectoryTree]:
    try:
        status = Path(root).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TableNotFoundError(f"Table {table!r} is invalid: no such file or directory: {root}") from error
    except OSError as error:
        raise TableError(f"Table {table!r} is invalid: cannot read {root}: {error.strerror}") from error
    if stat.S_ISREG(status.st_mode):
        only = ListedFile("", Path(root).name, status.st_size, *_times(status))
        return True, DirectoryTree([only])
    if not stat.S_ISDIR(status.st_mode):
        raise TableError(f"Table {table!r} is invalid: {root} is neither a file nor a directory")
    tree = DirectoryTree()
    try:
        _walk(table, root, (status.st_dev, status.st_ino), tree)
    except OSError as error:
        raise TableError(
            f"Table {table!r} is invalid: cannot list {error.filename or root}: {error.strerror}"
        ) from error
    return False, tree


def _walk(table: str, root: str, identity: tuple[int, int], tree: DirectoryTree) -> None:
    """Collect what is below a directory of some identity."""
    # directories to look into, each with the identities of itself and of those that it is in; names of one letter
    # nest deeper than Python calls
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", (identity,))]
    while waiting:
        directory, above = waiting.pop()
        with os.scandir(f"{root}/{directory}" if directory else root) as entries:
            for entry in entries:
                name = entry.name
                if is_hidden(name):
                    if name in _MARKERS and directory in tree.acid:
                        tree.markers.add(f"{directory}/{name}")
                    continue
                _check_name(table, name)
                status = _status(entry)
                if status is None:
                    continue
                if stat.S_ISREG(status.st_mode):
                    tree.files.append(ListedFile(directory, name, status.st_size, *_times(status)))
                elif stat.S_ISDIR(status.st_mode):
                    below = f"{directory}/{name}" if directory else name
                    if not _enters(tree, directory, name, below):
                        continue
                    own = (status.st_dev, status.st_ino)
                    if own in above:
                        raise TableError(
                            f"Table {table!r} is invalid: the symbolic link {below!r} leads back above itself"
                        )
                    waiting.append((below, (*above, own)))


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a directory entry; None for broken links and deleted files, which Spark skips too."""
    try:
        return entry.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _times(status: os.stat_result) -> tuple[int, int]:
    """Return the modification and change time of a file in 64 bits: years from 2262 on wrap around.

    The number of its inode is in the second: clocks of file systems tick every few milliseconds, and files that were
    written in one tick may change places, as when directories above them are renamed, without a change of their status.
    """
    changed = status.st_ctime_ns + _INODE_FACTOR * status.st_ino
    return listed_mtime(status), _in_64_bits(changed)


def _in_64_bits(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _enters(tree: DirectoryTree, directory: str, name: str, path: str) -> bool:
    """Return True if a directory belongs to the table, and record what it says about the table."""
    if directory in tree.acid:
        tree.acid[directory].append(name)
        return False
    if is_acid_directory(name):
        tree.acid.setdefault(path, [])
    return True


def _remote_files(table: str, uri: str) -> tuple[bool, DirectoryTree]:
    filesystem, root = resolve_filesystem(uri)
    root = root.rstrip("/")
    try:
        kind = filesystem.get_file_info(root)
        if kind.type == pyarrow.fs.FileType.NotFound:
            raise TableNotFoundError(f"Table {table!r} is invalid: no such file or directory: {uri}")
        if kind.type == pyarrow.fs.FileType.File:
            return True, DirectoryTree(
                [ListedFile("", root.rsplit("/", 1)[-1], kind.size, kind.mtime_ns or 0)]
            )
        infos = filesystem.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
    except TableNotFoundError:
        raise
    except Exception as error:  # each library behind fsspec has a family of its own
        raise TableError(f"Table {table!r} is invalid: cannot list {uri}: {one_line(error)}") from error
    visible: dict[str, bool] = {"": True}
    tree = DirectoryTree()
    # a directory comes before what is in it, where the store tells of directories at all
    for info in sorted(infos, key=lambda item: item.path):
        path = info.path[len(root) + 1 :].rstrip("/")
        if "" in path.split("/"):
            continue  # an object with two slashes in its name: to Spark's file systems there is no such path
        directory, _, name = path.rpartition("/")
        if info.type == pyarrow.fs.FileType.Directory:
            _sees(tree, path, visible)
        elif info.type == pyarrow.fs.FileType.File and _sees(tree, directory, visible):
            if not is_hidden(name):
                tree.files.append(ListedFile(directory, name, info.size, info.mtime_ns or 0))
            elif name in _MARKERS and directory in tree.acid:
                tree.markers.add(path)
    return False, tree


def _sees(tree: DirectoryTree, directory: str, known: dict[str, bool]) -> bool:
    """Return True if a directory belongs to the table; the answer is cached in ``known``."""
    if directory not in known:
        above, _, name = directory.rpartition("/")
        known[directory] = (
            _sees(tree, above, known) and not is_hidden(name) and _enters(tree, above, name, directory)
        )
    return known[directory]


def is_hidden(name: str) -> bool:
    """Return True if a file or directory of this name is never part of a table."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _check_name(table: str, name: str) -> None:
    if not name.isascii() and not is_utf8(name):
        raise TableError(
            f"Table {table!a} is invalid: the name {name!a} is not UTF-8; rename it, "
            "or set PYTHONUTF8=1 if it is and the locale is not"
        )


def _scheme(text: str) -> str:
    """The scheme in lower case; a lone letter is no scheme."""
    found = _SCHEME.match(text)
    # "a:b/c" may be a plain name: only "scheme://" and "file:/" are URIs
    if found is None or not (text.startswith("://", found.end() - 1) or found[1].lower() == "file"):
        return ""
    return found[1].lower()
