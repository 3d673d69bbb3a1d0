"""Advise indexes for a workload, by a sample of the table's stripes.

Each candidate is built in memory on the sample and looked up, so that its answers are those of a real index. The
work of a query is counted in rows: the rows of every row group that it reads, weighted for decompression and for
decoding, and an amount for every file that it opens. The index that saves most is chosen first, then the one that
saves most in addition to it.

The number of distinct values is estimated from the number of values that the sample has once and twice. Source:
Chao and Lin, "Nonparametric lower bound estimation of species richness and shared species richness under sampling
without replacement", Biometrics 68, 2012.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.errors import BuildError, HindexError, TableError
from hindex.expr import constant_times
from hindex.formatting import counted, megabytes
from hindex.index.btree import IndexedFile, sample_bytes
from hindex.index.index_file import IndexFileReader
from hindex.index.index_type import (
    Bounds,
    IndexReader,
    Level,
    Operator,
    file_index_type,
    has_ngrams,
    index_type,
    resolve_properties,
)
from hindex.keys import key_kind, list_elements
from hindex.maintain.included_advice import MIN_SAVED, IncludedGain, QueryRead, RowRead, included_gain
from hindex.maintain.results import Record, records_table
from hindex.maintain.workload import Workload, ignored_text
from hindex.orc import OrcReader, RowSelection
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import (
    AllOf,
    AnyOf,
    Atom,
    Filter,
    Indexable,
    Leaf,
    Never,
    columns,
    fold,
    indexable,
    is_indexable,
    leaves,
    lookup_domains,
    residuals,
)
from hindex.plan.filter_evaluation import prune
from hindex.plan.index_columns import (
    IndexColumn,
    IndexedExpressions,
    expression_column,
    index_column,
    is_for_zones,
)
from hindex.plan.normalize import normalize
from hindex.plan.required_ngrams import has_own_ngrams
from hindex.plan.time_zones import TimeZones
from hindex.scan.orc_statistics import OrcStatistics
from hindex.scan.planning import PredicateColumns
from hindex.sql.predicate import (
    BooleanValue,
    Call,
    ColumnRef,
    Expression,
    Predicate,
    PredicateLeaf,
    operands,
    quote_name,
    quote_string,
)
from hindex.sql.predicate import columns as predicate_columns
from hindex.sql.predicate import leaves as predicate_leaves
from hindex.store.file_views import FileView
from hindex.store.manifest import IndexEntry
from hindex.store.snapshot import Snapshot
from hindex.table.file_schema import bind_paths
from hindex.table.location import reading_pool
from hindex.table.schema import path_name
from hindex.table.transactional import open_data_file
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

#: The sample: rows of one stripe of a few files. File statistics are read of more files.
SAMPLED_FILES, SAMPLED_ROWS, STATISTICS_FILES = 4, 50_000, 64

#: Distinct queries that are judged, the most frequent first.
_MAX_QUERIES = 1000

#: Work of a row of a row group that is read, for decompression, and of one that is decoded.
_GROUP_ROW, _DECODED_ROW = 0.4, 0.6
#: Work of opening a file, in rows.
_FILE_ROWS = 5_000
#: Above this share of a stripe's rows, a scan reads the column rather than the rows.
_FEW_ROWS = 0.25

#: An index that saves this share of what the best one saves is as good.
_AS_GOOD = 0.95
#: The least share of the workload's work that an index must save.
_MIN_GAIN = 0.02

#: Characters that are shown of the columns of an index.
_SHOWN_COLUMNS = 40

#: Candidates for a column. The order decides between sizes that are equal, or small.
_TYPES = ("minmax", "bitmap", "btree", "bloom", "ngram")
_SMALL_BYTES = 16_384


@value_class
class AdvisedIndex(Record):
    """An index to create.

    Args:
        column: what it is on, as `hindex.IndexSpec` takes it; the names of the included columns for ROWS.
        queries: queries of the workload that it helps.
        gain: percentage of the workload's work that it saves, beside the indexes before it; for ROWS, of the time to
            read the rows that these find.
        index_bytes: about how many bytes it takes.
        reason: why this column and type.
        statement: its CREATE INDEX.
    """

    name: str
    column: str | tuple[str, ...]
    type: str
    queries: int
    gain: float
    index_bytes: int
    reason: str
    statement: str

    @property
    def column_text(self) -> str:
        """The column, expression or list of columns as text."""
        return self.column if isinstance(self.column, str) else _listed(self.column)


def _listed(names: Iterable[str]) -> str:
    """Return names of columns as SQL lists them."""
    return ", ".join(map(quote_name, names))


@value_class
class UnusedIndex(Record):
    """An index of the table that no query of the workload uses."""

    name: str
    column: str
    type: str
    reason: str


@value_class
class Advice(Record):
    """Which indexes a workload wants. ``str()`` of it is text for people.

    Attributes:
        queries: how many conditions the advice is for; ``ignored`` says why others count for nothing.
        create: indexes to create, the most useful first.
        not_included: why no columns are advised to be included; empty if some are, or if no query says what it reads.
        unused: indexes of the table that no query uses.
        sampled_rows: rows of the table that were looked at.
    """

    table: str
    queries: int
    ignored: dict[str, int] = field(default_factory=dict)
    create: tuple[AdvisedIndex, ...] = ()
    unused: tuple[UnusedIndex, ...] = ()
    sampled_rows: int = 0
    not_included: str = ""

    @property
    def statements(self) -> list[str]:
        """The CREATE INDEX statements, the most useful first."""
        return [index.statement for index in self.create]

    def to_arrow(self) -> pa.Table:
        """Return the indexes to create, a row each."""
        return records_table(AdvisedIndex, [replace(item, column=item.column_text) for item in self.create])

    def __str__(self) -> str:
        judged = counted(self.sampled_rows, "sampled row")
        lines = [f"Indexes for {counted(self.queries, 'query')} of {self.table!r}, judged on {judged}:"]
        if self.create:
            rows = [("name", "column", "type", "queries", "gain", "size", "why")]
            rows += [
                (
                    index.name,
                    textwrap.shorten(index.column_text, _SHOWN_COLUMNS, placeholder=" ..."),
                    index.type,
                    f"{index.queries:,}",
                    f"{index.gain:.1f} %",
                    megabytes(index.index_bytes),
                    index.reason,
                )
                for index in self.create
            ]
            widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
            for row in rows:
                cells = [
                    text.rjust(width) if 3 <= at <= 5 else text.ljust(width)
                    for at, (text, width) in enumerate(zip(row, widths, strict=False))
                ]
                lines.append("  ".join(["", *cells, row[-1]]))
            lines += ["", *(f"{statement};" for statement in self.statements)]
        else:
            lines.append(f"  none: another index would save less than {100 * _MIN_GAIN:.0f} % of the work")
        if self.not_included:
            lines += ["", self.not_included]
        if self.unused:
            lines += ["", "Not used by any of these queries:"]
            lines += [f"  {item.name} ({item.type} on {item.column}): {item.reason}" for item in self.unused]
        if self.ignored:
            lines += ["", ignored_text(self.ignored)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def advise(
    table: str,
    snapshot: Snapshot,
    workload: Workload,
    estimate_bytes: Callable[[str | Sequence[str], str], int],
    zones: TimeZones | None = None,
) -> Advice:
    """Advise on the indexes of a table.

    Args:
        table: the table as statements name it.
        zones: those of the session, whose queries use no index of other time zones.
        estimate_bytes: the size of an index, by its column, or the columns that it includes, and its type.

    Raises:
        OrcError: if a sampled file cannot be read.
    """
    expressions = _expressions(workload, snapshot)
    # what an index on a column may answer is for that
    columns = dict.fromkeys(snapshot.schema.names, 1)
    texts = [item for item in expressions.values() if item.expression and has_own_ngrams(item.expression)]
    indexed = IndexedExpressions(dict.fromkeys(expressions.values(), 1), columns, ngrams=texts)
    queries, ignored = _filtered(workload, snapshot, indexed, [item.name for item in texts])
    names = sorted({leaf.column for query in queries for leaf in _indexable(query.filter, snapshot)})
    on_expressions = {name: expressions[name] for name in names if name in expressions}
    sample = _Sample(
        snapshot, names, on_expressions, {leaf for query in queries for leaf in leaves(query.filter)}
    )
    costs = _Costs(queries, sample)
    have = frozenset(
        _Candidate(name, entry.type.lower())
        for entry in snapshot.manifest.indexes
        if entry.quarantined is None
        and not entry.deferred
        and (column := _indexed_column(snapshot, entry)) is not None
        and is_for_zones(entry, column, zones)
        and (name := _judged_name(column, entry))
    )
    create: list[AdvisedIndex] = []
    total = costs.total(frozenset())
    chosen, open_columns = have, list(names)
    while (step := _next(costs, sample, open_columns, chosen, total)) is not None:
        candidate, saved, sizes = step
        # one index on a column: a second one beside it saves little
        open_columns.remove(candidate.column)
        size = estimate_bytes(candidate.column, candidate.type)
        chosen = chosen | {candidate}
        advised = _advised(candidate, saved / total, size, sizes, costs, sample, snapshot, table, create)
        create.append(advised)
    included = _included(costs, sample, chosen, snapshot, estimate_bytes)
    if included is not None and included.saved >= MIN_SAVED:
        create.append(_advised_rows_index(included, snapshot, table, create))
    return Advice(
        table=table,
        queries=sum(query.count for query in queries),
        ignored=ignored,
        create=tuple(create),
        unused=tuple(_unused(snapshot, workload, names, zones)),
        sampled_rows=sum(stripe.rows for stripe in sample.stripes),
        not_included=_why_not_included(included),
    )


def _indexed_column(snapshot: Snapshot, index: IndexEntry) -> IndexColumn | None:
    """Return what an index is on; None if the table lacks it, or if it stores columns."""
    if index.stores_columns:
        return None
    try:
        return index_column(index, snapshot.schema)
    except HindexError:
        return None


def _judged_name(column: IndexColumn, index: IndexEntry) -> str:
    """Return the name that an index is judged by: one on several columns as one on the first; "" if by none."""
    if not column.is_composite:
        return column.name
    # without ranges of keys, it answers nothing of one column
    return column.inputs[0].name if Operator.RANGE in index_type(index.type).operators else ""


# The workload


@value_class
class _Query:
    """A filter of the workload, the columns that queries with it read, if this is known, and how often it occurs."""

    filter: Filter
    is_count: bool
    columns: tuple[str, ...] | None
    count: int


@value_class
class _Candidate:
    column: str
    type: str


def _expressions(workload: Workload, snapshot: Snapshot) -> dict[str, IndexColumn]:
    """Return the expressions, and elements of arrays, that queries have conditions on, by their SQL text."""
    columns_by_text: dict[str, IndexColumn] = {}
    for leaf in {leaf for query in workload.queries for leaf in predicate_leaves(query.predicate)}:
        for part in _indexable_parts(leaf):
            with suppress(HindexError):
                column = expression_column(part, snapshot.schema)
                if column.expression is not None:
                    columns_by_text[column.name] = column
    return columns_by_text


def _indexable_parts(leaf: PredicateLeaf) -> Iterator[Expression]:
    """Yield the expressions of a condition that an index may be on."""
    match leaf:
        case BooleanValue(Call("array_contains" | "arrays_overlap", args)):
            for part in args:
                is_array = isinstance(part, Call) and part.name in ("map_keys", "map_values")
                yield part if is_array else Call("[*]", (part,))
        case _:
            yield from operands(leaf)


def _filtered(
    workload: Workload, snapshot: Snapshot, expressions: IndexedExpressions, texts: Sequence[str]
) -> tuple[list[_Query], dict[str, int]]:
    """Return the distinct filters of a workload, and what is ignored with the reasons.

    Args:
        texts: the names of the expressions whose n-grams an index may have.
    """
    ignored = dict(workload.ignored)
    resolver = PredicateColumns(snapshot.schema)
    instant = constant_times.current_instant()

    def filter_of(predicate: Predicate) -> Filter | str:
        try:
            root = normalize(predicate, resolver, instant=instant, expressions=expressions)
            return expressions.with_ngrams(root, dict.fromkeys([*columns(root), *texts], True))
        except HindexError as error:
            return str(error).partition("\n")[0]

    filters: Counter[tuple[Filter, bool, tuple[str, ...] | None]] = Counter()
    for query, count in Counter(workload.queries).items():
        root_or_reason = filter_of(query.predicate)
        if isinstance(root_or_reason, str):
            ignored[root_or_reason] = ignored.get(root_or_reason, 0) + count
        else:
            filters[root_or_reason, query.is_count, query.columns] += count
    ranked = filters.most_common()
    rest = sum(count for _, count in ranked[_MAX_QUERIES:])
    if rest:
        ignored[f"only the {_MAX_QUERIES:,} most frequent are judged"] = rest
    return [_Query(*distinct, count) for distinct, count in ranked[:_MAX_QUERIES]], ignored


def _indexable(root: Filter, snapshot: Snapshot) -> Iterable[Indexable]:
    return (
        item
        for item in indexable(root)
        if not (isinstance(item, Leaf) and key_kind(item.type) is None)
        and not snapshot.schema.is_partition(item.column)
    )


# The sample


class _Stripe:
    """Rows of one stripe, and the indexes that are built on them in memory."""

    def __init__(
        self,
        arrays: Mapping[str, pa.Array],
        types: Mapping[str, OrcType],
        rows: int,
        group_rows: int,
        column_bytes: Mapping[str, float],
        chunk: int,
    ) -> None:
        self.arrays = arrays
        self.types = types
        self.rows = rows
        self.group_rows = group_rows or max(rows, 1)
        #: Of these rows, the stored bytes of each column of the table, and the raw bytes of a chunk.
        self.column_bytes = column_bytes
        self.chunk = chunk
        self.all = BitMap(range(rows))
        self._readers: dict[_Candidate, tuple[IndexReader, int]] = {}
        self._answers: dict[tuple[_Candidate, Indexable], Bounds] = {}

    def reader(self, candidate: _Candidate) -> tuple[IndexReader, int]:
        """Return an index on these rows, and its bytes."""
        if candidate not in self._readers:
            kind = file_index_type(candidate.type)
            sink = io.BytesIO()
            builder = kind.builder(
                sink,
                self.types[candidate.column],
                properties=resolve_properties(kind, None),
                row_group_rows=self.group_rows,
            )
            builder.add_stripe(self.arrays[candidate.column])
            size = builder.finish().length
            self._readers[candidate] = (
                kind.reader(IndexFileReader(BytesSource(sink.getvalue(), "sample"))),
                size,
            )
        return self._readers[candidate]

    def answer(self, candidate: _Candidate, condition: Indexable) -> Bounds:
        """Return the answer of an index to a condition."""
        key = candidate, condition
        if key not in self._answers:
            self._answers[key] = self._answer(candidate, condition)
        return self._answers[key]

    def _answer(self, candidate: _Candidate, condition: Indexable) -> Bounds:
        kind = index_type(candidate.type)
        domains = lookup_domains(condition, on_ngrams=has_ngrams(kind))
        if not domains or condition.column not in self.arrays:
            return Bounds.unknown(self.rows)
        if isinstance(condition, Leaf) and Level.STRIPE not in kind.levels:
            return self._groups(condition)
        reader = self.reader(candidate)[0]
        return reduce(Bounds.__or__, (reader.lookup(0, domain) for domain in domains))

    def _groups(self, leaf: Leaf) -> Bounds:
        """Return the rows of the row groups that have a row of a leaf: the answer of an index of row groups."""
        matches = np.asarray(
            self.reader(_Candidate(leaf.column, "bitmap"))[0].lookup(0, leaf.domain).upper.to_array()
        )
        groups = np.unique(matches // self.group_rows)
        upper = BitMap()
        for group in groups.tolist():
            upper.add_range(group * self.group_rows, min((group + 1) * self.group_rows, self.rows))
        return Bounds(BitMap(), upper)

    def work(self, upper: BitMap) -> float:
        """Return the work of reading some rows, in rows."""
        if not upper:
            return 0.0
        groups = np.unique(np.asarray(upper.to_array()) // self.group_rows)
        sizes = np.minimum((groups + 1) * self.group_rows, self.rows) - groups * self.group_rows
        in_groups = int(sizes.sum())
        decoded = len(upper) if len(upper) <= _FEW_ROWS * self.rows else in_groups
        return _GROUP_ROW * in_groups + _DECODED_ROW * decoded


class _Sample:
    """Stripes of a few files with the columns that queries name, and the statistics of more files."""

    def __init__(
        self,
        snapshot: Snapshot,
        names: Sequence[str],
        expressions: Mapping[str, IndexColumn],
        leaf_set: Iterable[Leaf],
    ) -> None:
        self.files = [view for view in snapshot.files if view.num_rows]
        self.table_rows = sum(view.num_rows for view in self.files)
        self._binding = tuple(item.name for item in snapshot.schema.data_columns)
        self._names = names
        #: The names that are expressions.
        self.expressions = expressions
        partitioning = snapshot.listing.partitioning
        self.partitions = {view.file.path: partitioning.keys(view.file.partition) for view in self.files}
        self.views = _spread(self.files, SAMPLED_FILES)
        self.listed = _spread(self.files, STATISTICS_FILES)
        with reading_pool(view.file.uri for view in self.views) as pool:
            self.stripes = pool.map(self._stripe, range(len(self.views)))
            #: The leaves that no row satisfies, for each file whose statistics are read.
            self.out = pool.map(partial(self._ruled_out, list(leaf_set)), self.listed)
        self.scale = self.table_rows / max(sum(stripe.rows for stripe in self.stripes), 1)
        self._distinct: dict[str, int] = {}

    def distinct(self, column: str) -> int:
        """Estimate the distinct values of a column of the table."""
        if column not in self._distinct:
            arrays = [stripe.arrays[column] for stripe in self.stripes if column in stripe.arrays]
            arrays = [list_elements(item)[0] if isinstance(item, pa.ListArray) else item for item in arrays]
            values = pa.chunked_array(arrays).drop_null() if arrays else pa.chunked_array([], pa.null())
            counts = pc.value_counts(values).field("counts") if len(values) else pa.array([], pa.int64())
            self._distinct[column] = estimate_distinct(
                np.asarray(counts), sum(map(len, arrays)), self.table_rows
            )
        return self._distinct[column]

    def size(self, candidate: _Candidate) -> int:
        """Estimate the bytes of an index on the table, to compare types."""
        kind = index_type(candidate.type)
        stripes = [stripe for stripe in self.stripes if candidate.column in stripe.arrays]
        if Level.STRIPE in kind.levels:
            return round(self.scale * sum(stripe.reader(candidate)[1] for stripe in stripes))
        size = 0
        for stripe in stripes:
            file = IndexedFile("", 0, 0, stripe.group_rows, (stripe.rows,))
            size += sample_bytes(stripe.types[candidate.column], [file], [stripe.arrays[candidate.column]])
        return round(self.scale * size)

    def _stripe(self, turn: int) -> _Stripe:
        view = self.views[turn]
        acid = view.file.acid
        with open_data_file(view.file.uri, acid) as reader:
            paths = bind_paths(self._binding, reader.tail.schema, self._names, transactional=acid is not None)
            # the last stripe of a file is often a small one, so not always that, nor always the first
            number = turn % max(len(reader.stripes) - 1, 1)
            rows = min(reader.stripes[number].num_rows, SAMPLED_ROWS)
            selection = RowSelection.of(np.arange(rows), reader.stripes[number].num_rows)
            names = list(paths)
            batch = reader.read_stripe(number, [paths[name].path for name in names], selection)
            arrays = {name: batch.column(at) for at, name in enumerate(names)}
            types = {name: paths[name].type for name in names}
            for name, expression in self.expressions.items():
                column = expression.in_file(self._binding, reader.tail.schema, transactional=acid is not None)
                if column is not None:
                    # an index whose build would fail is not advised
                    with suppress(BuildError):
                        arrays[name] = column.read(reader, number, selection)
                        types[name] = column.type
            every = bind_paths(
                self._binding, reader.tail.schema, self._binding, transactional=acid is not None
            )
            footer, share = reader.stripe(number), rows / max(reader.stripes[number].num_rows, 1)
            column_bytes = {
                name: share * sum(footer.data_length(node.column) for node in path.type.walk())
                for name, path in every.items()
            }
            chunk = 0 if reader.tail.codec is None else reader.tail.block_size
            return _Stripe(arrays, types, rows, reader.tail.row_index_stride, column_bytes, chunk)

    def _ruled_out(self, leaf_list: Sequence[Leaf], view: FileView) -> frozenset[Leaf]:
        with open_data_file(view.file.uri, view.file.acid) as reader:
            return frozenset(leaf for leaf in leaf_list if self._is_ruled_out(reader, view, leaf))

    def _is_ruled_out(self, reader: OrcReader, view: FileView, leaf: Leaf) -> bool:
        paths = bind_paths(
            self._binding, reader.tail.schema, [leaf.column], transactional=view.file.acid is not None
        )
        if leaf.column not in paths:
            return False
        statistics = OrcStatistics(reader, view.file.path, [])
        result = statistics.file_result(0, leaf, paths[leaf.column].type)
        return result is not None and not result.bounds.upper


def estimate_distinct(counts: npt.NDArray[np.int64], sampled_rows: int, rows: int) -> int:
    """Estimate the distinct values of a column, to three digits where the sample is not the whole table.

    Args:
        counts: how often each value occurs in the sample.
        sampled_rows: rows of the sample, with those of NULL.
        rows: rows of the table.

    >>> estimate_distinct(np.ones(1000, np.int64), 1000, 10_000)
    10000
    """
    distinct, once, twice = len(counts), int((counts == 1).sum()), int((counts == 2).sum())
    if once == 0 or sampled_rows >= rows:
        return distinct
    unseen = once**2 / (
        2 * twice * sampled_rows / max(sampled_rows - 1, 1) + sampled_rows * once / (rows - sampled_rows)
    )
    estimate = round(distinct + unseen)
    return max(distinct, round(estimate, min(3 - len(str(estimate)), 0)))


def _spread(views: Sequence[FileView], count: int) -> list[FileView]:
    """Return so many files, spread evenly; all if there are no more."""
    if len(views) <= count:
        return list(views)
    return [views[at * len(views) // count] for at in range(count)]


# Costs


class _Costs:
    """The work of each query with some indexes."""

    def __init__(self, queries: Sequence[_Query], sample: _Sample) -> None:
        self.queries = queries
        self._sample = sample
        self._columns = [frozenset(item.column for item in indexable(query.filter)) for query in queries]
        self._cost_by_key: dict[tuple[int, frozenset[_Candidate]], float] = {}

    def total(self, indexes: frozenset[_Candidate]) -> float:
        return sum(query.count * self.query_cost(at, indexes) for at, query in enumerate(self.queries))

    def query_cost(self, at: int, indexes: frozenset[_Candidate]) -> float:
        """Return the work of one query."""
        used = frozenset(item for item in indexes if item.column in self._columns[at])
        key = at, used
        if key not in self._cost_by_key:
            self._cost_by_key[key] = self._cost(self.queries[at], used)
        return self._cost_by_key[key]

    def _cost(self, query: _Query, indexes: frozenset[_Candidate]) -> float:
        by_column = _by_column(indexes)
        exact = all(
            "bitmap" in {c.type for c in by_column.get(leaf.column, ())} for leaf in leaves(query.filter)
        )
        if query.is_count and exact and next(residuals(query.filter), None) is None:
            return 0.0
        sample = self._sample
        rows = sum(stripe.work(upper) for stripe, upper in self._upper_rows(query, by_column))
        # types that let whole files be skipped before they are opened
        summarized = {
            item.column
            for item in indexes
            if Level.STRIPE not in index_type(item.type).levels or file_index_type(item.type).summarizes
        }
        files = sum(
            _may_match(_pruned(query.filter, sample.partitions[view.file.path]), out, summarized)
            for view, out in zip(sample.listed, sample.out, strict=True)
        )
        opened = files * len(sample.files) / max(len(sample.listed), 1)
        return sample.scale * rows + _FILE_ROWS * opened

    def _upper_rows(
        self, query: _Query, by_column: Mapping[str, Sequence[_Candidate]]
    ) -> Iterator[tuple[_Stripe, BitMap]]:
        """Yield the sampled stripes with the rows that a query may match there."""
        sample = self._sample
        for stripe, view in zip(sample.stripes, sample.views, strict=True):
            yield stripe, _upper(stripe, _pruned(query.filter, sample.partitions[view.file.path]), by_column)

    def query_read(self, query: _Query, names: tuple[str, ...], indexes: frozenset[_Candidate]) -> QueryRead:
        """Return what a query reads of some columns, by the sample.

        If it matches no row there, it is taken to match as many as a value of its columns has, in scattered places.
        """
        sample, scale = self._sample, self._sample.scale
        rows_of_stripes = list(self._upper_rows(query, _by_column(indexes)))
        if not any(upper for _, upper in rows_of_stripes):
            largest = max(sample.stripes, key=lambda stripe: stripe.rows)
            # of no rows, none is read
            rows_of_stripes = [(largest, BitMap([largest.rows // 2] if largest.rows else []))]
            distinct = max((sample.distinct(item.column) for item in indexable(query.filter)), default=1)
            scale = min(scale, max(sample.table_rows / max(distinct, 1), 1.0))
        reads = [
            RowRead(
                np.asarray(upper.to_array(), np.int64),
                stripe.rows,
                stripe.group_rows,
                stripe.column_bytes,
                stripe.chunk,
            )
            for stripe, upper in rows_of_stripes
            if upper
        ]
        return QueryRead(names, query.count, reads, scale)


def _by_column(indexes: Iterable[_Candidate]) -> dict[str, list[_Candidate]]:
    by_column: dict[str, list[_Candidate]] = {}
    for item in indexes:
        by_column.setdefault(item.column, []).append(item)
    return by_column


def _pruned(root: Filter, keys: Mapping[str, int | bytes | None]) -> Filter:
    return prune(root, keys) if keys else root


def _upper(stripe: _Stripe, root: Filter, indexes: Mapping[str, Sequence[_Candidate]]) -> BitMap:
    """Return the rows that ORC's statistics and indexes leave."""

    def atom(node: Atom) -> BitMap:
        if isinstance(node, Never):
            return BitMap()
        if not is_indexable(node) or node.column not in stripe.arrays:
            return stripe.all
        upper = stripe.all
        if isinstance(node, Leaf) and key_kind(node.type) is None:
            return upper
        for candidate in (_Candidate(node.column, "minmax"), *indexes.get(node.column, ())):
            upper = upper & stripe.answer(candidate, node).upper
        return upper

    def combine(group: type[AllOf] | type[AnyOf], left: BitMap, right: BitMap) -> BitMap:
        return left & right if group is AllOf else left | right

    return fold(root, atom, combine, lambda group, value: False)


