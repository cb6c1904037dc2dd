"""What Slurm has of this node, whether it is to be drained or used again, and telling Slurm so."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from gridwright.node_programs.scratch.commands import Ended, run

OWN = "gridwright: health check: "
"""How each reason begins that this program gives; a node with any other is left as it is."""
_SLURMS_OWN = ("", "none", "not responding", "node unexpectedly rebooted")
"""Reasons of slurmctld for a node that is down, and is used as soon as it answers (ReturnToService=2)."""
_SIGNS = "*~#!%$@^-+"
"""What stands behind a state: * does not respond, ~ is powered down, and so on (sinfo(1))."""
_LONGEST = 200


class Act(Enum):
    """What is asked of Slurm."""

    NOTHING = "nothing"
    DRAIN = "drain"
    RESUME = "resume"


@dataclass(frozen=True)
class KnownNode:
    """A node as Slurm has it: its states (`IDLE`, `DRAIN` ...) and the last reason that somebody gave."""

    states: frozenset[str]
    reason: str = ""

    @classmethod
    def of(cls, state: str, reason: str) -> KnownNode:
        """From the fields of `scontrol show node`, such as `IDLE*+DRAIN`."""
        return cls(frozenset(word.rstrip(_SIGNS) for word in state.split("+")), reason)

    @property
    def is_ours(self) -> bool:
        """Whether it is drained for what an earlier check said."""
        return "DRAIN" in self.states and self.reason.startswith(OWN)


def reason_of(wrong: Sequence[str]) -> str:
    """The reason for all that is wrong; the same findings give the same words."""
    text = OWN + "; ".join(wrong)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4].rstrip() + " ..."


def decide(wrong: Sequence[str], node: KnownNode, *, doubtful: bool) -> Act:
    """What to ask of Slurm.

    `wrong` is what holds jobs off, in words. `doubtful`: something was slow or failed for the first time, so
    that neither way is decided on. A node that an administrator drained, or set down, stays as it is.
    """
    if wrong:
        if node.is_ours:
            return Act.NOTHING if node.reason == reason_of(wrong) else Act.DRAIN
        if "DRAIN" in node.states or "FAIL" in node.states:
            return Act.NOTHING
        if "DOWN" in node.states and node.reason.lower() not in _SLURMS_OWN:
            return Act.NOTHING
        return Act.DRAIN
    return Act.RESUME if node.is_ours and not doubtful else Act.NOTHING


_LIMIT_S = 12.0
"""More than MessageTimeout of our slurm.conf, and thrice that with a look below 60 s."""
_REASON = re.compile(r"\bReason=(.*?)(?: \[[^\[\]@]*@[^\[\]]*\]|$)", re.MULTILINE)
_STATE = re.compile(r"\bState=(\S+)")
Runner = Callable[[Sequence[str], float], Ended]
"""Runs a command in bounded time."""


class SlurmNode:
    """The node that the program runs on, as Slurm knows it."""

    def __init__(self, name: str, runner: Runner = run) -> None:
        self.name = name
        self._run = runner

    def ask(self) -> KnownNode | None:
        """What Slurm says; None where it does not answer, or knows no such node."""
        shown = self._run(["scontrol", "-o", "show", "node", self.name], _LIMIT_S)
        return known_node(shown.output) if shown.well else None

    def carry_out(self, act: Act, reason: str) -> bool:
        """Drain it, or use it again; whether Slurm did so."""
        state = "DRAIN" if act is Act.DRAIN else "RESUME"
        words = ["scontrol", "update", f"NodeName={self.name}", f"State={state}"]
        return self._run([*words, f"Reason={reason}"] if act is Act.DRAIN else words, _LIMIT_S).well


def known_node(text: str) -> KnownNode | None:
    """Read what `scontrol -o show node` prints; None where that is something else."""
    state = _STATE.search(text)
    if state is None:
        return None
    reason = _REASON.search(text)
    return KnownNode.of(state[1], reason[1].strip() if reason else "")


def own_name() -> str:
    """The name that slurmd has the node by, else the first part of its host name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
