"""What the spec, `gridwright init`, and the rooms below the providers ask of a provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.fields import FieldInfo

from gridwright.errors import Finding, input_error
from gridwright.spec.fields import SpecModel, Update
from gridwright.spec.kinds import KindRegistry
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.structure import Refused


def init_text(provider: str = "local") -> str:
    """A commented grid spec for a provider, which `check` accepts.

    Raises GridwrightError (status INPUT) for a provider that is unknown.
    """
    try:
        return PROVIDERS.get(provider).template()
    except FieldError as error:
        raise input_error(
            error.text, where="--provider", remedy=error.remedy[:1].upper() + error.remedy[1:]
        ) from None


@dataclass(frozen=True)
class ProviderSection:
    """The section of a grid spec that only one provider has; its key is the provider's name."""

    model: type[SpecModel]
    description: str
    update: Update
    """What adding or removing the whole section does; its fields have policies of their own."""

    @cached_property
    def field(self) -> FieldInfo:
        """The field of a grid spec that holds it."""
        annotation: Any = Annotated[self.model | None, self.update]
        return FieldInfo.from_annotated_attribute(
            annotation, Field(default=None, description=self.description)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataService:
    """Where a machine of a cloud learns who it is, and gets credentials of its identity."""

    addresses: tuple[str, ...]
    """Addresses and networks, IPv4 and IPv6; root alone reaches them, and the accounts below."""
    accounts: tuple[str, ...] = ()
    """System accounts of the cloud's images that need it, where a machine has them."""
    open_tcp: tuple[int, ...] = ()
    open_udp: tuple[int, ...] = ()
    """Ports at these addresses that everybody needs: name service and clock."""

    def variables(self) -> dict[str, object]:
        """What role metadata of the playbook is given."""
        found = {
            "addresses": self.addresses, "accounts": self.accounts,
            "open_tcp": self.open_tcp, "open_udp": self.open_udp,
        }  # fmt: skip
        return {name: list(each) for name, each in found.items() if each}


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchasing:
    """What specs and plans can buy of a provider."""

    needs_region: bool = False
    """Whether its spec must name a region."""
    one_price_everywhere: bool = False
    """Whether all its regions have the same prices, so that a plan need not name one."""
    buys_capacity: bool = False
    """Whether its nodes can be spot instances, and run in capacity that was reserved."""
    planned_volumes: tuple[str, ...] = ()
    """The types of block volumes that plans choose from, as the catalogue names them."""
    plans_services: bool = False
    """Whether plans choose managed offers of the catalogue, for nodes that the spec describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVolumes:
    """Block volumes that a provider attaches to two servers at once."""

    types: tuple[str, ...] = ()
    """Their types; empty where all types will do."""
    has_pools: bool = False
    """Whether servers that share volumes can have more of them, of other types, as storage pools."""
    settings: Callable[[Any], Mapping[str, Any] | None] = lambda _spec: {}
    """What the provider's section says in a grid (its GridSpec) with such servers; None where it has none."""


class ProviderKind:
    """What a grid spec means with one provider; `gridwright.providers.provider.Provider` is the whole.

    Questions have the answers of an ordinary provider, whose nodes are machines of its own.
    """

    name: ClassVar[str]
    """What `provider:` of a spec calls it."""
    metadata_service: ClassVar[MetadataService | None]
    """Where its machines get credentials of an identity; None where they have none. Each provider says so:
    whoever runs jobs on a machine would else have what the machine may do."""
    section: ClassVar[ProviderSection | None] = None
    is_cloud: ClassVar[bool] = False
    """Whether its nodes are bought by type, out of the catalogue."""
    is_this_machine: ClassVar[bool] = False
    """Whether a grid that names no hosts is the machine that Gridwright runs on."""
    makes_grids: ClassVar[bool] = True
    """Whether there is anything for up, status and down to do."""
    has_machines: ClassVar[bool] = False
    """Whether its grids can have machines beside the nodes, without the scheduler."""
    names_its_nodes: ClassVar[bool] = True
    """Whether it names nodes by their group and a number; a site names them under hosts otherwise."""
    has_own_kernels: ClassVar[bool] = True
    """Whether each node has a kernel, disks and a clock of its own; else it shares those of one machine."""
    powers_nodes: ClassVar[bool] = False
    """Whether a scheduler can have its nodes powered on and off."""
    names_servers: ClassVar[bool] = False
    """Whether servers of file systems are machines of a site, which the spec names and setup sets up."""
    market: ClassVar[Purchasing] = Purchasing()
    """What can be bought of it, and how."""
    shared_volumes: ClassVar[SharedVolumes | None] = None
    """How it attaches a volume to two servers at once; None where it does not."""

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """What a spec of this provider has wrong between fields.

        `data` are plain and unchecked: whatever has the wrong type is passed over, the models report it.
        """
        yield from ()

    # `spec` is a GridSpec, whose module imports this one.
    def findings(self, spec: Any) -> Iterator[Finding]:  # noqa: ANN401
        """What will hurt in a valid spec of this provider."""
        yield from ()

    def state_directory(self, spec: Any) -> Path | None:  # noqa: ANN401
        """Where it keeps queue and logs of a grid that names no place; None for what is usual."""
        return None

    def machine_words(self, spec: Any) -> str:  # noqa: ANN401
        """What nodes are called whose instance type the spec does not name."""
        return "this machine"

    def template(self) -> str:
        """The commented grid spec that `gridwright init` writes: init.yaml, beside the kind's module."""
        package = type(self).__module__.rpartition(".")[0]
        return resources.files(package).joinpath("init.yaml").read_text("utf-8")


PROVIDERS: KindRegistry[ProviderKind] = KindRegistry(
    "provider", "gridwright.providers", ("name", "section", "head_node", "metadata_service")
)
"""Every provider that a spec can name."""


def provider_in(data: Mapping[str, Any]) -> ProviderKind | None:
    """The provider that plain data of a spec name; None for one that is not known."""
    try:
        return PROVIDERS.get(data.get("provider", "local"))
    except FieldError:
        return None
