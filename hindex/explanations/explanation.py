"""Explanations: the decisions of a scan as a value, as text, as JSON and as HTML for notebooks.

`hindex.explanations.scan_explanation` makes an `Explanation`; this module reads no data, files or indexes.
"""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any

from hindex.index.page_cache import CacheCounts
from hindex.plan.filter import AllOf, AnyOf, Filter, Indexable, Leaf, Residual
from hindex.plan.reasons import Note, NoteGroup, Reason, group_notes
from hindex.value_class import value_class

#: The version of the JSON form: it increases when a key's meaning changes, not when keys are added.
JSON_VERSION = 1


_WIDTH = 100


_INDENT = "  "


#: The most characters of the predicate as written; its tree follows anyway.
_HEADER_PREDICATE = 300


#: The greatest width of a predicate before the columns to its right.
_PREDICATE_WIDTH = 48


# Text and lines have the page's own colour, and fills are visible on light and on dark pages.
STYLE = """
.hindex{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:72em}
.hindex h4{margin:.9em 0 .3em;font-size:1em}
.hindex table{border-collapse:collapse;background:none;color:inherit}
.hindex th,.hindex td{text-align:left;vertical-align:top;padding:.1em .9em .1em 0;border:0}
.hindex th,.hindex td{background:none;color:inherit}
.hindex th{font-weight:600;opacity:.75}
.hindex td.n{text-align:right;font-variant-numeric:tabular-nums}
.hindex code{font:12px/1.4 ui-monospace,monospace;background:none;color:inherit}
.hindex .why{opacity:.8}
.hindex .map td{padding-right:.7em;white-space:nowrap}
.hindex .map td:last-child{white-space:normal;line-height:11px}
.hindex i{display:inline-block;width:9px;height:9px;margin:0 1px 1px 0;border-radius:1px;background:#8884}
.hindex i.i{background:#2f9e6e}.hindex i.s{background:#e39a2d}.hindex i.w{background:#3f7fd1}
""".strip()


_CLASSES = {".": "", "i": ' class="i"', "s": ' class="s"', "w": ' class="w"'}


#: The states of a row group in `StripeMap.cells`.
SKIPPED, BY_INDEX, SELECTED, WHOLE = ".isw"


MEANINGS = {
    SKIPPED: "skipped",
    BY_INDEX: "answered without reading",
    SELECTED: "read in part",
    WHOLE: "read whole",
}


#: The most stripes, and the most row groups, that a map shows.
MAX_STRIPES = 300


MAX_CELLS = 20_000


@value_class
class StripeMap:
    """One stripe, with its ``number`` from 0 and a character for each row group."""

    number: int
    cells: str


@value_class
class FileMap:
    """One data file. It has no stripes if it was skipped before it was opened."""

    path: str
    stripes: tuple[StripeMap, ...] = ()
    is_skipped: bool = False


@value_class
class TableMap:
    """The files that are shown, in order of path, and the numbers of hidden files, stripes and row groups."""

    files: tuple[FileMap, ...] = ()
    more_files: int = 0
    more_stripes: int = 0
    more_groups: int = 0

    def __str__(self) -> str:
        """Describe the part that is not shown; "" if all is shown."""
        counts = (
            (self.more_files, "file", "files"),
            (self.more_stripes, "stripe", "stripes"),
            (self.more_groups, "row group", "row groups"),
        )
        parts = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count]
        return f"not shown: {', '.join(parts)}" if parts else ""


def table_map(files: Iterable[FileMap]) -> TableMap:
    """Return the map of a table's files, truncated if it is too large."""
    shown: list[FileMap] = []
    stripes = cells = more_files = more_stripes = more_groups = 0
    for file in files:
        kept = []
        for stripe in file.stripes:
            room = MAX_CELLS - cells
            if stripes >= MAX_STRIPES or not room:
                more_stripes += 1
                more_groups += len(stripe.cells)
                continue
            kept.append(StripeMap(stripe.number, stripe.cells[:room]))
            more_groups += max(len(stripe.cells) - room, 0)
            cells += len(kept[-1].cells)
            stripes += 1
        if kept or (not file.stripes and stripes < MAX_STRIPES):
            stripes += not file.stripes
            shown.append(FileMap(file.path, tuple(kept), file.is_skipped))
        else:
            more_files += 1
    return TableMap(tuple(shown), more_files, more_stripes, more_groups)


