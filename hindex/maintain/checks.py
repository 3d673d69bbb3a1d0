"""CHECK INDEXES: how an index stands to its table, and with VERIFY whether it says the truth."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.errors import HindexError
from hindex.formatting import counted
from hindex.index.index_file import OWN_CACHE_BYTES
from hindex.index.index_type import Bounds
from hindex.index.page_cache import Cache
from hindex.maintain.results import CheckResult, IndexState
from hindex.orc.reader.file_cache import FileCache
from hindex.plan.filter import Leaf, leaves
from hindex.plan.filter_evaluation import mask
from hindex.plan.reasons import Note, Reason
from hindex.scan.open_task import OpenTask
from hindex.scan.planning import plan_scan
from hindex.sql.literals import of_value
from hindex.sql.predicate import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    IsNull,
    Predicate,
)
from hindex.store.manifest import IndexEntry
from hindex.store.snapshot import FileView, Snapshot
from hindex.store.store import Store
from hindex.table.file_schema import bind_paths, convert_array
from hindex.table.transactional import open_data_file

#: Why an index was not asked, where that is not as it should be.
_DAMAGE = {
    Reason.CORRUPT,
    Reason.INDEX_MISSING,
    Reason.NEWER_FORMAT,
    Reason.UNKNOWN_INDEX_TYPE,
    Reason.STALE_FILE,
}

#: Stripes of an index that VERIFY reads, spread over its files.
SAMPLED_STRIPES = 10
#: Values of a stripe that the index is asked for.
_SAMPLED_VALUES = 6
#: Problems of one index that are told; more of the same say nothing new.
_PROBLEMS = 10
#: Files that a note names.
_NAMED_FILES = 3


class CheckedIndex(Protocol):
    """The part of :class:`hindex.Index` that a check needs."""

    num_files: int
    num_fresh_files: int
    num_changed_files: int
    num_added_files: int
    num_gone_files: int
    rows_covered: float
    files_without_column: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the index name."""

    @property
    def table(self) -> str:
        """Return the table name."""

    @property
    def column(self) -> str:
        """Return the indexed column."""

    @property
    def state(self) -> IndexState:
        """Return the state of the index."""


def check_index(
    index: CheckedIndex, store: Store, snapshot: Callable[[], Snapshot] | None = None
) -> CheckResult:
    """Check an index against its table.

    :param snapshot: takes the table as it is now, where a sample of stripes is to be compared with the index.
    :raises StoreError: if the store cannot be read.
    """
    problems: list[str] = []
    verified = 0
    state = index.state
    manifest = store.load()
    entry = None if manifest is None else manifest.find_index(index.name)
    if manifest is not None and entry is not None:
        present = store.index_files()
        named = {
            (file.path, file.length, f" of {item.path!r}")
            for item in manifest.files
            if (file := item.index_file(entry.id)) is not None
        }
        shared = (item for item in manifest.shared_indexes() if item.index_id == entry.id)
        named |= {(file.path, file.length, "") for item in shared for file in item.files}
        for path, length, of in sorted(named):
            found = present.get(path)
            if found != length:
                what = "is missing" if found is None else f"has {found} bytes in place of {length}"
                problems.append(f"index file {path!r}{of} {what}: ALTER INDEX ... REBUILD writes it again")
    if snapshot is not None and index.num_fresh_files and not problems:
        now = snapshot()
        verified = _Verifier(now, now.manifest.index(index.name), problems).run()
    return CheckResult(
        index=index.name,
        table=index.table,
        state=state,
        files=index.num_files,
        fresh=index.num_fresh_files,
        changed=index.num_changed_files,
        added=index.num_added_files,
        gone=index.num_gone_files,
        rows_covered=index.rows_covered,
        verified_stripes=verified,
        problems=tuple(problems[:_PROBLEMS]),
        notes=() if snapshot is None else tuple(_left_out(index)),
    )


def _left_out(index: CheckedIndex) -> Iterator[str]:
    """Yield notes about files that VERIFY does not compare."""
    paths = index.files_without_column
    if paths:
        named = ", ".join(map(repr, paths[:_NAMED_FILES]))
        more = len(paths) - _NAMED_FILES
        yield (
            f"{counted(len(paths), 'file')} without column {index.column!r} not compared, its rows are NULL there: "
            f"{named}{f' and {more:,} more' if more > 0 else ''}"
        )


