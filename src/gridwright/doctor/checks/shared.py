"""Checks of what several nodes share: trials between pairs of them, and what servers report."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gridwright.doctor.check import Judgement, NodeJudgement, Observation, Topic, Trial, judged, unanswered
from gridwright.doctor.facts.filesystems import CANNOT_LOOK

SHARED = Topic("Shared file systems")


def _tried(observation: Observation, trial: Trial, expected: str) -> Iterator[NodeJudgement]:
    """What pairs found in a trial; wrong ones name both nodes."""
    pairs = observation.pairs
    if pairs is None:
        yield NodeJudgement(
            tuple(observation.facts),
            unanswered("not tried: no file system is shared by several nodes", expected),
        )
        return
    for each in pairs.tried:
        if each.trial == trial:
            text = f"file system {each.filesystem}: {each.wrong or expected}"
            yield NodeJudgement(each.nodes, judged(each.wrong is None, text, expected), each.filesystem)
    for nodes, why in pairs.untried.items():
        yield NodeJudgement(nodes, unanswered(f"not tried to the end: {why}", expected))


@SHARED.check(
    "pair-untried",
    "warning",
    "two nodes could not try a file system together",
    reason="Whether they see the same data and keep out each other's locks is not known.",
    source="gridwright help doctor, Trials between nodes",
    remedy="see whether both nodes answer quickly, and run gridwright doctor again",
)
def _untried(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "all trials end"
    if observation.pairs is None:
        yield NodeJudgement(
            tuple(observation.facts),
            unanswered("not tried: no file system is shared by several nodes", expected),
        )
        return
    for nodes, why in observation.pairs.untried.items():
        yield NodeJudgement(nodes, judged(False, why, expected))
    ended = {each.nodes for each in observation.pairs.tried} - set(observation.pairs.untried)
    yield NodeJudgement(
        tuple(sorted({node for pair in ended for node in pair})), judged(True, expected, expected)
    )


SHARED.check(
    "not-seen-by-others",
    "error",
    "a node does not see what another made on a shared file system",
    reason="Each has a file system of its own in its place: jobs on one miss the data of the other.",
    source="gridwright help doctor, Trials between nodes",
    remedy="compare findmnt on both nodes, and mount the same file system",
)(partial(_tried, trial="seen", expected="a directory that one node makes is there on the other"))

SHARED.check(
    "read-after-write",
    "error",
    "a node reads old data after another wrote and closed a file",
    reason="A job that is started after another ended may read what was there before.",
    source="nfs(5), Close-to-open cache consistency; Lustre Operations Manual, Lustre features",
    remedy="mount without nocto and without long attribute caches (actimeo); see clocks and server health",
)(partial(_tried, trial="read", expected="what was written and closed is read elsewhere at once"))

SHARED.check(
    "rename-unseen",
    "error",
    "a node does not see a file that another put in the place of an old one",
    reason="Programs put new files in place by renaming: others would go on reading the old one.",
    source="rename(2); nfs(5), lookupcache",
    remedy="mount with lookupcache=none, or with a shorter acdirmax",
)(partial(_tried, trial="rename", expected="a renamed file is seen elsewhere at once"))

SHARED.check(
    "flock-alone",
    "error",
    "flock locks of one node do not keep out another",
    reason="Two nodes write one table at the same time and destroy it.",
    source="002.rec.flock; mount.lustre(8), localflock; nfs(5), local_lock",
    remedy="mount with cluster-wide locks: Lustre with -o flock (not localflock), NFS with local_lock=none",
)(partial(_tried, trial="flock", expected="a lock of one node keeps out the other"))

SHARED.check(
    "fcntl-alone",
    "error",
    "fcntl locks of one node do not keep out another",
    reason="Two nodes write one table at the same time and destroy it.",
    source="fcntl(2); mount.lustre(8), localflock; nfs(5), local_lock",
    remedy="mount with cluster-wide locks: Lustre with -o flock (not localflock), NFS with local_lock=none",
)(partial(_tried, trial="fcntl", expected="a lock of one node keeps out the other"))

SHARED.check(
    "append-torn",
    "warning",
    "records that two nodes append to one file are lost or torn",
    reason="Logs that several nodes append to lose lines. NFS cannot append atomically; Lustre and local "
    "file systems can.",
    source="open(2), O_APPEND: NFS",
    remedy="give each node a log of its own where the file system is NFS; else see the health of the servers",
)(partial(_tried, trial="append", expected="all records are there and whole"))


@SHARED.check(
    "filesystem-silent",
    "error",
    "the servers of a file system do not answer",
    reason="What every node reads and writes depends on it.",
    source="gridwright help filesystems",
    remedy="see whether its servers run",
    reads=("health", "libraries"),
)
def _servers(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "all of it serves"
    yield from _clients(observation, expected)
    for name, said in observation.filesystems.items():
        if isinstance(said, str):
            yield NodeJudgement((), judged(False, f"file system {name}: {said}", expected), name)
        else:
            words = (
                f"its servers found {len(said)} things wrong"
                if said
                else "its servers answer, and find nothing"
            )
            yield NodeJudgement((), Judgement(True, f"file system {name}: {words}", expected), name)


def _clients(observation: Observation, expected: str) -> Iterator[NodeJudgement]:
    """What nodes, as clients, could tell of file systems that they were asked about."""
    for node, facts in observation.facts.items():
        for name in facts.health:
            words = (
                f"{len(facts.health[name])} things are wrong with it"
                if facts.health[name]
                else "nothing wrong"
            )
            yield NodeJudgement((node,), Judgement(True, f"file system {name}: {words}", expected), name)
        for section, why in facts.unknown.items():
            name = section.removeprefix("health:")
            if name == section:
                continue
            text = f"file system {name}: {why}"
            looked_at = _can_be_looked_at(observation, node, name) and not why.startswith(CANNOT_LOOK)
            verdict = judged(False, text, expected) if looked_at else unanswered(text, expected)
            yield NodeJudgement((node,), verdict, name)


def _can_be_looked_at(observation: Observation, node: str, filesystem: str) -> bool:
    """Whether a library of a shared file system answers: where none does, a check of its own says so."""
    spec = observation.spec
    if spec is None:
        there = [each for each in observation.facts[node].mounts or () if each.mount_point == filesystem]
        return any(not each.hangs and not each.broken for each in there)
    if filesystem not in spec.filesystems or spec.filesystems[filesystem].is_node_local:
        return False
    libraries = observation.facts[node].libraries
    names = [
        name
        for name, library in spec.libraries.items()
        if library.filesystem == filesystem and name in libraries
    ]
    return any(not libraries[name].hangs and libraries[name].missing is None for name in names)
