"""Hive-style partitions: columns whose values stand in directory names.

The rules are those of Spark's partition discovery, so that both engines see the same columns and values.

A catalog may also give a partition any other location. Then the catalog alone says which partitions a table has and
where they are. The path of a data file of such an external partition is ``_at/``, the location with all but letters,
digits and ``_.-~`` percent-encoded, and the partition as its directories would be named:
``_at/%2Fold%2F2019/year=2019/part-0.orc``. No file below the table has such a path: a name that begins with ``_`` is
hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from hindex.domain import Key
from hindex.errors import TableError, UnsupportedError
from hindex.keys import are_values, key_array, one_key_array
from hindex.orc.metadata.types import OrcType
from hindex.table.partition_types import STRING, common_partition_type, infer_type, typed_value
from hindex.value_class import value_class

#: The directory value of NULL.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


#: A file's partition as written in its directory names, still escaped; None is NULL.
RawPartition = tuple[str | None, ...]


_HEX = frozenset("0123456789abcdefABCDEF")


#: The first directory in the paths of data files of external partitions.
PREFIX = "_at/"


@value_class
class PartitionColumn:
    """A partition column, and its type: declared, or inferred from all its values."""

    name: str
    type: OrcType


@value_class
class PartitionValue:
    """One typed value.

    Args:
        value: the Python value of the type: int, float, str, date, datetime, Decimal or None; days or microseconds
            since 1970 as an int outside of Python's calendar.
        key: the same as a key (`hindex.keys`), None for NULL.
    """

    value: Any
    key: Key | None


@value_class
class Partitioning:
    """The partition columns of a table, and the typed values of each partition.

    A table that is not partitioned has no columns and one partition, ``()``.
    """

    columns: tuple[PartitionColumn, ...] = ()
    values: Mapping[RawPartition, tuple[PartitionValue, ...]] = field(default_factory=lambda: {(): ()})

    def keys(self, partition: RawPartition) -> dict[str, Key | None]:
        """Return the keys of one partition, by column."""
        return {
            column.name: item.key for column, item in zip(self.columns, self.values[partition], strict=True)
        }

    def scalars(self, partition: RawPartition) -> tuple[pa.Scalar, ...]:
        """Return the values of one partition as Arrow scalars of the columns' types."""
        values = self.values[partition]
        return tuple(_scalar(column.type, item) for column, item in zip(self.columns, values, strict=True))


def _scalar(data_type: OrcType, item: PartitionValue) -> pa.Scalar:
    if item.key is None:
        return pa.nulls(1, data_type.to_arrow())[0]
    if are_values(data_type):
        return key_array(data_type, one_key_array(item.key))[0]
    # imports pandas
    return pa.scalar(item.value, data_type.to_arrow())


def unescape(text: str) -> str:
    """Undo Hive's escapes in a directory's name or value: ``%`` and two hexadecimal digits are a character.

    >>> unescape("a%2Fb"), unescape("100%")
    ('a/b', '100%')
    """
    if "%" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        code = text[at + 1 : at + 3]
        if text[at] == "%" and len(code) == 2 and _HEX.issuperset(code):
            parts.append(chr(int(code, 16)))
            at += 3
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)


def discover(
    table: str, directories: Iterable[str], declared: Sequence[PartitionColumn] | None = None
) -> tuple[Partitioning, dict[str, RawPartition]]:
    """Find the partition columns of a table, their types and values.

    Args:
        table: name for messages.
        directories: those that hold data files, relative to the table; ``""`` is the table itself.
        declared: the partition columns of a catalog, in directory order; types are inferred if None.

    Returns:
        the partitioning, and each directory's partition. Directories that belong to no partition are missing: their
        files are not part of the table.

    Raises:
        TableError: if directories contradict each other.
        UnsupportedError: if they contradict the catalog; Spark then takes the columns of both.
    """
    parsed = {item: _parse(table, item) for item in sorted(directories)}
    partitions = {item: components for item, components in parsed.items() if components.names}
    if declared is not None and not partitions:
        columns = tuple(declared)
        of_directory: dict[str, RawPartition] = {item: () for item in parsed if not (item or columns)}
        return Partitioning(columns, {} if columns else {(): ()}), of_directory
    if not partitions:
        if parsed and "" not in parsed:
            raise TableError(
                f"Table {table!r} is invalid: directory {next(iter(parsed))!r} is not named column=value; "
                "use the path of the directory that contains the ORC files"
            )
        return Partitioning(), {item: () for item in parsed if not item}
    _check_agreement(table, parsed, partitions)
    names = next(iter(partitions.values())).names
    distinct = {components.raw for components in partitions.values()}
    if declared is None:
        types = [_column_type({raw[at] for raw in distinct}) for at in range(len(names))]
    else:
        declared_names = [item.name for item in declared]
        if [name.lower() for name in names] != [name.lower() for name in declared_names]:
            raise UnsupportedError(
                f"Table {table!r} cannot be read here: its directories are partitioned by {', '.join(names)}, and the "
                f"catalog has it partitioned by {', '.join(declared_names) or 'nothing'}; declare these, or query it "
                "by Spark"
            )
        names, types = tuple(declared_names), [item.type for item in declared]
    caches: list[dict[str | None, PartitionValue]] = [{None: PartitionValue(None, None)} for _ in names]
    values: dict[RawPartition, tuple[PartitionValue, ...]] = {}
    for raw in sorted(distinct, key=repr):
        for text, column_type, name, cache in zip(raw, types, names, caches, strict=True):
            if text is not None and text not in cache:
                cache[text] = _value(table, name, text, column_type, is_declared=declared is not None)
        values[raw] = tuple(cache[text] for text, cache in zip(raw, caches, strict=True))
    columns = tuple(PartitionColumn(name, data_type) for name, data_type in zip(names, types, strict=True))
    return Partitioning(columns, values), {item: components.raw for item, components in partitions.items()}


