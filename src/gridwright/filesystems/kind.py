"""The contract of a kind of file system: what every kind answers, and what only some can.

A kind derives from `FileSystemKind` and from the capabilities that it has. Behind them are the plain values
that contract and callers hand each other: mounts, ports, arrays, machines with shared disks, tuning rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.services.ports import Ports

if TYPE_CHECKING:
    from gridwright.errors import Finding
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.layout import (
        DesiredLayout,
        FileLayout,
        FileMover,
        LayoutProblem,
        LibraryLayouts,
    )
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution, DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.site import Site
    from gridwright.services.playbook_role import PlaybookRole
    from gridwright.services.service import Service, ServiceNodes
    from gridwright.spec.filesystem import FileSystem
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec
    from gridwright.yamltext.fields import FieldError


# The bound is a name: nodes import this module, and have no model of a spec.
M = TypeVar("M", bound="FileSystem")


class FileSystemKind(ABC, Generic[M]):
    """A kind of file system. Defaults are those of one that exists already and that nothing is known of.

    A kind is listed in `builtin.py`, or is an entry point in the group `gridwright.filesystems` of a site's
    own package. It is imported when a spec names it, so what is slow to import is imported in its methods.
    Others ask `kind_of(filesystem)`, and the model (`spec/filesystem.py`) what the spec itself has to know.
    """

    spec_model: type[M]
    """The model of its section in the grid spec; its field `type` is the kind's name."""
    title: str
    """What people call it, in reports and messages."""
    kernel_types: Sequence[str] = ()
    """How /proc/mounts may show it; empty where that is not known, or may be any file system."""
    finding_names: Mapping[str, str] = MappingProxyType({})
    """Findings that a spec can silence, with their meaning; those of Gridwright's own kinds are in a file."""

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What is wrong between fields of its section, as plain data: a path below it, and the problem.

        Whatever has the wrong type is passed over; the model tells of it.
        """
        yield from ()

    def findings(self, name: str, filesystem: M, spec: GridSpec) -> Iterator[Finding]:
        """What will hurt about file system `name` of a valid spec, with any provider."""
        yield from ()

    @abstractmethod
    def contribute(self, name: str, filesystem: M, site: Site) -> Contribution:
        """What it brings into a prediction. Problems with the spec are noted at the site."""

    def describe(self, filesystem: M) -> str:
        """What it is, in a few words for a table of designs."""
        from gridwright.filesystems.servers import servers_words

        groups = filesystem.server_groups
        data = next(iter(groups.items()), None)
        return self.title if data is None else f"{self.title} {servers_words(*data)}"

    def mount_entry(self, filesystem: M, source: str | None = None) -> MountEntry | None:
        """What nodes mount; None where fstab has no part in it.

        `source` is what the provider knows of it where the spec names none: it may be a Jinja expression.
        """
        return None

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """Roles of the playbook that make nodes its clients; kinds may share one, by its name."""
        return ()

    def servers_elsewhere(self, filesystem: M) -> Iterator[ServerPorts]:
        """Ports of servers that exist already, outside the grid, which its nodes have to reach."""
        yield from ()

    def requests(self, filesystem: M) -> Mapping[type, object]:
        """What a provider has to make for it, by the sort of request (`provided.py`); nothing by default."""
        return {}

    def health(
        self, filesystem: M, run: Run, mount_point: str, *, nic_bytes_per_s: float | None = None
    ) -> Health | None:
        """How it is, as the node where `run` runs commands sees it at `mount_point`.

        None for a kind that cannot be asked. `nic_bytes_per_s` is the rate of the node's network card where
        it is known. Ends within some tens of seconds whatever hangs. Raises GridwrightError (status
        ENVIRONMENT) where the tools of the file system are not there, or the node itself does not answer.
        """
        return None


class CloudFindings(ABC, Generic[M]):
    """A kind that is worth a warning where a cloud makes nodes and file systems."""

    @abstractmethod
    def cloud_findings(self, name: str, filesystem: M, spec: GridSpec) -> Iterator[Finding]:
        """What will hurt about file system `name` there."""


class Degradation(ABC, Generic[M]):
    """A kind of which servers and targets can die one by one."""

    @abstractmethod
    def parts(self, filesystem: M, contribution: Contribution) -> Sequence[PartGroup]:
        """Its servers and targets; none where none is known."""

    @abstractmethod
    def without(self, filesystem: M, contribution: Contribution, dead: Sequence[DeadPart]) -> DegradedRates:
        """What is left of it while some of its `parts`, at least one, are dead."""


class Offers(ABC):
    """A kind that a planner may choose for data that all nodes share."""

    @abstractmethod
    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """What of it is on sale."""


class NodeDisks(ABC, Generic[M]):
    """A kind that lies on disks of each node."""

    @abstractmethod
    def on_node_disks(self, disks: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its section of a planned spec on such disks, without `path`."""

    @abstractmethod
    def scratch_array(self, filesystem: M) -> ScratchArray | None:
        """The array of disks of an instance store that each node makes for it; None where there is none."""


