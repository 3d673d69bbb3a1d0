"""Locations of tables: paths and URIs in one spelling, and suggestions in place of a missing one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from hindex.errors import TableError
from hindex.orc.acid.directory import is_acid_directory
from hindex.orc.io.file_system import request_limit
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.file_tail import MAGIC
from hindex.validation import is_utf8, nearest_names

#: Threads that read local files, which may be on a network disk.
_LOCAL_READERS = 8

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


#: Schemes that name the same store.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3"}


#: Names of a directory that are compared: names of data files are long and alike, and each comparison takes time.
_MAX_NAMES = 1_000

#: Similar names that are tried.
_MAX_SIMILAR = 3

#: Files and directories that are opened to recognize a table.
_MAX_OPENED = 100


#: A path as Spark's SQL writes it, a URI that lacks a slash, and a name that Spark's catalog may have.
_ORC_PATH = re.compile(r"orc\.`(.+)`", re.IGNORECASE)


_CUT_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)", re.IGNORECASE)


_CATALOG_NAME = re.compile(r"[\w`]+(?:\.[\w`]+){0,2}")


def is_local(uri: str) -> bool:
    """Return True if a path or URI is on a local file system."""
    return _scheme(uri) in ("", "file")


def reading_pool(uris: Iterable[str]) -> ThreadPool:
    """Return threads to read a little of each of some files: one for each request that may be under way."""
    return ThreadPool(_LOCAL_READERS if all(map(is_local, uris)) else request_limit())


def local_path(path_or_uri: str) -> str:
    """Return the absolute local path of a path or ``file:`` URI; symbolic links are kept.

    ``file:`` URIs are percent-decoded, unless only the encoded name exists: Hadoop writes both kinds.
    """
    if _scheme(path_or_uri) == "file":
        path = path_or_uri[len("file:") :]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise TableError(
                    f"Table {path_or_uri!r} is invalid: a 'file:' URI cannot name a host: {host!r}"
                )
            path = slash + rest
        decoded = unquote(path)
        path_or_uri = (
            path if decoded != path and os.path.lexists(path) and not os.path.lexists(decoded) else decoded
        )
    if not path_or_uri or "\0" in path_or_uri:
        raise TableError(f"Table {path_or_uri!r} is invalid: it is not a path")
    return str(Path(path_or_uri).absolute())


def normalize_uri(path_or_uri: str) -> str:
    """Return the normalised path or URI of a table's location.

    Local paths and ``file:`` URIs become absolute paths without symbolic links; ``s3a`` and ``s3n`` become
    ``s3``; trailing slashes go. ``~`` is not expanded.

    >>> normalize_uri("S3A://bucket/table//"), normalize_uri("file:///no/such/../dir/")
    ('s3://bucket/table', '/no/dir')

    Raises:
        TableError: if it is neither a path nor a URI.
    """
    scheme = _scheme(path_or_uri)
    if scheme in ("", "file"):
        path = os.path.realpath(local_path(path_or_uri))
        check_name(path, path)
        return path
    rest = path_or_uri[len(scheme) + 1 :]
    location, question_mark, query = rest.partition("?")
    return f"{_SAME_SCHEMES.get(scheme, scheme)}:{location.rstrip('/')}{question_mark}{query}"


def join_uri(base: str, path: str) -> str:
    """Return the normalised path or URI of a path below a location; the options of a URI stay at its end.

    >>> join_uri("s3://bucket/table?region=eu-west-1", "p=1/x.orc"), join_uri("/", "x")
    ('s3://bucket/table/p=1/x.orc?region=eu-west-1', '/x')
    """
    location, question_mark, query = (base, "", "") if is_local(base) else base.partition("?")
    return f"{location.rstrip('/')}/{path}{question_mark}{query}"


def check_name(table: str, name: str) -> None:
    if not name.isascii() and not is_utf8(name):
        raise TableError(
            f"Table {table!a} is invalid: the name {name!a} is not UTF-8; rename it, "
            "or set PYTHONUTF8=1 if it is and the locale is not"
        )


def _scheme(path_or_uri: str) -> str:
    """Return the scheme in lower case; a lone letter is no scheme."""
    match = _SCHEME.match(path_or_uri)
    # "a:b/c" may be a plain name: only "scheme://" and "file:/" are URIs
    if match is None or not (path_or_uri.startswith("://", match.end() - 1) or match[1].lower() == "file"):
        return ""
    return match[1].lower()


def missing_remedy(written: str, path: str) -> str:
    """Return the remedy for a table path that does not exist; "" if there is none.

    Args:
        written: the path as the user wrote it.
        path: the local path that it means.
    """
    home = os.path.expanduser(written)  # noqa: PTH111 a Path would lose a slash
    if home != written and _exists(Path(home)):
        return f"did you mean {home!r}? a ~ is not expanded"
    if match := _ORC_PATH.fullmatch(written):
        return f"write the path alone: {match[1]!r}"
    if _CUT_URI.match(written):
        return f"a URI has two slashes: {written.replace(':/', '://', 1)!r}"
    if "*" in written:
        return "a pattern is not a table: name the directory of its files, or one file"
    suggested = suggest_path(path)
    if suggested is not None:
        return f"did you mean {suggested!r}?"
    if _CATALOG_NAME.fullmatch(written) and os.path.realpath(written) == path:
        return (
            "a table of Spark's catalog is named without quotes in SQL, and needs a session: "
            "hindex.connect(spark=spark) or --master 'local[*]'"
        )
    return ""


def is_orc_table(path: Path) -> bool:
    """Return True if a path is an ORC file, or a directory of ORC files, partitions or transactions."""
    waiting = [path]
    for _ in range(_MAX_OPENED):
        if not waiting:
            break
        item = waiting.pop()
        try:
            if item.is_dir():
                with os.scandir(item) as entries:
                    waiting += [
                        item / entry.name
                        for entry in islice(entries, _MAX_OPENED)
                        if (entry.is_file() and entry.name[0] not in "._")
                        or "=" in entry.name
                        or is_acid_directory(entry.name)
                    ]
            elif item.is_file():
                with item.open("rb") as file:
                    if file.read(len(MAGIC)) == MAGIC:
                        return True
        except OSError:
            continue  # what cannot be read cannot be queried either
    return False


def suggest_path(missing: str, is_candidate: Callable[[Path], bool] = is_orc_table) -> str | None:
    """Return an existing local path that differs from a missing one in one name; None if no name is similar.

    It is relative if ``missing`` is. Hidden names (``.``, ``_``) and unprintable ones are not suggested.

    Args:
        is_candidate: returns True for a path that may be meant: by default, one of ORC files.
    """
    try:
        path = Path(missing)
        parent = next(above for above in path.parents if above.is_dir())
        wrong, *rest = path.relative_to(parent).parts
        with os.scandir(parent) as entries:
            listed = (entry.name for entry in islice(entries, _MAX_NAMES))
            names = [name for name in listed if name[0] not in "._" and name.isprintable()]
    except (OSError, StopIteration, ValueError):
        return None
    candidates = (parent / name / Path(*rest) for name in nearest_names(wrong, names, _MAX_SIMILAR))
    return next((str(path) for path in candidates if is_candidate(path)), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
