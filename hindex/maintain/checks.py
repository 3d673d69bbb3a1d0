"""CHECK INDEXES: the state of an index and its files, and with VERIFY a comparison of its answers with the data."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.errors import DeletedFileError, HindexError, OrcError
from hindex.formatting import counted
from hindex.index.bundle import is_bundle
from hindex.index.index_file import OWN_CACHE_BYTES
from hindex.index.index_type import Bounds
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_bundle, open_index_file
from hindex.index.rows import RowsReader
from hindex.keys import list_elements
from hindex.maintain.results import CheckResult, IndexState
from hindex.maintain.verification import is_same
from hindex.orc.reader.file_cache import FileCache
from hindex.plan.filter import Indexable, Residual, indexable
from hindex.plan.filter_evaluation import mask
from hindex.plan.index_columns import expression_values, index_column, parsed
from hindex.plan.reasons import REPLACED_SINCE, Note, Reason, group_notes
from hindex.scan.planning import is_on_ngrams, plan_scan
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.sql.literals import of_value
from hindex.sql.predicate import (
    And,
    BooleanValue,
    Call,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    IsNull,
    Literal,
    LiteralKind,
    Predicate,
)
from hindex.store.file_views import FileView
from hindex.store.manifest import FileEntry, IndexEntry
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store
from hindex.table.transactional import open_data_file

#: Reasons for unusable indexes that are problems.
_DAMAGE = {
    Reason.CORRUPT,
    Reason.INDEX_MISSING,
    Reason.UNREADABLE,
    Reason.NEWER_FORMAT,
    Reason.UNKNOWN_INDEX_TYPE,
    Reason.STALE_FILE,
}

#: Number of stripes that VERIFY reads for an index.
SAMPLED_STRIPES = 10
#: Number of values that are looked up for a stripe.
_SAMPLED_VALUES = 6
#: Characters of the parts of sampled strings.
_PART_CHARACTERS = 8
#: Maximum number of files that a note names.
_NAMED_FILES = 3


class CheckedIndex(Protocol):
    """The part of `hindex.Index` that a check needs."""

    num_files: int
    num_fresh_files: int
    num_changed_files: int
    num_added_files: int
    num_gone_files: int
    rows_covered: float
    files_without_column: tuple[str, ...]
    ignored_files: tuple[str, ...]

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
    def problem(self) -> str:
        """Return why the index cannot be used; empty if it can."""

    @property
    def state(self) -> IndexState:
        """Return the state of the index."""


def check_index(
    index: CheckedIndex, store: Store, snapshot: Callable[[], Snapshot] | None = None
) -> CheckResult:
    """Check an index against its table.

    Args:
        snapshot: returns the current snapshot of the table, to compare a sample of stripes with the index.

    Raises:
        StoreError: if the store cannot be read.
    """
    problems: list[str] = [index.problem] if index.problem else []
    damaged: list[str] = []
    verified = 0
    state = index.state
    manifest = store.load()
    entry = None if manifest is None else manifest.find_index(index.name)
    if manifest is not None and entry is not None:
        for path, problem in damaged_files(store, manifest.files, entry, store.index_files()):
            damaged.append(path)
            problems.append(problem)
    if snapshot is not None and index.num_fresh_files and entry is not None:
        current = snapshot()
        verified = verify_index(current, current.manifest.index(index.name), problems, damaged=damaged)
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
        problems=tuple(problems),
        notes=(*_ignored_files(index), *(() if snapshot is None else _skipped_files(index))),
    )


def damaged_files(
    store: Store, entries: Iterable[FileEntry], index: IndexEntry, present: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield the files of an index that are missing, cut or not accessible: path and problem.

    Args:
        entries: those of the data files that count.
        present: the store's index files, with their lengths.
    """
    named: set[tuple[str, int, str]] = set()
    bundles: dict[str, list[FileEntry]] = {}
    for entry in entries:
        own, shared = entry.index_file(index.id), entry.shared_index(index.id)
        if own is not None and is_bundle(own.path):
            bundles.setdefault(own.path, []).append(entry)
        elif own is not None:
            named.add((own.path, own.length, f" of {entry.path!r}"))
        if shared is not None:
            named.update((file.path, file.length, "") for file in shared.files)
    for path, length, data_file in sorted(named):
        size = present.get(path)
        if size != length:
            problem = "is missing" if size is None else f"has {size} bytes in place of {length}"
            yield path, f"index file {path!r}{data_file} {problem}: ALTER INDEX ... REBUILD writes it again"
        elif denial := store.access_problem(path):
            yield path, f"index file {path!r}{data_file} cannot be read: {denial}; check its access"
    for path, members in sorted(bundles.items()):
        problem = "is missing" if path not in present else _bundle_problem(store, path, index, members)
        if problem:
            data_files = f"of {members[0].path!r}" + (
                f" and {len(members) - 1:,} more" if members[1:] else ""
            )
            yield path, f"index file {path!r} {data_files} {problem}: ALTER INDEX ... REBUILD writes it again"