class ReadPath(enum.Enum):
    """The way the rows are read; the value is shown to users."""

    NOTHING = "nothing: no row can match"
    INDEX_ONLY = "indexes only: no column is read"
    INDEX_ROWS = "indexes only: the columns are read from ROWS indexes"
    INDEX_AND_KEYS = "indexes and the row keys of deletes: no column of the table is read"
    SELECTED_ROWS = "selected rows: only the rows that are needed are decoded"
    FULL_SCAN = "full scan: no index is used"


@value_class
class RowCount:
    """A number of remaining items out of a total; None if unknown."""

    kept: int | None
    total: int | None

    def __str__(self) -> str:
        kept = "?" if self.kept is None else f"{self.kept:,}"
        total = "?" if self.total is None else f"{self.total:,}"
        return f"{kept} of {total}"

    @property
    def share(self) -> float | None:
        """The share from 0.0 to 1.0; None if it is unknown or the total is 0."""
        return None if self.kept is None or not self.total else self.kept / self.total

    @property
    def percent(self) -> str:
        """The share with two decimal places, but never 0 % for some items, or 100 % for less than all."""
        share = self.share
        if share is None:
            return ""
        if 0 < share < 0.00005:
            return "<0.01%"
        return ">99.99%" if 0.99995 <= share < 1 else f"{share:.2%}"


@value_class
class IndexAnswer:
    """The answer of one source to a leaf, and the rows that may match by it and the sources before it.

    ``index`` is None for statistics of the data files: ``index_type`` then names these, and ``row_groups`` are the
    row groups that may match, of those that were tested; None if none were.
    """

    index: str | None
    index_type: str | None
    rows: int
    row_groups: RowCount | None = None

    def __str__(self) -> str:
        words = " ".join(word for word in (self.index_type, self.index) if word)
        if self.row_groups is None or self.row_groups.kept is None or self.row_groups.total is None:
            return words
        out = self.row_groups.total - self.row_groups.kept
        return f"{words} (rules out {out:,} of {self.row_groups.total:,} row groups)"


@value_class
class LeafExplanation:
    """The decision about one leaf of the predicate: by an index, by partition values, or by none for a reason.

    Args:
        index: the name of the index, the last one of several; or None.
        index_type: ``BITMAP`` and so on, ``PARTITION`` if directory names decided, or the statistics of the data
            file that decided.
        exact: True if the rows are certain, so that no data is checked.
        rows: the rows that may match, or None if unknown.
        reason: the reason why no index, or not only an index, was used.
        sources: the indexes and statistics that were looked up, in order; may be empty if there is at most one.
    """

    index: str | None = None
    index_type: str | None = None
    exact: bool = False
    rows: int | None = None
    reason: Reason | None = None
    sources: tuple[IndexAnswer, ...] = ()

    @property
    def by(self) -> str:
        """The source of the decision in words."""
        if self.sources:
            return ", ".join(map(str, self.sources))
        return " ".join(word for word in (self.index_type, self.index) if word) or "no index"

    def __str__(self) -> str:
        parts = [self.by]
        if self.index_type:
            parts.append("exact" if self.exact else "may match")
        if self.rows is not None:
            parts.append(f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}")
        if self.reason is not None:
            parts.append(self.reason.name)
        return "  ".join(parts)


@value_class
class ExplainedNode:
    """A node of the predicate's tree: ``kind`` is AND, OR, LEAF, TRUE or FALSE.

    Leaves have ``text`` and ``answer``; AND and OR have ``children``.
    """

    kind: str
    text: str = ""
    children: tuple[ExplainedNode, ...] = ()
    answer: LeafExplanation | None = None


