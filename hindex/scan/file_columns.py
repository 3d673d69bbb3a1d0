"""The table's columns in one data file: the columns that it has, and their values in the table's types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hindex.errors import OrcError, TableError
from hindex.index.index_type import KeyRows
from hindex.keys import are_values, key_array, one_key_array
from hindex.orc import OrcReader, RowSelection
from hindex.orc.acid.schema import acid_columns, is_row_key
from hindex.orc.decode.arrow_arrays import fixed_array
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.types import Kind, OrcType, arrow_field
from hindex.orc.reader.row_selection import Rows
from hindex.plan.filter import AllOf, Filter, Leaf
from hindex.plan.filter_evaluation import on_columns
from hindex.scan.scan_task import OutputColumn, ScanTask
from hindex.table.file_schema import bind_paths, convert_array
from hindex.table.schema import can_convert

#: The number of columns that a message lists.
_NAMED = 20


#: Kinds whose values are read in a time zone.
_TIMES = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.TIMESTAMP_NTZ})
#: The most bytes of an array of one repeated value.
_MAX_BYTES = 1 << 30


class FileColumns:
    """The columns that a task needs, as its data file has them.

    Raises:
        TableError: if the file was replaced by one with columns of other types.
    """

    def __init__(self, reader: OrcReader, task: ScanTask) -> None:
        self._reader = reader
        needed = (*task.filter_columns, *task.columns, *task.lookups)
        self._columns = tuple(column for column in needed if not column.is_partition)
        names = {column.name for column in self._columns}
        bound = bind_paths(task.binding, reader.tail.schema, names, transactional=task.acid is not None)
        types = {column.name: column.type for column in self._columns}
        # row keys, and fields of them, that the file does not have as columns of the right type
        self._keys = {
            name
            for name in names
            if task.acid is not None
            and is_row_key(name, task.binding)
            and (name not in bound or not bound[name].type.same_as(types[name]))
        }
        self._names = {name: file_path.path for name, file_path in bound.items() if name not in self._keys}
        self._types = {name: file_path.type for name, file_path in bound.items()}
        self._has_instants = task.timezone is not None
        self._acid = None if task.acid is None else acid_columns(reader.tail.schema)
        self._check_same(task)
        self._check_types(task)

    def has(self, column: str) -> bool:
        """Return True if the file has a column of the table; otherwise the column is NULL in every row."""
        return column in self._names or column in self._keys

    @property
    def is_flat(self) -> bool:
        """True if the file does not have the ACID schema, so that it stores no row keys."""
        return self._acid is None

    def is_row_key(self, column: str) -> bool:
        """Return True if a column is the row key, or a field of it, which is computed here and not stored."""
        return column in self._keys

    def type_in_file(self, column: str) -> OrcType:
        """Return the type in the file of a column that it has."""
        return self._types[column]

    def type_in_table(self, column: str) -> OrcType:
        """Return the type in the table of a column that the task needs."""
        return next(item.type for item in self._columns if item.name == column)

    def are_keys_values(self, leaf: Leaf) -> bool:
        """Return True if the values of a leaf's column follow from an index's keys, and not from the leaf alone."""
        data_type, ranges = leaf.type, leaf.domain.ranges
        return (
            leaf.column in self._names
            and not (len(ranges) == 1 and ranges[0].is_point)
            and leaf.values is None
            and not leaf.domain.null_allowed
            and are_values(data_type)
            and data_type.kind not in _TIMES
            and self.type_in_file(leaf.column).same_as(data_type)
        )

    def read(
        self, columns: Sequence[OutputColumn], stripe: int, selection: RowSelection, pool: ThreadPool
    ) -> dict[str, pa.Array]:
        """Return the values of columns at rows of a stripe, by column; nulls for a column that the file lacks.

        Raises:
            OrcError: if data cannot be read, or a value does not fit the table's type.
        """
        in_file = [column for column in columns if column.name in self._names]
        arrays = {
            column.name: pa.nulls(len(selection), self._decoded(column.type).to_arrow())
            for column in columns
            if column.name not in self._names
        }
        if in_file:
            batch = self._reader.read_stripe(
                stripe, [self._names[column.name] for column in in_file], selection, pool
            )
            arrays |= {column.name: self._cast(batch.column(i), column) for i, column in enumerate(in_file)}
        return arrays

    def stored_names(self, columns: Sequence[OutputColumn]) -> set[str]:
        """Return the names of the file columns that `read` decodes for columns of the table."""
        names = {self._names[column.name] for column in columns if column.name in self._names}
        if self._acid is not None and any(column.name in self._keys for column in columns):
            names.update(self._acid.key)
        return names

    def _cast(self, array: pa.Array, column: OutputColumn) -> pa.Array:
        try:
            in_file = self._decoded(self.type_in_file(column.name))
            return convert_array(array, in_file, self._decoded(column.type))
        except pa.ArrowException as error:
            raise OrcError(
                f"a value of the file's type {array.type} does not fit the table's {column.type}: {error}",
                path=self._reader.path,
                column=column.name,
            ) from error

    def _decoded(self, data_type: OrcType) -> OrcType:
        """Return the type that values of a stored type are read as."""
        return data_type.with_instants() if self._has_instants else data_type

    def _check_same(self, task: ScanTask) -> None:
        """Check that the file has the columns that the manifest records; otherwise it has been replaced.

        Raises:
            TableError: if it has other columns.
        """
        tail = self._reader.tail
        if task.tail_checksum in (None, tail.checksum) or tail.file_length != task.length:
            return
        root = tail.schema if self._acid is None else self._acid.user
        file_names = root.field_names
        if set(file_names) != set(task.names):
            raise TableError(
                f"data file {task.path!r} has the columns {_listed(file_names)}, and it was planned to have "
                f"{_listed(task.names)}: {self._why_replaced(task)}"
            )

    def _check_types(self, task: ScanTask) -> None:
        """Check that the file's types can be converted to the plan's; otherwise it has been replaced.

        Raises:
            TableError: if a type cannot be converted.
        """
        for column in self._columns:
            if column.name not in self._names:
                continue
            file_type = self.type_in_file(column.name)
            if not can_convert(file_type, column.type):
                raise TableError(
                    f"column {column.name!r} is {file_type} in data file {task.path!r}, which was planned to be "
                    f"{column.type}: {self._why_replaced(task)}"
                )

    def _why_replaced(self, task: ScanTask) -> str:
        if self._reader.tail.file_length != task.length:
            return "the file was replaced after the scan was planned; run the query again"
        return (
            "the file was replaced, after the scan was planned or by one of the same length and time; run the query "
            "again, and if that does not help, REFRESH INDEX before"
        )


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def output_schema(columns: Sequence[OutputColumn], *, has_instants: bool = False) -> pa.Schema:
    """Return the Arrow schema of columns to read.

    Args:
        has_instants: whether timestamps are instants, see `hindex.scan.scan_task.ScanTask`.
    """
    return pa.schema(
        [
            pa.field(column.name, column.partition_value.type)
            if column.partition_value is not None
            else arrow_field(column.name, column.type.with_instants() if has_instants else column.type)
            for column in columns
        ]
    )


def assemble_batch(
    columns: Sequence[OutputColumn],
    rows: int,
    arrays_by_name: dict[str, pa.Array],
    *,
    has_instants: bool = False,
) -> pa.RecordBatch:
    """Return a batch of ``rows`` rows: the arrays of the file's columns, and the repeated values of partitions."""
    if not columns:
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct([]), rows, [None], children=[])
        )
    schema = output_schema(columns, has_instants=has_instants)
    arrays = [
        pa.repeat(column.partition_value, rows)
        if column.is_partition
        # the constant of a column with only one value under the filter is of the stored type
        else arrays_by_name[column.name].cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def constant_values(root: Filter) -> dict[str, pa.Array]:
    """Return the columns that have one value, or NULL, in every row that a filter keeps, each as an array of one.

    Types whose equal values may differ, as -0.0 and 0.0 do, are left out.
    """
    constants: dict[str, pa.Array] = {}
    root = on_columns(root)
    for part in root.children if isinstance(root, AllOf) else (root,):
        if not isinstance(part, Leaf):
            continue
        domain = part.decoded
        if domain.null_allowed and not domain.ranges:
            constants[part.column] = pa.nulls(1, part.type.to_arrow())
        elif not domain.null_allowed and len(domain.ranges) == 1 and are_values(part.type):
            value_range = domain.ranges[0]
            if value_range.is_point:
                assert value_range.low is not None
                constants[part.column] = key_array(part.type, one_key_array(value_range.low))
    return constants


def values_at(data_type: OrcType, values: KeyRows, rows: Rows) -> pa.Array | None:
    """Return the values at ascending rows of a stripe from its keys and their rows; None if a row has no key."""
    order = np.argsort(values.rows)
    at = np.searchsorted(values.rows, rows, sorter=order)
    if len(rows) and int(at[-1]) == len(order):
        return None
    numbers = order[at]
    if not np.array_equal(values.rows[numbers], rows):
        return None
    owners = np.repeat(np.arange(len(values.counts)), values.counts)[numbers]
    keys = values.keys
    if isinstance(keys, np.ndarray):
        return key_array(data_type, keys[owners])
    return key_array(data_type, keys.take(fixed_array(pa.int64(), owners, None)))


def repeat_value(value: pa.Array, rows: int) -> pa.Array | None:
    """Repeat the value of an array of one; return None if the result is too large for one array."""
    if value.null_count:
        return pa.nulls(rows, value.type)
    return pa.repeat(value[0], rows) if value.nbytes * rows <= _MAX_BYTES else None
