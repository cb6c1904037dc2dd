"""What is wrong with the nodes of a grid, out of the facts that they tell; pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright import __version__
from gridwright.errors import Level
from gridwright.nodes.facts import LibraryFacts, NodeFacts
from gridwright.spec.filesystems import LocalFileSystem
from gridwright.spec.model import GridSpec
from gridwright.units import format_bytes

FULL = 0.9
"""Part of a file system in use from which most of them slow down and administrators act."""
CLOCKS_APART_S = 2.0
"""More than the answer of a node takes on its way; samples of nodes are compared by second."""
SHORT_OF_MEMORY = 0.9
"""Kernel and firmware keep some of what a node is bought with."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """Something that is not as it should be, on one or several nodes."""

    level: Level
    name: str
    nodes: tuple[str, ...]
    found: str
    expected: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the nodes of a grid."""

    spec: GridSpec
    facts: Mapping[str, NodeFacts]
    silent: Mapping[str, str]
    """Nodes that did not answer, and what there was instead."""
    clock_offsets_s: Mapping[str, float]


Check = Callable[[Seen], Iterator[NodeFinding]]


def check_nodes(seen: Seen) -> list[NodeFinding]:
    """Everything that is wrong; equal findings of several nodes are one."""
    grouped: dict[NodeFinding, list[str]] = defaultdict(list)
    for check in _CHECKS:
        for each in check(seen):
            grouped[replace(each, nodes=())] += each.nodes
    return [replace(finding, nodes=tuple(nodes)) for finding, nodes in grouped.items()]


def _silent_nodes(seen: Seen) -> Iterator[NodeFinding]:
    for node, reason in seen.silent.items():
        yield NodeFinding(
            "error",
            "node-silent",
            (node,),
            reason,
            "an answer",
            "nothing can be started there",
            f"see whether it is up and takes ssh without a password: ssh {node} true",
        )


def _libraries(seen: Seen) -> Iterator[NodeFinding]:
    for node, facts in seen.facts.items():
        for name, library in facts.libraries.items():
            yield from _library(node, name, library)


def _library(node: str, name: str, library: LibraryFacts) -> Iterator[NodeFinding]:
    where = f"library {name} ({library.path})"
    if library.hangs:
        yield NodeFinding(
            "error",
            "library-hangs",
            (node,),
            f"{where} does not answer",
            "an answer at once",
            "every job that touches it hangs, and cannot be killed",
            "see whether its servers are up and the network reaches them; dmesg names them",
        )
    elif library.missing is not None:
        yield NodeFinding(
            "error",
            "library-missing",
            (node,),
            f"{where}: {library.missing}",
            "a directory",
            "jobs that use the library fail",
            f"mount its file system, then: mkdir -p {library.path}",
        )
    elif library.refused is not None:
        yield NodeFinding(
            "error",
            "library-refuses",
            (node,),
            f"{where}: {library.refused}",
            "a file can be made in it",
            "jobs that use the library fail",
            "see its permissions, its mount options and its quotas",
        )
    yield from _room(node, where, library)


def _room(node: str, where: str, library: LibraryFacts) -> Iterator[NodeFinding]:
    total, free = library.total_bytes, library.available_bytes
    if total and free is not None and free < (1 - FULL) * total:
        yield NodeFinding(
            "warning",
            "library-full",
            (node,),
            f"{where}: {100 * (1 - free / total):.0f} % in use, {format_bytes(free)} left",
            f"{100 * FULL:.0f} % at most",
            "file systems slow down when they fill up, and jobs fail when they are full",
            "remove what is not needed, or add capacity",
        )
    if library.inodes and library.inodes_free is not None:
        used = 1 - library.inodes_free / library.inodes
        if used > FULL:
            yield NodeFinding(
                "warning",
                "library-inodes",
                (node,),
                f"{where}: {100 * used:.0f} % of all inodes in use",
                f"{100 * FULL:.0f} % at most",
                "no file can be made when they are used up, whatever space is free",
                "remove small files that are not needed",
            )


def _same_filesystem(seen: Seen) -> Iterator[NodeFinding]:
    """A library of a shared file system that one node has on another device than the rest."""
    for name, library in seen.spec.libraries.items():
        shared = not isinstance(seen.spec.filesystems[library.filesystem], LocalFileSystem)
        kinds = {
            node: facts.libraries[name].filesystem_type or ""
            for node, facts in seen.facts.items()
            if name in facts.libraries and facts.libraries[name].filesystem_type
        }
        if not shared or len(set(kinds.values())) < 2:
            continue
        usual = Counter(kinds.values()).most_common(1)[0][0]
        for node, kind in kinds.items():
            if kind != usual:
                yield NodeFinding(
                    "error",
                    "library-elsewhere",
                    (node,),
                    f"library {name} is on {kind}",
                    f"{usual}, as on the other nodes",
                    "what a job writes there is not seen by other nodes",
                    "mount the shared file system there, and move what was written meanwhile",
                )


def _resources(seen: Seen) -> Iterator[NodeFinding]:
    groups = {
        node: group
        for name, group in seen.spec.nodes.items()
        for node in seen.facts
        if node.rstrip("0123456789") == name
    }
    for node, group in groups.items():
        facts = seen.facts[node]
        if group.cores is not None and facts.cpus < group.cores and seen.spec.provider != "lab":
            yield NodeFinding(
                "error",
                "cores-missing",
                (node,),
                f"{facts.cpus} CPUs",
                f"{group.cores} cores",
                "jobs get fewer cores than they are promised",
                "correct cores: in the spec, or see whether cores are switched off",
            )
        if group.memory is not None and facts.memory_bytes < SHORT_OF_MEMORY * group.memory:
            yield NodeFinding(
                "error",
                "memory-missing",
                (node,),
                format_bytes(facts.memory_bytes),
                str(group.memory),
                "jobs that use the memory they are promised are killed",
                "correct memory: in the spec, or see whether a module failed",
            )


def _versions(seen: Seen) -> Iterator[NodeFinding]:
    for node, facts in seen.facts.items():
        if facts.version != __version__:
            yield NodeFinding(
                "error",
                "version-differs",
                (node,),
                f"gridwright {facts.version}",
                f"gridwright {__version__}",
                "nodes of different releases may not understand each other",
                "install the same release everywhere",
            )


def _clocks(seen: Seen) -> Iterator[NodeFinding]:
    for node, offset in seen.clock_offsets_s.items():
        if abs(offset) > CLOCKS_APART_S:
            yield NodeFinding(
                "warning",
                "clock-apart",
                (node,),
                f"{abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}",
                f"within {CLOCKS_APART_S:.0f} s",
                "times of files and logs mislead, and Slurm's credentials expire early",
                "see whether a time service runs (chronyc tracking, timedatectl)",
            )


_CHECKS: Sequence[Check] = (_silent_nodes, _libraries, _same_filesystem, _resources, _versions, _clocks)
