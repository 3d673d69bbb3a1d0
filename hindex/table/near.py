"""A path that is there, in the place of one that is not and is spelt nearly so."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from hindex.arguments import closest

#: Names of a directory that are looked at: files have long names that are much alike, and each takes its time.
_MOST_NAMES = 1_000


def near_path(text: str) -> str | None:
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
