"""A lab whose machine crashed or was rebooted: nothing runs, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.lab.record import Places, read
from gridwright.schedulers.slurm.accounting import FIELDS
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, nodes_only, traces, up
from tests.support.lab_crash import crash, loops, reboot, write_record

pytestmark = pytest.mark.root

NAME = "labreboot"
SPEC = f"""
name: {NAME}
provider: lab
lab: {{network: 10.78.41.0/24, disk: 1 GiB}}
nodes: {{compute: {{count: 2, cores: 2, memory: 1 GiB}}}}
filesystems: {{shared: {{type: moosefs, path: /mnt/grid, servers: 1, copies: 1}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: slurm, accounting: slurmdbd}}
users: {{local: {{alice: {{uid: 2001}}}}}}
"""
FILES = ("/mnt/grid/data/table", "/home/alice/letter", "/var/kept", "/root/kept", "/srv/kept")
NODES = ("controller", "compute1", "compute2")
SACCT = ("sacct", "-a", "-X", "-n", "-P", "-o", FIELDS)
LOST_S = 60.0
"""So long Slurm takes until it counts jobs as lost with nodes (MAX_REG_FREQUENCY pings; 41 s measured)."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("lab")
    spec = place / f"{NAME}.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, NAME)) as lab:
        yield lab


def written(lab: Lab) -> dict[tuple[str, str], str]:
    """Write files on each node, and return their checksums."""
    for node in NODES:
        for path in FILES:
            text = f"dd if=/dev/urandom of={path} bs=64k count=9 conv=fsync 2>&1"
            assert lab.run(node, "sh", "-c", text).status == 0, path
    return sums(lab)


def sums(lab: Lab) -> dict[tuple[str, str], str]:
    return {
        (node, path): lab.run(node, "sha256sum", "--", path).out.split()[0]
        for node in NODES
        for path in FILES
    }


def submitted(lab: Lab, *words: str, options: tuple[str, ...] = ()) -> str:
    ended = lab.command("submit", "--grid", lab.spec, "--json", "--directory", "/", *options, "--", *words)
    assert ended.status == 0, ended.err
    return str(ended.json["job"])


def jobs(lab: Lab) -> dict[str, Any]:
    ended = lab.command("jobs", "--grid", lab.spec, "--json")
    assert ended.status == 0, ended.err
    return {str(each["id"]): each for each in ended.json["jobs"]}


def reached(lab: Lab, job: str, *states: str, seconds: float = 60.0) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = jobs(lab)[job]
        return found if found["state"] in states else None

    return wait_until(look, seconds=seconds, what=f"job {job} {states}", last=lambda: jobs(lab)[job])


def accounted(lab: Lab) -> dict[str, str]:
    """Lines of sacct by job."""
    told = lab.run("controller", *SACCT)
    assert told.status == 0, told.err
    return {line.partition("|")[0]: line for line in told.out.splitlines()}


def saved(lab: Lab, last: str, *ended: str) -> None:
    """Wait until slurmctld has written its state with the last job, and the accounting has ended jobs."""
    state = "/var/lib/slurm/slurmctld/job_state"

    def look() -> bool | None:
        known = accounted(lab)
        is_known = all(known.get(job, "|||").split("|")[2] in ("COMPLETED", "FAILED") for job in ended)
        return True if is_known and lab.run("controller", "grep", "-q", last, state).status == 0 else None

    wait_until(look, seconds=30, what="what Slurm saves", last=lambda: accounted(lab))


@pytest.mark.parametrize(
    "how",
    [pytest.param(reboot, id="reboot", marks=pytest.mark.thorough), pytest.param(crash, id="crash")],
)
def test_files_jobs_queue_and_accounting_are_as_before(lab: Lab, how: Any) -> None:
    before = written(lab)
    done = submitted(lab, "sh", "-c", "echo done")
    failed = submitted(lab, "sh", "-c", "exit 7")
    for job, state in ((done, "completed"), (failed, "failed")):
        reached(lab, job, state)
    running = submitted(lab, "sleep", "1000", options=("--cores", "2"))
    again = submitted(lab, "sleep", "1000", options=("--cores", "2", "--restart"))
    for job in (running, again):
        reached(lab, job, "running")
    waiting = submitted(
        lab, "sh", "-c", "echo waited", options=("--cores", "2", "--name", f"before-{how.__name__}")
    )
    saved(lab, f"before-{how.__name__}", done, failed)
    told, known = jobs(lab), accounted(lab)

    how(lab)
    status = lab.status()
    assert (status.status, status.json["state"], status.json["missing"]) == (3, "stopped", [])
    plain = lab.command("status", lab.spec).out
    assert "is stopped, its data there: gridwright up boots it again, gridwright down deletes it" in plain
    assert "is not up" in lab.exec("controller", "true").text

    booted = lab.up()
    assert booted.status == 0, booted.err
    assert booted.out.startswith(f"lab {NAME} is up again, with its data: 4 nodes in ")
    assert lab.status().status == 0
    assert loops(lab) == [str(Places(NAME).disk("storage1"))]
    assert sums(lab) == before
    now = jobs(lab)
    assert {job: now[job] for job in (done, failed)} == {job: told[job] for job in (done, failed)}
    assert {job: accounted(lab)[job] for job in (done, failed)} == {job: known[job] for job in (done, failed)}
    reached(lab, running, "node-failed", seconds=LOST_S)
    reached(lab, again, "waiting", "running", "completed", seconds=LOST_S)
    reached(lab, waiting, "completed")
    fresh = submitted(lab, "sh", "-c", "echo new", options=("--cores", "1"))
    reached(lab, fresh, "completed")
    assert int(fresh) > int(waiting)
    assert lab.command("cancel", "--grid", lab.spec, again).status == 0


def test_what_is_stored_waits_for_the_disk(lab: Lab) -> None:
    """The overlay of a node is never synced: after a real crash a database on it would be torn."""
    for node, path in (
        ("controller", "/var/lib/slurm/mariadb"),
        ("controller", "/var/lib/slurm/slurmctld"),
        ("compute1", "/home/alice"),
        ("storage1", "/var/lib/mfs"),
        ("storage1", "/srv"),
    ):
        assert lab.run(node, "stat", "-f", "-c", "%T", path).out.strip() != "overlayfs", path
    root = lab.run("controller", "stat", "-f", "-c", "%T", "/").out.strip()
    assert root in ("overlayfs", "tmpfs")


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_a_boot_that_is_stopped_midway_loses_nothing_and_is_begun_again(
    lab: Lab, number: signal.Signals
) -> None:
    before = written(lab)
    reboot(lab)
    seen = set()
    for step in range(5):
        with lab.command.start("up", lab.spec) as running:
            running.says("booting it again")
            time.sleep(0.1 + step * step * 0.25)
            running.signal(number)
            running.end()
        seen.add(lab.status().json["state"])
    assert "stopped" in seen
    assert seen <= {"stopped", "up"}
    booted = lab.up()
    assert booted.status == 0, booted.err
    assert sums(lab) == before
    assert lab.status().status == 0
    assert loops(lab) == [str(Places(NAME).disk("storage1"))], "no device is left of a boot that was killed"


def test_one_node_that_died_is_booted_by_itself(lab: Lab) -> None:
    before = written(lab)
    record = read(NAME)
    assert record is not None
    process = record.node("compute2").process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: True if not process.alive else None, seconds=20, what="its end", last=lab.status)
    standing = lab.status()
    assert (standing.status, standing.json["state"]) == (3, "up")
    mended = lab.up()
    assert mended.status == 0, mended.err
    assert "was up already" in mended.out and "compute2 was powered off" in mended.out
    assert sums(lab) == before


