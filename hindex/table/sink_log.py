"""The log of Spark's streaming file sink: which files of a directory are the table's.

A stream writes its files first, and then their names to a batch in ``_spark_metadata``. Files that no batch names are
those of failed attempts. Every few batches are merged into one, named ``<batch>.compact``.

Source: Spark, ``FileStreamSinkLog``, ``CompactibleFileStreamLog`` and ``MetadataLogFileIndex``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from urllib.parse import unquote

from hindex.errors import HindexError, UnsupportedError
from hindex.orc.io.file_system import open_source
from hindex.table.location import is_local, join_uri, normalize_uri

#: The directory of the log, within that of the table.
DIRECTORY = "_spark_metadata"

_BATCH = re.compile(r"([0-9]+)(\.compact)?")
_VERSION = "v1"


def read_sink_log(table: str, uri: str, names: Iterable[str]) -> dict[str, int]:
    """Read the files of a table from its log.

    Args:
        table: name for messages.
        uri: normalised.
        names: the names in the directory of the log.

    Returns:
        their lengths, by their paths relative to the table.

    Raises:
        UnsupportedError: if the log is incomplete, or names files elsewhere; Spark may be able to read it.
    """
    try:
        return dict(_files(uri, _batches(names)))
    except (HindexError, ValueError, LookupError, TypeError) as error:
        raise UnsupportedError(
            f"Table {table!r} cannot be read here: the log {DIRECTORY!r} of its stream names its files, and {error}; "
            "read it by Spark, or name the directory of a copy without the log"
        ) from error


def _batches(names: Iterable[str]) -> list[str]:
    """Return the names of the latest compacted batch and those after it."""
    by_number: dict[int, str] = {}
    for name in sorted(names):
        # the compacted batch of a number is sorted behind the plain one
        if match := _BATCH.fullmatch(name):
            by_number[int(match[1])] = name
    compacted = [number for number, name in by_number.items() if name.endswith(".compact")]
    numbers = range(max(compacted, default=0), max(by_number, default=-1) + 1)
    for number in numbers:
        if number not in by_number:
            raise ValueError(f"it lacks batch {number}")
    return [by_number[number] for number in numbers]


def _files(uri: str, batches: Iterable[str]) -> Iterable[tuple[str, int]]:
    directory_of = lru_cache(normalize_uri)  # symbolic links are resolved once for each directory
    for batch in batches:
        with closing(open_source(join_uri(uri, f"{DIRECTORY}/{batch}"))) as source:
            version, *lines = bytes(source.read([(0, source.size())])[0]).decode().split("\n")
        if version != _VERSION:
            raise ValueError(f"batch {batch} is of version {version[:20]!r}, not {_VERSION!r}")
        for line in lines:
            item = json.loads(line)
            if item["isDir"]:
                continue
            if item["action"] != "add":
                raise ValueError(f"batch {batch} has the action {item['action']!r}")
            location = str(item["path"])
            directory, _, name = location.rpartition("/")
            parent = directory_of(directory if is_local(location) else unquote(directory))
            path = join_uri(parent, unquote(name))
            if not path.startswith(join_uri(uri, "")):
                raise ValueError(f"batch {batch} has the file {location!r}, which is elsewhere")
            yield path[len(join_uri(uri, "")) :], int(item["size"])
