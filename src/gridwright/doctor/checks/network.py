"""Checks of network cards: they have the speed that was bought, are alike on all nodes, count no errors."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.doctor.check import Judgement, NodeJudgement, Topic, idle, judged, unknown
from gridwright.doctor.checks.nodes import odd_ones
from gridwright.doctor.facts.node_facts import InterfaceFacts, NodeFacts
from gridwright.doctor.instances import instance_of
from gridwright.doctor.observation import Observation
from gridwright.units import format_rate

NETWORK = Topic("Network")
ERRORS_PART = 1e-4
"""Of all packets; fewer are lost whenever a link starts. A choice of ours."""


def _cards(facts: NodeFacts) -> list[InterfaceFacts]:
    return [interface for interface in facts.interfaces or () if interface.real and interface.up]


def _speed(facts: NodeFacts) -> int | None:
    """Of all cards together, in bytes/s; None where one does not tell."""
    speeds = [card.bytes_per_s for card in _cards(facts)]
    known = [speed for speed in speeds if speed is not None]
    return sum(known) if known and len(known) == len(speeds) else None


@NETWORK.check(
    "nic-slow",
    "error",
    "the network cards of a node are slower than its type has",
    reason="All that data, work and util read and write over the network stays below what was planned.",
    source="Linux Documentation/ABI/testing/sysfs-class-net, speed; the catalogue",
    remedy="see ethtool NAME for the speed that was agreed on; see cable, switch and the type of the node",
)
def _slow(observation: Observation) -> Iterator[NodeJudgement]:
    for node, facts in observation.facts.items():
        if facts.interfaces is None:
            yield NodeJudgement((node,), unknown(facts, "interfaces"))
            continue
        speed, instance = _speed(facts), instance_of(observation, node)
        found = format_rate(speed) if speed else "virtual cards, which name no speed"
        if speed is None or instance is None:
            yield NodeJudgement((node,), idle(found))
            continue
        wanted = instance.network.baseline_bytes_per_s
        yield NodeJudgement(
            (node,), judged(speed >= wanted, found, f"{instance.name}: {format_rate(wanted)}")
        )


@NETWORK.check(
    "nic-differs",
    "warning",
    "a node has a slower or faster network than the others",
    reason="A cable or a port that fell back to a lower speed makes one node slow, and every launch with it.",
    source="Linux Documentation/ABI/testing/sysfs-class-net, speed",
    remedy="see ethtool NAME on this node and on another; see cable and switch",
)
def _differs(observation: Observation) -> Iterator[NodeJudgement]:
    def speed(facts: NodeFacts) -> str | None:
        found = _speed(facts)
        return format_rate(found) if found else None

    yield from odd_ones(observation, speed)


@NETWORK.check(
    "mtu-differs",
    "warning",
    "a node has another packet size than the others",
    reason="Large packets are dropped without a word on the way to a node with a smaller size: connections "
    "open and then hang.",
    source="ip-link(8), mtu; EC2 User Guide, Network MTU",
    remedy="set the same MTU on all nodes and servers: ip link set NAME mtu SIZE",
)
def _mtu(observation: Observation) -> Iterator[NodeJudgement]:
    def mtu(facts: NodeFacts) -> str | None:
        sizes = {interface.mtu for interface in facts.interfaces or () if interface.default and interface.mtu}
        return f"MTU {', '.join(map(str, sorted(sizes)))}" if sizes else None

    yield from odd_ones(observation, mtu)


@NETWORK.node_check(
    "nic-errors",
    "warning",
    "network cards of a node have errors",
    section="interfaces",
    reason="Each lost packet halves the rate of a TCP connection, which then grows back slowly.",
    source="Linux Documentation/networking/statistics.rst; RFC 5681, section 3",
    remedy="see which: ip -s -s link show NAME; see cable and switch, and ring sizes (ethtool -g NAME)",
)
def _errors(facts: NodeFacts) -> Judgement:
    wrong = []
    for card in _cards(facts):
        packets = card.counters.get("rx_packets", 0) + card.counters.get("tx_packets", 0)
        errors = sum(card.counters.get(name, 0) for name in ("rx_errors", "rx_missed_errors", "tx_errors"))
        if packets and errors > ERRORS_PART * packets:
            wrong.append(f"{card.name}: {errors} errors in {packets} packets")
    if not _cards(facts):
        return idle("no network cards")
    return judged(not wrong, "; ".join(wrong) or "next to none", "less than one in 10 000 packets")
