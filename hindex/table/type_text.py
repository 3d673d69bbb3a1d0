"""Types as strings that can be parsed.

The string is ``str(OrcType)`` with backticks around field names that are not plain words.
"""

from __future__ import annotations

import re

from hindex.orc.metadata.types import Kind, OrcType

#: Deeper types are rejected: no table has them, and the parser recurses.
MAX_DEPTH = 200

_PRIMITIVES = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "smallint": Kind.SHORT,
    "int": Kind.INT,
    "bigint": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "timestamp": Kind.TIMESTAMP,
    "date": Kind.DATE,
    "timestamp with local time zone": Kind.TIMESTAMP_INSTANT,
    "geometry": Kind.GEOMETRY,
    "geography": Kind.GEOGRAPHY,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
}
_LISTS = {"array": Kind.LIST, "map": Kind.MAP, "uniontype": Kind.UNION}
_NAMES = {*_PRIMITIVES, *_LISTS, "struct", "decimal", "char", "varchar"}
_ARITY = {Kind.LIST: 1, Kind.MAP: 2}
_WORD = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}")


def type_text(data_type: OrcType) -> str:
    """Return a type as a string; `parse_type` returns an equal type (but for column numbers).

    >>> str(parse_type("struct<a:int,b:array<decimal(10,2)>>"))
    'struct<a:int,b:array<decimal(10,2)>>'
    """
    if data_type.kind is Kind.STRUCT:
        fields = zip(data_type.field_names, data_type.children, strict=True)
        return f"struct<{','.join(f'{_quoted(name)}:{type_text(child)}' for name, child in fields)}>"
    if data_type.kind in (Kind.LIST, Kind.MAP, Kind.UNION):
        return f"{str(data_type).partition('<')[0]}<{','.join(map(type_text, data_type.children))}>"
    return str(data_type)


def parse_type(text: str) -> OrcType:
    """Parse a type; columns are numbered in pre-order from 0, as in a file.

    Raises:
        ValueError: if the string is not a type.
    """
    parser = _Parser(text)
    data_type = parser.type(0)
    if parser.at != len(text):
        raise parser.error("the end")
    return data_type


def _quoted(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.column = 0

    def error(self, expected: str) -> ValueError:
        return ValueError(
            f"not a type: {expected} is expected at position {self.at} of {_shortened(self.text)!r}"
        )

    def take(self, token: str) -> bool:
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.error(repr(token))

    def type(self, depth: int) -> OrcType:
        if depth > MAX_DEPTH:
            raise self.error(f"a type nested at most {MAX_DEPTH} deep")
        column = self.column
        self.column += 1
        # the longest name first: "timestamp" begins another
        if self.take("timestamp with local time zone"):
            return OrcType(Kind.TIMESTAMP_INSTANT, column)
        word = _WORD.match(self.text, self.at)
        name = word.group() if word else ""
        if name not in _NAMES:
            raise self.error("the name of a type")
        self.at += len(name)
        if name in _PRIMITIVES:
            return OrcType(_PRIMITIVES[name], column)
        if name == "struct":
            return self.struct(column, depth)
        if name == "decimal":
            self.need("(")
            precision = self.number()
            self.need(",")
            scale = self.number()
            self.need(")")
            return OrcType(Kind.DECIMAL, column, precision=precision, scale=scale)
        if name in ("char", "varchar"):
            self.need("(")
            length = self.number()
            self.need(")")
            return OrcType(Kind.CHAR if name == "char" else Kind.VARCHAR, column, max_length=length)
        return self.children_of(_LISTS[name], column, depth)

    def children_of(self, kind: Kind, column: int, depth: int) -> OrcType:
        self.need("<")
        children: list[OrcType] = []
        if not self.take(">"):
            children.append(self.type(depth + 1))
            while not self.take(">"):
                self.need(",")
                children.append(self.type(depth + 1))
        if len(children) != _ARITY.get(kind, len(children)):
            raise self.error(f"{_ARITY[kind]} types in <>")
        return OrcType(kind, column, tuple(children))

    def struct(self, column: int, depth: int) -> OrcType:
        self.need("<")
        names: list[str] = []
        children: list[OrcType] = []
        while not self.take(">"):
            if names:
                self.need(",")
            names.append(self.field_name())
            self.need(":")
            children.append(self.type(depth + 1))
        return OrcType(Kind.STRUCT, column, tuple(children), tuple(names))

    def field_name(self) -> str:
        if not self.take("`"):
            word = _WORD.match(self.text, self.at)
            if word is None:
                raise self.error("a field name")
            self.at = word.end()
            return word.group()
        parts: list[str] = []
        while True:
            end = self.text.find("`", self.at)
            if end < 0:
                raise self.error("a closing backtick")
            parts.append(self.text[self.at : end])
            self.at = end + 1
            if not self.take("`"):
                return "`".join(parts)

    def number(self) -> int:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.error("a number")
        self.at = match.end()
        return int(match.group())


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "..."
