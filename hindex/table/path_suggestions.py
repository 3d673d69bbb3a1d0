"""Suggest existing paths in place of a missing one."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from hindex.validation import closest

#: Names of a directory that are looked at: files have long names that are much alike, and each takes its time.
_MOST_NAMES = 1_000
#: A path as Spark's SQL has it, a URI that lacks a slash, and what a name of Spark's catalog may look like.
_ORC_PATH = re.compile(r"orc\.`(.+)`", re.IGNORECASE)
_CUT_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)", re.IGNORECASE)
_CATALOG_NAME = re.compile(r"[\w`]+(?:\.[\w`]+){0,2}")


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
