"""The ORC type tree and its Arrow counterpart.

Source: ORC specification v1, "Type Information". A file's types are a list in pre-order; the root is
column 0. Arrow types are those of Spark's view of the data: timestamps in microseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from hindex.errors import OrcError
from hindex.value_class import value_class


class Kind(enum.IntEnum):
    """The type kinds, with the numbers of the specification's ``Type.Kind``."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20
    #: Only for a table's columns: files of Spark store it as a bigint of microseconds with a type attribute.
    TIMESTAMP_NTZ = 1000


_NAMES = {kind: kind.name.lower() for kind in Kind} | {
    Kind.BYTE: "tinyint",
    Kind.SHORT: "smallint",
    Kind.LONG: "bigint",
    Kind.LIST: "array",
    Kind.UNION: "uniontype",
    Kind.TIMESTAMP_INSTANT: "timestamp with local time zone",
}

_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.CHAR: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    # well-known binary
    Kind.GEOMETRY: pa.binary(),
    Kind.GEOGRAPHY: pa.binary(),
}

COMPOSITE_KINDS = frozenset({Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION})
STRING_KINDS = frozenset({Kind.STRING, Kind.VARCHAR, Kind.CHAR})
#: Kinds that are stored as binary values.
BINARY_KINDS = frozenset({Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY})
INTEGER_KINDS = frozenset({Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG})

#: Arrow's type codes of unions are signed bytes, as ORC's tags are for its Java reader. Before pyarrow 23, 128 of
#: them in a list end the process.
MAX_VARIANTS = 128 if int(pa.__version__.partition(".")[0]) >= 23 else 127
#: The maximum length of CHAR, whose values, bounds and literals are padded. It is that of Trino; Hive allows 255.
MAX_CHAR_LENGTH = 1 << 16
#: The most digits of decimals that Java writers store in 64 bits.
SHORT_PRECISION = 18


@value_class
class OrcType:
    """One node of the type tree.

    ``column`` is the pre-order number in its file (0 is the root), or -1 for a type without a column in a file,
    such as that of a partition column.
    """

    kind: Kind
    column: int = -1
    children: tuple[OrcType, ...] = ()
    field_names: tuple[str, ...] = ()
    max_length: int = 0
    precision: int = 0
    scale: int = 0

    def same_as(self, other: OrcType) -> bool:
        """Return True if two types are the same, whatever their column numbers."""
        return (
            self.kind is other.kind
            and self.max_length == other.max_length
            and (self.precision, self.scale) == (other.precision, other.scale)
            and self.field_names == other.field_names
            and len(self.children) == len(other.children)
            and all(map(OrcType.same_as, self.children, other.children))
        )

    def to_arrow(self) -> pa.DataType:
        """Return the Arrow type of values of this type.

        Raises:
            OrcError: for a union without types, or with more types than Arrow has type codes.
        """
        match self.kind:
            case Kind.DECIMAL:
                return pa.decimal128(self.precision or 38, self.scale if self.precision else 18)
            case Kind.LIST:
                return pa.list_(pa.field("item", self.children[0].to_arrow()))
            case Kind.MAP:
                return pa.map_(self.children[0].to_arrow(), self.children[1].to_arrow())
            case Kind.STRUCT:
                return pa.struct(
                    [
                        pa.field(name, child.to_arrow())
                        for name, child in zip(self.field_names, self.children, strict=True)
                    ]
                )
            case Kind.UNION:
                # a union without types ends the process in `pyarrow.nulls`
                if not 0 < len(self.children) <= MAX_VARIANTS:
                    raise OrcError(
                        f"a union of {len(self.children)} types cannot be read, as Arrow's have 1 to "
                        f"{MAX_VARIANTS}: leave out the column"
                    )
                return pa.dense_union(
                    [pa.field(f"_union_{i}", child.to_arrow()) for i, child in enumerate(self.children)]
                )
            case _:
                return _ARROW[self.kind]

    def with_instants(self) -> OrcType:
        """Replace ``timestamp`` by ``timestamp with local time zone``, at any depth."""
        if self.kind is Kind.TIMESTAMP:
            return replace(self, kind=Kind.TIMESTAMP_INSTANT)
        children = tuple(child.with_instants() for child in self.children)
        return self if children == self.children else replace(self, children=children)

    def walk(self) -> Iterator[OrcType]:
        """Yield this node and its descendants in pre-order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        name = _NAMES[self.kind]
        match self.kind:
            case Kind.DECIMAL:
                return f"{name}({self.precision or 38},{self.scale if self.precision else 18})"
            case Kind.CHAR | Kind.VARCHAR:
                return f"{name}({self.max_length})"
            case Kind.STRUCT:
                fields = zip(self.field_names, self.children, strict=True)
                return f"{name}<{','.join(f'{n}:{c}' for n, c in fields)}>"
            case Kind.LIST | Kind.MAP | Kind.UNION:
                return f"{name}<{','.join(map(str, self.children))}>"
            case _:
                return name


def arrow_field(name: str, data_type: OrcType) -> pa.Field:
    """Return the Arrow field of a column.

    Raises:
        OrcError: see `OrcType.to_arrow`.
    """
    try:
        return pa.field(name, data_type.to_arrow())
    except OrcError as error:
        raise error.at(column=name) from error
