"""Users of one group share a directory of a project, whose setgid bit gives the group what is new in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gridwright.runs.directory import load_run
from tests.support.as_user import ALICE, as_user, open_to_all
from tests.support.records import finished_run

pytestmark = pytest.mark.root
BEN, PROJECT = 2003, 2900


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory as `install -d -m 2775 -o root -g project` makes it."""
    # Whom a test becomes may not be able to read what is imported late.
    load_run(finished_run(tmp_path / "warm"))
    open_to_all(tmp_path)
    place = tmp_path / "project"
    place.mkdir()
    os.chown(place, 0, PROJECT)
    place.chmod(0o2775)
    return place


def of_alice(runs: Path, umask: int) -> Path:
    """A finished run that alice began with a umask, beside a directory that she made by hand."""

    def begins() -> None:
        os.umask(umask)
        finished_run(runs)
        (runs / "plain").mkdir()

    as_user(ALICE, begins, [PROJECT])
    (run,) = runs.glob("*/run.json")
    return run.parent


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o027, 0o077])
def test_a_run_is_open_to_whom_the_umask_and_the_directory_let_in(project: Path, umask: int) -> None:
    run = of_alice(project / "runs", umask)
    plain = (run.parent / "plain").stat()
    for made in (run, run / "logs"):
        assert (oct(made.stat().st_mode), made.stat().st_gid) == (oct(plain.st_mode), PROJECT), made
    for file in run.glob("*.*"):
        assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_gid) == (0o666 & ~umask, PROJECT), file

    def reads() -> None:
        assert load_run(run).run.status == "complete"

    if umask & 0o040:
        with pytest.raises(AssertionError, match="Permission denied"):
            as_user(BEN, reads, [PROJECT])
    else:
        as_user(BEN, reads, [PROJECT])


def test_no_umask_lets_all_write_a_run_nor_the_group_of_one_of_roots(tmp_path: Path, project: Path) -> None:
    as_user(ALICE, (project / "runs").mkdir, [PROJECT])
    assert of_alice(project / "runs", 0).stat().st_mode & 0o7777 == 0o2775
    place = tmp_path / "of-root"
    place.mkdir()
    os.chown(place, 0, PROJECT)
    place.chmod(0o2755)
    before = os.umask(0o002)
    try:
        made = finished_run(place)
    finally:
        os.umask(before)
    assert (stat.S_IMODE(made.stat().st_mode), made.stat().st_gid) == (0o2755, PROJECT)
