"""The kind of file systems that OCI File Storage exports by NFS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.mount_entry import MountEntry
from gridwright.filesystems.nfs_client.mount_facts import MOUNT_TYPE
from gridwright.filesystems.oci_file_storage.model import EXPORT_PATTERN, OciFileStorageFileSystem
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec

VERSION = "3"
OPTIONS = (f"vers={VERSION}", "proto=tcp", "hard", "nosuid", "_netdev")
"""NFS 3 is all that it speaks, and nosuid what Oracle's own mount commands have (OCI File Storage, mounting
file systems from UNIX-style instances). Without rsize and wsize the client takes the largest that the server
offers (nfs(5))."""


class OciFileStorageKind(FileSystemKind[OciFileStorageFileSystem]):
    """OCI File Storage: the service makes it, and tells then where its mount target is.

    Nodes mount it with the role of NFS, which works for every mount of that type.
    """

    spec_model = OciFileStorageFileSystem
    title = "OCI File Storage"
    kernel_types = (MOUNT_TYPE,)

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A path that cannot be the path of an export, where none is written."""
        path = fields.get("path")
        if fields.get("export") is None and isinstance(path, str) and not re.match(EXPORT_PATTERN, path):
            yield (
                ("export",),
                FieldError(
                    f"{path} cannot be the path of an export, and no other is written",
                    "add one, such as export: /sashome",
                ),
            )

    def findings(self, name: str, filesystem: OciFileStorageFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Libraries on what is made for homes."""
        on_it = [each for each, library in spec.libraries.items() if library.filesystem == name]
        if on_it:
            yield Finding(
                "warning",
                "library-on-file-storage",
                f"{' and '.join(on_it)} {'lives' if len(on_it) == 1 else 'live'} on OCI File Storage {name}, "
                "whose mount target passes 1 Gbit/s to all nodes together",
                "Keep homes and configuration there, and libraries on a parallel file system",
            )

    def contribute(self, name: str, filesystem: OciFileStorageFileSystem, site: Site) -> Contribution:
        """What its mount target passes to all nodes."""
        from gridwright.filesystems.oci_file_storage.rates import contribute

        return contribute(name, filesystem, site)

    def mount_entry(
        self, filesystem: OciFileStorageFileSystem, source: str | None = None
    ) -> MountEntry | None:
        """The export; none before it is known where its mount target is."""
        if source is None:
            return None
        return MountEntry(source=source, mount_point=str(filesystem.path), type=MOUNT_TYPE, options=OPTIONS)

    def describe(self, filesystem: OciFileStorageFileSystem) -> str:
        """What it is exported as."""
        return f"{self.title} {filesystem.export_path}"

    def health(
        self,
        filesystem: OciFileStorageFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """As this client of NFS sees it: options, counters and connections of its mount."""
        from gridwright.filesystems.nfs_client.health import health

        return health(run, mount_point, VERSION)

    def requests(self, filesystem: OciFileStorageFileSystem) -> Mapping[type, object]:
        """The file system as Oracle makes it."""
        from gridwright.filesystems.provided import FileStorage, request

        return request(FileStorage, filesystem)


KIND = OciFileStorageKind()
