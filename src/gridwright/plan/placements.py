"""Where the libraries of a grid may live, one placement after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from gridwright.plan.needs import Needs
from gridwright.plan.node_side import Place, Placement


def placements(needs: Needs) -> Iterator[Placement]:
    """Every placement; new file systems for data are shared by all nodes."""
    libraries = list(needs.libraries)
    for chosen in product(*(_homes(needs, name) for name in libraries)):
        together = dict(zip(libraries, chosen, strict=True))
        places = {name: place for name, (place, _) in together.items()}
        yield Placement.of(needs, places, {name: home for name, (_, home) in together.items() if home})


def _homes(needs: Needs, library: str) -> list[tuple[Place, str]]:
    """Where a library may live: a place, and the name of a kept file system or nothing."""
    given, losses = needs.given, needs.requirements.availability
    kept: dict[str, tuple[Place, str]] = {
        name: ("kept-local" if each.is_node_local else "kept", name)
        for name, each in given.filesystems.items()
    }
    if library in given.homes:
        return [kept[given.homes[library]]]
    if library == "data":
        return [("shared", ""), *(each for each in kept.values() if each[0] == "kept")]
    own: list[Place] = ["shared", "scratch", "volumes"]
    if losses.lose_work_with_node and not given.is_on_instance_stores:
        own.append("instance-store")
    return [*((place, "") for place in own), *kept.values()]
