"""Whether a node is to be drained, or used again: pure, from what is wrong and what Slurm has of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

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
