"""Run scan tasks in this process: look up local indexes one after the other, and read rows on a few threads."""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from time import perf_counter
from typing import Concatenate, ParamSpec, TypeVar

from hindex.errors import DeletedFileError, HindexError, OrcError, root_os_error
from hindex.index.reader_cache import open_index_file
from hindex.orc.io.file_system import MAX_REQUESTS, request_limit
from hindex.orc.io.thread_pool import SERIAL, ThreadPool, processors
from hindex.plan.modes import Mode
from hindex.scan.metrics import NO_METER, MetricsCollector, QueryMetrics, Step
from hindex.scan.planning import ScanPlan
from hindex.scan.query_log import log_query
from hindex.scan.scan_task import IndexUse, ScanTask, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.store.metadata_copy import fetch_copies
from hindex.store.snapshot import Snapshot, forget_listings
from hindex.table.location import is_local
from hindex.value_class import value_class

T = TypeVar("T")
Result = TypeVar("Result")
P = ParamSpec("P")

#: One stripe of an open task, with its lookup result.
Unit = tuple[ScanTaskReader, StripeResult]

#: Work on a unit. Idle threads of the pool may help.
UnitWork = Callable[[ScanTaskReader, StripeResult, ThreadPool], T]


@value_class
class ReadAhead:
    """Limits of reading ahead from a remote store.

    Attributes:
        files: the most files that are looked up at once.
        units: stripes that are read at once.
        max_bytes: the most stored bytes of rows in memory; the first ``few`` stripes are exempt.
    """

    files: int
    units: int
    max_bytes: int
    few: int


_AHEAD = ReadAhead(MAX_REQUESTS, 32, 64 << 20, 2 * processors())
#: Of an executor, which has a process for each of its cores.
_AHEAD_OF_EXECUTOR = ReadAhead(16, 16, 16 << 20, 2)

#: Local units with at most so many rows are processed by the calling thread, for so many seconds together. Threads that
#: run Python wait for each other: three rows of each of 11 stripes took 27 ms with two threads, and 18 ms with one.
_FEW_ROWS = 64
_SECONDS_ALONE = 0.01


