"""Value classes, beside the frozen dataclasses whose place they take."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from hindex.value_class import value_class


@value_class
class Point:
    """A value class with every kind of field that the project uses."""

    x: int
    y: float = 0.5
    tags: tuple[str, ...] = ()
    note: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Frozen:
    """The same fields."""

    x: int
    y: float = 0.5
    tags: tuple[str, ...] = ()
    note: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, compare=False, repr=False)


@value_class
class Single:
    """One field, which is compared as a tuple of one value."""

    value: Any


@value_class
class Nothing:
    """No field."""


@value_class
class Named(Single):
    """A subclass with methods of its own."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


ARGUMENTS: list[tuple[Any, ...]] = [
    (1,),
    (1, 0.5),
    (1, 0.5, (), "other note", [1]),
    (2,),
    (1, 2.5, ("a", "b")),
    (True,),
]


@pytest.mark.parametrize("left", ARGUMENTS)
@pytest.mark.parametrize("right", ARGUMENTS)
def test_equality_and_hashes_are_those_of_a_dataclass(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    assert (Point(*left) == Point(*right)) == (Frozen(*left) == Frozen(*right))
    assert (hash(Point(*left)) == hash(Point(*right))) == (hash(Frozen(*left)) == hash(Frozen(*right)))
    assert repr(Point(*left)).removeprefix("Point") == repr(Frozen(*left)).removeprefix("Frozen")


def test_fields_are_compared_as_tuples_are() -> None:
    """A NaN equals itself; in a dataclass of Python 3.13 and later it does not."""
    assert Point(1, math.nan) == Point(1, math.nan)
    assert hash(Point(1, math.nan)) == hash(Point(1, math.nan))


def test_values_of_other_classes_are_never_equal() -> None:
    frozen: object = Frozen(1)
    assert Point(1) != frozen
    assert Single("a") != Named("a", "a")
    assert Single(math.nan) != Single(-math.nan)
    assert Single(math.nan) == Single(math.nan), "the same object, as in a tuple"
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()) == "Nothing()"


def test_methods_of_the_class_stay() -> None:
    assert Named(1, "A") == Named(2, "a")
    assert len({Named(1, "A"), Named(2, "a")}) == 1
    assert repr(Named(1, "A")) == "<A>"


def test_it_is_a_dataclass_with_slots() -> None:
    point = Point(3, tags=("a",), hidden=[7])
    assert replace(point, x=4) == Point(4, tags=("a",))
    assert [item.name for item in fields(point)] == ["x", "y", "tags", "note", "hidden"]
    assert Point(1).hidden is not Point(1).hidden
    with pytest.raises(AttributeError):
        point.other = 1  # type: ignore[attr-defined]
    for other in (copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
        assert other.hidden == [7]
    match point:
        case Point(x, y):
            assert (x, y) == (3, 0.5)
