"""Scratch storage whose building is cut short: by the power at any moment, or by a disk that fails."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.vm.conftest import MakeUml
from tests.vm.machine import MachineError
from tests.vm.scratch_node import DEVICES, DISK_BYTES, ScratchNode, blank_disks, content

pytestmark = pytest.mark.vm

SEED = int(os.environ.get("GRIDWRIGHT_VM_SEED", "20261121"))
MACHINES = 2
_FOREIGN = "ubdf"
_STATE = "/var/lib/gridwright/scratch.json"
_BLANK_AGAIN = (
    # Whatever looks at a device that was just written to keeps it busy for a moment.
    'again() { for turn in 1 2 3 4 5; do "$@" && return; sleep 1; done; return 1; };'
    "set -e; again umount /scratch; again mdadm --stop --quiet /dev/md[0-9]*;"
    f"for disk in {' '.join(DEVICES)}; do again blkdiscard -f /dev/$disk; done;"
)


@pytest.mark.parametrize("cuts", [4, pytest.param(20, marks=pytest.mark.thorough)])
def test_power_cut_at_any_moment_of_the_building(make_uml: MakeUml, tmp_path: Path, cuts: int) -> None:
    """Run again, it is healthy, and a disk of somebody else's beside is as it was."""
    chance = random.Random(SEED)  # noqa: S311 - moments, no secrets
    # One in each part of the time, so that they do not fall together.
    moments = [(part + chance.random()) / cuts for part in range(cuts)]
    nodes, directories = [], []
    for number in range(MACHINES):
        directories.append(tmp_path / f"disks{number}")
        directories[-1].mkdir()
        nodes.append(ScratchNode(make_uml(blank_disks(directories[-1], (*DEVICES, _FOREIGN)))))
    shares = [moments[number::MACHINES] for number in range(MACHINES)]
    with ThreadPoolExecutor(MACHINES) as pool:
        found = list(pool.map(_cut_short, nodes, directories, shares))
    cases = [case for each in found for case in each]
    assert len(cases) == cuts
    # The moments are spread over the work: some found nothing begun, others a half or a whole array.
    assert len(set(cases)) > 1, cases


def _cut_short(node: ScratchNode, directory: Path, moments: list[float]) -> list[str]:
    """Cut the power once for each moment of a building, 0 to 1; what the next start took the disks for."""
    node.boot()
    node.machine.run(f"mkfs.ext4 -q /dev/{_FOREIGN}; sync").ok()
    foreign = content(directory / f"{_FOREIGN}.img")
    started = time.monotonic()
    made = node.scratch()
    usual_s = time.monotonic() - started
    assert made.status == 0, made
    cases = []
    for number, moment in enumerate(moments):
        # In turns: as on the first start of all, and as after a stop of the machine.
        node.machine.run(_BLANK_AGAIN + (f"rm {_STATE};" if number % 2 else "") + "sync").ok()
        node.machine.start(node.command())
        time.sleep(moment * usual_s)
        node.machine.power_off()
        node.boot()
        healed = node.scratch()
        where = f"cut at {moment:.3f} of {usual_s:.1f} s"
        assert healed.status == 0, (where, healed)
        try:
            node.assert_healthy()
        except (AssertionError, MachineError) as error:
            raise AssertionError(f"{where}: {error}") from error
        assert content(directory / f"{_FOREIGN}.img") == foreign, where
        cases.append(healed.case)
    return cases


def test_a_disk_that_fails_while_building_is_named_and_can_be_replaced(
    make_uml: MakeUml, tmp_path: Path
) -> None:
    nodes, steps = [], {"from its first block on": "mdadm --create", "after 4 MiB": "mkfs.xfs"}
    for fails in steps:
        directory = tmp_path / fails.split()[0]
        (directory / "failing").mkdir(parents=True)
        disks = blank_disks(directory) | blank_disks(directory / "failing", ("ubdd",))
        nodes.append(ScratchNode(make_uml(disks)))
        # A block that has no place in the memory behind the disk cannot be written.
        nodes[-1].machine.prepare = f"""cd "{directory}/failing"
            mount -t tmpfs -o size={"4m" if "after" in fails else "4k"} tmpfs .; cd "$PWD"
            {"" if "after" in fails else "echo full > other"}
            truncate -s {DISK_BYTES} ubdd.img; cd /"""
    with ThreadPoolExecutor(MACHINES) as pool:
        list(pool.map(_fail_and_replace, nodes, steps.values()))


def _fail_and_replace(node: ScratchNode, step: str) -> None:
    node.boot()
    failed = node.scratch()
    assert failed.status == 3, failed
    problem = failed.document["arrays"][0]["problems"][0]["what"]
    assert step in problem, problem
    assert "ubdd" in problem, problem
    assert node.machine.run("findmnt /scratch").status != 0
    assert node.scratch().status == 3

    node.machine.power_off()
    node.machine.prepare = ""
    node.boot()
    replaced = node.scratch()
    assert replaced.status == 0, replaced
    node.assert_healthy()
