"""One round of looking: what it is asked and tells, and the process of its own that does it in bounded time.

A round that hangs is ended, and is a finding.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import Literal

from gridwright.commands import (
    CommandError,
    CommandPlace,
    CommandSilent,
    CommandStopped,
    kill_group,
    run_bounded,
)
from gridwright.errors import Level
from gridwright.messages import MessageError, Messages, encode
from gridwright.schedulers.process_tree import die_with_parent

NODE_SILENT, NODE_DOWN = "node-silent", "node-down"
"""Checks of a node as a whole: what else is wrong there is not told while it is silent, or set aside."""
Pace = Literal["each", "all"]
"""Whether a check is done in each round, or only in those that do all checks."""


@dataclass(frozen=True, slots=True, order=True)
class FindingKey:
    """What makes a finding the same one from round to round."""

    name: str
    nodes: tuple[str, ...] = ()
    """One, or those that it is of together, such as a pair; none for what is of no node."""
    target: str = ""
    """What there it is of, such as a library, a mount or a file system."""


@dataclass(frozen=True, slots=True)
class SeenFinding:
    """Something that is wrong now."""

    key: FindingKey
    level: Level
    pace: Pace
    found: str
    expected: str = ""
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class RoundRequest:
    """Look at the grid of a spec, or at this machine alone."""

    spec: str | None
    everything: bool
    """Whether all checks are done, or only cheap ones."""
    known: list[FindingKey]
    """Findings whose state is wanted: whether they were looked at and are not there any more."""
    level: Level = "warning"
    """The least level that is told."""
    on_head: bool = False
    """Whether this machine is the head node of the grid, so that no provider is asked for it."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What a round saw."""

    found: list[SeenFinding]
    clear: list[FindingKey]
    """Of the known ones: looked at, and not there."""
    gone: list[FindingKey] = field(default_factory=list)
    """Of the known ones: of nodes that the grid does not have any more."""
    set_aside: list[str] = field(default_factory=list)
    """Nodes that the scheduler gives no jobs: somebody knows already that they are away."""
    nodes: int = 0
    """How many were looked at."""
    silent: int = 0
    """How many did not answer."""
    everything: bool = False


@dataclass(frozen=True, slots=True)
class RoundRefused:
    """The round could not be done."""

    problem: str
    remedy: str = ""


ROUND_S, ALL_S = 130.0, 900.0
"""How long a round of cheap checks, and of all, may take. A doctor that waits for everything it asks (facts
31 s, scheduler 30 s, servers 60 s) ends before the first; trials and searches before the second."""
LATE, FAILED = "watch-round-late", "watch-round-failed"
_GRACE_S = 0.4
"""For a round to take its connections down."""
_SHOWN = 300
ANSWERS: Messages[RoundReport | RoundRefused] = Messages(
    "say", {"report": RoundReport, "refused": RoundRefused}
)


@dataclass(frozen=True, slots=True)
class RoundLost:
    """A round that told nothing."""

    finding: str
    """LATE or FAILED."""
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RoundRunner:
    """Runs rounds, each as this command, which reads a RoundRequest and answers one of ANSWERS."""

    command: Sequence[str]
    round_s: float = ROUND_S
    all_s: float = ALL_S

    def run(self, request: RoundRequest, stop: Callable[[], bool]) -> RoundReport | RoundLost | None:
        """What a round told, or why it told nothing; None where it was told to stop."""
        doctor = "gridwright doctor" if request.spec is None else f"gridwright doctor {quote(request.spec)}"
        limit_s = self.all_s if request.everything else self.round_s
        prepare = partial(die_with_parent, os.getpid())
        place = CommandPlace(stop=stop, prepare=prepare, kill=_end)
        try:
            ended = run_bounded(
                self.command, stdin=encode(request), timeout_s=limit_s, name="a round of looking", at=place
            )
            answer = ANSWERS.decode(ended.stdout)
        except CommandStopped:
            return None
        except CommandSilent:
            what = f"a round had not ended after {limit_s:.0f} s, and was ended"
            return RoundLost(LATE, what, f"see what holds it up: {doctor} -v")
        except CommandError as error:
            return RoundLost(FAILED, error.problems[0].what, error.problems[0].remedy or "")
        except (MessageError, UnicodeDecodeError):
            lines = ended.stderr.decode(errors="replace").strip().splitlines()
            why = lines[-1][:_SHOWN] if lines else "no answer"
            what = f"a round ended with status {ended.status}: {why}"
            return RoundLost(FAILED, what, f"see whether it works: {doctor}")
        if isinstance(answer, RoundRefused):
            return RoundLost(FAILED, answer.problem, answer.remedy)
        return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a round end its connections to nodes; one that does not is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    kill_group(process)
