"""Repositories of a grid, whichever section of its spec names them.

Some are carried by file systems themselves; for the others a user is registered with Lustre's changelogs.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from gridwright.spec.model import GridSpec
from gridwright.spec.repository import AT_ONCE, NEVER, DirectoryLink, Schedule

_PREFIX = "gw-"
"""Names of users of Gridwright's begin so."""
_DIRECTORY = "/etc/gridwright"
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
    return f"{_PREFIX}{readable}-{digest[:_DIGITS]}"


def users_file(repository: str) -> str:
    """Where the machine that exports has who is registered for a repository."""
    return f"{_DIRECTORY}/changelog-{repository}.json"


@dataclass(frozen=True, slots=True)
class LinkedDirectory:
    """A directory of a file system that is linked with a bucket, and when its files and objects move."""

    name: str
    """Of the repository; one in the section of a file system has the name of that, and its directory where
    there may be several: `shared/raw`."""
    filesystem: str
    link: DirectoryLink
    export: Schedule
    names: Schedule
    """When names of objects appear."""
    rpo_s: float | None
    """How old a change may become that no object has, in seconds."""
    mounted: Path
    """Where nodes have the directory."""

    @property
    def below(self) -> str:
        """The directory as tasks name it: relative to the file system, empty for all of it."""
        return self.link.directory.strip("/")


def linked_directories(spec: GridSpec) -> dict[str, LinkedDirectory]:
    """All of a grid, by the name of the repository; none where no cloud makes the file systems."""
    directories: dict[str, LinkedDirectory] = {}
    if not spec.is_cloud:
        return directories
    for filesystem, section in spec.filesystems.items():
        for called, link in spec.links_of(filesystem).items():
            repository = spec.repositories.get(called)
            if repository is not None:
                export, names, rpo = repository.export.changed, repository.imports.names, repository.rpo
            else:
                export, names = _of_events(bool(link.export_on)), _of_events(bool(link.import_on))
                rpo = None
            name = called if repository is not None else f"{filesystem}{called}"
            mounted = section.path / link.directory.strip("/")
            directories[name] = LinkedDirectory(name, filesystem, link, export, names, rpo, mounted)
    return directories


def _of_events(are_any: bool) -> Schedule:
    return Schedule(AT_ONCE if are_any else NEVER)
