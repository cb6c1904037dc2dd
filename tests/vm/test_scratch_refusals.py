"""Scratch storage never touches what it did not make: every byte of a disk with something on it stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.vm.conftest import MakeUml
from tests.vm.scratch_node import DEVICES, ScratchNode, blank_disks, content

pytestmark = pytest.mark.vm

_FOREIGN = "/dev/ubdd"
_HOLDINGS = {
    "xfs": f"mkfs.xfs -q {_FOREIGN}",
    "ext4": f"mkfs.ext4 -q {_FOREIGN} 64M",
    "GPT": f"echo ',,L' | sfdisk -q --label gpt {_FOREIGN}",
    "partition table": f"echo ',,83' | sfdisk -q --label dos {_FOREIGN}",
    "LVM2_member": f"modprobe dm-mod; pvcreate -qq {_FOREIGN}",
    "array node1:5": (
        f"mdadm --create /dev/md5 --quiet --run --level=0 --force --raid-devices=1 {_FOREIGN};"
        "mdadm --stop --quiet /dev/md5"
    ),
    "swap": f"mkswap -q {_FOREIGN}",
    # No signature that any program knows, and not blank all the same.
    "data": f"echo precious | dd of={_FOREIGN} bs=1M conv=notrunc status=none",
}
"""What makes a disk somebody's, by the word that the refusal has for it."""


MACHINES = 2


def test_a_disk_that_holds_anything_is_refused_and_keeps_every_byte(
    make_uml: MakeUml, tmp_path: Path
) -> None:
    nodes, directories = [], []
    for number in range(MACHINES):
        directories.append(tmp_path / str(number))
        directories[-1].mkdir()
        nodes.append(ScratchNode(make_uml(blank_disks(directories[-1]))))
        nodes[-1].boot()
    shares = [list(_HOLDINGS)[number::MACHINES] for number in range(MACHINES)]
    with ThreadPoolExecutor(MACHINES) as pool:
        list(pool.map(_refused, nodes, directories, shares))

    node = nodes[0]
    node.machine.run(f"{_HOLDINGS['ext4']}; sync").ok()
    wiped = node.scratch("--wipe", _FOREIGN)
    assert (wiped.status, wiped.case) == (0, "make"), wiped
    node.assert_healthy()


def _refused(node: ScratchNode, directory: Path, holdings: list[str]) -> None:
    disks = {device: directory / f"{device}.img" for device in DEVICES}
    for holding in holdings:
        node.machine.run(f"set -e; {_HOLDINGS[holding]}; sync; echo 3 > /proc/sys/vm/drop_caches").ok()
        before = {device: content(disk) for device, disk in disks.items()}
        assert before["ubdd"][1] > 0, holding

        refused = node.scratch()

        node.machine.run("sync").ok()
        assert (refused.status, refused.case) == (3, "refused"), (holding, refused)
        assert {device: content(disk) for device, disk in disks.items()} == before, holding
        problem = refused.document["arrays"][0]["problems"][0]
        assert _FOREIGN in problem["what"], (holding, problem)
        assert f"--wipe {_FOREIGN}" in problem["remedy"], (holding, problem)
        found = {disk["path"]: disk["found"] for disk in refused.document["disks"]}[_FOREIGN]
        assert holding in found, (holding, found)
        assert node.machine.run("ls /sys/block | grep ^md").stdout == "", holding
        node.machine.run(f"blkdiscard -f {_FOREIGN}").ok()
