"""Who is registered with Lustre's changelogs for the repositories of a grid."""

from __future__ import annotations

import hashlib
import re

from gridwright.spec.model import GridSpec

PREFIX = "gw-"
"""Names of users of Gridwright's begin so."""
DIRECTORY = "/etc/gridwright"
_READABLE, _DIGITS = 5, 6
"""A name has 15 characters at most: letters, digits, - and _ (`mdd_changelog_name_check` of mdd_device.c)."""


def changelog_user(spec: GridSpec, repository: str) -> str | None:
    """The name that a repository is registered under at each MDT; None where it is exported by scans.

    Grids that share a Lustre have other names for repositories of one name.
    """
    if spec.repositories[repository].export.by != "changelog":
        return None
    readable = re.sub(r"[^A-Za-z0-9_]", "_", repository)[:_READABLE]
    digest = hashlib.sha256(f"{spec.name}/{repository}".encode()).hexdigest()
    return f"{PREFIX}{readable}-{digest[:_DIGITS]}"


def users_file(repository: str) -> str:
    """Where the machine that exports has who is registered for a repository."""
    return f"{DIRECTORY}/changelog-{repository}.json"
