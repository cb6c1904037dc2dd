"""Capabilities that only some kinds of file systems have: a kind derives from its own ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from gridwright.errors import Finding
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.filesystems.desired_layout import DesiredLayout
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.in_lab import StorageNodes
    from gridwright.filesystems.layout import FileLayout, LayoutProblem
    from gridwright.filesystems.library_layouts import LibraryLayouts
    from gridwright.filesystems.loss import DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.moving import FileMover
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.scratch_array import ScratchArray
    from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk
    from gridwright.filesystems.tuning_kind import TuningKind
    from gridwright.services.service import Service, ServiceNodes
    from gridwright.spec.filesystem import FileSystem
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec

# The bound is a name: nodes import this module, and have no model of a spec.
M = TypeVar("M", bound="FileSystem")


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
