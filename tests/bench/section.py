"""A part of the benchmarks: its options, and its result."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.bench.options import shared_options


@dataclass(slots=True)
class SectionResult:
    """The measurements of a section as JSON data, and descriptions of results that differ.

    Attributes:
        failed: queries that hindex did not answer, with the reasons.
    """

    data: dict[str, Any]
    different: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    help: str
    run: Callable[[argparse.Namespace], SectionResult]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    scale: float = 2
    rounds: int = 5
    warmups: int = 1

    def add_parser(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        shared = shared_options(scale=self.scale, rounds=self.rounds, warmups=self.warmups)
        self.add_options(commands.add_parser(self.name, help=self.help, parents=[shared]))
