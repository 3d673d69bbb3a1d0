"""The interface of index types, and the registry of their names.

An index type answers a leaf of a predicate, which is a `hindex.domain.Domain` of one column, with
`Bounds`: two sets of row numbers of one stripe. The planner combines bounds and never looks inside
an index. Types are looked up by name: the built-in ones are listed here, others register an object that
satisfies `IndexType` under the entry-point group ``hindex.indexes``. ``docs/index-types.md`` shows how.

If a column has several indexes, they are looked up in ascending `IndexType.order`: each refines the bounds of the
ones before it, until every row is decided.
"""

from __future__ import annotations

import enum
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Domain, Key, RangeArray
from hindex.errors import BuildError, ColumnError, HindexError
from hindex.index.column_stats import ColumnStats
from hindex.index.index_file import BinarySink, IndexFileReader
from hindex.keys import KeyArray, KeyKind, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.validation import suggestion
from hindex.value_class import value_class

ENTRY_POINT_GROUP = "hindex.indexes"

#: The built-in types: upper-case name to ``module:attribute``, imported at their first use.
_BUILT_IN = {
    "BITMAP": "hindex.index.bitmap:BITMAP",
    "BLOOM": "hindex.index.bloom:BLOOM",
    "BTREE": "hindex.index.btree:BTREE",
    "MINMAX": "hindex.index.minmax:MINMAX",
    "NGRAM": "hindex.index.ngram:NGRAM",
    "ROWS": "hindex.index.rows:ROWS",
}

#: The names of the types in other systems: Hive's short names and handler classes, in upper case.
SYNONYMS = {
    "COMPACT": "BTREE",
    "ORG.APACHE.HADOOP.HIVE.QL.INDEX.COMPACT.COMPACTINDEXHANDLER": "BTREE",
    "ORG.APACHE.HADOOP.HIVE.QL.INDEX.BITMAP.BITMAPINDEXHANDLER": "BITMAP",
}

#: Ranges of more integers than this are not looked up one by one.
MAX_ENUMERATED = 1 << 16


@value_class
class Bounds:
    """The row numbers of one stripe, from 0, for which a predicate is certainly TRUE, and possibly TRUE.

    Invariant: ``lower`` ⊆ rows for which the predicate is TRUE ⊆ ``upper``. The bitmaps are shared: copy one
    before changing it.
    """

    lower: BitMap
    upper: BitMap

    @classmethod
    def exactly(cls, rows: BitMap) -> Bounds:
        """Return exact bounds."""
        return cls(rows, rows)

    @classmethod
    def all(cls, rows: int) -> Bounds:
        """Return exact bounds of all ``rows`` rows."""
        return cls.exactly(BitMap(range(rows)))

    @classmethod
    def none(cls) -> Bounds:
        """Return exact bounds without rows."""
        return cls.exactly(BitMap())

    @classmethod
    def unknown(cls, rows: int) -> Bounds:
        """Return bounds that leave all ``rows`` rows undecided."""
        return cls(BitMap(), BitMap(range(rows)))

    @property
    def exact(self) -> bool:
        """True if the bounds are equal, so that all rows are decided."""
        return self.lower is self.upper or self.lower == self.upper

    def __and__(self, other: Bounds) -> Bounds:
        return self._combine(other, BitMap.__and__)

    def __or__(self, other: Bounds) -> Bounds:
        return self._combine(other, BitMap.__or__)

    def refine(self, other: Bounds) -> Bounds:
        """Combine two answers to one condition: unite the lower bounds and intersect the upper bounds."""
        if self.exact:
            return self
        if other.exact:
            return other
        return Bounds(self.lower | other.lower, self.upper & other.upper)

    def _combine(self, other: Bounds, operation: Callable[[BitMap, BitMap], BitMap]) -> Bounds:
        lower = operation(self.lower, other.lower)
        if self.lower is self.upper and other.lower is other.upper:
            return Bounds(lower, lower)
        return Bounds(lower, operation(self.upper, other.upper))


