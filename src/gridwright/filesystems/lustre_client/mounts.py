"""Mounts of Lustre: which one is a client's, and the name of its file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gridwright.filesystems.mount_table import Mount, mount_of


def client_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The Lustre mount that holds a path; a server's own mounts are of type lustre, too, and are none."""
    mount = mount_of(path, mounts)
    is_client = mount is not None and mount.type == "lustre" and mount.option("svname") is None
    return mount if is_client else None


def is_target(path: str, mounts: Sequence[Mount]) -> bool:
    """Whether a server has one of its targets mounted there: nobody reads or writes files through it."""
    mount = mount_of(path, mounts)
    return mount is not None and mount.type == "lustre" and mount.option("svname") is not None


def file_system_name(source: str) -> str:
    """`scratch` out of `10.0.0.1@tcp:/scratch/below`; empty where there is none."""
    found = re.search(r":/([A-Za-z0-9_-]{1,8})(?:/|$)", source)
    return found[1] if found else ""
