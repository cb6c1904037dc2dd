"""Faults on purpose: nodes of a lab are powered off and on, cut off from the others, and healed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab import cgroups, network
from gridwright.providers.lab.boot import boot_nodes
from gridwright.providers.lab.node import node_is_down
from gridwright.providers.lab.processes import end_all
from gridwright.providers.lab.record import LabRecord, locked, read, write
from gridwright.providers.lab.serving import running_lab, serve, services_of, wait_until_served
from gridwright.providers.lab.spec_copy import deployed_spec
from gridwright.providers.lab.teardown import PATIENCE_S

Say = Callable[[str], None]


def lab_is_not_up(lab: str) -> GridwrightError:
    """The error for a lab that is not up."""
    return environment_error(f"lab {lab} is not up", remedy="run gridwright up FILE with its grid spec")


def record_of(lab: str) -> LabRecord:
    """The record of a lab that is up. Raises GridwrightError."""
    record = read(lab)
    if record is None or not record.is_up:
        raise lab_is_not_up(lab)
    return record


@contextmanager
def _changing(lab: str) -> Iterator[LabRecord]:
    record_of(lab)  # asked before the lock, which makes a file
    with locked(lab):
        yield record_of(lab)


def power_off(lab: str, name: str) -> bool:
    """Kill everything on a node at once; False where it was off. Raises GridwrightError."""
    with _changing(lab) as record:
        node = record.node(name)
        if node.process is None or not node.up:
            return False
        if end_all([node.process], seconds=PATIENCE_S):
            raise environment_error(
                f"node {name} does not end",
                remedy="a process of it waits for a disk or file system that does not answer",
            )
        if record.anchor is not None:
            network.disconnect(record.anchor.pid, [node.plan])
        cgroups.remove(Path(top) / name for top in record.group_tops)
        write(record.with_node(replace(node, process=None, partitioned=False)))
    return True


def power_on(lab: str, name: str, *, wait: bool = True) -> bool:
    """Boot a node and start its services; False where it was on. Raises GridwrightError.

    With `wait` they have to serve, and those of nodes behind the controller are waited for, too. For a node
    that its scheduler powers, the scheduler waits.
    """
    with _changing(lab) as record:
        if record.node(name).up:
            return False
        spec = deployed_spec(record)
        try:
            running = running_lab(boot_nodes(record, spec, [name]), spec)
            serve(
                running,
                services_of(spec, record.layout),
                [name],
                wait=wait and name not in spec.powered_nodes(),
            )
        except OSError as error:
            raise environment_error(
                f"node {name} cannot be powered on: {error}", remedy="mend that, and power it on again"
            ) from error
    if wait:
        _wait_for_those_behind(lab, name)
    return True


def partition(lab: str, name: str, *, heal: bool) -> bool:
    """Cut a node off the network of the lab, or heal that; False where it was so. Raises GridwrightError.

    A healed node serves again when this returns, and the scheduler has it as a node that takes jobs.
    """
    with _changing(lab) as record:
        node = record.node(name)
        if not node.up:
            raise node_is_down(lab, name)
        if node.partitioned is not heal:
            return False
        if record.anchor is not None:
            # Written first: a node that may be cut off is healed by the next command that is asked to.
            write(record.with_node(replace(node, partitioned=True)))
            network.partition(record.anchor.pid, [node.plan], heal=heal)
            write(record.with_node(replace(node, partitioned=not heal)))
    if heal:
        _wait_until_served(lab, [name])
        _wait_for_those_behind(lab, name)
    return True


def _wait_for_those_behind(lab: str, name: str) -> None:
    """Wait until nodes serve again that a controller which is back had lost.

    One that its scheduler has drained does not, and is no fault of the controller's.
    """
    record = record_of(lab)
    if name == record.layout.controller.name:
        powered = deployed_spec(record).powered_nodes()
        with contextlib.suppress(GridwrightError):
            _wait_until_served(lab, [each.name for each in record.layout.nodes if each.name not in powered])


def _wait_until_served(lab: str, nodes: Collection[str]) -> None:
    """Wait until services of nodes serve that are up and connected. Raises GridwrightError.

    Other commands may change the lab meanwhile: it is not locked.
    """
    record = record_of(lab)
    spec = deployed_spec(record)
    here = {node.plan.name for node in record.nodes if node.up and not node.partitioned}
    wait_until_served(running_lab(record, spec), services_of(spec, record.layout), here & set(nodes))