@value_class
class _Directory:
    """The columns and values in a directory's path, and the directory above them."""

    base: str
    names: tuple[str, ...] = ()
    raw: RawPartition = ()


def _parse(table: str, directory: str) -> _Directory:
    """Read ``name=value`` components from the innermost outwards, up to the first that is none."""
    names: list[str] = []
    raw: list[str | None] = []
    parts = directory.split("/") if directory else []
    end = len(parts)
    while end:
        name, equals, value = parts[end - 1].partition("=")
        if equals:
            if not name or not value:
                raise TableError(
                    f"Table {table!r} is invalid: the partition directory {directory!r} has an empty column "
                    f"name or value in {parts[end - 1]!r}; rename it to column=value"
                )
            names.append(unescape(name))
            raw.append(None if value == NULL_PARTITION else value)
        elif names:
            break
        end -= 1
    if not names:
        return _Directory(directory)
    return _Directory("/".join(parts[:end]), tuple(reversed(names)), tuple(reversed(raw)))


def _check_agreement(
    table: str, parsed: Mapping[str, _Directory], partitions: Mapping[str, _Directory]
) -> None:
    # letter case is ignored, as by Spark
    bases = {components.base.lower(): item for item, components in parsed.items()}
    if len(bases) > 1:
        shown = " and ".join(repr(item or ".") for item in list(bases.values())[:2])
        raise TableError(
            f"Table {table!r} is invalid: conflicting directory structures: {shown} are partitioned "
            "differently; keep data files only in directories named alike"
        )
    lists = {
        tuple(name.lower() for name in components.names): item for item, components in partitions.items()
    }
    if len(lists) > 1:
        shown = " and ".join(repr(item) for item in list(lists.values())[:2])
        raise TableError(
            f"Table {table!r} is invalid: conflicting partition column names: {shown}; directories at one "
            "level must have the same column name, and data files belong in the innermost"
        )
    (names,) = lists
    if len(set(names)) < len(names):
        raise TableError(
            f"Table {table!r} is invalid: a partition column occurs twice in {next(iter(partitions))!r}; "
            "rename one of the directories' columns"
        )


def _column_type(values: set[str | None]) -> OrcType:
    common: OrcType | None = None
    for text in values:
        if text is not None:
            common = common_partition_type(common, infer_type(text, unescape(text)))
            if common == STRING:
                break
    # Spark has a type of its own for a column of NULLs only; no reader supports it
    return STRING if common is None else common


def _value(table: str, name: str, text: str, data_type: OrcType, *, is_declared: bool) -> PartitionValue:
    try:
        # a catalog has unescaped values; only directories escape them
        raw = unescape(text) if is_declared else text
        value, key = typed_value(raw, unescape(text), data_type)
    except ValueError as error:
        if is_declared:
            raise UnsupportedError(
                f"Table {table!r} cannot be read here: partition {name}={text} is not read as {data_type}; use Spark"
            ) from error
        raise TableError(
            f"Table {table!r} is invalid: partition {name}={text} is not of the column's type {data_type}; rename it"
        ) from error
    return PartitionValue(value, key)


class PartitionFilter:
    """Decides by their names which directories of partitions are listed.

    Args:
        columns: the partition columns.
        keeps: returns False if no row of a partition is wanted, by the keys of some of its columns, or None for NULL.
        is_declared: whether the columns are a catalog's. Inferred types depend on the names of all partitions: only
            directories of the last level are left out, and their names are kept.
    """

    def __init__(
        self,
        columns: Sequence[PartitionColumn],
        keeps: Callable[[Mapping[str, Key | None]], bool],
        *,
        is_declared: bool,
    ) -> None:
        self.columns = tuple(columns)
        self._keeps = keeps
        self._is_declared = is_declared

    def keeps(self, directory: str) -> bool:
        """Return False if no row below a directory, relative to the table, is wanted."""
        parts = directory.split("/")
        if len(parts) > len(self.columns) or not (self._is_declared or len(parts) == len(self.columns)):
            return True
        keys: dict[str, Key | None] = {}
        for part, column in zip(parts, self.columns, strict=False):
            name, _, text = part.partition("=")
            if unescape(name).lower() != column.name.lower() or not text:
                return True
            if text == NULL_PARTITION:
                keys[column.name] = None
                continue
            raw = unescape(text) if self._is_declared else text
            try:
                _, keys[column.name] = typed_value(raw, unescape(text), column.type)
            except ValueError:
                return True
        return self._keeps(keys)


@value_class
class PartitionLocation:
    """An external partition.

    Attributes:
        directory: its directories as they would be named below the table: ``dt=2024-01-01/region=EU``.
        uri: the normalised location of its files.
    """

    directory: str
    uri: str

    @property
    def path(self) -> str:
        """Return the prefix of its data files' paths."""
        return f"{PREFIX}{quote(self.uri, safe='')}/{self.directory}"


@value_class
class CatalogPartitions:
    """The partitions of a table in a catalog.

    Attributes:
        here: the directories of the partitions below the table, relative to it.
        elsewhere: the external partitions.
    """

    here: frozenset[str]
    elsewhere: tuple[PartitionLocation, ...] = ()


def is_external(path: str) -> bool:
    """Return True if a data file's path belongs to an external partition."""
    return path.startswith(PREFIX)
