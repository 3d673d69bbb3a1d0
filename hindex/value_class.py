"""Value classes: dataclasses that type checkers take for frozen, and that take a quarter of the time to define."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(cls: T) -> T:
    """Make a class a dataclass with slots whose instances are compared, hashed and shown by their fields.

    Type checkers take it for ``@dataclass(frozen=True)``; nothing prevents changes at run time. The start of a command
    defines 180 such classes: in Python 3.11, each takes 0.15 ms, and 0.6 ms with ``@dataclass(frozen=True)``, which
    compiles the source text of six methods.
    """
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    values = _getter([item.name for item in fields(made) if item.compare])
    shown = [item.name for item in fields(made) if item.repr]

    def equals(self: object, other: object) -> bool:
        return bool(values(self) == values(other)) if type(self) is type(other) else NotImplemented

    def hash_values(self: object) -> int:
        return hash(values(self))

    def show(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for name, method in {"__eq__": equals, "__hash__": hash_values, "__repr__": show}.items():
        # a class with an __eq__ of its own has None as __hash__
        if vars(cls).get(name) is None:
            setattr(made, name, method)
    return cast("T", made)


def _getter(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns some attributes of an object as a tuple."""
    if len(names) == 1:
        get = attrgetter(*names)
        return lambda item: (get(item),)
    return attrgetter(*names) if names else lambda item: ()
