"""Mounts of Lustre: which one is a client's, and the name of its file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gridwright.filesystems.mount_table import Mount, mount_of
from gridwright.filesystems.mounts import TARGETS

TARGET_TYPES = TARGETS | {"lustre"}
"""Of what type a server mounts its targets: Lustre 2.15 added `lustre_tgt`, and 2.17 deprecates the other one
(`lustre_tgt_fs_type` of lustre/target/tgt_mount.c; `lustre_fill_super` of lustre/llite/super25.c)."""


def client_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The Lustre mount that holds a path; a server's mounts of its targets are none."""
    mount = mount_of(path, mounts)
    is_client = mount is not None and mount.type == "lustre" and _target(mount) is None
    return mount if is_client else None


def is_target(path: str, mounts: Sequence[Mount]) -> bool:
    """Whether a server has one of its targets mounted there: nobody reads or writes files through it."""
    mount = mount_of(path, mounts)
    return mount is not None and _target(mount) is not None


def serves(mounts: Sequence[Mount], name: str) -> bool:
    """Whether a node has a target of this file system mounted."""
    return bool(name) and any((_target(each) or "").startswith(f"{name}-") for each in mounts)


def _target(mount: Mount) -> str | None:
    return mount.option("svname") if mount.type in TARGET_TYPES else None


def file_system_name(source: str) -> str:
    """`scratch` out of `10.0.0.1@tcp:/scratch/below`; empty where there is none."""
    found = re.search(r":/([A-Za-z0-9_-]{1,8})(?:/|$)", source)
    return found[1] if found else ""
