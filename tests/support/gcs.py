"""Google Cloud Storage on loopback: fake-gcs-server, with the XML API in front of it.

fake-gcs-server serves the JSON API of Google and checks its preconditions. obstore uses the XML API, where
fake-gcs-server refuses uploads (``invalid uploadType``), ignores ``If-Match``, and lists all objects at once.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

import urllib3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from werkzeug import Request, Response

from tests.support.parts import go_program
from tests.support.wsgi import serve

_MODULE, _VERSION = "github.com/fsouza/fake-gcs-server", "v1.56.1"
#: Headers of an object that clients read.
_HEADERS = ("Content-Range", "ETag", "Last-Modified", "X-Goog-Generation")
#: Seconds within which fake-gcs-server starts.
_START_SECONDS = 30


@dataclass
class GcsServer:
    """The server.

    Attributes:
        json_endpoint: the JSON API, ``127.0.0.1:PORT``.
        account: the service account that the XML API accepts: the content of the JSON file that Google's console
            offers, with the address.
        unknown_account: another one.
    """

    json_endpoint: str
    account: dict[str, str]
    unknown_account: dict[str, str]


def _account(key: rsa.RSAPrivateKey, endpoint: str) -> dict[str, str]:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "tests@tests.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "gcs_base_url": endpoint,
    }


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """Run a server; its buckets go with it.

    Raises:
        MissingPartError: if fake-gcs-server cannot be fetched.
    """
    program = go_program(_MODULE, _VERSION)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    key = _new_key()
    options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-log-level", "error"]
    with subprocess.Popen([program, *options, "-port", str(port)]) as process:
        try:
            _wait_for(port)
            api = _XmlApi(f"http://127.0.0.1:{port}", key.public_key())
            with serve(Request.application(api.respond)) as address:
                yield GcsServer(f"127.0.0.1:{port}", _account(key, address), _account(_new_key(), address))
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


class _XmlApi:
    """The part of the XML API that obstore uses, as requests of the JSON API."""

    def __init__(self, json_api: str, key: rsa.RSAPublicKey) -> None:
        self._api = json_api
        self._key = key
        self._http = urllib3.PoolManager(maxsize=64, block=True, retries=False)
        #: The parts of each upload that is under way.
        self._uploads: dict[str, dict[int, bytes]] = {}

    def respond(self, request: Request) -> Response:
        if not self._is_signed(request):
            return _error(401, "AuthenticationRequired", "Authentication required.")
        bucket, _, name = request.path[1:].partition("/")
        upload = request.args.get("uploadId", "")
        match request.method:
            case "GET" if not name:
                return self._list(bucket, request.args)
            case "GET" | "HEAD":
                return self._get(bucket, name, request)
            case "DELETE":
                return Response(status=self._http.request("DELETE", self._object(bucket, name)).status)
            case "PUT" if upload:
                self._uploads[upload][int(request.args["partNumber"])] = request.get_data()
                return Response(headers={"ETag": f'"{request.args["partNumber"]}"'})
            case "POST" if not upload:
                upload = uuid.uuid4().hex
                self._uploads[upload] = {}
                return _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
            case "POST":
                parts = self._uploads.pop(upload)
                stored = self._insert(bucket, name, b"".join(parts[at] for at in sorted(parts)), {})
                e_tag = stored.headers.get("ETag", "")
                return _xml("CompleteMultipartUploadResult", f"<ETag>{escape(e_tag)}</ETag>")
            case "PUT":
                generation = request.headers.get("X-Goog-If-Generation-Match")
                conditions = {} if generation is None else {"ifGenerationMatch": generation}
                return self._insert(bucket, name, request.get_data(), conditions)
        raise NotImplementedError(f"{request.method} {request.full_path}")

    def _is_signed(self, request: Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        signed, _, signature = token.rpartition(".")
        try:
            content = base64.urlsafe_b64decode(signature + "==")
            self._key.verify(content, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            return False
        return True

    def _object(self, bucket: str, name: str) -> str:
        return f"{self._api}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"

    def _insert(self, bucket: str, name: str, data: bytes, conditions: Mapping[str, str]) -> Response:
        options = urlencode({"uploadType": "media", "name": name, **conditions})
        answer = self._http.urlopen(
            "POST", f"{self._api}/upload/storage/v1/b/{bucket}/o?{options}", body=data
        )
        if answer.status == 412:
            return _error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        if answer.status != 200:
            return _error(404, "NoSuchBucket", "The specified bucket does not exist.")
        stored = answer.json()
        return Response(headers={"ETag": f'"{stored["etag"]}"', "X-Goog-Generation": stored["generation"]})

    def _get(self, bucket: str, name: str, request: Request) -> Response:
        ranges = {"Range": request.headers["Range"]} if "Range" in request.headers else {}
        answer = self._http.request(request.method, f"{self._object(bucket, name)}?alt=media", headers=ranges)
        if answer.status == 404:
            return _error(404, "NoSuchKey", "The specified key does not exist.")
        if request.headers.get("If-Match", answer.headers["ETag"]) != answer.headers["ETag"]:
            return _error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        headers = {header: answer.headers[header] for header in _HEADERS if header in answer.headers}
        response = Response(answer.data, answer.status, headers)
        response.content_length = int(answer.headers["Content-Length"])
        return response

    def _list(self, bucket: str, options: Mapping[str, str]) -> Response:
        fields = {"prefix": options.get("prefix", ""), "delimiter": options.get("delimiter", "")}
        fields["maxResults"] = options.get("max-keys", "1000")
        if "start-after" in options:
            # the JSON API lists the name itself, too
            fields["startOffset"] = f"{options['start-after']}\0"
        if "continuation-token" in options:
            fields["pageToken"] = options["continuation-token"]
        answer = self._http.request("GET", f"{self._api}/storage/v1/b/{bucket}/o", fields=fields)
        if answer.status != 200:
            return _error(404, "NoSuchBucket", "The specified bucket does not exist.")
        listed = json.loads(answer.data)
        objects = (
            f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
            f'<LastModified>{item["updated"]}</LastModified><ETag>"{item["etag"]}"</ETag></Contents>'
            for item in listed.get("items", ())
        )
        prefixes = (
            f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
            for prefix in listed.get("prefixes", ())
        )
        token = escape(listed.get("nextPageToken", ""))
        next_page = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        return _xml("ListBucketResult", "".join((*objects, *prefixes, next_page)))


def _xml(name: str, content: str, status: int = 200) -> Response:
    return Response(f"<{name}>{content}</{name}>", status, content_type="application/xml")


def _error(status: int, code: str, message: str) -> Response:
    return _xml("Error", f"<Code>{code}</Code><Message>{message}</Message>", status)
