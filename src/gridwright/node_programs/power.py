"""Keeps nodes that Slurm powers on and off as Slurm wants them, on the machine of the controller.

Slurm runs `ResumeProgram` and `SuspendProgram` as its own account, which may do nothing with machines: they
append a line to a log. What acts, as root, reads from Slurm which nodes are to be on (`PowerStates`), has
whoever supplies machines bring that about (`Supply`), and tells Slurm of the nodes that it cannot have
(`orders`). It is told states, not events: a call that was lost, repeated or cut off makes no difference,
and a machine that Slurm does not want is found and taken away in the next round (`reconcile`).

This module imports the standard library and `gridwright.node_programs.scratch`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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


DIRECTORY = Path("/usr/local/lib/gridwright")
RESUME = DIRECTORY / "power-resume"
"""ResumeProgram of slurm.conf."""
SUSPEND = DIRECTORY / "power-suspend"
"""SuspendProgram."""
RESUME_FAILED = DIRECTORY / "power-resume-failed"
"""ResumeFailProgram: nodes that did not come within ResumeTimeout."""
PROGRAMS = (RESUME, SUSPEND, RESUME_FAILED)
REQUEST_LOG = Path("/var/log/slurm/power.log")
"""They append a line to it; the reconciler runs at once when the file changes, and now and then anyway."""
_PROGRAM = f"""\
#!/bin/sh
# Resume, Suspend and ResumeFailProgram of slurm.conf, written by Gridwright. They run as the account of
# Slurm, without any right over machines: what acts reads the states of nodes from Slurm itself.
printf '%s %s %s\\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${{0##*/}}" "$1" >> {REQUEST_LOG}
exit 0
"""


def program() -> str:
    """The text of all three."""
    return _PROGRAM


LONGEST_REASON = 200


@dataclass(frozen=True)
class NodeOrder:
    """A state that Slurm is to give a node."""

    node: str
    state: str
    """A word of scontrol(1)."""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.node}: {self.state}" + (f": {self.reason}" if self.reason else "")


def orders(
    nodes: Mapping[str, PowerNode],
    always_on: Collection[str],
    failed: Mapping[str, str],
    now: float,
    again_s: float,
) -> Iterator[NodeOrder]:
    """What to tell Slurm, in order: `failed` has nodes that cannot be had now, and why.

    A node that was given up can be had again `again_s` seconds later; until then jobs start elsewhere.
    """
    for name, node in nodes.items():
        if name in failed and name not in always_on and node.is_desired:
            yield NodeOrder(name, "DOWN", reason_of(failed[name]))
            # Else Slurm would write its own "ResumeTimeout reached" over the reason, some minutes later.
            yield NodeOrder(name, "POWER_DOWN")
        elif node.is_given_up:
            waited = node.since is None or now - node.since >= again_s or now < node.since
            if not node.is_off:
                yield NodeOrder(name, "POWER_DOWN")
            elif waited and "POWERED_DOWN" in node.flags:
                yield NodeOrder(name, "RESUME")
        elif name in always_on and "POWERED_DOWN" in node.flags and "DRAIN" not in node.flags:
            yield NodeOrder(name, "POWER_UP")


def reason_of(why: str) -> str:
    """The reason of a node that cannot be had, in one line that Slurm and people can read."""
    text = "".join(each if each.isprintable() and each not in "\"'`\\[]" else " " for each in why)
    return (OWN + " ".join(text.split()))[:LONGEST_REASON]


class SupplyError(Exception):
    """The supply does not answer; nothing is known of its machines, and nothing is done for now."""


@dataclass(frozen=True)
class Settled:
    """What one round brought about."""

    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are wanted and cannot be had now, and why, in words for users who wait."""
    done: tuple[str, ...] = ()
    """What was done, in words for the log."""


class Supply(Protocol):
    """Has machines of nodes there, or not."""

    def settle(self, desired: frozenset[str]) -> Settled:
        """Go on until the machines of these nodes are there, or on their way, and no others.

        Called again and again, also after it was cut off anywhere: it looks at what there is, and never
        has two machines for one node. Raises SupplyError where nothing is known.
        """


LOOK_S = 1.0
"""How often the log of requests is looked at."""


@dataclass
class PowerReconciler:
    """Powers the nodes of a grid on and off until they are as its Slurm wants them."""

    slurm: PowerStates
    supply: Supply
    nodes: Sequence[str]
    """All nodes of groups that are powered."""
    always_on: frozenset[str]
    again_s: float
    """After how long a node that could not be had is tried again."""
    say: Callable[[str], None]
    now: Callable[[], float] = time.time

    def round(self) -> bool:
        """One round; False where Slurm or the supply did not answer, and nothing was told to the other."""
        nodes = self.slurm.read(self.nodes)
        if nodes is None:
            self.say("Slurm does not answer: nothing is changed")
            return False
        # A node that Slurm does not know has no jobs, and needs no machine.
        desired = frozenset(name for name, node in nodes.items() if node.is_desired) | self.always_on
        try:
            settled = self.supply.settle(desired)
        except SupplyError as error:
            self.say(f"{error}: nothing is changed")
            return False
        for done in settled.done:
            self.say(done)
        # What Slurm wants by now counts, and not what it wanted before the supply took its time.
        nodes = self.slurm.read(self.nodes) if settled.failed else nodes
        for order in orders(nodes or {}, self.always_on, settled.failed, self.now(), self.again_s):
            updated = self.slurm.update(order.node, order.state, order.reason)
            self.say(f"{order}" if updated else f"{order}: Slurm did not take it")
        return True


class RequestLog:
    """Watches the log of Slurm's resume and suspend programs for changes."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def has_changed(self) -> bool:
        """Whether something was written since the last call."""
        try:
            status = self._path().stat()
            seen = (status.st_mtime_ns, status.st_size)
        except OSError:
            return False
        changed = seen != self._seen
        self._seen = seen
        return changed


def reconcile(
    reconciler: PowerReconciler, requests: RequestLog, every_s: float, ended: Callable[[float], bool]
) -> None:
    """Run rounds until `ended`, which waits so many seconds, says so; one at once when Slurm asks."""
    due = 0.0
    while not ended(LOOK_S):
        if requests.has_changed() or time.monotonic() >= due:
            reconciler.round()
            due = time.monotonic() + every_s
