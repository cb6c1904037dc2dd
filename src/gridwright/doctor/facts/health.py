"""What a node finds wrong with a file system of the spec, as a client of it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Finding, GridwrightError

_TOLD_OTHERWISE = frozenset(
    {
        *("filesystem-full", "filesystem-inodes", "filesystem-not-mounted", "filesystem-silent"),
        *("filesystem-read-only", "raid-broken", "raid-degraded", "raid-rebuilding"),
        *("nfs-rsize-small", "nfs-wsize-small", "nfs-local-locks"),
    }
)
"""Findings that checks of libraries, places, disks and settings have under their own names."""
_OF_REPOSITORIES = ("hsm_archives", "changelog_users")
CANNOT_LOOK = "what looks at file systems was brought to this node for another Python"
"""Beginning of the reason where a node has no more than the part of Gridwright that was brought to it."""


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """A file system as a client of it sees it."""

    findings: list[Finding]
    away: dict[str, str] | None = None
    """As Health has it."""


def health(described: Mapping[str, Any]) -> ClientHealth:
    """What is wrong with a file system, given as in the grid spec. Raises OSError where it cannot be asked.

    `hsm_archives` among the values are the archives of its repositories, and `changelog_users` the names that
    they are registered under.
    """
    from gridwright.commands import run_here
    from gridwright.filesystems import kind_of

    try:
        from gridwright.spec.filesystem import FILESYSTEMS
    except ImportError as error:
        raise OSError(errno.ENOSYS, f"{CANNOT_LOOK}: {error}") from error
    try:
        archives = described.get("hsm_archives", ())
        users = described.get("changelog_users", ())
        fields = {name: each for name, each in described.items() if name not in _OF_REPOSITORIES}
        filesystem = FILESYSTEMS.get(described["type"]).spec_model.model_validate(fields)
        kind, path = kind_of(filesystem), str(filesystem.path)
        found = kind.health(filesystem, run_here, path)
        waiting = kind.copytool_findings(filesystem, run_here, path, archives) if archives else []
        waiting += kind.changelog_findings(filesystem, run_here, path, users)
    except (ValueError, GridwrightError) as error:
        # A kind of a site's own package may be missing on a node.
        raise OSError(errno.EIO, str(error)) from error
    told = [each for each in found.findings if each.name not in _TOLD_OTHERWISE] if found else []
    return ClientHealth([*told, *waiting], found.away if found else None)
