"""A node as a cloud starts it: NVMe disks of an instance store, a volume and a root disk beside, and systemd.

Emulated is a shape of Oracle's cloud, whose local disks are known by their bus, and its volumes by SCSI: NVMe
disks of QEMU are all of one model, so that Amazon's disks and volumes cannot be told apart there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.lab.host_python import python_directories
from tests.vm.conftest import MakeQemu
from tests.vm.machine import blank_disk
from tests.vm.qemu import Qemu
from tests.vm.scratch_node import content

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

_SPEC = """\
name: vm
provider: local
scheduler: {type: ssh}
nodes: {compute: {hosts: node1}}
filesystems:
  scratch: {type: local, path: /scratch, disks: {type: instance-store, count: 2}}
libraries: {work: {filesystem: scratch}}
"""
_DISK_BYTES = 1 << 30
_SHOWN = "findmnt --noheadings --output SOURCE,FSTYPE,OPTIONS /scratch"


@dataclass(frozen=True, slots=True)
class Node:
    """The machine, and a user outside who works on it with Gridwright."""

    machine: Qemu
    disks: dict[str, Path]
    directory: Path

    def gridwright(self, *words: str) -> tuple[int, Any, str]:
        """Run a command outside: its status, its document, and what it said."""
        path = f"{self.directory}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            [str(Path(sys.executable).parent / "gridwright"), *words, "--json"],
            cwd=self.directory,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or "null"), done.stderr

    def mount_python(self) -> None:
        """Have the Gridwright of this machine at the same paths: the doctor starts it on its nodes."""
        for tag, path in self.machine.mounts.items():
            place, options = (
                shlex.quote(str(path)),
                "trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144",
            )
            self.machine.run(f"mkdir -p {place} && mount -t 9p -o {options} {tag} {place}").ok()


@pytest.fixture
def node(make_qemu: MakeQemu, tmp_path: Path) -> Iterator[Node]:
    devices = ["-smbios", "type=3,asset=OracleCloud.com", "-device", "virtio-scsi-pci,id=scsi"]
    disks = {
        name: blank_disk(tmp_path / f"{name}.img", _DISK_BYTES) for name in ("local0", "local1", "volume")
    }
    for name, path in disks.items():
        devices += ["-drive", f"if=none,id={name},format=raw,cache=unsafe,discard=unmap,file={path}"]
        kind = "scsi-hd,bus=scsi.0,vendor=ORACLE,product=BlockVolume" if name == "volume" else "nvme"
        devices += ["-device", f"{kind},drive={name},serial={name}"]
    machine = make_qemu(devices, {f"python{at}": path for at, path in enumerate(python_directories())})
    machine.boot()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(_ssh(machine))
    (tmp_path / "bin" / "ssh").chmod(0o755)
    (tmp_path / "grid.yaml").write_text(_SPEC)
    yield Node(machine, disks, tmp_path)


def _ssh(machine: Qemu) -> str:
    """Stands for the user's ~/.ssh/config, which says where node1 is."""
    options = ["-p", str(machine.port), "-i", str(machine.image.key), "-o", "HostName=127.0.0.1"]
    options += ["-o", "User=root", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"]
    return f'#!/bin/sh\nexec /usr/bin/ssh {shlex.join(options)} "$@"\n'


def _assert_mounted(node: Node) -> None:
    """The array is of the two local disks, and nothing else was touched."""
    shown = node.machine.run(
        f"{_SHOWN}; cat /proc/mdstat; systemctl is-active gridwright-scratch.service"
    ).ok()
    assert "xfs" in shown, shown
    assert "raid0" in shown, shown
    for disk in ("nvme0n1", "nvme1n1"):
        assert disk in shown.split("unused devices")[0], shown
    assert shown.rstrip().endswith("active"), shown
    assert content(node.disks["volume"])[1] == 0


def test_a_node_is_set_up_from_outside_survives_a_stop_and_is_found_well(node: Node) -> None:
    status, document, said = node.gridwright("setup", "grid.yaml", "--user", "root")
    assert status == 0, (document, said)
    _assert_mounted(node)

    status, document, said = node.gridwright("setup", "grid.yaml", "--user", "root")
    assert status == 0, (document, said)
    assert [(each["state"], each["changes"]) for each in document["nodes"]] == [("ok", [])], document

    node.machine.run("echo precious > /scratch/data; sync").ok()
    node.machine.reboot()
    assert node.machine.run("cat /scratch/data").ok() == "precious\n"
    _assert_mounted(node)

    node.machine.shut_down()
    for name in ("local0", "local1"):
        blank_disk(node.disks[name], _DISK_BYTES)
    node.machine.boot()
    (node.directory / "bin" / "ssh").write_text(_ssh(node.machine))
    node.machine.run("systemctl is-system-running --wait", timeout_s=180)
    _assert_mounted(node)
    assert node.machine.run("ls /scratch/data").status != 0

    node.mount_python()
    status, document, said = node.gridwright("doctor", "grid.yaml")
    wrong = [check for check in document["checks"] if not check["ok"] and check["level"] == "error"]
    assert (status, wrong) == (0, []), (document, said)
