"""Checks of what callers pass in, before anything is done with it, and what they may have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, cast

from hindex.errors import ArgumentError, ArgumentTypeError

#: So much of a value is shown in a message.
_SHOWN = 100


def check_text(value: str, what: str, such_as: str) -> str:
    """:raises ArgumentTypeError: for anything but a text. :raises ArgumentError: for one that no file can hold."""
    if not isinstance(cast("object", value), str):
        raise ArgumentTypeError(f"{what} is {value!r}: pass a string such as {such_as!r}")
    if not is_utf8(value):
        raise ArgumentError(f"{what} is {value!r}, which is not UTF-8")
    return value


def is_utf8(text: str) -> bool:
    """Return True if a string can be encoded in UTF-8.

    Invalid bytes of the command line become lone surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_whole(number: object) -> bool:
    """Return True if a value is a whole number, including numpy's, but not a boolean."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def shown(given: object) -> str:
    """A value as Python shows it, for a message: on one line, and a long one cut."""
    text = " ".join(repr(given).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def listed(given: object) -> list[Any] | None:
    """Return the items of a collection; None for strings, bytes, and values that are no collection."""
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        return None
    try:
        items = iter(given)
    except TypeError:
        # a column of PySpark looks like one, and refuses
        return None
    return list(items)


def check_names(names: Sequence[str], what: str) -> Sequence[str]:
    """:raises ArgumentTypeError: for anything but a list of texts: a single text is none, either."""
    given = listed(names)
    if given is None:
        raise ArgumentTypeError(f"{what} is {shown(names)}: it is a list of names, such as {[str(names)]!r}")
    return [check_text(name, f"a name in {what}", str(name)) for name in given]


def is_session(given: object) -> bool:
    """Return True if a value is a Spark session, classic or Spark Connect. Nothing is run on it."""
    # a class of sessions has these methods as well
    return not isinstance(given, type) and all(
        callable(getattr(given, name, None)) for name in ("sql", "table", "createDataFrame")
    )


def check_session(spark: object) -> None:
    """:raises ArgumentTypeError: for anything but a Spark session."""
    if not is_session(spark):
        raise ArgumentTypeError(
            f"spark is {spark!r}: it is a Spark session, such as SparkSession.builder.getOrCreate() gives"
        )


def closest(given: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The names that one may have been meant for, letter case aside, the likeliest first."""
    from difflib import get_close_matches

    folded = {name.lower(): name for name in known}
    return [folded[name] for name in get_close_matches(given.lower(), folded, n=most)]


def suggestion(given: str, known: Iterable[str], show: Callable[[str], str] = repr, most: int = 1) -> str:
    """A suggestion in front of the names that there are; an empty text where none is like the one given."""
    close = closest(given, known, most)
    return f"did you mean {' or '.join(map(show, close))}? " if close else ""
