"""What every provider is asked: one class, of which each provider's package has one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from gridwright.errors import input_error
from gridwright.spec.provider import ProviderKind

if TYPE_CHECKING:
    from gridwright.catalog import Catalog, InstanceType
    from gridwright.filesystems.resources import Cost
    from gridwright.filesystems.site import Site
    from gridwright.providers.caller import Caller
    from gridwright.providers.linked import LinkedRepository
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.outage import MachineOutage
    from gridwright.providers.preflight import Preflight
    from gridwright.providers.read_me import Notes
    from gridwright.providers.rendering import Rendering
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.linked import LinkedDirectory
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


@dataclass(frozen=True, slots=True)
class GridHere:
    """A grid by name, and what can be done about it, with its spec or without."""

    name: str
    status: Callable[[], Status]
    """How it stands. Raises GridwrightError."""
    removal: Callable[[frozenset[str]], Removal]
    """How to take it away, with the data of the file systems that are named. Raises GridwrightError."""
    spec: Callable[[], GridSpec]
    """The spec that it was made from. Raises GridwrightError."""
    enter: Callable[[str, Sequence[str]], int] | None = None
    """Runs a command on a node, see Grid.enter; None where ssh does. Raises GridwrightError."""


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

        `machine` is the one that Gridwright runs on; `release` is the one of the grid's scheduler, None for
        the oldest that is known. Raises GridwrightError (INPUT) for what cannot be built as it is written.
        """
        from gridwright.providers.rendering import render_playbook
        from gridwright.schedulers import kind_of

        setup = kind_of(spec.scheduler).setup(spec, lambda: self.machines(spec, machine), release)
        hosts = self.hosts(spec, machine.hardware.name)
        return render_playbook(spec, setup, hosts, self.notes(spec, setup))

    def render_image(self, spec: GridSpec, release: str | None) -> Rendering:
        """Files of a build that makes an image for the grid's machines, so that they start sooner.

        Raises GridwrightError (INPUT), also where the provider starts no machines from images.
        """
        raise input_error(
            f"provider {self.name} starts no machines from images",
            where=str(spec.file) if spec.file else None,
            remedy="leave --image out: what nodes of their own need is in the playbook",
        )

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """The nodes that the playbook sets up, by what they are there for; `machine` is the name of this one.

        Servers of file systems are among them where the provider makes these.
        """
        from gridwright.setup.playbook import Hosts

        return Hosts.named(
            compute=[node for name, group in spec.nodes.items() for node in group.node_names(name)]
        ).with_machines(spec)

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

    def renew(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> Result:
        """`up`, which also starts machines from what names of images stand for by now.

        Raises GridwrightError, also where a grid keeps no images.
        """
        raise input_error(
            f"provider {self.name} starts no machines from images",
            where="--new-images",
            remedy="leave it out",
        )

    def preflight(self, spec: GridSpec) -> Preflight:
        """What `up` would fail of, looked at before anything is made. Raises GridwrightError."""
        self.refuse(spec, "up --check")

    def stop(self, spec: GridSpec, caller: Caller) -> Result:
        """Stop its machines for a while, so that only what stays is paid for. Raises GridwrightError."""
        self._refuse_standstill(spec, "stop")

    def is_stopped(self, spec: GridSpec) -> bool:
        """Whether `stop` stopped it, or began to, so that its scheduler is away. Raises GridwrightError."""
        self._refuse_standstill(spec, "stop")

    def start(self, spec: GridSpec, caller: Caller) -> Result:
        """Start them again, and wait until they are set up. Raises GridwrightError."""
        self._refuse_standstill(spec, "start")

    def status(self, spec: GridSpec) -> Status:
        """How the grid stands; nothing is changed. Raises GridwrightError."""
        self.refuse(spec, "status")

    def drifted(self, spec: GridSpec, caller: Caller) -> Status:
        """`status`, with each resource that somebody else has changed or removed. It may take minutes.

        Raises GridwrightError, also where the provider keeps no state that resources are compared with.
        """
        raise input_error(
            f"provider {self.name} keeps no state that resources are compared with",
            where="--drift",
            remedy="leave it out: gridwright doctor compares nodes with what they are to be",
        )

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take it away; `delete_data` names file systems that go with their data.

        Nothing is changed yet. Raises GridwrightError.
        """
        self.refuse(spec, "down")

    def costs_beside(self, spec: GridSpec, catalog: Catalog) -> tuple[Cost, ...]:
        """See gridwright.model.pricing_provider.PricingProvider."""
        return ()

    def costs_of(
        self, spec: GridSpec, catalog: Catalog, machines: int, *, has_lustre: bool
    ) -> tuple[Cost, ...]:
        """See gridwright.model.pricing_provider.PricingProvider."""
        return ()

    def node_costs(self, spec: GridSpec, count: int) -> tuple[Cost, ...]:
        """See gridwright.model.pricing_provider.PricingProvider."""
        return ()

    def node_network(self, spec: GridSpec) -> float | None:
        """See gridwright.model.pricing_provider.PricingProvider."""
        return None

    def described_node(self, spec: GridSpec) -> tuple[InstanceType, float] | None:
        """See gridwright.model.pricing_provider.PricingProvider."""
        return None

    def report_not_offered(self, site: Site) -> None:
        """See gridwright.model.pricing_provider.PricingProvider."""

    def report_too_many_volumes(self, site: Site) -> None:
        """See gridwright.model.pricing_provider.PricingProvider."""

    def processes_here(self, spec: GridSpec) -> Sequence[int]:
        """Processes of this machine that a grid consists of, each with all below it."""
        return ()

    def outages(self, spec: GridSpec) -> Sequence[MachineOutage]:
        """Machines of a grid that do not do their part, those before others that these depend on.

        Asked when something went silent. Raises GridwrightError where nobody can say.
        """
        return ()

    def local_grids(self) -> list[GridHere]:
        """Its grids on this machine, whether their specs are at hand or not."""
        return []

    def here(self, name: str) -> GridHere | None:
        """One of its grids, up or not, as this machine knows it by its name; None where it knows none."""
        return None

    def _refuse_standstill(self, spec: GridSpec, verb: str) -> NoReturn:
        raise input_error(
            f"gridwright {verb} is for machines that are paid by the hour, and provider {self.name} has none",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright lab power switches nodes of a lab off and on; those of a site are the site's",
        )

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """A repository that a service of this cloud carries. Asks nobody yet.

        `store` opens its bucket by S3, as the flags of the command have it. Raises GridwrightError (INPUT)
        where no service of it does.
        """
        raise input_error(
            f"no service of provider {self.name} carries repository {directory.name}",
            where=str(spec.file) if spec.file else None,
            remedy="remove repository: of the file system, and name the bucket under repositories",
        )

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): this provider can do nothing about a verb."""
        raise input_error(
            f"this release does not make grids of provider {self.name}",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright plan and predict work for it; write provider: lab for a lab on this machine",
        )


if TYPE_CHECKING:
    from gridwright.model.pricing_provider import PricingProvider

    _SELLS: type[PricingProvider] = Provider
