"""Looks up the facts of a node, on it: `python -m gridwright.doctor.facts.gather` reads a request.

Request (JSON on stdin): a `FactsRequest`. Nothing is changed but for empty files in each library, which are
the test of whether it can be written to and locked: their names are removed at once, and so are those that a
look which was killed has left. What may hang, may be secret, or fails is looked at in a child of its own, all
at the same time.
Nothing is imported that is slow to start.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from gridwright import __version__
from gridwright.bounded import Hangs, Looker, look, look_at_all
from gridwright.doctor.facts import clock as clock_facts
from gridwright.doctor.facts import (
    commands,
    disks,
    health,
    kernel_log,
    kernels,
    libraries,
    machine,
    mounted,
    network,
    scratch,
    services,
    settings,
)
from gridwright.doctor.facts.node_facts import LibraryFacts, MountFacts, NodeFacts
from gridwright.doctor.messages import FactsRequest
from gridwright.messages import MessageError, decode, encode

LOOK_S = 4.0
"""How long a file system may take to answer before it counts as hanging."""
HEALTH_S = 12.0
"""How long a file system may take to tell how it is: servers are slower than disks."""


_SECTIONS: Mapping[str, Looker] = {
    "system": machine.system,
    "names": machine.names,
    "processors": machine.processors,
    "memory": machine.memory,
    "disks": disks.disks,
    "arrays": disks.arrays,
    "interfaces": network.interfaces,
    "clock": clock_facts.clock,
    "kernel_log": kernel_log.kernel_log,
    "services": services.services,
    "scratch": scratch.scratch,
    "kernels": kernels.kernels,
}
_SETTINGS = {
    "sysctl": settings.sysctl,
    "sysfs": settings.sysfs,
    "limit": settings.limit,
    "service": commands.unit,
}
_LIBRARY, _LOCKS, _MOUNT, _SETTING, _HEALTH = "library:", "locks:", "mount:", "settings:", "health:"
_LEFT = "left:"


def gather(request: FactsRequest) -> NodeFacts:
    """Look at this node, and at what is asked for.

    Takes LOOK_S where something hangs, and HEALTH_S where a file system of the spec does.
    """
    try:
        mounts = look(mounted.mounted, LOOK_S)
    except (Hangs, OSError):
        mounts = []
    lookers = _lookers(request, mounts)
    longer = {_HEALTH + name: HEALTH_S for name in request.filesystems}
    seen = look_at_all(lookers, LOOK_S, longer)
    views = _of_kind(seen, _HEALTH)
    return NodeFacts(
        hostname=socket.gethostname(),
        version=__version__,
        time=time.time(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        libraries={name: _library(path, name, seen) for name, path in request.libraries.items()},
        mounts=[_mount(mount, seen[_MOUNT + mount.mount_point]) for mount in mounts]
        if _is_wanted(request, "mounts")
        else None,
        tuned=settings.tuned() if _is_wanted(request, "tuned") else None,
        settings=_of_kind(seen, _SETTING),
        health={name: each.findings for name, each in views.items()},
        targets_away={name: each.away for name, each in views.items() if each.away is not None},
        unknown={
            name: _why(each)
            for name, each in seen.items()
            if isinstance(each, Exception) and not name.startswith(_LEFT)
        },
        **{name: seen[name] for name in _SECTIONS if name in seen and not isinstance(seen[name], Exception)},
    )


def _is_wanted(request: FactsRequest, section: str) -> bool:
    return request.sections is None or section in request.sections


def _lookers(request: FactsRequest, mounts: Iterable[MountFacts]) -> dict[str, Looker]:
    """What to look at, each with its name."""
    lookers = {name: each for name, each in _SECTIONS.items() if _is_wanted(request, name)}
    for name, path in request.libraries.items():
        lookers[_LIBRARY + name] = partial(libraries.library, Path(path))
        lookers[_LOCKS + name] = partial(libraries.locks, Path(path))
        lookers[_LEFT + name] = partial(libraries.remove_left, Path(path))
    for mount in mounts if _is_wanted(request, "mounts") else ():
        lookers[_MOUNT + mount.mount_point] = partial(mounted.with_usage, mount)
    for kind, keys in request.settings.items():
        if kind in _SETTINGS:
            lookers[_SETTING + kind] = partial(settings.values, _SETTINGS[kind], keys)
    for kind, asked in request.commands.items():
        lookers[_SETTING + kind] = partial(_printed, asked)
    for name, described in request.filesystems.items():
        lookers[_HEALTH + name] = partial(health.health, described)
    return lookers


def _printed(asked: Mapping[str, list[str]]) -> dict[str, str | None]:
    return settings.values(lambda key: commands.printed(asked[key]), asked)


def _of_kind(seen: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        name.removeprefix(kind): found
        for name, found in seen.items()
        if name.startswith(kind) and not isinstance(found, Exception)
    }


def _why(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)


def _library(path: str, name: str, seen: Mapping[str, Any]) -> LibraryFacts:
    found, locks = seen[_LIBRARY + name], seen[_LOCKS + name]
    if isinstance(found, Hangs):
        return LibraryFacts(path, hangs=True)
    if isinstance(found, OSError):
        return LibraryFacts(path, missing=found.strerror)
    if found.refused or isinstance(locks, OSError):
        locks = None
    elif isinstance(locks, Hangs):
        # A target that is away is no want of locks.
        return replace(cast("LibraryFacts", found), locks=None, hangs=True)
    return replace(cast("LibraryFacts", found), locks=locks)


def _mount(mount: MountFacts, seen: MountFacts | Hangs | OSError) -> MountFacts:
    if isinstance(seen, Hangs):
        return replace(mount, hangs=True)
    if isinstance(seen, OSError):
        # A mount below a directory that is closed to us is nothing to worry about.
        return mount if isinstance(seen, PermissionError) else replace(mount, broken=seen.strerror)
    return seen


def main() -> None:
    """Answer one request."""
    try:
        request = decode(sys.stdin.read(), FactsRequest)
    except MessageError as error:
        sys.exit(f"the request is not as agreed: {error}: install the same gridwright on all nodes")
    print(encode(gather(request)).decode())  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
