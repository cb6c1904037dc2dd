"""Checks of each library on each node: it lies where the spec says, answers, can be written to, has room."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gridwright.doctor.check import (
    Judgement,
    NodeJudgement,
    Observation,
    Topic,
    idle,
    judged,
    placed,
    unanswered,
    unless_away,
)
from gridwright.doctor.facts.node_facts import LibraryFacts, NodeFacts
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import UNREACHED_TEXTS
from gridwright.filesystems.kind import UNTRUSTED
from gridwright.filesystems.library_directories import LIBRARY_MODES, making_command
from gridwright.filesystems.mounts import MEMORY_BACKED, SERVED_OVER_NETWORK, is_served
from gridwright.spec.filesystem import FileSystem
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


PLACEMENT = Topic("Places")


def _placed(observation: Observation) -> Iterator[tuple[str, str, LibraryFacts, FileSystem]]:
    """Node, name, facts, and the file system of the spec, of each library that can be looked at."""
    for node, facts in observation.facts.items():
        for name, library in facts.libraries.items():
            if observation.spec is not None and library.filesystem_type is not None:
                yield node, name, library, observation.spec.filesystem_of(name)  # type: ignore[arg-type]


def _is_served(library: LibraryFacts, filesystem: FileSystem) -> bool:
    kind = library.filesystem_type or ""
    # What the kernel calls a kind of a site's own package is in no list of ours.
    own = () if filesystem.is_node_local else kind_of(filesystem).kernel_types
    return is_served(kind) or kind in own


def _place(name: str, library: LibraryFacts) -> str:
    return f"library {name} is on {library.filesystem_type} ({library.source} at {library.mount_point})"


@PLACEMENT.check(
    "library-elsewhere",
    "error",
    "a node has a library on another file system than the spec says, or than the other nodes",
    reason="What a job writes there is not seen by other nodes, and fills a disk that is not meant for it.",
    source="proc(5), /proc/self/mountinfo; gridwright help grid-spec, filesystems",
    remedy="mount the file system that is meant, and move what was written meanwhile",
)
def _elsewhere(observation: Observation) -> Iterator[NodeJudgement]:
    usual = _usual_types(observation)
    for node, name, library, filesystem in _placed(observation):
        kind = library.filesystem_type or ""
        if filesystem.is_node_local:
            wrong = kind in SERVED_OVER_NETWORK
            yield NodeJudgement(
                (node,), judged(not wrong, _place(name, library), "a disk of the node itself")
            )
        else:
            meant = kind_of(filesystem).kernel_types
            right = kind in meant if meant else kind == usual[name]
            expected = f"{' or '.join(meant) or usual[name]}, as the spec says"
            yield NodeJudgement((node,), judged(right, _place(name, library), expected))


def _usual_types(observation: Observation) -> dict[str, str]:
    found: dict[str, Counter[str]] = {}
    for _, name, library, _ in _placed(observation):
        found.setdefault(name, Counter())[library.filesystem_type or ""] += 1
    return {name: counter.most_common(1)[0][0] for name, counter in found.items()}


@PLACEMENT.check(
    "library-other-server",
    "error",
    "a node has a library from another server than the other nodes",
    reason="What a job writes there is not seen by the other nodes.",
    source="proc(5), /proc/self/mountinfo",
    remedy="compare the lines of /etc/fstab, correct the one that differs, and mount again",
)
def _other_server(observation: Observation) -> Iterator[NodeJudgement]:
    sources: dict[str, dict[str, str]] = {}
    for node, name, library, filesystem in _placed(observation):
        if not filesystem.is_node_local and _is_served(library, filesystem):
            sources.setdefault(name, {})[node] = library.source or ""
    for name, found in sources.items():
        usual = Counter(found.values()).most_common(1)[0][0]
        for node, source in found.items():
            text = f"library {name} is mounted from {source}"
            yield NodeJudgement((node,), judged(source == usual, text, f"{usual}, as on most nodes"))


@PLACEMENT.check(
    "library-not-mounted",
    "error",
    "the file system of a library is not mounted on a node",
    reason="Jobs write into the directory below the missing mount: they fill the system's own disk, and what "
    "they wrote vanishes when the mount comes back.",
    source="mount(8); hier(7)",
    remedy="mount it (mount MOUNTPOINT; systemctl start gridwright-scratch for an array of local disks)",
)
def _not_mounted(observation: Observation) -> Iterator[NodeJudgement]:
    for node, name, library, filesystem in _placed(observation):
        own = not filesystem.is_node_local or filesystem.node_disks is not None
        expected = f"a mount at {filesystem.path}"
        if not own or (
            observation.spec is not None and observation.spec.is_cloud and not observation.several
        ):
            yield NodeJudgement(
                (node,), idle(f"library {name}: a directory of the node will do", expected), name
            )
            continue
        text = f"library {name} ({library.path}) is below the mount {library.mount_point}"
        yield NodeJudgement((node,), judged(library.mount_point != "/", text, expected), name)


@PLACEMENT.library_check(
    "library-on-root",
    "info",
    "a library lies on the root file system of a node",
    reason="It competes with the system for one disk; when jobs fill it, the node itself stops working.",
    source="hier(7); journald.conf(5), SystemKeepFree",
    remedy="give the library a disk of its own, or silence this with the reason",
)
def _on_root(_: str, library: LibraryFacts) -> Judgement:
    if library.mount_point is None:
        return unanswered("not known", "a disk of its own")
    found = f"mounted at {library.mount_point}"
    return judged(library.mount_point != "/", found, "a disk of its own")


@PLACEMENT.check(
    "libraries-together",
    "warning",
    "libraries that the spec has on different file systems share one",
    reason="Work on the shared file system by mistake takes bandwidth from data, and crosses the network.",
    source="002.rec.saswork; 002.rec.sasdata_high; gridwright help papers",
    remedy="mount the file system of each library, or correct the spec",
)
def _together(observation: Observation) -> Iterator[NodeJudgement]:
    expected = "each file system of the spec on its own device"
    places: dict[tuple[str, str | None, str | None], dict[str, str]] = {}
    for node, name, library, filesystem in _placed(observation):
        place = (node, library.mount_point, library.source)
        places.setdefault(place, {})[name] = _file_system_name(observation, filesystem)
    for (node, point, source), systems in places.items():
        text = ", ".join(f"{system} ({name})" for name, system in sorted(systems.items()))
        right = len(set(systems.values())) == 1
        yield NodeJudgement((node,), judged(right, f"{text} on {source} at {point}", expected))


def _file_system_name(observation: Observation, filesystem: FileSystem) -> str:
    named = observation.spec.filesystems if observation.spec else {}
    return next((name for name, each in named.items() if each is filesystem), filesystem.type)


@PLACEMENT.check(
    "work-over-network",
    "info",
    "work or util lie behind the network",
    reason="Every temporary table and every spill of a sort crosses the network, at 100 to 125 MB/s for each "
    "core; disks in the node do not share it with data.",
    source="002.rec.saswork; 002.rec.utilloc",
    remedy="put work and util on disks of the nodes, or prove that the shared file system delivers both",
)
def _over_network(observation: Observation) -> Iterator[NodeJudgement]:
    for node, name, library, filesystem in _placed(observation):
        if name in ("work", "util"):
            yield NodeJudgement(
                (node,),
                judged(not _is_served(library, filesystem), _place(name, library), "a disk of the node"),
            )


@PLACEMENT.check(
    "data-on-one-node",
    "warning",
    "data lie on disks of single nodes though the grid has several",
    reason="What a job writes on one node is not there for a job on the next one.",
    source="gridwright help grid-spec, libraries.data",
    remedy="put data on a file system that all nodes mount",
)
def _data_alone(observation: Observation) -> Iterator[NodeJudgement]:
    for node, name, library, filesystem in _placed(observation):
        if name != "data":
            continue
        if not observation.several:
            yield NodeJudgement((node,), idle(f"{_place(name, library)}; the grid has one node"))
            continue
        yield NodeJudgement(
            (node,),
            judged(_is_served(library, filesystem), _place(name, library), "one that all nodes mount"),
        )
