"""Finds what a grid misses beside rates: room, cores, memory, budget, kind of nodes, and what may be lost."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.catalog import InstanceType
from gridwright.errors import Finding
from gridwright.model.alike_nodes import AlikeNodes
from gridwright.model.grid import GridModel
from gridwright.spec.requirements import Availability, Requirements
from gridwright.units import Bytes, format_bytes


def missed(model: GridModel) -> Iterator[Finding]:
    """Findings that make a grid miss its requirements, whatever its rates."""
    yield from _capacity_short(model)
    if model.spec.requirements is not None:
        yield from _size(model, model.spec.requirements)
        for instance in {
            each.instance.name: each.instance for each in model.groups if each.instance
        }.values():
            yield from _kind_of_nodes(instance, model.spec.requirements)
        yield from _losses(model, model.spec.requirements.availability)


def _size(model: GridModel, requirements: Requirements) -> Iterator[Finding]:
    if requirements.cores is not None and model.cores < requirements.cores:
        yield Finding(
            "warning",
            "cores-short",
            f"the nodes have {model.cores} physical cores, and {requirements.cores} are required",
            "Add nodes, or choose a larger type",
        )
    for group in model.groups:
        yield from _memory_short(group, requirements)
    if requirements.budget is not None and (model.usd_per_hour or 0) > requirements.budget:
        yield Finding(
            "warning",
            "over-budget",
            f"the grid costs {model.usd_per_hour:.2f} USD/h, the budget is {requirements.budget:.2f} USD/h",
            "Run gridwright plan for the cheapest grid that meets the requirements",
        )


def _memory_short(group: AlikeNodes, requirements: Requirements) -> Iterator[Finding]:
    wanted, memory = requirements.memory_per_core, group.memory_bytes_per_node
    if wanted is not None and memory is not None and memory / group.cores_per_node < wanted:
        yield Finding(
            "warning",
            "memory-short",
            f"each core has {format_bytes(memory / group.cores_per_node)} of memory, {wanted} is required",
            "Choose a type with more memory per core, such as one of a family r",
        )


def _kind_of_nodes(instance: InstanceType, requirements: Requirements) -> Iterator[Finding]:
    families = requirements.families
    if requirements.architecture not in (None, instance.architecture):
        yield Finding(
            "warning",
            "other-architecture",
            f"{instance.name} is {instance.architecture}, and {requirements.architecture} is required",
            f"Choose a type that is {requirements.architecture}",
        )
    if (families.allow and instance.family not in families.allow) or instance.family in families.forbid:
        yield Finding(
            "warning",
            "family-not-allowed",
            f"{instance.name} is of family {instance.family}, which the requirements do not allow",
            "Choose a type of another family, or change requirements.families",
        )


def _losses(model: GridModel, may: Availability) -> Iterator[Finding]:
    """What a library loses with a server or a node that it must not lose."""
    for name, library in model.libraries.items():
        contribution = model.contributions[library.filesystem]
        if name == "data" and not contribution.outlives_node and not may.lose_data_with_server:
            what = f"library data is on {library.filesystem}, disks of a node: it is lost with the node"
        elif name == "data" and not contribution.outlives_server and not may.lose_data_with_server:
            what = f"library data is on {library.filesystem}: it is lost with one of its servers"
        elif name != "data" and not contribution.outlives_node and not may.lose_work_with_node:
            what = f"library {name} is on {library.filesystem}, disks of a node: it is lost with the node"
        else:
            continue
        yield Finding(
            "warning",
            "not-durable",
            f"{what}, and the requirements do not allow that",
            f"Move library {name} to storage that outlives it, or change requirements.availability",
        )


def _capacity_short(model: GridModel) -> Iterator[Finding]:
    for name, contribution in model.contributions.items():
        wanted = [
            library.capacity
            for library in model.spec.libraries.values()
            if library.filesystem == name and library.capacity is not None
        ]
        if contribution.capacity_bytes is not None and sum(wanted) > contribution.capacity_bytes:
            yield Finding(
                "warning",
                "capacity-short",
                f"libraries on {name} need {Bytes(sum(wanted))}, and it holds "
                f"{format_bytes(contribution.capacity_bytes)}",
                f"Make {name} larger, or move a library",
            )
