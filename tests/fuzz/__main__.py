"""Read damaged ORC files and see that each gives rows or an `hindex.errors.OrcError`.

    python -m tests.fuzz --inputs 100000 --seed 1 --jobs 2

Findings, with their inputs, are kept in ``build/fuzz``. A seed and a number give the same input each time:
``--only 1234`` reads one, in this process, and shows what comes of it.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from tests.fuzz.mutate import Corpus, damaged
from tests.fuzz.reading import read_in_ways
from tests.fuzz.worker import STATE, load

#: Seconds that a worker may be at one input before it is ended.
_HUNG_AFTER = 30.0
_REPORT_EVERY = 20.0


@dataclass(slots=True)
class Tally:
    """The outcomes of all inputs so far."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, record: dict[str, object]) -> None:
        number, read, refused = (int(str(record[key])) for key in ("number", "read", "refused"))
        self.inputs += 1
        kind = "read in all ways" if not refused else "read in some ways" if read else "refused in all ways"
        self.outcomes[kind if record["open"] else "refused when opened"] += 1
        self.reads["gave rows"] += read
        self.reads["refused"] += refused
        self.reads["refused, with the column"] += int(str(record["with_column"]))
        self.slowest = max(self.slowest, (float(str(record["seconds"])), number))
        self.largest = max(self.largest, (int(str(record["bytes"])), number))
        for way, fault in record.get("faults", ()):  # type: ignore[attr-defined]
            self.findings.append((number, f"{record['what']}, {way}", fault))

    def line(self, seconds: float) -> str:
        per_second = self.inputs / seconds if seconds else 0
        return f"{self.inputs} inputs, {per_second:.0f}/s, {len(self.findings)} findings"


def stopped(process: subprocess.Popen[bytes], patience: float = 10.0) -> str:
    """End a process that stands still; what its threads were at.

    Python's stacks go to its standard error, by the handler that ``-X faulthandler`` has for SIGABRT. What is given
    back is what the kernel knows, which tells one that waits (S) from one that works (R).
    """
    threads = []
    for task in sorted(Path(f"/proc/{process.pid}/task").glob("*")):
        name, _, numbers = (task / "stat").read_text().partition(") ")
        state, *counts = numbers.split()
        waiting = (task / "wchan").read_text()
        threads.append(f"{name}) {state}, {counts[10]} + {counts[11]} ticks, in {waiting or 'no call'}")
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        threads.append(f"it did not end within {patience:.0f} s of SIGABRT")
    return "\n".join(threads)


@dataclass(slots=True)
class At:
    """The input that a worker is at, and since when.

    It is looked at while the worker writes it, byte by byte: only what is seen again and again is true.
    """

    number: int = -1
    since: float = 0.0

    def seconds(self, number: int, now: float) -> float:
        """Return how long the worker has been seen at an input."""
        if number != self.number:
            self.number, self.since = number, now
        return now - self.since


