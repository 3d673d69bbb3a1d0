"""A table as a PyArrow dataset: DuckDB, Polars and others push columns and filters into it.

They do not apply a filter again that they pushed. So indexes leave rows that include all that match, and PyArrow
applies the whole expression to these.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hindex.engines.arrow_expressions import TranslatedFilter, read_columns, translate_filter
from hindex.errors import (
    ArgumentTypeError,
    ColumnError,
    HindexError,
    PredicateError,
    TableError,
    UnsupportedError,
)
from hindex.explanations.explanation import Explanation
from hindex.orc.metadata.types import Kind
from hindex.plan.modes import Mode
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import TimeZones
from hindex.scan.planning import PredicateColumns, ScanPlan
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Runner
from hindex.sql.predicate import Predicate
from hindex.table.schema import ColumnName, TableSchema
from hindex.validation import short_repr, suggestion
from hindex.value_class import value_class

_LOG = logging.getLogger("hindex.engines")

#: Rows of a batch, where a consumer names no number: PyArrow's default.
BATCH_ROWS = 131_072

#: The parameters of PyArrow's scanners, of this version.
_SCANNER_PARAMETERS = tuple(inspect.signature(ds.Dataset.scanner).parameters)[1:]

#: The columns of a scanner: names, or expressions by the names of their results.
Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression]

#: The column of what PyArrow sees of a dataset that it reads without its scanner.
_PLACEHOLDER = "a dataset of hindex, which gives its rows to to_table(), to_batches() and scanner() only"


class TableScan(Protocol):
    """The part of a scan that a dataset needs."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def mode(self) -> Mode: ...

    def plan(self) -> ScanPlan: ...

    def verify_plan(self, plan: ScanPlan) -> ScanPlan: ...

    def to_batches(self) -> Iterator[pa.RecordBatch]: ...

    def count(self) -> int: ...

    def explain(self) -> Explanation: ...

    def with_undecided_rows(self) -> TableScan: ...


class ScannedTable(Protocol):
    """The part of a table that a dataset needs."""

    @property
    def name(self) -> str: ...

    def unchecked_scan(
        self,
        where: Predicate | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
    ) -> TableScan: ...


@value_class
class DatasetSchema:
    """The columns of a table, as Arrow and hindex see them, and the time zones that it was read by."""

    arrow: pa.Schema
    table: TableSchema
    zones: TimeZones | None

    @classmethod
    def of(cls, table: ScannedTable) -> DatasetSchema:
        """Read the schema of a table as it is now."""
        scan = table.unchecked_scan(limit=0)
        plan = scan.plan()
        return cls(scan.schema, plan.snapshot.schema, plan.zones)

    def translate(self, expression: pc.Expression) -> TranslatedFilter:
        """Translate a filter expression on these columns."""
        columns = PredicateColumns(self.table)
        return translate_filter(
            expression,
            self.arrow,
            lambda predicate: normalize(predicate, columns, self.zones),
            self._is_padded,
        )

    def _is_padded(self, path: tuple[str, ...]) -> bool:
        try:
            return self.table.resolve(path).type.kind is Kind.CHAR
        except HindexError:
            return True  # no predicate is on it

    def needed(self, columns: Columns | None, filter: pc.Expression | None) -> list[str]:
        """Return the columns that a scanner reads, in the table's order; all where that is unknown."""
        names: set[str] = set()
        expressions = [] if filter is None else [filter]
        if columns is None:
            return list(self.arrow.names)
        if isinstance(columns, Mapping):
            expressions += columns.values()
        else:
            names.update(columns)
        for expression in expressions:
            if not isinstance(cast("object", expression), pc.Expression):
                # PyArrow's error names the type
                return list(self.arrow.names)
            filter_names = read_columns(expression)
            if filter_names is None:
                return list(self.arrow.names)
            names |= filter_names
        if not names.issubset(self.arrow.names):
            # PyArrow's error lists the columns that there are
            return list(self.arrow.names)
        return [name for name in self.arrow.names if name in names]


