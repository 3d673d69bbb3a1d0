"""An S3 server on loopback, and what may go wrong with one."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from tests.support.wsgi import serve

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    # one try, so that injected errors are not waited for
    "AWS_MAX_ATTEMPTS": "1",
}

_STATUS = {
    "InternalError": "500 Internal Server Error",
    "AccessDenied": "403 Forbidden",
    "ConditionalRequestConflict": "409 Conflict",
    "PreconditionFailed": "412 Precondition Failed",
    "NoSuchBucket": "404 Not Found",
    "NotImplemented": "501 Not Implemented",
}


@dataclass
class Fault:
    """A fault of the requests whose method and path match.

    ``code`` answers with an S3 error instead of serving, or after having served where ``served`` is set: the answer
    is lost. ``delay`` seconds pass before. After ``times`` requests all is well again.
    """

    method: str
    path: str
    code: str = ""
    delay: float = 0.0
    served: bool = False
    times: int = 1_000_000
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A request, the bytes of its response, and when it was received and answered, in seconds."""

    method: str
    path: str
    query: str
    length: int
    begin: float
    end: float


@dataclass
class S3Server:
    """The server: its address, the requests it has seen as ``(method, path)``, its answers and the faults under way."""

    endpoint: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ignores_conditions: bool = False

    @contextmanager
    def failing(self, method: str, path: str, code: str = "", **options: Any) -> Iterator[Fault]:
        """Let requests fail for a while; ``path`` is a regular expression that is searched for."""
        fault = Fault(method, path, code, **options)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            self.faults.remove(fault)

    def count(self, method: str, path: str) -> int:
        """Count the requests seen."""
        return sum(m == method and re.search(path, p) is not None for m, p in self.requests)

    def longest_chain(self) -> int:
        """Return the length of the longest chain of requests, each sent after the response to the one before."""
        count, end = 0, 0.0
        for answer in sorted(self.answers, key=lambda item: item.end):
            if answer.begin >= end:
                count, end = count + 1, answer.end
        return count


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server of its own; its buckets go with it."""
    served = DomainDispatcherApplication(create_backend_app)
    server = S3Server()
    # S3 looks and writes in one step; moto looks first and writes later, and both of two writers would be the first
    one_step = threading.Lock()

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        begin = time.monotonic()
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        server.requests.append((method, path))
        if server.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ.pop("HTTP_IF_MATCH", None)
        for fault in list(server.faults):
            if fault.method != method or not re.search(fault.path, path) or fault.seen >= fault.times:
                continue
            fault.seen += 1
            time.sleep(fault.delay)
            if fault.code:
                if fault.served:
                    b"".join(served(environ, lambda *_: None))
                start(_STATUS[fault.code], [("Content-Type", "application/xml")])
                return [f"<Error><Code>{fault.code}</Code><Message>injected</Message></Error>".encode()]
        with one_step if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            parts = list(served(environ, start))
        length, end = sum(map(len, parts)), time.monotonic()
        server.answers.append(Answer(method, path, environ["QUERY_STRING"], length, begin, end))
        return parts

    with serve(application) as server.endpoint:
        yield server


def make_bucket(uri: str) -> None:
    """Make the bucket of a URI on the server of the environment."""
    _client().create_bucket(Bucket=_split(uri)[0])


def put_object(uri: str, data: bytes) -> None:
    bucket, key = _split(uri)
    _client().put_object(Bucket=bucket, Key=key, Body=data)


def copy_object(source: str, target: str) -> None:
    (from_bucket, from_key), (bucket, key) = _split(source), _split(target)
    _client().copy_object(CopySource={"Bucket": from_bucket, "Key": from_key}, Bucket=bucket, Key=key)


def object_keys(uri: str) -> set[str]:
    """List the keys of the objects below a URI, relative to it."""
    bucket, key = _split(uri)
    prefix = f"{key}/" if key else ""
    pages = _client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", ())}


def delete_object(uri: str) -> None:
    bucket, key = _split(uri)
    _client().delete_object(Bucket=bucket, Key=key)


def delete_objects(uri: str) -> None:
    """Delete all objects below a URI."""
    for key in object_keys(uri):
        delete_object(f"{uri}/{key}")


def _split(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of a URI, which is taken as it is written."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def _client() -> Any:
    return _client_of(os.environ["AWS_ENDPOINT_URL"])


@lru_cache(maxsize=1)
def _client_of(endpoint: str) -> Any:
    return boto3.client("s3", endpoint_url=endpoint)
