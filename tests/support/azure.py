"""Azure's blob service on loopback: the emulator Azurite."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.parts import npm_package

#: The account of the emulator, and its key, which its documentation publishes.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "3.35.0"
# clients speak later versions of the protocol than the emulator knows
_OPTIONS = (
    "--blobPort",
    "0",
    "--inMemoryPersistence",
    "--skipApiVersionCheck",
    "--disableTelemetry",
    "--silent",
)


@contextmanager
def azurite() -> Iterator[str]:
    """Run a server and yield its address, ``http://127.0.0.1:PORT``; its containers go with it.

    Raises:
        MissingPartError: if it cannot be fetched.
    """
    program = npm_package("azurite", _VERSION) / "dist" / "src" / "blob" / "main.js"
    with subprocess.Popen(["node", str(program), *_OPTIONS], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            addresses = (re.search(r"listens on (\S+)", line) for line in server.stdout)
            started = next(filter(None, addresses), None)
            assert started is not None, "Azurite does not start"
            yield started[1]
        finally:
            server.kill()
