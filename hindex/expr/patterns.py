"""LIKE patterns and Java regular expressions as patterns of RE2, which take time linear in the value.

Only syntax with the same meaning in Java and RE2 is supported: characters, ``.``, ``^`` at the beginning and ``$``
at the end, classes, groups, alternatives, quantifiers. Source: ``java.util.regex.Pattern``,
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re

from hindex.errors import PredicateError

_REMEDY = "filter with Spark on scan(...).to_spark()"
_META = frozenset("\\.[]{}()*+?^$|")
#: RE2 refuses more repetitions.
_MOST_REPEATS = 1000
_QUANTIFIER = re.compile(r"[*+?]|\{(\d{1,4})(?:,(\d{0,4}))?\}", re.ASCII)
_ANY_BUT_LINE_ENDS = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"
#: What Java's classes hold, as members of a class of RE2; Java's \\s has the vertical tab.
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \\t\\n\\x0b\\f\\r"}
_ESCAPES = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f"}


def like_parts(pattern: str, escape: str) -> tuple[str | None, ...]:
    """Split a LIKE pattern: characters without their escapes, ``None`` for ``%`` and ``""`` for ``_``.

    Raises:
        PredicateError: for an escape character that is not before ``%``, ``_`` or itself, as Spark does.
    """
    parts: list[str | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if pattern[at : at + 1] not in ("%", "_", escape) or at == len(pattern):
                raise PredicateError(
                    f"the pattern {pattern!r} has an escape character {escape!r} that is not before %, _ or itself"
                )
            parts.append(pattern[at])
        else:
            parts.append(None if character == "%" else "" if character == "_" else character)
        at += 1
    return tuple(parts)


def like_regex(parts: tuple[str | None, ...]) -> str:
    """Return the RE2 pattern of the pieces of a LIKE pattern."""
    body = "".join(".*" if part is None else _character(part) if part else "." for part in parts)
    return f"(?s)\\A(?:{body})\\z"


def java_regex(pattern: str) -> tuple[str, ...]:
    """Return the RE2 pattern of a Java pattern; if that has ``$``, also one for values without their line end.

    >>> java_regex("^a+b")
    ('^a+b',)

    Raises:
        PredicateError: naming what is not taken over.
    """
    reader = _JavaPattern(pattern)
    regex = reader.read()
    return (regex, regex) if reader.has_end else (regex,)


#: The parts of a pattern that this module writes, in which a literal is a character or its escaped code point.
_PART = re.compile(
    r"\\x\{(?P<code>[0-9a-f]+)\}|(?P<literal>[0-9A-Za-z _-])|(?P<control>\\[tnrf])|(?P<set>\[(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\(\?:)|(?P<close>\))|(?P<or>\|)|(?P<repeats>[*+?]|\{\d*(?:,\d*)?\})\??|\\.|.",
    re.DOTALL,
)
_CONTROLS = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f"}
_LIKE = re.compile(r"\(\?s\)\\A(?P<body>.*)\\z", re.DOTALL)


def required_texts(regex: str) -> tuple[tuple[str, ...], ...]:
    r"""Return, for each alternative of a pattern of this module, texts that every match of it contains.

    >>> required_texts(java_regex("lost .*id=[0-9]+|out of")[0])
    (('lost ', 'id='), ('out of',))
    """
    like = _LIKE.fullmatch(regex)
    parts = list(_PART.finditer(regex if like is None else like["body"]))
    while len(parts) > 1 and _group_end(parts, 0) == len(parts) - 1:
        parts = parts[1:-1]
    alternatives: list[tuple[str, ...]] = []
    texts, text = list[str](), ""
    at = 0
    while at < len(parts):
        part = parts[at]
        literal = _literal(part)
        repeats = parts[at + 1]["repeats"] if at + 1 < len(parts) else None
        if literal and (repeats is None or repeats == "+" or repeats[:2] not in ("*", "?", "{0", "{,")):
            text += literal
        if not literal:
            texts, text = [*texts, text], ""
        if part["open"]:
            at = _group_end(parts, at)
        elif part["or"]:
            alternatives, texts = [*alternatives, tuple(filter(None, texts))], []
        at += 1
    return (*alternatives, tuple(filter(None, [*texts, text])))


def _group_end(parts: list[re.Match[str]], start: int) -> int:
    """Return the position of the parenthesis that closes the group at ``start``; -1 if there is no group."""
    depth = 0
    for at in range(start, len(parts)):
        depth += bool(parts[at]["open"]) - bool(parts[at]["close"])
        if depth == 0:
            return at if at > start else -1
    return -1


def _literal(part: re.Match[str]) -> str:
    if part["code"]:
        return chr(int(part["code"], 16))
    return part["literal"] or _CONTROLS.get(part["control"] or "", "")


def _character(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in " _-"):
        return character
    return f"\\x{{{ord(character):x}}}"


class _JavaPattern:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self.has_end = False

    def read(self) -> str:
        regex = self._alternatives(0)
        if self._at < len(self._pattern):
            self._refuse(")")
        return regex

    def _alternatives(self, depth: int) -> str:
        if depth > 30:
            self._refuse("more than 30 groups within each other")
        branches = [self._branch(depth)]
        while self._next() == "|":
            self._at += 1
            branches.append(self._branch(depth))
        return "|".join(branches)

    def _branch(self, depth: int) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern) and self._next() not in "|)":
            parts.append(self._quantified(depth, is_first=not parts))
        return "".join(parts)

    def _quantified(self, depth: int, *, is_first: bool) -> str:
        character = self._next()
        if character == "^":
            if depth or not is_first:
                self._refuse("^ that is not first")
            self._at += 1
            return self._not_repeated("^")
        if character == "$":
            self._at += 1
            if depth or self._next() not in ("", "|"):
                self._refuse("$ that is not last")
            self.has_end = True
            return "\\z"
        atom = self._atom(depth)
        match = _QUANTIFIER.match(self._pattern, self._at)
        if match is None:
            return atom
        self._at = match.end()
        min_repeats, max_repeats = int(match[1] or 0), int(match[2] or 0)
        if max(min_repeats, max_repeats) > _MOST_REPEATS or (match[2] and max_repeats < min_repeats):
            self._refuse(match[0])
        lazy = ""
        if self._next() == "?":
            lazy = "?"
            self._at += 1
        if self._next() in ("+", "*", "?", "{"):
            self._refuse(match[0] + lazy + self._next())
        return atom + match[0] + lazy

    def _not_repeated(self, regex: str) -> str:
        if _QUANTIFIER.match(self._pattern, self._at):
            self._refuse("a quantifier after ^")
        return regex

    def _atom(self, depth: int) -> str:
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ".":
            return _ANY_BUT_LINE_ENDS
        if character in _META:
            self._refuse(character)
        return _character(character)

    def _group(self, depth: int) -> str:
        self._at += 1
        if self._next() == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                self._refuse(f"({self._pattern[self._at : self._at + 2]}")
            self._at += 2
        inner = self._alternatives(depth + 1)
        if self._next() != ")":
            self._refuse("a group that is not closed")
        self._at += 1
        return f"(?:{inner})"

    def _escape(self) -> str:
        """Read an escape: one character, or a class of characters."""
        character = self._pattern[self._at + 1 : self._at + 2]
        if character and character in "DWS":
            self._at += 2
            return f"[^{_CLASSES[character.lower()]}]"
        member = self._escaped_member()
        return f"[{member}]" if character in _CLASSES else member

    def _escaped_member(self) -> str:
        character = self._pattern[self._at + 1 : self._at + 2]
        if character in _CLASSES:
            self._at += 2
            return _CLASSES[character]
        if character in _ESCAPES:
            self._at += 2
            return _ESCAPES[character]
        if character and character.isascii() and not character.isalnum():
            self._at += 2
            return _character(character)
        return self._refuse(f"\\{character}")

    def _class(self) -> str:
        self._at += 1
        negation = ""
        if self._next() == "^":
            negation = "^"
            self._at += 1
        members: list[str] = []
        while self._next() != "]":
            members.append(self._member())
        self._at += 1
        if not members:
            self._refuse("[]")
        return f"[{negation}{''.join(members)}]"

    def _member(self) -> str:
        r"""Read a member of a class: a character, a class such as \d, or a range."""
        is_class = self._next() == "\\" and self._pattern[self._at + 1 : self._at + 2] in _CLASSES
        low = self._class_character()
        if self._next() != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return low
        if is_class:
            self._refuse("a range from a class")
        start = self._at
        self._at += 1
        if self._next() == "\\" and self._pattern[self._at + 1 : self._at + 2] in _CLASSES:
            self._refuse("a range to a class")
        high = self._class_character()
        if _code(low) > _code(high):
            self._refuse(self._pattern[start - 1 : self._at])
        return f"{low}-{high}"

    def _class_character(self) -> str:
        character = self._next()
        if character == "\\":
            member = self._escaped_member()
        elif character in ("", "[", "&", "^"):
            return self._refuse(f"{character} in a class" if character else "a class that is not closed")
        else:
            self._at += 1
            member = _character(character)
        # a hyphen between members would make a range of them
        return "\\-" if member == "-" else member

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refuse(self, construct: str) -> str:
        raise PredicateError(
            f"the pattern {self._pattern!r} has {construct} at position {self._at + 1}, which is not evaluated here; "
            f"{_REMEDY}"
        )


def _code(member: str) -> int:
    if member.startswith("\\x{"):
        return int(member[3:-1], 16)
    return ord({"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f", "\\-": "-"}.get(member, member))
