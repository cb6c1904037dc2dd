"""A node of a cloud whose machines no catalogue lists, as a type of machine that the grid spec describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from gridwright.catalog.facts import Source
from gridwright.catalog.instances import InstanceType, Network, Provider
from gridwright.errors import GridwrightError, Problem
from gridwright.spec.locate import problem_at

if TYPE_CHECKING:
    from gridwright.providers.predicted_nodes import PredictedNodes
    from gridwright.spec.model import GridSpec

STATED = Source("the grid spec", "")


def described_node(spec: GridSpec, nodes: PredictedNodes) -> tuple[InstanceType, float]:
    """Return the type of node that the spec describes, and its USD per hour.

    Nothing is known of its own disks and of volumes at it. Raises GridwrightError that names everything a
    plan has to know and the spec does not say.
    """
    problems = list(_missing(spec, nodes))
    if problems:
        raise GridwrightError(*problems)
    (group,) = spec.nodes.values()
    network = float(nodes.node_network.bytes_per_s if nodes.node_network else 0)
    cores, name = group.cores or 0, nodes.machine or "nodes"
    return InstanceType(
        name=name,
        provider=cast("Provider", spec.provider),
        family=name,
        cores=cores,
        vcpus=2 * cores,
        memory_bytes=int(group.memory or 0),
        architecture=(spec.requirements.architecture if spec.requirements else None) or "x86_64",
        network=Network(network, network),
        ebs=None,
        instance_store=None,
        current=True,
        placement_bytes_per_s=None,
        accelerators=0,
        bare_metal=False,
        burstable_cpu=False,
        source=STATED,
    ), nodes.node_price or 0.0


def _missing(spec: GridSpec, nodes: PredictedNodes) -> Iterator[Problem]:
    why = f"a plan has to know it: the catalogue has no machines of {spec.provider}"
    for field, value, example in (
        ("node_price", nodes.node_price, "2.30 USD/h"),
        ("node_network", nodes.node_network, "2 GB/s"),
    ):
        if value is None:
            yield problem_at(
                spec, (spec.provider, field), f"no {field} is written, and {why}", f"add {field}: {example}"
            )
    requirements = spec.requirements
    bounds = requirements.nodes.memory if requirements else None
    asked = requirements is not None and requirements.memory_per_core is not None
    asked = asked or (bounds is not None and (bounds.least, bounds.most) != (None, None))
    for name, group in spec.nodes.items():
        if asked and group.memory is None:
            path = ("nodes", str(name), "memory")
            yield problem_at(
                spec, path, f"the memory of the nodes is not written, and {why}", "add memory: 256 GiB"
            )
