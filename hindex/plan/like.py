"""LIKE patterns and prefixes as ranges of strings."""

from __future__ import annotations

from itertools import takewhile

from hindex.domain import Domain
from hindex.expr.patterns import like_parts


def like_domain(pattern: str, escape: str) -> tuple[Domain, bool]:
    """The strings that begin as a pattern does, and whether all of them match it.

    >>> like_domain("ab%", "\\\\")[0].contains(b"abc"), like_domain("ab%c", "\\\\")[1]
    (True, False)

    :raises PredicateError: for an escape character that escapes nothing.
    """
    parts = like_parts(pattern, escape)
    head = list(takewhile(bool, parts))
    rest = parts[len(head) :]
    text = "".join(part for part in head if part)
    if not rest:
        return Domain.points([_encoded(text)]), True
    return prefix_domain(text), not any(part is not None for part in rest)


def prefix_domain(text: str) -> Domain:
    """The strings that begin with a text."""
    prefix = _encoded(text)
    return Domain.between(prefix, _after(prefix), high_inclusive=False) if prefix else Domain.not_null()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _after(prefix: bytes) -> bytes | None:
    """The least string that is greater than all that begin with a prefix; None where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
