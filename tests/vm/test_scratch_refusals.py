"""Scratch storage never touches what it did not make: every byte of a disk with something on it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.conftest import MakeUml
from tests.vm.scratch_node import ScratchNode, blank_disks, content

pytestmark = pytest.mark.vm

_FOREIGN = "/dev/ubdd"
_HOLDINGS = {
    "xfs": f"mkfs.xfs -q {_FOREIGN}",
    "ext4": f"mkfs.ext4 -q {_FOREIGN} 64M",
    "gpt": f"echo ',,L' | sfdisk -q --label gpt {_FOREIGN}",
    "dos": f"echo ',,83' | sfdisk -q --label dos {_FOREIGN}",
    "LVM2_member": f"modprobe dm-mod; pvcreate -qq {_FOREIGN}",
    "linux_raid_member": f"mdadm --create /dev/md5 --quiet --run --level=1 --force --raid-devices=1 {_FOREIGN};"
    "mdadm --stop --quiet /dev/md5",
    "swap": f"mkswap -q {_FOREIGN}",
    # No signature that any program knows, and not blank all the same.
    "data": f"echo precious | dd of={_FOREIGN} bs=1M conv=notrunc status=none",
}
_WORDS = {"gpt": "GPT", "dos": "partition table", "data": "not blank"}


def test_a_disk_that_holds_anything_is_refused_and_keeps_every_byte(
    make_uml: MakeUml, tmp_path: Path
) -> None:
    disks = blank_disks(tmp_path)
    node = ScratchNode(make_uml(disks))
    node.boot()
    for holding, make in _HOLDINGS.items():
        node.machine.run(f"set -e; {make}; sync; echo 3 > /proc/sys/vm/drop_caches").ok()
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
        assert holding in found or _WORDS.get(holding, holding) in found, (holding, found)
        assert node.machine.run("ls /sys/block | grep ^md").stdout == "", holding
        node.machine.run(f"blkdiscard -f {_FOREIGN}").ok()

    node.machine.run(f"{_HOLDINGS['ext4']}; sync").ok()
    wiped = node.scratch("--wipe", _FOREIGN)
    assert (wiped.status, wiped.case) == (0, "make"), wiped
    node.assert_healthy()
