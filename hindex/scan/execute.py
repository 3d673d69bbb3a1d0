"""Running a scan task: index lookups to row sets, row sets to rows.

Nothing here knows Spark or SQL: executors import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import HindexError, IndexFileError, NewerFormatError, OrcError, TableError
from hindex.index.base import Bounds, IndexReader
from hindex.index.open_files import open_index_file
from hindex.keys import key_kind
from hindex.orc import DecodePath, OrcReader, RowSelection
from hindex.orc.columns.arrays import bool_array
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType
from hindex.plan.evaluate import bounds, mask
from hindex.plan.filter import Leaf
from hindex.plan.reasons import Note, Reason
from hindex.scan.task import IndexUse, OutputColumn, ScanTask
from hindex.table.schema import bind_columns, common_type
from hindex.table.type_text import parse_type


@dataclass(frozen=True, slots=True)
class LeafAnswer:
    """What one stripe's index said of one leaf; ``index`` is None where the file itself has no such column."""

    leaf: Leaf
    index: str | None
    rows: int


@dataclass(slots=True)
class StripeAnswer:
    """The rows of one stripe that are certainly, and possibly, wanted.

    ``unanswered`` are the leaves that no index could answer; leaves that no longer mattered are in neither.
    """

    stripe: int
    num_rows: int
    bounds: Bounds
    answers: list[LeafAnswer] = field(default_factory=list)
    unanswered: list[Leaf] = field(default_factory=list)

    @property
    def undecided(self) -> int:
        return len(self.bounds.upper) - len(self.bounds.lower)

    def first(self, limit: int | None) -> StripeAnswer:
        """Without certain rows beyond a limit: a stripe need not give more than are asked for."""
        if limit is None or self.undecided or len(self.bounds.lower) <= limit:
            return self
        kept = BitMap(islice(self.bounds.lower, max(limit, 0)))
        return replace(self, bounds=Bounds.exactly(kept))


