"""Inspect a transactional table: valid, obsolete and invalid directories, and deleted rows."""

from __future__ import annotations

from collections import Counter

import hindex
from hindex.api.value_formatting import printable
from hindex.cli.inspect_document import Document, columns
from hindex.orc.acid.delta_files import file_tail
from hindex.orc.acid.directory import AcidDirectory
from hindex.scan.planning import plan_scan
from hindex.scan.task_runner import run_lookups
from hindex.table.transactional import TransactionalDirectory


def document(path: str, valid_write_ids: str = "") -> Document:
    """Return the transactional directories of a table, and the rows of each valid data file.

    Raises:
        HindexError: if the table cannot be read.
    """
    snapshot = hindex.connect().table(path, valid_write_ids=valid_write_ids).snapshot()
    plan = plan_scan(snapshot, None, [])
    deleted: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    for task, result in run_lookups(plan.tasks, every=True):
        deleted[task.task.path] += result.deleted
        unseen[task.task.path] += result.invisible
    files = [
        {
            "path": view.file.path,
            "bytes": view.file.length,
            "rows": view.num_rows,
            "deleted": deleted[view.file.path],
            "not_seen": unseen[view.file.path],
        }
        for view in snapshot.files
    ]
    deletes = dict.fromkeys(
        item for task in plan.tasks if task.acid is not None for item in task.acid.deletes
    )
    return {
        "kind": "TRANSACTIONAL",
        "table": snapshot.listing.uri,
        "valid_write_ids": valid_write_ids or None,
        "directories": [_directory(item) for item in snapshot.listing.transactional],
        "files": files,
        "delete_files": [
            {"uri": item.file.uri, "deletes": file_tail(item.file).num_rows} for item in deletes
        ],
    }


def _directory(directory: TransactionalDirectory) -> Document:
    state = directory.state
    return {
        "path": directory.path,
        "counts": [
            {
                "name": item.name,
                "kind": item.kind.value,
                "min_write_id": item.min_write_id,
                "max_write_id": item.max_write_id,
                "statement": None if item.statement < 0 else item.statement,
                "write_ids": _write_ids(item),
            }
            for item in state.directories
        ],
        "originals": list(state.originals),
        "obsolete": [
            {"name": item.name, "reason": item.reason.name, "why": item.reason.value}
            for item in state.obsolete
        ],
    }


def _write_ids(item: AcidDirectory) -> str:
    if item.kind.value == "base":
        return f"write ids up to {item.max_write_id}"
    if item.min_write_id == item.max_write_id:
        statement = "" if item.statement < 0 else f", statement {item.statement}"
        return f"write id {item.min_write_id}{statement}"
    return f"write ids {item.min_write_id} to {item.max_write_id}"


def text(document: Document) -> str:
    """Render the document as text."""
    lines = [f"table    {printable(document['table'])}"]
    if document["valid_write_ids"]:
        lines.append(f"as seen  {printable(document['valid_write_ids'])}")
    for item in document["directories"]:
        lines += ["", f"Directory {printable(item['path']) or '.'}"]
        counts = [
            (entry["name"], entry["kind"].replace("_", " "), entry["write_ids"]) for entry in item["counts"]
        ]
        counts += [(name, "original file", "") for name in item["originals"]]
        obsolete = [(entry["name"], entry["reason"], entry["why"]) for entry in item["obsolete"]]
        for title, rows in (("counts", counts), ("does not count", obsolete)):
            lines.append(f"  {title}" if rows else f"  {title}: nothing")
            lines += columns(rows, indent="    ") if rows else []
    lines += ["", "Data files"]
    rows_by_file = [
        (item["path"], *(f"{item[key]:,} {word}" for key, word in _ROWS.items()))
        for item in document["files"]
    ]
    total = (
        "together",
        *(f"{sum(item[key] for item in document['files']):,} {word}" for key, word in _ROWS.items()),
    )
    lines += columns([*rows_by_file, total])
    if document["delete_files"]:
        lines += ["", "Delete files"]
        lines += columns([(item["uri"], f"{item['deletes']:,} deletes") for item in document["delete_files"]])
    return "\n".join(lines)


_ROWS = {"rows": "rows", "deleted": "deleted", "not_seen": "not seen"}
