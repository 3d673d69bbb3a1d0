"""The shell that runs cells."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[InteractiveShell]:
    # its history goes nowhere else
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # it warns of an active environment that is not its own
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    # it puts a module in the place of this program's
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    shell: Any = InteractiveShell()  # type: ignore[no-untyped-call]
    shell.history_manager.enabled = False
    yield shell
    shell.atexit_operations()
    atexit.unregister(shell.atexit_operations)
