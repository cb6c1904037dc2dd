"""What Slurm knows of nodes and of jobs on them, and what it is told: drained, used again, jobs ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.node_programs.drain.host_lists import names_of
from gridwright.node_programs.health.deciding import KnownNode
from gridwright.node_programs.health.slurm import known_node
from gridwright.node_programs.scratch.commands import Ended, run

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