def _bundle_problem(store: Store, path: str, index: IndexEntry, members: Sequence[FileEntry]) -> str:
    """Return the problem of a file that has the index files of several data files; "" if it has them all."""
    try:
        files = open_bundle(store.absolute(path), Cache(0)).files
    except HindexError as error:
        return f"cannot be used ({error})"
    recorded = (member.index_file(index.id) for member in members)
    missing = sum(file is not None and (file.length, file.footer_checksum) not in files for file in recorded)
    return f"lacks {counted(missing, 'index file')}" if missing else ""


def verify_index(
    snapshot: Snapshot,
    entry: IndexEntry,
    problems: list[str],
    *,
    damaged: Collection[str] = (),
    remedy: str = "drop the index, and please report it",
) -> int:
    """Compare an index's answers for sampled stripes with their values, and return the number of stripes.

    Args:
        problems: receives damage and wrong answers.
        damaged: paths of index files whose damage is reported already.
        remedy: what helps against a wrong answer.
    """
    return _Verifier(snapshot, entry, problems, damaged, remedy).run()


def _ignored_files(index: CheckedIndex) -> Iterator[str]:
    """Yield a note about files that are no part of the table."""
    yield from (
        group.message
        for group in group_notes(Note(Reason.IGNORED_FILE, path) for path in index.ignored_files)
    )


def _skipped_files(index: CheckedIndex) -> Iterator[str]:
    """Yield notes about files that VERIFY does not compare."""
    paths = index.files_without_column
    if paths:
        named = ", ".join(map(repr, paths[:_NAMED_FILES]))
        more = len(paths) - _NAMED_FILES
        yield (
            f"{counted(len(paths), 'file')} without {index.column!r} not compared, a column is missing there: "
            f"{named}{f' and {more:,} more' if more > 0 else ''}"
        )


