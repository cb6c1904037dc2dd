"""Stores of objects for tests: versitygw where it is built, else moto; or the one that is asked for."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import versitygw
from tests.support.command_server import botocore_once
from tests.support.file_trees import HOSTILE_NAMES

SECRET = "gridwright-secret"  # noqa: S105
_START_S = 90


def _weed() -> Path:
    """Where it is, or would be."""
    return Path(sys.executable).with_name("weed")


@contextlib.contextmanager
def _seaweedfs(directory: Path) -> Iterator[str]:
    """SeaweedFS, whose program comes with a package of the tests; its endpoint."""
    directory.mkdir(parents=True)
    who = {"accessKey": "gridwright", "secretKey": SECRET}
    identity = {
        "name": "tests",
        "credentials": [who],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
    master, volume, filer, store = _free_ports(4)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                _weed(), "server", "-filer", "-s3",
                f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}",
                f"-s3.port={store}", f"-s3.config={directory / 's3.json'}", "-s3.iam=false",
                "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false",
                "-master.volumeSizeLimitMB=128", "-volume.max=20",
            ],
            stdout=log, stderr=log, cwd=directory, env=os.environ,
        )  # fmt: skip
        try:
            _wait_for_weed(store, process)
            yield f"http://127.0.0.1:{store}"
        finally:
            process.kill()
            process.wait(10)


def _free_ports(count: int) -> list[int]:
    """Ports of which that 10,000 above is free, too: its services speak there with each other."""
    found: list[int] = []
    # Workers that look at the same time would find the same ports.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    with contextlib.ExitStack() as held:
        for port in range(20_000 + 1_000 * worker, 50_000):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                held.enter_context(socket.create_server(("127.0.0.1", port + 10_000)))
                found.append(port)
                if len(found) == count:
                    return found
    raise AssertionError("no ports are free")


def _wait_for_weed(port: int, process: subprocess.Popen[bytes]) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + _START_S
    client = boto3.session.Session().client(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
        aws_access_key_id="gridwright", aws_secret_access_key=SECRET,
    )  # fmt: skip
    while True:
        assert process.poll() is None, "SeaweedFS ended"
        assert time.monotonic() < deadline, "SeaweedFS does not listen"
        try:
            # A volume takes a moment after the port.
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"x")
        except (BotoCoreError, ClientError):
            time.sleep(0.2)
        else:
            return


REGION = "us-east-1"
BUCKET = "site-sas"


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
    servers = {"versitygw": _versitygw, "seaweedfs": _seaweedfs}
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
