"""The contract of a kind of file system: what every kind answers, in one package for each kind.

What only some kinds can do is in `capabilities.py`: a kind derives from those that it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gridwright.spec.filesystem import FileSystem

if TYPE_CHECKING:
    from gridwright.errors import Finding
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.mount_entry import MountEntry
    from gridwright.filesystems.ports import ServerPorts
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.services.playbook_role import PlaybookRole
    from gridwright.spec.model import GridSpec
    from gridwright.yamltext.fields import FieldError

M = TypeVar("M", bound=FileSystem)


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
        from gridwright.filesystems.words import servers_words

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