class Worker:
    """A process that reads every ``step``-th input, started again behind one that ended it."""

    def __init__(self, folder: Path, seed: int, begin: int, step: int, end: int) -> None:
        self._folder, self._seed, self._step, self._end = folder, seed, step, end
        self._state = folder / f"state{begin}"
        self._state.write_bytes(STATE.pack(-1))
        self._at = At()
        self._output = folder / f"output{begin}"
        self._read_upto = 0
        self._next = begin
        self.start()

    def start(self) -> None:
        self._output.write_bytes(b"")
        self._read_upto = 0
        with self._output.open("ab") as output, Path(f"{self._output}.errors").open("wb") as errors:
            arguments = [self._folder, self._state, self._seed, self._next, self._step, self._end]
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker", *map(str, arguments)],
                stdout=output,
                stderr=errors,
            )

    def poll(self, tally: Tally) -> bool:
        """Take in what it said; whether it is still at work, or again."""
        code = self._process.poll()
        if code is None:
            self._take(tally)
            (number,) = STATE.unpack(self._state.read_bytes())
            if self._at.seconds(number, time.monotonic()) < _HUNG_AFTER or number < 0:
                return True
            threads = stopped(self._process)
            return self._again(tally, f"still at it after {_HUNG_AFTER:.0f} s: {self._errors()}\n{threads}")
        self._take(tally)
        if code == 0:
            return False
        return self._again(tally, f"ended the process with {code}: {self._errors()}")

    def _errors(self) -> str:
        return Path(f"{self._output}.errors").read_text(errors="replace")[-6000:]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _take(self, tally: Tally) -> None:
        with self._output.open("rb") as file:
            file.seek(self._read_upto)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_upto += len(whole)
        for line in whole.splitlines():
            tally.add(json.loads(line))

    def _again(self, tally: Tally, fault: str) -> bool:
        (number,) = STATE.unpack(self._state.read_bytes())
        if number < self._next:
            raise SystemExit(f"a worker does not start: {fault}")
        # buffered output of the process is lost with it, though these inputs were read
        tally.inputs += 1
        tally.findings.append((number, "the worker", fault))
        self._next = number + self._step
        self._state.write_bytes(STATE.pack(-1))
        if self._next < self._end:
            self.start()
            return True
        return False


def run(inputs: int, seed: int, jobs: int, first: int, findings: Path) -> int:
    findings.mkdir(parents=True, exist_ok=True)
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(i) for i in range(jobs)]
        for folder in folders:
            folder.mkdir()
        workers = [Worker(f, seed, first + i, jobs, first + inputs) for i, f in enumerate(folders)]
        try:
            _watch(workers, tally, began, lambda: _keep(tally, seed, findings))
        finally:
            for worker in workers:
                worker.end()
    seconds = time.monotonic() - began
    print(tally.line(seconds), f"in {seconds:.0f} s with seed {seed}")
    for name, count in (*tally.outcomes.most_common(), *tally.reads.most_common()):
        print(f"  {count:>9} {name}")
    print(f"  slowest {tally.slowest[0]:.2f} s (input {tally.slowest[1]})", end="")
    print(f", most memory {tally.largest[0] >> 20} MiB (input {tally.largest[1]})")
    if tally.findings:
        print(f"findings are in {findings}")
    return 1 if tally.findings else 0


def _watch(workers: list[Worker], tally: Tally, began: float, keep: Callable[[], None]) -> None:
    at_work, reported, saved = workers, began, 0
    while at_work:
        time.sleep(0.2)
        at_work = [worker for worker in at_work if worker.poll(tally)]
        if len(tally.findings) > saved:
            saved = len(tally.findings)
            keep()
        if time.monotonic() - reported > _REPORT_EVERY:
            reported = time.monotonic()
            print(tally.line(reported - began), flush=True)


def _keep(tally: Tally, seed: int, findings: Path) -> None:
    with (findings / f"seed{seed}.txt").open("w") as report:
        for number, where, fault in tally.findings:
            path = findings / f"seed{seed}-{number}.orc"
            if not path.exists():
                path.write_bytes(damaged(_corpus(), seed, number)[1])
            print(f"--- {number}: {where}\n{fault}", file=report)


@cache
def _corpus() -> Corpus:
    with tempfile.TemporaryDirectory() as folder:
        return load(Path(folder))


def show(seed: int, number: int, out: IO[str] = sys.stdout) -> None:
    change, data = damaged(_corpus(), seed, number)
    outcome = read_in_ways(data, random.Random(number))
    print(
        f"{change}, {len(data)} bytes: {outcome.read} reads gave rows, {outcome.refused} were refused",
        file=out,
    )
    for fault in outcome.faults:
        print(f"--- {fault.way}\n{fault.what}", file=out)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--only", type=int, help="read this input only, here")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    if options.only is not None:
        show(options.seed, options.only)
        return 0
    return run(options.inputs, options.seed, options.jobs, options.first, options.findings)


if __name__ == "__main__":
    sys.exit(main())
