"""Run engines in a process that reads commands and writes answers as lines of JSON.

The process measures times itself, without the transfer of results. `tests.bench.processes` starts it, for some engines
with the interpreter of another environment: only the engine hindex imports anything of hindex.
"""

from __future__ import annotations

import cProfile
import importlib.metadata
import io
import json
import os
import pstats
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.bench.compare import digest
from tests.bench.data import Dataset
from tests.bench.engines import engine_class
from tests.bench.engines.base import Engine
from tests.bench.queries import Query, find

#: Results of at most so many rows are written to a file, and compared row by row.
_WHOLE_ROWS = 20_000
_PROFILE_LINES = 25


class Worker:
    """The engines of one process, opened at their first use."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._engines: dict[tuple[str, str], Engine] = {}

    def engine(self, command: dict[str, Any]) -> Engine:
        key = command["engine"], command["dataset"]
        engine = self._engines.get(key)
        if engine is None:
            engine = engine_class(key[0])(Dataset.parse(key[1]), self._data)
            engine.open()
            self._engines[key] = engine
        return engine

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        action = command["do"]
        if action == "prepare":
            new_engine = engine_class(command["engine"])(Dataset.parse(command["dataset"]), self._data)
            return {"seconds": new_engine.prepare()}
        engine = self.engine(command)
        if action == "open":
            return {"version": importlib.metadata.version(engine.package)}
        if action == "sizes":
            return engine.sizes()
        if action == "forget":
            engine.forget()
            return {}
        query = find(command["suite"], engine.dataset.scale, command["query"])
        if action == "refuses":
            return {"reason": engine.refuses(query)}
        if action == "counts":
            return engine.counts(query)
        if action == "profile":
            return {"text": _profile(engine, query)}
        started = time.perf_counter()
        result = engine.run(query)
        seconds = time.perf_counter() - started
        rows = result if isinstance(result, int) else result.num_rows
        answer: dict[str, Any] = {"ms": round(seconds * 1000, 4), "rows": rows}
        if action == "check":
            answer["digest"] = str(digest(result))
            if not isinstance(result, int) and rows <= _WHOLE_ROWS:
                answer["file"] = _write(result, Path(command["into"]))
        return answer


def _write(result: pa.Table, path: Path) -> str:
    with pa.ipc.new_file(str(path), result.schema) as writer:
        writer.write_table(result)
    return str(path)


def _profile(engine: Engine, query: Query) -> str:
    engine.run_here(query)
    profiler = cProfile.Profile()
    profiler.runcall(engine.run_here, query)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(_PROFILE_LINES)
    return text.getvalue()


def main() -> None:
    # whatever a library prints goes to the log, not among the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(Path(sys.argv[1]))
    for line in sys.stdin:
        try:
            answer = worker.do(json.loads(line))
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