def _may_match(root: Filter, out: frozenset[Leaf], columns: set[str]) -> bool:
    """Return True if the manifest does not rule a file out, with indexes on some columns."""

    def atom(node: Atom) -> bool:
        if isinstance(node, Never):
            return False
        return not (isinstance(node, Leaf) and node.column in columns and node in out)

    def combine(group: type[AllOf] | type[AnyOf], left: bool, right: bool) -> bool:
        return left and right if group is AllOf else left or right

    return fold(root, atom, combine, lambda group, value: False)


# The choice


def _next(
    costs: _Costs, sample: _Sample, names: Sequence[str], chosen: frozenset[_Candidate], total: float
) -> tuple[_Candidate, float, dict[str, int]] | None:
    """Return the next index to create, the work that it saves, and the sizes of the types that save as much."""
    now = costs.total(chosen)
    best: tuple[float, str, dict[str, float]] | None = None
    for column in names:
        saved = {
            kind: now - costs.total(chosen | {_Candidate(column, kind)})
            for kind in _TYPES
            if _Candidate(column, kind) not in chosen and _is_possible(column, kind, sample)
        }
        best_saving = max(saved.values(), default=0.0)
        if best_saving > 0 and (best is None or best_saving > best[0]):
            best = best_saving, column, saved
    if best is None or best[0] < _MIN_GAIN * total:
        return None
    best_saving, column, saved = best
    sizes = {
        kind: sample.size(_Candidate(column, kind))
        for kind, work in saved.items()
        if work >= _AS_GOOD * best_saving
    }
    smallest = min(sizes, key=lambda kind: max(sizes[kind], _SMALL_BYTES))
    return _Candidate(column, smallest), saved[smallest], sizes


