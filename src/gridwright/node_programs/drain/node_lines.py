"""Keeps what slurm.conf says of a node's hardware until the node is the machine that it says.

slurmctld ends jobs on a node whose sockets or cores are others in slurm.conf when it starts anew ("Aborting
JobId due to change in socket/core configuration of allocated nodes", 22.05.8), and drains a node that has
less than is written. While nodes of another type come in one after the other, each has the line of what it
is at the moment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from gridwright.node_programs.drain.host_lists import names_of

MOST_NAMES = 50
"""In one line: slurm.conf is read with a buffer of 4096 characters for each."""
_LINE = re.compile(r"^NodeName=(\S+)(.*)$")


def hardware(text: str) -> dict[str, str]:
    """What stands behind each node's name in a slurm.conf. Raises ValueError for a list that is none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if (seen := _LINE.match(line)) is not None:
            found.update(dict.fromkeys(names_of(seen[1]), seen[2].strip()))
    return found


def retain_hardware(desired: str, there: str, held: Collection[str]) -> str:
    """The desired slurm.conf, in which nodes that are held keep the hardware of the existing one.

    Raises ValueError where one of them has a list of nodes that is none.
    """
    old, new = hardware(there), hardware(desired)
    kept = {name: old[name] for name in new if name in held and name in old and old[name] != new[name]}
    if not kept:
        return desired
    lines: list[str] = []
    for line in desired.splitlines():
        seen = _LINE.match(line)
        if seen is None:
            lines.append(line)
            continue
        alike: dict[str, list[str]] = {}
        for name in names_of(seen[1]):
            alike.setdefault(kept.get(name, seen[2].strip()), []).append(name)
        lines += _written(alike, seen[1])
    return "\n".join(lines) + "\n"


def _written(alike: Mapping[str, list[str]], all_names: str) -> list[str]:
    if len(alike) == 1:
        return [f"NodeName={all_names} {rest}" for rest in alike]
    return [
        f"NodeName={','.join(names[start : start + MOST_NAMES])} {rest}"
        for rest, names in alike.items()
        for start in range(0, len(names), MOST_NAMES)
    ]
