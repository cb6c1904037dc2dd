"""Servers whose daemon runs with other settings than the cluster has, started again one after the other.

A daemon reads some settings when it starts (IBM Storage Scale, mmchconfig command). Never are both servers of
a pair down, nor so many quorum nodes that the cluster stops. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from gridwright.filesystems.scale.administration.applying import Administration
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.naming import same_value
from gridwright.filesystems.scale.administration.observed import ObservedCluster
from gridwright.filesystems.scale.administration.order import ScaleCommand, mm

AT_START = ("pagepool", "maxFilesToCache", "maxMBpS", "workerThreads", "numaMemoryInterleave")
"""Settings that are held against those of daemons; a name that a daemon does not tell is passed over."""
Outdated = Mapping[str, "tuple[str, ...]"]
"""Servers with the settings that their daemons have otherwise."""


def running_values(printed: str) -> dict[str, str]:
    """Out of `mmdiag --config`: a name and its value on each line, behind a ! where it is no default."""
    found = re.findall(r"^[ \t!]*([A-Za-z]\w*)[ \t]+(\S+)[ \t]*$", printed, re.MULTILINE)
    return dict(found)


def outdated(desired: ScaleCluster, observed: ObservedCluster, administration: Administration) -> Outdated:
    """Servers that work, and whose daemons have other settings. What does not answer is passed over."""
    asked = [name for name in desired.servers if name in observed.active]
    return {
        name: lacking
        for name, printed in administration.configurations(asked).items()
        if (lacking := tuple(_differing(desired, name, running_values(printed))))
    }


def _differing(desired: ScaleCluster, server: str, running: Mapping[str, str]) -> Iterator[str]:
    for setting in desired.settings:
        concerned = setting.node_class is None or server in desired.node_classes.get(setting.node_class, ())
        if concerned and setting.parameter in AT_START and setting.parameter in running:
            there = running[setting.parameter]
            if not same_value(there, setting.value) and not _same_truth(there, setting.value):
                yield setting.parameter


def _same_truth(one: str, other: str) -> bool:
    true, false = {"yes", "1", "on"}, {"no", "0", "off"}
    return any({one.lower(), other.lower()} <= each for each in (true, false))


def restart_commands(server: str, filesystems: Collection[str]) -> Iterator[ScaleCommand]:
    """Unmount, stop, start and mount on one server."""
    yield mm("mmumount", "all", "-N", server, why=f"{server} starts again", limit_s=900.0)
    yield mm("mmshutdown", "-N", server, why=f"{server} starts again, alone", limit_s=900.0)
    yield mm("mmstartup", "-N", server, why=f"start {server} with its new settings")
    for name in filesystems:
        yield mm("mmmount", name, "-N", server, why=f"mount {name} on {server} again", limit_s=900.0)


def restart(
    desired: ScaleCluster, administration: Administration, done: list[ScaleCommand], servers: Sequence[str]
) -> None:
    """Start servers again, each when all others are as they should be. Raises ScaleError, with the rest left.

    A server that has the old value afterwards is the last one: the others would not take it, either.
    """
    nodes = [node.name for node in desired.nodes]
    for server in servers:
        observed = administration.observe(nodes)
        if why := in_the_way(server, desired, observed, administration.disks_away(observed.filesystems)):
            raise ScaleError(f"{server} does not start again now: {why}")
        for command in restart_commands(server, observed.filesystems):
            administration.carry_out(command)
            done.append(command)
            if command.name == "mmstartup":
                administration.wait_until_active([server])
        if still := outdated(desired, administration.observe(nodes), administration).get(server):
            raise ScaleError(
                f"{server} started again, and has {', '.join(still)} otherwise than the cluster all the "
                "same: no other server was touched; see mmdiag --config there"
            )


def in_the_way(
    server: str, desired: ScaleCluster, observed: ObservedCluster, away: Collection[str]
) -> str | None:
    """Why a server must not stop now; None where nothing speaks against it."""
    if away:
        return f"disk {sorted(away)[0]} is not up, and its other server may be the only way to a copy"
    left = observed.active - {server}
    for nsd in desired.nsds:
        if server in nsd.servers and len(nsd.servers) > 1 and not left.intersection(nsd.servers):
            return f"its pair is not active, and NSD {nsd.name} would have no server"
    voters = {name for name, node in observed.nodes.items() if node.is_quorum}
    votes = voters & left
    decided = bool(observed.tiebreakers and votes)
    if server in voters and 2 * len(votes) <= len(voters) and not decided:
        return f"the cluster would have {len(votes)} of {len(voters)} votes, and stop"
    return None


def restart_notes(servers: Outdated) -> Iterator[str]:
    """What needs somebody's decision, where they are not started again."""
    for name, settings in servers.items():
        yield (
            f"the daemon of {name} has {', '.join(settings)} otherwise until it starts again: run it with "
            "--may-restart, which starts servers again one after the other"
        )