class _Verifier:
    """Compares an index's answers for sampled stripes with their values, bypassing caches. See `verify_index`."""

    def __init__(
        self,
        snapshot: Snapshot,
        entry: IndexEntry,
        problems: list[str],
        damaged: Collection[str],
        remedy: str,
    ) -> None:
        self._damaged = damaged
        self._snapshot = replace(snapshot, manifest=replace(snapshot.manifest, indexes=(entry,)))
        self._entry = entry
        self._problems = problems
        self._remedy = remedy
        self._on = index_column(entry, snapshot.schema)
        self._binding = tuple(item.name for item in snapshot.schema.data_columns)
        self._rng = random.Random()  # noqa: S311 no secret
        # own caches: those of the process may hold pages and tails of files that changed on disk
        self._cache = Cache(OWN_CACHE_BYTES)
        self._file_cache = FileCache(0)

    def run(self) -> int:
        """Compare, and return the number of stripes for which the index gave answers."""
        files = [
            view
            for view in self._snapshot.files
            if view.is_listed_fresh
            and view.entry
            and view.entry.is_covered_by(self._entry.id)
            # after a change of the table's columns, the indexed column may be in other files only
            and all(view.kind.has_column(self._binding, item.name) for item in self._on.inputs)
            and not ((file := view.entry.index_file(self._entry.id)) and file.path in self._damaged)
        ]
        verified = 0
        for view, stripes in _sample_stripes(files, self._rng):
            file_snapshot = replace(self._snapshot, files=(_physical(view),), vanished=())
            for stripe in stripes:
                try:
                    if self._entry.stores_columns:
                        verified += self._verify_rows(view, stripe)
                    else:
                        verified += self._verify_stripe(file_snapshot, view, stripe)
                except DeletedFileError:
                    break
                except HindexError as error:
                    if str(error) not in self._problems:
                        self._problems.append(str(error))
        return verified

    def _verify_stripe(self, snapshot: Snapshot, view: FileView, stripe: int) -> bool:
        """Compare the answers of the index alone for a stripe; return True if it gave any."""
        inputs = self._inputs(view, stripe)
        if inputs is None:
            return False
        has_answers = False
        names = [item.path for item in self._on.inputs]
        for predicate in self._probes(inputs):
            plan = plan_scan(snapshot, predicate, names, cache=self._cache, zones=lambda: self._on.zones)
            # planning reads an index of many files, tasks read the others
            self._report_damage(plan.notes)
            if not plan.tasks:
                # planning skipped the file: no row may match
                for leaf in indexable(plan.filter):
                    self._compare(predicate, leaf, inputs, Bounds.none(), (view, stripe))
            for task in plan.tasks:
                with ScanTaskReader(task, self._cache) as opened:
                    for leaf in indexable(task.filter):
                        for _, bounds in opened.lookup_each(stripe, leaf):
                            has_answers = True
                            self._compare(predicate, leaf, inputs, bounds, (view, stripe))
                    self._report_damage(opened.notes)
        return has_answers

    def _verify_rows(self, view: FileView, stripe: int) -> bool:
        """Compare the columns that the index stores of a stripe; return True if they could be read."""
        inputs = self._inputs(view, stripe)
        file = None if view.entry is None else view.entry.index_file(self._entry.id)
        if inputs is None or file is None:
            return False
        path = self._snapshot.store.absolute(file.path)
        reader = open_index_file(path, file.length, file.footer_checksum, self._cache).reader
        assert isinstance(reader, RowsReader)
        rows = np.arange(len(next(iter(inputs.values()))))
        stored = reader.read(stripe, rows, range(len(inputs)))
        for (name, array), other in zip(inputs.items(), stored, strict=True):
            if not is_same(*(pa.RecordBatch.from_arrays([item], [name]) for item in (other, array))):
                self._problems.append(
                    f"wrong values of {name} in stripe {stripe} of {view.file.path!r}: {self._remedy}"
                )
        return True

    def _probes(self, inputs: Mapping[str, pa.Array]) -> Iterator[Predicate]:
        """Yield conditions on the index's column or expression, of values that a stripe has."""
        (first, *_) = self._on.inputs
        values = inputs[first.name]
        if self._on.expression is None:
            yield from _probes(ColumnRef(first.path), values, self._rng, has_parts=is_on_ngrams(self._entry))
            return
        if self._on.is_composite:
            columns = [(ColumnRef(item.path), inputs[item.name]) for item in self._on.inputs]
            yield from _composite_probes(columns, self._rng)
            return
        subject, values = parsed(self._on.name), expression_values(self._on, inputs, len(values))
        if not self._on.has_lists:
            yield from _probes(subject, values, self._rng, has_parts=is_on_ngrams(self._entry))
            return
        for literal in _sampled(list_elements(values)[0], self._rng):
            yield BooleanValue(Call("array_contains", (subject, literal)))

    def _compare(
        self,
        predicate: Predicate,
        leaf: Indexable,
        inputs: Mapping[str, pa.Array],
        bounds: Bounds,
        location: tuple[FileView, int],
    ) -> None:
        """Report the rows of a stripe that the index's answer has too many, or misses."""
        if isinstance(leaf, Residual):
            # its condition has no value for a string that is not UTF-8
            inputs = {name: _valid_strings(array) for name, array in inputs.items()}
        rows = len(next(iter(inputs.values())))
        truth = mask(leaf, inputs, rows)
        lower, upper = _mask(bounds.lower, rows), _mask(bounds.upper, rows)
        surplus, missing = int(np.count_nonzero(lower & ~truth)), int(np.count_nonzero(truth & ~upper))
        if surplus or missing:
            view, stripe = location
            self._problems.append(
                f"wrong answer for {predicate} in stripe {stripe} of {view.file.path!r}: "
                f"{counted(surplus, 'row')} too many, {missing} missing: {self._remedy}"
            )

    def _report_damage(self, notes: Iterable[Note]) -> None:
        for note in notes:
            text = str(note)
            is_known = text in self._problems or any(path in text for path in self._damaged)
            if note.reason in _DAMAGE and note.detail != REPLACED_SINCE and not is_known:
                self._problems.append(text)

    def _inputs(self, view: FileView, stripe: int) -> dict[str, pa.Array] | None:
        """Read the columns; return None if the file was replaced or deleted since it was listed."""
        acid = view.file.acid
        try:
            opened = open_data_file(view.file.uri, acid, self._file_cache)
        except OrcError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        with opened as reader:
            if reader.tail.file_length != view.file.length or reader.has_other_mtime(view.file.mtime_ns):
                return None
            column = self._on.in_file(self._binding, reader.tail.schema, transactional=acid is not None)
            assert column is not None
            return column.read_inputs(reader, stripe)