class Level(enum.Enum):
    """The scope of one index file."""

    STRIPE = "stripe"
    PARTITION = "partition"
    TABLE = "table"


class Operator(enum.Enum):
    """An operator that an index type supports; the value is shown to users."""

    EQUAL = "= IN"
    RANGE = "<> < <= > >= BETWEEN NOT IN LIKE 'prefix%'"
    NULL = "IS [NOT] NULL"

    @classmethod
    def for_domain(cls, domain: Domain) -> frozenset[Operator]:
        """Return the operators of a domain. An index that supports any of them can answer it."""
        operators = {cls.NULL} if domain.null_allowed or domain.has_every_value else set()
        if domain.has_spans:
            operators.add(cls.RANGE)
        if domain.has_points or (domain.ranges and enumerable(domain)):
            operators.add(cls.EQUAL)
        return frozenset(operators)


def enumerable(domain: Domain) -> bool:
    """Return True if the non-null members can be listed: points and short integer ranges.

    Adjacent integers of an IN list are one range of a domain.
    """
    if isinstance(domain.ranges, RangeArray):
        total = len(domain.ranges)
        if domain.ranges.integers is not None:
            lows, highs = (keys.astype(np.float64) for keys in domain.ranges.integers)
            total += int((highs - lows).sum())
        return total <= MAX_ENUMERATED
    total = 0
    for item in domain.ranges:
        if item.is_point:
            total += 1
        elif isinstance(item.low, int) and isinstance(item.high, int):
            total += item.high - item.low + 1
        else:
            return False
        if total > MAX_ENUMERATED:
            return False
    return True


@value_class
class StripeSummary:
    """The summary of one stripe that a builder returns.

    Its keys are not truncated. ``key_count`` is None if the builder does not count distinct keys.
    """

    stats: ColumnStats
    key_count: int | None = None


@value_class
class IndexFileSummary:
    """The manifest's record of a finished index file. ``length`` is in bytes."""

    length: int
    footer_crc32c: int
    stripes: tuple[StripeSummary, ...]


class IndexBuilder(Protocol):
    """A builder of one index file, stripe by stripe of the data file."""

    def add_stripe(self, array: pa.Array) -> None:
        """Index the column's values of the next stripe: one per row, of ``OrcType.to_arrow()``.

        Raises:
            BuildError: if the array is of another type.
        """
        ...

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        ...

    def abort(self) -> None:
        """Stop writing; remove the file if the builder opened it."""
        ...


@runtime_checkable
class StatsBuilder(IndexBuilder, Protocol):
    """A builder that also accepts statistics in place of values: ORC files often have them."""

    def add_stats(self, rows: int, groups: Sequence[ColumnStats]) -> None:
        """Index the next stripe, given the statistics of its row groups."""
        ...


