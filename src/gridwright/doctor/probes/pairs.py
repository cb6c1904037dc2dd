"""Has pairs of nodes try the file systems that they share: every node takes part, in bounded time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gridwright.doctor.observation import Observation
from gridwright.doctor.probes.channel import NoAnswer, Refused
from gridwright.doctor.probes.findings import PairFindings, Tried
from gridwright.doctor.probes.parts import Attach, ProbeParts
from gridwright.doctor.probes.trials import trials

AT_ONCE = 24
"""Pairs at a time: two connections each, below the 64 of ClusterShell."""
BUDGET_S = 30.0
"""For all pairs; those that had no turn by then are told as not tried."""
LINKED = 64
"""Up to so many nodes each one is in two pairs, so that all see one file system if each pair does."""


@dataclass(frozen=True, slots=True)
class _Pair:
    filesystem: str
    directory: Path
    nodes: tuple[str, str]


@dataclass(slots=True)
class _Outcome:
    nodes: tuple[str, str]
    tried: list[Tried] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)
    untried: str | None = None


def probe_pairs(observation: Observation, attach: Attach) -> PairFindings | None:
    """Have pairs of nodes try each shared file system; None where no two nodes share one."""
    pairs = (
        [pair for name in observation.spec.filesystems for pair in _pairs_of(observation, name)]
        if observation.spec
        else []
    )
    if not pairs:
        return None
    deadline = time.monotonic() + BUDGET_S
    outcomes: list[_Outcome] = []
    with ProbeParts(attach, Counter(node for pair in pairs for node in pair.nodes)) as parts:
        for apart in _rounds(pairs):
            with ThreadPoolExecutor(min(AT_ONCE, len(apart))) as pool:
                outcomes += pool.map(lambda pair: _try(pair, parts, deadline), apart)
    clocks: dict[str, float] = {}
    for outcome in outcomes:
        clocks |= outcome.clocks
    return PairFindings(
        tuple(each for outcome in outcomes for each in outcome.tried),
        {outcome.nodes: outcome.untried for outcome in outcomes if outcome.untried is not None},
        clocks,
    )


def _pairs_of(observation: Observation, filesystem: str) -> list[_Pair]:
    """Neighbours by name, for a file system that is shared; one library stands for it."""
    spec = observation.spec
    if spec is None or spec.filesystems[filesystem].is_node_local:
        return []
    library = next((name for name, each in spec.libraries.items() if each.filesystem == filesystem), None)
    if library is None:
        return []
    nodes = [
        node
        for node, facts in observation.facts.items()
        if (found := facts.libraries.get(library)) is not None
        and not (found.hangs or found.missing or found.refused)
    ]
    return [_Pair(filesystem, spec.library_directory(library), pair) for pair in pairs(nodes)]


def pairs(nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbours, so that each node is in a pair; of few nodes all neighbours, as a chain."""
    chain = list(pairwise(nodes))
    # Pairs without a node in common first: they do not wait for each other's machines.
    apart, links = chain[::2], chain[1::2]
    return apart + (links if len(nodes) <= LINKED or not links else links[-1:] * (len(nodes) % 2))


def _rounds(pairs: Sequence[_Pair]) -> list[list[_Pair]]:
    """Pairs in rounds, in each of which no node is twice: a part is in one trial at a time."""
    rounds: list[tuple[set[str], list[_Pair]]] = []
    for pair in pairs:
        free = next((each for each in rounds if not each[0] & set(pair.nodes)), None)
        if free is None:
            rounds.append(free := (set(), []))
        free[0].update(pair.nodes)
        free[1].append(pair)
    return [found for _, found in rounds]


def _try(pair: _Pair, parts: ProbeParts, deadline: float) -> _Outcome:
    outcome = _Outcome(pair.nodes)
    if time.monotonic() > deadline:
        outcome.untried = f"no turn within {BUDGET_S:.0f} s"
        return outcome
    try:
        with parts.both(pair.nodes) as (one, two):
            for part in (one, two):
                part.compare_clocks()
                outcome.clocks[part.node] = part.clock_off_s or 0.0
            for tried in trials(pair.filesystem, pair.directory, one, two):
                outcome.tried.append(tried)
    except (NoAnswer, Refused) as error:
        outcome.untried = str(error)
    return outcome
