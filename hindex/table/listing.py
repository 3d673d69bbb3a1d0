"""Listings: which data files a table consists of.

The rules are those of Spark's file index, so that both engines read the same files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow.fs

from hindex.errors import TableError, TableNotFoundError
from hindex.orc.source import resolve_filesystem
from hindex.table.fingerprint import Fingerprint
from hindex.table.partitions import Partitioning, PartitionValue, RawPartition, discover

__all__ = [
    "DataFile",
    "Fingerprint",
    "Listing",
    "is_local",
    "join_uri",
    "list_data_files",
    "local_path",
    "normalize_uri",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_TRANSACTIONAL = re.compile(r"(base|delta|delete_delta)_[0-9]+(_[0-9]+)*(_v[0-9]+)?")

#: Schemes that name the same store.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file.

    :param path: relative to the table, with forward slashes.
    :param uri: absolute local path, or URI.
    :param length: bytes; a file of 0 bytes has no rows and no ORC tail.
    :param mtime_ns: modification time, nanoseconds since 1970; 0 where the store has none.
    :param partition: the values as written in the directory names, in order of the partition columns.
    :param changed_ns: when a local file's status last changed, which nobody can set back; None of remote files, whose
        stores set ``mtime_ns`` themselves.
    """

    path: str
    uri: str
    length: int
    mtime_ns: int
    partition: RawPartition = ()
    changed_ns: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.length == 0

    def may_match(self, fingerprint: Fingerprint) -> bool:
        """Whether length and time are those recorded; whoever opens the file compares the tail's checksum."""
        return self.length == fingerprint.length and self.mtime_ns == fingerprint.mtime_ns

    def is_untouched_since(self, changed_ns: int) -> bool:
        """Whether a file that :meth:`may_match` is certainly the one whose status changed at a recorded time.

        A local file that was copied, moved or had its access changed is not, though it may be as it was.
        """
        return self.changed_ns is None or self.changed_ns == changed_ns


@dataclass(frozen=True, slots=True)
class Listing:
    """The data files of a table at one moment.

    :param uri: the table's normalised URI.
    :param is_file: whether the table is one file.
    :param files: sorted by path, files of 0 bytes included.
    """

    uri: str
    is_file: bool
    files: tuple[DataFile, ...]
    partitioning: Partitioning = field(default_factory=Partitioning)

    def partition_values(self, file: DataFile) -> tuple[PartitionValue, ...]:
        """The typed partition values of a file, in the order of ``partitioning.columns``."""
        return self.partitioning.values[file.partition]


@dataclass(frozen=True, slots=True)
class _Found:
    """A file met while walking: its directory relative to the table (``""`` is the table) and its name."""

    directory: str
    name: str
    length: int
    mtime_ns: int
    changed_ns: int | None = None


def is_local(uri: str) -> bool:
    """Whether a path or URI is on a local file system."""
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


def list_data_files(table: str, *, name: str | None = None) -> Listing:
    """List the data files of a table: a directory, one file, or a URI.

    Left out, as Spark does: names that start with ``.``, or with ``_`` unless they contain ``=``, copies
    under way (``._COPYING_``), and files in directories that belong to no partition. A directory without data
    files gives an empty listing.

    :raises TableNotFoundError: if the table does not exist; the message calls it ``name``.
    :raises TableError: if it cannot be listed, is transactional, or its partition directories contradict each
        other.
    """
    uri = normalize_uri(table)
    table = name or table
    if is_local(uri):
        is_file, found = _local_files(table, uri)
    else:
        is_file, found = _remote_files(table, uri)
    if is_file:
        only = found[0]
        return Listing(
            uri, True, (DataFile(only.name, uri, only.length, only.mtime_ns, (), only.changed_ns),)
        )
    partitioning, partition_of = discover(table, dict.fromkeys(item.directory for item in found))
    files: list[DataFile] = []
    for item in found:
        partition = partition_of.get(item.directory)
        if partition is not None:
            path = f"{item.directory}/{item.name}" if item.directory else item.name
            files.append(
                DataFile(path, join_uri(uri, path), item.length, item.mtime_ns, partition, item.changed_ns)
            )
    files.sort(key=lambda item: item.path)
    return Listing(uri, False, tuple(files), partitioning)


