"""What is said on a real Lustre while a part of it is away, silent, full or flagged: the cause, and no other.

One state of the guest serves several tests; each fixture leaves the guest as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.command import Ended
from tests.support.lustre_vm import LustreMachine

SPEC = """
name: faults
provider: local
filesystems:
  shared: {type: lustre, source: "192.168.77.1@tcp:/testfs", path: /mnt/lustre}
libraries:
  data: {filesystem: shared, path: faults-data}
  work: {filesystem: shared, path: faults-work}
  util: {filesystem: shared, path: faults-util}
"""
SPEC_FILE, DIRECTORY = "/root/faults.yaml", "/mnt/lustre/faults"
OSC = "osc.testfs-OST0001-osc-[!M]*"
SILENT_PROGRAM = """
import subprocess, sys
from gridwright.commands import run_here
from gridwright.filesystems.lustre_client.health import health
space = subprocess.Popen(["sh", "-c", "while sleep 0.3; do timeout 3 lfs df /mnt/lustre; done"], stdout=-3)
writer = subprocess.Popen(["dd", "if=/dev/zero", f"of={sys.argv[1]}", "bs=1M", "count=8", "conv=fsync"])
for _ in range(20):
    found = [each.text for each in health(run_here, "/mnt/lustre").findings if each.name == "target-silent"]
    if found:
        break
print(*found)
space.kill(); writer.kill()
"""
"""Looks at the file system while a write waits at an OST, and somebody asks for space all the time."""


@dataclass
class Grid:
    """A grid of one node whose libraries are on the guest's Lustre."""

    machine: LustreMachine

    def doctor(self, *words: str) -> dict[str, list[dict[str, Any]]]:
        """What the doctor finds wrong, by check."""
        said = self.machine.gridwright("doctor", *words, "--json", ok=False)
        found: dict[str, list[dict[str, Any]]] = {}
        for each in json.loads(said.out)["checks"]:
            if not each["ok"]:
                found.setdefault(each["name"], []).append(each)
        return found

    def top(self) -> Ended:
        """What top shows; on a busy host its sampler takes longer to start than it may."""
        for _ in range(3):
            said = self.machine.gridwright("top", SPEC_FILE, "--once", "--json", ok=False)
            if "has not answered for" not in said.out:
                break
        return said

    def until(self, condition: str, seconds: int = 120) -> None:
        """Wait until a command of sh ends well."""
        script = f"for i in $(seq {seconds}); do {condition} && exit; sleep 1; done; exit 1"
        self.machine.run(script, seconds=seconds + 60)

    def set(self, *values: str) -> None:
        self.machine.run(f"lctl set_param -n {' '.join(values)}")


def _count(devices: str, state: str) -> str:
    """The beginning of a test(1) of how many connections are in a state."""
    return f"test $(lctl get_param -n '{devices}.state' | grep -c 'current_state: {state}')"


@pytest.fixture(scope="module")
def grid(lustre: LustreMachine) -> Iterator[Grid]:
    lustre.run(f"cat >{SPEC_FILE}", given=SPEC.encode())
    libraries = "/mnt/lustre/faults-data /mnt/lustre/faults-work /mnt/lustre/faults-util"
    lustre.run(f"mkdir -p {DIRECTORY} {libraries} && chmod 1777 {libraries}")
    lustre.run(f"lfs setstripe -c 1 -i 1 {DIRECTORY}")
    yield Grid(lustre)
    lustre.run(f"rm -rf {DIRECTORY} {libraries}")


def text_of(found: dict[str, list[dict[str, Any]]], name: str) -> str:
    return "; ".join(each["found"] for each in found.get(name, []))


@pytest.fixture(scope="module")
def flagged(grid: Grid) -> dict[str, list[dict[str, Any]]]:
    """The doctor without a spec, with targets that take no new files."""
    flags = ("obdfilter.testfs-OST0000.degraded", "obdfilter.testfs-OST0001.no_create")
    grid.set(*(f"{each}=1" for each in flags))
    try:
        return grid.doctor()
    finally:
        grid.set(*(f"{each}=0" for each in flags))


def test_each_flag_of_a_target_has_its_own_mend_also_without_a_spec(
    flagged: dict[str, list[dict[str, Any]]],
) -> None:
    (finding,) = flagged["target-degraded"]
    assert "testfs-OST0000 (degraded), testfs-OST0001 (takes no new files)" in finding["found"]
    assert "TARGET.degraded=0" in finding["remedy"]
    assert "TARGET.no_create=0" in finding["remedy"]
    assert "readonly" not in finding["remedy"]