class ClientSettings(ABC, Generic[M]):
    """A kind whose clients have settings of their own."""

    @abstractmethod
    def tuning_table(self) -> str:
        """Rows of the tuning table that it has, as the text of a file like setup/tuning.yaml."""

    def tuning_kinds(self) -> Sequence[TuningKind]:
        """Kinds of rows that its table has beside those of setup/tuning.py; kinds may share one."""
        return ()

    def playbook_variables(self, filesystems: Sequence[M]) -> Mapping[str, object]:
        """Variables that its role of the playbook needs, of all file systems of the kind; plain data.

        Every registered kind is asked, with an empty sequence where the spec has none of it.
        """
        return {}


class Layouts(ABC, Generic[M]):
    """A kind whose users choose over which targets the bytes of files lie."""

    @abstractmethod
    def layout(self, filesystem: M | None, run: Run, path: str) -> FileLayout:
        """Over which targets the bytes of a file lie, or those of new files in a directory.

        `filesystem` is None where who asks has no spec at hand, such as a test of a directory. Raises
        GridwrightError (status ENVIRONMENT) where the path is not there, is on another file system, or
        nothing answers in time.
        """

    @abstractmethod
    def stated_layout(self, filesystem: M, library: Library) -> FileLayout | None:
        """The layout that the spec states for the files of a library; None where the model chooses."""

    @abstractmethod
    def default_layout(self, filesystem: M) -> FileLayout:
        """The layout for a library of whose targets or needs nothing is known."""

    @abstractmethod
    def layout_command(self, filesystem: M, layout: FileLayout, directory: str) -> list[str]:
        """The command that has new files in a directory laid out so.

        Raises GridwrightError (status INPUT) with all that is wrong with the layout.
        """

    @abstractmethod
    def layout_problems(self, layout: FileLayout) -> Sequence[LayoutProblem]:
        """What is wrong with a layout, whatever the directory; asked before anything is made."""

    @abstractmethod
    def set_layout(self, filesystem: M | None, run: Run, directory: str, layout: FileLayout) -> FileLayout:
        """Give a directory a layout, which files and directories made in it get; what it has then.

        `filesystem` is None where who asks has no spec at hand. Raises GridwrightError: status INPUT for a
        layout that cannot be, ENVIRONMENT where it was refused or nothing answers in time.
        """

    @abstractmethod
    def mover(self, filesystem: M, run: Run) -> FileMover:
        """What finds files by their layouts and lays them out anew."""

    @abstractmethod
    def target_space(self, filesystem: M, run: Run, mount_point: str) -> Sequence[TargetSpace]:
        """Free space of each target that files are spread over, now.

        Raises GridwrightError (status ENVIRONMENT) where nothing answers in time.
        """

    @abstractmethod
    def printed_target_space(self, text: str, where: str) -> Mapping[str, Sequence[TargetSpace]]:
        """The same by mount point, out of what its own command printed.

        Raises GridwrightError (status INPUT) where the text has nothing of it.
        """

    @abstractmethod
    def library_layouts(self, filesystem: M, run: Run, directory: str) -> LibraryLayouts | None:
        """How the files of a library lie on targets, by a scan of some seconds, on one node for all.

        None where nothing tells them. Raises GridwrightError (status ENVIRONMENT) where nothing answers.
        """

    @abstractmethod
    def library_findings(self, filesystem: M, run: Run, directory: str, wish: DesiredLayout) -> list[Finding]:
        """What is wrong with the files of a library; asked on one node for all, as it may search for seconds.

        `wish` has the library's name and the layout that its files are to have.
        Raises GridwrightError (status ENVIRONMENT) where the tools of the file system are not there, or
        nothing answers.
        """


