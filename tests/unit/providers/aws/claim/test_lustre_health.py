"""The health of a Lustre server, by the program that servers run."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import boto3
import pytest
from moto.server import ThreadedMotoServer

PROGRAM = (
    Path(__file__).parents[5] / "src/gridwright/providers/boot/roles/lustre_server/files/lustre_health.py"
)
TARGETS = ("shared-OST0000", "shared-OST0001")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two targets started."""
    for directory in ("run/gridwright", "etc/gridwright", "proc/self", "bin"):
        (tmp_path / directory).mkdir(parents=True)
    identity = {"schema": 1, "name": "shared-oss1", "address": "127.0.0.1", "token": 3}
    (tmp_path / "run/gridwright/node.json").write_text(json.dumps(identity))
    targets = [{"name": name, "mount": f"/srv/gridwright/{name}"} for name in TARGETS]
    slots = [{"name": "shared-oss2", "targets": []}, {"name": "shared-oss1", "targets": targets}]
    (tmp_path / "etc/gridwright/claim.json").write_text(
        json.dumps({"grid": "demo", "region": "us-east-1", "slots": slots})
    )
    mounted(tmp_path, *TARGETS)
    command(tmp_path, "lctl", "echo healthy")
    command(tmp_path, "df", "echo '       Used     Avail'; echo ' 1500000000 2500000000'")
    return tmp_path


def mounted(root: Path, *names: str) -> None:
    lines = [f"/dev/nvme{number}n1 /srv/gridwright/{name} lustre rw 0 0" for number, name in enumerate(names)]
    (root / "proc/self/mounts").write_text("\n".join([*lines, "tmpfs /run tmpfs rw 0 0\n"]))


def command(root: Path, name: str, script: str) -> None:
    (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (root / "bin" / name).chmod(0o755)


def run(root: Path, word: str, **more: str) -> subprocess.Popen[bytes]:
    path = f"{root}/bin:{os.environ['PATH']}"
    environment = {"GRIDWRIGHT_ROOT": str(root), "PATH": path, **more}
    return subprocess.Popen([sys.executable, "-I", str(PROGRAM), word], env=environment)


def figures(root: Path) -> dict[str, object]:
    assert run(root, "write").wait(60) == 0
    found: dict[str, object] = json.loads((root / "var/lib/gridwright/health/figures.json").read_text())
    return found


def test_figures_are_of_the_worst_target(root: Path) -> None:
    command(root, "df", "case $3 in *OST0001) echo 9 1;; *) echo 1 1;; esac")
    assert figures(root) == {"server": "shared-oss1", "down": 0, "free": 10.0, "at": ANY}
    mounted(root, TARGETS[0])
    assert figures(root) == {"server": "shared-oss1", "down": 1, "free": 50.0, "at": ANY}
    command(root, "lctl", "echo 'NOT HEALTHY'")
    command(root, "df", "exit 1")
    assert figures(root) == {"server": "shared-oss1", "down": 2, "free": None, "at": ANY}


@pytest.fixture
def cloud_watch() -> Iterator[str]:
    """Address of a CloudWatch."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_figures_are_told_while_they_are_new(root: Path, cloud_watch: str) -> None:
    key = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    metrics = boto3.client(
        "cloudwatch",
        region_name="us-east-1",
        endpoint_url=cloud_watch,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106 - moto's
    )

    def told() -> list[tuple[str, float]]:
        now = datetime.datetime.now(datetime.UTC)
        of = [{"Name": "Grid", "Value": "demo"}, {"Name": "FileSystem", "Value": "shared"}]
        hour = datetime.timedelta(hours=1)
        return [
            (name, point["Sum"])
            for name in ("TargetsDown", "TargetFree")
            for point in metrics.get_metric_statistics(
                Namespace="Gridwright",
                MetricName=name,
                Dimensions=of,
                StartTime=now - hour,
                EndTime=now + hour,
                Period=7200,
                Statistics=["Sum"],
            )["Datapoints"]
        ]

    mounted(root, TARGETS[0])
    figures(root)
    assert run(root, "tell", AWS_ENDPOINT_URL=cloud_watch, **key).wait(60) == 0
    assert told() == [("TargetsDown", 1.0), ("TargetFree", 62.5)]
    path = root / "var/lib/gridwright/health/figures.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "at": 0}))
    assert run(root, "tell", AWS_ENDPOINT_URL=cloud_watch, **key).wait(60) == 0
    assert told() == [("TargetsDown", 1.0), ("TargetFree", 62.5)], "what is old was told again"


# As a Lustre 2.17.0 prints it, of a target that is recovered, of one that is not, of one with nothing to do.
COMPLETE = "status: COMPLETE\nrecovery_start: 1795228739\nrecovery_duration: 0\ncompleted_clients: 1/1"
RECOVERING = "status: RECOVERING\nrecovery_start: 1795229450\ntime_remaining: 293\nconnected_clients: 0/1"
INACTIVE = "status: INACTIVE"


def recovery(root: Path, first: str, second: str, health: str = "healthy") -> None:
    answers = f'*health_check) echo "{health}";; *OST0000*) echo "{first}";; *) echo "{second}";;'
    command(root, "lctl", f'case "$*" in {answers} esac')


def waited(root: Path) -> tuple[int, str]:
    environment = {"GRIDWRIGHT_ROOT": str(root), "PATH": f"{root}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-I", str(PROGRAM), "wait"],
        env={**environment, "GRIDWRIGHT_WAIT_S": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_server_is_set_up_when_its_targets_are_recovered(root: Path) -> None:
    recovery(root, COMPLETE, INACTIVE)
    assert waited(root) == (0, "")


@pytest.mark.parametrize(
    ("first", "second", "health", "says"),
    [
        (COMPLETE, RECOVERING, "healthy", "recovery of shared-OST0001 is RECOVERING, 293 s left"),
        ("status: WAITING_FOR_CLIENTS", COMPLETE, "healthy", "OST0000 is WAITING_FOR_CLIENTS"),
        ("", COMPLETE, "healthy", "recovery of shared-OST0000 is not told"),
        (COMPLETE, COMPLETE, "device shared-OST0001 reported unhealthy", "health_check says: device"),
    ],
)
def test_one_that_recovers_or_is_not_healthy_is_not(
    root: Path, first: str, second: str, health: str, says: str
) -> None:
    recovery(root, first, second, health)
    status, said = waited(root)
    assert status == 1
    assert says in said


def test_one_that_lacks_a_target_is_not(root: Path) -> None:
    recovery(root, COMPLETE, COMPLETE)
    mounted(root, TARGETS[0])
    assert waited(root)[0] == 1
    (root / "run/gridwright/node.json").unlink()
    assert "claim.json name targets of this server" in waited(root)[1]


def test_a_machine_that_is_one_server_for_good_is_told_its_targets_by_another_file(root: Path) -> None:
    """On Oracle Cloud nobody claims a place."""
    recovery(root, COMPLETE, COMPLETE)
    for name in ("run/gridwright/node.json", "etc/gridwright/claim.json"):
        (root / name).unlink()
    targets = [{"name": name, "mount": f"/srv/gridwright/{name}"} for name in TARGETS]
    fixed = root / "etc/gridwright/targets.json"
    fixed.write_text(json.dumps({"schema": 1, "name": "shared-oss1", "targets": targets}))
    assert waited(root)[0] == 0
    assert figures(root)["server"] == "shared-oss1"
    mounted(root, TARGETS[0])
    assert waited(root)[0] == 1
    assert figures(root)["down"] == 1
