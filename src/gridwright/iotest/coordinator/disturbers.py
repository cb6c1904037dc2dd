"""Tells what disturbed the nodes of a phase, where several of them may be containers of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gridwright.interference.judge import disturbances, on_node
from gridwright.runs.load_record import Interference, NodeLoad


def disturbers(
    loads: Mapping[str, NodeLoad], here: NodeLoad, *, sequential: bool
) -> dict[str, list[Interference]]:
    """What disturbed each node; `here` is the machine of the coordinator.

    A container sees what its machine does, but not who: other nodes of this test on the same machine are no
    disturbers. On the machine of the coordinator it is the coordinator that sees the others.
    """
    found = {}
    for node, load in loads.items():
        beside = sum(
            other.own_s for name, other in loads.items() if name != node and other.machine == load.machine
        )
        seen = load.own_s + load.foreign_s + load.kernel_s
        busy = seen if load.machine == here.machine else max(seen, load.busy_s - beside)
        found[node] = on_node(node, disturbances(replace(load, busy_s=busy), sequential=sequential))
        if load.machine == here.machine:
            known = {each.kind for each in found[node]}
            machine = disturbances(replace(here, devices=[], runs=[]), sequential=sequential)
            found[node] += on_node(node, [each for each in machine if each.kind not in known])
    return found