def _is_possible(column: str, kind: str, sample: _Sample) -> bool:
    types = [stripe.types[column] for stripe in sample.stripes if column in stripe.types]
    return bool(types) and all(index_type(kind).supports(data_type) for data_type in types)


def _advised(
    candidate: _Candidate,
    gain: float,
    size: int,
    as_good: Iterable[str],
    costs: _Costs,
    sample: _Sample,
    snapshot: Snapshot,
    table: str,
    before: Sequence[AdvisedIndex],
) -> AdvisedIndex:
    helped = [
        query
        for at, query in enumerate(costs.queries)
        if costs.query_cost(at, frozenset({candidate})) < costs.query_cost(at, frozenset())
    ]
    base = f"by_{re.sub('[^a-z0-9_]+', '_', candidate.column.lower()).strip('_')}"
    names = (base, f"{base}_{candidate.type}", *(f"{base}_{i}" for i in range(2, 1000)))
    name = _new_name(names, snapshot, before)
    others = [kind.upper() for kind in as_good if kind != candidate.type]
    reason = f"about {counted(sample.distinct(candidate.column), 'distinct value')}"
    if others:
        save, are = ("saves", "is") if len(others) == 1 else ("save", "are")
        reason += f"; {' and '.join(others)} {save} as much, and {are} not notably smaller"
    elif candidate.type == "ngram":
        reason += "; it finds strings by parts of them"
    elif candidate.type == "bitmap":
        reason += "; it finds the rows, where other types find row groups"
    else:
        reason += "; no other type saves as much"
    column = candidate.column
    if column not in sample.expressions:
        column = str(ColumnRef(snapshot.schema.resolve(column, is_stored=True).path))
    statement = f"CREATE INDEX {quote_name(name)} USING {candidate.type} ON {_on(table, snapshot)} ({column})"
    return AdvisedIndex(
        name=name,
        column=candidate.column,
        type=candidate.type.upper(),
        queries=sum(query.count for query in helped),
        gain=round(100 * gain, 1),
        index_bytes=size,
        reason=reason,
        statement=statement,
    )