@value_class
class Runner:
    """A runner of scan tasks, with a mode and metrics.

    Args:
        is_executor: whether this is one of several processes, one for each core: it reads less ahead, and local files
            without threads.
    """

    mode: Mode = Mode.LENIENT
    meter: MetricsCollector = NO_METER
    is_executor: bool = False

    def plan(self, snapshot: Callable[[], Snapshot], make: Callable[[Snapshot], ScanPlan]) -> ScanPlan:
        """Plan a query of a table in its current state.

        Args:
            snapshot: returns the table.
            make: plans the query of it.

        Raises:
            FallbackError: in strict mode, if an index cannot be used.
        """
        with self.meter.step(Step.LISTING):
            table = snapshot()
        with self.meter.step(Step.PLAN):
            plan = make(table)
        self.mode.check(plan.notes)
        return plan

    def logged(self) -> Runner:
        """Return a runner of one query, which collects the metrics for `log`."""
        return replace(self, meter=QueryMetrics())

    def log(
        self, query: Callable[[], str], plan: ScanPlan, result: str, *, by_executors: bool = False
    ) -> None:
        """Log a finished query in one line, if `logged` returned this runner.

        Args:
            query: returns the text of the query.
            result: a description of the result, such as ``37 rows``.
            by_executors: True if Spark's executors read the rows.
        """
        if isinstance(self.meter, QueryMetrics):
            log_query(query, plan, self.meter, result, by_executors=by_executors)

    def attempt(self, run: Callable[[Runner], T], snapshot: Callable[[], Snapshot]) -> T:
        """Return the result of a query. Plan and run it once more if a data file is deleted meanwhile.

        Args:
            run: plans and runs the query with a runner, and passes on no rows before its end.
            snapshot: returns the table to the plan.

        Raises:
            DeletedFileError: if a data file is deleted again.
        """
        try:
            return run(self.logged())
        except HindexError as error:
            if not is_deleted_file(error):
                raise
        drop_snapshot(snapshot)
        try:
            return run(self.logged())
        except HindexError as error:
            raise deleted_again(error) from error.__cause__

    def run_lookups(
        self, tasks: Sequence[ScanTask], *, every: bool = False, cautious: bool = False
    ) -> Iterator[Unit]:
        """Yield the lookup results of the stripes that may have matching rows, in order; read no rows.

        Local files are looked up in this thread: a lookup is a little Python work, which threads would slow down.

        Args:
            every: yield all stripes.
            cautious: the first files may be enough: look up one remote file first, then twice as many each time.

        Raises:
            FallbackError: in strict mode, if an index turns out to be unusable.
        """
        looked_up = (
            self._look_up_remote(tasks, cautious) if _are_remote(tasks) else self._look_up_local(tasks)
        )
        for task, results in looked_up:
            for result in results:
                if every or len(result.bounds.upper):
                    yield task, result

    def _look_up_local(
        self, tasks: Sequence[ScanTask]
    ) -> Iterator[tuple[ScanTaskReader, Iterator[StripeResult]]]:
        for task in tasks:
            opened = self.open(task)
            yield opened, (self.look_up(opened, stripe) for stripe in opened.stripes)

    def _look_up_remote(
        self, tasks: Sequence[ScanTask], cautious: bool
    ) -> Iterator[tuple[ScanTaskReader, Iterator[StripeResult]]]:
        """Open files and look up their indexes ahead of their use, up to the limit of concurrent requests."""
        limit = min(self._ahead.files, request_limit())
        ahead = 1 if cautious else limit
        pending: deque[Future[tuple[ScanTaskReader, list[StripeResult]]]] = deque()
        # each file, beside one of its index files
        with ThreadPool(min(2 * limit, request_limit())) as pool:
            waiting = _with_copies(pool, tasks, limit)
            while True:
                more = islice(waiting, ahead - len(pending))
                pending.extend(pool.submit(_look_up_all, pool, task, copies) for task, copies in more)
                if not pending:
                    return
                with self.meter.step(Step.INDEXES):
                    opened, results = pending.popleft().result()
                ahead = min(2 * ahead, limit)
                self._register(opened)
                for result in results:
                    self.meter.add_indexes(result.indexes)
                yield opened, iter(results)

    def open(self, task: ScanTask) -> ScanTaskReader:
        """Open a task in this process.

        Raises:
            FallbackError: as `run_lookups`.
        """
        with self.meter.step(Step.OPEN):
            return self._register(ScanTaskReader(task))

    def look_up(self, task: ScanTaskReader, stripe: int) -> StripeResult:
        """Look up one stripe in the indexes.

        Raises:
            FallbackError: as `run_lookups`.
        """
        with self.meter.step(Step.INDEXES):
            result = task.look_up(stripe)
        self.meter.add_indexes(result.indexes)
        self.mode.check(task.notes)
        return result

    def run(self, tasks: Sequence[ScanTask], work: UnitWork[T], *, cautious: bool = False) -> Iterator[T]:
        """Yield the results of some work on each stripe that may have matching rows, in order.

        Args:
            cautious: the first results may be enough, see `run_lookups` and `run_units`.

        Raises:
            FallbackError: as `run_lookups`, and if an index turns out to be unusable during the work.
        """
        units = self.run_lookups(tasks, cautious=cautious)
        if self.is_executor and not _are_remote(tasks):
            checked = self._checked(work)
            return (checked(task, result, SERIAL) for task, result in units)
        return self.run_units(units, work, cautious=cautious)

    def run_units(self, units: Iterable[Unit], work: UnitWork[T], *, cautious: bool = False) -> Iterator[T]:
        """Yield the results of some work on each unit, see the function of this name.

        Raises:
            FallbackError: in strict mode, if an index turns out to be unusable during the work.
        """
        return run_units(units, self._checked(work), cautious=cautious, limits=self._ahead)

    @property
    def _ahead(self) -> ReadAhead:
        return _AHEAD_OF_EXECUTOR if self.is_executor else _AHEAD

    def _checked(
        self, work: Callable[Concatenate[ScanTaskReader, P], Result]
    ) -> Callable[Concatenate[ScanTaskReader, P], Result]:
        """Return the work followed by a check that all indexes could be used."""

        def checked(task: ScanTaskReader, /, *args: P.args, **options: P.kwargs) -> Result:
            result = work(task, *args, **options)
            self.mode.check(task.notes)
            return result

        return checked

    def _register(self, task: ScanTaskReader) -> ScanTaskReader:
        task.meter = self.meter
        self.meter.add_reader(task.reader.counts)
        self.meter.add_notes(task.notes)
        self.mode.check(task.notes)
        return task