class _Verifier:
    """Compares what an index says of sampled stripes with their values, both as they are on the disk now.

    :param problems: is told of what is damaged or wrong.
    """

    def __init__(self, snapshot: Snapshot, entry: IndexEntry, problems: list[str]) -> None:
        self._snapshot = replace(snapshot, manifest=replace(snapshot.manifest, indexes=(entry,)))
        self._entry = entry
        self._problems = problems
        resolved = snapshot.schema.resolve(entry.column, is_stored=True)
        self._column, self._type = ColumnRef(resolved.path), resolved.type
        self._binding = tuple(item.name for item in snapshot.schema.data_columns)
        self._rng = random.Random()  # noqa: S311 no secret
        # what the process keeps of an index file or a data file says nothing of the bytes that are there by now
        self._cache = Cache(OWN_CACHE_BYTES)
        self._known = FileCache(0)

    def run(self) -> int:
        """Compare; of how many stripes the index was asked anything."""
        files = [
            view
            for view in self._snapshot.files
            if view.is_listed_fresh
            and view.entry
            and view.entry.is_covered_by(self._entry.id)
            # an index may be on a column that the table reads from other files by now
            and view.has_column(self._binding, self._column.name)
        ]
        verified = 0
        for view, stripes in _spread(files, self._rng):
            one = replace(self._snapshot, files=(_physical(view),), vanished=())
            for stripe in stripes:
                try:
                    verified += self._stripe(one, view, stripe)
                except HindexError as error:
                    if str(error) not in self._problems:
                        self._problems.append(str(error))
                if len(self._problems) >= _PROBLEMS:
                    return verified
        return verified

    def _stripe(self, snapshot: Snapshot, view: FileView, stripe: int) -> bool:
        """Compare what the index alone says of a stripe, whatever else is known; whether it was asked anything."""
        values = self._values(view, stripe)
        was_asked = False
        for predicate in _probes(self._column, values, self._rng):
            plan = plan_scan(snapshot, predicate, [self._column.parts], cache=self._cache)
            # an index of many files is asked by the plan, the others by the tasks
            _tell(self._problems, plan.notes)
            if not plan.tasks:
                # planning ruled the file out: it should have no such row
                for leaf in leaves(plan.filter):
                    _compare(predicate, leaf, values, Bounds.none(), (view, stripe), self._problems)
            for task in plan.tasks:
                with OpenTask(task, self._cache) as opened:
                    for leaf in leaves(task.filter):
                        for _, told in opened.lookup_each(stripe, leaf):
                            was_asked = True
                            _compare(predicate, leaf, values, told, (view, stripe), self._problems)
                    _tell(self._problems, opened.notes)
        return was_asked

    def _values(self, view: FileView, stripe: int) -> pa.Array:
        acid, column = view.file.acid, self._column.name
        with open_data_file(view.file.uri, acid, self._known) as reader:
            bound = bind_paths(self._binding, reader.tail.schema, [column], transactional=acid is not None)
            values = reader.read_stripe(stripe, [bound[column].path]).column(0)
            return convert_array(values, bound[column].type, self._type)


def _physical(view: FileView) -> FileView:
    """A file with its deleted rows, which are indexed like the others."""
    acid = view.file.acid
    return view if acid is None else replace(view, file=replace(view.file, acid=acid.physical()))


def _spread(files: Sequence[FileView], rng: random.Random) -> list[tuple[FileView, list[int]]]:
    """A sample of stripes, as evenly over the files as there are any."""
    chosen = rng.sample(list(files), min(len(files), SAMPLED_STRIPES))
    share = max(1, SAMPLED_STRIPES // max(len(chosen), 1))
    return [
        (view, sorted(rng.sample(range(view.num_stripes), min(share, view.num_stripes)))) for view in chosen
    ]


def _tell(problems: list[str], notes: Iterable[Note]) -> None:
    told = [str(note) for note in notes if note.reason in _DAMAGE]
    problems += [text for text in dict.fromkeys(told) if text not in problems]


def _compare(
    predicate: Predicate,
    leaf: Leaf,
    values: pa.Array,
    told: Bounds,
    where: tuple[FileView, int],
    problems: list[str],
) -> None:
    """Tell of the rows of a stripe that an answer has too many, or misses, by the values."""
    truth = mask(leaf, {leaf.column: values}, len(values))
    lower, upper = _mask(told.lower, values), _mask(told.upper, values)
    wrong = int(np.count_nonzero(lower & ~truth)), int(np.count_nonzero(truth & ~upper))
    if any(wrong):
        view, stripe = where
        problems.append(
            f"wrong answer for {predicate} in stripe {stripe} of {view.file.path!r}: {wrong[0]} rows too many, "
            f"{wrong[1]} missing: drop the index, and please report it"
        )


def _mask(rows: BitMap, values: pa.Array) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(values), np.bool_)
    found[np.asarray(rows.to_array())] = True
    return found


def _probes(column: ColumnRef, values: pa.Array, rng: random.Random) -> Iterator[Predicate]:
    """Predicates that ask for nulls, for values of a stripe, and for what lies between them."""
    yield IsNull(column)
    distinct = pc.drop_null(pc.unique(values))
    chosen = rng.sample(range(len(distinct)), min(len(distinct), _SAMPLED_VALUES))
    for at in chosen:
        try:
            value = distinct[at].as_py()
            literal = of_value(value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value)
        except (ValueError, OverflowError):  # no Python value: year 10000, invalid UTF-8
            continue
        if literal is not None:
            yield Comparison(ComparisonOp.EQ, column, literal)
            yield Comparison(ComparisonOp.LE, column, literal)
