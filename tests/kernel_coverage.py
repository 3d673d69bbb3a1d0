"""Show the lines of orc/kernel.pyx that tests do not reach.

    python -m tests.kernel_coverage [TESTS]

The kernel is built for gcov, which counts the lines of the source that its C is made of. The tests of the kernel run
with it, or those that are named.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

from tests.support.kernel_build import ROOT, SOURCE, build_kernel

FOLDER = ROOT / "build" / "kernel-coverage"
FLAGS = ("-O0", "-w", "--coverage")

#: Signatures with their documentation, and enums: code of Cython's, which takes arguments, is said to be there.
_DECLARATION = re.compile(r'^def .*?""".*?"""|^cpdef enum:(?:\n [^\n]*)+', re.DOTALL | re.MULTILINE)

#: A file and the number of a line.
Line = tuple[str, int]


def count_lines() -> dict[Line, int]:
    """Count the runs of each line of code: those of the source, and those of its C in Cython's output."""
    (data,) = FOLDER.glob("*.gcda")
    ran = subprocess.run(
        ["gcov", "--json-format", "--stdout", data.name],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )
    text, source, code = SOURCE.read_text(), str(SOURCE.relative_to(ROOT)), str(FOLDER / "kernel.c")
    declared = set[int]()
    for match in _DECLARATION.finditer(text):
        declared.update(range(text.count("\n", 0, match.start()) + 1, text.count("\n", 0, match.end()) + 2))
    counts = Counter[Line]()
    for file in json.loads(ran.stdout)["files"]:
        name = file["file"]
        if name == source:
            numbers = set(range(1, text.count("\n") + 1)) - declared
        elif name == code:
            own = [each for each in file["functions"] if each["name"].startswith("hindex_")]
            numbers = {number for each in own for number in range(each["start_line"], each["end_line"] + 1)}
        else:
            continue
        for line in file["lines"]:
            if line["line_number"] in numbers:
                counts[name, line["line_number"]] += line["count"]
    return counts


def main() -> int:
    library = build_kernel(FOLDER, FLAGS)
    for path in FOLDER.glob("*.gcda"):
        path.unlink()
    tests = sys.argv[1:] or ["tests/orc/kernel"]
    program = [sys.executable, "-m", "tests.support.kernel_build", str(library)]
    code = subprocess.run([*program, "-q", *tests], cwd=ROOT, check=False).returncode
    counts = count_lines()
    missed = sorted(line for line, count in counts.items() if count == 0)
    for file, number in missed:
        print(f"{file}:{number}: not reached: {(ROOT / file).read_text().splitlines()[number - 1].strip()}")
    print(f"{len(counts) - len(missed)} of {len(counts)} lines with code were reached")
    return code


if __name__ == "__main__":
    sys.exit(main())
