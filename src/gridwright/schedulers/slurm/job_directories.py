"""The directories of one user's jobs, below the state directory, at the same path on all nodes."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_script import script_file
from gridwright.state_parts import KEPT_S, own_directory


@dataclass(frozen=True, slots=True)
class JobDirectories:
    """The directories of one user: a record of one's own keeps users of a shared file system apart."""

    base: Path

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "slurm.sqlite"

    @property
    def logs(self) -> Path:
        """A file for each job, with what it printed."""
        return self.base / "logs"

    @property
    def fences(self) -> Path:
        """A file for each attempt that must not begin any more."""
        return self.base / "fences"

    @property
    def leftovers(self) -> Path:
        """A file for each node, with directories to be removed there."""
        return self.base / "leftovers"

    @property
    def script(self) -> Path:
        """The script that runs jobs."""
        return script_file(self.base)

    def fence(self, tag: JobTag) -> None:
        """Keep an attempt from beginning, should Slurm have it after all. A job that has begun goes on."""
        with (self.fences / str(tag)).open("w") as file:
            file.flush()
            os.fsync(file.fileno())

    def lift_fence(self, tag: JobTag) -> None:
        """Let an attempt begin after all."""
        (self.fences / str(tag)).unlink(missing_ok=True)

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

    def tidy(self, live: Collection[str], now: float) -> None:
        """Remove the files of runs and fences of the day before, but for the `live` tokens.

        Not sooner: a slurmctld that was killed may bring back what ended shortly before, and the script is
        to know that it ran.
        """
        for directory in (self.runs, self.fences):
            for entry in directory.iterdir():
                token = entry.name.partition(".")[0]
                if token not in live and now - entry.stat().st_mtime > KEPT_S:
                    entry.unlink(missing_ok=True)


def make_job_directories(state: Path) -> JobDirectories:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    return JobDirectories(own_directory(state, "slurm", ("logs", "runs", "fences", "leftovers")))
