"""How a file system is, whatever its kind: one entry for all who ask."""

from __future__ import annotations

from gridwright.errors import Finding
from gridwright.filesystems import moosefs
from gridwright.filesystems.health import Health, Run
from gridwright.filesystems.mount_table import mount_of, read_mounts
from gridwright.spec.filesystems import (
    FileSystem,
    FsxLustreFileSystem,
    LocalFileSystem,
    LustreFileSystem,
    MooseFileSystem,
    NfsFileSystem,
    ScaleFileSystem,
)


def filesystem_health(
    filesystem: FileSystem, run: Run, mount_point: str, *, nic_bytes_per_s: float | None = None
) -> Health | None:
    """How `filesystem` is, as the node where `run` runs commands sees it at `mount_point`.

    None for a kind that cannot be asked. A local file system is looked at on this machine,
    so `run` has to run commands here. `nic_bytes_per_s` is the rate of the node's
    network card where it is known: NFS is judged by it. Takes root for Lustre. Ends within some tens of
    seconds whatever hangs. Raises GridwrightError (status ENVIRONMENT) where the tools of the file system
    are not there, or the node itself does not answer.
    """
    if isinstance(filesystem, MooseFileSystem):
        mount = mount_of(mount_point, read_mounts(run))
        is_fuse = mount is not None and mount.type.startswith("fuse")
        master = moosefs.master_of_mount(mount.source) if mount is not None and is_fuse else None
        return moosefs.health(run, master or moosefs.MASTER)
    if isinstance(filesystem, (LustreFileSystem, FsxLustreFileSystem)):
        from gridwright.filesystems.lustre.health import health

        source = filesystem.source if isinstance(filesystem, LustreFileSystem) else None
        return health(run, mount_point, source)
    if isinstance(filesystem, NfsFileSystem):
        from gridwright.filesystems.nfs.health import health as nfs_health

        return nfs_health(run, mount_point, filesystem, nic_bytes_per_s=nic_bytes_per_s)
    if isinstance(filesystem, LocalFileSystem):
        from gridwright.filesystems.local.health import health as local_health

        return local_health(run, mount_point)
    if isinstance(filesystem, ScaleFileSystem):
        from gridwright.filesystems.scale.health import health as scale_health

        return scale_health(run, mount_point)
    return None


def library_findings(filesystem: FileSystem, run: Run, directory: str) -> list[Finding]:
    """What is wrong with the files of a library; asked on one node for all, as it searches for some seconds.

    Large files that lie on one target of a Lustre; nothing for other kinds. Raises GridwrightError (status
    ENVIRONMENT) where the tools of the file system are not there, or nothing answers.
    """
    if isinstance(filesystem, (LustreFileSystem, FsxLustreFileSystem)):
        from gridwright.filesystems.lustre.single_target import single_target_files

        return single_target_files(run, directory)
    return []
