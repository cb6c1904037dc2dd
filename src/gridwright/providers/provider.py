"""What every provider is asked: one class, of which each provider's package has one object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, cast

from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem, input_error
from gridwright.model.pricing_provider import PricingProvider
from gridwright.spec.provider import ProviderKind

if TYPE_CHECKING:
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.rendering import Notes, Rendering
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.settings import RepositoryReport
    from gridwright.repository.store import ObjectStore
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.machines import GridMachines, SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.linked import LinkedDirectory
    from gridwright.spec.model import GridSpec


# Whether a grid could be made, looked at before anything is made: what `up --check` prints.

# The caller of work that takes long: it is told of progress, and can ask for the work to stop.


def _nothing(_text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a provider has of the command that calls it."""

    say: Callable[[str], None] = _nothing
    """Takes one line of progress."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when it is to end. It is looked at between steps: an exception raised in between could be lost."""
    file: str = ""
    """The grid spec as the user named it; empty for ./grid.yaml."""

    def go_on(self) -> None:
        """Raise KeyboardInterrupt where it is to end."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def pause(self, seconds: float, words: str = "") -> None:
        """Wait, and raise KeyboardInterrupt where it is to end: `words` say what goes on by itself then."""
        if self.stop.wait(seconds):
            if words:
                self.say(words)
            raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A limit, what is used of it by others, and what the grid needs in all."""

    name: str
    code: str
    """As the provider calls it, such as ec2/L-1216C47A."""
    unit: str
    limit: float
    used: float
    needed: float

    @property
    def is_enough(self) -> bool:
        """Whether what is left is enough."""
        return self.used + self.needed <= self.limit


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found; nothing was made or changed."""

    grid: str
    provider: str
    facts: Mapping[str, str]
    """What was looked at, in words: the account, the zone."""
    figures: tuple[QuotaUse, ...]
    findings: tuple[Finding, ...]

    @property
    def is_fit(self) -> bool:
        """Whether nothing was found that the making of the grid fails of."""
        return not self.problems()

    def problems(self) -> list[Problem]:
        """What the making of the grid fails of."""
        return [
            Problem(f"{each.name}: {each.text}", remedy=each.remedy)
            for each in self.findings
            if each.level == "error"
        ]

    def refuse(self) -> None:
        """Raise GridwrightError (ENVIRONMENT) with all that the making of the grid fails of."""
        if found := self.problems():
            raise GridwrightError(*found, status=ExitStatus.ENVIRONMENT)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "provider": self.provider,
            "check": True,
            "fit": self.is_fit,
            "facts": dict(self.facts),
            "quotas": [{**asdict(each), "enough": each.is_enough} for each in self.figures],
            "findings": [asdict(each) for each in self.findings],
        }

    def text(self) -> str:
        """Facts, figures, findings, and the verdict."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name, value in self.facts.items():
            yield f"{name}: {value}"
        for each in self.figures:
            left = f"{each.used:g} of {each.limit:g} {each.unit} used by others, {each.needed:g} needed"
            yield f"{each.name}: {left}{'' if each.is_enough else ', which is too much'}"
        for one in self.findings:
            yield f"\n{one}"
        errors = len(self.problems())
        verdict = f"{errors} error{'s'[: errors != 1]}, it cannot be made" if errors else "nothing against it"
        yield f"\ngrid {self.grid}: {verdict}; nothing was made"


def not_looked_at(what: str, error: GridwrightError) -> Finding:
    """What credentials may not look at, by the answer of the cloud."""
    (problem,) = error.problems
    remedy = f"{problem.remedy}; without it, up finds out as it goes"
    return Finding("info", "not-looked-at", f"{what}: {problem.what}", remedy)


# A repository that a service of a cloud carries: its verbs, each by tasks of that service.


@dataclass(frozen=True, slots=True)
class FlagRefusal:
    """Why a service has nothing for a flag."""

    what: str
    remedy: str
    """What to do instead."""


