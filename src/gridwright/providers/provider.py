"""What every provider is asked: one class, of which each provider's package has one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from gridwright.errors import input_error
from gridwright.spec.provider import ProviderKind

if TYPE_CHECKING:
    from gridwright.catalog import Catalog
    from gridwright.filesystems.resources import Cost
    from gridwright.filesystems.site import Site
    from gridwright.providers.caller import Caller
    from gridwright.providers.read_me import Notes
    from gridwright.providers.rendering import HostMachine, Rendering
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.model import GridSpec


class Result(Protocol):
    """What a verb found or did, which prints itself in two ways."""

    def document(self) -> Mapping[str, Any]:
        """In plain values, without the keys schema and command."""

    def text(self) -> str:
        """For people, on one line or several."""


class Status(Result, Protocol):
    """How a grid stands."""

    @property
    def state(self) -> str:
        """In a word; `not-up` where there is nothing of it."""

    @property
    def whole(self) -> bool:
        """Whether everything is there and well."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What `down` would do, to be looked at before it is done."""

    question: str | None
    """What goes and what stays, told before it is asked; None where nothing is to be asked."""
    carry_out: Callable[[Caller], Result]
    """Does it. Raises GridwrightError naming what is left."""
    is_long: bool = False
    """Whether it takes so long that it tells how it goes, and can be interrupted between steps."""


class Provider(ProviderKind):
    """Makes the nodes of grids, tells how they stand, and takes them away.

    What stands here is right for a provider whose machines are there already: nothing is made or removed,
    and the machine that Gridwright runs on is the head node.
    """

    reaches_nodes: ClassVar[bool] = True
    """Whether nodes can be reached; else the machine that runs a command is looked at in their place."""

    def head_node(self, spec: GridSpec) -> HeadNode:
        """How to reach the head node of a grid from here.

        Raises GridwrightError (ENVIRONMENT) where the grid, or its head node, is not up.
        """
        from gridwright.schedulers.head_node import LocalHeadNode

        return LocalHeadNode()

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """Every file of a grid that can be made before it exists; the same arguments give the same bytes.

        `machine` is the one that Gridwright runs on. Raises GridwrightError (INPUT) for what cannot be
        built as it is written.
        """
        from gridwright.providers.rendering import render_playbook

        return render_playbook(self, spec, machine, release)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """The nodes that the playbook sets up, by what they are there for; `machine` is the name of this one.

        Servers of file systems are among them where the provider makes these.
        """
        from gridwright.setup.playbook import Hosts

        return Hosts.named(
            compute=[node for name, group in spec.nodes.items() for node in group.node_names(name)]
        )

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """The machines that its scheduler is set up for. Raises GridwrightError (INPUT)."""
        from gridwright.providers.machines import machines_like

        return machines_like(spec, machine)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """What README.md of a rendered grid says of this provider."""
        from gridwright.providers.read_me import Notes

        return Notes()

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> Result:
        """Make the grid; called again, mend or change it. `replace` names file systems that may be emptied.

        Raises GridwrightError.
        """
        self.refuse(spec, "up")

    def status(self, spec: GridSpec) -> Status:
        """How the grid stands; nothing is changed. Raises GridwrightError."""
        self.refuse(spec, "status")

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take it away; `delete_data` names file systems that go with their data.

        Nothing is changed yet. Raises GridwrightError.
        """
        self.refuse(spec, "down")

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """See gridwright.model.seller.Seller."""
        return ()

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """See gridwright.model.seller.Seller."""
        return ()

    def report_not_offered(self, site: Site) -> None:
        """See gridwright.model.seller.Seller."""

    def found_here(self) -> list[str]:
        """Names of its grids on this machine, whether their specs are at hand or not."""
        return []

    def status_of(self, name: str) -> Status:
        """How a grid stands that `found_here` names. Raises GridwrightError."""
        raise NotImplementedError(name)

    def removal_of(self, name: str) -> Removal:
        """How to take a grid away that `found_here` names. Raises GridwrightError."""
        raise NotImplementedError(name)

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): this provider can do nothing about a verb."""
        raise input_error(
            f"this release does not make grids of provider {self.name}",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright plan and predict work for it; write provider: lab for a lab on this machine",
        )


if TYPE_CHECKING:
    from gridwright.model.seller import Seller

    _SELLS: type[Seller] = Provider
