"""Partitions that are not where their names say: a catalog gives each a place of its own.

Which partitions there are, and where, is then told by the catalog alone. A data file of such a partition has a path
that begins with ``_at/``, the place with everything but letters, digits and ``_.-~`` percent-encoded, and the partition
as its directories would be named: ``_at/%2Fold%2F2019/year=2019/part-0.orc``. No file below the table has such a path,
because names that begin with ``_`` are hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote

from hindex.table.tree import DirectoryTree

#: How the paths of data files begin that are in partitions elsewhere.
PREFIX = "_at/"


@dataclass(frozen=True, slots=True)
class PartitionLocation:
    """A partition that is elsewhere.

    :ivar directory: as its directories would be named below the table: ``dt=2024-01-01/region=EU``.
    :ivar uri: the normalised place of its files.
    """

    directory: str
    uri: str

    @property
    def path(self) -> str:
        """Return the prefix of its data files' paths in place of its directory."""
        return f"{PREFIX}{quote(self.uri, safe='')}/{self.directory}"


@dataclass(frozen=True, slots=True)
class CatalogPartitions:
    """The partitions that a catalog has of a table.

    :ivar here: those at their places below the table, as their directories are named.
    :ivar elsewhere: the others.
    """

    here: frozenset[str]
    elsewhere: tuple[PartitionLocation, ...] = ()

    def kept(self, tree: DirectoryTree) -> DirectoryTree:
        """Of what is below a table, the files directly in the directories of its partitions."""
        return replace(tree, files=[file for file in tree.files if file.directory in self.here])


def is_external(path: str) -> bool:
    """Return True if a data file's path is of an external partition."""
    return path.startswith(PREFIX)