class LinkedRepositoryStatus(Protocol):
    """How it stands."""

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be mended."""

    def document(self) -> dict[str, Any]:
        """The result for programs."""

    def text(self) -> str:
        """The result for people."""


class LinkedRepository(Protocol):
    """Its verbs. Paths are relative to the linked directory; none means all of it.

    Every method raises GridwrightError; what single files fail of is a problem of the report. An interrupt
    ends the task, and what it has done stays.
    """

    @property
    def refused_flags(self) -> Mapping[str, FlagRefusal]:
        """Flags of the verbs that the service has nothing for, such as --prefer; asks nobody."""

    def status(self, back: Sequence[TransferLimit]) -> LinkedRepositoryStatus:
        """How it stands; `back` limits a transfer from the store to the files."""

    def export(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """Send what was created or changed."""

    def import_names(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """Make names of what was created or changed in the bucket."""

    def release(self, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool) -> RepositoryReport:
        """Free the space of exported files that nobody used for so long."""

    def verify(
        self, paths: Sequence[bytes], read: Sequence[TransferLimit], *, dry_run: bool
    ) -> RepositoryReport:
        """Compare files and objects; `read` limits what reads the files, for the time of a dry run."""


# A machine of a grid that does not do its part, as its provider knows it.


@dataclass(frozen=True, slots=True)
class MachineOutage:
    """A machine, what is wrong with it, and what hangs on it."""

    machine: str
    state: str
    """As the rest of a sentence: "is powered off"."""
    remedy: str
    is_head: bool = False
    """Whether the other nodes are reached through it, and its scheduler runs there."""
    is_final: bool = True
    """Whether what had connections to it has lost them for good."""
    serves: tuple[str, ...] = ()
    """Names of the file systems whose data it serves."""


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


class ImageBuilds(Protocol):
    """Images that machines of a provider start from."""

    def render(self, spec: GridSpec, release: str | None) -> Rendering:
        """Files of a build that makes an image for a grid's machines. Raises GridwrightError (INPUT)."""

    def renew(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> Result:
        """`up`, which also starts machines from what names of images stand for by now.

        Raises GridwrightError.
        """


class Pausing(Protocol):
    """Machines that are paid by the hour, stopped for a while. All raise GridwrightError."""

    def stop(self, spec: GridSpec, caller: Caller) -> Result:
        """Stop the machines of a grid, so that only what stays is paid for."""

    def is_stopped(self, spec: GridSpec) -> bool:
        """Whether `stop` stopped it, or began to, so that its scheduler is away."""

    def start(self, spec: GridSpec, caller: Caller) -> Result:
        """Start them again, and wait until they are set up."""


class StateComparison(Protocol):
    """Resources compared with the state that a provider keeps."""

    def drifted(self, spec: GridSpec, caller: Caller) -> Status:
        """`status`, with each resource that somebody else has changed or removed. It may take minutes.

        Raises GridwrightError.
        """


class LinkedRepositories(Protocol):
    """Repositories that services of a cloud carry."""

    def linked_repository(
        self, spec: GridSpec, directory: LinkedDirectory, store: Callable[[], ObjectStore], caller: Caller
    ) -> LinkedRepository:
        """One of them; no service is called yet.

        `store` opens its bucket by S3, as the flags of the command have it. Raises GridwrightError (INPUT)
        where no service carries it.
        """


class LocalGrids(Protocol):
    """Grids that consist of processes of this machine."""

    def processes(self, spec: GridSpec) -> Sequence[int]:
        """Processes of a grid, each with all below it."""

    def outages(self, spec: GridSpec) -> Sequence[MachineOutage]:
        """Machines of a grid that do not do their part, those before others that these depend on.

        Asked when something went silent. Raises GridwrightError where it cannot be known.
        """

    def all(self) -> list[GridHere]:
        """All grids here, whether their specs are at hand or not."""

    def named(self, name: str) -> GridHere | None:
        """One of them, up or not; None where there is none of that name."""


class Provider(ProviderKind):
    """Makes the nodes of grids, tells how they stand, and takes them away.

    What stands here is right for a provider whose machines are there already: nothing is made or removed,
    and the machine that Gridwright runs on is the head node.
    """

    reaches_nodes: ClassVar[bool] = True
    """Whether nodes can be reached; else the machine that runs a command is looked at in their place."""
    pricing: ClassVar[PricingProvider] = PricingProvider()
    images: ClassVar[ImageBuilds | None] = None
    """Builds of images, where its machines start from such."""
    pausing: ClassVar[Pausing | None] = None
    """How its machines are stopped for a while, where they are paid by the hour."""
    comparison: ClassVar[StateComparison | None] = None
    """How resources are compared with the state that it keeps of them."""
    links: ClassVar[LinkedRepositories | None] = None
    """Repositories that a service of the cloud carries."""
    on_this_machine: ClassVar[LocalGrids | None] = None
    """Grids that consist of processes of this machine."""

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
        from gridwright.schedulers import scheduler_kind

        setup = scheduler_kind(spec.scheduler).setup(spec, lambda: self.machines(spec, machine), release)
        hosts = self.hosts(spec, machine.hardware.name)
        return render_playbook(spec, setup, hosts, self.notes(spec, setup))

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
        from gridwright.providers.rendering import Notes

        return Notes()

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> Result:
        """Make the grid; called again, mend or change it. `replace` names file systems that may be emptied.

        Raises GridwrightError.
        """
        self.refuse(spec, "up")

    def preflight(self, spec: GridSpec) -> Preflight:
        """What `up` would fail of, looked at before anything is made. Raises GridwrightError."""
        self.refuse(spec, "up --check")

    def status(self, spec: GridSpec) -> Status:
        """How the grid stands; nothing is changed. Raises GridwrightError."""
        self.refuse(spec, "status")

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take it away; `delete_data` names file systems that go with their data.

        Nothing is changed yet. Raises GridwrightError.
        """
        self.refuse(spec, "down")

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): this provider can do nothing about a verb."""
        raise input_error(
            f"this release does not make grids of provider {self.name}",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright plan and predict work for it; write provider: lab for a lab on this machine",
        )


def images_of(provider: Provider, where: str | None, remedy: str) -> ImageBuilds:
    """The images of a provider. Raises GridwrightError (INPUT) where it has none."""
    if provider.images is None:
        what = f"provider {provider.name} starts no machines from images"
        raise input_error(what, where=where, remedy=remedy)
    return provider.images


def pausing_of(spec: GridSpec, verb: str) -> Pausing:
    """How machines of a grid are stopped. Raises GridwrightError (INPUT) where they cannot be."""
    provider = cast("Provider", spec.provider_kind)
    if provider.pausing is None:
        raise input_error(
            f"gridwright {verb} is for machines that are paid by the hour, "
            f"and provider {provider.name} has none",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright lab power switches nodes of a lab off and on; those of a site are the site's",
        )
    return provider.pausing


def comparison_of(provider: Provider) -> StateComparison:
    """How a provider compares resources with its state. Raises GridwrightError (INPUT) where it has none."""
    if provider.comparison is None:
        raise input_error(
            f"provider {provider.name} keeps no state that resources are compared with",
            where="--drift",
            remedy="leave it out: gridwright doctor compares nodes with what they are to be",
        )
    return provider.comparison


def links_of(spec: GridSpec, directory: LinkedDirectory) -> LinkedRepositories:
    """The services that carry repositories of a grid. Raises GridwrightError (INPUT) where none does."""
    provider = cast("Provider", spec.provider_kind)
    if provider.links is None:
        raise input_error(
            f"no service of provider {provider.name} carries repository {directory.name}",
            where=str(spec.file) if spec.file else None,
            remedy="remove repository: of the file system, and name the bucket under repositories",
        )
    return provider.links
