"""Reads a range of damaged files in a process of its own, which may end badly.

A small shared file has the number of the current input, so that the parent process can see which one ended it.
"""

from __future__ import annotations

import gc
import json
import mmap
import random
import resource
import struct
import sys
import time
import warnings
from pathlib import Path

from tests.fuzz import corpus as corpora
from tests.fuzz.mutate import Corpus, damaged
from tests.fuzz.reading import Outcome, read_in_ways

#: Address space of a worker, so that no input takes the machine's memory.
ADDRESS_SPACE = 6 << 30

#: What one input may take beyond what the process had before: resident bytes, and seconds of processor time; and so
#: much more for each byte of the file.
MOST_BYTES, BYTES_PER_BYTE = 192 << 20, 2048
MOST_SECONDS, SECONDS_PER_BYTE = 3.0, 50e-6

#: The number of the input that a worker is at, or -1.
STATE = struct.Struct("<q")


def load(folder: Path) -> Corpus:
    return Corpus(corpora.files(folder), dict(corpora.parts(folder)))


def _peak_bytes() -> int:
    """The most resident bytes since `_forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read_measured(data: bytes, number: int) -> tuple[Outcome, float, int]:
    """Read a file: the outcome, the seconds of processor time, and the bytes of memory beyond those before."""
    gc.collect(0)
    _forget_peak()
    before, began = _peak_bytes(), time.process_time()
    outcome = read_in_ways(data, random.Random(number))
    return outcome, time.process_time() - began, _peak_bytes() - before


def max_memory(data: bytes) -> int:
    """The most bytes of memory that a file may take."""
    return MOST_BYTES + BYTES_PER_BYTE * len(data)


def main(folder: str, state: str, seed: int, begin: int, step: int, end: int) -> None:
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    corpus = load(Path(folder))
    with Path(state).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), STATE.size)
    for number in range(begin, end, step):
        STATE.pack_into(shared, 0, number)
        change, data = damaged(corpus, seed, number)
        outcome, seconds, grown = read_measured(data, number)
        faults = [(fault.way, fault.what) for fault in outcome.faults]
        if seconds > MOST_SECONDS + SECONDS_PER_BYTE * len(data):
            faults.append(("time", f"{len(data)} bytes took {seconds:.1f} s"))
        if grown > max_memory(data):
            faults.append(("memory", f"{len(data)} bytes took {grown >> 20} MiB"))
        record: dict[str, object] = {
            "number": number,
            "read": outcome.read,
            "refused": outcome.refused,
            "with_column": outcome.with_column,
            "open": outcome.is_open,
            "seconds": seconds,
            "bytes": grown,
        }
        if faults:
            record |= {"what": change, "faults": faults}
        print(json.dumps(record), flush=bool(faults))
    STATE.pack_into(shared, 0, -1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
