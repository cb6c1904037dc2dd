"""Stores of objects for tests: versitygw where it is built, else moto; or the one that is asked for."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import versitygw
from tests.support.command_server import botocore_once
from tests.support.file_trees import HOSTILE_NAMES
from tests.support.seaweedfs import seaweedfs

REGION = "us-east-1"
BUCKET = "site-sas"
SECRET = "gridwright-secret"  # noqa: S105


@dataclass
class StoreServer:
    """A store that runs, and how commands reach it."""

    endpoint_url: str
    kind: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def client(self) -> Any:
        """boto3's client of it."""
        import boto3

        return boto3.session.Session().client(
            "s3", endpoint_url=self.endpoint_url, region_name=REGION,
            aws_access_key_id="gridwright", aws_secret_access_key=SECRET,
        )  # fmt: skip


def names_for(server: StoreServer) -> list[bytes]:
    """Names of files that a store can have in its keys: moto finds no object with a line feed in its."""
    return [each for each in HOSTILE_NAMES if server.kind != "moto" or b"\n" not in each]


@contextlib.contextmanager
def store_server(
    directory: Path, kind: str | None = None, *, keeps_versions: bool = False
) -> Iterator[StoreServer]:
    """A store with an empty bucket `site-sas`."""
    botocore_once()
    chosen = kind or ("versitygw" if versitygw.binary().exists() else "moto")
    servers = {"versitygw": _versitygw, "seaweedfs": seaweedfs}
    with servers[chosen](directory) if chosen in servers else _moto() as endpoint:
        environment = {
            "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "gridwright", "AWS_SECRET_ACCESS_KEY": "gridwright-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        server = StoreServer(endpoint, chosen, environment)
        server.client().create_bucket(Bucket=BUCKET)
        if keeps_versions:
            server.client().put_bucket_versioning(
                Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"}
            )
        yield server


@contextlib.contextmanager
def store_in_environment(directory: Path, kind: str) -> Iterator[StoreServer]:
    """A store of which this process has the address and the credentials in its environment."""
    with store_server(directory, kind) as served, pytest.MonkeyPatch.context() as patch:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        yield served


@contextlib.contextmanager
def _moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextlib.contextmanager
def _versitygw(directory: Path) -> Iterator[str]:
    data, versions = directory / "objects", directory / "versions"
    data.mkdir(parents=True)
    versions.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            versitygw.binary(), "--port", f"127.0.0.1:{port}", "--quiet",
            "posix", "--versioning-dir", versions, data,
        ],
        env={**os.environ, "ROOT_ACCESS_KEY": "gridwright", "ROOT_SECRET_KEY": "gridwright-secret"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, "versitygw ended"
            assert time.monotonic() < deadline, "versitygw does not listen"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(10)


@contextlib.contextmanager
def store_of_environment(directory: Path) -> Iterator[StoreServer]:
    """A store of which the environment says where it is, and how it is reached."""
    with pytest.MonkeyPatch.context() as patch, store_server(directory) as served:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        yield served


def prefix_of(test: str) -> str:
    """A prefix of the bucket that is the test's own."""
    return f"s3://{BUCKET}/{test.translate(str.maketrans('[]_', '---'))}"