class IndexReader(Protocol):
    """A reader that answers domains from one index file. Threads may share it."""

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe."""
        ...

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Look up the rows of a stripe whose value is in ``domain``.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        ...

    def close(self) -> None:
        """Close the source."""
        ...


@value_class
class KeyCounts:
    """The number of rows for each key, in ascending order of the keys. Keys without rows are left out."""

    keys: KeyArray
    counts: npt.NDArray[np.int64]
    null_count: int


@value_class
class KeyRows:
    """Some adjacent keys in ascending order, the number of rows of each, and the rows, ascending within a key."""

    keys: KeyArray
    counts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]


@runtime_checkable
class KeyedReader(IndexReader, Protocol):
    """A reader of an index with the rows of every key, so that queries on its column need no data.

    Raises:
        IndexFileError: from every method, if a page that it needs is corrupt.
    """

    def key_count(self, stripe: int) -> int:
        """Return the number of distinct keys of a stripe, without NULL."""
        ...

    def null_rows(self, stripe: int) -> BitMap:
        """Return the null rows of a stripe; they are shared and must not be changed."""
        ...

    def lookup_keys(self, stripe: int, domain: Domain, max_rows: int) -> tuple[Bounds, KeyRows | None]:
        """Look up as `lookup`, with the keys of the rows if there are at most ``max_rows`` and no nulls."""
        ...

    def key_counts(self, stripe: int, rows: BitMap | None = None) -> KeyCounts:
        """Count some rows of a stripe (all if None) by key."""
        ...

    def key_rows(
        self, stripe: int, rows: BitMap | None = None, *, descending: bool = False
    ) -> Iterator[KeyRows]:
        """Yield the keys with their rows, from the least or the greatest key, reading one page at a time."""
        ...


@value_class
class MinMax:
    """The number of null rows of a stripe, and its least and greatest key.

    A key is None if every row is null, or if it is not recorded exactly.
    """

    null_count: int
    low: Key | None
    high: Key | None


@runtime_checkable
class MinMaxSource(IndexReader, Protocol):
    """A reader with the least and greatest key of whole stripes."""

    def min_max(self, stripe: int) -> MinMax:
        """Return the least and greatest key of a stripe, without reading a page."""
        ...


@value_class
class LookupCost:
    """The estimated cost of a lookup, by the index's directory alone.

    Attributes:
        rows: the rows in the domain.
        walked: the rows to unpack one by one.
        pages: the pages to read.
        all_pages: the pages of the stripe.
        page_bytes: the stored bytes of the pages to read.
    """

    rows: int
    walked: int
    pages: int = 0
    all_pages: int = 0
    page_bytes: int = 0


@runtime_checkable
class CostedReader(IndexReader, Protocol):
    """A reader that estimates the cost of a lookup without reading a page."""

    def estimate_cost(self, stripe: int, domain: Domain) -> LookupCost:
        """Estimate the cost of `IndexReader.lookup`."""
        ...


@value_class
class Property:
    """A property that ``CREATE INDEX`` may set.

    ``parse`` converts a string to its normal form, or raises ``ValueError`` with the expected form.
    """

    name: str
    default: str
    parse: Callable[[str], str]
    help: str = ""


class IndexType(Protocol):
    """An index type: a stateless object.

    Attributes:
        name: in upper case.
        order: the rank of the type among the indexes of a column: lower if its lookups are cheaper (MINMAX 10,
            BLOOM 20, BTREE 25, BITMAP 30).
        levels: the supported scopes of one index file.
        operators: the supported operators. The type is not used for domains that need others.
    """

    @property
    def name(self) -> str: ...

    @property
    def order(self) -> int: ...

    @property
    def levels(self) -> frozenset[Level]: ...

    @property
    def operators(self) -> frozenset[Operator]: ...

    @property
    def properties(self) -> tuple[Property, ...]: ...

    def supports(self, data_type: OrcType) -> bool:
        """Return True if columns of this type can be indexed."""
        ...


class FileIndexType(IndexType, Protocol):
    """An index type of `Level.STRIPE`: it has one index file for each data file, and answers stripe by stripe.

    With ``summarizes``, the manifest also has the statistics of the stripes, so that scans skip whole files
    without opening them.
    """

    @property
    def summarizes(self) -> bool: ...

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> IndexBuilder:
        """Start an index file.

        Args:
            sink: a path that must not exist, or an output that the caller closes.
            metadata: stored in the footer unchanged, such as the data file's fingerprint.
            row_group_rows: the rows of the data file's row groups, fewer in the last of a stripe; 0 if the file
                has no row index.

        Raises:
            ColumnError: if the type is not supported.
            HindexError: if a property is unknown or ill-formed.
        """
        ...

    def reader(self, file: IndexFileReader) -> IndexReader:
        """Read an index file of this type.

        Raises:
            IndexFileError: if its directory is corrupt.
        """
        ...


def index_type(name: str) -> IndexType:
    """Return the index type of a name or synonym, in any letter case.

    Raises:
        HindexError: if there is none; the message lists the types.
    """
    type_name = SYNONYMS.get(name.upper(), name.upper())
    if type_name in _BUILT_IN:
        module, attribute = _BUILT_IN[type_name].split(":")
        return cast("IndexType", getattr(importlib.import_module(module), attribute))
    entries = {point.name.upper(): point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if type_name not in entries:
        names = index_type_names()
        hint = suggestion(type_name, names, str)
        raise HindexError(f"Unknown index type {name!r}: {hint}known types are {', '.join(names)}")
    try:
        loaded = entries[type_name].load()
    except (ImportError, AttributeError) as error:
        raise HindexError(
            f"Index type {name!r} cannot be loaded from {entries[type_name].value!r}: {error}"
        ) from error
    return cast("IndexType", loaded() if isinstance(loaded, type) else loaded)


def file_index_type(name: str) -> FileIndexType:
    """Return the index type of a name, if it writes one index file for each data file.

    Raises:
        HindexError: if there is none, or it is of another level.
    """
    result = index_type(name)
    if Level.STRIPE not in result.levels:
        raise HindexError(f"Index type {result.name} does not make an index file for each data file")
    return cast("FileIndexType", result)


def has_ngrams(index: IndexType) -> bool:
    """Return True if the keys of an index type are n-grams of strings (`hindex.index.character_ngrams`).

    Such a type declares ``has_ngrams = True`` and no operators. Its lookups return the rows that may have all
    n-grams of a domain.
    """
    return bool(getattr(index, "has_ngrams", False))


def load_index_types() -> None:
    """Import the built-in index types now instead of at their first use."""
    for name in _BUILT_IN:
        index_type(name)


def index_type_names() -> tuple[str, ...]:
    """Return the names of all index types, sorted."""
    others = (point.name.upper() for point in entry_points(group=ENTRY_POINT_GROUP))
    return tuple(sorted({*_BUILT_IN, *others}))


def check_column(index: IndexType, column: str, data_type: OrcType) -> KeyKind:
    """Return the kind of a column's keys.

    Raises:
        ColumnError: naming the column, if its type cannot be indexed.
    """
    kind = key_kind(data_type)
    if kind is None:
        subject = f"Column {column!r}" if column else "A column"
        raise ColumnError(
            f"{subject} of type {data_type} cannot have {_article(index.name)} {index.name} index: "
            "index a primitive field of it"
        )
    return kind


def _article(word: str) -> str:
    return "an" if word[:1] in "AEIOU" else "a"


def check_array(data_type: OrcType, actual: pa.DataType) -> None:
    """Refuse values of another type, such as a timestamp of another unit or a decimal of another scale.

    Raises:
        BuildError: naming both types.
    """
    expected = data_type.to_arrow()
    if pa.types.is_dictionary(actual) or pa.types.is_list(actual):
        actual = actual.value_type
    if actual == expected:
        return
    textual = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if expected in textual and actual in textual:
        return
    raise BuildError(
        f"values of Arrow type {actual} were given for a column of type {data_type}: {expected} is expected"
    )


def resolve_properties(
    index: IndexType, settings: Mapping[str, str] | None, *, other_names: Sequence[str] = ()
) -> dict[str, str]:
    """Return every property of a type with its value in normal form, sorted by name.

    Names may be in any letter case, and may have the type's name as a prefix: ``bitmap.values_per_page``.

    Args:
        other_names: further names that the error for an unknown name may suggest.

    Raises:
        HindexError: if a name is unknown, given twice, or its value ill-formed.
    """
    properties = {item.name: item for item in index.properties}
    prefix = f"{index.name.lower()}."
    values = {name: item.default for name, item in properties.items()}
    seen: set[str] = set()
    for spelled, text in (settings or {}).items():
        name = spelled.lower().removeprefix(prefix)
        if name not in properties:
            hint = suggestion(name, [*properties, *other_names])
            have = (
                f"known properties are {', '.join(sorted(properties))}"
                if properties
                else "it has none of its own"
            )
            raise HindexError(f"Unknown property {spelled!r} of index type {index.name}: {hint}{have}")
        if name in seen:
            raise HindexError(f"Property {name!r} of index type {index.name} is given twice")
        seen.add(name)
        try:
            values[name] = properties[name].parse(str(text))
        except ValueError as error:
            raise HindexError(
                f"Property {spelled!r} of index type {index.name} is {text!r}: {error}"
            ) from error
    return dict(sorted(values.items()))