def _included(
    costs: _Costs,
    sample: _Sample,
    indexes: frozenset[_Candidate],
    snapshot: Snapshot,
    estimate_bytes: Callable[[str | Sequence[str], str], int],
) -> IncludedGain | None:
    """Estimate what included columns save beside indexes; None if nothing."""
    if not sample.stripes:
        return None
    # an index covers the files that have all of its columns
    in_files = set.intersection(*(set(stripe.column_bytes) for stripe in sample.stripes))
    includable = {
        column.name
        for column in snapshot.schema.data_columns
        if column.name in in_files
        and index_type("rows").supports(IndexColumn.of_columns([snapshot.schema.resolve([column.name])]).type)
    } - set(_included_names(snapshot))
    # a BITMAP index answers conditions without the values of its column
    answered = {item.column for item in indexes if item.type == "bitmap"}
    queries = []
    for query in costs.queries:
        if query.columns is None or query.is_count:
            continue
        compared = [name for name in columns(query.filter) if name not in answered]
        names = tuple(name for name in dict.fromkeys((*query.columns, *compared)) if name in includable)
        queries.append(costs.query_read(query, names, indexes))
    try:
        return included_gain(queries, lambda names: estimate_bytes(names, "rows"), sample.table_rows)
    except TableError:
        # no file has all of these columns
        return None


