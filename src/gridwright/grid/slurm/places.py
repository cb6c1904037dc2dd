"""Where a user's jobs of a grid keep what they need: below the state directory, the same on all nodes."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.grid.slurm.job_name import Tag
from gridwright.grid.slurm.job_script import script_file


def this_user() -> str:
    """The name of the user that runs this; the number where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of one user: a record of one's own keeps users of a shared file system apart."""

    base: Path

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "slurm.sqlite"

    @property
    def logs(self) -> Path:
        """A file for each job that has begun: Slurm makes it just before the job's script runs."""
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

    def fence(self, tag: Tag) -> None:
        """Keep an attempt from beginning, should Slurm have it after all. A job that has begun goes on."""
        with (self.fences / str(tag)).open("w") as file:
            file.flush()
            os.fsync(file.fileno())

    def begun(self) -> set[str]:
        """Names of the log files: jobs whose log is there have begun."""
        return {each.name for each in self.logs.iterdir()}

    @property
    def ends(self) -> Path:
        """A file for each job whose script has ended, with its status: read where Slurm has forgotten it."""
        return self.base / "ends"

    def ends_written(self) -> set[str]:
        """Names of those files."""
        return {each.name for each in self.ends.iterdir()}

    def read_end(self, name: str) -> int | None:
        """The status in such a file; None while it is being written."""
        try:
            text = (self.ends / name).read_text(errors="replace")
        except OSError:
            return None
        return int(text) if text.endswith("\n") and text.strip().isdigit() else None

    def end_time(self, name: str) -> float | None:
        """When such a file was written; seconds since 1970."""
        try:
            return (self.ends / name).stat().st_mtime
        except OSError:
            return None

    def forget_ends(self, prefix: str, restarts: int) -> None:
        """Remove those of a job whose end is in the record."""
        for run in range(restarts + 1):
            (self.ends / f"{prefix}{run}").unlink(missing_ok=True)


def make_places(state: Path) -> Places:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    shared = state / "slurm"
    places = Places(shared / this_user())
    try:
        if not shared.is_dir():
            shared.mkdir(parents=True, exist_ok=True)
            # Other users of the grid have directories of their own beside this one, as in /tmp.
            shared.chmod(0o1777)
        for each in (places.base, places.logs, places.ends, places.fences, places.leftovers):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise environment_error(
            f"the state directory cannot be used: {error.strerror}",
            where=str(error.filename or state),
            remedy="make it, writable for all who submit jobs, or name another with state: in the spec",
        ) from error
    return places
