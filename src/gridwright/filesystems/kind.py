"""What a kind of file system is: all that Gridwright asks of one, answered in one package for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.spec.filesystem import FileSystem

if TYPE_CHECKING:
    from pathlib import Path

    from gridwright.errors import Finding
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.filesystems.counters import ReadCounts
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.in_lab import StorageNodes
    from gridwright.filesystems.layout import FileLayout, LayoutProblem
    from gridwright.filesystems.layout_wish import LayoutWish
    from gridwright.filesystems.library_layouts import LibraryLayouts
    from gridwright.filesystems.loss import DeadPart, PartGroup, Remains
    from gridwright.filesystems.mount_entry import MountEntry
    from gridwright.filesystems.moving import FileMover
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.ports import ServerPorts
    from gridwright.filesystems.provided import (
        FileStorage,
        LustreServers,
        ManagedLustre,
        SharedDiskServers,
        TieredLustre,
    )
    from gridwright.filesystems.reading import FigureSource
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.scratch_array import ScratchArray
    from gridwright.filesystems.shared_disks import ClusterMachine, NamedServers, PairDisk
    from gridwright.filesystems.site import Site
    from gridwright.filesystems.tuning_kind import TuningKind
    from gridwright.services.playbook_role import PlaybookRole
    from gridwright.services.service import Service, ServiceNodes
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec
    from gridwright.spec.provider import ProviderKind
    from gridwright.yamltext.fields import FieldError

M = TypeVar("M", bound=FileSystem)


class FileSystemKind(ABC, Generic[M]):
    """A kind of file system. Defaults are those of one that is there already and that nothing is known of.

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
    can_be_in_a_lab: bool = False
    """Whether a lab can have it: as a directory of its machine, or served by nodes of the lab."""
    lab_needs_fuse: bool = False
    """Whether nodes of a lab mount it through FUSE."""
    lab_memory_remedy: str = ""
    """What to do where a lab has too little memory for it, as a part of a sentence."""
    asks_servers: bool = False
    """Whether `server_health` tells how it is, asked once for the grid, and not `health` on each node."""

    # What the grid spec asks

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What is wrong between fields of its section, as plain data: a path below it, and the problem.

        Whatever has the wrong type is passed over; the model tells of it.
        """
        yield from ()

    def provider_problems(
        self, fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
    ) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """The same for what cannot be with the provider of a grid, all of whose plain data are `grid`."""
        yield from ()

    def findings(self, name: str, filesystem: M, spec: GridSpec) -> Iterator[Finding]:
        """What will hurt about file system `name` of a valid spec, with any provider."""
        yield from ()

    def cloud_findings(self, name: str, filesystem: M, spec: GridSpec) -> Iterator[Finding]:
        """The same where a cloud makes nodes and file systems."""
        yield from ()

    # What predictions and reports ask

    @abstractmethod
    def contribute(self, name: str, filesystem: M, site: Site) -> Contribution:
        """What it brings into a prediction. Problems with the spec are noted at the site."""

    def parts(self, filesystem: M, contribution: Contribution) -> Sequence[PartGroup]:
        """Its servers and targets that can die one by one; none of a kind of which no part is known."""
        return ()

    def without(self, filesystem: M, contribution: Contribution, dead: Sequence[DeadPart]) -> Remains:
        """What is left of it while some of its `parts`, at least one, are dead. By default nothing."""
        from gridwright.filesystems.loss import Remains

        return Remains(0.0, "unavailable", 1.0, f"nothing is known of a {self.title} without it")

    def describe(self, filesystem: M) -> str:
        """What it is, in a few words for a table of designs."""
        from gridwright.filesystems.words import servers_words

        groups = filesystem.server_groups
        data = next(iter(groups.items()), None)
        return self.title if data is None else f"{self.title} {servers_words(*data)}"

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """What of it a planner may choose for data that all nodes share."""
        return ()

    def on_node_disks(self, disks: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Its section of a planned spec on such disks of each node, without `path`; None if it takes none."""
        return None

    # What nodes are set up with

    def mount_entry(self, filesystem: M, source: str | None = None) -> MountEntry | None:
        """What nodes mount; None where fstab has no part in it.

        `source` is what the provider knows of it where the spec names none: it may be a Jinja expression.
        """
        return None

    def scratch_array(self, filesystem: M) -> ScratchArray | None:
        """The array of disks of an instance store that each node makes for it; None where there is none."""
        return None

    def playbook_variables(self, filesystems: Sequence[M]) -> Mapping[str, object]:
        """Variables that its role of the playbook needs, of all file systems of the kind; plain data.

        Every registered kind is asked, with an empty sequence where the spec has none of it.
        """
        return {}

    def tuning_table(self) -> str | None:
        """Rows of the tuning table that it has, as the text of a file like setup/tuning.yaml."""
        return None

    def tuning_kinds(self) -> Sequence[TuningKind]:
        """Kinds of rows that its table has beside those of setup/tuning.py; kinds may share one."""
        return ()

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """Roles of the playbook that make nodes its clients; kinds may share one, by its name."""
        return ()

    # How it is

    def health(
        self, filesystem: M, run: Run, mount_point: str, *, nic_bytes_per_s: float | None = None
    ) -> Health | None:
        """How it is, as the node where `run` runs commands sees it at `mount_point`.

        None for a kind that cannot be asked. `nic_bytes_per_s` is the rate of the node's network card where
        it is known. Ends within some tens of seconds whatever hangs. Raises GridwrightError (status
        ENVIRONMENT) where the tools of the file system are not there, or the node itself does not answer.
        """
        return None

    def copytool_findings(
        self, filesystem: M, run: Run, mount_point: str, archives: Collection[int]
    ) -> list[Finding]:
        """What keeps readers of released files waiting, as far as the node where `run` runs commands knows.

        `archives` are those of the grid's repositories on it. Raises GridwrightError (status ENVIRONMENT)
        where the tools of the file system are not there.
        """
        return []

    def changelog_source(self, filesystem: M) -> str | None:
        """The name of the file system whose metadata servers keep changelogs; None for a kind without."""
        return None

    def changelog_findings(
        self, filesystem: M, run: Run, mount_point: str, users: Collection[str]
    ) -> list[Finding]:
        """What is wrong with changelogs, as far as the node where `run` runs commands serves metadata.

        `users` are the names that repositories of the grid are registered under. Raises GridwrightError
        (status ENVIRONMENT) where the tools of the file system are not there.
        """
        return []

    def library_findings(self, filesystem: M, run: Run, directory: str, wish: LayoutWish) -> list[Finding]:
        """What is wrong with the files of a library; asked on one node for all, as it may search for seconds.

        `wish` has the library's name and the layout that its files are to have.
        Raises GridwrightError (status ENVIRONMENT) where the tools of the file system are not there, or
        nothing answers.
        """
        return []

    def library_layouts(self, filesystem: M, run: Run, directory: str) -> LibraryLayouts | None:
        """How the files of a library lie on targets, by a look of some seconds, on one node for all.

        None for a kind without layouts, and where nothing tells them. Raises GridwrightError (status
        ENVIRONMENT) where nothing answers.
        """
        return None

    def server_of_mount(self, source: str) -> str | None:
        """The host to ask of `server_health`, out of the source of a mount; None where it names none."""
        return None

    def server_health(self, run: Run, server: str | None) -> Health | None:
        """How it is, as its servers tell a node that reaches them; None for a kind that cannot be asked so.

        `server` is the host to ask, None where nobody knows it. Raises GridwrightError as `health` does.
        """
        return None

    # What it moves, and where its bytes lie

    def counters(self, filesystem: M, run: Run, mount_point: str) -> ReadCounts | None:
        """How to read what the node where `run` runs commands moved to and from it, as its client.

        Asked once, and then read as often as wanted: every second, by a monitor. None for a kind whose
        clients count nothing. Nothing is looked at before the first reading.
        """
        return None

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts | None:
        """The same as `counters` for what is mounted there, whether or not a spec describes it.

        `root` is where the files of the node lie that `run` runs on; None where they cannot be opened here.
        """
        return None

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """What a node that has it mounted, as a server or a client, tells beside that, while people watch.

        By a name that says what it is. `root` is where the files of the node lie, and `run` starts a process
        on it: at most one a minute in all. Kinds that tell the same have the same names.
        """
        return {}

    def no_space(self, run: Run, mount_point: str, path: str) -> str | None:
        """What of it is full where a write to its file `path` failed with ENOSPC, and the file's layout.

        None where nothing is known but that it is full. Ends within some seconds, and raises nothing.
        """
        return None

    def unreached(self, run: Run, mount_point: str) -> str | None:
        """Which parts of it the client there is not connected to, or waits for; None where it tells of none.

        Ends within some seconds, and raises nothing.
        """
        return None

    def server_counters(self, filesystem: M, run: Run) -> ReadCounts | None:
        """The same for a node that serves it, for all clients together; none of another kind's servers."""
        return None

    def layout(self, filesystem: M | None, run: Run, path: str) -> FileLayout | None:
        """Over which targets the bytes of a file lie, or those of new files in a directory.

        `filesystem` is None where who asks has no spec at hand, such as a test of a directory. None for a
        kind that does not let its users choose. Raises GridwrightError (status ENVIRONMENT) where the path is
        not there, is on another file system, or nothing answers in time.
        """
        return None

    def stated_layout(self, filesystem: M, library: Library) -> FileLayout | None:
        """The layout that the spec states for the files of a library on it; None where the model chooses.

        None, too, for a kind that does not let its users choose.
        """
        return None

    def layout_command(self, filesystem: M, layout: FileLayout, directory: str) -> list[str] | None:
        """The command that has new files in a directory laid out so; None where nobody can choose.

        Raises GridwrightError (status INPUT) with all that is wrong with the layout.
        """
        return None

    def mover(self, filesystem: M, run: Run) -> FileMover | None:
        """What finds files by their layouts and lays them out anew; None where nobody can choose."""
        return None

    def target_space(self, filesystem: M, run: Run, mount_point: str) -> Sequence[TargetSpace]:
        """Free space of each target that files are spread over, now; none for a kind without such.

        Raises GridwrightError (status ENVIRONMENT) where nothing answers in time.
        """
        return ()

    def told_target_space(self, text: str, where: str) -> Mapping[str, Sequence[TargetSpace]]:
        """The same by mount point, out of what its own command printed; only where it takes layouts.

        Raises GridwrightError (status INPUT) where the text has nothing of it.
        """
        return {}

    def advised_layout(self, filesystem: M) -> FileLayout | None:
        """The layout for a library of whose targets or needs nothing is known; None where there are none."""
        return None

    def layout_problems(self, layout: FileLayout) -> Sequence[LayoutProblem]:
        """What is wrong with a layout, whatever the directory; asked before anything is made."""
        return ()

    def set_layout(
        self, filesystem: M | None, run: Run, directory: str, layout: FileLayout
    ) -> FileLayout | None:
        """Give a directory a layout, which files and directories made in it get; what it has then.

        `filesystem` is None where who asks has no spec at hand. Only called where `spec_model.takes_layouts`.
        Raises GridwrightError: status INPUT for a layout that cannot be, ENVIRONMENT where it was refused or
        nothing answers in time.
        """
        return None

    # What a lab has of it, where it can have it

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

    # What a provider has to make, and to let through

    def managed_lustre(self, filesystem: M) -> ManagedLustre | None:
        """The service of a cloud that it is; None where it is none."""
        return None

    def tiered_lustre(self, filesystem: M) -> TieredLustre | None:
        """The service of a cloud that it is, which sells Lustre by tiers; None where it is none."""
        return None

    def file_storage(self, filesystem: M) -> FileStorage | None:
        """The service of a cloud that it is, which exports a directory by NFS; None where it is none."""
        return None

    def lustre_servers(self, filesystem: M) -> LustreServers | None:
        """Servers of a Lustre that the provider makes of its machines; None where there are none."""
        return None

    def shared_disk_servers(self, filesystem: M) -> SharedDiskServers | None:
        """Servers in pairs with shared disks that the provider makes of its machines; None without such."""
        return None

    def named_servers(self, filesystem: M) -> NamedServers | None:
        """Servers that are a site's own machines, by their names; None where the spec names none."""
        return None

    def cluster_document(
        self,
        grid: str,
        name: str,
        filesystem: M,
        machines: Sequence[ClusterMachine],
        disks: Sequence[PairDisk],
    ) -> Mapping[str, Any] | None:
        """The cluster that its servers with shared disks and its clients are, in plain values.

        Its role of the playbook makes it. None for a kind without such.
        """
        return None

    def servers_elsewhere(self, filesystem: M) -> Iterator[ServerPorts]:
        """Ports of servers that are there already, outside the grid, which its nodes have to reach."""
        yield from ()
