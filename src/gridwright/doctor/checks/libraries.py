"""Checks of each library on each node: it answers, can be written to and locked, and has room."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gridwright.doctor.check import (
    Judgement,
    NodeJudgement,
    Topic,
    idle,
    judged,
    placed,
    unanswered,
    unless_away,
)
from gridwright.doctor.facts.node_facts import LibraryFacts, NodeFacts
from gridwright.doctor.observation import Observation
from gridwright.filesystems.health import UNREACHED_TEXTS
from gridwright.filesystems.library_directories import LIBRARY_MODES, making_command
from gridwright.filesystems.mount_entry import UNTRUSTED
from gridwright.filesystems.mounts import MEMORY_BACKED, is_served
from gridwright.units import format_bytes

_SHARED = frozenset(name for name, mode in LIBRARY_MODES.items() if mode & stat.S_IWOTH)
LIBRARIES = Topic("Libraries")
FULL = 0.9
"""Part of a file system in use from which most of them slow down and administrators act."""
RUN_NEEDS_BYTES = 3 * 2**20
"""For each core: the least of gridwright iotest, a block of 1 MiB for a stream and half a one for the mixed
phase, twice over."""
RESERVE_PART = 0.01
"""What gridwright iotest leaves free in every case."""
FILE_TIMES_S = 5.0
"""Servers give times to files; more than this is more than a slow answer."""


@LIBRARIES.library_check(
    "library-hangs",
    "error",
    "a library does not answer on a node",
    reason="Every job that touches it hangs, and cannot be killed.",
    source="Linux Documentation/filesystems/fuse.rst; nfs(5), hard",
    remedy="see whether its servers are up and the network reaches them; dmesg names them",
    reads=("libraries",),
)
def _hangs(_: str, library: LibraryFacts) -> Judgement:
    return judged(not library.hangs, "does not answer" if library.hangs else "answers", "an answer at once")


@LIBRARIES.check(
    "library-missing",
    "error",
    "a library is not there on a node",
    reason="Jobs that use the library fail.",
    source="gridwright help grid-spec, libraries",
    remedy="mount its file system, then as root: install -d -m 1777 DIRECTORY; for data with -m 0755",
    reads=("libraries", "mounts"),
)
def _missing(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        by_place: dict[tuple[str, str], list[str]] = {}
        for name, library in facts.libraries.items():
            if library.hangs:
                text = f"library {name} ({library.path}): it does not answer"
                yield NodeJudgement((node,), unanswered(text, "a directory"), name)
            elif library.missing is None:
                text = f"library {name} ({library.path}): it is there"
                yield NodeJudgement((node,), judged(True, text, "a directory"), name)
            elif unreached := _unreached(observation, node, name, library.missing):
                yield NodeJudgement((node,), replace(unreached, expected="a directory"), name)
            else:
                why = _unmounted(observation, facts, name) or library.missing
                by_place.setdefault((observation.filesystem_of(name), why), []).append(name)
        for (_, why), names in by_place.items():
            paths = [facts.libraries[name].path for name in names]
            yield NodeJudgement((node,), _none_there(names, paths, why), " ".join(names))


def _unreached(observation: Observation, node: str, library: str, error: str) -> Judgement | None:
    """That an error of a call follows from servers that are gone; None where it has another cause."""
    if error not in UNREACHED_TEXTS:
        return None
    found = f"library {library} ({observation.facts[node].libraries[library].path}): {error}"
    fault = judged(False, found, "", "see whether its servers are up and reached: mount, dmesg")
    return unless_away(fault, observation.away(node, observation.filesystem_of(library)))


def _unmounted(observation: Observation, facts: NodeFacts, library: str) -> str | None:
    """That the file system of a library is not mounted, where the directory is missing for that reason."""
    spec = observation.spec
    name = observation.filesystem_of(library)
    if spec is None or name not in spec.filesystems or facts.mounts is None:
        return None
    filesystem = spec.filesystems[name]
    if filesystem.is_node_local and filesystem.node_disks is None:
        return None
    points = (Path(mount.mount_point) for mount in facts.mounts)
    if any(Path(filesystem.path).is_relative_to(point) for point in points if str(point) != "/"):
        return None
    return f"its file system is not mounted: nothing is mounted at {filesystem.path}"


def _none_there(names: list[str], paths: list[str], why: str) -> Judgement:
    """Libraries of one file system that are missing for one reason, such as a mount that is not there."""
    make = making_command(dict(zip(names, paths, strict=True)))
    remedy = f"mount their file system, then as root: {make}"
    if len(names) == 1:
        remedy = f"mount its file system, then as root: {make}"
        return judged(False, f"library {names[0]} ({paths[0]}): {why}", "a directory", remedy)
    found = f"libraries {', '.join(names)} in {os.path.commonpath(paths)}: {why}"
    return judged(False, found, "directories", remedy)


@LIBRARIES.library_check(
    "library-read-only",
    "error",
    "a library is mounted read-only on a node",
    reason="Jobs that write to the library fail. ext4 and XFS stop writes by themselves after an error of "
    "the disk: data may be at risk.",
    source="mount(8), ro; ext4(5), errors=remount-ro",
    remedy="see why with dmesg; where the disk is sound: mount -o remount,rw MOUNTPOINT",
    reads=("libraries",),
)
def _read_only(_: str, library: LibraryFacts) -> Judgement:
    if library.read_only is None:
        return unanswered("not known", "it can be written to")
    found = "it can be written to"
    if library.read_only:
        found = f"{library.mount_point} is mounted read-only"
    remedy = f"see why with dmesg; where the disk is sound: mount -o remount,rw {library.mount_point}"
    return judged(not library.read_only, found, "it can be written to", remedy)


@LIBRARIES.check(
    "library-suid",
    "warning",
    "set-user-ID programs on a library's file system count",
    reason="Whoever writes there by another way than a node's kernel, such as a bucket, a restored copy or "
    "another machine that mounts it, may leave a program that makes root of who runs it, or a device file.",
    source="mount(8), nosuid and nodev",
    remedy="gridwright setup writes nosuid and nodev to fstab; then: mount -o remount,nosuid,nodev "
    "MOUNTPOINT, or start the node again. Where programs there need it: suid: true for the file system",
    reads=("libraries",),
)
def _suid(observation: Observation) -> Iterator[NodeJudgement]:
    expected = " and ".join(UNTRUSTED)
    for node, facts in observation.facts.items():
        for name, library in facts.libraries.items():
            filesystem = observation.filesystem_of(name)
            spec = observation.spec
            if spec is not None and filesystem in spec.filesystems and spec.filesystems[filesystem].suid:
                continue
            text = f"library {name} ({library.path}): "
            if library.options is None or library.filesystem_type is None:
                yield NodeJudgement((node,), unanswered(f"{text}not known", expected), name)
            elif is_served(library.filesystem_type):
                lacking = [each for each in UNTRUSTED if each not in library.options.split(",")]
                found = f"{library.mount_point} is mounted without {' and '.join(lacking)}"
                yield NodeJudgement(
                    (node,), judged(not lacking, text + (found if lacking else expected), expected), name
                )


@LIBRARIES.check(
    "library-refuses",
    "error",
    "a library cannot be written to on a node",
    reason="Jobs that use the library fail.",
    source="open(2), ERRORS",
    remedy="see its permissions, its quotas, and whether it is full",
    reads=("libraries",),
)
def _refuses(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "a file can be made in it"
    for node, facts in observation.facts.items():
        for name, library in facts.libraries.items():
            unreached = _unreached(observation, node, name, library.refused or "")
            right = placed(name, library, _refused(name, library, expected))
            yield NodeJudgement((node,), replace(unreached, expected=expected) if unreached else right, name)


def _refused(name: str, library: LibraryFacts, expected: str) -> Judgement:
    if library.hangs or library.missing is not None or library.read_only:
        return unanswered("not tried: it is not there to be written to", expected)
    if library.reader and name not in _SHARED:
        # As set-up makes it.
        return idle(f"read-only for you ({library.reader}): who may write it makes data sets", expected)
    remedy = f"have its owner open it: chmod 1777 {library.path}" if library.reader else None
    return judged(library.refused is None, library.refused or expected, expected, remedy)


@LIBRARIES.library_check(
    "library-for-reading",
    "info",
    "a library is read-only for you",
    reason="Root, or who may write there, makes what lies in it, as set-up leaves data; jobs read it.",
    source="gridwright help security, directories",
    remedy="nothing is wrong; for iotest, prove and new data of workload be root, or who may write there",
)
def _for_reading(name: str, library: LibraryFacts) -> Judgement:
    expected = "who looks may write there"
    if library.hangs or library.missing is not None:
        return unanswered("it is not there", expected)
    is_closed = library.reader is not None and name not in _SHARED
    return judged(not is_closed, f"read-only for you ({library.reader})" if is_closed else expected, expected)


@LIBRARIES.library_check(
    "library-closed",
    "warning",
    "users cannot write a library that all are to write",
    reason="Jobs of users make directories of their own in work and util, and fail where root alone may.",
    source="gridwright help security, directories",
    remedy="chmod 1777 DIRECTORY, as set-up makes it",
    reads=("libraries",),
)
def _closed(name: str, library: LibraryFacts) -> Judgement:
    expected = "users can write it"
    if name not in _SHARED:
        return idle("it is root's", expected)
    if library.hangs or library.missing is not None:
        return unanswered("it is not there", expected)
    found = "only root can write it" if library.is_roots else expected
    return judged(not library.is_roots, found, expected, f"chmod 1777 {library.path}")


@LIBRARIES.library_check(
    "library-full",
    "warning",
    "the file system of a library is nearly full",
    reason="File systems slow down when they fill up, and jobs fail when they are full.",
    source="write(2), ENOSPC; Lustre Operations Manual, handling full OSTs",
    remedy="remove what is not needed, or add capacity",
    reads=("libraries",),
)
def _full(_: str, library: LibraryFacts) -> Judgement:
    total, free = library.total_bytes, library.available_bytes
    expected = f"{100 * FULL:.0f} % at most"
    if not total or free is None:
        return unanswered("its room is not known", expected)
    found = f"{100 * (1 - free / total):.0f} % in use, {format_bytes(free)} left"
    return judged(free >= (1 - FULL) * total, found, expected)


@LIBRARIES.library_check(
    "library-inodes",
    "warning",
    "the file system of a library has nearly no inodes left",
    reason="No file can be made when they are used up, whatever space is free.",
    source="ext4(5); mke2fs(8), -i",
    remedy="remove small files that are not needed",
    reads=("libraries",),
)
def _inodes(_: str, library: LibraryFacts) -> Judgement:
    expected = f"{100 * FULL:.0f} % at most"
    if library.total_bytes is None:
        return unanswered("not known", expected)
    if not library.inodes or library.inodes_free is None:
        return idle("it counts no inodes", expected)
    used = 1 - library.inodes_free / library.inodes
    return judged(used <= FULL, f"{100 * used:.0f} % of all inodes in use", expected)


@LIBRARIES.check(
    "library-short",
    "error",
    "a library has less free space than a run needs",
    reason="Jobs fail with ENOSPC, and so does the proof of the grid.",
    source="write(2), ENOSPC; gridwright help iotest, space",
    remedy="remove what is not needed, or add capacity",
    reads=("libraries", "processors"),
)
def _short(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        cores = facts.processors.cores if facts.processors else facts.cpus
        for name, library in facts.libraries.items():
            where = f"library {name} ({library.path})"
            if library.available_bytes is None or not library.total_bytes:
                yield NodeJudgement((node,), unanswered(f"{where}: its room is not known"), name)
                continue
            needs = int(RUN_NEEDS_BYTES * cores + RESERVE_PART * library.total_bytes)
            enough = library.available_bytes >= needs
            found = f"{where}: {format_bytes(library.available_bytes)} left"
            right = judged(enough, found, f"{format_bytes(needs)} for the least run")
            yield NodeJudgement((node,), right, name)


@LIBRARIES.check(
    "library-small",
    "error",
    "a file system is smaller than its libraries need",
    reason="The data of the spec do not fit; jobs fail when it is full.",
    source="gridwright help grid-spec, libraries.NAME.capacity",
    remedy="add capacity, or correct capacity: in the spec",
)
def _small(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        for name, library in facts.libraries.items():
            spec = observation.spec.libraries.get(name) if observation.spec else None  # type: ignore[call-overload]
            where = f"library {name} ({library.path})"
            if spec is None or spec.capacity is None:
                yield NodeJudgement((node,), idle(f"{where}: the spec names no capacity"), name)
                continue
            if not library.total_bytes:
                yield NodeJudgement((node,), unanswered(f"{where}: its room is not known"), name)
                continue
            found = f"{where}: its file system has {format_bytes(library.total_bytes)}"
            right = library.total_bytes >= spec.capacity
            yield NodeJudgement((node,), judged(right, found, f"{spec.capacity} at least"), name)


@LIBRARIES.check(
    "deletions-refused",
    "warning",
    "an export or an import of a repository refused a mass deletion",
    reason="Files and objects differ until somebody says whether that was meant: a library that was emptied "
    "by accident looks the same.",
    source="gridwright help repository, mass deletions",
    remedy="where it was meant: the same command with --delete-up-to N; else bring files back: "
    "gridwright repo import NAME PATH (gridwright repo ls NAME names them)",
)
def _refused_deletions(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "all that was deleted is known to be meant"
    if not observation.refused_deletions:
        yield NodeJudgement((), idle("no repository's state is on this machine", expected))
    for name, refusals in (observation.refused_deletions or {}).items():
        for verb, why in refusals:
            found = f"repository {name}: the {verb} refused: {why}"
            yield NodeJudgement((), judged(False, found, expected), name)
        if not refusals:
            yield NodeJudgement((), judged(True, f"repository {name}: {expected}", expected), name)


@LIBRARIES.library_check(
    "library-in-memory",
    "warning",
    "a library lies in memory on a node",
    reason="What jobs write there takes memory from them, is lost at a restart, and measures no disk.",
    source="tmpfs(5)",
    remedy="put it on a disk, or silence this with the reason",
)
def _in_memory(_: str, library: LibraryFacts) -> Judgement:
    if library.filesystem_type is None:
        return unanswered("not known", "a disk")
    in_memory = library.filesystem_type in MEMORY_BACKED
    return judged(not in_memory, f"on {library.filesystem_type}", "a disk")


def _lock_verdict(library: LibraryFacts, kind: str) -> Judgement:
    expected = f"{kind} locks keep others out"
    if library.locks is None:
        return unanswered("not tried: it cannot be written to", expected)
    wrong = library.locks.get(kind)
    return judged(wrong is None, wrong or expected, expected)


@LIBRARIES.library_check(
    "flock-missing",
    "error",
    "flock locks do not work on a library",
    reason="SAS and databases guard their files by locks: without them they refuse to open data, or two "
    "jobs write one table. Tested by locking: mount options show flock where it does not work.",
    source="002.rec.flock; 000.tun.flock; flock(2); mount.lustre(8), flock",
    remedy="mount it with locks: Lustre with -o flock, NFS 3 with its lock services (rpc.statd) running",
    reads=("libraries",),
)
def _flock(_: str, library: LibraryFacts) -> Judgement:
    return _lock_verdict(library, "flock")


@LIBRARIES.library_check(
    "fcntl-missing",
    "error",
    "fcntl locks do not work on a library",
    reason="Programs that lock parts of files fail with ENOLCK or ENOSYS, or do not see each other.",
    source="fcntl(2), Advisory record locking; mount.lustre(8), flock; nfs(5), lock",
    remedy="mount it with locks: Lustre with -o flock, NFS 3 with its lock services (rpc.statd) running",
    reads=("libraries",),
)
def _fcntl(_: str, library: LibraryFacts) -> Judgement:
    return _lock_verdict(library, "fcntl")


@LIBRARIES.library_check(
    "file-times-apart",
    "warning",
    "files of a library get other times than a node's clock has",
    reason="Servers stamp files by their own clocks: make, backups and caches take new files for old ones.",
    source="nfs(5), DATA AND METADATA COHERENCE; stat(2)",
    remedy="see whether a time service runs on the servers of the file system",
)
def _file_times(_: str, library: LibraryFacts) -> Judgement:
    off, expected = library.file_times_off_s, f"within {FILE_TIMES_S:.0f} s"
    if off is None:
        return unanswered("not tried: it cannot be written to", expected)
    found = f"{abs(off):.0f} s {'ahead' if off > 0 else 'behind'}" if abs(off) > FILE_TIMES_S else expected
    return judged(abs(off) <= FILE_TIMES_S, found, expected)
