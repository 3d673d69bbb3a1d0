"""Empty buckets and containers on servers on loopback, each with another client than hindex's: PyArrow's."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc

from tests.support.azure import ACCOUNT, KEY
from tests.support.gcs import GcsServer


@dataclass
class Place:
    """An empty bucket or container.

    Attributes:
        uri: its URI.
        files: PyArrow's file system of it; paths are relative to it.
        variables: the variables that name its server and credentials.
        wrong_variables: those of them that have another value with credentials that the server does not know.
    """

    uri: str
    files: pyarrow.fs.FileSystem
    variables: dict[str, str]
    wrong_variables: dict[str, str]

    def write(self, path: str, table: pa.Table) -> None:
        """Write an ORC file of several stripes."""
        if "/" in path:
            self.files.create_dir(path.rpartition("/")[0])
        with self.files.open_output_stream(path) as sink:
            pyarrow.orc.write_table(table, sink, stripe_size=1 << 16)

    def keys(self, path: str) -> set[str]:
        """Return the paths of the files below a directory, relative to it."""
        infos = self.files.get_file_info(pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True))
        return {info.path.removeprefix(f"{path}/") for info in infos if info.is_file}


def azure_place(address: str) -> Place:
    authority = address.removeprefix("http://")
    files = pyarrow.fs.AzureFileSystem(
        ACCOUNT,
        account_key=KEY,
        blob_storage_authority=authority,
        blob_storage_scheme="http",
        dfs_storage_authority=authority,
        dfs_storage_scheme="http",
    )
    variables = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"{address}/{ACCOUNT}",
    }
    wrong = {"AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(bytes(64)).decode()}
    return _place("az", files, variables, wrong)


def gcs_place(server: GcsServer) -> Place:
    files = pyarrow.fs.GcsFileSystem(
        anonymous=True, scheme="http", endpoint_override=server.json_endpoint, project_id="tests"
    )
    variables = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(server.account)}
    wrong = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(server.unknown_account)}
    return _place("gs", files, variables, wrong)


def _place(
    scheme: str, files: pyarrow.fs.FileSystem, variables: dict[str, str], wrong: dict[str, str]
) -> Place:
    name = f"b{uuid.uuid4().hex[:12]}"
    files.create_dir(name)
    return Place(f"{scheme}://{name}", pyarrow.fs.SubTreeFileSystem(name, files), variables, wrong)
