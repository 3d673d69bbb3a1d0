"""Run the same queries on several engines in turn, and compare their rows."""

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
from tests.bench.processes import EngineError, TooLateError, Workers, watch_usage
from tests.bench.queries import Query

#: The engine that ratios compare with, and the engine whose rows are the reference.
OURS, ORACLE = "hindex", "pyarrow"

#: After so many timeouts, an engine gets no further queries.
_MOST_LATE = 2

#: Phases: the state of processes and caches at the start of a timed run.
WARM, FIRST, COLD = "warm", "first", "cold"


@dataclass(slots=True)
class Result:
    """One query: for each phase and engine the milliseconds of every round.

    Attributes:
        problems: the reason of each engine that did not answer.
        different: the difference of each engine whose rows are not the oracle's.
        counts: the work of hindex with empty caches.
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
    """An engine of a run: version, settings, cost of preparation (seconds, bytes), and bytes on disk."""

    label: str
    settings: str
    version: str = ""
    prepared: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rounds, limits and phases of a contest.

    Attributes:
        query_seconds: no further round of a query begins after this time; two are always run.
        prepare_seconds: an engine that takes longer is left out.
        phases: phases beside `WARM`, each with its queries (None for all).
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
        """Prepare and open each engine; report the reason of each that cannot run."""
        reports = {}
        self.progress.start(len(self.engines), f"Preparing {self.dataset.name}")
        for name in self.engines:
            engine = engine_class(name)
            report = EngineReport(engine.label, engine.settings)
            try:
                report.prepared = prepare_engine(self.workers, name, self.dataset, self.plan)
                report.version = self._ask(name, "open")["version"]
                report.sizes = self._ask(name, "sizes")
            except EngineError as error:
                report.unavailable = str(error)
                self.workers.drop(name)
            reports[name] = report
            self.progress.advance()
        self.progress.finish()
        return reports

    def _ask(self, engine: str, do: str, **more: Any) -> dict[str, Any]:
        return self.workers.of(engine).ask(do, engine=engine, dataset=self.dataset.name, **more)

    def run(self, queries: Sequence[Query], entered: dict[str, EngineReport]) -> list[Result]:
        """Check all queries' rows before the first is timed: Java compiles what runs often, whichever query it is."""
        engines = [name for name in self.engines if not entered[name].unavailable]
        rounds = self.plan.rounds
        self.progress.start(len(queries) * (1 + rounds), f"Queries of {self.dataset.name}")
        late: Counter[str] = Counter()
        results = []
        for query in queries:
            results.append(self._check(query, engines, late))
            self.progress.advance()
        for query, result in zip(queries, results, strict=True):
            answering = [name for name in engines if name not in result.problems]
            for phase, names in ((WARM, None), *self.plan.phases):
                if names is None or query.name in names:
                    result.ms[phase] = self._time_rounds(query, answering, phase, result.problems)
            if OURS in answering:
                result.counts = self._ask(OURS, "counts", suite=self.suite, query=query.name)
            self.progress.advance(rounds)
        self.progress.finish()
        return results

    def _check(self, query: Query, engines: Sequence[str], late: Counter[str]) -> Result:
        """Compare every engine's rows. An engine that is too late twice gets no further queries."""
        result = Result(query.name, str(query), self.dataset.name, self.suite)
        answers: dict[str, dict[str, Any]] = {}
        arguments = {"suite": self.suite, "query": query.name}
        with tempfile.TemporaryDirectory(prefix="hindex-bench-") as directory:
            for name in engines:
                if late[name] >= _MOST_LATE:
                    result.problems[name] = "not asked: it was too late before"
                    continue
                try:
                    reason = self._ask(name, "refuses", **arguments)["reason"]
                    if reason is None:
                        into = str(Path(directory, f"{name}.arrow"))
                        answers[name] = self._ask(name, "check", into=into, **arguments)
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

    def _time_rounds(
        self, query: Query, engines: Sequence[str], phase: str, problems: dict[str, str]
    ) -> dict[str, list[float]]:
        warmups = self.plan.warmups if phase == WARM else 0
        times: dict[str, list[float]] = {name: [] for name in engines}
        started = time.monotonic()
        for number in range(warmups + self.plan.rounds):
            if number >= warmups + 2 and time.monotonic() - started > self.plan.query_seconds:
                break
            # another engine begins each round
            turn = number % max(len(engines), 1)
            for name in [*engines[turn:], *engines[:turn]]:
                if name not in times:
                    continue
                try:
                    milliseconds = self._time_once(name, query, phase)
                except EngineError as error:
                    problems[name] = f"{phase}: {error}"
                    del times[name]
                    self.workers.drop(name)
                    continue
                if number >= warmups:
                    times[name].append(milliseconds)
        return times

    def _time_once(self, engine: str, query: Query, phase: str) -> float:
        arguments = {"suite": self.suite, "query": query.name}
        if phase == COLD:
            return self._time_cold(engine, arguments)
        if phase == FIRST:
            self._ask(engine, "forget")
        milliseconds: float = self._ask(engine, "run", **arguments)["ms"]
        return milliseconds

    def _time_cold(self, engine: str, arguments: dict[str, Any]) -> float:
        """Return the milliseconds from the start of a process to its answer."""
        started = time.perf_counter()
        worker = self.workers.fresh(engine)
        try:
            worker.ask("run", engine=engine, dataset=self.dataset.name, **arguments)
            return round((time.perf_counter() - started) * 1000, 4)
        finally:
            worker.close()

    def profiles(self, results: Sequence[Result], count: int) -> Iterator[tuple[Result, str]]:
        """Profile hindex in the queries where it stands worst against the best other engine."""
        answered = [result for result in results if OURS in result.ms.get(WARM, {})]
        for result in sorted(answered, key=standing)[:count]:
            arguments = {"suite": self.suite, "query": result.query}
            yield result, self._ask(OURS, "profile", **arguments)["text"]


