"""Runs Slurm's command-line tools on the head node, with time-outs, retries and a clean environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import ExitStatus, GridwrightError, environment_error, input_error
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.slurm.translations import Refusal, refusal

ANSWER_S = 20.0
"""The longest that one tool may take; the tools themselves give up after MessageTimeout, 10 s by default."""
PATIENCE_S = 25.0
"""How long it is tried again while slurmctld does not answer: a restart of it takes some seconds."""

RESPECTED = frozenset(
    {
        "SBATCH_ACCOUNT",
        "SBATCH_CONSTRAINT",
        "SBATCH_PARTITION",
        "SBATCH_QOS",
        "SBATCH_RESERVATION",
        "SBATCH_TIMELIMIT",
        "SBATCH_WCKEY",
        "SLURM_CONF",
    }
)
"""Variables of the caller's that hold for sbatch: who pays, where, how long. An option given explicitly wins,
as sbatch(1) says. Others of Slurm's would change what jobs are (SBATCH_ARRAY_INX, SBATCH_EXPORT, or
SLURM_MEM_PER_CPU of a job that submits) or what the tools print (SQUEUE_FORMAT), and are not handed on."""

_SLURMS = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_")


class ToolRefused(Exception):
    """A tool of Slurm failed, or did not end in time."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Tools:
    """The tools of one Slurm."""

    def __init__(self, head: HeadNode, environment: Mapping[str, str] | None = None) -> None:
        self.head = head
        self._environment = _environment(os.environ if environment is None else environment)

    def once(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = ANSWER_S
    ) -> CommandOutput:
        """Run a tool once. Raises ToolRefused where it failed; kind `unclear`: it did not end in time.

        Raises GridwrightError (ENVIRONMENT) where it cannot be started.
        """
        try:
            answer = self.head.run(command, stdin=stdin, environment=self._environment, timeout_s=timeout_s)
        except CommandNotStarted as error:
            remedy = "install Slurm's client tools on the head node (Debian: slurm-client)"
            raise environment_error(error.problems[0].what, where=self.head.name, remedy=remedy) from error
        except HeadNodeUnreachable:
            raise
        except GridwrightError as error:
            late = "it has not answered in time"
            raise ToolRefused(Refusal("unclear", "slurmctld has not answered in time", "", late)) from error
        if answer.status != 0:
            raise ToolRefused(refusal(answer.stderr.decode(errors="replace")))
        return answer

    def query(self, command: Sequence[str], *, timeout_s: float = ANSWER_S) -> bytes:
        """What a tool that only reads, or that may be repeated, prints; tried again while nobody answers.

        Raises GridwrightError: ENVIRONMENT after PATIENCE_S, INPUT where Slurm understood and refused.
        """
        for attempt in Retrying(
            retry=retry_if_exception_type(SlurmDown),
            stop=stop_after_delay(PATIENCE_S),
            wait=wait_exponential(multiplier=0.2, max=2.0),
            reraise=True,
        ):
            with attempt:
                try:
                    return self.once(command, timeout_s=timeout_s).stdout
                except ToolRefused as refused:
                    raise self.error(refused.refusal, command[0]) from None
        raise AssertionError("tenacity either returns or raises")

    def error(self, refusal: Refusal, tool: str) -> GridwrightError:
        """A refusal as the error that users see."""
        what = f"{refusal.what}: {tool} says {refusal.message}"
        if refusal.kind in ("away", "unclear"):
            return SlurmDown(environment_error(what, where=self.head.name, remedy=refusal.remedy or None))
        if refusal.kind == "broken":
            return environment_error(what, where=self.head.name, remedy=refusal.remedy or None)
        return input_error(what, remedy=refusal.remedy or None)


class SlurmDown(GridwrightError):
    """slurmctld does not answer now, and may later."""

    def __init__(self, error: GridwrightError) -> None:
        super().__init__(*error.problems, status=ExitStatus.ENVIRONMENT)


def _environment(caller: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in caller.items() if name in RESPECTED or not name.startswith(_SLURMS)
    }
    # Times as seconds since 1970, and array ranges of any length: squeue(1), ENVIRONMENT VARIABLES.
    return kept | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
