"""``python -m tests.bench SECTION``: measure, and keep what was found; ``report`` writes it into the docs.

``all`` measures what is needed for the docs, section by section; with ``--quick`` a part of it, in about a minute.
``docs/benchmarks.md`` says what is measured and how to read it. Times are never judged; the exit code is 1 where rows
differ between engines.
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
    key_lists,
    lookup_joins,
    planning,
    pushdown,
    queries_run,
    reader,
    remote,
    report,
    to_spark,
    tpch,
)
from tests.bench.options import complete, machine
from tests.bench.section import Section

SECTIONS: tuple[Section, ...] = (
    *queries_run.SECTIONS,
    builds.SECTION,
    reader.SECTION,
    remote.SECTION,
    planning.SECTION,
    tpch.SECTION,
    accelerate.SECTION,
    lookup_joins.SECTION,
    key_lists.SECTION,
    to_spark.SECTION,
    pushdown.SECTION,
)


#: Variables that change what is measured, and are told with the command: whether the allocator keeps its pages.
ENVIRONMENT = ("MIMALLOC_PURGE_DELAY",)

#: What ``all`` measures, and of that what it measures with ``--quick``.
ALL = (
    "queries",
    "selectivity",
    "scales",
    "layouts",
    "build",
    "reader",
    "s3",
    "planning",
    "tpch",
    "accelerate",
    "lookup-joins",
    "key-lists",
    "to-spark",
    "engines",
)
QUICK = ("queries", "reader", "s3", "planning")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    commands = parser.add_subparsers(dest="section", required=True, metavar="SECTION")
    for section in SECTIONS:
        section.add_parser(commands)
    report.add_parser(commands)
    everything = commands.add_parser("all", help=f"in turn: {', '.join(ALL)}")
    for flag in ("--quick", "--rebuild", "--profile"):
        everything.add_argument(flag, action="store_true", help="as each section has it")
    everything.add_argument("--data", help="as each section has it")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.section == "report":
        return report.write(options)
    if options.section == "all":
        # all are run, whatever one of them finds
        return max(main([name, *given[1:]]) for name in (QUICK if options.quick else ALL))
    section = next(section for section in SECTIONS if section.name == options.section)
    held = [f"{name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ]
    return _run(section, options, " ".join([*held, "python -m tests.bench", *given]))


def _run(section: Section, options: argparse.Namespace, command: str) -> int:
    options = complete(options)
    print(f"{command}\n", flush=True)
    started = time.monotonic()
    found = section.run(options)
    document = {
        "section": section.name,
        "command": command,
        "scale": options.scale,
        "rounds": options.rounds,
        "quick": options.quick,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.monotonic() - started, 1),
        "machine": machine("pyspark"),
        "different": found.different,
        **found.data,
    }
    where = options.data / "results"
    where.mkdir(parents=True, exist_ok=True)
    name = f"{section.name}-quick" if options.quick else section.name
    (where / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{report.text(document)}\n\n{document['seconds']:.0f} s; kept in {where / name}.json")
    for difference in found.different:
        print(f"rows differ: {difference}", file=sys.stderr)
    return 1 if found.different else 0


if __name__ == "__main__":
    sys.exit(main())
