"""What the doctor says of nodes with Lustre, held against what a real 2.17 showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.doctor.check import CheckResult
from gridwright.doctor.examination import TUNING_DRIFT, faults
from gridwright.doctor.facts.filesystems import data_mounts
from gridwright.messages import plain
from tests.support.doctor_grid import MACHINES, grid, machine, mount, results

RECORDED = Path(__file__).parents[2] / "fixtures/lustre"
SERVER = [line for line in (RECORDED / "005-proc-mounts.out").read_text().splitlines() if " lustre " in line]
"""A server's own mounts, and its client's, as /proc/mounts has them."""
CHANGES = "mdc.*.max_mod_rpcs_in_flight"
IMPORT = (RECORDED / "052-param-mdc-import.out").read_text()
FOUND = next(
    line + "\n"
    for line in (RECORDED / "drop-max-mod-rpcs.out").read_text().splitlines()
    if line.startswith("mdc.")
)


def mounts_of(lines: list[str]) -> list[dict[str, object]]:
    """Mounts as a node tells them, out of lines of /proc/mounts."""
    table = []
    for number, line in enumerate(lines):
        source, point, kind, options = line.split()[:4]
        table.append(f"{50 + number} 28 0:{60 + number} / {point} rw - {kind} {source} {options}")
    return [plain(each) for each in data_mounts(table)]


def judged_on(name: str, **changes: Any) -> list[CheckResult]:
    """What a check says of a node with these facts."""
    seen = results(grid(machine("compute1", **changes), spec=MACHINES))
    return [each for each in seen if each.name == name and each.applies]


def test_mounts_of_a_server_are_no_clients() -> None:
    assert sum("svname" in line for line in SERVER) >= 3
    told = mounts_of(SERVER)
    assert len(told) == len(SERVER)
    for name in ("mount-lustre-flock", "mount-lustre-noatime"):
        found = [each.found for each in judged_on(name, mounts=told)]
        assert found, "the client's own mount is judged"
        assert all("/mnt/scratch" in each for each in found), found


@pytest.mark.parametrize(("value", "ok"), [("7", False), ("8", True), ("15", True)])
def test_metadata_changes_are_expected_as_far_as_the_server_allows(value: str, *, ok: bool) -> None:
    printed = FOUND.replace("=7", f"={value}") + IMPORT
    settings = {"lustre-client": {CHANGES: printed}}
    (found,) = judged_on("lustre-metadata-changes", settings=settings)
    assert found.ok is ok
    assert f"{CHANGES} = {value}" in found.found
    assert "what its server allows" in found.expected


def test_localflock_is_an_error_and_no_drift() -> None:
    told = mounts_of([line.replace(",flock", ",localflock") for line in SERVER if "svname" not in line])
    (found,) = judged_on("mount-lustre-no-localflock", mounts=told)
    assert (found.ok, found.level) == (False, "error")
    named = {each.name for each in faults([found])}
    assert named == {"mount-lustre-no-localflock"}
    assert not faults(judged_on("mount-lustre-flock", mounts=told))
    bare = mounts_of([line.replace(",flock", "") for line in SERVER if "svname" not in line])
    (flock,) = judged_on("mount-lustre-flock", mounts=bare)
    assert {each.name for each in faults([flock])} == {TUNING_DRIFT}


def test_a_file_system_that_is_not_mounted_is_named_so() -> None:
    missing = {"data": {"path": "/mnt/grid/data", "missing": "No such file or directory"}}
    (found,) = judged_on("library-missing", mounts=[mount("/")], libraries=missing)
    assert "its file system is not mounted: nothing is mounted at /mnt/grid" in found.found
    mounted = [mount("/"), mount("/mnt/grid", type="lustre", local=False)]
    (found,) = judged_on("library-missing", mounts=mounted, libraries=missing)
    assert found.found.endswith("No such file or directory")