class KnownSnapshot:
    """A function that returns an existing snapshot, and new ones after it was dropped.

    Args:
        snapshot: the existing snapshot.
        take: takes a new snapshot of the table.
    """

    def __init__(self, snapshot: Snapshot, take: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._take = take
        self._is_dropped = False

    def __call__(self) -> Snapshot:
        if not self._is_dropped:
            return self._snapshot
        taken = self._take()
        if taken.schema != self._snapshot.schema:
            raise DeletedFileError(
                f"table {taken.name!r} was replaced by one with other columns after the query was planned: run it again"
            )
        return taken

    def drop(self) -> None:
        """Stop returning the existing snapshot because one of its data files was deleted."""
        self._is_dropped = True


def drop_snapshot(snapshot: Callable[[], Snapshot]) -> None:
    """Drop an existing snapshot and earlier listings, so that the next plan uses the table's current state."""
    forget_listings()
    if isinstance(snapshot, KnownSnapshot):
        snapshot.drop()


def is_deleted_file(error: HindexError) -> bool:
    """Return True if a data file, or a file of deletes, was deleted or replaced after the query was planned."""
    if isinstance(error, DeletedFileError):
        return True
    cause = root_os_error(error)
    is_gone = isinstance(cause, FileNotFoundError) or (cause is not None and cause.errno == errno.ESTALE)
    return is_gone and isinstance(error, OrcError)


def deleted_again(error: HindexError) -> HindexError:
    """Return the error of a query that failed again after it was planned again because of a deleted data file."""
    if not is_deleted_file(error):
        return error
    return DeletedFileError(
        f"data files are deleted faster than the query reads them, also after it was planned anew ({error}): run it "
        "again when the writer has finished"
    )


def run_lookups(tasks: Sequence[ScanTask], *, every: bool = False) -> Iterator[Unit]:
    """Yield the results of `Runner.run_lookups`, in lenient mode and without metrics."""
    return Runner().run_lookups(tasks, every=every)


def _are_remote(tasks: Sequence[ScanTask]) -> bool:
    return bool(tasks) and not is_local(tasks[0].uri)


def run_units(
    units: Iterable[Unit], work: UnitWork[T], *, cautious: bool = False, limits: ReadAhead = _AHEAD
) -> Iterator[T]:
    """Yield the results of some work on each unit, in order, on as many threads as there are processors.

    The calling thread processes a unit without others, the first unit if ``cautious``, and the first local units with
    few rows. Only a few units are processed ahead of their use.

    Args:
        cautious: the first results may be enough: process one unit first, then twice as many each time.
    """
    units = iter(units)
    head = list(islice(units, 1 if cautious else 2))
    is_remote = bool(head) and head[0][0].is_remote
    # threads that wait for requests need no processor
    threads = max(limits.units, processors()) if is_remote else processors()
    if len(head) < 2:
        for task, lookup_result in head:
            with ThreadPool(threads - 1) as pool:
                result = work(task, lookup_result, pool)
            yield result
            del result
        if not head or not cautious:
            return
        head = []
    max_ahead = 2 * threads
    ahead = 1 if cautious else max_ahead
    seconds = 0.0
    # each with the bytes that may be read
    pending: deque[tuple[int, Future[T]]] = deque()
    with ThreadPool(threads) as pool:
        for task, lookup_result in chain(head, units):
            has_few_rows = len(lookup_result.bounds.upper) <= _FEW_ROWS
            if has_few_rows and not is_remote and not pending and seconds < _SECONDS_ALONE:
                started = perf_counter()
                result = work(task, lookup_result, pool)
                seconds += perf_counter() - started
                yield result
                # a generator would keep it until the next one
                del result
                continue
            weight = _stored_bytes(task, lookup_result) if is_remote else 0
            pending.append((weight, pool.submit(work, task, lookup_result, pool)))
            while len(pending) > ahead or (
                len(pending) > limits.few and sum(some for some, _ in pending) > limits.max_bytes
            ):
                yield pending.popleft()[1].result()
                ahead = min(2 * ahead, max_ahead)
        while pending:
            yield pending.popleft()[1].result()


def _stored_bytes(task: ScanTaskReader, result: StripeResult) -> int:
    """Estimate the stored bytes of all columns at the rows of a stripe that may match."""
    stripe = task.reader.stripes[result.stripe]
    return stripe.data_length * len(result.bounds.upper) // max(stripe.num_rows, 1)


def _with_copies(
    pool: ThreadPool, tasks: Sequence[ScanTask], at_once: int
) -> Iterator[tuple[ScanTask, Future[None]]]:
    """Yield tasks with the future of their metadata copies, which are fetched for ``at_once`` tasks at a time.

    The copies of many files lie side by side.
    """
    for first in range(0, len(tasks), at_once):
        some = tasks[first : first + at_once]
        copies = pool.submit(fetch_copies, [task.metadata for task in some if task.metadata is not None])
        yield from ((task, copies) for task in some)


def _look_up_all(
    pool: ThreadPool, task: ScanTask, copies: Future[None]
) -> tuple[ScanTaskReader, list[StripeResult]]:
    """Open a data file beside its index files, and look up all its stripes at once.

    Args:
        copies: a future that is done when the copies of the files' metadata are fetched.
    """
    opened: list[ScanTaskReader] = []

    def open_file() -> None:
        copies.result()
        opened.append(ScanTaskReader(task))

    steps: list[Callable[[], object]] = [open_file]
    steps += [partial(_open_index, use) for use in task.indexes]
    pool.map(lambda step: step(), steps)
    (reader,) = opened
    return reader, pool.map(reader.look_up, reader.stripes)


def _open_index(use: IndexUse) -> None:
    # an error is raised again when the index is used
    with contextlib.suppress(HindexError):
        open_index_file(use.path, use.length, use.footer_checksum)
