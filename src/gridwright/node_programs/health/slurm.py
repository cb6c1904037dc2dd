"""Asks Slurm what it has of this node, and tells it to drain the node or to use it again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from gridwright.node_programs.health.deciding import Act, KnownNode
from gridwright.node_programs.scratch.commands import Ended, run

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
