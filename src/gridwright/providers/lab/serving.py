"""Brings up the services of a lab, and says which of them serve."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.providers.caller import Caller
from gridwright.providers.lab.cgroups import CgroupSupport
from gridwright.providers.lab.layout import LabLayout
from gridwright.providers.lab.node import nodes_of
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord
from gridwright.providers.lab.service import LabService, RunningLab
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec

_PAUSE_S = 0.02
_ASKED_AT_ONCE = 32
"""Most of the time they wait for daemons, and with a dead file system for seconds."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A service on a node."""

    service: str
    node: str
    lacking: str | None
    """What it lacks, in words; None where it serves."""


def running_lab(record: LabRecord, spec: GridSpec) -> RunningLab:
    """The lab as its services see it."""
    kind, controllers = record.cgroups
    support = CgroupSupport("v1" if kind == "v1" else "v2" if kind == "v2" else "none", controllers)
    return RunningLab(
        spec, record.layout, Places(record.lab), nodes_of(record), support, state_directory(spec)
    )


def services_of(spec: GridSpec, layout: LabLayout) -> list[LabService]:
    """The services of a spec, in the order that they start in."""
    from gridwright.providers.lab.services import services_for

    return services_for(spec, layout)


def serve(
    lab: RunningLab,
    services: Collection[LabService],
    nodes: Collection[str],
    caller: Caller | None = None,
    *,
    wait: bool = True,
) -> None:
    """Start services on nodes, and with `wait` wait until they serve there. Raises GridwrightError."""
    caller = caller or Caller()
    here = [(service, [node for node in service.nodes if node in nodes]) for service in services]
    here = [(service, on) for service, on in here if on]
    for service, on in here:
        caller.go_on()
        service.prepare(lab, on)
    for service, on in here:
        caller.go_on()
        service.start(lab, on)
    if wait:
        wait_until_served(lab, services, nodes, caller)


def wait_until_served(
    lab: RunningLab, services: Collection[LabService], nodes: Collection[str], caller: Caller | None = None
) -> None:
    """Wait until services serve on nodes, each for its own time. Raises GridwrightError."""
    started = time.monotonic()
    for service in services:
        for node in [each for each in service.nodes if each in nodes]:
            _wait_for(lab, service, node, started + service.patience_s, caller or Caller())


def _wait_for(lab: RunningLab, service: LabService, node: str, until: float, caller: Caller) -> None:
    caller.go_on()
    while (lacking := service.lacking(lab, node)) is not None:
        if time.monotonic() > until:
            raise environment_error(
                f"{service.name} does not serve after {service.patience_s:.0f} s: {lacking}",
                where=node,
                remedy=f"see what it wrote: gridwright lab exec {node} -- ls -lR /var/log",
            )
        caller.go_on()
        time.sleep(_PAUSE_S)


def states(
    lab: RunningLab, services: Collection[LabService], *, on: Collection[str] | None = None
) -> list[ServiceState]:
    """How each service stands on each of its nodes that is up, in order; all are asked at the same time.

    `on` limits that to some nodes.
    """
    chosen = lab.nodes.keys() if on is None else lab.nodes.keys() & set(on)
    asked = [(service, node) for service in services for node in service.nodes if node in chosen]

    def ask(pair: tuple[LabService, str]) -> ServiceState:
        service, node = pair
        try:
            lacking = service.lacking(lab, node)
        except GridwrightError as error:
            lacking = error.problems[0].what
        return ServiceState(service.name, node, lacking)

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, asked))


def make_libraries(lab: RunningLab) -> None:
    """Make the directories of the libraries; everybody may write to work and util. Raises GridwrightError."""
    controller = lab.nodes[lab.layout.controller.name]
    by_mode: dict[int, set[str]] = {}
    for name in lab.spec.libraries:
        # A file system that is new may let everybody exchange what lies in its root, as MooseFS does.
        by_mode.setdefault(0o755, set()).add(str(lab.spec.filesystem_of(name).path))
        by_mode.setdefault(LIBRARY_MODES[name], set()).add(str(lab.spec.library_directory(name)))
    for mode, directories in sorted(by_mode.items()):
        done = controller.run(["install", "-d", "-m", f"{mode:04o}", "--", *sorted(directories)])
        if done.status:
            raise GridwrightError(
                Problem(
                    what="the libraries cannot be made: " + done.stderr.decode(errors="replace").strip(),
                    where=controller.name,
                    remedy="see gridwright status: their file system may not be mounted",
                )
            )
