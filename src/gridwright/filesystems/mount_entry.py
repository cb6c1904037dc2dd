"""What nodes mount for a file system of the spec: fields of fstab(5), the same for all who mount."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.spec.filesystems import FileSystem, FsxLustreFileSystem, LustreFileSystem, NfsFileSystem

NFS_TRANSFER_BYTES = 1024 * 1024
"""The largest rsize and wsize that the client takes (nfs(5)); servers offer less where they can do less."""


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

    @property
    def shown_types(self) -> tuple[str, ...]:
        """The types under which /proc/mounts may show it."""
        return (self.type, "nfs4") if self.type == "nfs" else (self.type,)


def mount_entry(filesystem: FileSystem, source: str | None = None) -> MountEntry | None:
    """What nodes mount; None where fstab has no part in it.

    Arrays of local disks are mounted by the scratch unit, Spectrum Scale by its own daemon, MooseFS by the
    lab. A Lustre that the spec does not name a source of has none before it is built: `source` is then what
    its provider knows of it.
    """
    if isinstance(filesystem, LustreFileSystem):
        source = filesystem.source or source
    if isinstance(filesystem, LustreFileSystem | FsxLustreFileSystem) and source is not None:
        return MountEntry(
            source=source,
            mount_point=str(filesystem.path),
            type="lustre",
            # Without flock, fcntl locks fail with ENOSYS or hold on one node only (mount.lustre(8)).
            options=("flock", "noatime", "_netdev"),
        )
    if isinstance(filesystem, NfsFileSystem):
        host = f"[{filesystem.server}]" if ":" in filesystem.server else filesystem.server
        return MountEntry(
            source=f"{host}:{filesystem.export}",
            mount_point=str(filesystem.path),
            type="nfs",
            options=_nfs_options(filesystem),
        )
    return None


def _nfs_options(filesystem: NfsFileSystem) -> tuple[str, ...]:
    # noatime has no effect on NFS: the server keeps access times (nfs(5)). soft loses what was written.
    several = (f"nconnect={filesystem.connections}",) if filesystem.connections > 1 else ()
    return (
        f"vers={filesystem.version}",
        "proto=tcp",
        "hard",
        *several,
        f"rsize={NFS_TRANSFER_BYTES}",
        f"wsize={NFS_TRANSFER_BYTES}",
        "_netdev",
    )
