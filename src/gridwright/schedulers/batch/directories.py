"""The directories of one user's jobs, below the state directory, at the same path on all nodes."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gridwright.beneath import remove_tree
from gridwright.node_programs.batch_job.job_file import JobFile, RunEnd, read_end
from gridwright.node_programs.one_file import BATCH_JOB, BATCH_JOB_STARTER
from gridwright.schedulers.batch.system import tagged_name
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_tag import JobTag
from gridwright.state_parts import KEPT_S, own_directory, unusable_state, write_program

_RUN_FILE = re.compile(r"(job|[0-9]+)\.([0-9]+)\.(begun|ended)")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job that has begun."""

    number: int
    """From 0."""
    ended: Path | None
    """The file that says how it ended; None while there is none."""

    @property
    def end(self) -> RunEnd | None:
        """How it ended, where it has."""
        return read_end(self.ended) if self.ended is not None else None


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """The directories of one user: a record of one's own keeps users of a shared file system apart."""

    base: Path

    @property
    def logs(self) -> Path:
        """A file for each job, with what it printed."""
        return self.base / "logs"

    def fence_file(self, tag: JobTag) -> Path:
        """The file that keeps an attempt from beginning."""
        return self.base / "fences" / str(tag)

    def fence(self, tag: JobTag) -> None:
        """Keep an attempt from beginning, should it be there after all. One that runs goes on."""
        with self.fence_file(tag).open("w") as file:
            file.flush()
            os.fsync(file.fileno())

    def forget(self, tag: JobTag) -> None:
        """Remove what nodes had to know of a submission that has ended: it has the job's environment."""
        (self.base / "jobs" / f"{tag}.json").unlink(missing_ok=True)

    def tidy(self, needed: Collection[str]) -> None:
        """Remove runs and fences of the day before, but for those of `needed` tokens.

        Not sooner: a batch system that was killed may bring back what ended shortly before, and the program
        on the node is to know that it ran.
        """
        now = time.time()
        for directory in (self.base / "runs", self.base / "fences"):
            for path in directory.iterdir():
                if path.name.partition(".")[0] in needed or now - path.stat().st_mtime <= KEPT_S:
                    continue
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink(missing_ok=True)


class BatchDirectories(OwnDirectories):
    """The directories of a batch system whose nodes run the program batch_job."""

    __slots__ = ()

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "jobs.sqlite"

    def log(self, request: JobRequest, tag: JobTag) -> Path:
        """Where the jobs of a submission print to, without `_INDEX` of an element and without `.log`."""
        return self.logs / tagged_name(request.label, tag)

    def runs(self, tag: JobTag) -> Path:
        """The files that say what became of the jobs of a submission."""
        return self.base / "runs" / str(tag)

    @property
    def program(self) -> Path:
        """The program that runs jobs, as nodes are to start it."""
        return self.base / f"batch_job-{_program()[0]}.sh"

    def write_job(self, tag: JobTag, job: JobFile) -> None:
        """Write down what nodes have to know of a submission, and the program. Raises GridwrightError."""
        path = self.base / "jobs" / f"{tag}.json"
        try:
            self.runs(tag).mkdir(mode=0o700, exist_ok=True)
            part = path.with_suffix(".part")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(job.text())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            self._write_program()
        except OSError as error:
            raise unusable_state(error, self.base, path) from error

    def _write_program(self) -> None:
        _, archive = _program()
        for path, content in (
            (self.program.with_suffix(".pyz"), archive),
            (self.program, BATCH_JOB_STARTER.encode()),
        ):
            write_program(path.parent, path.name, content)

    def last_runs(self, tag: JobTag) -> dict[str, LastRun]:
        """The last run of each job of a submission that has begun, by index, `job` where it is no array."""
        last_runs: dict[str, LastRun] = {}
        try:
            names = [entry.name for entry in self.runs(tag).iterdir()]
        except OSError:
            return last_runs
        for name in sorted(names):
            parts = _RUN_FILE.fullmatch(name)
            if parts is None:
                continue
            number = int(parts[2])
            if (known := last_runs.get(parts[1])) is not None and known.number > number:
                continue
            ended = self.runs(tag) / name if parts[3] == "ended" else None
            if ended is None and known is not None and known.number == number:
                continue
            last_runs[parts[1]] = LastRun(number, ended)
        return last_runs


@cache
def _program() -> tuple[str, bytes]:
    archive = BATCH_JOB.archive()
    return hashlib.sha256(archive + BATCH_JOB_STARTER.encode()).hexdigest()[:12], archive


def make_batch_directories(state: Path, kind: str) -> BatchDirectories:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    return BatchDirectories(own_directory(state, kind, ("jobs", "logs", "runs", "fences")))