class TargetReports(ABC):
    """A kind whose client knows its targets one by one."""

    @abstractmethod
    def no_space(self, run: Run, mount_point: str, path: str) -> str | None:
        """What of it is full where a write to its file `path` failed with ENOSPC, and the file's layout.

        None where nothing is known but that it is full. Ends within some seconds, and raises nothing.
        """

    @abstractmethod
    def unreached(self, run: Run, mount_point: str) -> str | None:
        """Which parts of it the client there is not connected to, or waits for; None where it tells of none.

        Ends within some seconds, and raises nothing.
        """


class Changelogs(ABC, Generic[M]):
    """A kind whose metadata servers keep changelogs."""

    @abstractmethod
    def changelog_source(self, filesystem: M) -> str | None:
        """The name of the file system whose metadata servers keep them; None where they cannot be set up."""

    @abstractmethod
    def changelog_findings(
        self, filesystem: M, run: Run, mount_point: str, users: Collection[str]
    ) -> list[Finding]:
        """What is wrong with changelogs, as far as the node where `run` runs commands serves metadata.

        `users` are the names that repositories of the grid are registered under. Raises GridwrightError
        (status ENVIRONMENT) where the tools of the file system are not there.
        """


class LazyLoad(ABC, Generic[M]):
    """A kind that holds readers of released files back until a copytool has brought the contents."""

    @abstractmethod
    def copytool_findings(
        self, filesystem: M, run: Run, mount_point: str, archives: Collection[int]
    ) -> list[Finding]:
        """What keeps readers of released files waiting, as far as the node where `run` runs commands knows.

        `archives` are those of the grid's repositories on it. Raises GridwrightError (status ENVIRONMENT)
        where the tools of the file system are not there.
        """


class ServerHealth(ABC):
    """A kind whose servers tell how it is, asked once for the grid, instead of `health` on each node."""

    @abstractmethod
    def server_of_mount(self, source: str) -> str | None:
        """The host to ask of `server_health`, out of the source of a mount; None where it names none."""

    @abstractmethod
    def server_health(self, run: Run, server: str | None) -> Health:
        """How it is, as its servers tell a node that reaches them.

        `server` is the host to ask, None where nobody knows it. Raises GridwrightError as `health` does.
        """


class LabServices(Generic[M]):
    """A kind that a lab can have: as a directory of its machine, or served by nodes of the lab."""

    lab_needs_fuse: bool = False
    """Whether nodes of a lab mount it through FUSE."""
    lab_memory_remedy: str = ""
    """What to do where a lab has too little memory for it, as a part of a sentence."""

    def lab_nodes(self, filesystem: M) -> int:
        """How many storage nodes a lab has for it."""
        return 0

    def lab_services(
        self, name: str, filesystem: M, storage: StorageNodes
    ) -> Sequence[Service[ServiceNodes]]:
        """Its daemons and mounts, in the order that they start in."""
        return ()

    def lab_memory_bytes(self, filesystem: M, clients: int) -> int:
        """Memory that its daemons need on the machine of the lab before any job runs."""
        return 0


class SharedDiskCluster(ABC, Generic[M]):
    """A kind whose servers and clients are one cluster, whose disks pairs of servers share."""

    @abstractmethod
    def cluster_document(
        self,
        grid: str,
        name: str,
        filesystem: M,
        machines: Sequence[ClusterMachine],
        disks: Sequence[PairDisk],
    ) -> Mapping[str, Any]:
        """The cluster in plain values. Its role of the playbook makes it."""


