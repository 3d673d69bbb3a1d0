"""Run as a program: many processes change the indexes of one table at once; one JSON line tells what went wrong.

Arguments: store root, processes, rounds, seed, kills. Each process has indexes of its own and, round after round,
creates, refreshes, renames or drops one of them, with index files that hold nothing. It writes down what it has done,
so that the store must agree with it at every step: whatever another process did in between, nothing of its own may
be lost. With kills, some processes are ended by SIGKILL now and then, in a step of theirs, and begin anew.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

from hindex.store import entries
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    IndexFileEntry,
    Manifest,
    drop_index,
    merge_build_result,
    new_index_id,
    rename_index,
)
from hindex.store.store import Store

#: Data files of the table: enough for several segments of the length that is used here.
FILES = 40
SEGMENT = 8


def state(manifest: Manifest | None, mine: str) -> dict[str, dict[str, str]]:
    """Return the index files of one process in the store: for each of its indexes, by data file."""
    if manifest is None:
        return {}
    return {
        index.name: {
            entry.path: file.path
            for entry in manifest.files
            if (file := entry.index_file(index.id)) is not None
        }
        for index in manifest.indexes
        if index.name.startswith(mine)
    }


def build(store: Store, index: IndexEntry, version: int, paths: list[str]) -> list[FileEntry]:
    """Write the index files of some data files, as a build does."""
    directory = Path(store.prepare_index_directory(index.id))
    built = []
    for path in paths:
        name = f"{uuid.uuid4().hex}.hidx"
        (directory / name).write_bytes(b"index")
        file = IndexFileEntry(index.id, f"{store.index_directory(index.id)}/{name}", 5, version)
        built.append(FileEntry(path, 100, 1, 1, 10, (10,), "struct<c:int>", (file,)))
    return built


def step(
    store: Store, mine: str, rng: random.Random, expected: dict[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """One change; what the store must have of this process afterwards."""
    after = {name: dict(files) for name, files in expected.items()}
    paths = [f"part-{at:03}.orc" for at in range(FILES)]
    names = sorted(expected)
    what = rng.choice(["create", "refresh", "rename", "drop"]) if names else "create"
    if what == "create":
        index = IndexEntry(
            new_index_id(), f"{mine}-{uuid.uuid4().hex}", f"c{uuid.uuid4().hex}", "bitmap", "int"
        )
        built = build(store, index, 1, paths)
        after[index.name] = {item.path: item.index_files[0].path for item in built}
        store.commit(lambda old: merge_build_result(old, new_indexes=[index], files=built))
        return after
    name = rng.choice(names)
    if what == "refresh":
        manifest = store.load()
        assert manifest is not None
        built = build(store, manifest.index(name), 2, rng.sample(paths, 3))
        after[name].update({item.path: item.index_files[0].path for item in built})
        store.commit(lambda old: merge_build_result(old, files=built))
    elif what == "rename":
        new = f"{mine}-{uuid.uuid4().hex}"
        after[new] = after.pop(name)
        store.commit(lambda old: rename_index(old, name, new))
    else:
        del after[name]
        store.commit(lambda old: drop_index(old, name))
    return after


def work(root: str, mine: str, rounds: int, seed: int, problems: list[str]) -> None:
    """Rounds of one process; it starts from what the store has."""
    entries.SEGMENT_FILES = SEGMENT
    store, rng = Store(root, "/t"), random.Random(f"{seed} {mine}")
    expected = state(store.load(), mine)
    for turn in range(rounds):
        expected = step(store, mine, rng, expected)
        current = state(store.load(), mine)
        if current != expected:
            problems.append(f"{mine}, round {turn}: the store has {current}, not {expected}")
            return


def check(root: str, problems: list[str]) -> Manifest:
    """Check that the store as a whole is sound, and return the manifest."""
    store = Store(root, "/t")
    manifest = store.load()
    assert manifest is not None
    files = store.index_files()
    missing = manifest.file_paths() - set(files)
    if missing:
        problems.append(f"index files that are named and not there: {sorted(missing)[:3]}")
    garbage = {item.path for item in store.garbage()}
    needed = manifest.file_paths() | manifest.segment_paths()
    if garbage & needed:
        problems.append(f"garbage that is named: {sorted(garbage & needed)[:3]}")
    present = {
        str(path.relative_to(root))
        for path in Path(root).rglob("*")
        if path.is_file() and path.suffix != ".manifest"
    }
    if present - needed != garbage:
        problems.append(
            f"files that are neither needed nor garbage: {sorted(present - needed - garbage)[:3]}"
        )
    store.remove(store.garbage())
    if store.garbage() or store.load() != manifest or len(list(manifest.files)) > FILES:
        problems.append("removing garbage changed the state")
    return manifest


def main(root: str, processes: int, rounds: int, seed: int, kills: int) -> None:
    context = multiprocessing.get_context("fork")
    rng = random.Random(seed)
    with context.Manager() as manager:
        problems = manager.list()
        running = {
            mine: context.Process(target=work, args=(root, mine, rounds, seed, problems))
            for mine in (f"p{at:02}" for at in range(processes))
        }
        for process in running.values():
            process.start()
        killed = 0
        while killed < kills:
            time.sleep(rng.uniform(0, 0.3))
            mine = rng.choice(sorted(running))
            process = running[mine]
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
            process.join()
            # the old state or the new one: what the store has of it is where its next life begins
            running[mine] = context.Process(target=work, args=(root, mine, rounds, seed + killed, problems))
            running[mine].start()
        for mine, process in running.items():
            process.join()
            if process.exitcode:
                problems.append(f"{mine} ended with {process.exitcode}")
        messages = list(problems)
    manifest = check(root, messages)
    report = {
        "problems": messages,
        "commits": manifest.number,
        "indexes": len(manifest.indexes),
        "kills": killed,
    }
    report["segments"] = len(manifest.entries.segments)
    after = Store(root, "/t").commit(lambda old: replace(old, indexes=(), files=()))
    report["next_commit"] = after.number - manifest.number
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
