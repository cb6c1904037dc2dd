"""Who is asked how file systems are: their servers from the head node, or each node as a client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gridwright.doctor.observation import Seen
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems import moosefs
from gridwright.filesystems.health import Run
from gridwright.filesystems.healths import library_findings
from gridwright.spec.filesystems import LocalFileSystem, MooseFileSystem
from gridwright.spec.model import GridSpec


def asked_of_nodes(spec: GridSpec) -> dict[str, dict[str, Any]]:
    """File systems that each node is asked about, as plain data: what one client sees, another may not."""
    # The disks of a lab's nodes are those of this machine.
    others = (LocalFileSystem,) if spec.provider == "lab" else ()
    return {
        name: each.model_dump(mode="json", exclude_none=True)
        for name, each in spec.filesystems.items()
        if not isinstance(each, (MooseFileSystem, *others))
    }


def health_of_filesystems(seen: Seen, run: Run) -> dict[str, Sequence[Finding] | str]:
    """Of each file system whose servers can be asked: what is wrong, or why they do not answer."""
    found: dict[str, Sequence[Finding] | str] = {}
    for name, filesystem in (seen.spec.filesystems if seen.spec else {}).items():
        if isinstance(filesystem, MooseFileSystem):
            try:
                found[name] = moosefs.health(run, _master(seen, name)).findings
            except GridwrightError as error:
                found[name] = str(error)
        elif findings := _of_libraries(seen, name, run):
            found[name] = findings
    return found


def _of_libraries(seen: Seen, filesystem: str, run: Run) -> list[Finding]:
    """What is wrong with files of the libraries on a file system, where it answers.

    Asked on the head node only, as it searches for some seconds; one that has not mounted it tells nothing.
    """
    spec = seen.spec
    found: list[Finding] = []
    for role, library in (spec.libraries if spec else {}).items():
        looks = [facts.libraries[role] for facts in seen.facts.values() if role in facts.libraries]
        if spec is None or library.filesystem != filesystem or any(look.hangs for look in looks):
            continue
        with suppress(GridwrightError):
            found += library_findings(spec.filesystems[filesystem], run, str(spec.library_directory(role)))
    return found


def _master(seen: Seen, filesystem: str) -> str:
    """The master that the nodes have mounted."""
    for facts in seen.facts.values():
        for role, library in (seen.spec.libraries if seen.spec else {}).items():
            source = facts.libraries[role].source if role in facts.libraries else None
            if library.filesystem == filesystem and source and (host := moosefs.master_of_mount(source)):
                return host
    return moosefs.MASTER
