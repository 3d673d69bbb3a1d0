"""Locations of tables: paths and URIs in one spelling, and suggestions in place of a missing one."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from hindex.errors import TableError
from hindex.validation import closest, is_utf8

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


#: Schemes that name the same store.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3"}


#: Names of a directory that are looked at: files have long names that are much alike, and each takes its time.
_MOST_NAMES = 1_000


#: A path as Spark's SQL has it, a URI that lacks a slash, and what a name of Spark's catalog may look like.
_ORC_PATH = re.compile(r"orc\.`(.+)`", re.IGNORECASE)


_CUT_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)", re.IGNORECASE)


_CATALOG_NAME = re.compile(r"[\w`]+(?:\.[\w`]+){0,2}")


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
        check_name(path, path)
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


def check_name(table: str, name: str) -> None:
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


def missing_remedy(written: str, path: str) -> str:
    """Return the remedy for a table path that does not exist; "" if there is none.

    :param written: what the user wrote for it.
    :param path: the local path that it stands for.
    """
    home = os.path.expanduser(written)  # noqa: PTH111 a Path would lose a slash
    if home != written and _is_there(Path(home)):
        return f"did you mean {home!r}? a ~ is not expanded"
    if match := _ORC_PATH.fullmatch(written):
        return f"here, the path is written alone: {match[1]!r}"
    if _CUT_URI.match(written):
        return f"a URI has two slashes: {written.replace(':/', '://', 1)!r}"
    if "*" in written:
        return "a pattern is no table: name the directory of its files, or one file"
    near = suggest_path(path)
    if near is not None:
        return f"did you mean {near!r}?"
    if _CATALOG_NAME.fullmatch(written) and os.path.realpath(written) == path:
        return (
            "a table of Spark's catalog is named without quotes in SQL, and needs a session: "
            "hindex.connect(spark=spark) or --master 'local[*]'"
        )
    return ""


def suggest_path(text: str) -> str | None:
    """The local path that may have been meant: it differs in one name. It is relative where ``text`` is.

    Names that begin with a dot or an underscore are hidden, and are not told; nor are those that no terminal shows.
    """
    try:
        path = Path(text)
        there = next(above for above in path.parents if above.is_dir())
        wrong, *rest = path.relative_to(there).parts
        with os.scandir(there) as entries:
            seen = (entry.name for entry in islice(entries, _MOST_NAMES))
            names = [name for name in seen if name[0] not in "._" and name.isprintable()]
    except (OSError, StopIteration, ValueError):
        return None
    found = (there / name / Path(*rest) for name in closest(wrong, names, 1))
    return next((str(path) for path in found if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
