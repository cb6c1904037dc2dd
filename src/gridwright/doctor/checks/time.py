"""Checks of clocks: against the machine that asks, and whether a service keeps them right."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.doctor.check import Judgement, NodeJudgement, Topic, idle, judged, unanswered
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.doctor.observation import Observation

TIME = Topic("Time")
APART_S = 2.0
"""More than the answer of a node takes on its way; samples of nodes are compared by second."""
WRONG_S = 60.0
"""A fifth of the five minutes for which credentials are taken (slurm.conf(5), AuthInfo, ttl)."""


def _offset(observation: Observation, node: str) -> float | None:
    return observation.clock_offsets_s.get(node)


def _words(offset: float) -> str:
    return f"{abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}"


@TIME.check(
    "clock-apart",
    "warning",
    "the clock of a node is off by seconds",
    reason="Times of files and logs mislead, and figures of nodes cannot be laid side by side.",
    source="chrony.conf(5), makestep",
    remedy="see whether a time service runs (chronyc tracking, timedatectl)",
)
def _apart(observation: Observation) -> Iterator[NodeJudgement]:
    expected = f"within {APART_S:.0f} s"
    for node in observation.facts:
        offset = _offset(observation, node)
        if offset is None:
            yield NodeJudgement((node,), unanswered("there is no other clock to compare with", expected))
        elif abs(offset) > WRONG_S:
            yield NodeJudgement((node,), idle(f"{_words(offset)}: see clock-wrong", expected))
        else:
            right = abs(offset) <= APART_S
            yield NodeJudgement((node,), judged(right, expected if right else _words(offset), expected))


@TIME.check(
    "clock-wrong",
    "error",
    "the clock of a node is off by minutes",
    reason="Slurm's and MUNGE's credentials count as expired after five minutes: no job starts there. "
    "Certificates and file times are wrong, too.",
    source="munged(8); slurm.conf(5), AuthInfo (ttl)",
    remedy="set it and keep it: chronyc makestep, systemctl enable --now chronyd",
)
def _wrong(observation: Observation) -> Iterator[NodeJudgement]:
    expected = f"within {WRONG_S:.0f} s"
    for node in observation.facts:
        offset = _offset(observation, node)
        if offset is None:
            yield NodeJudgement((node,), unanswered("there is no other clock to compare with", expected))
        else:
            right = abs(offset) <= WRONG_S
            yield NodeJudgement((node,), judged(right, expected if right else _words(offset), expected))


@TIME.node_check(
    "clock-unsynchronised",
    "warning",
    "a time service runs on a node and has no time to keep to",
    section="clock",
    reason="It runs, so nobody looks, and the clock drifts by seconds a day all the same.",
    source="adjtimex(2), STA_UNSYNC; chronyc(1), tracking",
    remedy="see which servers it asks and whether they answer: chronyc sources, timedatectl timesync-status",
)
def _synchronised(facts: NodeFacts) -> Judgement:
    clock = facts.clock
    if clock is None or not clock.keepers:
        return idle("no time service runs: see service-time-sync", "synchronised")
    keepers = ", ".join(clock.keepers)
    found = f"{keepers}: {'synchronised' if clock.synchronised else 'not synchronised'}"
    return judged(clock.synchronised, found, "synchronised")