def explain_filter(root: Filter, answers: Mapping[Indexable, LeafExplanation] | None = None) -> ExplainedNode:
    """Return the tree of a filter. A leaf has no answer if the rest of the tree decided.

    Args:
        answers: the decision about each leaf; leaves with equal column and domain share one. Expressions without
            an answer are checked on rows.
    """
    answers_by_node = answers or {}
    if isinstance(root, Leaf):
        return ExplainedNode("LEAF", str(root), (), answers_by_node.get(root))
    if isinstance(root, Residual):
        unsupported = LeafExplanation(reason=Reason.UNSUPPORTED_PREDICATE)
        return ExplainedNode("LEAF", str(root), (), answers_by_node.get(root, unsupported))
    if isinstance(root, AllOf | AnyOf):
        kind = "AND" if isinstance(root, AllOf) else "OR"
        return ExplainedNode(
            kind, "", tuple(explain_filter(child, answers_by_node) for child in root.children)
        )
    return ExplainedNode(str(root))


@value_class
class Analyzed:
    """The cost of running a query.

    Args:
        seconds: the elapsed time.
        steps: the seconds of each step, summed over threads, so that their total may be greater.
        ranges: the requests to data files, which fetched ``bytes_fetched``.
        chunks: the chunks of these bytes that were decompressed, to ``bytes_decompressed``.
        row_groups: the row groups that were decoded through the row index, counted once for each column.
        whole_columns: the columns of stripes that were decoded from their first row on.
        index_pages: the pages read from index files, with ``index_bytes``; ``cache_hits`` more were in memory.
    """

    rows: int
    seconds: float
    steps: tuple[tuple[str, float], ...]
    ranges: int
    bytes_fetched: int
    chunks: int
    bytes_decompressed: int
    row_groups: int
    whole_columns: int
    index_pages: int
    index_bytes: int
    cache_hits: int
    cache_misses: int

    def lines(self) -> list[tuple[str, str]]:
        """Return the names and formatted values, for display."""
        return [
            ("rows", f"{self.rows:,} returned"),
            ("time", f"{1000 * self.seconds:,.1f} ms"),
            *((f"- {name}", f"{1000 * seconds:,.1f} ms") for name, seconds in self.steps),
            (
                "data files",
                f"{self.bytes_fetched:,} bytes in {self.ranges:,} ranges, file tails and row indexes included",
            ),
            (
                "decoded",
                (
                    f"{self.chunks:,} chunks to {self.bytes_decompressed:,} bytes: "
                    f"{self.row_groups:,} row groups, {self.whole_columns:,} whole columns"
                ),
            ),
            ("index files", f"{self.index_bytes:,} bytes in {self.index_pages:,} pages"),
            ("cache", f"{self.cache_hits:,} found in memory, {self.cache_misses:,} not"),
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The explanation of a scan of one table.

    Args:
        table: the table as the user wrote it.
        predicate: the WHERE clause as understood, or "" without one.
        tree: `explain_filter` of its filter.
        columns: the returned columns.
        files, stripes, row_groups, rows, bytes: the amounts to read, out of the table's.
        path: the way the rows are read.
        exact: whether indexes alone decided every row, so that no predicate is checked on data.
        fixed: the columns that are not read because the predicate allows only one value.
        from_indexes: the columns that are not read because an index has their values.
        included: the indexes of type ROWS, and the columns that are read from them in place of the data.
        notes: the indexes, files and shortcuts that were not used, in any order, duplicates allowed.
        cache: the counts of cached and read parts of index files; in JSON only, as they differ between runs.
        group: the grouping columns, or "".
        order: the order of the rows, or "".
        limit: the most rows; None for all.
        offset: the number of rows that are skipped first.
        analyzed: the cost of running it, if it was run.
        table_map: the state of each row group; in HTML only.
        shown: the returned columns in SQL spelling; if empty, their names are used.
        spelled: the columns of the table whose SQL spelling differs from their name, with that spelling.
        deleted, invisible: the rows of a transactional table that indexes keep, and that are deleted or belong to
            a transaction that is not visible.
    """

    table: str
    predicate: str
    tree: ExplainedNode
    path: ReadPath
    files: RowCount
    stripes: RowCount
    row_groups: RowCount | None = None
    rows: RowCount | None = None
    bytes: RowCount | None = None
    columns: tuple[str, ...] = ()
    exact: bool = False
    notes: tuple[Note, ...] = field(default=())
    cache: CacheCounts | None = None
    group: str = ""
    order: str = ""
    limit: int | None = None
    offset: int = 0
    analyzed: Analyzed | None = None
    table_map: TableMap | None = field(default=None, repr=False)
    deleted: int = 0
    invisible: int = 0
    fixed: tuple[str, ...] = ()
    from_indexes: tuple[str, ...] = ()
    included: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shown: tuple[str, ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()

    def header(self) -> list[tuple[str, str]]:
        """Return the names and values of the query's parts."""
        shown = textwrap.shorten(self.predicate, _HEADER_PREDICATE, placeholder=" …")
        parts = [
            ("columns", ", ".join(self.shown or self.columns)),
            ("where", shown),
            ("group by", self.group),
            ("order by", self.order),
            ("limit", "" if self.limit is None else f"{self.limit:,}"),
            ("offset", f"{self.offset:,}" if self.offset else ""),
        ]
        return [(name, text) for name, text in parts if text]

    @property
    def reading(self) -> str:
        """The way rows are read, in words."""
        if self.limit == 0:
            return "nothing: the limit is 0"
        if self.files.total == 0:
            return "nothing: the table has no ORC files"
        if self.path is ReadPath.NOTHING and (self.deleted or self.invisible):
            return "nothing: every row that can match is deleted or not visible"
        return self.path.value

    @property
    def checked(self) -> str:
        """A sentence that says whether rows are checked after the index lookups."""
        return (
            "exact: nothing is left to check" if self.exact else "the predicate is checked on undecided rows"
        )

    @property
    def columns_not_read(self) -> list[str]:
        """The columns that are not read from data files, in words, one line for each reason."""
        spelled = dict(self.spelled)
        by_reason = {
            "constant under the predicate": self.fixed,
            "an index has their values": self.from_indexes,
        }
        return [
            f"not read ({reason}): {', '.join(spelled.get(name, name) for name in names)}"
            for reason, names in by_reason.items()
            if names
        ] + [
            f"read from the blocks of {index}: {', '.join(spelled.get(name, name) for name in names)}"
            for index, names in self.included
        ]

    def note_groups(self) -> tuple[NoteGroup, ...]:
        """Return the notes grouped by reason."""
        spelled = dict(self.spelled)
        return group_notes(
            replace(note, subject=spelled.get(note.subject, note.subject))
            if note.reason.noun == "column"
            else note
            for note in self.notes
        )

    def to_html(self) -> str:
        """Return HTML without scripts, with a map of the table; notebooks display it automatically."""
        return explanation_html(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self) -> str:
        """Return plain text, at most 100 characters wide unless a name is longer."""
        lines = [f"Scan of {self.table}"]
        for name, text in self.header():
            lines += _wrapped(f"{name:<10} {text}", hang=11)
        lines += ["", "Predicate"]
        rows = _tree_rows(self.tree, 0)
        width = min(_PREDICATE_WIDTH, max(len(text) for text, _ in rows))
        for text, answer in rows:
            shown = text if len(text) <= width or not answer else f"{text[: width - 1]}…"
            lines.append(f"{_INDENT}{shown:<{width}}  {answer}".rstrip())
        lines += ["", "Kept"]
        counts = [(name, count) for name, count in self.counts() if count is not None]
        number_width = max(len(str(count)) for _, count in counts)
        for name, count in counts:
            share = "" if count.share is None else f"{count.percent:>8}"
            lines.append(f"{_INDENT}{name:<11}{count!s:>{number_width}}{share}")
        for name, removed in (("deleted", self.deleted), ("not seen", self.invisible)):
            if removed:
                lines.append(f"{_INDENT}{name:<11}{removed:>{number_width},}")
        lines += ["", "Read", f"{_INDENT}{self.reading}", f"{_INDENT}{self.checked}"]
        for line in self.columns_not_read:
            lines += _wrapped(line, hang=4)
        if self.analyzed is not None:
            measured = self.analyzed.lines()
            name_width = max(len(name) for name, _ in measured)
            lines += ["", "Ran", *(f"{_INDENT}{name:<{name_width}}  {text}" for name, text in measured)]
        groups = self.note_groups()
        if groups:
            lines += ["", "Not used"]
        for group in groups:
            lines += _wrapped(str(group), hang=4)
            lines += [f"{_INDENT}{line}" for line in _wrapped(group.reason.sentence, hang=2)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for ``json.dumps``: with stable keys, None for unknown values, and every note."""
        return {
            "version": JSON_VERSION,
            "table": self.table,
            "columns": list(self.columns),
            "predicate": self.predicate or None,
            "tree": _node_json(self.tree),
            "kept": {name.replace(" ", "_"): _kept_json(count) for name, count in self.counts()},
            "deleted": self.deleted,
            "invisible": self.invisible,
            "exact": self.exact,
            "fixed": list(self.fixed),
            "from_indexes": list(self.from_indexes),
            "included": {index: list(names) for index, names in self.included},
            "path": self.path.name,
            "group_by": self.group or None,
            "order_by": self.order or None,
            "limit": self.limit,
            "offset": self.offset,
            "analyzed": None if self.analyzed is None else _analyzed_json(self.analyzed),
            "cache": None
            if self.cache is None
            else {"hits": self.cache.hits, "misses": self.cache.misses, "bytes": self.cache.bytes},
            "notes": [
                {"reason": note.reason.name, "subject": note.subject, "detail": note.detail}
                for note in dict.fromkeys(self.notes)
            ],
        }

    def __repr__(self) -> str:
        return self.to_text()

    def counts(self) -> tuple[tuple[str, RowCount | None], ...]:
        """Return the remaining counts by name."""
        return (
            ("files", self.files),
            ("stripes", self.stripes),
            ("row groups", self.row_groups),
            ("rows", self.rows),
            ("bytes", self.bytes),
        )


def _tree_rows(node: ExplainedNode, depth: int) -> list[tuple[str, str]]:
    indent = _INDENT * depth
    if node.kind != "LEAF":
        rows = [(indent + node.kind, "")]
        for child in node.children:
            rows += _tree_rows(child, depth + 1)
        return rows
    return [(indent + " ".join(node.text.split()), "" if node.answer is None else str(node.answer))]


def _kept_json(count: RowCount | None) -> dict[str, int | None] | None:
    return None if count is None else {"kept": count.kept, "total": count.total}


def _node_json(node: ExplainedNode) -> dict[str, Any]:
    if node.kind != "LEAF":
        shape: dict[str, Any] = {"kind": node.kind}
        if node.children:
            shape["children"] = [_node_json(child) for child in node.children]
        return shape
    answer = node.answer
    return {
        "kind": "LEAF",
        "text": node.text,
        "index": None if answer is None else answer.index,
        "index_type": None if answer is None else answer.index_type,
        "exact": None if answer is None else answer.exact,
        "rows": None if answer is None else answer.rows,
        "reason": None if answer is None or answer.reason is None else answer.reason.name,
        "sources": [
            {
                "index": item.index,
                "index_type": item.index_type,
                "rows": item.rows,
                "row_groups": _kept_json(item.row_groups),
            }
            for item in (answer.sources if answer is not None else ())
        ],
    }


def _analyzed_json(analyzed: Analyzed) -> dict[str, Any]:
    return {**asdict(analyzed), "steps": dict(analyzed.steps)}


def _wrapped(text: str, hang: int) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def explanation_html(explanation: Explanation) -> str:
    """Return the explanation as one ``div`` with its own style."""
    parts = [f'<div class="hindex"><style>{STYLE}</style>', f"<h4>Scan of {escape(explanation.table)}</h4>"]
    parts.append(rows_html([(name, f"<code>{escape(text)}</code>") for name, text in explanation.header()]))
    parts += ["<h4>Predicate</h4>", _tree(explanation.tree)]
    rows = [
        (name, escape(str(count)), escape(count.percent))
        for name, count in explanation.counts()
        if count is not None
    ]
    parts += ["<h4>Kept</h4>", rows_html(rows, numbers=True)]
    parts += [
        "<h4>Read</h4>",
        f"<div>{escape(explanation.reading)}</div>",
        f"<div>{escape(explanation.checked)}</div>",
        *(f"<div>{escape(line)}</div>" for line in explanation.columns_not_read),
    ]
    if explanation.analyzed is not None:
        parts += [
            "<h4>Ran</h4>",
            rows_html([(name, escape(text)) for name, text in explanation.analyzed.lines()]),
        ]
    if explanation.table_map is not None:
        parts += ["<h4>Map</h4>", _map(explanation.table_map)]
    groups = explanation.note_groups()
    if groups:
        parts.append("<h4>Not used</h4>")
    for group in groups:
        parts.append(f'<div>{escape(str(group))}<div class="why">{escape(group.reason.sentence)}</div></div>')
    parts.append("</div>")
    return "\n".join(parts) + "\n"


def rows_html(rows: Sequence[tuple[str, ...]], *, numbers: bool = False) -> str:
    """Return rows as a table: the first cell of each as text, the others as HTML."""
    shape = ' class="n"' if numbers else ""
    lines = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td{shape}>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _tree(root: ExplainedNode) -> str:
    lines = ["<tr><th>predicate</th><th>answered by</th><th>exact</th><th>rows</th><th>why not</th></tr>"]
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        stack.extend((child, depth + 1) for child in reversed(node.children))
        text = node.text if node.kind == "LEAF" else node.kind
        answer = node.answer
        cells = ["", "", "", ""]
        if answer is not None:
            rows = "" if answer.rows is None else f"{answer.rows:,}"
            exact = ("yes" if answer.exact else "no") if answer.index_type else ""
            cells = [answer.by, exact, rows, "" if answer.reason is None else answer.reason.name]
        shown = (
            f'<td style="padding-left:{depth * 1.5:g}em"><code>{escape(" ".join(text.split()))}</code></td>'
        )
        by, exact, rows, reason = map(escape, cells)
        lines.append(
            f'<tr>{shown}<td>{by}</td><td>{exact}</td><td class="n">{rows}</td><td>{reason}</td></tr>'
        )
    return f"<table>{''.join(lines)}</table>"


def _map(table_map: TableMap) -> str:
    key = " ".join(f"<i{_CLASSES[cell]}></i> {meaning}&ensp;" for cell, meaning in MEANINGS.items())
    lines = []
    for file in table_map.files:
        name = f"<code>{escape(file.path)}</code>"
        if not file.stripes:
            state = "skipped without opening it" if file.is_skipped else "no stripes"
            lines.append(f'<tr><td>{name}</td><td></td><td class="why">{state}</td></tr>')
        for at, stripe in enumerate(file.stripes):
            cells = "".join(f"<i{_CLASSES[cell]}></i>" for cell in stripe.cells)
            lines.append(
                f"<tr><td>{'' if at else name}</td><td>stripe {stripe.number}</td><td>{cells}</td></tr>"
            )
    more = str(table_map)
    note = f'<div class="why">{escape(more)}</div>' if more else ""
    return f'<div>{key}</div><table class="map">{"".join(lines)}</table>{note}'