class IndexedDataset(ds.InMemoryDataset):  # type: ignore[misc]
    """The rows of a table as a PyArrow dataset, each time as the table is then.

    Made by `hindex.Table.dataset`. Consumers that read a dataset through its ``scanner``, as DuckDB, Polars and
    ``pyarrow.dataset.write_dataset`` do, read its rows through indexes. It can be pickled if its table can.
    """

    # PyArrow's own part is a table of no rows: what reads it without the scanner gets an error that shows its column

    def __init__(
        self,
        table: ScannedTable,
        schema: DatasetSchema | None = None,
        filter: pc.Expression | None = None,
    ) -> None:
        super().__init__(pa.table({_PLACEHOLDER: pa.nulls(0)}))
        self._table = table
        self._schema = schema or DatasetSchema.of(table)
        self._filter = filter

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._table, self._schema, self._filter)

    def __repr__(self) -> str:
        filtered = "" if self._filter is None else f", filter={self._schema.translate(self._filter).text}"
        return f"IndexedDataset({self._table.name!r}{filtered})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, as the table was when the dataset was made."""
        return self._schema.arrow

    def scanner(
        self,
        columns: Columns | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **options: Any,  # noqa: ANN401 as PyArrow's
    ) -> ds.Scanner:
        """Return a scanner of some rows, which can be read once.

        Args:
            columns: names, or expressions by name; all columns if None.
            filter: which rows; pruned by indexes as far as these can, and applied by PyArrow.
            batch_size: rows of a batch before the filter is applied; the last one may have fewer.
            options: further options of PyArrow's scanners, of which ``use_threads`` and ``memory_pool`` count.

        Raises:
            ArgumentTypeError: for an unknown option, or a filter that is no expression.
            TableError: if the table's columns are not those of the dataset any more.
        """
        whole = self._whole(filter)
        needed = self._schema.needed(columns, whole)
        scan = self._scan(whole, needed).with_undecided_rows()
        return _scanner(scan.to_batches(), self._checked(scan, needed), columns, whole, batch_size, options)

    def count_rows(
        self,
        filter: pc.Expression | None = None,
        **options: Any,  # noqa: ANN401 as PyArrow's
    ) -> int:
        """Count the rows of a filter; without reading data where indexes decide every row."""
        whole = self._whole(filter)
        if whole is None or self._schema.translate(whole).is_exact:
            # not of strings that are not UTF-8: the scanner compares their bytes
            with suppress(PredicateError):
                return self._scan(whole, []).count()
        return int(self.scanner([], filter, **options).count_rows())

    def filter(self, expression: pc.Expression) -> Self:
        """Return the dataset of the rows of a filter."""
        return type(self)(self._table, self._schema, self._whole(expression))

    def get_fragments(
        self,
        filter: pc.Expression | None = None,
    ) -> Iterator[DatasetFragment]:
        """Yield the data files that may have rows of a filter, each as a fragment that has these rows only.

        Raises:
            FallbackError: in strict mode, where an index cannot be used.
        """
        whole = self._whole(filter)
        scan = self._scan(whole, self._schema.arrow.names).with_undecided_rows()
        # in prove mode the plan that reads everything
        plan = scan.verify_plan(scan.plan())
        schema = self._checked(scan, self._schema.arrow.names)
        mode = Mode.STRICT if scan.mode is Mode.STRICT else Mode.LENIENT
        return (
            DatasetFragment(task, replace(self._schema, arrow=schema), whole, mode) for task in plan.tasks
        )

    def explain(
        self,
        filter: pc.Expression | None = None,
        columns: Columns | None = None,
    ) -> DatasetExplanation:
        """Explain which part of a filter indexes answer, and what they leave to read.

        Raises:
            ColumnError: for an unknown column.
        """
        whole = self._whole(filter)
        for name in () if columns is None or isinstance(columns, Mapping) else columns:
            if name not in self._schema.arrow.names:
                raise ColumnError(
                    f"Column {name!r} cannot be resolved; {suggestion(name, self._schema.arrow.names)}the columns are: "
                    f"{', '.join(self._schema.arrow.names)}"
                )
        translated = None if whole is None else self._schema.translate(whole)
        scan = self._table.unchecked_scan(*self._scanned(translated, self._schema.needed(columns, whole)))
        return DatasetExplanation(
            "" if translated is None else translated.text,
            None if translated is None else translated.predicate,
            () if translated is None else translated.unsupported,
            scan.explain(),
        )

    def sort_by(self, sorting: object, **options: object) -> ds.InMemoryDataset:
        """Read all rows and return them sorted, as PyArrow's method does."""
        return ds.InMemoryDataset(self.to_table()).sort_by(sorting, **options)

    def join(self, right_dataset: object, *args: object, **options: object) -> ds.InMemoryDataset:
        """Read all rows and join them, as PyArrow's method does."""
        return ds.InMemoryDataset(self.to_table()).join(_in_memory(right_dataset), *args, **options)

    def join_asof(self, right_dataset: object, *args: object, **options: object) -> ds.InMemoryDataset:
        """Read all rows and join them, as PyArrow's method does."""
        return ds.InMemoryDataset(self.to_table()).join_asof(_in_memory(right_dataset), *args, **options)

    def replace_schema(self, schema: pa.Schema) -> Self:
        """Return the dataset, if the schema is its own.

        Raises:
            UnsupportedError: for another one, and for the parts of a union of datasets.
        """
        raise UnsupportedError(
            "a dataset of hindex has the schema of its table, and is no part of a union: read it with to_table() first"
        )

    def _whole(self, filter: pc.Expression | None) -> pc.Expression | None:
        _check_filter(filter)
        if filter is None or self._filter is None:
            return self._filter if filter is None else filter
        return self._filter & filter

    def _scan(self, filter: pc.Expression | None, columns: Sequence[str]) -> TableScan:
        """Return the scan of the rows that indexes leave, and log what was pushed."""
        translated = None if filter is None else self._schema.translate(filter)
        if _LOG.isEnabledFor(logging.INFO):
            _LOG.info("%s", _log_line(self._table.name, translated, columns))
        return self._table.unchecked_scan(*self._scanned(translated, columns))

    def _scanned(
        self, translated: TranslatedFilter | None, columns: Sequence[str]
    ) -> tuple[Predicate | None, list[ColumnName]]:
        # as tuples: a name may have dots
        return None if translated is None else translated.predicate, [(name,) for name in columns]

    def _checked(self, scan: TableScan, columns: Sequence[str]) -> pa.Schema:
        expected = pa.schema([self._schema.arrow.field(name) for name in columns])
        if scan.schema != expected:
            raise TableError(
                f"the columns of table {self._table.name!r} changed since the dataset was made: call dataset() again"
            )
        return expected


