"""What is said on a real Lustre while a part of it is away, silent, full or flagged: the cause, and no other.

One state of the guest serves several tests; each fixture leaves the guest as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from gridwright.filesystems.lustre_client.health import health
from tests.fixtures.lustre_node import ost_down
from tests.support.command import Ended
from tests.support.lustre_forms import OF_A_DAY, TOLD, forms_of_health
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
SITE = SPEC.replace(
    "local", "site\nnodes: {guest: {hosts: lustre-vm, cores: 2, memory: 2 GiB}}\nscheduler: {type: ssh}"
)
SITE_FILE = "/root/faults-site.yaml"
"""The same on the node of a site."""
OSC = "osc.testfs-OST0001-osc-[!M]*"
NO_IO, NO_OTHERS = (f"lctl net_drop_add -s '*' -d '*' -r 1 -p {portal}" for portal in (6, 28))
"""The network drops what goes to a portal of OSTs (lustre_idl.h): their I/O, and all other requests."""
SILENCE = f"{NO_IO}; {NO_OTHERS}"
LEFT = OF_A_DAY | {"servers-lost"}
"""What earlier states have left, in histories of connections and in the kernel's log."""
SERVER_PROGRAM = """
from gridwright.commands import run_here
from gridwright.filesystems.lustre_client.health import copytool_findings, health
found = copytool_findings(run_here, "/mnt/lustre", None, {9})
found += health(run_here, "/nowhere", "192.168.77.1@tcp:/testfs").findings
print(*(each.name for each in found))
"""
"""What is found of the servers of this node, where HSM is off and the file system mounted for nobody."""
SILENT_PROGRAM = """
import subprocess, sys
from gridwright.commands import run_here
from gridwright.filesystems.lustre_client.health import health
space = subprocess.Popen(["sh", "-c", "while sleep 0.3; do timeout 3 lfs df /mnt/lustre; done"], stdout=-3)
write = ["dd", "if=/dev/zero", f"of={sys.argv[1]}", "bs=1M", "count=8", "conv=fsync,notrunc"]
writer = subprocess.Popen(write)
for _ in range(20):
    found = [each.text for each in health(run_here, "/mnt/lustre").findings if each.name == "target-silent"]
    if found:
        break
print(*found)
space.kill(); writer.kill()
"""
"""Looks at the file system while a write waits at an OST, and somebody asks for space all the time."""
TOLD_PROGRAM = """
from gridwright.commands import run_here
from gridwright.filesystems.lustre_client.health import health
print(*(f"{each.name}: {each.text}" for each in health(run_here, "/mnt/lustre").findings), sep="\\n")
"""
SLOW_PROGRAM = """
from gridwright.commands import CommandSilent, run_here
from gridwright.filesystems.lustre_client.health import health
def run(command, *, timeout_s=30.0):
    ended = run_here(command)
    if any("kbytestotal" in word for word in command):
        raise CommandSilent("lctl has not answered", None, "see dmesg")
    return ended
found = health(run, "/mnt/lustre")
print(*(each.name for each in found.findings), found.away)
"""
"""Looks on a node that is too slow to start what asks for space, while all servers answer."""


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

    def top(self, *words: str) -> Ended:
        """What top shows; on a busy host its sampler takes longer to start than the interval and 15 s."""
        for _ in range(3):
            command = ("top", *words, "--once", "--json", "--interval", "20s")
            said = self.machine.gridwright(*command, ok=False)
            if "has not answered for" not in said.out:
                break
        return said

    def until(self, condition: str, seconds: int = 120) -> None:
        """Wait until a command of sh ends well."""
        script = f"for i in $(seq {seconds}); do {condition} && exit; sleep 1; done; exit 1"
        self.machine.run(script, seconds=seconds + 60)

    def health(self) -> Any:
        """What this node tells of the file system as its client."""
        return json.loads(self.machine.python(TOLD))

    def placing(self) -> None:
        """Wait until new files lie on the OST of DIRECTORY: an MDS heeds old flags for a while."""
        probe = f"{DIRECTORY}/probe"
        self.until(f"rm -f {probe}; : >{probe}; test $(lfs getstripe -i {probe}) = 1")

    def speak(self) -> None:
        """End a silence, and wait until all that was dropped is asked for again and answered."""
        self.machine.run("lctl net_drop_del -a")
        self.until("timeout 10 lfs df /mnt/lustre /mnt/lustre2")
        self.until(f"! lctl get_param -n '{OSC.replace('OST0001', 'OST*')}.import' | grep 'inflight: [1-9]'")

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


