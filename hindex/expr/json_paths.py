"""Values in JSON documents by path: Spark's get_json_object.

Spark reads a document with Jackson, up to the end of its outermost object or array: an error before that is NULL, even
behind the value. Names and strings may have single quotes, and strings characters such as line ends. Of fields of the
same name, the first in which the path ends at a value other than null counts.

Python's scanner reads most documents as Jackson does. Documents that it refuses are NULL, or are read again with
double quotes in place of single ones.

Source: Spark's ``GetJsonObjectEvaluator`` and ``JsonPathParser``; Jackson's ``ReaderBasedJsonParser``,
``StreamReadConstraints`` and ``UTF8JsonGenerator``.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import PredicateError
from hindex.expr.java_doubles import java_double
from hindex.expr.vector import Vector
from hindex.keys import INT64_MAX
from hindex.orc.metadata.types import OrcType

# Jackson's limits, beyond which a document is NULL.
_MAX_NESTING = _MAX_DIGITS = 1000
_MAX_NAME = 50_000
#: Documents of more characters are refused: Jackson limits the strings that it returns.
_MAX_STRING = 20_000_000
#: Deeper paths could exhaust the stack.
_MAX_STEPS = 100

_STEP = re.compile(
    r"(?P<any>\s*+(?:\.\*|\['\*'\]))|\.\s*+(?P<field>[^.\[]+)|\s*+\['\s*+(?P<quoted>[^']+)'\]"
    r"|\[\s*+(?P<index>\d+)\]|(?P<each>\[\*\])",
    re.ASCII,
)
#: Characters of names that a document spells otherwise only by ``\\u``. Bytes that are not UTF-8 are read as U+FFFD.
_PLAIN_NAME = re.compile(r"[^\x00-\x1f\"'/\\\ufffd]+")

_MISSING: Final = object()


class _Number(str):
    """A number with a point or exponent, as written."""

    __slots__ = ()


class _Text(str):
    """A part of a written document."""

    __slots__ = ()


def parse_path(path: str) -> tuple[str, ...] | None:
    """Return the steps of a path, ``.name`` or ``[index]``, in one spelling; None if it finds nothing in any document.

    >>> parse_path("$.user['id'][0]")
    ('.user', '.id', '[0]')

    Raises:
        PredicateError: if it is not evaluated here.
    """
    if not path.startswith("$"):
        return None
    steps: list[str] = []
    has_any = has_each = False
    at, end = 1, len(path.rstrip(" \t\n\x0b\f\r"))
    while at < end:
        match = _STEP.match(path, at)
        if match is None:
            return None
        at = match.end()
        name = match["field"] or match["quoted"]
        has_any |= match["any"] is not None
        has_each |= match["each"] is not None
        if name is not None:
            steps.append(f".{name}")
        elif match["index"] is not None:
            if int(match["index"]) > INT64_MAX:
                return None
            steps.append(f"[{int(match['index'])}]")
    if has_any:
        # Spark parses it, and finds nothing
        return None
    if has_each or not steps or len(steps) > _MAX_STEPS:
        problem = "with [*]" if has_each else f"of {len(steps)} steps" if steps else "of the whole document"
        raise PredicateError(f"the path {path[:60]!r} {problem} is not evaluated here")
    return tuple(steps)


def get_json_object(data_type: OrcType, text: Vector, *steps: str) -> Vector:
    """Return the values at a path: strings without quotes, anything else as JSON; NULL for null and for none.

    Args:
        steps: those of `parse_path`.

    Raises:
        PredicateError: for a number that versions of Java print differently, or a document whose reading is not
            certain.
    """
    path = [int(step[1:-1]) if step[0] == "[" else step[1:] for step in steps]
    rows = np.flatnonzero(_may_have(text.array, path))
    values: list[str | bytes | None] = [None] * len(text)
    for row, document in zip(rows.tolist(), _documents(text.array.take(pa.array(rows))), strict=True):
        values[row] = _value_at(document, path)
    return Vector(data_type, pa.array(values, pa.binary()).view(data_type.to_arrow()))


def _may_have(documents: pa.Array, path: Sequence[str | int]) -> np.ndarray:
    """Return False for documents that lack a name of the path."""
    has_names = documents.is_valid()
    for name in path:
        if isinstance(name, str) and _PLAIN_NAME.fullmatch(name):
            has_names = pc.and_(has_names, pc.match_substring(documents, name).fill_null(False))
    if has_names.true_count < len(documents):
        has_names = pc.or_(has_names, pc.match_substring(documents, "\\u").fill_null(False))
    return np.asarray(has_names)


def _documents(array: pa.Array) -> Sequence[str]:
    """Return strings, with U+FFFD where they are not UTF-8, as Java reads them."""
    try:
        documents: list[str] = array.to_pylist()
    except UnicodeDecodeError:
        documents = [_decoded(value) for value in array.view(pa.binary()).to_pylist()]
    return documents


def _decoded(data: bytes) -> str:
    # Python replaces each byte of a surrogate
    return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]", "\ufffd".encode(), data).decode("utf-8", "replace")


def _value_at(document: str, path: Sequence[str | int]) -> str | bytes | None:
    value = _descend(_parsed(document.lstrip(" \t\n\r")), path)
    if value is _MISSING:
        return None
    return _raw(value) if type(value) is str else _written(value)


def _descend(value: object, path: Sequence[str | int], at: int = 0) -> object:
    """Return the value at a path from its step ``at`` on: objects are tuples of names and values."""
    if at == len(path):
        return value
    step = path[at]
    at += 1
    if isinstance(step, str):
        for name, child in value if isinstance(value, tuple) else ():
            if name == step and child is not None:
                descendant = _descend(child, path, at)
                if descendant is not _MISSING:
                    return descendant
    elif isinstance(value, list) and step < len(value):
        return _descend(value[step], path, at)
    return _MISSING


# Reading


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


#: Reads a value from a position, and returns it with its end.
_scan: Callable[[str, int], tuple[object, int]] = json.JSONDecoder(
    strict=False, object_pairs_hook=tuple, parse_float=_Number, parse_constant=_refused
).scan_once  # type: ignore[attr-defined]

#: What Jackson reads, and Python does not.
_ODD = re.compile(r"'|\\u.{0,3}[^\x00-\x7f]", re.DOTALL)
_STRING = re.compile(r"([\"'])((?:[^\"'\\]|(?!\1)[\"']|\\.)*+)\1?", re.DOTALL)
_HEX = re.compile("[0-9A-Fa-f]{4}")
_IN_STRING = re.compile(r"\\u.{0,4}|\\.|\"", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<open>[\[{])|(?P<close>[\]}])|(?P<number>-?\d[-+.eE\d]*)|(?P<string>\"(?:[^\"\\]|\\.)*+\")(?P<name>\s*:)?",
    re.DOTALL | re.ASCII,
)
_LONG_NUMBER = re.compile(rf"[-+.eE\d]{{{_MAX_DIGITS}}}", re.ASCII)
_recursion = threading.Lock()


def _parsed(document: str) -> object:
    """Return the object or array that a document starts with; None if Jackson refuses it.

    Raises:
        PredicateError: if that is not certain.
    """
    try:
        root = _scan(document, 0)[0]
    except (StopIteration, ValueError, RecursionError) as error:
        if _ODD.search(document):
            document = _with_double_quotes(document)
        elif not isinstance(error, RecursionError):
            return None
        root = _deeply_scanned(document)
    if len(document) > _MAX_DIGITS and not _is_within_limits(document):
        return None
    return root


def _deeply_scanned(document: str) -> object:
    """Read an object or array of any depth that Jackson reads; None if it is deeper or not valid."""
    with _recursion:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _MAX_NESTING)
        try:
            return _scan(document, 0)[0]
        except (StopIteration, ValueError, RecursionError):
            return None
        finally:
            sys.setrecursionlimit(limit)


def _with_double_quotes(document: str) -> str:
    """Return a document without single quotes around strings; what follows a string without an end is in it."""
    return _STRING.sub(lambda match: f'"{_IN_STRING.sub(_plain_escape, match[2])}"', document)


def _plain_escape(match: re.Match[str]) -> str:
    escape = match[0]
    if escape == '"':
        return '\\"'
    if escape.startswith("\\u") and not escape.isascii():
        # Jackson looks at the low byte of each half of UTF-16
        units = escape[2:].encode("utf-16-le", "surrogatepass")
        digits = units[:8:2].decode("latin-1")
        if len(units) > 2 * len(escape[2:]) and _HEX.fullmatch(digits):
            raise PredicateError(
                "an escape \\u of JSON that is not in hexadecimal digits is not evaluated here"
            )
        return f"\\u{digits}"
    return "'" if escape == "\\'" else escape


def _is_within_limits(document: str) -> bool:
    """Return False if a number, a name or the nesting of a valid object or array exceeds Jackson's limits."""
    if len(document) > _MAX_STRING:
        raise PredicateError(f"a JSON document of {len(document):,} characters is not evaluated here")
    is_deep = document.count("[") + document.count("{") > _MAX_NESTING
    if not (is_deep or 2 * len(document) > _MAX_NAME or _LONG_NUMBER.search(document)):
        return True
    depth = 0
    for match in _TOKEN.finditer(document):
        token = match[0]
        match match.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
            case "number" if len(token) > _MAX_DIGITS:
                digits = sum(map(str.isdigit, token))
                if digits == _MAX_DIGITS + 1 and not token.lstrip("-").isdigit():
                    raise PredicateError(f"a number of {digits} digits in JSON is not evaluated here")
                if digits > _MAX_DIGITS:
                    return False
            case "name" if 2 * len(match["string"]) > _MAX_NAME:
                name = str(_scan(token, 0)[0])
                if len(name.encode("utf-16-le", "surrogatepass")) > 2 * _MAX_NAME:
                    return False
        if depth > _MAX_NESTING:
            return False
        if not depth:
            break
    return True


