"""Asks for the health of file systems: their servers from the head node, or each node as a client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gridwright.bounded import Hangs, look
from gridwright.doctor.facts.gather import LOOK_S
from gridwright.doctor.facts.mounted import mounted
from gridwright.doctor.facts.node_facts import MountFacts
from gridwright.doctor.mounting_nodes import RunOn
from gridwright.doctor.observation import Observation, SearchedFiles
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.directory_layout import directory_findings, stated_wish
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import is_served
from gridwright.spec.changelog_users import changelog_user
from gridwright.spec.model import GridSpec


def asked_of_nodes(spec: GridSpec) -> dict[str, dict[str, Any]]:
    """File systems that each node is asked about, as plain data: what one client sees, another may not."""
    own_disks = spec.provider_kind.has_own_kernels
    return {
        name: each.model_dump(mode="json", exclude_none=True) | _archives(spec, name) | _users(spec, name)
        for name, each in spec.filesystems.items()
        # The disks of a lab's nodes are those of this machine.
        if not kind_of(each).asks_servers and (own_disks or not each.is_node_local)
    }


def mounted_here() -> dict[str, dict[str, Any]]:
    """The same without a spec: what this machine has mounted of servers, by where it is; each source once."""
    found: dict[str, dict[str, Any]] = {}
    sources: set[str] = set()
    try:
        mounts = look(mounted, LOOK_S)
    except (Hangs, OSError):
        return found
    for mount in sorted(mounts, key=lambda each: len(each.mount_point)):
        described = _described(mount) if is_served(mount.type) and mount.source not in sources else None
        if described is not None:
            sources.add(mount.source)
            found[mount.mount_point] = described
    return found


def _described(mount: MountFacts) -> dict[str, Any] | None:
    """A mount as a spec has it; None where no kind takes that, or servers are asked and not clients."""
    for name, kind in all_kinds():
        described = {"type": name, "source": mount.source, "path": mount.mount_point}
        if mount.type in kind.kernel_types and not kind.asks_servers:
            with suppress(ValueError):
                kind.spec_model.model_validate(described)
                return described
    return None


def _archives(spec: GridSpec, filesystem: str) -> dict[str, list[int]]:
    """The archives of Lustre's HSM that repositories on a file system are; nothing where none is one."""
    found = [
        archive
        for name, each in spec.repositories.items()
        if spec.libraries[each.library].filesystem == filesystem
        and (archive := spec.hsm_archive(name)) is not None
    ]
    return {"hsm_archives": sorted(found)} if found else {}


def _users(spec: GridSpec, filesystem: str) -> dict[str, list[str]]:
    """The names that repositories on a file system are registered under; nothing where none is."""
    found = [
        user
        for name, each in spec.repositories.items()
        if spec.libraries[each.library].filesystem == filesystem
        and (user := changelog_user(spec, name)) is not None
    ]
    return {"changelog_users": sorted(found)} if found else {}


def health_of_filesystems(
    observation: Observation, run: Run
) -> tuple[dict[str, Sequence[Finding] | str], dict[str, dict[str, str]]]:
    """Of each file system whose servers can be asked: what is wrong, or why they do not answer.

    And the state of each target and server that is not up (`Health.away`). `run` is that of the head node.
    """
    found: dict[str, Sequence[Finding] | str] = {}
    away: dict[str, dict[str, str]] = {}
    for name, filesystem in (observation.spec.filesystems if observation.spec else {}).items():
        kind = kind_of(filesystem)
        if kind.asks_servers:
            try:
                health = kind.server_health(run, _server(observation, name))
            except GridwrightError as error:
                found[name] = str(error)
            else:
                found[name] = health.findings if health is not None else ()
                if health is not None and (states := health.away) is not None:
                    away[name] = states
    return found, away


def search_of_filesystems(
    observation: Observation, run: Run, run_on: RunOn | None = None
) -> dict[str, SearchedFiles]:
    """Of each file system whose servers cannot be asked: what is wrong with files of its libraries.

    `run` is that of the head node, `run_on` that of a machine which has mounted a file system.
    """
    return {
        name: _of_libraries(observation, name, run, run_on)
        for name, filesystem in (observation.spec.filesystems if observation.spec else {}).items()
        if not kind_of(filesystem).asks_servers
    }


def _of_libraries(observation: Observation, filesystem: str, run: Run, run_on: RunOn | None) -> SearchedFiles:
    """What is wrong with files of the libraries on a file system, where it answers.

    Asked on one machine only, as it searches for some seconds: the head node, or, where files have layouts
    and it has not mounted them, a node that has.
    """
    spec = observation.spec
    found: list[Finding] = []
    complete = bool(observation.facts)
    for role, library in (spec.libraries if spec else {}).items():
        looks = [facts.libraries[role] for facts in observation.facts.values() if role in facts.libraries]
        if spec is None or library.filesystem != filesystem:
            continue
        if any(look.hangs for look in looks):
            complete = False
            continue
        # A search would wait for a target that is away, which has been told already.
        if any(
            each.level == "error"
            for facts in observation.facts.values()
            for each in facts.health.get(filesystem, ())
        ):
            complete = False
            continue
        described = spec.filesystems[filesystem]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        if run_on is not None and described.takes_layouts:
            with suppress(GridwrightError):
                run = run_on(described)
        wish = observation.wishes.get(str(role)) or stated_wish(kind, described, str(role), library)
        for search in (partial(directory_findings, kind), kind.library_findings):
            try:
                found += search(described, run, directory, wish)
            except GridwrightError:
                complete = False
    return SearchedFiles(found, complete)


def _server(observation: Observation, filesystem: str) -> str | None:
    """The server that the nodes have mounted it from."""
    if observation.spec is None:
        return None
    kind = kind_of(observation.spec.filesystems[filesystem])
    for facts in observation.facts.values():
        for role, library in observation.spec.libraries.items():
            source = facts.libraries[role].source if role in facts.libraries else None
            if library.filesystem == filesystem and source and (host := kind.server_of_mount(source)):
                return host
    return None