@pytest.fixture(scope="module")
def healthy(grid: Grid) -> set[str]:
    """What the doctor finds where nothing is wrong with Lustre: that of the guest and of its spec."""
    return set(grid.doctor(SPEC_FILE)) | set(grid.doctor())


def text_of(found: dict[str, list[dict[str, Any]]], name: str) -> str:
    return "; ".join(each["found"] for each in found.get(name, []))


@pytest.fixture(scope="module")
def flagged(grid: Grid, healthy: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The doctor without a spec, with targets that take no new files."""
    flags = ("obdfilter.testfs-OST0000.degraded", "obdfilter.testfs-OST0001.no_create")
    grid.set(*(f"{each}=1" for each in flags))
    try:
        return grid.doctor()
    finally:
        grid.set(*(f"{each}=0" for each in flags))


@pytest.mark.thorough
def test_each_flag_of_a_target_has_its_own_mend_also_without_a_spec(
    flagged: dict[str, list[dict[str, Any]]], healthy: set[str]
) -> None:
    (finding,) = flagged["target-degraded"]
    assert "testfs-OST0000 (degraded), testfs-OST0001 (takes no new files)" in finding["found"]
    assert "TARGET.degraded=0" in finding["remedy"]
    assert "TARGET.no_create=0" in finding["remedy"]
    assert "readonly" not in finding["remedy"]
    assert set(flagged) - healthy <= {"target-degraded", *LEFT}


@pytest.mark.thorough
def test_a_target_that_was_switched_off_and_on_again_while_it_was_idle_is_none_that_is_off(
    grid: Grid,
) -> None:
    """The list of targets calls it INACTIVE until somebody uses it."""
    # That of the other mount may be in use for as long as it has locks.
    grid.set("'ldlm.namespaces.testfs-OST0001-osc-[!M]*.lru_size=clear'")
    grid.until(f"{_count(OSC, 'IDLE')} -ge 1")
    grid.set(f"'{OSC}.active=0'")
    grid.set(f"'{OSC}.active=1'")
    listed = grid.machine.run("lctl get_param -n 'lov.testfs-clilov-*.target_obd'").out
    assert "INACTIVE" in listed
    script = (
        "from gridwright.commands import run_here\n"
        "from gridwright.filesystems.lustre_client.health import health\n"
        "print(*(each.name for each in health(run_here, '/mnt/lustre').findings))"
    )
    names = grid.machine.python(script)
    assert "target-inactive" not in names
    assert "target-away" not in names
    grid.placing()
    grid.set(f"'{OSC}.active=0'")
    try:
        # It is made, and then has no times.
        grid.machine.run(f"touch {DIRECTORY}/placed", ok=False)
        wrote = grid.machine.run(f"echo x >{DIRECTORY}/placed", ok=False)
    finally:
        grid.set(f"'{OSC}.active=1'")
    assert wrote.status != 0, "an MDS places files on what a client has deactivated"
    # It connects again once it is asked for its space, which evicts whoever is quick.
    write = f"dd if=/dev/zero of={DIRECTORY}/placed bs=64k count=1 conv=fsync"
    grid.until(f"timeout 10 lfs df /mnt/lustre && {write}")
    names = grid.machine.python(script)
    assert "target-reactivated" in names
    assert "client-evicted" not in names
    # One that was idle when it was switched off comes back without an eviction: the next one is real.
    grid.set("'ldlm.namespaces.testfs-OST0001-osc-[!M]*.lru_size=clear'")
    grid.until(f"{_count(OSC, 'IDLE')} -ge 1")
    grid.set(f"'{OSC}.active=0'")
    grid.set(f"'{OSC}.active=1'")
    grid.until("timeout 10 lfs df /mnt/lustre")
    grid.machine.run(
        "for each in $(lctl get_param -n 'obdfilter.testfs-OST0001.exports.*.uuid' | grep -v mdtlov); "
        f"do lctl set_param obdfilter.testfs-OST0001.evict_client=$each; done; {write}; {write}"
    )
    assert "client-evicted" in grid.machine.python(script)


@pytest.mark.parametrize(("parameter", "usual"), [("active", "1"), ("max_create_count", "20000")])
def test_an_ost_on_which_the_mds_places_no_files_is_told(grid: Grid, parameter: str, usual: str) -> None:
    device = "osp.testfs-OST0001-osc-MDT0000"
    script = (
        "from gridwright.commands import run_here\n"
        "from gridwright.filesystems.lustre_client.targets import read_served\n"
        "print(*(each.flags for each in read_served(run_here, 'testfs') if each.flags))"
    )
    grid.set(f"{device}.{parameter}=0")
    try:
        said = grid.machine.python(script)
    finally:
        grid.set(f"{device}.{parameter}={usual}")
    assert ("deactivated on its MDS" if parameter == "active" else "max_create_count=0") in said


def test_targets_that_are_mounted_as_lustre_tgt_are_a_servers(grid: Grid) -> None:
    types = grid.machine.run("awk '$2 ~ \"^/srv\" {print $3}' /proc/mounts").out.split()
    assert set(types) == {"lustre_tgt"}
    grid.set("mdt.testfs-MDT0000.hsm_control=disabled")
    try:
        names = grid.machine.python(SERVER_PROGRAM).split()
    finally:
        grid.set("mdt.testfs-MDT0000.hsm_control=enabled")
    assert {"hsm-off", "no-copytool"} <= set(names)
    assert "not-mounted" not in names


def test_reads_and_writes_that_wait_are_found_while_space_is_asked_for(grid: Grid) -> None:
    """Answers to others set back the time since the last reply, by which silence is told."""
    grid.placing()
    grid.machine.run(f"dd if=/dev/zero of={DIRECTORY}/silent bs=1M count=1 conv=fsync")
    grid.machine.run(NO_IO)
    try:
        said = grid.machine.python(SILENT_PROGRAM, f"{DIRECTORY}/silent")
    finally:
        grid.speak()
    assert "testfs-OST0001" in said
    assert "no read or write ended in" in said


@pytest.mark.thorough
def test_a_node_that_is_too_slow_to_ask_for_space_calls_no_target_silent(grid: Grid) -> None:
    said = grid.machine.python(SLOW_PROGRAM)
    assert "target-silent" not in said
    assert said.split()[-1] == "{}"


@pytest.mark.thorough
def test_a_target_that_nobody_uses_is_found_silent_by_the_question_for_its_space(grid: Grid) -> None:
    """The one that asks stays on the way, though its lctl was killed."""
    # While a connection is closed for it was idle, no question is sent.
    grid.machine.run(f"lfs df /mnt/lustre && lfs df /mnt/lustre2 && {SILENCE}")
    try:
        for _ in range(3):
            # A client gives the same answer again for some seconds.
            grid.machine.run("sleep 3")
            said = grid.machine.python(TOLD_PROGRAM)
            if "target-silent" in said:
                break
    finally:
        grid.speak()
    assert "target-silent" in said, said
    assert "testfs-OST000" in said
    assert "no answer for" in said


@dataclass
class Silent:
    """What was said while OSTs answered nothing, and a write waited at one of them."""

    doctor: dict[str, list[dict[str, Any]]]
    doctor_s: float
    top: Ended
    status: Ended


@pytest.fixture(scope="module")
def silent(grid: Grid, healthy: set[str]) -> Silent:
    grid.machine.run(f"cat >{SITE_FILE}", given=SITE.encode())
    grid.placing()
    grid.machine.run(f"dd if=/dev/zero of={DIRECTORY}/silent bs=1M count=1 conv=fsync")
    grid.machine.run(SILENCE)
    try:
        write = f"dd if=/dev/zero of={DIRECTORY}/silent bs=1M count=8 conv=fsync,notrunc"
        grid.machine.background(write, "waits")
        # On a busy host the guest does not tell all in the time of a look.
        for _ in range(3):
            began = time.monotonic()
            doctor = grid.doctor(SPEC_FILE)
            doctor_s = time.monotonic() - began
            if {"target-silent", "target-away"} & set(doctor):
                break
        top = grid.top(SPEC_FILE)
        status = grid.machine.gridwright("status", SITE_FILE, "--json", ok=False)
    finally:
        grid.speak()
        grid.machine.end("waits")
    return Silent(doctor, doctor_s, top, status)


@pytest.mark.thorough
def test_the_doctor_names_silent_osts_and_ends(silent: Silent, healthy: set[str]) -> None:
    """A doctor that waits for calls on the libraries took 174 s."""
    assert "testfs-OST000" in text_of(silent.doctor, "target-silent") + text_of(silent.doctor, "target-away")
    assert set(silent.doctor) - healthy <= {"target-silent", "target-away", "health-incomplete", *LEFT}
    assert silent.doctor_s < 120


@pytest.mark.thorough
def test_top_and_status_tell_of_silent_osts(silent: Silent) -> None:
    assert silent.top.status == 3
    (row,) = silent.top.json["libraries"]
    assert "testfs-OST000" in row["note"]
    assert silent.status.status == 3
    (filesystem,) = silent.status.json["filesystems"]
    assert "testfs-OST000" in str(filesystem["health"]["findings"])


@dataclass
class MdtAway:
    """What was said while the MDT was not mounted."""

    doctor: dict[str, list[dict[str, Any]]]
    top: Ended
    top_here: Ended
    """Without a spec."""


@pytest.fixture(scope="module")
def mdt_away(grid: Grid, healthy: set[str]) -> MdtAway:
    grid.machine.run("umount /srv/mdt0")
    grid.until(f"{_count('mdc.*', '[CD]')} = 2")
    try:
        return MdtAway(grid.doctor(SPEC_FILE), grid.top(SPEC_FILE), grid.top())
    finally:
        # Its client mounts are there already, which `lustre-vm up` takes for a failure.
        grid.machine.run("lustre-vm up || true")
        grid.until("timeout 5 ls /mnt/lustre /mnt/lustre2")


@pytest.mark.thorough
def test_what_an_mdt_that_is_away_leads_to_is_no_fault_of_its_own(
    mdt_away: MdtAway, healthy: set[str]
) -> None:
    assert "testfs-MDT0000" in text_of(mdt_away.doctor, "target-away")
    assert set(mdt_away.doctor) - healthy <= {"target-away", "management-server-away", *LEFT}, mdt_away.doctor


@pytest.mark.thorough
def test_top_tells_that_a_target_of_the_libraries_is_away(mdt_away: MdtAway) -> None:
    assert mdt_away.top.status == 3
    (row,) = mdt_away.top.json["libraries"]
    assert row["standing"] == "unknown"
    assert "testfs-MDT0000: not connected" in row["note"]
    assert mdt_away.top_here.status == 3
    silent = [each["silent"] for each in mdt_away.top.json["mounts"] if each["mount_point"] == "/mnt/lustre"]
    assert not any("Errno" in each for each in silent)


@pytest.mark.thorough
def test_a_library_whose_ost_is_switched_off_has_no_fault_of_its_permissions(
    grid: Grid, healthy: set[str]
) -> None:
    library = "/mnt/lustre/faults-data"
    grid.machine.run(f"lfs setstripe -c 1 -i 1 {library}")
    grid.set(f"'{OSC}.active=0'")
    try:
        found = grid.doctor(SPEC_FILE)
    finally:
        grid.set(f"'{OSC}.active=1'")
        grid.machine.run(f"lfs setstripe -d {library}")
    assert "testfs-OST0001" in text_of(found, "target-inactive")
    assert set(found) - healthy <= {"target-inactive", *LEFT}


@pytest.mark.thorough
def test_an_eviction_is_told_without_a_spec_with_what_it_cost(grid: Grid, healthy: set[str]) -> None:
    grid.placing()
    client = "$(lctl get_param -n 'obdfilter.testfs-OST0001.exports.0@lo.uuid' | grep -v MDT | head -1)"
    grid.machine.run(
        f"dd if=/dev/zero of={DIRECTORY}/dirty bs=1M count=4 status=none; "
        f"lctl set_param -n obdfilter.testfs-OST0001.evict_client={client}; "
        f"timeout 60 sh -c 'dd if=/dev/zero of={DIRECTORY}/more bs=1M count=1 conv=fsync; sync'; true"
    )
    found = grid.doctor()
    assert set(found) - healthy <= LEFT
    told = text_of(found, "client-evicted")
    assert "testfs-OST0001" in told
    assert "What jobs had written and it had not taken is lost" in told


@pytest.mark.thorough
def test_an_iotest_without_space_and_the_doctor_name_the_full_ost(grid: Grid, healthy: set[str]) -> None:
    """What is left of an OST may be promised to other clients (grants)."""
    grid.placing()
    machine, words = grid.machine, ("--phases", "write", "--seconds", "60", "--streams", "1")
    kib = "$(($(lctl get_param -n osc.testfs-OST0001-osc-f*.kbytesavail | head -1) - 65536))"
    try:
        # No fuller: an MDS that knows an OST to be full places files elsewhere.
        machine.run(f"fallocate -l {kib}K {DIRECTORY}/fill; sync")
        ended = machine.gridwright("iotest", "--directory", DIRECTORY, *words, ok=False)
        found = grid.doctor(SPEC_FILE)
    finally:
        machine.run(f"rm -f {DIRECTORY}/fill; sync")
    assert ended.status == 3, ended
    assert "testfs-OST0001" in text_of(found, "target-full")
    assert set(found) - healthy <= {"target-full", "targets-unbalanced", *LEFT}
    assert "testfs-OST0001 (" in ended.text
    assert "testfs-OST0000 (" not in ended.text
    assert "the file lies on 1 target: testfs-OST0001" in ended.text


@dataclass
class OstAway:
    """A buffered write whose OST went, with more dirty pages than the kernel allows."""

    ended: str
    """Output of iotest and its exit status."""
    seconds: float
    """From the failure of the phase to the end of the command."""
    doctor: dict[str, list[dict[str, Any]]]
    health: Any


@pytest.fixture(scope="module")
def ost_away(grid: Grid, healthy: set[str]) -> OstAway:
    machine = grid.machine
    grid.placing()
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
        return OstAway(said, last - failed, grid.doctor(), grid.health())
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
    assert "may be left there" in ost_away.ended


@pytest.mark.thorough
def test_the_doctor_finds_an_ost_that_is_away_without_a_spec_and_nothing_that_follows(
    ost_away: OstAway, healthy: set[str]
) -> None:
    assert "testfs-OST0001" in text_of(ost_away.doctor, "target-away")
    assert set(ost_away.doctor) - healthy <= {"target-away", *LEFT}


@pytest.mark.thorough
def test_a_recorded_ost_that_is_away_is_told_as_the_real_one(ost_away: OstAway) -> None:
    recorded = asdict(health(ost_down(), "/mnt/scratch", pause=lambda _: None))
    assert forms_of_health(ost_away.health, without=OF_A_DAY) == forms_of_health(recorded)