def standing(result: Result) -> float:
    """Divide the least time of an engine in place by hindex's: below 1 if another engine is faster."""
    times = result.ms[WARM]
    own_ms = min(times[OURS])
    others = [
        min(values)
        for name, values in times.items()
        if name != OURS and values and engine_class(name).in_place
    ]
    return min(others, default=own_ms) / own_ms


def _difference(answer: dict[str, Any], oracle: dict[str, Any]) -> str | None:
    if answer["digest"] == oracle["digest"]:
        return None
    if "file" in answer and "file" in oracle:
        tables = [pa.ipc.open_file(side["file"]).read_all() for side in (answer, oracle)]
        difference = same_rows(*tables)
        if difference is not None:
            return difference
    return f"{answer['digest']} and {oracle['digest']}"


def prepare_engine(workers: Workers, engine: str, dataset: Dataset, plan: Plan) -> dict[str, float]:
    """Prepare an engine for a table in a separate process, once, unless it is rebuilt; a failure is kept too.

    Returns:
        The seconds of each step, ``cpu_seconds`` and ``peak_bytes`` of the process and its children.

    Raises:
        EngineError: if the preparation fails.
    """
    marker = workers.data / dataset.name / f"{engine}.json"
    cost: dict[str, Any]
    if marker.exists() and not plan.rebuild:
        cost = json.loads(marker.read_text())
    else:
        worker = workers.fresh(engine)
        try:
            with watch_usage(worker.pid) as usage:
                answer = worker.ask(
                    "prepare", most_seconds=plan.prepare_seconds, engine=engine, dataset=dataset.name
                )
            cost = answer["seconds"] | {
                "cpu_seconds": round(usage.cpu_seconds, 2),
                "peak_bytes": usage.peak_bytes,
            }
        except EngineError as error:
            cost = {"failed": f"preparing it failed: {error}"}
        finally:
            worker.close()
        keep(marker, cost)
    if "failed" in cost:
        raise EngineError(cost["failed"])
    return cost


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]
