"""S3, Google Cloud Storage and Azure, through obstore."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from hindex.errors import MissingRuntimeError, OrcError, TableError
from hindex.orc.io.file_system import (
    REQUEST_SECONDS,
    FileInfo,
    MissingBucketError,
    WritableFileSystem,
    is_walked,
    request,
    request_all,
)
from hindex.orc.io.source import TAIL_GUESS, Range, RequestSource, one_line

try:
    import obstore
    from obstore import exceptions
    from obstore.store import AzureStore, GCSStore, S3Store
except ImportError as error:
    raise MissingRuntimeError(
        f"object stores need the package obstore, which is missing ({error}); pip install 'obstore>=0.11'"
    ) from error

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ClientConfig

T = TypeVar("T")

_CLIENT: ClientConfig = {"allow_http": True, "connect_timeout": "10s", "timeout": "120s"}
#: The options of a URI as in pyarrow, and obstore's names of them.
_OPTIONS = {"region": "region", "endpoint_override": "endpoint", "scheme": ""}
#: The error in the response of a store.
_ANSWER = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
#: The number of objects on a page of a listing.
_PAGE = 1000
#: The names of directories that have a meaning even without files.
_DIRECTORY = re.compile(r".*=|(base|delta|delete_delta)_[0-9]")
#: The stores that list names in order, from any name on. For Azure, obstore would fetch all names before it, too.
_SORTED = ("s3", "gs", "gcs")
#: The suffix of the names of S3's directory buckets, which list names in no order.
_DIRECTORY_BUCKET = "--x-s3"
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
#: In errors for credentials that are wrong, or missing both in the environment and on the metadata server.
_REFUSED = re.compile(r"status code: 40[13]\b|performing token request|/latest/api/token")
_CREDENTIALS = "check the credentials in the environment (AWS_..., GOOGLE_... or AZURE_...)"


class ObjectStore(WritableFileSystem):
    """A bucket or container.

    Args:
        scheme: ``s3``, ``gs``, ``gcs``, ``abfs``, ``abfss`` or ``az``.
        head: the part of a URI before the path: the bucket, or the container and account.
        options: the options of the URI, as a string.

    Raises:
        TableError: if the URI does not fit its scheme.
    """

    returns_versions = True

    def __init__(self, scheme: str, head: str, options: str = "") -> None:
        self._root = f"{scheme}://{head}"
        self._is_sorted = scheme in _SORTED and not head.endswith(_DIRECTORY_BUCKET)
        self._store: Any
        try:
            if scheme == "s3":
                self._store = _s3(head, options)
                return
            if options:
                raise ValueError("it has options; give them in the environment")
            if scheme in ("gs", "gcs"):
                self._store = GCSStore(head, client_options=_CLIENT)
            else:
                container, _, account = head.partition("@")
                config = {"account_name": account.partition(".")[0]} if account else {}
                self._store = AzureStore(container, config=config, client_options=_CLIENT)  # type: ignore[arg-type]
        except exceptions.BaseError as error:
            raise TableError(f"{self._root!r} cannot be opened: {_message(error)}; {_CREDENTIALS}") from error
        except ValueError as error:
            raise TableError(f"{self._root!r} cannot be opened: {_message(error)}") from error

    def info(self, path: str) -> FileInfo:
        if not path:
            raise FileNotFoundError(errno.ENOENT, "a bucket is no object", self._root)
        meta = _call(obstore.head, self._store, path)
        return _info(meta, path.rpartition("/")[2])

    def entries(self, path: str, *, recursive: bool = True) -> Iterator[FileInfo]:
        prefix = f"{path}/" if path else ""
        try:
            if recursive:
                yield from _without_markers(
                    _info(meta, meta["path"][len(prefix) :]) for meta in self._objects(prefix)
                )
                return
            listed: Any = _call(obstore.list_with_delimiter, self._store, prefix)
        except OSError as error:
            if _NO_BUCKET.search(str(error)):
                raise MissingBucketError(errno.ENOENT, "no such bucket or container", self._root) from error
            raise
        for meta in listed["objects"]:
            yield _info(meta, meta["path"][len(prefix) :])
        for directory in listed["common_prefixes"]:
            yield FileInfo(directory[len(prefix) :].rstrip("/"), 0, is_directory=True)

    def open(self, path: str, length: int | None = None, version: Hashable | None = None) -> ObjectSource:
        return ObjectSource(self._store, path, f"{self._root}/{path}", length, version)

    def read(self, path: str, limit: int) -> bytes:
        result = _call(obstore.get, self._store, path)
        # the body has not been read yet
        if result.meta["size"] > limit:
            raise ValueError(f"it has more than the {limit} bytes that are supported")
        return bytes(_call(result.bytes))

    def create(self, path: str, data: bytes) -> Hashable | None:
        result = _call(obstore.put, self._store, path, data, mode="create", use_multipart=False)
        return _version(result)

    def write(self, path: str, data: bytes) -> None:
        _call(obstore.put, self._store, path, data)

    def upload(self, path: str, local: str) -> None:
        # the time depends on the file's length
        _call(obstore.put, self._store, path, Path(local), seconds=None)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            _call(obstore.delete, self._store, path)

    def make_directory(self, path: str) -> None:
        """Do nothing: an object store has no directories."""

    def remove_directory(self, path: str) -> None:
        """Do nothing: an object store has no directories."""

    def _objects(self, prefix: str) -> Iterator[Any]:
        """List all objects; in a sorted store, only the first page of directories that are not walked."""
        start: str | None = ""
        while start is not None:
            pages = _call(obstore.list, self._store, prefix, offset=start or None, chunk_size=_PAGE)
            end = None
            while end is None and (page := _call(next, pages, None)) is not None:
                # some servers ignore the offset
                page = [meta for meta in page if meta["path"] > start]
                yield from page
                if self._is_sorted and len(page) == _PAGE:
                    end = _end_of_hidden(page[-1]["path"], prefix)
            start = end


class ObjectSource(RequestSource):
    """An object. All requests are for the listed version, or else for the version of the first response."""

    def __init__(
        self,
        store: Any,  # noqa: ANN401
        path: str,
        name: str,
        length: int | None,
        version: Hashable | None,
    ) -> None:
        self.path = name
        self._store = store
        self._path = path
        self._version = version
        self._is_listed = version is not None
        if length is not None:
            self._size = length
            return
        try:
            self._open()
        except OSError as error:
            raise OrcError(f"cannot open the file: {error.strerror or error}", path=name) from error

    def identity(self) -> Hashable | None:
        return (self.path, self._version, self._size) if self._is_listed else None

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return not self._is_listed and super().has_other_mtime(mtime_ns)

    def _open(self) -> None:
        """Fetch the length, together with the last bytes if the store supports suffix ranges."""
        try:
            result = _call(obstore.get, self._store, self._path, options={"range": {"suffix": TAIL_GUESS}})
        except FileNotFoundError:
            raise
        except OSError:
            # Azure does not support suffix ranges, and S3 does not for an object without bytes
            self._keep(_call(obstore.head, self._store, self._path))
            return
        self._keep(result.meta)
        tail = memoryview(_call(result.bytes))
        self._kept = ((self._size - len(tail), tail),)

    def _keep(self, meta: Any) -> None:  # noqa: ANN401
        self._version, self._size, self._mtime_ns = _version(meta), int(meta["size"]), _mtime_ns(meta)

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[memoryview]:
        try:
            if self._version is None and ranges:
                # the first response gives the version for the others
                first, *others = ranges
                return [self._get(first), *request_all(self._get, others)]
            if len(ranges) < 2:
                return [self._get(item) for item in ranges]
            return request_all(self._get, ranges)
        except OSError as error:
            if error.errno == errno.ESTALE:
                message = "the file was overwritten while it was open: run again when nothing writes to it"
            elif isinstance(error, FileNotFoundError):
                message = "the file was deleted after it was listed: run again"
            else:
                message = f"cannot read {len(ranges)} ranges: {error.strerror or error}"
            raise OrcError(message, path=self.path) from error

    def _get(self, item: Range) -> memoryview:
        start, length = item
        options: dict[str, Any] = {"range": (start, start + length)}
        if self._version is not None:
            options["if_match"] = self._version
        try:
            result: GetResult = _call(obstore.get, self._store, self._path, options=options)
        except OSError as error:
            if self._version is None and "InvalidRange" in str(error):
                raise OSError(errno.ESTALE, "the object is shorter") from error
            raise
        if self._version is None:
            expected = self._size
            self._keep(result.meta)
            if self._size != expected:
                raise OSError(errno.ESTALE, "the object has another length")
        elif (_version(result.meta) or self._version) != self._version:
            # the server ignores the condition
            raise OSError(errno.ESTALE, "the object has another version")
        return memoryview(_call(result.bytes))


def _s3(bucket: str, options: str) -> S3Store:
    config: dict[str, Any] = {}
    values = dict(parse_qsl(options))
    for name, value in values.items():
        if name not in _OPTIONS:
            raise ValueError(f"the option {name!r} of the URI is unknown: {', '.join(_OPTIONS)} can be given")
        if _OPTIONS[name]:
            config[_OPTIONS[name]] = value
    if "endpoint" in config and "://" not in config["endpoint"]:
        config["endpoint"] = f"{values.get('scheme', 'https')}://{config['endpoint']}"
    attempts = os.environ.get("AWS_MAX_ATTEMPTS", "")
    retries: Any = {"max_retries": int(attempts) - 1} if attempts.isdigit() and int(attempts) else None
    return S3Store(
        bucket,
        config=config,  # type: ignore[arg-type]
        client_options=_CLIENT,
        retry_config=retries,
        credential_provider=_profile_credentials(),
    )


def _profile_credentials() -> Any:  # noqa: ANN401
    """Return the credentials in AWS's configuration files, which obstore does not read; None if there are none.

    Raises:
        ValueError: if ``AWS_PROFILE`` names a profile, and boto3 is missing.
    """
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    if "AWS_PROFILE" not in os.environ and not Path(path).expanduser().exists():
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ValueError(
            f"the credentials of a profile are read by boto3, which is missing ({error}): pip install boto3, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    return Boto3CredentialProvider()


def _end_of_hidden(path: str, prefix: str) -> str | None:
    """Return a name that sorts after the unwalked directory of an object; None if it is not in one."""
    directories = path[len(prefix) :].split("/")[:-1]
    at = next((at for at, name in enumerate(directories) if not is_walked(name)), None)
    # the character after a slash
    return None if at is None else f"{prefix}{'/'.join(directories[: at + 1])}0"


def _without_markers(infos: Iterator[FileInfo]) -> Iterator[FileInfo]:
    """Yield directory markers as directories: obstore removes the slash at the end of their names.

    An object without bytes is a marker if the next object is below it, or if it has the name of a partition or of
    a transactional directory, which may have no files.
    """
    empty: FileInfo | None = None
    for info in infos:
        if empty is not None:
            if info.path.startswith(f"{empty.path}/"):
                empty = replace(empty, is_directory=True)
            yield empty
        empty = None
        if info.length:
            yield info
        elif info.path:
            empty = replace(info, is_directory=_DIRECTORY.match(info.path.rpartition("/")[2]) is not None)
    if empty is not None:
        yield empty


def _info(meta: Any, path: str) -> FileInfo:  # noqa: ANN401
    return FileInfo(path, int(meta["size"]), _mtime_ns(meta), _version(meta))


def _version(meta: Any) -> str | None:  # noqa: ANN401
    """Return the ETag as in headers; None if there is none or only a weak one, which other bytes may also have."""
    e_tag: str = meta["e_tag"] or ""
    if not e_tag or e_tag.startswith("W/"):
        return None
    # Azure's listings omit the quotes
    return e_tag if e_tag.endswith('"') else f'"{e_tag}"'


def _mtime_ns(meta: Any) -> int:  # noqa: ANN401
    # the present time if the store has none, so that no file counts as old
    modified = meta["last_modified"]
    return time.time_ns() if modified is None else int(modified.timestamp() * 1_000_000) * 1000


def _call(
    function: Callable[..., T], *args: object, seconds: float | None = REQUEST_SECONDS, **options: object
) -> T:
    """Call the library and convert its errors.

    Raises:
        OSError: for all errors of the library, with the store's own message.
    """
    try:
        return request(function, *args, seconds=seconds, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, _message(error)) from error
    except exceptions.AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, _message(error)) from error
    except exceptions.PreconditionError as error:
        raise OSError(errno.ESTALE, _message(error)) from error
    except exceptions.InvalidPathError as error:
        raise OSError(
            errno.EINVAL,
            f"an object's name has an empty part, which Spark cannot address: {_message(error)}; rename or delete it",
        ) from error
    except exceptions.BaseError as error:
        # the library raises its general error class for a refused listing
        if _REFUSED.search(str(error)):
            raise PermissionError(errno.EACCES, f"{_message(error)}; {_CREDENTIALS}") from error
        raise OSError(errno.EIO, _message(error)) from error


def _message(error: Exception) -> str:
    """Return the store's message, or the library's message in one line."""
    text = str(error).partition("\n\nDebug source:")[0]
    answer = _ANSWER.search(text)
    if answer is not None:
        return f"{' '.join(answer[2].split())} ({answer[1]})"
    return " ".join(text.split()) or one_line(error)
