"""Answer queries by the command line, from the start of its process, beside an import of NumPy and pyarrow."""

from __future__ import annotations

import argparse
import csv
import io
import os
import statistics
import subprocess
import sys
from typing import Any

import pyarrow.dataset

import hindex
from hindex.cli.progress import progress_for
from tests.bench.data import Dataset
from tests.bench.making import ensure_table
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios
from tests.support import local_build
from tests.support.local_build import LocalConnection

_IMPORT = [sys.executable, "-c", "import numpy, pyarrow"]

#: What a query selects, a column and one of its values.
_QUERIES = {
    "count": ("COUNT(*)", "l_suppkey", 17),
    "point": ("*", "l_orderkey", 4_000_001),
}


def run(options: argparse.Namespace) -> SectionResult:
    dataset = Dataset("lineitem", options.scale)
    path = str(ensure_table(dataset, options.data))
    local_build.install()
    store = str(options.data / dataset.name / "command-line")
    specs = [hindex.IndexSpec(column, column) for _, column, _ in _QUERIES.values()]
    LocalConnection(store).table(path).create_indexes(specs, if_not_exists=True)
    every = pyarrow.dataset.dataset(path, format="orc")
    progress = progress_for(sys.stderr)
    progress.start(len(_QUERIES), f"commands on {dataset.name}")
    rows, measured, different = [], {}, []
    for name, (selected, column, value) in _QUERIES.items():
        query = f"SELECT {selected} FROM '{path}' WHERE {column} = {value}"
        command = [sys.executable, "-m", "hindex", "--store", store, "--output", "csv", "sql", query]
        _, *answer = csv.reader(io.StringIO(_output(command)))
        expected = every.count_rows(filter=pyarrow.dataset.field(column) == value)
        if (int(answer[0][0]) if name == "count" else len(answer)) != expected:
            different.append(name)
        runs = (lambda command=command: _output(command)), (lambda: _output(_IMPORT))
        in_turn(options.warmups, *runs)
        command_ms, import_ms = in_turn(options.rounds, *runs)
        measured[name] = {"query": query, "command": command_ms, "import": import_ms}
        medians = [f"{statistics.median(times):,.0f}" for times in (command_ms, import_ms)]
        rows.append([query.replace(path, dataset.name), *medians, ratio_text(ratios(command_ms, import_ms))])
        progress.advance()
    progress.finish()
    table: dict[str, Any] = {"headings": ["query", "command ms", "import ms", "ratio"], "rows": rows}
    return SectionResult({"measured": measured, "tables": [table]}, different)


def _output(command: list[str]) -> str:
    """Run a command, which keeps its compiled modules; return what it writes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout


SECTION = Section(
    "command-line",
    "a count and a point from the start of the process, beside an import of NumPy and pyarrow",
    run,
    rounds=25,
    warmups=2,
)
