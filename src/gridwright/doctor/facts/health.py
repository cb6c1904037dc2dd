"""What a node finds wrong with a file system of the spec, as a client of it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gridwright.errors import GridwrightError

_TOLD_OTHERWISE = frozenset(
    {
        *("filesystem-full", "filesystem-inodes", "filesystem-not-mounted", "filesystem-silent"),
        *("filesystem-read-only", "raid-broken", "raid-degraded", "raid-rebuilding"),
        *("nfs-rsize-small", "nfs-wsize-small", "nfs-local-locks"),
    }
)
"""Findings that checks of libraries, places, disks and settings have under their own names."""


def health(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Findings about a file system, given as in the grid spec. Raises OSError where it cannot be asked."""
    from gridwright.commands import run_here
    from gridwright.filesystems import kind_of
    from gridwright.spec.filesystem import FILESYSTEMS

    try:
        filesystem = FILESYSTEMS.get(described["type"]).spec_model.model_validate(described)
        found = kind_of(filesystem).health(filesystem, run_here, str(filesystem.path))
    except (ValueError, GridwrightError) as error:
        # A kind of a site's own package may be missing on a node.
        raise OSError(errno.EIO, str(error)) from error
    return [asdict(each) for each in found.findings if each.name not in _TOLD_OTHERWISE] if found else []
