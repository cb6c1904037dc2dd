"""The kind of file systems that are directories on disks of the node itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.capabilities import LabServices, NodeDisks
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.local.model import LocalFileSystem
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.scratch_array import ScratchArray
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec

_MEMORY = ("/dev/shm", "/run")  # noqa: S108 - named to warn of them
_EMPTIED = ("/tmp", "/var/tmp")  # noqa: S108 - named to warn of them


class LocalKind(FileSystemKind[LocalFileSystem], LabServices[LocalFileSystem], NodeDisks[LocalFileSystem]):
    """Disks of the node itself; any file system of the kernel may be on them."""

    spec_model = LocalFileSystem
    title = "disks of each node"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What disks of nodes never have."""
        if fields.get("suid") is True:
            yield (
                ("suid",),
                FieldError("set-up mounts disks of nodes with nosuid and nodev", "remove suid"),
            )

    def findings(self, name: str, filesystem: LocalFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """A directory that is in memory, or that the system empties."""
        path = PurePosixPath(filesystem.path)
        in_memory = any(path.is_relative_to(place) for place in _MEMORY)
        if in_memory or any(path.is_relative_to(place) for place in _EMPTIED):
            reason = (
                "it is in memory: figures say nothing about disks, and data are lost at a restart"
                if in_memory
                else "the system may empty it, and it may be in memory"
            )
            yield Finding(
                "warning",
                "volatile-directory",
                f"file system {name} is at {path}: {reason}",
                f"Move {name} to a directory on disks",
            )

    def contribute(self, name: str, filesystem: LocalFileSystem, site: Site) -> Contribution:
        """What each node's disks deliver."""
        from gridwright.filesystems.local.rates import contribute

        return contribute(name, filesystem, site)

    def describe(self, filesystem: LocalFileSystem) -> str:
        """The disks, where the spec has them."""
        from gridwright.filesystems.words import disks_words

        return f"{disks_words(filesystem.disks)} of each node" if filesystem.disks else self.title

    def on_node_disks(self, disks: Mapping[str, Any]) -> Mapping[str, Any]:
        """On any disks."""
        return {"type": "local", "disks": disks}

    def scratch_array(self, filesystem: LocalFileSystem) -> ScratchArray | None:
        """Of disks of an instance store; volumes are attached as they are."""
        from gridwright.filesystems.scratch_array import ScratchArray

        disks = filesystem.disks
        if disks is None or disks.type != INSTANCE_STORE:
            return None
        return ScratchArray(disks=disks.count, chunk_bytes=int(filesystem.chunk), format=filesystem.format)

    def health(
        self,
        filesystem: LocalFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """Looked at on this machine, so `run` has to run commands here."""
        from gridwright.filesystems.local.health import health

        return health(run, mount_point)


KIND = LocalKind()
