"""Checks of what callers pass in, before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from hindex.errors import ArgumentError, ArgumentTypeError


def check_text(value: str, what: str, such_as: str) -> str:
    """:raises ArgumentTypeError: for anything but a text. :raises ArgumentError: for one that no file can hold."""
    if not isinstance(cast("object", value), str):
        raise ArgumentTypeError(f"{what} is {value!r}: it is a text, such as {such_as!r}")
    if not is_utf8(value):
        raise ArgumentError(f"{what} is {value!r}, which is not UTF-8")
    return value


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded: bytes of the command line that are none are halves of characters in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_names(names: Sequence[str], what: str) -> Sequence[str]:
    """:raises ArgumentTypeError: for anything but a list of texts: a single text is none, either."""
    given: object = names
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{what} is {given!r}: it is a list of names, such as {[str(given)]!r}")
    return [check_text(name, f"a name in {what}", str(name)) for name in names]


def is_session(given: object) -> bool:
    """Whether something is a Spark session, a classic one or one of Spark Connect; nothing of it is run."""
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