def _physical(view: FileView) -> FileView:
    """Return a file with its deleted rows, which are indexed like the others."""
    acid = view.file.acid
    return view if acid is None else replace(view, file=replace(view.file, acid=acid.physical()))


def _sample_stripes(files: Sequence[FileView], rng: random.Random) -> list[tuple[FileView, list[int]]]:
    """Return a sample of stripes, distributed evenly over the files."""
    chosen = rng.sample(list(files), min(len(files), SAMPLED_STRIPES))
    share = max(1, SAMPLED_STRIPES // max(len(chosen), 1))
    return [
        (view, sorted(rng.sample(range(view.num_stripes), min(share, view.num_stripes)))) for view in chosen
    ]


def _mask(rows: BitMap, count: int) -> npt.NDArray[np.bool_]:
    selected = np.zeros(count, np.bool_)
    selected[np.asarray(rows.to_array())] = True
    return selected


def _valid_strings(strings: pa.Array) -> pa.Array:
    """Return strings with NULL in the place of those that are not UTF-8."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        is_valid = [item is not None and _is_utf8(item) for item in strings.cast(pa.binary()).to_pylist()]
        return pc.if_else(pa.array(is_valid), strings, pa.scalar(None, strings.type))
    return strings


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _probes(
    column: Expression, values: pa.Array, rng: random.Random, *, has_parts: bool
) -> Iterator[Predicate]:
    """Yield predicates for nulls, for sampled values of a stripe, ranges up to them, and parts of strings."""
    yield IsNull(column)
    for literal in _sampled(values, rng):
        yield Comparison(ComparisonOp.EQ, column, literal)
        yield Comparison(ComparisonOp.LE, column, literal)
        if has_parts and isinstance(literal.value, str):
            part = Literal(literal.value[1 : 1 + _PART_CHARACTERS], LiteralKind.STRING)
            yield BooleanValue(Call("contains", (column, part)))


def _composite_probes(
    columns: Sequence[tuple[ColumnRef, pa.Array]], rng: random.Random
) -> Iterator[Predicate]:
    """Yield predicates for the values of sampled rows in all columns but the last one, and probes of that."""
    rows = len(columns[0][1])
    for row in rng.sample(range(rows), min(rows, _SAMPLED_VALUES)):
        *first, (last, last_values) = [(column, values.slice(row, 1)) for column, values in columns]
        equal: list[Predicate] = []
        for column, value in first:
            literals = _sampled(value, rng)
            equal += [Comparison(ComparisonOp.EQ, column, literal) for literal in literals]
            equal += [IsNull(column)] if value.null_count else []
        if len(equal) == len(first):
            for probe in _probes(last, last_values, rng, has_parts=False):
                yield And((*equal, probe))


def _sampled(values: pa.Array, rng: random.Random) -> Iterator[Literal]:
    """Yield the literals of some distinct values."""
    distinct = pc.drop_null(pc.unique(values))
    for at in rng.sample(range(len(distinct)), min(len(distinct), _SAMPLED_VALUES)):
        try:
            value = distinct[at].as_py()
            literal = of_value(value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value)
        except (ValueError, OverflowError):  # no Python value: year 10000, invalid UTF-8
            continue
        if literal is not None:
            yield literal
