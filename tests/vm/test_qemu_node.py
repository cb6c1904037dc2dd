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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridwright.node_programs.one_file import SCRATCH
from gridwright.providers.lab.image import python_directories
from tests.support.command import wait_until
from tests.vm.images import Image
from tests.vm.machine import blank_disk
from tests.vm.qemu import Qemu
from tests.vm.scratch_node import content

pytestmark = [pytest.mark.vm, pytest.mark.qemu, pytest.mark.timeout(2000)]

_SPEC = """\
name: vm
provider: local
scheduler: {type: ssh}
nodes: {compute: {hosts: node1}}
filesystems:
  scratch: {type: local, path: /scratch, disks: {type: instance-store, count: 2}}
libraries: {work: {filesystem: scratch}}
"""
_WISH = {"schema": 1, "arrays": [{"name": "scratch", "mount_point": "/scratch", "members": 2}]}
_AMAZON = """set -e
modprobe nvmet-tcp
modprobe nvme-tcp
cd /sys/kernel/config/nvmet
mkdir ports/1
echo tcp > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo 127.0.0.1 > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
attach() {
    truncate -s 1G /var/tmp/$1
    mkdir subsystems/$1
    echo 1 > subsystems/$1/attr_allow_any_host
    echo -n "$2" > subsystems/$1/attr_model
    echo $1 > subsystems/$1/attr_serial
    mkdir subsystems/$1/namespaces/1
    echo -n /var/tmp/$1 > subsystems/$1/namespaces/1/device_path
    echo 1 > subsystems/$1/namespaces/1/enable
    ln -s /sys/kernel/config/nvmet/subsystems/$1 ports/1/subsystems/$1
    echo transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=$1 > /dev/nvme-fabrics
}
attach AWS0123 "Amazon EC2 NVMe Instance Storage"
attach vol0123 "Amazon Elastic Block Store"
udevadm settle
"""
"""NVMe disks of Amazon's models, over the network: the kernel's own target chooses the model."""
_DISK_BYTES = 1 << 30
_COMMAND_S = 1800.0
"""Without KVM a playbook takes minutes: each of its tasks starts an interpreter that is interpreted."""
_ANSWERS_S = 600.0
"""A node has some 20 s to answer the doctor: too short where QEMU interprets on a machine that is busy."""


