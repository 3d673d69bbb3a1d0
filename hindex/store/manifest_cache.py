"""Manifests that were decoded lately, for all stores of the process: a manifest never changes once it is written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hindex.store.manifest import Manifest

#: Data files that the kept manifests may describe together: a few kilobytes each, once they were asked for.
MAX_FILES = 1 << 15
#: Manifests that are kept, however small they are.
MAX_MANIFESTS = 256


class ManifestCache:
    """Manifests by key, those used longest ago dropped first. May be shared by threads.

    :param max_files: data files that all of them may describe; a manifest of more is not kept.
    """

    def __init__(self, max_files: int = MAX_FILES, max_manifests: int = MAX_MANIFESTS) -> None:
        self._max_files = max_files
        self._max_manifests = max_manifests
        self._held: OrderedDict[Hashable, Manifest] = OrderedDict()
        self._files = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Manifest | None:
        """The manifest of a key, if it is still here."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Hashable, manifest: Manifest) -> None:
        """Keep a manifest.

        :param key: says which file it was read from, and which version of that file.
        """
        files = len(manifest.files)
        if files > self._max_files:
            return
        with self._lock:
            before = self._held.pop(key, None)
            self._files += files - (0 if before is None else len(before.files))
            self._held[key] = manifest
            while self._files > self._max_files or len(self._held) > self._max_manifests:
                self._files -= len(self._held.popitem(last=False)[1].files)

    def clear(self) -> None:
        """Keep none."""
        with self._lock:
            self._held.clear()
            self._files = 0


#: The one of this process.
RECENT = ManifestCache()
