"""The models of `catalog.yaml`, which has the user's own prices and private instance types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    model_validator,
)

from gridwright.catalog.instances import Architecture, InstanceType, Medium, Provider
from gridwright.errors import nearest
from gridwright.yamltext.fields import FieldError, Size, TotalRate
from gridwright.yamltext.format import FileFormat
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import Section
from gridwright.yamltext.together import KEY, Refused, validated_with

CATALOG_YAML = FileFormat(
    name="catalogue of your own",
    levels="five",
    beginning="Write prices: or instances:, as in gridwright help catalogue",
    instead_of_nothing=None,
    max_bytes=1 << 20,
    max_values=100_000,
    numbers_name=True,
)
_NEEDED = ("provider", "cores", "memory", "network")
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that prices can be written for.

    `instances` are the types known without the file, `components` what each volume type and managed file
    system has prices of, `services` what else is priced.
    """

    instances: Mapping[str, InstanceType]
    components: Mapping[str, Iterable[str]]
    services: tuple[str, ...]


def _line(text: str) -> str:
    if text.strip() and len(text) <= _LONGEST_TEXT and text.isprintable():
        return text
    raise FieldError(
        f"{show(text)} is no short text", f"write one line of at most {_LONGEST_TEXT} characters"
    )


def _as_text(value: object) -> object:
    """2026 of YAML as text."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


_Line = Annotated[str, AfterValidator(_line)]
_Date = Annotated[str, BeforeValidator(_as_text), AfterValidator(_line)]
_Count = Annotated[int, Field(ge=1, lt=10**9)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_ByRegion = Mapping[str, Mapping[str, _Amount]]


class OwnVolumes(Section):
    """What an instance type passes to and from its network volumes."""

    rate: TotalRate | None = Field(default=None, description="What lasts, such as 850 MB/s.")
    peak: TotalRate | None = Field(default=None, description="What a burst reaches, such as 1190 MB/s.")
    iops: _Amount | None = Field(default=None, description="Operations per second that last.")
    peak_iops: _Amount | None = Field(default=None, description="Operations per second of a burst.")
    shared: bool = Field(default=False, description="Whether they share the network cards: true or false.")


class OwnStore(Section):
    """The disks inside a machine."""

    disks: _Count | None = Field(default=None, description="How many disks it has, from 1.")
    disk_size: Size | None = Field(default=None, description="The size of each, such as 900 GB.")
    medium: Medium | None = Field(default=None, description="ssd or hdd.")
    nvme: bool | None = Field(default=None, description="Whether they are NVMe disks: true or false.")
    write: TotalRate | None = Field(default=None, description="A rate of all disks, such as 2 GB/s.")
    read: TotalRate | None = Field(default=None, description="A rate of all disks, such as 2 GB/s.")


class OwnType(Section):
    """A private instance type, or what is to be corrected of a listed one."""

    provider: Provider | None = Field(default=None, description="Who sells it: aws or oci.")
    family: _Line | None = Field(default=None, description="The family it belongs to.")
    cores: _Count | None = Field(default=None, description="Its physical cores, a whole number from 1.")
    vcpus: _Count | None = Field(default=None, description="Its hardware threads, a whole number from 1.")
    memory: Size | None = Field(default=None, description="Its memory, such as 256 GiB.")
    architecture: Architecture | None = Field(default=None, description="x86_64 or arm64.")
    current: bool | None = Field(default=None, description="Whether it is for new grids: true or false.")
    network: TotalRate | None = Field(default=None, description="What lasts, such as 1250 MB/s.")
    network_peak: TotalRate | None = Field(default=None, description="What a burst reaches, such as 3 GB/s.")
    nics: _Count | None = Field(default=None, description="Its network cards, a whole number from 1.")
    volumes: OwnVolumes | None = Field(default=None, description="What passes to and from its volumes.")
    instance_store: OwnStore | None = Field(default=None, description="The disks inside the machine.")


class OwnPrices(Section):
    """Prices in USD by region."""

    instances: _ByRegion = Field(
        default_factory=dict, description="By region and instance type, USD per hour, such as 1.49."
    )
    storage: Mapping[str, Mapping[str, Mapping[str, _Amount]]] = Field(
        default_factory=dict,
        description="By region, volume type or file system, and component, USD per month, such as 0.088.",
    )
    services: _ByRegion = Field(
        default_factory=dict, description="By region and service, USD, such as 0.048."
    )


class OwnCatalog(Section):
    """All of `catalog.yaml`. Its validation context has the KnownNames as `known`."""

    source: _Line | None = Field(default=None, description="Who says so, such as: our contract.")
    date: _Date | None = Field(default=None, description="When that was said, such as 2026-11.")
    prices: OwnPrices = Field(default_factory=OwnPrices, description="Prices of your own, in USD.")
    instances: Mapping[str, OwnType] = Field(
        default_factory=dict, description="Private instance types by name, and corrections of listed ones."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _with_known_names(
        cls,
        data: Any,  # noqa: ANN401 - whatever YAML gave
        handler: ModelWrapValidatorHandler[OwnCatalog],
        info: ValidationInfo,
    ) -> OwnCatalog:
        known: KnownNames = (info.context or {})["known"]
        return validated_with(cls, handler, data, _refused(data, known))


def _refused(data: Mapping[str, Any], known: KnownNames) -> Iterator[Refused]:
    """Names that nobody knows, and types that lack what is needed."""
    own = _mapping(data, "instances")
    prices = _mapping(data, "prices")
    for region in _mapping(prices, "instances"):
        for each in _mapping(prices, "instances", region):
            if each not in own:
                yield from _unknown(("prices", "instances", region, each), "instance type", known.instances)
    for region in _mapping(prices, "storage"):
        for item, components in _mapping(prices, "storage", region).items():
            path = ("prices", "storage", region, item)
            yield from _unknown(path, "volume type or file system", known.components)
            for component in components if isinstance(components, Mapping) else ():
                part = f"price of {item}"
                yield from _unknown((*path, component), part, known.components.get(item, (component,)))
    for region in _mapping(prices, "services"):
        for each in _mapping(prices, "services", region):
            yield from _unknown(("prices", "services", region, each), "service", known.services)
    for name, fields in own.items():
        if isinstance(fields, Mapping):
            yield from _lacking(name, fields, known.instances.get(name))


def _lacking(name: str, fields: Mapping[str, Any], listed: InstanceType | None) -> Iterator[Refused]:
    """What a type needs that no listed one gives."""
    missing = [need for need in _NEEDED if need not in fields]
    if missing and listed is None:
        what = f"the private type {name[:64]} lacks {', '.join(missing)}"
        yield ("instances", name), FieldError(what, "add what it lacks; see gridwright help catalogue")
    store = fields.get("instance_store")
    has_none = listed is None or listed.instance_store is None
    if has_none and isinstance(store, Mapping) and not {"disks", "disk_size"} <= set(store):
        path = ("instances", name, "instance_store")
        yield path, FieldError("instance_store lacks disks or disk_size", "add them")


def _unknown(path: tuple[str, ...], kind: str, known: Iterable[str]) -> Iterator[Refused]:
    names = known if isinstance(known, Mapping) else tuple(known)
    if path[-1] in names:
        return
    close = nearest(path[-1], names)
    remedy = f"did you mean {close}?" if close else f"known are {', '.join([*names][:20])}"
    yield (*path, KEY), FieldError(f"no {kind} is called {show(path[-1])}", remedy)


def _mapping(data: Any, *path: str) -> Mapping[str, Any]:  # noqa: ANN401
    """The mapping at a path; an empty one where there is none, which the models report."""
    for part in path:
        data = data.get(part) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
