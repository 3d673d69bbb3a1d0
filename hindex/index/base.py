"""What every index type offers, and where types are found by name.

An index type answers a leaf of a predicate, which is a :class:`~hindex.domain.Domain` of one column, with
:class:`Bounds`: two sets of row numbers of one stripe. The planner combines bounds and never looks inside
an index. A type is found by its name: the built-in ones are listed here, others register an object that
satisfies :class:`IndexType` under the entry-point group ``hindex.indexes``.
"""

from __future__ import annotations

import enum
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, cast

import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.errors import HindexError
from hindex.index.file import BinarySink, IndexFileReader
from hindex.orc.types import OrcType

ENTRY_POINT_GROUP = "hindex.indexes"

#: Built-in types: upper-case name to ``module:attribute``, imported when first asked for.
_BUILT_IN = {"BITMAP": "hindex.index.bitmap:BITMAP"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Row numbers of one stripe, counted from 0: certainly TRUE and possibly TRUE.

    Invariant: ``lower`` ⊆ rows for which the predicate is TRUE ⊆ ``upper``. The bitmaps are shared: copy one
    before changing it.
    """

    lower: BitMap
    upper: BitMap

    @classmethod
    def exactly(cls, rows: BitMap) -> Bounds:
        """The answer itself."""
        return cls(rows, rows)

    @classmethod
    def all(cls, rows: int) -> Bounds:
        """Every one of ``rows`` rows, certainly."""
        return cls.exactly(BitMap(range(rows)))

    @classmethod
    def none(cls) -> Bounds:
        """No row, certainly."""
        return cls.exactly(BitMap())

    @classmethod
    def unknown(cls, rows: int) -> Bounds:
        """Nothing is known of any of ``rows`` rows."""
        return cls(BitMap(), BitMap(range(rows)))

    @property
    def exact(self) -> bool:
        """Whether nothing is left to check: the bounds are equal."""
        return self.lower is self.upper or self.lower == self.upper

    def __and__(self, other: Bounds) -> Bounds:
        return self._combine(other, BitMap.__and__)

    def __or__(self, other: Bounds) -> Bounds:
        return self._combine(other, BitMap.__or__)

    def _combine(self, other: Bounds, operation: Callable[[BitMap, BitMap], BitMap]) -> Bounds:
        lower = operation(self.lower, other.lower)
        if self.lower is self.upper and other.lower is other.upper:
            return Bounds(lower, lower)
        return Bounds(lower, operation(self.upper, other.upper))


class Level(enum.Enum):
    """What one index file covers."""

    STRIPE = "stripe"
    PARTITION = "partition"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class StripeSummary:
    """What a builder learnt of one stripe.

    ``min_key`` and ``max_key`` are None where no value is non-null; bytes keys are whole, however long.
    """

    rows: int
    null_count: int
    key_count: int
    min_key: Key | None
    max_key: Key | None


@dataclass(frozen=True, slots=True)
class IndexFileSummary:
    """A finished index file: what the manifest records of it. ``length`` is in bytes."""

    length: int
    footer_crc32c: int
    stripes: tuple[StripeSummary, ...]


class IndexBuilder(Protocol):
    """Writes one index file, stripe after stripe of the data file."""

    def add_stripe(self, array: pa.Array) -> None:
        """Index the column's values of the next stripe: one per row, of ``OrcType.to_arrow()``.

        :raises BuildError: if the array is of another type.
        """
        ...

    def finish(self) -> IndexFileSummary:
        """Write the footer and, where the builder opened the file, make it durable and close it."""
        ...

    def abort(self) -> None:
        """Give up; a file that the builder opened is removed."""
        ...


class IndexReader(Protocol):
    """Answers domains from one index file. May be shared by threads."""

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """Rows of each stripe."""
        ...

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """The rows of a stripe whose value is in ``domain``.

        :raises IndexFileError: if what must be read is corrupt.
        """
        ...

    def close(self) -> None:
        """Close the source."""
        ...


@dataclass(frozen=True, slots=True)
class Property:
    """One property that ``CREATE INDEX`` may set.

    ``parse`` turns the text into its normal form, or raises ``ValueError`` with what is expected.
    """

    name: str
    default: str
    parse: Callable[[str], str]
    help: str = ""


class IndexType(Protocol):
    """An index type: a stateless object.

    ``name`` is upper case. ``levels`` are what one index file may cover.
    """

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> frozenset[Level]: ...

    @property
    def properties(self) -> tuple[Property, ...]: ...

    def supports(self, of: OrcType) -> bool:
        """Whether columns of this type can be indexed."""
        ...

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        of: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> IndexBuilder:
        """Start an index file.

        :param sink: a path that must not exist, or something to write to that the caller closes.
        :param metadata: kept in the footer as it is, such as the data file's fingerprint.
        :raises ColumnError: if the type is not supported.
        :raises HindexError: if a property is unknown or ill-formed.
        """
        ...

    def reader(self, file: IndexFileReader) -> IndexReader:
        """Read an index file of this type.

        :raises IndexFileError: if its directory is corrupt.
        """
        ...


def index_type(name: str) -> IndexType:
    """The index type of a name, in any case.

    :raises HindexError: if there is none; the message lists those that there are.
    """
    wanted = name.upper()
    if wanted in _BUILT_IN:
        module, attribute = _BUILT_IN[wanted].split(":")
        return cast("IndexType", getattr(importlib.import_module(module), attribute))
    found = {point.name.upper(): point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if wanted not in found:
        raise HindexError(f"Unknown index type {name!r}: known types are {', '.join(index_type_names())}")
    try:
        loaded = found[wanted].load()
    except (ImportError, AttributeError) as error:
        raise HindexError(
            f"Index type {name!r} cannot be loaded from {found[wanted].value!r}: {error}"
        ) from error
    return cast("IndexType", loaded() if isinstance(loaded, type) else loaded)


def index_type_names() -> tuple[str, ...]:
    """The names that :func:`index_type` knows, sorted."""
    others = (point.name.upper() for point in entry_points(group=ENTRY_POINT_GROUP))
    return tuple(sorted({*_BUILT_IN, *others}))


def open_index(file: IndexFileReader) -> IndexReader:
    """The reader of an index file, whatever its type.

    :raises HindexError: if the type is unknown here.
    :raises IndexFileError: if the file is corrupt.
    """
    return index_type(file.footer.index_type).reader(file)


def resolve_properties(of: IndexType, given: Mapping[str, str] | None) -> dict[str, str]:
    """Every property of a type with its value in normal form, sorted by name.

    Names are taken in any case, with or without the type's name before them: ``bitmap.values_per_page``.

    :raises HindexError: if a name is unknown, given twice, or its value ill-formed.
    """
    known = {item.name: item for item in of.properties}
    prefix = f"{of.name.lower()}."
    values = {name: item.default for name, item in known.items()}
    seen: set[str] = set()
    for spelled, text in (given or {}).items():
        name = spelled.lower().removeprefix(prefix)
        if name not in known:
            raise HindexError(
                f"Unknown property {spelled!r} of index type {of.name}: "
                f"known properties are {', '.join(sorted(known))}"
            )
        if name in seen:
            raise HindexError(f"Property {name!r} of index type {of.name} is given twice")
        seen.add(name)
        try:
            values[name] = known[name].parse(str(text))
        except ValueError as error:
            raise HindexError(f"Property {spelled!r} of index type {of.name} is {text!r}: {error}") from error
    return dict(sorted(values.items()))
