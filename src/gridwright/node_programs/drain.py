"""Empties nodes of Slurm before they are taken away, and has them used again, from the head node.

Slurm's lists of nodes (compute[1-3,7],login1) are read here, and what slurm.conf says of a node's hardware
is kept until the node is the machine that it says: slurmctld ends jobs on a node whose sockets or cores are
others in slurm.conf when it starts anew ("Aborting JobId due to change in socket/core configuration of
allocated nodes", 22.05.8), and drains a node that has less than is written. While nodes of another type
come in one after the other, each has the line of what it is at the moment.

This module imports the standard library, and `health` and `scratch` of `gridwright.node_programs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.node_programs.health.slurm import KnownNode, known_node
from gridwright.node_programs.scratch.commands import Ended, run

MOST = 100_000
"""Names of one list; a list that stands for more is no list of a grid."""
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def names_of(text: str) -> list[str]:
    """All names, in order. Raises ValueError for what is no such list."""
    names: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        part = _PART.match(text, at)
        end = part.end() if part else at
        if part is None or not part[0] or (end < len(text) and text[end] != ","):
            raise ValueError(f"{text[:80]!r} is no list of nodes")
        names.extend(_expanded(part[0]))
        at = end + 1
        if len(names) > MOST:
            raise ValueError(f"{text[:80]!r} names more than {MOST} nodes")
    return names


def _expanded(part: str) -> Iterator[str]:
    bracket = _BRACKET.search(part)
    if bracket is None:
        yield part
        return
    before, after = part[: bracket.start()], part[bracket.end() :]
    for each in bracket[1].split(","):
        first, _, last = each.partition("-")
        last = last or first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            raise ValueError(f"{part[:80]!r} is no list of nodes")
        if int(last) - int(first) > MOST:
            raise ValueError(f"{part[:80]!r} names more than {MOST} nodes")
        for number in range(int(first), int(last) + 1):
            for rest in _expanded(after):
                yield f"{before}{number:0{len(first)}d}{rest}"


MOST_NAMES = 50
"""In one line: slurm.conf is read with a buffer of 4096 characters for each."""
_LINE = re.compile(r"^NodeName=(\S+)(.*)$")


def hardware(text: str) -> dict[str, str]:
    """What stands behind each node's name in a slurm.conf. Raises ValueError for a list that is none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if (seen := _LINE.match(line)) is not None:
            found.update(dict.fromkeys(names_of(seen[1]), seen[2].strip()))
    return found


def retain_hardware(desired: str, there: str, held: Collection[str]) -> str:
    """The desired slurm.conf, in which nodes that are held keep the hardware of the existing one.

    Raises ValueError where one of them has a list of nodes that is none.
    """
    old, new = hardware(there), hardware(desired)
    kept = {name: old[name] for name in new if name in held and name in old and old[name] != new[name]}
    if not kept:
        return desired
    lines: list[str] = []
    for line in desired.splitlines():
        seen = _LINE.match(line)
        if seen is None:
            lines.append(line)
            continue
        alike: dict[str, list[str]] = {}
        for name in names_of(seen[1]):
            alike.setdefault(kept.get(name, seen[2].strip()), []).append(name)
        lines += _written(alike, seen[1])
    return "\n".join(lines) + "\n"


def _written(alike: Mapping[str, list[str]], all_names: str) -> list[str]:
    if len(alike) == 1:
        return [f"NodeName={all_names} {rest}" for rest in alike]
    return [
        f"NodeName={','.join(names[start : start + MOST_NAMES])} {rest}"
        for rest, names in alike.items()
        for start in range(0, len(names), MOST_NAMES)
    ]


OWN = "gridwright: is replaced"
"""How the reason begins of a node that is drained to be replaced."""
_LIMIT_S = 30.0
_NAME = re.compile(r"\bNodeName=(\S+)")
_AT_WORK = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_AWAY = frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "UNKNOWN"})
_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
Runner = Callable[[Sequence[str], float], Ended]
"""Runs a command in bounded time."""


@dataclass(frozen=True)
class RunningJob:
    """A job that nodes have at the moment."""

    id: str
    left_s: float | None
    """How long it may still run by its limit; None where it has none."""
    ends: bool = False
    """Whether Slurm is ending it already."""