@dataclass(frozen=True, slots=True)
class Node:
    """The machine, and a user outside who works on it with Gridwright."""

    machine: Qemu
    disks: dict[str, Path]
    directory: Path

    @classmethod
    def boot(cls, image: Image, directory: Path, mounts: dict[str, Path]) -> Node:
        """A node with two local disks and a volume, all blank."""
        names = ("local0", "local1", "volume")
        devices = ["-smbios", "type=3,asset=OracleCloud.com", "-device", "virtio-scsi-pci,id=scsi"]
        disks = {name: blank_disk(directory / f"{name}.img", _DISK_BYTES) for name in names}
        for name, path in disks.items():
            devices += ["-drive", f"if=none,id={name},format=raw,cache=unsafe,discard=unmap,file={path}"]
            kind = "scsi-hd,bus=scsi.0,vendor=ORACLE,product=BlockVolume" if name == "volume" else "nvme"
            devices += ["-device", f"{kind},drive={name},serial={name}"]
        return cls(Qemu(image, directory / "qemu", devices, mounts), disks, directory)

    def remove(self) -> None:
        """End it, and remove its disks."""
        self.machine.remove()
        for path in self.disks.values():
            path.unlink(missing_ok=True)

    def gridwright(self, *words: str) -> tuple[int, Any, str]:
        """Run a command outside: its status, its document, and what it said."""
        (self.directory / "bin").mkdir(exist_ok=True)
        ssh = self.directory / "bin" / "ssh"
        ssh.write_text(_ssh(self.machine))
        ssh.chmod(0o755)
        (self.directory / "grid.yaml").write_text(_SPEC)
        done = subprocess.run(
            [str(Path(sys.executable).with_name("gridwright")), *words, "--json"],
            cwd=self.directory,
            env=os.environ | {"PATH": f"{ssh.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
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
            mount = f"mkdir -p {place} && mount -t 9p -o {options} {tag} {place}"
            self.machine.run(f"mountpoint -q {place} || {{ {mount}; }}").ok()

    def assert_mounted(self) -> None:
        """The array is of the two local disks, and nothing else was touched."""
        shown = self.machine.run(
            "findmnt --noheadings --output SOURCE,FSTYPE,OPTIONS /scratch; cat /proc/mdstat;"
            f"systemctl is-active {SCRATCH.unit}"
        ).stdout
        assert "xfs" in shown, shown
        assert "raid0" in shown, shown
        for disk in ("nvme0n1", "nvme1n1"):
            assert disk in shown.split("unused devices")[0], shown
        assert shown.rstrip().endswith("\nactive"), shown
        assert content(self.disks["volume"])[1] == 0


def _ssh(machine: Qemu) -> str:
    """Stands for the user's ~/.ssh/config, which says where node1 is."""
    options = ["-p", str(machine.port), "-i", str(machine.image.key), "-o", "HostName=127.0.0.1"]
    options += ["-o", "User=root", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"]
    return f'#!/bin/sh\nexec /usr/bin/ssh {shlex.join(options)} "$@"\n'


@pytest.fixture(scope="module")
def at_work(
    image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Future[tuple[int, Any, str]]]]:
    """A node that is set up from outside meanwhile: without KVM that takes a core for minutes."""
    mounts = {f"python{at}": path for at, path in enumerate(python_directories())}
    node = Node.boot(image, tmp_path_factory.mktemp("set-up"), mounts)

    def set_up() -> tuple[int, Any, str]:
        node.machine.boot()
        return node.gridwright("setup", "grid.yaml", "--user", "root")

    with ThreadPoolExecutor(1) as pool:
        try:
            yield node, pool.submit(set_up)
        finally:
            node.remove()


@pytest.mark.usefixtures("at_work")
def test_the_boot_unit_keeps_data_and_makes_the_array_anew_after_a_stop(image: Image, tmp_path: Path) -> None:
    node = Node.boot(image, tmp_path, {})
    machine = node.machine
    try:
        machine.boot()
        machine.put(str(SCRATCH.path), SCRATCH.archive(), mode=0o755)
        machine.put("/etc/gridwright/scratch.json", json.dumps(_WISH).encode())
        machine.put(f"/etc/systemd/system/{SCRATCH.unit}", SCRATCH.unit_text().encode())
        machine.run(f"systemctl enable --now {SCRATCH.unit}", timeout_s=300).ok()
        node.assert_mounted()

        machine.run(_AMAZON).ok()
        seen = json.loads(machine.run(f"python3 {SCRATCH.path} --dry-run --json").ok())
        standing = {disk["model"]: disk["standing"] for disk in seen["disks"]}
        assert standing["QEMU NVMe Ctrl"] == "ours"
        # A volume by its model, and whatever is reached over a network: both outlive a stop.
        assert standing["Amazon Elastic Block Store"] == "no instance store"
        assert standing["Amazon EC2 NVMe Instance Storage"] == "no instance store"

        machine.run("echo precious > /scratch/data; sync").ok()
        machine.reboot()
        machine.run(f"systemctl start {SCRATCH.unit}", timeout_s=300).ok()
        assert machine.run("cat /scratch/data").ok() == "precious\n"
        node.assert_mounted()

        machine.shut_down()
        for name in ("local0", "local1"):
            blank_disk(node.disks[name], _DISK_BYTES)
        machine.boot()
        machine.run(f"systemctl start {SCRATCH.unit}", timeout_s=300).ok()
        node.assert_mounted()
        assert machine.run("ls /scratch/data").status != 0
        assert "is made anew" in machine.run(f"journalctl --boot --unit {SCRATCH.unit}").ok()
    finally:
        node.remove()


def test_a_node_that_is_set_up_from_outside_is_found_well(
    at_work: tuple[Node, Future[tuple[int, Any, str]]],
) -> None:
    node, work = at_work
    status, document, said = work.result(_COMMAND_S)
    assert status == 0, f"{json.dumps(document)}\n{said}"
    node.assert_mounted()

    status, document, said = node.gridwright("setup", "grid.yaml", "--user", "root")
    assert status == 0, f"{json.dumps(document)}\n{said}"
    assert [(each["state"], each["changes"]) for each in document["nodes"]] == [("ok", [])], document

    node.mount_python()
    status, wrong = wait_until(
        lambda: found if "node-silent" not in (found := examined(node))[1] else None,
        seconds=_ANSWERS_S,
        what="a node that answers the doctor in its time",
        last=lambda: examined(node),
    )
    assert (status, wrong) == (0, {})


def examined(node: Node) -> tuple[int, dict[str, Any]]:
    """The doctor's exit status, and what it finds wrong by name."""
    status, document, said = node.gridwright("doctor", "grid.yaml")
    assert document is not None, said
    wrong = [check for check in document["checks"] if not check["ok"] and check["level"] == "error"]
    return status, {check["name"]: check for check in wrong}
