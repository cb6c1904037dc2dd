"""The kinds of file systems that Gridwright has itself, each by the name that a spec gives it."""

BUILT_IN = {
    "local": "gridwright.filesystems.local.kind:KIND",
    "lustre": "gridwright.filesystems.lustre.kind:KIND",
    "fsx-lustre": "gridwright.filesystems.fsx_lustre.kind:KIND",
    "oci-lustre": "gridwright.filesystems.oci_lustre.kind:KIND",
    "oci-file-storage": "gridwright.filesystems.oci_file_storage.kind:KIND",
    "scale": "gridwright.filesystems.scale.kind:KIND",
    "nfs": "gridwright.filesystems.nfs.kind:KIND",
    "managed": "gridwright.filesystems.managed.kind:KIND",
    "moosefs": "gridwright.filesystems.moosefs.kind:KIND",
}
"""Each is imported when it is first asked for."""
WATCHED = {
    "lustre": "gridwright.filesystems.lustre_client.served:WATCHER",
    "gpfs": "gridwright.filesystems.scale.mmpmon:WATCHER",
    "nfs": "gridwright.filesystems.nfs_client.health:WATCHER",
    "nfs4": "gridwright.filesystems.nfs_client.health:WATCHER",
}
"""Who answers a monitor, by what the kernel calls a mount, without a module that a node may not have."""
