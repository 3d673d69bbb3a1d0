"""Web servers on loopback, in threads of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.serving import make_server


@contextmanager
def serve(application: Callable[..., Iterable[bytes]]) -> Iterator[str]:
    """Serve a WSGI application and yield its address, ``http://127.0.0.1:PORT``."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    listener: Any = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
