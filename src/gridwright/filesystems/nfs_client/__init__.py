"""What all kinds of file systems that nodes mount by NFS share: health and counters of a mount."""

from __future__ import annotations

NFS_TRANSFER_BYTES = 1024 * 1024
"""The largest rsize and wsize that the client takes (nfs(5)); servers offer less where they can do less."""
MOUNT_TYPE = "nfs"
"""As fstab(5) and mount(8) take it, and as /proc/mounts shows NFS 3."""
