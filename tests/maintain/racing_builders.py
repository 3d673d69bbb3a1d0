"""Run as a program: processes that create, refresh, rename and drop different indexes of one table at once.

Arguments: the table, processes, rounds. Each works on a column of its own, ``c0``, ``c1``, ...; an odd one ends with
its index in place, an even one without.
"""

from __future__ import annotations

import os
import random
import sys
import traceback

from tests.support import local_build
from tests.support.local_build import LocalConnection


def work(path: str, number: int, rounds: int) -> None:
    table = LocalConnection().table(path)
    rng = random.Random(number)
    name = f"i{number}"
    for turn in range(rounds):
        made = table.create_index(name, f"c{number}", "bitmap", deferred=rng.random() < 0.3)
        assert made.name == name
        table.index(name).refresh()
        assert table.index(name).status == "fresh", table.index(name).status
        if rng.random() < 0.5:
            table.rename_index(name, f"{name}_renamed")
            table.rename_index(f"{name}_renamed", name)
        if rng.random() < 0.3:
            table.index(name).rebuild()
        if rng.random() < 0.3:
            table.vacuum()
        count = table.scan(f"c{number} = 3").count()
        assert count == 20, count
        if number % 2 == 0 or turn < rounds - 1:
            assert table.drop_index(name).dropped


def main(path: str, processes: int, rounds: int) -> int:
    local_build.install()
    ready, start = os.pipe()
    children: list[int] = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.read(ready, 1)
            try:
                work(path, number, rounds)
                os._exit(0)
            except BaseException:  # noqa: BLE001 a fork must not return
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    # closing the pipe starts all of them at once
    os.close(start)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
