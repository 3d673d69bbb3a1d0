"""Run as a program: writers that race, each adding indexes. Arguments: store root, writers, changes."""

from __future__ import annotations

import os
import sys
import traceback

from hindex.store import local
from hindex.store.manifest import IndexEntry, add_indexes, new_index_id
from hindex.store.store import Store


def write(store: Store, writer: int, changes: int) -> None:
    for change in range(changes):
        entry = IndexEntry(new_index_id(), f"w{writer}_{change}", f"c{writer}_{change}", "bitmap", "int")
        store.commit(lambda old, entry=entry: add_indexes(old, [entry]))  # type: ignore[misc]


def main(root: str, writers: int, changes: int) -> int:
    ready, start = os.pipe()
    children: list[int] = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.read(ready, 1)
            try:
                # nobody waits for anybody
                local.TURN_S = 0.0
                write(Store(root, "/t"), writer, changes)
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