def test_a_target_that_was_switched_off_and_on_again_while_it_was_idle_is_none_that_is_off(
    grid: Grid,
) -> None:
    """The list of targets calls it INACTIVE until somebody uses it."""
    grid.until(f"{_count(OSC, 'IDLE')} = 2")
    grid.set(f"'{OSC}.active=0'")
    grid.set(f"'{OSC}.active=1'")
    listed = grid.machine.run("lctl get_param -n 'lov.testfs-clilov-*.target_obd'").out
    assert "INACTIVE" in listed
    script = (
        "from gridwright.commands import run_here\n"
        "from gridwright.filesystems.lustre_client.health import health\n"
        "print(*(each.name for each in health(run_here, '/mnt/lustre').findings))"
    )
    names = grid.machine.run(f'PYTHONPATH=/opt/gridwright python3 -c "{script}"').out
    assert "target-inactive" not in names
    assert "target-away" not in names


def test_reads_and_writes_that_wait_are_found_while_space_is_asked_for(grid: Grid) -> None:
    """Answers to others set back the time since the last reply, by which silence is told."""
    grid.machine.run("cat >/root/silent.py", given=SILENT_PROGRAM.encode())
    grid.set("fail_loc=0x20a")
    try:
        said = grid.machine.run(f"PYTHONPATH=/opt/gridwright python3 /root/silent.py {DIRECTORY}/silent").out
    finally:
        grid.set("fail_loc=0")
    assert "testfs-OST0001" in said
    assert "no read or write ended in" in said


@dataclass
class MdtAway:
    """What was said while the MDT was not mounted."""

    doctor: dict[str, list[dict[str, Any]]]
    top: Ended


@pytest.fixture(scope="module")
def mdt_away(grid: Grid) -> MdtAway:
    grid.machine.run("umount /srv/mdt0")
    grid.until(f"{_count('mdc.*', '[CD]')} = 2")
    try:
        return MdtAway(grid.doctor(SPEC_FILE), grid.top())
    finally:
        # Its client mounts are there already, which `lustre-vm up` takes for a failure.
        grid.machine.run("lustre-vm up || true")
        grid.until("timeout 5 ls /mnt/lustre /mnt/lustre2")


def test_what_an_mdt_that_is_away_leads_to_is_no_fault_of_its_own(mdt_away: MdtAway) -> None:
    assert "testfs-MDT0000" in text_of(mdt_away.doctor, "target-away")
    assert not {"library-missing", "library-refuses", "mount-broken", "mount-hangs"} & set(mdt_away.doctor)


def test_top_tells_that_a_target_of_the_libraries_is_away(mdt_away: MdtAway) -> None:
    assert mdt_away.top.status == 3
    (row,) = mdt_away.top.json["libraries"]
    assert row["standing"] == "unknown"
    assert "testfs-MDT0000: not connected" in row["note"]
    silent = [each["silent"] for each in mdt_away.top.json["mounts"] if each["mount_point"] == "/mnt/lustre"]
    assert not any("Errno" in each for each in silent)


@dataclass
class OstAway:
    """A buffered write whose OST went, with more dirty pages than the kernel allows."""

    ended: str
    """Output of iotest and its exit status."""
    seconds: float
    """From the failure of the phase to the end of the command."""
    doctor: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ost_away(grid: Grid) -> OstAway:
    machine = grid.machine
    machine.run("echo 33554432 >/proc/sys/vm/dirty_bytes")
    test = machine.command(
        "iotest", "--directory", DIRECTORY, "--phases", "write", "--seconds", "600", "--streams", "2",
        "--runs", "/root/faults-runs",
    )  # fmt: skip
    stamped = 'while read -r line; do echo "$(date +%s) $line"; done'
    machine.background(f"{{ ({test}); echo status $?; }} 2>&1 | {stamped}", "iotest")
    grid.until(f"find {DIRECTORY} -size +10M | grep -q .")
    machine.run("lustre-vm umount-ost 1")
    try:
        grid.until("grep -q 'status [0-9]' /tmp/iotest.log", 400)
        said = machine.run("cat /tmp/iotest.log").out
        failed, *_, last = (
            int(line.split()[0]) for line in said.splitlines() if "error" in line or "status" in line
        )
        return OstAway(said, last - failed, grid.doctor())
    finally:
        machine.end("iotest")
        machine.run("lustre-vm mount-ost 1; echo 20 >/proc/sys/vm/dirty_ratio; rm -rf /root/faults-runs")
        grid.until(f"timeout 5 sh -c 'ls -l {DIRECTORY}/.g*/*'")


@pytest.mark.thorough
def test_iotest_ends_though_dirty_pages_of_a_dead_ost_hold_up_writes_to_all_disks(ost_away: OstAway) -> None:
    """Some 180 s. Its report of 1.2 MB took 325 s by buffered writes, and less than 1 s past the cache."""
    assert "status 3" in ost_away.ended
    assert ost_away.seconds < 90


@pytest.mark.thorough
def test_a_phase_that_does_not_move_names_the_ost(ost_away: OstAway) -> None:
    assert "testfs-OST0001 (DISCONN)" in ost_away.ended


@pytest.mark.thorough
def test_the_doctor_finds_an_ost_that_is_away_without_a_spec(ost_away: OstAway) -> None:
    assert "testfs-OST0001" in text_of(ost_away.doctor, "target-away")
