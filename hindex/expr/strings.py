"""Functions of strings, by characters (code points), as Spark's ``UTF8String`` counts them.

Source: Spark's ``UTF8String.java`` and ``stringExpressions.scala``. A string that is not UTF-8 is refused by whatever
looks into it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import PredicateError
from hindex.expr.vector import Vector, by_value, not_utf8, of_truth
from hindex.index.character_ngrams import has_stable_case
from hindex.orc.metadata.types import Kind, OrcType


def lower(data_type: OrcType, text: Vector) -> Vector:
    return _mapped(data_type, text, to_upper=False)


def upper(data_type: OrcType, text: Vector) -> Vector:
    return _mapped(data_type, text, to_upper=True)


def _mapped(data_type: OrcType, text: Vector, *, to_upper: bool) -> Vector:
    if pc.all(pc.string_is_ascii(_checked(text.array)), min_count=0).as_py():
        return Vector(
            data_type, pc.ascii_upper(text.array) if to_upper else pc.ascii_lower(text.array), text.errors
        )
    return by_value(data_type, (text,), lambda value: _in_case(value, to_upper=to_upper))


#: Versions of Unicode differ in whether these are cased letters. The lower case of a sigma beside them depends on that.
_UNSURE_LETTERS = frozenset("\u0295\U0001171e")


def _in_case(value: str, *, to_upper: bool) -> str:
    """Return a string in lower or upper case, in which a capital sigma that ends a word is a final one, as in Spark."""
    characters = set(value)
    for character in characters:
        _check_case(character)
    if "Σ" in characters and not to_upper:
        for character in characters & _UNSURE_LETTERS:
            raise _unstable(character)
    return value.upper() if to_upper else value.lower()


@lru_cache(maxsize=4096)
def _check_case(character: str) -> None:
    if not has_stable_case(character):
        raise _unstable(character)


def _unstable(character: str) -> PredicateError:
    return PredicateError(
        f"lower and upper of {character!r} (U+{ord(character):04X}) are not the same in all versions of Unicode; "
        "filter with Spark on scan(...).to_spark()"
    )


def length(data_type: OrcType, value: Vector) -> Vector:
    """Count the characters of a string, or the bytes of a binary value."""
    if value.type.kind is Kind.BINARY:
        return Vector(data_type, pc.binary_length(value.array).cast(pa.int32()))
    return Vector(data_type, pc.utf8_length(_checked(value.array)).cast(pa.int32()))


def trim(data_type: OrcType, text: Vector) -> Vector:
    """Remove spaces, and no other white space."""
    return Vector(data_type, pc.utf8_trim(_checked(text.array), characters=" "))


def ltrim(data_type: OrcType, text: Vector) -> Vector:
    return Vector(data_type, pc.utf8_ltrim(_checked(text.array), characters=" "))


def rtrim(data_type: OrcType, text: Vector) -> Vector:
    return Vector(data_type, pc.utf8_rtrim(_checked(text.array), characters=" "))


def substring(data_type: OrcType, *args: Vector) -> Vector:
    """Take a substring from a position counted from 1, or from the end if negative; 0 is the same as 1."""
    return by_value(data_type, args, _substring)


def _substring(text: str, position: int, count: int = 1 << 31) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + count
    return text[max(start, 0) : end] if end > max(start, 0) else ""


def left(data_type: OrcType, text: Vector, count: Vector) -> Vector:
    return by_value(data_type, (text, count), lambda value, n: value[: max(n, 0)])


def right(data_type: OrcType, text: Vector, count: Vector) -> Vector:
    return by_value(data_type, (text, count), lambda value, n: value[-n:] if n > 0 else "")


def concat(data_type: OrcType, *parts: Vector) -> Vector:
    empty: Any = b"" if data_type.kind is Kind.BINARY else ""
    return by_value(data_type, parts, lambda *values: empty.join(values))


def replace(data_type: OrcType, *args: Vector) -> Vector:
    return by_value(data_type, args, _replace)


def _replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


def startswith(data_type: OrcType, text: Vector, part: Vector) -> Vector:
    return _has_part(data_type, text, part, pc.starts_with, str.startswith)


def endswith(data_type: OrcType, text: Vector, part: Vector) -> Vector:
    return _has_part(data_type, text, part, pc.ends_with, str.endswith)


def contains(data_type: OrcType, text: Vector, part: Vector) -> Vector:
    return _has_part(data_type, text, part, pc.match_substring, lambda value, one: one in value)


def instr(data_type: OrcType, text: Vector, part: Vector) -> Vector:
    """Return the position of a part, counted from 1; 0 if there is none."""
    return by_value(data_type, (text, part), lambda value, one: value.find(one) + 1)


def _has_part(
    data_type: OrcType,
    text: Vector,
    part: Vector,
    match: Callable[..., pa.BooleanArray],
    matches: Callable[[str, str], bool],
) -> Vector:
    """Test strings for parts: all at once where the part is the same in every row."""
    parts = part.array.unique()
    if len(parts) != 1 or parts.null_count:
        return by_value(data_type, (text, part), matches)
    is_match = match(_checked(text.array), pattern=parts[0].as_py())
    return of_truth(np.asarray(is_match.fill_null(False)), text.valid)


def padded(data_type: OrcType, text: Vector, width: str) -> Vector:
    """Fill with blanks, or cut, to so many characters."""
    filled = pc.utf8_rpad(_checked(text.array), width=int(width), padding=" ")
    return Vector(data_type, pc.utf8_slice_codeunits(filled, 0, int(width)))


def matches(data_type: OrcType, text: Vector, *patterns: str) -> Vector:
    """Match one of two patterns with RE2; the second applies to values without their final line end."""
    array = _checked(text.array)
    try:
        is_match = pc.match_substring_regex(array, patterns[0])
        if len(patterns) > 1:
            without = pc.replace_substring_regex(array, LINE_END, "")
            is_match = pc.or_(is_match, pc.match_substring_regex(without, patterns[1]))
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"the pattern cannot be evaluated here ({str(error)[:100]}); filter with Spark on scan(...).to_spark()"
        ) from error
    return of_truth(np.asarray(is_match.fill_null(False)), text.valid)


#: What ``$`` of a Java pattern leaves out at the end of a value.
LINE_END = "(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])\\z"


def _checked(array: pa.Array) -> pa.Array:
    """Check that strings are UTF-8.

    Raises:
        PredicateError: if one is not.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise not_utf8() from None
    return array
