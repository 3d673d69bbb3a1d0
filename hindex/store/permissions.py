"""Mode and group of the files of a store within a table: index files and manifests contain values of the data.

A local store in ``_hindex`` copies both from the data, whatever the umask; other stores follow the umask.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from hindex.store.storage import STORE_NAME
from hindex.table.directory_tree import is_hidden
from hindex.value_class import value_class

_LOG = logging.getLogger("hindex")

#: Names directly in a table's own store; the directories of a store for several tables end in a hash.
_OWN_NAMES = frozenset({"manifests", "segments", "data", "builds", "files"})

# the tables whose group could not be set, which is logged once per table
_reported: set[Path] = set()


@value_class
class Permissions:
    """The mode and group of new files or directories; a warning names ``table`` if the group cannot be set."""

    mode: int
    group: int
    table: Path

    def apply(self, path: Path | int) -> None:
        """Set mode and group of a file or directory; if the group cannot be set, it may do no more than others.

        Raises:
            OSError: if the mode cannot be set.
        """
        mode = self.mode
        if os.stat(path).st_gid != self.group:  # noqa: PTH116 path may be a descriptor
            try:
                os.chown(path, -1, self.group)
            except OSError as error:
                # the bits of the data's group would give access to another group
                mode = mode & ~stat.S_IRWXG | (mode & mode << 3 & stat.S_IRWXG)
                if self.table not in _reported:
                    _reported.add(self.table)
                    _LOG.warning(
                        "cannot give the index files of %s the group %d of its data (%s): only their owner reads "
                        "them, or everybody if everybody reads the data",
                        self.table,
                        self.group,
                        error.strerror,
                    )
        os.chmod(path, mode)  # noqa: PTH101 as above


def directory_permissions(path: Path) -> Permissions | None:
    """Return the permissions of a new directory, those of the table's directory; None outside ``_hindex``."""
    table = _table_path(path)
    if table is None:
        return None
    directory = table if table.is_dir() else table.parent
    status = directory.stat()
    return Permissions(status.st_mode & 0o3777 | stat.S_IRWXU, status.st_gid, directory)


def file_permissions(path: Path, data_file: str | None = None) -> Permissions | None:
    """Return the permissions of a new file; None outside ``_hindex``.

    Args:
        data_file: the local path of the data file whose values it contains. If None, the mode is that of the
            table's directory, restricted by that of one of its data files.
    """
    table = _table_path(path)
    if table is None:
        return None
    try:
        statuses = [Path(data_file or table).stat()]
    except FileNotFoundError:  # deleted while it was indexed
        statuses = [table.parent.stat()]
    if data_file is None and table.is_dir():
        first = _first_data_file(table)
        statuses = statuses if first is None else [first, *statuses]
    mode = 0o666
    for status in statuses:
        mode &= status.st_mode
    return Permissions(mode | stat.S_IRUSR | stat.S_IWUSR, statuses[0].st_gid, table)


def _table_path(path: Path) -> Path | None:
    """Return the table, a directory or a file, whose own store contains a path."""
    parts = path.parts
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] == STORE_NAME:
            below = parts[at + 1 :]
            if below and below[0] not in _OWN_NAMES:
                return None
            return Path(*parts[:at], below[1]) if below[:1] == ("files",) and below[1:] else Path(*parts[:at])
    return None


def _first_data_file(directory: Path | str) -> os.stat_result | None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if entry.is_file():
                return entry.stat()
            if entry.is_dir(follow_symlinks=False):
                status = _first_data_file(entry.path)
                if status is not None:
                    return status
    return None