class DatasetFragment:
    """One data file of a dataset: its rows of the filter that the fragments were made with.

    Fragments are small and can be pickled: any process that can read the table's files can read them.
    """

    def __init__(
        self,
        task: ScanTask,
        schema: DatasetSchema,
        filter: pc.Expression | None,
        mode: Mode,
    ) -> None:
        self._task = task
        self._schema = schema
        self._filter = filter
        self._mode = mode

    def __repr__(self) -> str:
        return f"DatasetFragment({self._task.path!r})"

    @property
    def path(self) -> str:
        """The absolute path or URI of the data file."""
        return self._task.uri

    @property
    def physical_schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the dataset's."""
        return self._schema.arrow

    schema = physical_schema

    def scanner(
        self,
        columns: Columns | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **options: Any,  # noqa: ANN401 as PyArrow's
    ) -> ds.Scanner:
        """Return a scanner of the rows, which can be read once. See `IndexedDataset.scanner`.

        Args:
            filter: a further one, which no index is used for.
        """
        _check_filter(filter)
        both = [item for item in (self._filter, filter) if item is not None]
        whole = both[0] & both[1] if len(both) == 2 else both[0] if both else None
        needed = self._schema.needed(columns, whole)
        by_name = {column.name: column for column in self._task.columns}
        task = replace(self._task, columns=tuple(by_name[name] for name in needed))
        schema = pa.schema([self._schema.arrow.field(name) for name in needed])
        batches = Runner(self._mode).run([task], ScanTaskReader.read)
        return _scanner(batches, schema, columns, whole, batch_size, options)

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        """Return the rows as batches. Parameters are those of `scanner`."""
        batches: Iterator[pa.RecordBatch] = self.scanner(*args, **options).to_batches()
        return batches

    def to_table(self, *args: Any, **options: Any) -> pa.Table:  # noqa: ANN401
        """Return the rows as one table. Parameters are those of `scanner`."""
        return self.scanner(*args, **options).to_table()

    def count_rows(self, filter: pc.Expression | None = None) -> int:
        """Count the rows."""
        return int(self.scanner([], filter).count_rows())


