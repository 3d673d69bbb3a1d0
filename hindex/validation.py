"""Checks of arguments, and suggestions for misspelt names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, ParamSpec, TypeVar, cast

from hindex.errors import ArgumentError, ArgumentTypeError, UnknownNameError

P = ParamSpec("P")
R = TypeVar("R")

#: Characters of a value in a message.
_SHOWN = 100


def check_string(value: str, name: str, such_as: str) -> str:
    """Return a string that can be encoded in UTF-8.

    Raises:
        ArgumentTypeError: for other types.
        ArgumentError: for other strings.
    """
    if not isinstance(cast("object", value), str):
        raise ArgumentTypeError(f"{name} is {value!r}: pass a string such as {such_as!r}")
    if not is_utf8(value):
        raise ArgumentError(f"{name} is {value!r}, which is not UTF-8")
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


def short_repr(value: object) -> str:
    """Return the ``repr()`` of a value for a message: on one line, and truncated."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def collection_items(value: object) -> list[Any] | None:
    """Return the items of a collection; None for strings, bytes, and values that are no collection."""
    if isinstance(value, str | bytes | bytearray | memoryview) or not isinstance(value, Iterable):
        return None
    to_pylist = getattr(type(value), "to_pylist", None)
    if to_pylist is not None:
        # the items of an Arrow array are scalars
        return list(to_pylist(value))
    try:
        items = iter(value)
    except TypeError:
        # a PySpark column has __iter__, which raises
        return None
    return list(items)


def check_names(names: Sequence[str], parameter: str) -> Sequence[str]:
    """Return the names of a list.

    Raises:
        ArgumentTypeError: for anything but a list of strings; a string is not a list.
    """
    items = collection_items(names)
    if items is None:
        raise ArgumentTypeError(
            f"{parameter} is {short_repr(names)}: pass a list of names, such as {[str(names)]!r}"
        )
    return [check_string(name, f"a name in {parameter}", str(name)) for name in items]


def is_session(value: object) -> bool:
    """Return True if a value is a Spark session, classic or Spark Connect."""
    # the classes of sessions have these methods too
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("sql", "table", "createDataFrame")
    )


def check_session(spark: object) -> None:
    """Check that an argument is a Spark session.

    Raises:
        ArgumentTypeError: if it is not.
    """
    if not is_session(spark):
        raise ArgumentTypeError(
            f"spark is {spark!r}: pass a Spark session, such as SparkSession.builder.getOrCreate() gives"
        )


def nearest_names(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """Return the candidates nearest to a misspelt name, nearest first; letter case does not matter."""
    from difflib import get_close_matches

    folded = {name.lower(): name for name in candidates}
    return [folded[name] for name in get_close_matches(name.lower(), folded, n=limit)]


def suggestion(
    name: str, candidates: Iterable[str], show: Callable[[str], str] = repr, limit: int = 1
) -> str:
    """Return ``did you mean ...? `` with the nearest candidates, or an empty string."""
    close = nearest_names(name, candidates, limit)
    return f"did you mean {' or '.join(map(show, close))}? " if close else ""


def check_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that an unknown keyword is an error with the nearest parameter.

    Raises:
        ArgumentTypeError: by the decorated function.
    """
    code = function.__code__
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for keyword in kwargs:
            if keyword not in names:
                raise ArgumentTypeError(
                    f"{code.co_name}() has no parameter {keyword!r}: {suggestion(keyword, names)}it has "
                    f"{', '.join(names)}"
                )
        return function(*args, **kwargs)

    return checked


#: Methods of other libraries whose counterparts have no similar name.
_COUNTERPARTS = {
    "filter": "where",
    "project": "select",
    "take": "head",
    "show": "head",
    "first": "head",
    "collect": "to_arrow",
    "fetchall": "to_arrow",
    "rows": "to_arrow",
    "sort": "order_by",
    "columns": "schema",
    "topolars": "to_arrow",
    "groupby": "value_counts",
    "unique": "distinct",
    "execute": "sql",
    "query": "sql",
    "load": "table",
    "read": "table",
    "path": "uri",
    "location": "uri",
}


def raise_missing_attribute(
    owner: object, name: str, noun: str, parts: Iterable[tuple[str, type]] = ()
) -> object:
    """Raise the error for a missing attribute, with a suggestion: the body of a ``__getattr__``.

    Args:
        noun: the object in the message, such as ``a scan``.
        parts: objects that may have the attribute instead, as expressions with their classes.

    Raises:
        UnknownNameError: an AttributeError.
    """
    if hasattr(type(owner), name):
        # a property raised an AttributeError of its own: raise that one again
        return object.__getattribute__(owner, name)
    if name.startswith("_"):
        # protocols are looked up often, and nobody reads the message
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    for expression, part in parts:
        if hasattr(part, name):
            raise UnknownNameError(f"{noun} has no {name!r}: use {expression}.{name}")
    public = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
    counterpart = _COUNTERPARTS.get(name.replace("_", "").lower())
    hint = f"did you mean {counterpart!r}?" if counterpart in public else suggestion(name, public).strip()
    raise UnknownNameError(f"{noun} has no {name!r}: {hint or 'it has ' + ', '.join(public)}")
