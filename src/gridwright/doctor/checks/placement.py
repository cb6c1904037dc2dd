"""Checks that libraries lie on the file system, device and side of the network that the spec means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gridwright.doctor.check import Judgement, NodeJudgement, Topic, idle, judged, unanswered
from gridwright.doctor.facts.node_facts import LibraryFacts
from gridwright.doctor.observation import Observation
from gridwright.filesystems import kind_of
from gridwright.filesystems.mounts import SERVED_OVER_NETWORK, is_served
from gridwright.spec.filesystem import FileSystem

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