@pytest.fixture
def stopped(gridwright: Command, tmp_path: Path) -> Iterator[Lab]:
    """A lab without a scheduler, with a file on it, after a reboot."""
    made = nodes_only(gridwright, tmp_path, "labstopped", "10.78.42.0/24")
    with up(made):
        assert made.run("compute1", "sh", "-c", "echo kept > /mnt/grid/kept").status == 0
        reboot(made)
        yield made


KEPT = "filesystems/shared/kept"


def refused(lab: Lab, *says: str) -> None:
    """An `up` that changes nothing, and names what it would take to have the lab made anew."""
    ended = lab.up()
    assert ended.status in (2, 3)
    for each in says:
        assert each in ended.text, ended.err
    assert (lab.record.parent / KEPT).read_text() == "kept\n"


def test_another_spec_is_refused_and_names_what_would_go(stopped: Lab) -> None:
    text = stopped.spec.read_text()
    stopped.spec.write_text(text.replace("count: 2", "count: 3"))
    refused(
        stopped,
        "lab labstopped is stopped, and made from another spec: nodes.compute.count is 2 in the lab and 3",
        f"gridwright down {stopped.spec}, which deletes it: what is on nodes compute1, compute2 and "
        "controller; local file systems shared",
    )
    stopped.spec.write_text(text)
    assert "is up again, with its data" in stopped.up().out
    assert stopped.run("compute2", "cat", "/mnt/grid/kept").out == "kept\n"


