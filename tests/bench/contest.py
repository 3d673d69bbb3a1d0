"""Engines in turn: the same queries, the same rows, round by round."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from hindex.progress import Progress
from tests.bench.compare import same_rows
from tests.bench.data import Dataset
from tests.bench.engines import engine_class
from tests.bench.engines.base import keep
from tests.bench.processes import EngineError, TooLateError, Workers, watched
from tests.bench.queries import Query

#: The engine that ratios are of, and the one whose rows the others' must be.
OURS, ORACLE = "hindex", "pyarrow"

#: Queries that an engine may be too late for before it is asked no more.
_MOST_LATE = 2

#: Phases: how warm things are when a run is timed.
WARM, FIRST, COLD = "warm", "first", "cold"


@dataclass(slots=True)
class Result:
    """One query: for each phase and engine the milliseconds of every round.

    Attributes:
        problems: why an engine did not answer.
        different: engines whose rows are not the oracle's, and how they differ.
        counts: what answering took hindex with nothing in memory.
    """

    query: str
    text: str
    dataset: str
    suite: str
    rows: int = 0
    ms: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    different: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class EngineReport:
    """An engine of a run: its version and settings, what it prepared (seconds, bytes), and its bytes on disk."""

    label: str
    settings: str
    version: str = ""
    prepared: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a contest is held.

    Attributes:
        query_seconds: no further round of a query begins after so long; two are always run.
        prepare_seconds: an engine that takes longer is left out.
        phases: beside `WARM`, and the queries that each is for (None for all).
    """

    rounds: int
    warmups: int
    query_seconds: float
    prepare_seconds: float
    phases: tuple[tuple[str, frozenset[str] | None], ...] = ()
    rebuild: bool = False


@dataclass(frozen=True, slots=True)
class Contest:
    """Engines that answer a suite's queries of one table."""

    workers: Workers
    dataset: Dataset
    suite: str
    engines: Sequence[str]
    plan: Plan
    progress: Progress
    say: Callable[[str], None]

    def enter(self) -> dict[str, EngineReport]:
        """Prepare and open each engine; those that cannot run say why."""
        found = {}
        self.progress.start(len(self.engines), f"Preparing {self.dataset.name}")
        for name in self.engines:
            of = engine_class(name)
            report = EngineReport(of.label, of.settings)
            try:
                report.prepared = prepared(self.workers, name, self.dataset, self.plan)
                report.version = self._ask(name, "open")["version"]
                report.sizes = self._ask(name, "sizes")
            except EngineError as error:
                report.unavailable = str(error)
                self.workers.drop(name)
            found[name] = report
            self.progress.advance()
        self.progress.finish()
        return found

    def _ask(self, engine: str, do: str, **more: Any) -> dict[str, Any]:
        return self.workers.of(engine).ask(do, engine=engine, dataset=self.dataset.name, **more)

    def run(self, queries: Sequence[Query], entered: dict[str, EngineReport]) -> list[Result]:
        """Check all queries' rows before the first is timed: Java compiles what runs often, whichever query it is."""
        engines = [name for name in self.engines if not entered[name].unavailable]
        rounds = self.plan.rounds
        self.progress.start(len(queries) * (1 + rounds), f"Queries of {self.dataset.name}")
        late: Counter[str] = Counter()
        found = []
        for query in queries:
            found.append(self._checked(query, engines, late))
            self.progress.advance()
        for query, result in zip(queries, found, strict=True):
            answering = [name for name in engines if name not in result.problems]
            for phase, only in ((WARM, None), *self.plan.phases):
                if only is None or query.name in only:
                    result.ms[phase] = self._timed(query, answering, phase, result.problems)
            if OURS in answering:
                result.counts = self._ask(OURS, "counts", suite=self.suite, query=query.name)
            self.progress.advance(rounds)
        self.progress.finish()
        return found

    def _checked(self, query: Query, engines: Sequence[str], late: Counter[str]) -> Result:
        """Every engine's rows compared. One that is too late twice is asked no more."""
        result = Result(query.name, str(query), self.dataset.name, self.suite)
        answers: dict[str, dict[str, Any]] = {}
        asked = {"suite": self.suite, "query": query.name}
        with tempfile.TemporaryDirectory(prefix="hindex-bench-") as directory:
            for name in engines:
                if late[name] >= _MOST_LATE:
                    result.problems[name] = "not asked: it was too late before"
                    continue
                try:
                    reason = self._ask(name, "refuses", **asked)["reason"]
                    if reason is None:
                        into = str(Path(directory, f"{name}.arrow"))
                        answers[name] = self._ask(name, "check", into=into, **asked)
                    else:
                        result.problems[name] = reason
                except EngineError as error:
                    result.problems[name] = str(error)
                    late[name] += isinstance(error, TooLateError)
                    self.workers.drop(name)
            oracle = ORACLE if ORACLE in answers else next(iter(answers), "")
            for name, answer in answers.items():
                result.rows = answers[oracle]["rows"]
                difference = _difference(answer, answers[oracle])
                if difference:
                    result.different[name] = difference
                    self.say(f"{query.name}: {name} and {oracle} differ: {difference}")
        return result

    def _timed(
        self, query: Query, engines: Sequence[str], phase: str, problems: dict[str, str]
    ) -> dict[str, list[float]]:
        warmups = self.plan.warmups if phase == WARM else 0
        taken: dict[str, list[float]] = {name: [] for name in engines}
        started = time.monotonic()
        for number in range(warmups + self.plan.rounds):
            if number >= warmups + 2 and time.monotonic() - started > self.plan.query_seconds:
                break
            # another engine begins each round
            turn = number % max(len(engines), 1)
            for name in [*engines[turn:], *engines[:turn]]:
                if name not in taken:
                    continue
                try:
                    milliseconds = self._once(name, query, phase)
                except EngineError as error:
                    problems[name] = f"{phase}: {error}"
                    del taken[name]
                    self.workers.drop(name)
                    continue
                if number >= warmups:
                    taken[name].append(milliseconds)
        return taken

    def _once(self, engine: str, query: Query, phase: str) -> float:
        asked = {"suite": self.suite, "query": query.name}
        if phase == COLD:
            return self._cold(engine, asked)
        if phase == FIRST:
            self._ask(engine, "forget")
        milliseconds: float = self._ask(engine, "run", **asked)["ms"]
        return milliseconds

    def _cold(self, engine: str, asked: dict[str, Any]) -> float:
        """From the start of a process to its answer."""
        started = time.perf_counter()
        worker = self.workers.fresh(engine)
        try:
            worker.ask("run", engine=engine, dataset=self.dataset.name, **asked)
            return round((time.perf_counter() - started) * 1000, 4)
        finally:
            worker.close()

    def profiles(self, results: Sequence[Result], count: int) -> Iterator[tuple[Result, str]]:
        """CProfile's view of hindex in the queries where it stands worst against the best other engine."""
        known = [result for result in results if OURS in result.ms.get(WARM, {})]
        for result in sorted(known, key=standing)[:count]:
            asked = {"suite": self.suite, "query": result.query}
            yield result, self._ask(OURS, "profile", **asked)["text"]


