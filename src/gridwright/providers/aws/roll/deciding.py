"""Decides what is due of groups of nodes. Nothing here changes anything.

The first node of a group is replaced alone; when it works, more follow. At no moment are more of them away
than a twentieth of the group, nor do more than half of it take no jobs. One that cannot be set up stops all:
what was drained for later is used again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.node_programs.drain import QueueNode

# What is seen of a grid before it is decided what is due.

FAILED_TRIES = 3
"""After so many tries a machine counts as one that cannot be set up, though it goes on trying."""


@dataclass(frozen=True)
class GroupInstance:
    """An instance of a group."""

    id: str
    outdated: bool
    """Whether it was launched with another version of the launch template than the group has."""
    in_service: bool = True
    """Whether Auto Scaling counts it; what starts and what ends is not."""


@dataclass(frozen=True)
class SeenGroup:
    """An Auto Scaling group."""

    name: str
    servers: bool
    desired: int
    instances: tuple[GroupInstance, ...] = ()
    machines: tuple[str, ...] = ()
    """Names of the machines that they can be."""
    jobs: bool = True
    """Whether they are nodes of the scheduler."""

    @property
    def outdated(self) -> tuple[GroupInstance, ...]:
        """Those that are to be replaced."""
        return tuple(each for each in self.instances if each.outdated and each.in_service)

    @property
    def fresh(self) -> tuple[GroupInstance, ...]:
        """Those that are what the group launches now, also while they start."""
        return tuple(each for each in self.instances if not each.outdated)


@dataclass(frozen=True)
class SetUp:
    """What an instance told last of how it set itself up."""

    state: str
    """running, done or failed."""
    tries: int = 1
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it is not going to work by itself."""
        return self.state == "failed" and self.tries >= FAILED_TRIES


