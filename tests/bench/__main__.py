"""``python -m tests.bench SECTION``: measure, and keep the results; ``report`` writes them into the docs.

``all`` measures the sections of the docs in turn; with ``--quick`` some of them, in about a minute.
``docs/benchmarks.md`` explains the measurements. Times are never judged; the exit code is 1 if rows differ between
engines or hindex fails.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Sequence

from tests.bench import (
    accelerate,
    builds,
    command_line,
    expressions,
    included_costs,
    key_lists,
    lookup_joins,
    planning,
    pushdown,
    queries_run,
    reader,
    remote,
    report,
    substrings,
    to_spark,
    tpch,
)
from tests.bench.options import complete, machine
from tests.bench.section import Section

SECTIONS: tuple[Section, ...] = (
    *queries_run.SECTIONS,
    builds.SECTION,
    included_costs.SECTION,
    reader.SECTION,
    remote.SECTION,
    planning.SECTION,
    tpch.SECTION,
    accelerate.SECTION,
    lookup_joins.SECTION,
    key_lists.SECTION,
    substrings.SECTION,
    expressions.SECTION,
    to_spark.SECTION,
    pushdown.SECTION,
    command_line.SECTION,
)


#: Variables that affect the measurements, shown with the command: they decide if the allocator keeps its pages.
ENVIRONMENT = ("MIMALLOC_PURGE_DELAY",)

#: The sections of ``all --quick``.
QUICK = ("queries", "reader", "s3", "planning")

#: Options that choose a part of a section, which does not replace the results of the whole.
PARTS = ("columns", "engines", "files", "only", "queries", "scales", "tables", "tpch")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    commands = parser.add_subparsers(dest="section", required=True, metavar="SECTION")
    for section in SECTIONS:
        section.add_parser(commands)
    report.add_parser(commands)
    everything = commands.add_parser("all", help="all of these sections in turn")
    for flag in ("--quick", "--rebuild", "--profile"):
        everything.add_argument(flag, action="store_true", help="as each section has it")
    everything.add_argument("--data", help="as each section has it")
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(command_line)
    if options.section == "report":
        return report.write(options)
    if options.section == "all":
        # run all sections, even after one that fails
        names = QUICK if options.quick else [section.name for section in SECTIONS]
        return max(main([name, *command_line[1:]]) for name in names)
    section = next(section for section in SECTIONS if section.name == options.section)
    settings = [f"{name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ]
    command = " ".join([*settings, "python -m tests.bench", *_without_data(command_line)])
    whole = parser.parse_args([section.name])
    is_part = any(getattr(options, name, None) != getattr(whole, name, None) for name in PARTS)
    suffix = "-quick" if options.quick else "-part" if is_part else ""
    return _run(section, options, command, suffix)


def _without_data(command_line: list[str]) -> list[str]:
    """Leave out where the tables are, which is of no account."""
    if "--data" in command_line:
        at = command_line.index("--data")
        return command_line[:at] + command_line[at + 2 :]
    return [item for item in command_line if not item.startswith("--data=")]


def _run(section: Section, options: argparse.Namespace, command: str, suffix: str) -> int:
    options = complete(options)
    print(f"{command}\n", flush=True)
    started = time.monotonic()
    result = section.run(options)
    document = {
        "section": section.name,
        "command": command,
        "scale": options.scale,
        "rounds": options.rounds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.monotonic() - started, 1),
        "machine": machine("pyspark"),
        "different": result.different,
        "failed": result.failed,
        **result.data,
    }
    directory = options.data / "results"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{section.name}{suffix}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{report.text(document)}\n\n{document['seconds']:.0f} s; kept in {path}")
    for difference in result.different:
        print(f"rows differ: {difference}", file=sys.stderr)
    for failure in result.failed:
        print(f"hindex failed: {failure}", file=sys.stderr)
    return 1 if result.different or result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
