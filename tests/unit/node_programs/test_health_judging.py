"""What a node has mounted, by recorded tables of its kernel, against what it must have; and what follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.health.configuration import (
    ExpectedMount,
    HealthConfiguration,
    is_same_source,
    mount_problem,
    node_verdict,
)
from gridwright.node_programs.health.looking import READ_ONLY, Glance, LeftBehind
from gridwright.node_programs.health.slurm import OWN, Act, KnownNode, decide, known_node, reason_of
from gridwright.node_programs.scratch.disks import mounts

ROOT = "29 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n"
LUSTRE = "310 29 0:52 / /shared rw,noatime shared:160 - lustre 10.20.64.10@tcp:/shared rw,checksum,flock\n"
NFS = "312 29 0:55 / /home rw,noatime shared:170 - nfs4 filer:/export/home rw,vers=4.2,hard,addr=10.0.0.9\n"
XFS = "320 29 9:127 / /scratch rw,noatime shared:180 - xfs /dev/md127 rw,attr2,inode64,noquota\n"
FUSE = "330 29 0:60 / /mnt/grid rw,relatime shared:190 - fuse.mfs mfs#10.81.7.5:9421 rw,allow_other\n"
AUTO = "340 29 0:61 / /home rw,relatime shared:195 - autofs systemd-1 rw,fd=42,pgrp=1,timeout=60\n"
SHARED = ExpectedMount("/shared", ("lustre",), "10.20.64.10@tcp:/shared")
HOME = ExpectedMount("/home", ("nfs4", "nfs"), "filer:/export/home/")
SCRATCH = ExpectedMount("/scratch", ("xfs",))
GRID = ExpectedMount("/mnt/grid/data", ("fuse.mfs", "fuse"))
ALL = HealthConfiguration((SHARED, HOME, SCRATCH, GRID), ("/scratch/work",))


def certain(table: str) -> list[str]:
    return list(node_verdict(ALL, mounts(table), {}).certain.values())


def test_a_node_that_has_all_of_it_is_well() -> None:
    assert certain(ROOT + LUSTRE + NFS + XFS + FUSE) == []


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (LUSTRE, "/shared is not mounted"),
        (NFS, "/home is not mounted"),
        (XFS, "/scratch is not mounted as xfs"),
        (FUSE, "/mnt/grid/data is not mounted as fuse.mfs"),
    ],
)
def test_what_is_not_mounted_is_told_by_its_path(missing: str, told: str) -> None:
    assert certain((ROOT + LUSTRE + NFS + XFS + FUSE).replace(missing, "")) == [told]


def test_after_a_restart_without_any_mount_all_are_told() -> None:
    assert len(certain(ROOT)) == 4
    assert len(certain("")) == 4


def test_of_mounts_on_one_point_the_last_counts() -> None:
    """An automounter lies below what it has mounted; something else may lie above."""
    assert mount_problem(HOME, mounts(ROOT + AUTO + NFS)) is None
    assert mount_problem(HOME, mounts(ROOT + AUTO)) == "/home is a mount of autofs, not nfs4"
    covered = ROOT + XFS + "350 320 0:70 / /scratch rw - tmpfs tmpfs rw\n"
    assert mount_problem(SCRATCH, mounts(covered)) == "/scratch is not mounted as xfs"


def test_a_neighbour_with_a_name_that_begins_alike_is_no_mount_of_it() -> None:
    assert mount_problem(SCRATCH, mounts(ROOT + XFS.replace("/scratch", "/scratch2")))
    assert mount_problem(GRID, mounts(ROOT + FUSE.replace("/mnt/grid ", "/mnt/gri ")))


def test_another_file_system_in_its_place_is_told_with_both() -> None:
    other = LUSTRE.replace("@tcp:/shared", "@tcp:/old")
    assert mount_problem(SHARED, mounts(ROOT + other)) == (
        "/shared is mounted from 10.20.64.10@tcp:/old, not 10.20.64.10@tcp:/shared"
    )


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("10.0.0.1@tcp:/shared", "10.0.0.1@tcp:/shared", True),
        ("filer:/export/", "filer:/export", True),
        ("filer:/", "filer:/", True),
        ("filer:/export", "10.0.0.9:/export", True),
        ("fs-0ab.fsx.us-east-1.amazonaws.com@tcp:/m5x", "10.20.1.7@tcp:/m5x", True),
        ("10.0.0.1@tcp:10.0.0.2@tcp:/s", "10.0.0.2@tcp:/s", True),
        ("10.0.0.1@tcp:/s", "10.0.0.2@tcp:/s", False),
        ("filer:/export", "filer:/other", False),
        ("filer:/export", "/dev/sda1", False),
    ],
)
def test_a_source_has_many_names_and_one_path(wanted: str, found: str, *, same: bool) -> None:
    assert is_same_source(wanted, found) is same


def test_what_hangs_or_fails_is_no_certainty() -> None:
    glances = {
        "/shared": Glance(left=LeftBehind(7, 7)),
        "/home": Glance("does not answer: Stale file handle"),
    }
    verdict = node_verdict(ALL, mounts(ROOT + LUSTRE + NFS + XFS + FUSE), glances)
    assert verdict.certain == {}
    assert verdict.unsure == {
        "/shared": "/shared hangs",
        "/home": "/home does not answer: Stale file handle",
    }


def test_read_only_matters_where_jobs_write() -> None:
    glances = {"/home": Glance(READ_ONLY), "/scratch/work": Glance(READ_ONLY)}
    verdict = node_verdict(ALL, mounts(ROOT + LUSTRE + NFS + XFS + FUSE), glances)
    assert list(verdict.unsure) == ["/scratch/work"]


def test_what_is_not_mounted_is_told_once() -> None:
    verdict = node_verdict(ALL, mounts(ROOT + NFS + XFS + FUSE), {"/shared": Glance("is not there")})
    assert list(verdict.certain) == ["/shared"]
    assert verdict.unsure == {}


LOST = ["/shared is not mounted"]
OURS = reason_of(LOST)


def node(state: str, reason: str = "") -> KnownNode:
    return KnownNode.of(state, reason)


@pytest.mark.parametrize("state", ["IDLE", "MIXED", "ALLOCATED", "IDLE+COMPLETING", "DOWN*", "UNKNOWN"])
def test_a_node_that_takes_jobs_or_is_about_to_is_drained(state: str) -> None:
    reason = "Not responding" if state == "DOWN*" else ""
    assert decide(LOST, node(state, reason), doubtful=False) is Act.DRAIN
    assert decide(LOST, node(state, reason), doubtful=True) is Act.DRAIN


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE+DRAIN", "broken fan"),
        ("MIXED+DRAIN", "Duplicate jobid"),
        ("DOWN", "waits for a technician"),
        ("DOWN*+DRAIN", "Not responding"),
        ("IDLE+DRAIN", "gridwright: something else"),
        ("IDLE+FAIL", ""),
    ],
)
def test_what_others_said_of_a_node_stands(state: str, reason: str) -> None:
    for wrong in ([], LOST):
        assert decide(wrong, node(state, reason), doubtful=False) is Act.NOTHING


def test_only_what_it_drained_itself_is_resumed_and_only_without_doubt() -> None:
    assert OURS.startswith("gridwright: ")
    for state in ("IDLE+DRAIN", "MIXED+DRAIN", "DOWN*+DRAIN"):
        assert decide([], node(state, OURS), doubtful=False) is Act.RESUME
        assert decide([], node(state, OURS), doubtful=True) is Act.NOTHING
        assert decide(LOST, node(state, OURS), doubtful=False) is Act.NOTHING
        assert decide(["/home hangs"], node(state, OURS), doubtful=False) is Act.DRAIN
    # An administrator used it again, and Slurm kept the reason.
    assert decide([], node("IDLE", OURS), doubtful=False) is Act.NOTHING


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=20))
def test_a_reason_is_short_and_known_again(wrong: list[str]) -> None:
    reason = reason_of(wrong)
    assert len(reason) <= 200
    assert reason.startswith(OWN)


@pytest.mark.parametrize("tail", ["", " Comment=rack 7", "\n   ExtSensorsJoules=n/s"])
def test_what_slurm_shows_of_a_node_is_read(tail: str) -> None:
    shown = (
        "NodeName=compute1 Arch=x86_64 CoresPerSocket=4 CPUAlloc=0 CPUEfctv=4 CPUTot=4 State=IDLE*+DRAIN "
        "ThreadsPerCore=1 Partitions=batch BootTime=None ReasonX=no "
        f"Reason={OURS} [root@2026-11-23T04:00:00]{tail}\n"
    )
    assert known_node(shown) == KnownNode(frozenset({"IDLE", "DRAIN"}), OURS)


def test_a_node_without_a_reason_and_no_node_at_all() -> None:
    assert known_node("NodeName=a State=IDLE ThreadsPerCore=1\n") == KnownNode(frozenset({"IDLE"}))
    assert known_node("Node z not found") is None