@dataclass(frozen=True)
class SeenGrid:
    """All that is seen at one moment."""

    groups: tuple[SeenGroup, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of the machine that an instance is, by the table of claims."""
    set_up: Mapping[str, SetUp] = field(default_factory=dict)
    """By instance."""
    has_queue: bool = False
    queue: Mapping[str, QueueNode] | None = None
    """Nodes as Slurm has them; None where it does not answer, or where the grid has none."""
    unserved: str = ""
    """Which targets of Lustre a client misses, in words; empty where it has all."""
    now: float = 0.0
    """By the clock of this machine, in seconds since 1970."""

    def name(self, instance: GroupInstance) -> str:
        """As people know it."""
        return self.names.get(instance.id) or instance.id

    def is_done(self, instance: GroupInstance) -> bool:
        """Whether it has told that it is set up."""
        told = self.set_up.get(instance.id)
        return told is not None and told.state == "done"

    def progress(self, instance: GroupInstance) -> str:
        """How it sets itself up, in words that follow its name."""
        told = self.set_up.get(instance.id)
        return "has told nothing yet" if told is None else f"sets itself up: {told.state}, try {told.tries}"

    def node(self, instance: GroupInstance) -> QueueNode | None:
        """The node that it is to Slurm."""
        name = self.names.get(instance.id)
        return self.queue.get(name) if self.queue is not None and name else None


@dataclass(frozen=True)
class Due:
    """What is due, in the order of the fields, and how far it all is."""

    resume: tuple[str, ...] = ()
    """Nodes that Slurm is to use again."""
    end_on: tuple[str, ...] = ()
    """Nodes whose jobs have had the time that the spec gives them."""
    drain: tuple[str, ...] = ()
    terminate: tuple[str, ...] = ()
    """Instances that their group replaces."""
    standing: tuple[Standing, ...] = ()

    @property
    def halted(self) -> bool:
        """Whether something has to be mended before it goes on."""
        return any(each.halted for each in self.standing)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be replaced, now or later."""
        return all(each.left == 0 for each in self.standing)


@dataclass(frozen=True)
class Standing:
    """How far a group is."""

    group: str
    total: int
    left: int
    """Machines that are still to be replaced, or that were and are not at work yet."""
    halted: str = ""
    """What has to be mended, in words."""
    waits: tuple[str, ...] = ()
    """What it waits for, in words."""
    kept: int = 0
    """Of those that are left, how many somebody drained for another reason: nobody waits for these."""


# Decides what is due of servers of Lustre: one at a time, while all others serve. It changes nothing.


def due_of_servers(seen: SeenGrid, groups: Sequence[SeenGroup]) -> Due:
    """The next server, in the order of the groups, where every server is set up and clients have all targets.

    A server tells that it is set up when its targets are mounted and their recovery is over.
    """
    outdated = [each for group in groups for each in group.outdated]
    failed = [text for group in groups for text in _failed(seen, group)]
    waits = [text for group in groups for text in _waits(seen, group)]
    if outdated and seen.unserved and not waits:
        waits.append(seen.unserved)
    halted = f"{'; '.join(failed[:3])}: no other server is replaced until it works" if failed else ""
    standing = tuple(
        Standing(each.name, each.desired, _left(seen, each), halted if outdated else "", tuple(waits))
        for each in groups
    )
    if not outdated or failed or waits:
        return Due(standing=standing)
    return Due(terminate=(outdated[0].id,), standing=standing)


def _failed(seen: SeenGrid, group: SeenGroup) -> Iterator[str]:
    for each in group.instances:
        told = seen.set_up.get(each.id)
        if told is not None and told.has_failed:
            yield f"{seen.name(each)}: {told.reason or 'is not set up'}"


def _waits(seen: SeenGrid, group: SeenGroup) -> Iterator[str]:
    there = [each for each in group.instances if each.in_service]
    if len(there) < group.desired:
        yield f"{group.desired - len(there)} servers of {group.name} are not there yet"
    yield from (f"{seen.name(each)} {seen.progress(each)}" for each in there if not seen.is_done(each))


def _left(seen: SeenGrid, group: SeenGroup) -> int:
    """Those that are to be replaced, and those that do not serve yet."""
    works = sum(each.in_service and seen.is_done(each) for each in group.fresh)
    return max(0, group.desired - works)


STEPS = 20
"""Nodes of a group are replaced in so many steps, after the first one alone."""
MOST_WAITS = 8
"""Lines of what is waited for; the rest is counted."""


def decide(seen: SeenGrid, drain_limit_s: float | None = None) -> Due:
    """What is due now. Servers come first: a node is set up with what they serve."""
    servers = [each for each in seen.groups if each.servers]
    nodes = [each for each in seen.groups if not each.servers]
    first = due_of_servers(seen, servers)
    parts = [first, *(_Nodes(seen, each, drain_limit_s).due(wait=not first.is_over) for each in nodes)]
    return Due(
        resume=tuple(name for each in parts for name in each.resume),
        end_on=tuple(name for each in parts for name in each.end_on),
        drain=tuple(name for each in parts for name in each.drain),
        terminate=tuple(name for each in parts for name in each.terminate),
        standing=tuple(one for each in parts for one in each.standing),
    )


@dataclass(frozen=True)
class _Nodes:
    """One group of nodes."""

    seen: SeenGrid
    group: SeenGroup
    drain_limit_s: float | None

    def due(self, *, wait: bool) -> Due:
        group, seen = self.group, self.seen
        back = tuple(
            seen.names[each.id]
            for each in group.fresh
            if each.in_service and seen.is_done(each) and (node := seen.node(each)) and node.is_drained_by_us
        )
        back += self._powered_down()
        if not group.outdated:
            return Due(resume=back, standing=(self._standing(self._failure if self._on_their_way() else ""),))
        if self._has_queue and seen.queue is None:
            text = "Slurm does not answer on the head node: no node is touched"
            return Due(standing=(self._standing(text),))
        if self._failure or wait:
            # What was drained for its turn works on until then.
            idle = tuple(seen.names[each.id] for each, node in self._draining() if not node.is_away)
            return Due(resume=(*back, *idle), standing=(self._standing(self._failure, wait=wait),))
        gone = self._gone()
        return Due(
            resume=back,
            end_on=tuple(self._over_limit()),
            drain=tuple(self._drained(len(gone))),
            terminate=tuple(each.id for each in gone),
            standing=(self._standing(),),
        )

    def _powered_down(self) -> tuple[str, ...]:
        """Nodes that Slurm switched off in their turn: what starts there next is launched as it should be."""
        old = {self.seen.names.get(each.id) for each in self.group.outdated}
        nodes = (self.seen.queue or {}).get
        found = (node for name in self.group.machines if name not in old and (node := nodes(name)))
        return tuple(e.name for e in found if e.is_drained_by_us and "POWERED_DOWN" in e.known.states)

    @property
    def _has_queue(self) -> bool:
        return self.seen.has_queue and self.group.jobs

    @property
    def works(self) -> list[GroupInstance]:
        """Fresh ones that take jobs."""
        return [each for each in self.group.fresh if self._works(each)]

    @property
    def away(self) -> int:
        """Places that are taken: of machines that are gone, start, or do not work yet."""
        return max(0, self.group.desired - len(self.works) - len(self.group.outdated))

    @property
    def at_once(self) -> int:
        """How many may be away: the first one alone."""
        return max(1, math.ceil(self.group.desired / STEPS)) if self.works else 1

    @property
    def idle_at_once(self) -> int:
        """How many may take no jobs, those that are away among them."""
        return max(self.at_once, math.ceil(self.group.desired / 2)) if self.works else 1

    def _works(self, instance: GroupInstance) -> bool:
        if not instance.in_service or not self.seen.is_done(instance):
            return False
        if not self._has_queue:
            return True
        node = self.seen.node(instance)
        return node is not None and not node.is_away and "DRAIN" not in node.known.states

    @property
    def _failure(self) -> str:
        """The machines that cannot be set up as they are launched now, in words."""
        told = ((each, self.seen.set_up.get(each.id)) for each in self.group.fresh)
        why = [
            f"{self.seen.name(e)}: {one.reason or 'is not set up'}"
            for e, one in told
            if one and one.has_failed
        ]
        return f"{'; '.join(why[:3])}: no other node is replaced until it works" if why else ""

    def _draining(self) -> list[tuple[GroupInstance, QueueNode]]:
        pairs = ((each, self.seen.node(each)) for each in self.group.outdated)
        return [(each, node) for each, node in pairs if node is not None and node.is_drained_by_us]

    def _gone(self) -> list[GroupInstance]:
        """Those that can go: no job is on them, and none begins there."""
        free = max(0, self.at_once - self.away)
        if not self._has_queue:
            return list(self.group.outdated)[:free]
        drained = [each for each, node in self._draining() if node.is_empty]
        unknown = [each for each in self.group.outdated if self.seen.node(each) is None]
        return [*unknown, *drained][:free]

    def _drained(self, leaving: int) -> Iterator[str]:
        """Those that are next: what does not work, then what is free soonest."""
        if not self._has_queue:
            return
        unknown = sum(self.seen.node(each) is None for each in self.group.outdated)
        free = self.idle_at_once - self.away - len(self._draining()) - min(unknown, leaving)
        nodes = (self.seen.node(each) for each in self.group.outdated)
        next_ones = [
            node for node in nodes if node and not node.is_drained_by_us and not node.is_drained_by_others
        ]
        next_ones.sort(key=lambda node: (not node.is_away, node.busy_s, node.name))
        yield from (node.name for node in next_ones[: max(0, free)])

    def _over_limit(self) -> Iterator[str]:
        if self.drain_limit_s is None:
            return
        for _, node in self._draining():
            if node.jobs and node.since is not None and self.seen.now - node.since >= self.drain_limit_s:
                yield node.name

    def _standing(self, halted: str = "", *, wait: bool = False) -> Standing:
        waits = list(self._waits())
        if wait and self.group.outdated:
            waits.insert(0, "servers of file systems are replaced first")
        if len(waits) > MOST_WAITS:
            waits = [*waits[:MOST_WAITS], f"and {len(waits) - MOST_WAITS} more"]
        left = len(self.group.outdated) + self._on_their_way()
        kept = len(self._held)
        return Standing(self.group.name, self.group.desired, left, halted, tuple(waits) if left else (), kept)

    def _on_their_way(self) -> int:
        """Machines that were drained for their turn, and are to be used again as another instance."""
        old = {self.seen.names.get(each.id) for each in self.group.outdated}
        nodes = (self.seen.queue or {}).get
        found = (node for name in self.group.machines if name not in old and (node := nodes(name)))
        return sum(node.is_drained_by_us for node in found)

    def _waits(self) -> Iterator[str]:
        seen = self.seen
        for each in self.group.fresh:
            node = seen.node(each)
            if not seen.is_done(each):
                yield f"{seen.name(each)} {seen.progress(each)}"
            elif not self._works(each) and node is not None and not node.is_drained_by_us:
                state = "+".join(sorted(node.known.states))
                why = f" ({node.known.reason})" if node.known.reason else ""
                yield f"{seen.name(each)} is set up, and Slurm does not use it: {state}{why}"
        for _, node in self._draining():
            if not node.is_empty:
                hours = f"for {node.busy_s / 3600:.1f} h at most"
                left = "with no limit of time" if math.isinf(node.busy_s) else hours
                yield f"{node.name} has {len(node.jobs)} jobs, {left}"
        for node in self._held:
            why = node.known.reason or "no reason given"
            yield f"{node.name} stays as it is: somebody drained it ({why})"

    @property
    def _held(self) -> list[QueueNode]:
        """Those that somebody else drained: they are replaced when they are used again."""
        nodes = (self.seen.node(each) for each in self.group.outdated)
        return [node for node in nodes if node is not None and node.is_drained_by_others]
