"""Decides what Slurm is to be told of nodes. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gridwright.node_programs.power.nodes import OWN, PowerNode

LONGEST_REASON = 200


@dataclass(frozen=True)
class NodeOrder:
    """A state that Slurm is to give a node."""

    node: str
    state: str
    """A word of scontrol(1)."""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.node}: {self.state}" + (f": {self.reason}" if self.reason else "")


def orders(
    nodes: Mapping[str, PowerNode],
    always_on: Collection[str],
    failed: Mapping[str, str],
    now: float,
    again_s: float,
) -> Iterator[NodeOrder]:
    """What to tell Slurm, in order: `failed` has nodes that cannot be had now, and why.

    A node that was given up can be had again `again_s` seconds later; until then jobs start elsewhere.
    """
    for name, node in nodes.items():
        if name in failed and name not in always_on and node.is_desired:
            yield NodeOrder(name, "DOWN", reason_of(failed[name]))
            # Else Slurm would write its own "ResumeTimeout reached" over the reason, some minutes later.
            yield NodeOrder(name, "POWER_DOWN")
        elif node.is_given_up:
            waited = node.since is None or now - node.since >= again_s or now < node.since
            if not node.is_off:
                yield NodeOrder(name, "POWER_DOWN")
            elif waited and "POWERED_DOWN" in node.flags:
                yield NodeOrder(name, "RESUME")
        elif name in always_on and "POWERED_DOWN" in node.flags and "DRAIN" not in node.flags:
            yield NodeOrder(name, "POWER_UP")


def reason_of(why: str) -> str:
    """The reason of a node that cannot be had, in one line that Slurm and people can read."""
    text = "".join(each if each.isprintable() and each not in "\"'`\\[]" else " " for each in why)
    return (OWN + " ".join(text.split()))[:LONGEST_REASON]
