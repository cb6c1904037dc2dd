"""The directories of one user's jobs of Slurm, below the state directory, at the same path on all nodes."""

from __future__ import annotations

from pathlib import Path

from gridwright.schedulers.batch.directories import OwnDirectories
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_script import script_file
from gridwright.state_parts import own_directory


class JobDirectories(OwnDirectories):
    """See OwnDirectories; a job of Slurm is run by a script, and each of its runs is one file."""

    __slots__ = ()

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "slurm.sqlite"

    @property
    def leftovers(self) -> Path:
        """A file for each node, with directories to be removed there."""
        return self.base / "leftovers"

    @property
    def script(self) -> Path:
        """The script that runs jobs."""
        return script_file(self.base)

    def lift_fence(self, tag: JobTag) -> None:
        """Let an attempt begin after all."""
        self.fence_file(tag).unlink(missing_ok=True)

    @property
    def runs(self) -> Path:
        """A file for each run of a job: empty from its begin to its end, then with the exit status."""
        return self.base / "runs"

    def runs_begun(self) -> dict[str, int]:
        """The last run of each job that has begun, by what its files' names have before the number."""
        last: dict[str, int] = {}
        for entry in self.runs.iterdir():
            job, _, number = entry.name.rpartition(".")
            if number.isdigit():
                last[job] = max(last.get(job, 0), int(number))
        return last

    def run_status(self, name: str) -> int | None:
        """The exit status of a run; None while it has none."""
        try:
            text = (self.runs / name).read_text(errors="replace")
        except OSError:
            return None
        return int(text) if text.endswith("\n") and text.strip().isdigit() else None

    def run_ended(self, name: str) -> float | None:
        """When a run wrote its status; seconds since 1970."""
        try:
            return (self.runs / name).stat().st_mtime
        except OSError:
            return None


def make_job_directories(state: Path) -> JobDirectories:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    return JobDirectories(own_directory(state, "slurm", ("logs", "runs", "fences", "leftovers")))