def _included_names(snapshot: Snapshot) -> Iterator[str]:
    """Yield the columns that usable indexes include already."""
    for entry in snapshot.manifest.indexes:
        if entry.stores_columns and not entry.deferred and entry.quarantined is None and entry.where is None:
            with suppress(HindexError):
                yield from (item.name for item in index_column(entry, snapshot.schema).inputs)


def _why_not_included(gain: IncludedGain | None) -> str:
    if gain is None or gain.saved >= MIN_SAVED:
        return ""
    return (
        f"Included columns ({megabytes(gain.index_bytes)}) would save {100 * gain.saved:.0f} % of the time to read "
        f"rows: below {100 * MIN_SAVED:.0f} %, they are not advised."
    )


def _advised_rows_index(
    gain: IncludedGain, snapshot: Snapshot, table: str, before: Sequence[AdvisedIndex]
) -> AdvisedIndex:
    name = _new_name(["included", *(f"included_{i}" for i in range(2, 1000))], snapshot, before)
    return AdvisedIndex(
        name=name,
        column=gain.columns,
        type="ROWS",
        queries=gain.queries,
        gain=round(100 * gain.saved, 1),
        index_bytes=gain.index_bytes,
        reason=f"reading rows takes {100 * (1 - gain.saved):.0f} % of the time; few scattered ones come from blocks",
        statement=f"CREATE INDEX {quote_name(name)} USING rows ON {_on(table, snapshot)} ({_listed(gain.columns)})",
    )


