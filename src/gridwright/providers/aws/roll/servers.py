"""Decides what is due of servers of Lustre: one at a time, while all others serve. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gridwright.providers.aws.roll.observed import Due, SeenGrid, SeenGroup, Standing


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
