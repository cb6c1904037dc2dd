"""Scratch storage over the life of a cloud's node: made, rebooted, cut off, stopped, a disk replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.conftest import MakeUml
from tests.vm.scratch_node import MOUNT_POINT, ScratchNode, blank_disks

pytestmark = pytest.mark.vm

_WRITE = f"dd if=/dev/urandom of={MOUNT_POINT}/work/data bs=1M count=20 conv=fsync status=none; "
_HASH = f"sha256sum {MOUNT_POINT}/work/data"


def test_four_blank_disks_become_an_array_that_survives_what_a_cloud_does(
    make_uml: MakeUml, tmp_path: Path
) -> None:
    disks = blank_disks(tmp_path)
    node = ScratchNode(make_uml(disks))
    node.boot()
    made = node.scratch()
    assert (made.status, made.case) == (0, "make"), made
    node.assert_healthy()
    data = node.machine.run(_WRITE + _HASH).ok()

    again = node.scratch()
    assert (again.status, again.case, again.document["steps"]) == (0, "mounted", [])

    node.machine.shut_down()
    node.boot()
    rebooted = node.scratch()
    assert (rebooted.status, rebooted.case) == (0, "mount"), rebooted
    assert node.machine.run(_HASH).ok() == data
    node.assert_healthy()

    node.machine.power_off()
    node.boot()
    after_cut = node.scratch()
    assert (after_cut.status, after_cut.case) == (0, "mount"), after_cut
    assert node.machine.run(_HASH).ok() == data

    node.machine.power_off()
    blank_disks(tmp_path)
    node.boot()
    stopped = node.scratch()
    assert (stopped.status, stopped.case) == (0, "rebuild"), stopped
    assert any("blank" in note for note in stopped.document["arrays"][0]["notes"])
    node.assert_healthy()
    assert node.machine.run(f"ls {MOUNT_POINT}/work").ok() == ""

    node.machine.run(_WRITE).ok()
    node.machine.power_off()
    blank_disks(tmp_path, ("ubdd",))
    node.boot()
    replaced = node.scratch()
    assert (replaced.status, replaced.case) == (0, "rebuild"), replaced
    node.assert_healthy()
    assert node.machine.run(f"ls {MOUNT_POINT}/work").ok() == ""
