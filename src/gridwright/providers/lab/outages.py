"""Machines of a lab that are off, cut off, or do not serve, as its record and its services tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridwright.providers.lab.layout import LabRole
from gridwright.providers.lab.record import LabRecord, NodeRecord, read
from gridwright.providers.lab.serving import running_lab, services_of, states
from gridwright.providers.outage import MachineOutage
from gridwright.spec.model import GridSpec


def lab_outages(spec: GridSpec) -> list[MachineOutage]:
    """What is wrong, the controller first, then storage nodes. Raises GridwrightError.

    Whether services of storage nodes serve is asked where no machine that these may need is off.
    """
    record = read(spec.name)
    if record is None or not record.is_up:
        return [
            MachineOutage(f"lab {spec.name}", "is not up", "run gridwright up with its spec", is_head=True)
        ]
    found = list(_dark(record, spec))
    if not any(each.is_head or each.serves for each in found):
        found += _not_serving(record, spec)
    return sorted(found, key=lambda each: (not each.is_head, not each.serves))


def _dark(record: LabRecord, spec: GridSpec) -> Iterator[MachineOutage]:
    """Nodes without power or network; those that the scheduler has off are as they should be."""
    powered = spec.powered_nodes()
    for node in record.nodes:
        name = node.plan.name
        if not node.up and name not in powered:
            yield _outage(record, spec, node, "is powered off", f"run gridwright lab power-on {name}")
        elif node.up and node.partitioned:
            cut_off = _outage(record, spec, node, "is cut off the network", f"run gridwright lab heal {name}")
            yield replace(cut_off, is_final=False)


def _not_serving(record: LabRecord, spec: GridSpec) -> Iterator[MachineOutage]:
    """Storage nodes that are up and reached, and one of whose services does not serve."""
    looked_at = {
        node.plan.name: node
        for node in record.nodes
        if node.up and not node.partitioned and node.plan.role == LabRole.STORAGE
    }
    running = running_lab(record, spec)
    mine = [each for each in services_of(spec, record.layout) if set(each.nodes) & set(looked_at)]
    for state in states(running, mine, on=set(looked_at)):
        if state.lacking is not None:
            yield _outage(
                record,
                spec,
                looked_at[state.node],
                f"is up, and its {state.service} does not serve: {state.lacking}",
                "gridwright up with the spec of the lab starts it again",
            )


def _outage(record: LabRecord, spec: GridSpec, node: NodeRecord, state: str, remedy: str) -> MachineOutage:
    serves = tuple(name for name in spec.filesystems if node.plan in record.layout.storage_of(name))
    is_head = node.plan == record.layout.controller
    return MachineOutage(f"node {node.plan.name}", state, remedy, is_head, serves=serves)