def standing(result: Result) -> float:
    """The least time of an engine in place divided by hindex's: below 1 where another is faster."""
    times = result.ms[WARM]
    ours = min(times[OURS])
    others = [
        min(taken) for name, taken in times.items() if name != OURS and taken and engine_class(name).in_place
    ]
    return min(others, default=ours) / ours


def _difference(answer: dict[str, Any], oracle: dict[str, Any]) -> str | None:
    if answer["digest"] == oracle["digest"]:
        return None
    if "file" in answer and "file" in oracle:
        tables = [pa.ipc.open_file(found["file"]).read_all() for found in (answer, oracle)]
        found = same_rows(*tables)
        if found is not None:
            return found
    return f"{answer['digest']} and {oracle['digest']}"


def prepared(workers: Workers, engine: str, dataset: Dataset, plan: Plan) -> dict[str, float]:
    """Prepare an engine for a table in a process of its own, once: also where it failed, unless it is rebuilt.

    Returns:
        the seconds of what it did, ``cpu_seconds`` and ``peak_bytes`` of the process and those below it.

    Raises:
        EngineError: if it cannot.
    """
    marker = workers.data / dataset.name / f"{engine}.json"
    found: dict[str, Any]
    if marker.exists() and not plan.rebuild:
        found = json.loads(marker.read_text())
    else:
        worker = workers.fresh(engine)
        try:
            with watched(worker.pid) as usage:
                answer = worker.ask(
                    "prepare", most_seconds=plan.prepare_seconds, engine=engine, dataset=dataset.name
                )
            found = answer["seconds"] | {
                "cpu_seconds": round(usage.cpu_seconds, 2),
                "peak_bytes": usage.peak_bytes,
            }
        except EngineError as error:
            found = {"failed": f"preparing it failed: {error}"}
        finally:
            worker.close()
        keep(marker, found)
    if "failed" in found:
        raise EngineError(found["failed"])
    return found


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]
