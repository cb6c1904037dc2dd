"""The provider `toy`: a box beside the machine that Gridwright runs on, with a lamp for each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gridwright.api import (
    Change,
    Directory,
    FieldError,
    Provider,
    ProviderSection,
    Refused,
    Removal,
    SpecModel,
    Update,
)

if TYPE_CHECKING:
    from gridwright.api import Caller, GridSpec, Hosts, Notes, SchedulerSetup

MOST_LAMPS = 8


class Toy(SpecModel):
    """The section `toy` of a grid spec."""

    box: Annotated[Directory, Update(Change.REBUILD, "lamps do not move between boxes")] = Field(
        description="The directory of the box."
    )
    colour: Annotated[Literal["green", "amber"], Update(Change.LIVE, "lamps change at once")] = Field(
        default="green", description="The colour of a lamp that is on: green or amber."
    )


@dataclass(frozen=True, slots=True)
class ToyStatus:
    """How the lamps of a grid stand."""

    lamps: Mapping[str, str]
    """Colour by node; empty where the grid is not up."""

    @property
    def state(self) -> str:
        """In a word."""
        return "up" if self.lamps else "not-up"

    @property
    def whole(self) -> bool:
        """Whether it is up."""
        return bool(self.lamps)

    def document(self) -> dict[str, Any]:
        """In plain values."""
        return {"state": self.state, "lamps": dict(self.lamps)}

    def text(self) -> str:
        """A line for each lamp."""
        return "\n".join(f"{node}: {colour}" for node, colour in self.lamps.items()) or "the box is dark"


@dataclass(frozen=True, slots=True)
class ToyDown:
    """Lamps that were put out."""

    nodes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """In plain values."""
        return {"put_out": list(self.nodes)}

    def text(self) -> str:
        """One line."""
        return f"put out: {', '.join(self.nodes) or 'nothing'}"


class ToyProvider(Provider):
    """Switches on a lamp for each node; the nodes are this machine."""

    name = "toy"
    section = ProviderSection(
        Toy, "What only provider toy has.", Update(Change.REBUILD, "lamps are switched anew")
    )
    metadata_service = None
    is_this_machine = True

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """The section is needed, and a box has room for so many lamps."""
        if "toy" not in data:
            yield (), "toy"
        groups = data.get("nodes")
        for name, group in groups.items() if isinstance(groups, Mapping) else ():
            count = group.get("count", 1) if isinstance(group, Mapping) else 1
            if isinstance(count, int) and count > MOST_LAMPS:
                yield (
                    ("nodes", name, "count"),
                    FieldError(f"a box has room for {MOST_LAMPS} lamps", f"write {MOST_LAMPS} or less"),
                )

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """The machine that Gridwright runs on."""
        from gridwright.api import Hosts

        return Hosts.this_machine(machine)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """Where the box stands."""
        from gridwright.api import Notes

        return Notes(at_end=f"The lamps of this grid are in {_box(spec)}.")

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> ToyStatus:
        """Switch the lamps on; called again, nothing changes but their colour."""
        toy = spec.section(Toy)
        box = _box(spec)
        box.mkdir(parents=True, exist_ok=True)
        for name, group in spec.nodes.items():
            for node in group.node_names(name):
                caller.say(f"switching on {node}")
                (box / node).write_text(toy.colour if toy else "green")
        return self.status(spec)

    def status(self, spec: GridSpec) -> ToyStatus:
        """Which lamps are on."""
        box = _box(spec)
        return ToyStatus({each.name: each.read_text() for each in sorted(box.glob("*"))})

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to put the lamps out."""
        return Removal(None, lambda caller: _put_out(_box(spec), caller))


def _box(spec: GridSpec) -> Path:
    toy = spec.section(Toy)
    if toy is None:
        raise ValueError("a spec of provider toy has a section toy")
    return toy.box / spec.name


def _put_out(box: Path, caller: Caller) -> ToyDown:
    lamps = sorted(box.glob("*"))
    for lamp in lamps:
        caller.say(f"putting out {lamp.name}")
        lamp.unlink()
    if box.is_dir():
        box.rmdir()
    return ToyDown(tuple(lamp.name for lamp in lamps))


PROVIDER = ToyProvider()