class OpenTask:
    """A scan task with its data file and index files open. Its stripes may be read from several threads.

    ``notes`` tell of every index that was planned but could not be used.

    :raises TableError: if the data file is gone.
    :raises OrcError: if it cannot be read.
    """

    def __init__(self, task: ScanTask) -> None:
        self.task = task
        self.notes: list[Note] = []
        try:
            self.reader = OrcReader(task.uri)
        except OrcError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise TableError(
                    f"data file {task.path!r} was deleted after the scan was planned: run the query again"
                ) from error
            raise
        self.is_fresh = (
            self.reader.tail.file_length == task.length and self.reader.tail.checksum == task.tail_checksum
        )
        at = bind_columns(task.binding, self.reader.names)
        self._file_names = {
            name: self.reader.names[i] for name, i in zip(task.binding, at, strict=True) if i is not None
        }
        try:
            self._check_types()
        except TableError:
            self.reader.close()
            raise
        self._indexes: dict[str, list[tuple[str, IndexReader]]] = {}
        if task.indexes:
            self._open_indexes()

    def close(self) -> None:
        self.reader.close()

    def __enter__(self) -> OpenTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stripes(self) -> range:
        return range(len(self.reader.stripes))

    def row_groups(self, rows: int) -> int:
        """How many row groups a stripe of so many rows has."""
        stride = self.reader.tail.row_index_stride
        return -(-rows // stride) if stride else min(rows, 1)

    def decode_paths(self, stripe: int, selection: RowSelection) -> tuple[DecodePath, ...]:
        """How the output columns of a selection would be decoded."""
        names = [self._file_names[c.name] for c in self.task.columns if c.name in self._file_names]
        return self.reader.decode_paths(stripe, names, selection)

    def answer(self, stripe: int) -> StripeAnswer:
        """Ask the indexes for the wanted rows of a stripe; no data is read."""
        count = self.reader.stripes[stripe].num_rows
        found = StripeAnswer(stripe, count, Bounds.none())

        def lookup(leaf: Leaf) -> Bounds | None:
            if leaf.column not in self._file_names:
                # a column that the file does not have is null in every row
                answer = Bounds.all(count) if leaf.domain.null_allowed else Bounds.none()
                found.answers.append(LeafAnswer(leaf, None, len(answer.upper)))
                return answer
            for name, reader in list(self._indexes.get(leaf.column, ())):
                try:
                    answer = reader.lookup(stripe, leaf.domain)
                except IndexFileError as error:
                    self._give_up(leaf.column, name, error)
                    continue
                found.answers.append(LeafAnswer(leaf, name, len(answer.upper)))
                return answer
            found.unanswered.append(leaf)
            return None

        found.bounds = bounds(self.task.filter, lookup, count)
        return found

    def read(self, answer: StripeAnswer, columns: Sequence[OutputColumn] | None = None) -> pa.RecordBatch:
        """The wanted rows of a stripe: those certain by index, and of the undecided those that match."""
        columns = self.task.columns if columns is None else columns
        lower, upper = answer.bounds.lower, answer.bounds.upper
        decoded: dict[str, pa.Array] = {}
        rows = lower
        if len(upper) > len(lower):
            candidates = RowSelection.of(upper - lower if len(lower) else upper, answer.num_rows)
            decoded = self._read_columns(answer.stripe, self.task.filter_columns, candidates)
            matches = mask(self.task.filter, decoded, len(candidates))
            matching = candidates.to_array()[matches]
            if len(lower):
                rows, decoded = lower | BitMap(matching.astype(np.uint32)), {}
            else:
                kept = bool_array(matches, None)
                wanted = {column.name for column in columns}
                decoded = {name: array.filter(kept) for name, array in decoded.items() if name in wanted}
                selection = RowSelection.of(matching, answer.num_rows)
                return self._assemble(answer.stripe, columns, selection, decoded)
        return self._assemble(answer.stripe, columns, RowSelection.of(rows, answer.num_rows), decoded)

    def count(self, answer: StripeAnswer) -> int:
        """How many rows of a stripe are wanted: no data is read where the indexes decide."""
        if not answer.undecided:
            return len(answer.bounds.lower)
        found: int = self.read(answer, ()).num_rows
        return found

    def _assemble(
        self,
        stripe: int,
        columns: Sequence[OutputColumn],
        selection: RowSelection,
        decoded: dict[str, pa.Array],
    ) -> pa.RecordBatch:
        missing = [column for column in columns if column.name not in decoded and not column.is_partition]
        found = decoded | self._read_columns(stripe, missing, selection)
        arrays = [
            pa.repeat(column.partition_value, len(selection)) if column.is_partition else found[column.name]
            for column in columns
        ]
        if not columns:
            return pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), len(selection), [None], children=[])
            )
        return pa.RecordBatch.from_arrays(arrays, schema=output_schema(columns))

    def _read_columns(
        self, stripe: int, columns: Sequence[OutputColumn], selection: RowSelection
    ) -> dict[str, pa.Array]:
        in_file = [column for column in columns if column.name in self._file_names]
        batch = self.reader.read_stripe(stripe, [self._file_names[c.name] for c in in_file], selection)
        found = {column.name: pa.nulls(len(selection), column.type.to_arrow()) for column in columns}
        for i, column in enumerate(in_file):
            array = batch.column(i)
            found[column.name] = self._cast(array, column)
        return found

    def _cast(self, array: pa.Array, column: OutputColumn) -> pa.Array:
        wanted = column.type.to_arrow()
        if array.type == wanted:
            return array
        try:
            return array.cast(wanted)
        except pa.ArrowException as error:
            raise OrcError(
                f"a value of the file's type {array.type} does not fit the table's {column.type}: {error}",
                path=self.reader.path,
                column=column.name,
            ) from error

    def _check_types(self) -> None:
        """The plan's types come from the manifest; a file that was replaced since may have others."""
        for column in (*self.task.filter_columns, *self.task.columns):
            name = self._file_names.get(column.name)
            if name is None or column.is_partition:
                continue
            found = self.reader.column_type(name)
            if not found.same_as(column.type) and common_type(column.type, found) != column.type:
                raise TableError(
                    f"column {column.name!r} is {found} in data file {self.task.path!r}, which was planned to be "
                    f"{column.type}: the file was replaced by one of the same length and time; touch it and run "
                    "the query again"
                )

    def _open_indexes(self) -> None:
        task = self.task
        if not self.is_fresh:
            self.notes.append(
                Note(
                    Reason.STALE_FILE,
                    task.path,
                    "length and time are as indexed, but the ORC tail's checksum is not: it was replaced",
                )
            )
            return
        stripe_rows = tuple(stripe.num_rows for stripe in self.reader.stripes)
        for use in task.indexes:
            name = self._file_names.get(use.column)
            if name is None:
                continue
            try:
                footer, reader = open_index_file(use.path, use.length, use.footer_checksum)
                indexed = _recorded_type(footer.column_type, use)
                if reader.stripe_rows != stripe_rows:
                    raise IndexFileError(
                        f"Index file {use.path!r} has other stripes than its data file; rebuild the index"
                    )
            except HindexError as error:
                self._note_failure(use.name, error)
                continue
            wanted = next(c.type for c in task.filter_columns if c.name == use.column)
            if not same_keys(indexed, wanted):
                self.notes.append(
                    Note(
                        Reason.TYPE_MISMATCH,
                        f"{use.name} on {task.path}",
                        f"it indexes {footer.column_type} and the table's column is {wanted}",
                    )
                )
                continue
            self._indexes.setdefault(use.column, []).append((use.name, reader))

    def _give_up(self, column: str, index: str, error: HindexError) -> None:
        """Use an index no more: a page of it could not be read."""
        self._indexes[column] = [item for item in self._indexes.get(column, []) if item[0] != index]
        self._note_failure(index, error)

    def _note_failure(self, index: str, error: HindexError) -> None:
        reason = Reason.CORRUPT
        if isinstance(error, NewerFormatError):
            reason = Reason.NEWER_FORMAT
        elif not isinstance(error, IndexFileError):
            reason = Reason.UNKNOWN_INDEX_TYPE
        elif isinstance(error.__cause__, OrcError) and isinstance(
            error.__cause__.__cause__, FileNotFoundError
        ):
            reason = Reason.INDEX_MISSING
        self.notes.append(Note(reason, f"{index} on {self.task.path}", str(error)))


def output_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """The Arrow schema of columns to read."""
    return pa.schema(
        [
            pa.field(
                column.name,
                column.partition_value.type if column.partition_value is not None else column.type.to_arrow(),
            )
            for column in columns
        ]
    )


def _recorded_type(text: str, use: IndexUse) -> OrcType:
    try:
        return parse_type(text)
    except ValueError as error:
        raise IndexFileError(
            f"Index file {use.path!r} is of a column type that cannot be read ({error}); rebuild the index"
        ) from error


def same_keys(a: OrcType, b: OrcType) -> bool:
    """Whether values of two types that are equal have equal keys, so that one's index answers for the other."""
    if a.same_as(b):
        return True
    if a.kind == Kind.DECIMAL and b.kind == Kind.DECIMAL:
        return a.scale == b.scale and key_kind(a) is key_kind(b)
    # keys of CHAR are filled with blanks to its own length
    families = (INTEGER_KINDS, STRING_KINDS - {Kind.CHAR}, frozenset({Kind.FLOAT, Kind.DOUBLE}))
    return any(a.kind in family and b.kind in family for family in families)