@dataclass(frozen=True)
class QueueNode:
    """A node as Slurm has it."""

    name: str
    known: KnownNode
    jobs: tuple[RunningJob, ...] = ()

    @property
    def is_drained_by_us(self) -> bool:
        """Whether it takes no job since it is to be replaced."""
        return "DRAIN" in self.known.states and self.known.reason.startswith(OWN)

    @property
    def is_drained_by_others(self) -> bool:
        """Whether somebody holds jobs off for a reason of their own; Gridwright's health check is none."""
        return (
            "DRAIN" in self.known.states and not self.known.is_ours and not self.known.reason.startswith(OWN)
        )

    @property
    def is_away(self) -> bool:
        """Whether no job could run on it, whatever anybody drained it for."""
        return bool(self.known.states & _AWAY)

    @property
    def is_empty(self) -> bool:
        """Whether no job is on it."""
        return not self.jobs and not self.known.states & _AT_WORK

    @property
    def busy_s(self) -> float:
        """How long its jobs may still run."""
        if self.is_empty:
            return 0.0
        return max((float("inf") if job.left_s is None else job.left_s for job in self.jobs), default=1.0)

    @property
    def since(self) -> float | None:
        """When it was drained by us, by the clock of this machine, in seconds since 1970."""
        match = re.fullmatch(rf"{OWN}, drained at (\d{{1,12}})", self.known.reason)
        return float(match[1]) if match else None


@dataclass
class Queue:
    """Slurm, asked and told on this machine. What it does not answer is None or False; nothing is raised."""

    runner: Runner = run
    failures: list[str] = field(default_factory=list)
    """What went wrong, in words."""

    def nodes(self) -> dict[str, QueueNode] | None:
        """All nodes by name; None where Slurm does not answer as it should."""
        shown = self._query(["scontrol", "-o", "show", "nodes"])
        listed = self._query(["squeue", "--noheader", "--all", "--states=all", "--format=%i|%T|%N|%L"])
        if shown is None or listed is None:
            return None
        try:
            return read_nodes(shown, listed)
        except ValueError as error:
            self.failures.append(f"what Slurm says of its jobs cannot be read: {error}")
            return None

    def drain(self, names: Sequence[str], at: float) -> bool:
        """Let no more jobs begin on these nodes."""
        return self._update(names, "State=DRAIN", f"Reason={OWN}, drained at {at:.0f}")

    def resume(self, names: Sequence[str]) -> bool:
        """Have them used again."""
        return self._update(names, "State=RESUME")

    def end(self, job: str) -> bool:
        """Have a job start again elsewhere; one that must not be started twice ends for good."""
        if self.runner(["scontrol", "requeue", job], _LIMIT_S).well:
            return True
        return self._query(["scancel", job]) is not None

    def _update(self, names: Sequence[str], *words: str) -> bool:
        if not names:
            return True
        return self._query(["scontrol", "update", f"NodeName={','.join(names)}", *words]) is not None

    def _query(self, argv: Sequence[str]) -> str | None:
        ended = self.runner(argv, _LIMIT_S)
        if not ended.well:
            self.failures.append(str(ended))
        return ended.output if ended.well else None


_OVER = frozenset(
    {
        *("PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
        *("DEADLINE", "OUT_OF_MEMORY", "REVOKED", "SPECIAL_EXIT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"),
    }
)
"""States of jobs that have no node, or no more (squeue(1), job state codes); any other counts as running."""


_ENDS = "COMPLETING"


def read_nodes(shown: str, listed: str) -> dict[str, QueueNode]:
    """From what scontrol and squeue print. Raises ValueError where it is something else."""
    on: dict[str, list[RunningJob]] = {}
    for line in filter(None, map(str.strip, listed.splitlines())):
        fields = line.split("|")
        if len(fields) != 4:
            raise ValueError(f"a job in the line {line[:80]!r}")
        number, state, where, left = fields
        if state.upper() in _OVER or not where:
            continue
        for name in names_of(where):
            on.setdefault(name, []).append(RunningJob(number, left_s(left), state.upper() == _ENDS))
    found = {}
    for line in filter(None, map(str.strip, shown.splitlines())):
        named, known = _NAME.search(line), known_node(line)
        if named is None or known is None:
            raise ValueError(f"a node in the line {line[:80]!r}")
        found[named[1]] = QueueNode(named[1], known, tuple(on.get(named[1], ())))
    return found


def left_s(text: str) -> float | None:
    """`%L` of squeue: 1-02:03:04, 03:04; None for UNLIMITED and what is not known."""
    match = _LEFT.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def ended_jobs(nodes: Mapping[str, QueueNode], names: Iterable[str]) -> list[str]:
    """Jobs of these nodes to be ended, each once: one that ends already would be started again twice."""
    return list(dict.fromkeys(job.id for name in names for job in nodes[name].jobs if not job.ends))
