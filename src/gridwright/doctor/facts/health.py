"""What a node finds wrong with a file system of the spec, as a client of it."""

from __future__ import annotations

import errno
import time
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
HEALTH_S = 12.0
"""How long a file system may take to tell how it is: servers are slower than disks."""
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

    What is not told within HEALTH_S is left out, and said to be; ends within LATE_S after it. `hsm_archives`
    among the values are the archives of its repositories, and `changelog_users` the names that they are
    registered under.
    """
    from gridwright.commands import CommandSilent, run_here
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.capabilities import Changelogs, LazyLoad
    from gridwright.filesystems.health import INCOMPLETE, RunWithin, TimeUp, incomplete

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
        run = RunWithin(run_here, time.monotonic() + HEALTH_S)
        found = kind.health(filesystem, run, path)
        told = list(found.findings) if found else []
        try:
            # What hung there would hang here.
            whole = all(each.name != INCOMPLETE for each in told)
            if whole and archives and isinstance(kind, LazyLoad):
                told += kind.copytool_findings(filesystem, run, path, archives)
            if whole and isinstance(kind, Changelogs):
                told += kind.changelog_findings(filesystem, run, path, users)
        except (TimeUp, CommandSilent) as why:
            told.append(incomplete(why))
    except (ValueError, GridwrightError, TimeUp) as error:
        # A kind of a site's own package may be missing on a node.
        raise OSError(errno.EIO, str(error)) from error
    away = found.away if found else None
    # A library that hangs follows from what is away, so that it is not told: then this is.
    hidden = _TOLD_OTHERWISE - {"filesystem-silent"} if away else _TOLD_OTHERWISE
    return ClientHealth([finding for finding in told if finding.name not in hidden], away)