# Writing


_LITERALS = {True: "true", False: "false", None: "null"}
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _raw(text: str) -> str | bytes | None:
    """Return a string as Jackson encodes it: NULL if a surrogate is not followed by a low one."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    parts: list[bytes] = []
    each = iter(units)
    for unit in each:
        if not 0xD800 <= unit < 0xE000:
            parts.append(chr(unit).encode())
            continue
        low = next(each, 0)
        if not 0xDC00 <= low < 0xE000:
            return None
        # two low ones make a number beyond Unicode
        point = 0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00
        parts.append(bytes((0xF0 | point >> 18, *(0x80 | point >> shift & 0x3F for shift in (12, 6, 0)))))
    return b"".join(parts)


def _written(root: object) -> str:
    """Write a value without blanks."""
    parts: list[str] = []
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, _Text):
            parts.append(value)
        elif isinstance(value, _Number):
            parts.append(_double(value))
        elif isinstance(value, str):
            parts.append(_quoted(value))
        elif value is None or isinstance(value, bool):
            parts.append(_LITERALS[value])
        elif isinstance(value, tuple | list):
            opening, closing = "{}" if isinstance(value, tuple) else "[]"
            parts.append(opening)
            stack.append(_Text(closing))
            for at in range(len(value) - 1, -1, -1):
                child, head = value[at], "," if at else ""
                if isinstance(value, tuple):
                    name, child = child
                    head += f"{_quoted(name)}:"
                stack += child, _Text(head)
        else:
            parts.append(str(value))
    return "".join(parts)


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    """Escape a character: those beyond U+FFFF as two."""
    character = match[0]
    units = memoryview(character.encode("utf-16-le", "surrogatepass")).cast("H")
    return _ESCAPES.get(character) or "".join(f"\\u{unit:04X}" for unit in units)


def _double(text: str) -> str:
    """Print a number as Java prints the double that it reads as."""
    number = float(text)
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    printed = java_double(number)
    if printed is None:
        raise PredicateError(f"the number {text[:40]} in JSON is not printed alike by all versions of Java")
    return printed
