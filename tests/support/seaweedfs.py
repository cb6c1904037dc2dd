"""SeaweedFS, a store of its own kind: its program comes with a package of the tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SECRET = "gridwright-secret"  # noqa: S105
_START_S = 90


def binary() -> Path:
    """Where it is, or would be."""
    return Path(sys.executable).with_name("weed")


@contextlib.contextmanager
def seaweedfs(directory: Path) -> Iterator[str]:
    """A store that runs; its endpoint."""
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
                binary(), "server", "-filer", "-s3",
                f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}",
                f"-s3.port={store}", f"-s3.config={directory / 's3.json'}", "-s3.iam=false",
                "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false",
                "-master.volumeSizeLimitMB=128", "-volume.max=20",
            ],
            stdout=log, stderr=log, cwd=directory, env=os.environ,
        )  # fmt: skip
        try:
            _wait_for(store, process)
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


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
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
