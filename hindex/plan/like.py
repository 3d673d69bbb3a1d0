"""LIKE patterns that are ranges of strings."""

from __future__ import annotations

from hindex.domain import Domain
from hindex.errors import PredicateError


def like_domain(pattern: str, escape: str) -> Domain:
    """The strings that match a pattern of one literal text, alone or with ``%`` at its end.

    >>> like_domain("ab%", "\\\\").contains(b"abc")
    True

    :raises PredicateError: for a pattern that no range of strings answers.
    """
    text, wildcards = _literal_head(pattern, escape)
    prefix = text.encode("utf-8", "surrogatepass")
    if not wildcards:
        return Domain.points([prefix])
    if wildcards.strip("%"):
        raise PredicateError(
            f"the pattern {pattern!r} has a wildcard before its end, and no range of strings answers it: only "
            "'text%' is supported; filter the rest with Spark on scan(...).to_spark()"
        )
    return Domain.between(prefix, _after(prefix), high_inclusive=False) if prefix else Domain.not_null()


def _literal_head(pattern: str, escape: str) -> tuple[str, str]:
    """The text before the first wildcard, unescaped, and the rest of the pattern."""
    text, at = "", 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in ("%", "_", escape):
                raise PredicateError(
                    f"the pattern {pattern!r} has an escape character {escape!r} that is not before %, _ or itself"
                )
            at += 1
        text += pattern[at]
        at += 1
    return text, pattern[at:]


def _after(prefix: bytes) -> bytes | None:
    """The least string that is greater than all that begin with a prefix; None where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
