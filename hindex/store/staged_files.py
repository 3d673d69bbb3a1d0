"""Index files under way: written where they stay on a local file system, and uploaded when whole elsewhere."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import IO

from hindex.store.remote import RemoteStorage
from hindex.store.storage import open_storage
from hindex.table.location import is_local


class StagedFile:
    """One index file that is being written.

    :param directory: absolute local path, or URI.
    :ivar sink: what an index builder writes to: the file's path, or an open temporary file.
    :raises OSError: if it cannot be begun.
    """

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name
        self._temporary: IO[bytes] | None = None
        self.sink: str | IO[bytes] = f"{directory}/{name}"
        if is_local(directory):
            Path(directory).mkdir(parents=True, exist_ok=True)
        else:
            self.sink = self._temporary = tempfile.NamedTemporaryFile(prefix="hindex-")  # noqa: SIM115 see close

    def publish(self) -> None:
        """Put the whole file in its place, durably; the builder has finished it.

        :raises OSError: if it cannot be written there.
        """
        if self._temporary is not None:
            self._temporary.flush()
            RemoteStorage(self._directory).upload(self._name, self._temporary.name)
        self.close()

    def close(self) -> None:
        """Free what was used on the way; a file that was not published is gone then, where it was temporary."""
        if self._temporary is not None:
            self._temporary.close()


def discard_files(directory: str, prefix: str) -> None:
    """Delete the files of a directory whose names begin with some text, and the directory where it is empty then.

    What cannot be deleted stays: this follows another error, which must not be hidden.
    """
    storage = open_storage(directory)
    with contextlib.suppress(OSError):
        for name in storage.names(""):
            if name.startswith(prefix):
                with contextlib.suppress(OSError):
                    storage.delete(name)
        storage.tidy("")