UNTRUSTED = ("nosuid", "nodev")
"""Neither set-user-ID programs nor device files of the file system count (mount(8)); programs run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountEntry:
    """One line of fstab(5)."""

    source: str
    mount_point: str
    type: str
    """As fstab(5) and mount(8) take it. NFS 4 is `nfs` there, and `nfs4` in /proc/mounts."""
    options: tuple[str, ...]

    @property
    def option_text(self) -> str:
        """The options as one field, with commas."""
        return ",".join(self.options)

    def for_nodes(self, *, suid: bool) -> MountEntry:
        """The same with UNTRUSTED, or without for a file system that the spec trusts; `_netdev` is last."""
        last = tuple(option for option in self.options if option == "_netdev")
        others = tuple(option for option in self.options if option not in (*UNTRUSTED, *last))
        return replace(self, options=(*others, *(() if suid else UNTRUSTED), *last))


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """Ports of a server that the grid does not have itself, and why nodes reach it there."""

    ports: Ports
    why: str
    host: str | None = None
    """The server's name or address; None where any may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNodes:
    """Who serves a file system in a lab, and who mounts it."""

    servers: Sequence[str]
    """Storage nodes; the first one has what there is only one of."""
    clients: Sequence[str]
    all_nodes: Sequence[str]
    """Of the lab: users may have processes on each of them."""
    directory: str
    """Where a storage node keeps data."""
    keep_free: str
    """How much of a storage node's disk stays free, as `256MiB`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningKind:
    """Settings that a command prints on nodes, and that a role of the playbook sets.

    The doctor has nodes run `command`, and works `value` out where it runs itself, so that nodes need no more
    than the command. The role finds its rows in `base_rows['NAME']`, holds them against what the node has by
    the filter `gridwright_printed_drift`, and sets what differs.
    """

    name: str
    """What rows call it in `kind`, such as `lustre-client`."""
    words: str
    """What stands before a key in messages and documents, such as `lctl`."""
    command: Callable[[str], Sequence[str]]
    """The command that prints the setting of a key. It changes nothing; a node ends it after two seconds."""
    value: Callable[[str, str], str | None]
    """The value, out of what the command printed and the key; different ones with ", " between them.

    None where the node has no such setting.
    """
    bound: Callable[[str, str], str | None] | None = None
    """How far the setting can go, out of what the command printed and a row's `bounded_by`.

    None where nothing says so.
    """
    role: str
    """The role of the playbook that sets it, of the kind's own or of a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchArray:
    """Disks, striped and formatted; node_programs/scratch makes it."""

    disks: int | None
    """How many; None is all that the instance has."""
    chunk_bytes: int
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMachine:
    """A machine as its provider knows it, before it is a node of a cluster."""

    name: str
    address: str
    is_server: bool
    pair: int = 0
    """The pair of a server, from 1 on."""
    fault_domain: int = 0
    """Machines of one fault domain fail together; servers of a pair are in two."""
    site: int = 0
    """The availability domain or the hall; two where replicas are apart."""
    memory_bytes: int | None = None
    nic_bytes_per_s: float | None = None
    runs_jobs: bool = True
    """Whether a client is there for jobs; one that is not may be small, and has no settings of nodes."""
    is_witness: bool = False
    """Whether it is a server that has no data: it only decides between two sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDisk:
    """A disk that both servers of a pair reach."""

    volume: str
    """The name of the cloud's volume, or what the site calls the disk; it stays when machines go."""
    device: str
    pair: int
    index: int
    """From 0 on, within the pair and its pool."""
    is_descriptor_only: bool = False
    """Whether it holds no data, and only breaks a tie between two sites."""
    pool: str = ""
    """Which pool of disks of its file system it belongs to; empty for the one that is always there."""
    label: str = ""
    """What tells it from other disks of its file system in any order; empty: its pair and index do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServers:
    """Servers that a site has already, as the spec names them, with the disks that their pairs share.

    None of both where the grid's nodes are a cluster of clients alone.
    """

    machines: Sequence[ClusterMachine]
    disks: Sequence[PairDisk]