def _local_files(table: str, root: str) -> tuple[bool, list[_Found]]:
    try:
        status = Path(root).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TableNotFoundError(f"Table {table!r} is invalid: no such file or directory: {root}") from error
    except OSError as error:
        raise TableError(f"Table {table!r} is invalid: cannot read {root}: {error.strerror}") from error
    if stat.S_ISREG(status.st_mode):
        return True, [_Found("", Path(root).name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)]
    if not stat.S_ISDIR(status.st_mode):
        raise TableError(f"Table {table!r} is invalid: {root} is neither a file nor a directory")
    try:
        return False, list(_walk(table, root, "", ((status.st_dev, status.st_ino),)))
    except OSError as error:
        raise TableError(
            f"Table {table!r} is invalid: cannot list {error.filename or root}: {error.strerror}"
        ) from error


def _walk(table: str, root: str, directory: str, above: tuple[tuple[int, int], ...]) -> Iterator[_Found]:
    """The data files below one directory; ``above`` are the identities of the directories it is in."""
    with os.scandir(f"{root}/{directory}" if directory else root) as entries:
        for entry in entries:
            name = entry.name
            if _is_hidden(name):
                continue
            _check_name(table, name)
            try:
                status = entry.stat()
            except FileNotFoundError:
                # a dangling link, or a file that vanished since: Spark skips both
                continue
            if stat.S_ISREG(status.st_mode):
                yield _Found(directory, name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            elif stat.S_ISDIR(status.st_mode):
                below = f"{directory}/{name}" if directory else name
                _check_directory(table, name, below)
                identity = (status.st_dev, status.st_ino)
                if identity in above:
                    raise TableError(
                        f"Table {table!r} is invalid: the symbolic link {below!r} leads back above itself"
                    )
                yield from _walk(table, root, below, (*above, identity))


def _remote_files(table: str, uri: str) -> tuple[bool, list[_Found]]:
    filesystem, root = resolve_filesystem(uri)
    root = root.rstrip("/")
    try:
        kind = filesystem.get_file_info(root)
        if kind.type == pyarrow.fs.FileType.NotFound:
            raise TableNotFoundError(f"Table {table!r} is invalid: no such file or directory: {uri}")
        if kind.type == pyarrow.fs.FileType.File:
            return True, [_Found("", root.rsplit("/", 1)[-1], kind.size, kind.mtime_ns or 0)]
        infos = filesystem.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
    except OSError as error:
        raise TableError(f"Table {table!r} is invalid: cannot list {uri}: {_one_line(error)}") from error
    visible: dict[str, bool] = {"": True}
    found: list[_Found] = []
    for info in sorted(infos, key=lambda item: item.path):
        directory, _, name = info.path[len(root) + 1 :].rpartition("/")
        if (
            info.type == pyarrow.fs.FileType.File
            and not _is_hidden(name)
            and _sees(table, directory, visible)
        ):
            found.append(_Found(directory, name, info.size, info.mtime_ns or 0))
    return False, found


def _sees(table: str, directory: str, known: dict[str, bool]) -> bool:
    """Whether no part of a directory's path is hidden; remembered in ``known``."""
    if directory not in known:
        above, _, name = directory.rpartition("/")
        known[directory] = _sees(table, above, known) and not _is_hidden(name)
        if known[directory]:
            _check_directory(table, name, directory)
    return known[directory]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _check_directory(table: str, name: str, path: str) -> None:
    if _TRANSACTIONAL.fullmatch(name):
        raise TableError(
            f"Table {table!r} is invalid: directory {path!r} belongs to a transactional (ACID) table; "
            "those are not supported yet: compact the table and copy its rows to a plain one"
        )


def _check_name(table: str, name: str) -> None:
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise TableError(
                f"Table {table!a} is invalid: the name {name!a} is not UTF-8; rename it"
            ) from error


def _scheme(text: str) -> str:
    """The scheme in lower case; a lone letter is no scheme."""
    found = _SCHEME.match(text)
    # "a:b/c" may be a plain name: only "scheme://" and "file:/" are URIs
    if found is None or not (text.startswith("://", found.end() - 1) or found[1].lower() == "file"):
        return ""
    return found[1].lower()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