@dataclass(frozen=True, slots=True, repr=False)
class DatasetExplanation:
    """The explanation of a scanner of a dataset; ``str()`` of it is text for people.

    Attributes:
        filter: the expression; "" without one.
        pushed: the predicate that indexes answer; None where every row is read.
        applied: the parts that PyArrow alone decides.
        scan: the explanation of the scan of ``pushed``.
    """

    filter: str
    pushed: Predicate | None
    applied: tuple[str, ...]
    scan: Explanation

    def __str__(self) -> str:
        lines = [("filter", self.filter or "none"), ("pushed", str(self.pushed or "nothing"))]
        if self.applied:
            lines.append(("not pushed", "; ".join(self.applied)))
        return "\n".join((*(f"{name + ':':<12}{value}" for name, value in lines), "", str(self.scan)))

    __repr__ = __str__


def _scanner(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    columns: Columns | None,
    filter: pc.Expression | None,
    batch_size: int,
    options: Mapping[str, Any],
) -> ds.Scanner:
    for name in options:
        if name not in _SCANNER_PARAMETERS:
            raise ArgumentTypeError(
                f"scanner() has no parameter {name!r}: {suggestion(name, _SCANNER_PARAMETERS)}it has "
                f"{', '.join(_SCANNER_PARAMETERS)}"
            )
    return ds.Scanner.from_batches(
        _even(batches, batch_size),
        schema=schema,
        columns=columns,
        filter=filter,
        **{name: value for name, value in options.items() if name in ("use_threads", "memory_pool")},
    )


def _check_filter(filter: pc.Expression | None) -> None:
    if filter is not None and not isinstance(cast("object", filter), pc.Expression):
        raise ArgumentTypeError(
            f"filter is {short_repr(filter)}: pass a PyArrow expression, such as pc.field('id') == 5; "
            "table.scan(where=...) takes SQL"
        )


def _even(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of so many; the last one may have fewer."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += batch.num_rows
        if size >= rows:
            *whole, rest = pa.Table.from_batches(pending).combine_chunks().to_batches(rows)
            yield from whole
            pending, size = [rest], rest.num_rows
            if size == rows:
                yield rest
                pending, size = [], 0
    if size:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches(rows)


def _in_memory(dataset: object) -> object:
    return dataset.to_table() if isinstance(dataset, IndexedDataset) else dataset


def _log_line(table: str, translated: TranslatedFilter | None, columns: Sequence[str]) -> str:
    line = f"dataset of {table}: columns {', '.join(columns) or 'none'}"
    if translated is None:
        return f"{line}; no filter"
    line += f"; filter {translated.text}; pushed {translated.predicate or 'nothing'}"
    return f"{line}; not pushed {'; '.join(translated.unsupported)}" if translated.unsupported else line
