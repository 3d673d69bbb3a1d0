"""Start worker processes, send them commands, and measure the resources of a process and its descendants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.bench.engines import engine_class

_ROOT = Path(__file__).parents[2]
_SAMPLE_SECONDS = 0.05
#: The time limit of a command, unless it sets another.
_MOST_SECONDS = 180


class EngineError(Exception):
    """An engine failed at a command; the message has the reason."""


class TooLateError(EngineError):
    """An engine took longer than its limit."""


class WorkerProcess:
    """A worker; commands are answered one after the other."""

    def __init__(self, data: Path, interpreter: str, environment: Mapping[str, str] | None = None) -> None:
        self._is_late = False
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [interpreter, "-m", "tests.bench.worker", str(data.resolve())],
            cwd=_ROOT,
            env=_environment(data, environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, *, most_seconds: float = _MOST_SECONDS, **command: Any) -> dict[str, Any]:
        """Send a command, and return its answer.

        Raises:
            EngineError: if it failed, took longer than ``most_seconds``, or the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(most_seconds, self._kill_late)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **command}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if self._is_late:
            raise TooLateError(f"took more than {most_seconds:.0f} s")
        if not line:
            raise EngineError(f"its process ended with {self._process.wait()}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def _kill_late(self) -> None:
        self._is_late = True
        self._process.kill()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return " ".join(" ".join(lines[-4:]).split())[-500:] or "it said nothing"

    def close(self) -> None:
        """End the process and wait for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Workers:
    """The workers of a run: one for each kind of process, started when it is first needed.

    Args:
        environment: of the processes, beside this one's.
    """

    def __init__(self, data: Path, environment: Mapping[str, str] | None = None) -> None:
        self.data = data
        self._environment = environment
        self._running: dict[str, WorkerProcess] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._running.values():
            worker.close()

    def of(self, engine: str) -> WorkerProcess:
        kind = engine_class(engine).process or engine
        if kind not in self._running:
            self._running[kind] = self.fresh(engine)
        return self._running[kind]

    def fresh(self, engine: str) -> WorkerProcess:
        """Start a separate process, which the caller closes."""
        return WorkerProcess(self.data, interpreter(engine, self.data), self._environment)

    def drop(self, engine: str) -> None:
        """End the worker of an engine: the next use starts another."""
        kind = engine_class(engine).process or engine
        worker = self._running.pop(kind, None)
        if worker is not None:
            worker.close()


def interpreter(engine: str, data: Path) -> str:
    """Return the path of an engine's Python interpreter.

    Raises:
        EngineError: if its environment is missing.
    """
    of = engine_class(engine)
    if of.environment is None:
        return sys.executable
    # not resolved: the link is what makes it that environment's
    path = data / of.environment
    if not path.exists():
        raise EngineError(f"not installed: no environment with {of.package} is in the data directory")
    return str(path.absolute())


@dataclass(slots=True)
class Usage:
    """The resources of a process and its descendants: processor seconds, and first and peak bytes of resident memory.

    Pages that several processes share count once for each. Samples are taken twenty times a second.
    """

    cpu_seconds: float = 0.0
    first_bytes: int = 0
    peak_bytes: int = 0


@contextmanager
def watch_usage(pid: int) -> Iterator[Usage]:
    """Watch a process and its descendants; count only their use from now on, and complete the result at the end."""
    usage = Usage()
    before = dict(_processor_seconds(pid))
    last: dict[int, float] = {}
    done = threading.Event()

    def look() -> None:
        last.update(_processor_seconds(pid))
        usage.peak_bytes = max(usage.peak_bytes, sum(map(_resident, [pid, *_descendants(pid)])))

    def keep_looking() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            look()

    look()
    usage.first_bytes = usage.peak_bytes
    thread = threading.Thread(target=keep_looking, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        done.set()
        thread.join()
        look()
        usage.cpu_seconds = sum(seconds - before.get(process, 0.0) for process, seconds in last.items())


def _descendants(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    descendants: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue
        descendants += children
        waiting += children
    return descendants


def _processor_seconds(pid: int) -> Iterator[tuple[int, float]]:
    tick = os.sysconf("SC_CLK_TCK")
    for process in [pid, *_descendants(pid)]:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield process, (int(fields[11]) + int(fields[12])) / tick


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def peak_bytes() -> int:
    """The peak of this process's memory. That of ``getrusage`` begins with what the process before the fork had."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _environment(data: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker: it compiles modules once, like those of installed packages."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**variables, "PYTHONPYCACHEPREFIX": str(data.resolve() / "bytecode"), **more}
