"""Has a round done by a process of its own, in bounded time: one that hangs is ended, and is a finding."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote

from gridwright.commands import (
    CommandError,
    CommandPlace,
    CommandSilent,
    CommandStopped,
    kill_group,
    run_bounded,
)
from gridwright.messages import MessageError, Messages, encode
from gridwright.schedulers.process_tree import die_with_parent
from gridwright.watch.round_messages import RoundRefused, RoundReport, RoundRequest

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
