"""Run as a program: kill writers at random moments and report what is left, as one JSON line.

Arguments: store root, rounds, seed. Each child commits state after state: exactly one index, named after the
manifest's number, and one data file. It tells its parent each number once the commit has returned.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from dataclasses import replace

from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, Manifest, new_index_id
from hindex.store.store import Store


def next_state(old: Manifest) -> Manifest:
    entry = IndexEntry(new_index_id(), f"i{old.number + 1}", "c", "bitmap", "int")
    file = IndexFileEntry(entry.id, f"data/{entry.id}/x.hidx", 1, 2)
    # large enough for the write to take a while
    files = (FileEntry("x.orc", 1, old.number + 1, 3, 4, (4,), "struct<c:int>" * 20_000, (file,)),)
    return replace(old, indexes=(entry,), files=files)


def write_until_killed(store: Store, acknowledge: int) -> None:
    while True:
        os.write(acknowledge, f"{store.commit(next_state).number}\n".encode())


def main(root: str, rounds: int, seed: int) -> None:
    store = Store(root, "/t")
    rng = random.Random(seed)
    problems: list[str] = []
    acknowledged = leftovers = 0
    for turn in range(rounds):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                write_until_killed(store, writer)
            finally:
                os._exit(1)
        os.close(writer)
        time.sleep(rng.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader) as lines:
            numbers = [int(line) for line in lines if line.endswith("\n")]
        acknowledged += len(numbers)
        now = store.load()
        number = now.number if now else 0
        if numbers and not numbers[-1] <= number <= numbers[-1] + 1:
            problems.append(f"round {turn}: {numbers[-1]} was acknowledged, {number} is there")
        if now and ([item.name for item in now.indexes], now.files[0].mtime_ns) != ([f"i{number}"], number):
            problems.append(f"round {turn}: manifest {number} mixes states")
        if store.commit(next_state).number != number + 1:
            problems.append(f"round {turn}: the next commit is not {number + 1}")
    leftovers = sum(item.path.startswith("manifests/") for item in store.garbage())
    print(json.dumps({"problems": problems, "acknowledged": acknowledged, "leftovers": leftovers}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
