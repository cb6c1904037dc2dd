"""Makes the lab's anchor, bridge and nodes, each written down before it does anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from gridwright.providers.caller import Caller
from gridwright.providers.lab import disk, network
from gridwright.providers.lab.birth import NodePlan, start_anchor, start_node
from gridwright.providers.lab.cgroups import ANCHOR, detect, remove
from gridwright.providers.lab.host_python import python_directories
from gridwright.providers.lab.layout import PlannedNode
from gridwright.providers.lab.node_root import RootPlan, SharedDirectory
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord, NodeRecord, write
from gridwright.providers.lab.refusals import refuse_missing
from gridwright.providers.lab.section import Lab
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec
from gridwright.state_parts import make_state


def boot_lab(record: LabRecord, spec: GridSpec, caller: Caller) -> LabRecord:
    """Boot everything of a lab of which nothing runs, new or stopped. Raises GridwrightError, OSError."""
    caller.go_on()
    cgroups = detect()
    tops = tuple(str(top) for top in cgroups.lab_directories(record.lab))
    support = cgroups.support
    record = replace(record, group_tops=tops, cgroups=(support.kind, support.controllers))
    write(record)
    groups = cgroups.make(record.lab, ANCHOR)
    anchor = start_anchor(Path(record.image), groups)
    record = replace(record, anchor=anchor.process, anchor_groups=groups)
    write(record)
    anchor.go()
    anchor.wait_for_exec()
    network.make_bridge(anchor.process.pid)
    caller.go_on()
    powered = spec.powered_nodes()
    return boot_nodes(
        record, spec, [node.plan.name for node in record.nodes if node.plan.name not in powered]
    )


def boot_nodes(record: LabRecord, spec: GridSpec, names: Collection[str]) -> LabRecord:
    """Boot nodes of a lab whose anchor runs; what is left of an earlier life goes first.

    Raises GridwrightError, OSError.
    """
    if record.anchor is None:
        raise ValueError("a node needs the anchor of its lab")
    refuse_missing(record, spec)
    anchor = record.anchor.pid
    planned = [node.plan for node in record.nodes if node.plan.name in names]
    network.disconnect(anchor, planned)
    newborns = []
    disks = []
    for plan in planned:
        remove(top / plan.name for top in map(Path, record.group_tops))
        groups = record.trees.make(record.lab, plan.name)
        root = RootPlan(
            image=Path(record.image),
            changes=Places(record.lab).node(plan.name),
            files={
                "/etc/hostname": f"{plan.name}\n",
                "/etc/hosts": record.layout.hosts_file(),
            },
            shares=_shares(spec),
            disk=_disk(spec, plan),
        )
        disks += [root.disk] if root.disk else []
        prefix = record.layout.prefix_length
        newborn = start_node(anchor, NodePlan(plan.name, plan.address, prefix, root, groups))
        newborns.append((plan, newborn))
        record = record.with_node(NodeRecord(plan, newborn.process, groups))
    write(record)
    for _, newborn in newborns:
        newborn.go()
    born = [(plan, newborn.process.pid) for plan, newborn in newborns]
    network.connect(anchor, born)
    lab = spec.section(Lab)
    if lab is not None and lab.bandwidth is not None:
        network.limit(anchor, born, lab.bandwidth)
    for _, newborn in newborns:
        newborn.wait()
        newborn.go()
    for device in disks:
        # From here on it is there as long as its node has it mounted.
        disk.detach(device)
    for _, newborn in newborns:
        newborn.wait_for_exec()
    return record


def _disk(spec: GridSpec, plan: PlannedNode) -> str | None:
    size = disk.size_of(spec, plan)
    return disk.attach(Places(spec.name).disk(plan.name), size) if size is not None else None


def _shares(spec: GridSpec) -> tuple[SharedDirectory, ...]:
    """What a node sees of this machine; the directories are made."""
    places = Places(spec.name)
    state = state_directory(spec)
    make_state(state)
    shares = [SharedDirectory(path, path, read_only=True) for path in python_directories()]
    shares.append(SharedDirectory(state, state))
    for name, filesystem in spec.filesystems.items():
        if filesystem.is_node_local:
            directory = places.filesystem(name)
            directory.mkdir(parents=True, exist_ok=True)
            shares.append(SharedDirectory(directory, filesystem.path))
    # One within another comes after it, or it would be hidden.
    return tuple(sorted(shares, key=lambda share: len(share.target.parts)))
