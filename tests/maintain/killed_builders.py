"""Run as a program: kill builders with SIGKILL and tell what they leave, as one JSON line.

Arguments: the table, rounds, seed. In each round a child creates, rebuilds and drops the index ``i`` over and over
until it is killed: at a random moment, or at a named step between its writes. Then another child looks at the table:
its state must be the old or the new one, answers and indexes sound, the next CREATE must work, and VACUUM leave
nothing. This process itself only forks: it has no threads.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from hindex.build import task as build_task
from hindex.store import local
from hindex.store.store import Store
from tests.support import local_build
from tests.support.local_build import LocalConnection


def build_for_ever(path: str) -> None:
    """Build until killed; a step that nobody comes to is told as a builder that ended by itself."""
    table = LocalConnection().table(path)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        table.create_index("i", "a", if_not_exists=True)
        table.index("i").rebuild()
        table.drop_index("i")


def die_before(owner: Any, name: str, calls: int) -> None:
    """Let a function's process die when it is called for so many times."""
    real = getattr(owner, name)
    left = [calls]

    def dying(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(owner, name, dying)


#: Steps of a build before which it dies.
STEPS: dict[str, Callable[[int], None]] = {
    "a data file is read": lambda n: die_before(build_task, "open_version", n),
    "an index file is begun": lambda n: die_before(build_task, "file_index_type", n),
    "the index files are written": lambda n: die_before(Store, "commit", n),
    "the manifest is written": lambda n: die_before(local, "create_if_absent", n),
    "the manifest is linked": lambda n: die_before(os, "link", n),
    "the temporary manifest is removed": lambda n: die_before(os, "fsync", 2 * n),
}


def look(path: str) -> list[str]:
    """Return the violations."""
    problems = []
    table = LocalConnection().table(path)
    indexes = table.indexes()
    if [index.name for index in indexes] not in ([], ["i"]):
        problems.append(f"indexes {indexes}")
    problems += [f"{index!r} is not whole" for index in indexes if index.status != "fresh"]
    problems += [problem for result in table.check_indexes(verify=True) for problem in result.problems]
    if table.scan("a = 3").count() != 150:
        problems.append("wrong rows")
    table.create_index("next", "s")
    if table.scan("s = 's3'").count() != 150:
        problems.append("wrong rows by the next index")
    table.drop_index("next")
    table.create_index("i", "a", if_not_exists=True)
    table.drop_index("i")
    table.vacuum(retain_hours=0)
    left = [item.path for item in Store.for_table(table.uri).garbage()]
    if left:
        problems.append(f"VACUUM left {left}")
    return problems


def in_a_child(work: Callable[[], list[str]]) -> list[str]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(work()).encode())
        except BaseException as error:  # noqa: BLE001 a fork must not return
            os.write(writer, json.dumps([repr(error)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        faults: list[str] = json.loads(stream.read() or '["no answer"]')
    os.waitpid(child, 0)
    return faults


def main(path: str, rounds: int, seed: int) -> None:
    local_build.install()
    rng = random.Random(seed)
    steps = [*STEPS, ""]
    problems: list[str] = []
    leftovers = 0
    for turn in range(rounds):
        step = steps[turn % len(steps)] if turn < len(steps) else rng.choice(["", "", *steps])
        calls = rng.randint(1, 6)
        child = os.fork()
        if child == 0:
            try:
                if step:
                    STEPS[step](calls)
                build_for_ever(path)
            finally:
                os._exit(1)
        if not step:
            time.sleep(rng.uniform(0, 0.25))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            problems.append(f"round {turn}: the builder ended by itself")
        leftovers += bool(Store.for_table(path).garbage())
        problems += [
            f"round {turn}, before {step or 'a random moment'} ({calls}): {problem}"
            for problem in in_a_child(lambda: look(path))
        ]
    print(json.dumps({"problems": problems, "leftovers": leftovers}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
