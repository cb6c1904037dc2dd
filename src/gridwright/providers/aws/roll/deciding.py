"""Decides what is due of groups of nodes. Nothing here changes anything.

The first node of a group is replaced alone; when it works, more follow. At no moment are more of them away
than a twentieth of the group, nor do more than half of it take no jobs. One that cannot be set up stops all:
what was drained for later is used again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.node_programs.drain.queue import QueueNode
from gridwright.providers.aws.roll.observed import Due, GroupInstance, SeenGrid, SeenGroup, Standing
from gridwright.providers.aws.roll.servers import due_of_servers

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