def test_data_that_is_not_there_is_named_by_status_and_up(stopped: Lab, tmp_path: Path) -> None:
    """As on a disk that is not mounted after the boot: the lab would begin with an empty directory."""
    place = stopped.record.parent / "nodes" / "compute2"
    shutil.move(place, tmp_path / "aside")
    assert stopped.status().json["missing"] == [str(place)]
    assert "not all of its data is there" in stopped.command("status", stopped.spec).out
    refused(stopped, f"was up, and of its data this is not there: {place}", "mount or put back")
    shutil.move(tmp_path / "aside", place)
    assert "is up again, with its data" in stopped.up().out


def test_a_down_that_was_killed_is_finished_by_down_alone(stopped: Lab) -> None:
    write_record(stopped, phase="removing", was_up=True)
    assert stopped.status().json["state"] == "half-removed"
    refused(stopped, "a gridwright down of lab labstopped was not finished")
    ended = stopped.down()
    assert (ended.status, traces(stopped)) == (0, [])


def test_files_without_a_record_are_no_place_for_a_new_lab(stopped: Lab) -> None:
    stopped.record.unlink()
    refused(stopped, "files of a lab labstopped are here, and no record of it", ", which deletes it")
    ended = stopped.down()
    assert ended.out.startswith("lab labstopped was not up; what was left of it is deleted: what is on nodes")
    assert traces(stopped) == []


def test_down_of_a_stopped_lab_names_what_it_deletes(stopped: Lab) -> None:
    ended = stopped.down()
    assert ended.status == 0, ended.err
    assert "it was stopped, and went with its data: what is on nodes compute1" in ended.out
    assert traces(stopped) == []
    assert stopped.down().out == "lab labstopped was not up\n"


@pytest.mark.parametrize("steps", [3, pytest.param(12, marks=pytest.mark.thorough)])
def test_a_down_that_is_killed_leaves_a_lab_with_all_of_its_data_or_one_that_up_refuses(
    gridwright: Command, tmp_path: Path, steps: int
) -> None:
    made = nodes_only(gridwright, tmp_path, "labkilled", "10.78.43.0/24")
    kept = made.record.parent / KEPT
    try:
        for step in range(steps):
            assert made.up().status == 0
            kept.write_text("kept\n")
            with gridwright.start("down", made.spec) as running:
                wait_until(
                    lambda: True if not made.record.exists() or _phase(made) != "up" else None,
                    seconds=30, what="its begin", last=made.status,
                )  # fmt: skip
                time.sleep(step / steps * 0.3)
                running.signal(signal.SIGKILL)
            state = made.status().json["state"]
            if state == "stopped":
                assert "is up again, with its data" in made.up().out
                assert made.run("compute1", "cat", "/mnt/grid/kept").out == "kept\n"
            elif state == "half-removed":
                assert "was not finished" in made.up().text
            else:
                assert (state, kept.exists()) == ("not-up", False)
            assert made.down().status == 0
            assert traces(made) == []
    finally:
        made.down()


def _phase(lab: Lab) -> str:
    record = read(lab.name)
    return "" if record is None else record.phase
