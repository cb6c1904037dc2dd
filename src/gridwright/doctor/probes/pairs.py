"""Has pairs of nodes try the file systems that they share: every node takes part, in bounded time.

The trials of two nodes on a file system that they share, one step after the other.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gridwright.doctor.messages import (
    Append,
    Begin,
    Count,
    GiveBack,
    Lock,
    Look,
    Put,
    Read,
    TakeLock,
    TryLock,
    Write,
)
from gridwright.doctor.observation import Observation
from gridwright.doctor.probes.channel import Channel, NoAnswer, Refused
from gridwright.doctor.probes.findings import PairFindings, Trial, Tried
from gridwright.doctor.probes.parts import Attach, ProbeParts

RECORDS = 200
"""That each node appends: enough for hundreds of writes to meet, and done in a fraction of a second."""
SETTLE_S = 1.5
"""How long is waited for what ought to have been seen at once, to tell late from never."""
_STEP_S = 0.1


def trials(filesystem: str, directory: Path, one: Channel, two: Channel) -> Iterator[Tried]:
    """Try a file system in a new directory of a library; `one` makes it and takes it away.

    Raises NoAnswer where a node does not answer any more, and Refused where one may not do its part.
    """
    nodes = (one.node, two.node)
    mark = secrets.token_hex(8)
    one.ask(Begin(str(directory), mark, owner=True))
    two.ask(Begin(str(directory), mark, owner=False))
    apart = _late(lambda: two.ask(Look()) is True)
    yield Tried(filesystem, nodes, "seen", f"{two.node} {apart} what {one.node} made" if apart else None)
    if apart and not two.ask(Look()):
        return
    steps: tuple[tuple[Trial, Callable[[Channel, Channel], str | None]], ...] = (
        ("read", _read),
        ("rename", _rename),
        ("flock", lambda one, two: _lock(one, two, "flock")),
        ("fcntl", lambda one, two: _lock(one, two, "fcntl")),
        ("append", _append),
    )
    for trial, step in steps:
        try:
            wrong = step(one, two)
        except Refused as refused:
            wrong = str(refused)
        yield Tried(filesystem, nodes, trial, wrong)


def _late(seen: Callable[[], bool]) -> str:
    """How late something was seen, in words; nothing where it was seen at once."""
    began = time.monotonic()
    if seen():
        return ""
    while time.monotonic() - began < SETTLE_S:
        time.sleep(_STEP_S)
        if seen():
            return f"saw only after {time.monotonic() - began:.1f} s"
    return f"has not seen for {SETTLE_S:.1f} s"


def _reads(node: Channel, name: str, text: str) -> Callable[[], bool]:
    def reads() -> bool:
        try:
            return bool(node.ask(Read(name)) == text)
        except Refused:
            return False

    return reads


def _read(one: Channel, two: Channel) -> str | None:
    """A new file, then the same file again: the second time the reader has the first in its cache."""
    for text in ("first", "other"):
        one.ask(Write("read", text))
        if late := _late(_reads(two, "read", text)):
            return f"{two.node} {late} what {one.node} had written and closed"
    return None


def _rename(one: Channel, two: Channel) -> str | None:
    """New files under an old name, each way."""
    one.ask(Put("renamed", "old"))
    two.ask(Read("renamed"))
    for maker, reader, text in ((one, two, "newer"), (two, one, "newest")):
        maker.ask(Put("renamed", text))
        if late := _late(_reads(reader, "renamed", text)):
            return f"{reader.node} {late} the file that {maker.node} put in the place of another"
    return None


def _lock(one: Channel, two: Channel, kind: Lock) -> str | None:
    """A lock of each keeps out the other, and is free for it afterwards."""
    for holder, other in ((one, two), (two, one)):
        holder.ask(TakeLock(kind, kind))
        if other.ask(TryLock(kind, kind)):
            holder.ask(GiveBack(kind))
            return f"{other.node} got the lock that {holder.node} held"
        holder.ask(GiveBack(kind))
        if late := _late(lambda: bool(other.ask(TryLock(kind, kind)))):  # noqa: B023
            return f"{other.node} {late} that {holder.node} gave the lock back"
    return None


def _append(one: Channel, two: Channel) -> str | None:
    """Both append to one file at the same time; it is there before: making it at once is another trial."""
    one.ask(Write("appended", ""))
    for who, node in (("one", one), ("two", two)):
        node.tell(Append("appended", who, RECORDS))
    for node in (one, two):
        node.order_result()
    found = one.ask(Count("appended"))
    if not isinstance(found, dict):
        raise Refused("the records cannot be counted")
    lost = 2 * RECORDS - sum(count for who, count in found.items() if who)
    torn = found.get("", 0)
    return f"of {2 * RECORDS} records {lost} are lost, and {torn} pieces are torn" if lost or torn else None


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
