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
CUTS = 20
MACHINES = 2
_FOREIGN = "ubdf"
_STATE = "/var/lib/gridwright/scratch.json"
_BLANK_AGAIN = (
    "set -e; umount /scratch; mdadm --stop --quiet /dev/md[0-9]*;"
    f"for disk in {' '.join(DEVICES)}; do blkdiscard -f /dev/$disk; done;"
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [SEED])
def test_power_cut_at_any_moment_of_the_building(make_uml: MakeUml, tmp_path: Path, seed: int) -> None:
    """Run again, it is healthy, and a disk of somebody else's beside is as it was."""
    chance = random.Random(seed)  # noqa: S311 - moments, no secrets
    moments = [chance.random() for _ in range(CUTS)]
    nodes = []
    for number in range(MACHINES):
        directory = tmp_path / f"disks{number}"
        directory.mkdir()
        nodes.append((ScratchNode(make_uml(blank_disks(directory, (*DEVICES, _FOREIGN)))), directory))
    with ThreadPoolExecutor(MACHINES) as pool:
        shares = [moments[number::MACHINES] for number in range(MACHINES)]
        found = list(pool.map(lambda pair: _cut_short(*pair[0], pair[1]), zip(nodes, shares, strict=True)))
    cases = [case for each in found for case in each]
    assert len(cases) == CUTS
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


@pytest.mark.parametrize(("accepts", "step"), [("4k", "mdadm --create"), ("4m", "mkfs.xfs")])
def test_a_disk_that_fails_while_building_is_named_and_replaced(
    make_uml: MakeUml, tmp_path: Path, accepts: str, step: str
) -> None:
    disks = blank_disks(tmp_path)
    (tmp_path / "failing").mkdir()
    disks |= blank_disks(tmp_path / "failing", ("ubdd",))
    machine = make_uml(disks)
    # Where its blocks have no place, every write to the disk fails.
    directory = tmp_path / "failing"
    machine.prepare = (
        f"mount -t tmpfs -o size={accepts} tmpfs {directory}; truncate -s {DISK_BYTES} {directory}/ubdd.img"
    )
    node = ScratchNode(machine)
    node.boot()
    failed = node.scratch()
    assert failed.status == 3, failed
    problem = failed.document["arrays"][0]["problems"][0]["what"]
    assert step in problem, problem
    assert "ubdd" in problem, problem
    assert node.machine.run("findmnt /scratch").status != 0
    again = node.scratch()
    assert again.status == 3, again

    node.machine.power_off()
    machine.prepare = ""
    node.boot()
    replaced = node.scratch()
    assert replaced.status == 0, replaced
    node.assert_healthy()
