"""Explanations as HTML: for notebooks, without scripts, in the colours of the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from hindex.explain.table_map import MEANINGS, TableMap

if TYPE_CHECKING:
    from hindex.explain.explanation import ExplainedNode, Explanation

# Text and lines take the page's own colour, and fills are seen on light and on dark.
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


def explanation_html(found: Explanation) -> str:
    """One ``div`` with its own style."""
    parts = [f'<div class="hindex"><style>{STYLE}</style>', f"<h4>Scan of {escape(found.table)}</h4>"]
    parts.append(_table([(name, f"<code>{escape(text)}</code>") for name, text in found.header()]))
    parts += ["<h4>Predicate</h4>", _tree(found.tree)]
    rows = [
        (name, escape(str(count)), escape(count.percent))
        for name, count in found.counts()
        if count is not None
    ]
    parts += ["<h4>Kept</h4>", _table(rows, numbers=True)]
    parts += [
        "<h4>Read</h4>",
        f"<div>{escape(found.reading)}</div>",
        f"<div>{escape(found.checked)}</div>",
        *([f"<div>{escape(found.told)}</div>"] if found.told else []),
    ]
    if found.analyzed is not None:
        parts += ["<h4>Ran</h4>", _table([(name, escape(text)) for name, text in found.analyzed.lines()])]
    if found.table_map is not None:
        parts += ["<h4>Map</h4>", _map(found.table_map)]
    groups = found.note_groups()
    if groups:
        parts.append("<h4>Not used</h4>")
    for group in groups:
        parts.append(f'<div>{escape(str(group))}<div class="why">{escape(group.reason.sentence)}</div></div>')
    parts.append("</div>")
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[tuple[str, ...]], *, numbers: bool = False) -> str:
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


def _map(found: TableMap) -> str:
    key = " ".join(f"<i{_CLASSES[cell]}></i> {meaning}&ensp;" for cell, meaning in MEANINGS.items())
    lines = []
    for file in found.files:
        name = f"<code>{escape(file.path)}</code>"
        if not file.stripes:
            told = "skipped without opening it" if file.is_skipped else "no stripes"
            lines.append(f'<tr><td>{name}</td><td></td><td class="why">{told}</td></tr>')
        for at, stripe in enumerate(file.stripes):
            cells = "".join(f"<i{_CLASSES[cell]}></i>" for cell in stripe.cells)
            lines.append(
                f"<tr><td>{'' if at else name}</td><td>stripe {stripe.number}</td><td>{cells}</td></tr>"
            )
    more = str(found)
    note = f'<div class="why">{escape(more)}</div>' if more else ""
    return f'<div>{key}</div><table class="map">{"".join(lines)}</table>{note}'
