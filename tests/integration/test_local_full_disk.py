"""The disk of the state directory fills up: nothing is lost, and the disk is named."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.job import JobState
from tests.support.command import wait_until
from tests.support.local_grid import LocalGrid, ended, local_grid

JOBS = 60


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[LocalGrid]:
    """A grid whose state directory is a disk of its own, of 4 MiB."""
    if os.geteuid():
        pytest.skip("only root can mount a file system")
    with local_grid(tmp_path / "grid") as made:
        made.state.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", made.state], check=True, timeout=20
        )
        try:
            yield made
        finally:
            subprocess.run(["umount", "--lazy", made.state], check=True, timeout=20)


def fill(grid: LocalGrid) -> Path:
    """Leave no byte."""
    path = grid.state / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


@pytest.mark.parametrize("kill", [False, True])
def test_jobs_that_cannot_be_recorded_are_when_there_is_room(grid: LocalGrid, kill: bool) -> None:
    """Also where the runner is killed meanwhile, and its keeper."""
    scheduler = grid.scheduler()
    late = "$((GRIDWRIGHT_ARRAY_INDEX >= 20))"
    script = f"echo $GRIDWRIGHT_JOB_ID >>lines; while ! test -e go{late}; do sleep 0.02; done"
    (array,) = scheduler.submit([grid.request("sh", "-c", script, array=range(JOBS))])
    (grid.directory / "go0").touch()
    wait_until(lambda: _lines(grid) >= 22 or None, seconds=60, what="starts", last=lambda: _lines(grid))
    filler = fill(grid)
    (grid.directory / "go1").touch()
    full = f"the state disk {grid.state} is full"

    def reasons() -> set[str]:
        return {str(job.reason) for job in scheduler.jobs([array]) if not job.state.final}

    expected = {full, f"has ended, and is recorded later: {full}"}
    wait_until(lambda: reasons() == expected or None, seconds=30, what="the reason", last=reasons)
    assert full in scheduler.explain(f"{array}_{JOBS - 1}").summary
    with pytest.raises(GridwrightError) as caught:
        scheduler.submit([grid.request("true", array=range(50_000))])
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert full in str(caught.value)
    if kill:
        found = grid.runners()
        for process in found:
            process.kill()
        psutil.wait_procs(found, timeout=20)
        assert reasons() == expected
    filler.unlink()
    jobs = ended(scheduler, [array], seconds=60)
    assert Counter((job.state, job.restarts, job.reason) for job in jobs) == {
        (JobState.COMPLETED, 0, None): JOBS
    }
    assert Counter((grid.directory / "lines").read_text().split()) == {job.id: 1 for job in jobs}
    submitted = scheduler.submit([grid.request("true")])
    assert ended(scheduler, submitted)[0].state is JobState.COMPLETED


def _lines(grid: LocalGrid) -> int:
    path = grid.directory / "lines"
    return len(path.read_text().split()) if path.exists() else 0
