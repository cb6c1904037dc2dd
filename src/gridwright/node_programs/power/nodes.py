"""The nodes as Slurm has them: which of them it wants on, and which it has given up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gridwright.node_programs.scratch.commands import Ended

LIMIT_S = 30.0
"""Of one question to slurmctld: thrice MessageTimeout of our slurm.conf."""
OWN = "gridwright: power: "
"""How reasons begin that are set here."""
SLURM = "slurm"
"""The account in the name of which slurmctld sets reasons by itself."""
Runner = Callable[[Sequence[str], float], Ended]
"""Runs a command where Slurm's commands are, in bounded time."""
_NAME = re.compile(r"\bNodeName=(\S+)")
_STATE = re.compile(r"\sState=(\S+)")
_REASON = re.compile(r"\bReason=(.*?)(?: \[([^\[\]@]*)@([^\[\]]*)\]|$)")
_OFF = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
_SIGNS = "*~#!%$@^-"
"""Behind a state, with a meaning of their own (sinfo(1))."""


@dataclass(frozen=True)
class PowerNode:
    """A node."""

    name: str
    flags: frozenset[str]
    """Its state and what else Slurm says of it: IDLE, CLOUD, POWERED_DOWN."""
    reason: str = ""
    by: str = ""
    """Who set the reason."""
    since: float | None = None
    """When it was set; seconds since 1970."""

    @property
    def is_off(self) -> bool:
        """Whether Slurm has it as off, or on its way."""
        return bool(self.flags & _OFF)

    @property
    def is_given_up(self) -> bool:
        """Whether it is down because it could not be had: by our word, or by Slurm's own after ResumeTimeout.

        A node that an administrator set down is not.
        """
        return "DOWN" in self.flags and (self.reason.startswith(OWN) or (self.is_off and self.by == SLURM))

    @property
    def is_desired(self) -> bool:
        """Whether its machine is to be there."""
        return not self.is_off and not self.is_given_up


class PowerStates:
    """Asks Slurm for nodes, and tells it their states."""

    def __init__(self, runner: Runner) -> None:
        self._run = runner

    def read(self, names: Sequence[str]) -> Mapping[str, PowerNode] | None:
        """Those of these nodes that Slurm knows; None where it does not answer."""
        shown = self._run(["scontrol", "-o", "-a", "show", "nodes"], LIMIT_S)
        if not shown.well:
            return None
        return {name: node for name, node in parse_nodes(shown.output).items() if name in set(names)}

    def update(self, name: str, state: str, reason: str = "") -> bool:
        """Set the state of a node; whether Slurm did so."""
        words = ["scontrol", "update", f"NodeName={name}", f"State={state}"]
        return self._run([*words, *([f"Reason={reason}"] if reason else [])], LIMIT_S).well


def parse_nodes(text: str) -> dict[str, PowerNode]:
    """What `scontrol -o show nodes` prints, by name."""
    found = {}
    for line in text.splitlines():
        name, state, reason = _NAME.search(line), _STATE.search(line), _REASON.search(line)
        if name is None or state is None:
            continue
        flags = frozenset(word.strip(_SIGNS) for word in state[1].split("+"))
        found[name[1]] = PowerNode(
            name[1],
            flags,
            reason[1].strip() if reason else "",
            (reason[2] or "") if reason else "",
            _seconds(reason[3]) if reason and reason[3] else None,
        )
    return found


def _seconds(text: str) -> float | None:
    """A time as Slurm prints it, in the machine's own zone."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
