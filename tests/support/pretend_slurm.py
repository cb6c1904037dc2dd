"""A Slurm in memory that can be killed, can forget, and answers late.

It takes the command lines that the scheduler sends to the real tools, and runs no job: a test lets jobs begin
and end. What the job's script does with the state directory (fence, log, end) is done here as the script does
it; the script itself is tested on a real shell and on a real Slurm.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.schedulers.job_request import expand_indices, fold_indices
from gridwright.services.connections import Listener

RECORDED = Path(__file__).parents[1] / "fixtures" / "slurm" / "22.05"


@dataclass
class PretendJob:
    """A job, or an element of an array."""

    number: int
    index: int | None
    name: str
    log: Path
    base: Path
    state: str = "PENDING"
    reason: str = "Priority"
    status: int = 0
    started: float = 0.0
    ended: float = 0.0
    requeue: bool = False
    held: bool = False

    @property
    def shown(self) -> str:
        return f"{self.number}" if self.index is None else f"{self.number}_{self.index}"

    @property
    def tag(self) -> str:
        return self.name.partition("~")[2]


@dataclass
class Controller:
    """What slurmctld knows, and saves now and then."""

    jobs: list[PretendJob] = field(default_factory=list)
    next_number: int = 1


class PretendSlurm:
    """A head node with Slurm's tools; implements grid.head.HeadNode."""

    name = "controller"
    nodes_share_python = True
    sees_state = True

    def __init__(self, clock: Mapping[str, float], *, accounting: bool = True) -> None:
        self._clock = clock
        self._accounting = accounting
        self.now = Controller()
        self._saved = Controller()
        self._completions: list[str] = []
        self.boot = clock["now"]
        self.up = True
        self.lose_answers = 0
        """So many coming submissions arrive, and sbatch has no answer."""
        self.delay_requests = 0
        """So many coming submissions arrive only when `deliver` is called."""
        self._late: list[Sequence[str]] = []
        self.running: dict[tuple[str, int | None], int] = {}
        """How often a command began, by token and index."""
        self.alive: list[PretendJob] = []
        """Jobs that run on nodes, whatever slurmctld knows."""
        self.overlapped = False
        self.commands: list[Sequence[str]] = []

    def argv(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        raise AssertionError("jobs need no ssh")

    def listen(self) -> tuple[Listener, str]:
        raise AssertionError("jobs do not call back")

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        self.commands.append(command)
        tool = command[0]
        if tool == "grep":
            patterns = [word for before, word in pairwise(command) if before == "-e"]
            lines = [line for line in self._completions if any(each in line for each in patterns)]
            return CommandOutput(0 if lines else 1, "".join(lines).encode(), b"")
        if tool == "/bin/sh":
            return CommandOutput(0, b"", b"")
        if not self.up:
            return CommandOutput(
                1, b"", f"{tool}: error: Unable to contact slurm controller (connect failure)\n".encode()
            )
        return {"sbatch": self._sbatch, "squeue": self._squeue, "scancel": self._scancel}.get(
            tool, self._scontrol
        )(command)

    def _sbatch(self, command: Sequence[str]) -> CommandOutput:
        if "--test-only" in command:
            if refused := next((word for word in command if word.startswith("--qos=")), None):
                return CommandOutput(1, b"", f"allocation failure: Invalid qos: {refused}\n".encode())
            return CommandOutput(0, b"", b"sbatch: Job 1 to start at now on n1\n")
        if self.delay_requests:
            self.delay_requests -= 1
            self._late.append(command)
            raise environment_error("sbatch has not answered for 20 s")
        number = self._accept(command)
        if self.lose_answers:
            self.lose_answers -= 1
            raise environment_error("sbatch has not answered for 20 s")
        return CommandOutput(0, f"{number}\n".encode(), b"")

    def deliver(self) -> None:
        """Late requests arrive."""
        for command in self._late:
            self._accept(command)
        self._late.clear()

    def _accept(self, command: Sequence[str]) -> int:
        options = {
            key.lstrip("-"): value
            for key, _, value in (word.partition("=") for word in command if word[:2] == "--")
        }
        script = next((at for at, word in enumerate(command) if word.endswith(".sh")), None)
        number = self.now.next_number
        self.now.next_number += 1
        indices = [None] if "array" not in options else list(expand_indices(options["array"]))
        for index in indices:
            self.now.jobs.append(
                PretendJob(
                    number=number,
                    index=index,
                    name=options["job-name"],
                    log=Path(options["output"].replace("%a", str(index))),
                    base=Path(command[script + 1]) if script is not None else Path(),
                    requeue="requeue" in options,
                    held="hold" in options,
                )
            )
        return number

    def _squeue(self, command: Sequence[str]) -> CommandOutput:
        if "--json" in command:
            return CommandOutput(1, b"", b"squeue: error: unrecognized option '--json'\n")
        lines = [
            self._line(job.shown, job) for job in self.now.jobs if job.index is None or job.state != "PENDING"
        ]
        waiting: dict[int, list[PretendJob]] = {}
        for job in self.now.jobs:
            if job.index is not None and job.state == "PENDING":
                waiting.setdefault(job.number, []).append(job)
        for number, jobs in waiting.items():
            folded = fold_indices(job.index for job in jobs if job.index is not None)
            lines.append(self._line(f"{number}_[{folded}]", jobs[0]))
        return CommandOutput(0, "".join(lines).encode(), b"")

    def _line(self, shown: str, job: PretendJob) -> str:
        times = "|".join(f"{moment:.0f}" if moment else "N/A" for moment in (1.0, job.started, job.ended))
        node = "compute1" if job.started else ""
        return f"{shown}|{job.name}|{job.state}|{job.status << 8}|0|{times}|batch|root|{node}|{job.reason}\n"

    def _scancel(self, command: Sequence[str]) -> CommandOutput:
        forgotten: list[PretendJob] = []
        for word in command[2:]:
            for job in self.now.jobs:
                if word not in (job.shown, str(job.number)) or job.state not in ("PENDING", "RUNNING"):
                    continue
                if word == job.shown and job.index is not None and job.state == "PENDING":
                    forgotten.append(job)
                else:
                    self._stop(job, "CANCELLED", 0)
        # Nothing is kept of a waiting element that is cancelled by itself.
        self.now.jobs = [job for job in self.now.jobs if job not in forgotten]
        return CommandOutput(0, b"", b"")

    def _scontrol(self, command: Sequence[str]) -> CommandOutput:
        text = (RECORDED / f"{command[-1]}.txt").read_text()
        if command[-1] == "config":
            text = re.sub(r"BOOT_TIME( *)= \d+", f"BOOT_TIME = {self.boot:.0f}", text)
            if not self._accounting:
                text = text.replace("jobcomp/filetxt", "jobcomp/none")
        return CommandOutput(0, text.encode(), b"")

    def save(self) -> None:
        """slurmctld saves its state."""
        self._saved = copy.deepcopy(self.now)

    def kill(self) -> None:
        """slurmctld is killed, and started anew from what it had saved."""
        self.now = copy.deepcopy(self._saved)
        self.boot = self._clock["now"]

    def begin(self, job: PretendJob) -> bool:
        """A node runs the script of a job; False where the fence ended it before its command."""
        job.state, job.reason, job.started = "RUNNING", "None", self._clock["now"]
        if job.base == Path():
            return False
        job.log.touch()
        if (job.base / "fences" / job.tag).exists():
            self._stop(job, "COMPLETED", 0)
            return False
        run = self._run_file(job)
        if run.exists():
            status = run.read_text().strip()
            # Of a job that goes on elsewhere, slurmd there still has it running.
            self._stop(job, "FAILED" if status != "0" else "COMPLETED", int(status or 75), here=False)
            return False
        run.touch()
        key = (job.tag.partition(".")[0], job.index)
        self.overlapped = self.overlapped or any(
            (each.tag.partition(".")[0], each.index) == key for each in self.alive
        )
        self.running[key] = self.running.get(key, 0) + 1
        self.alive.append(copy.copy(job))
        return True

    def end(self, job: PretendJob, status: int = 0) -> None:
        """The command of a running job ends: its script writes that down, slurmctld hears of it."""
        self._write_end(job, status)
        known = next(
            (each for each in self.now.jobs if each.name == job.name and each.index == job.index), None
        )
        if known is not None:
            self._stop(known, "FAILED" if status else "COMPLETED", status)

    def end_orphans(self, *, killed: bool) -> None:
        """Jobs that slurmctld does not know end on their nodes: by themselves, or slurmd kills them."""
        known = {(job.name, job.index) for job in self.now.jobs if job.state == "RUNNING"}
        for job in [each for each in self.alive if (each.name, each.index) not in known]:
            if killed:
                self.alive.remove(job)
            else:
                self._write_end(job, 0)

    def _run_file(self, job: PretendJob) -> Path:
        return job.base / "runs" / f"{job.tag}{'' if job.index is None else f'_{job.index}'}.0"

    def _write_end(self, job: PretendJob, status: int) -> None:
        self._run_file(job).write_text(f"{status}\n")
        self.alive = [each for each in self.alive if (each.name, each.index) != (job.name, job.index)]

    def _stop(self, job: PretendJob, state: str, status: int, *, here: bool = True) -> None:
        job.state, job.status, job.reason, job.ended = state, status, "None", self._clock["now"]
        if here:
            self.alive = [each for each in self.alive if (each.name, each.index) != (job.name, job.index)]
        if self._accounting:
            array = f"ArrayJobId={job.number} ArrayTaskId={job.index} " if job.index is not None else ""
            self._completions.append(
                f"JobId={job.number} UserId=root(0) GroupId=root(0) Name={job.name} JobState={state}"
                " Partition=batch TimeLimit=UNLIMITED StartTime=Unknown EndTime=Unknown NodeList=compute1"
                " NodeCnt=1 ProcCnt=1 WorkDir=/ ReservationName= Tres=cpu=1 Account= QOS= WcKey= Cluster=c"
                f" SubmitTime=Unknown EligibleTime=Unknown {array}DerivedExitCode=0:0 ExitCode={status}:0 \n"
            )

    def forget_ended(self) -> None:
        """MinJobAge has passed."""
        self.now.jobs = [job for job in self.now.jobs if job.state in ("PENDING", "RUNNING")]

    def of(self, token_or_number: str) -> list[PretendJob]:
        """Jobs by Slurm's number."""
        return [job for job in self.now.jobs if str(job.number) == token_or_number]