def _new_name(names: Iterable[str], snapshot: Snapshot, before: Sequence[AdvisedIndex]) -> str:
    """Return the first name that no index has."""
    taken = {entry.name.lower() for entry in snapshot.manifest.indexes}
    taken |= {item.name.lower() for item in before}
    return next(name for name in names if name.lower() not in taken)


def _on(table: str, snapshot: Snapshot) -> str:
    """Return the table as a statement names it."""
    return table if _is_name(table, snapshot) else quote_string(table)


def _is_name(table: str, snapshot: Snapshot) -> bool:
    """Return True if the table is named by a catalog, whose schema it then has."""
    return snapshot.declared is not None


def _read_columns(workload: Workload) -> frozenset[str] | None:
    """Return the columns that queries read, in lower case; None if this is unknown of some query."""
    read: set[str] = set()
    for query in workload.queries:
        if query.columns is None:
            return None
        read.update(name.lower() for name in query.columns)
        read.update(path_name(column.parts).lower() for column in predicate_columns(query.predicate))
    return frozenset(read)


def _unused(
    snapshot: Snapshot, workload: Workload, names: Sequence[str], zones: TimeZones | None
) -> Iterable[UnusedIndex]:
    """Yield the indexes that no query uses."""
    if not workload.queries and not workload.used_indexes:
        return
    read = _read_columns(workload)
    for entry in snapshot.manifest.indexes:
        if entry.stores_columns and read is not None:
            included = {name.lower() for name in parse_type(entry.inputs).field_names}
            if read.isdisjoint(included):
                yield UnusedIndex(entry.name, entry.column, entry.type.upper(), "no query reads its columns")
        column = _indexed_column(snapshot, entry)
        if column is None:
            continue
        used = workload.used_indexes
        name = column.inputs[0].name if column.is_composite else column.name
        if name not in names:
            subject = "the expression" if entry.inputs else "the column"
            if column.is_composite:
                subject = f"its first column, {name}"
            reason = f"no query has a condition on {subject}"
        elif not is_for_zones(entry, column, zones):
            reason = "it has the values of other time zones than the session's"
        elif used is not None and entry.name not in used:
            reason = "the log names it for no query"
        else:
            continue
        yield UnusedIndex(entry.name, entry.column, entry.type.upper(), reason)
