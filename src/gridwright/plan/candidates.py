"""Every candidate grid: instance type, count, where each library lives, and new storage that can grow.

Block volumes are those of one machine, and those that two servers share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, cast

from gridwright.catalog import Catalog, InstanceType
from gridwright.catalog.basis import PriceBasis, offers_basis, price_basis
from gridwright.catalog.instances import Provider
from gridwright.errors import GridwrightError, nearest
from gridwright.filesystems import all_kinds
from gridwright.filesystems.kind import NodeDisks, Offers
from gridwright.filesystems.offers import (
    IN_PLACE,
    GrowingOffer,
    Growth,
    Offer,
    OnSale,
    SharedChoice,
    VolumeMarket,
    VolumeSet,
    changed_fields,
    most_volumes,
    volume_market,
)
from gridwright.filesystems.site import default_region, volume_limit
from gridwright.model.pricing_provider import pricing_provider
from gridwright.plan.existing import ExistingOnNodes, ExistingStorage
from gridwright.plan.needs import Needs
from gridwright.plan.node_side import NodeSide, Place, Placement
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec


def growing(offer: Offer, bytes_per_s: float, room: int, room_later: int) -> SharedChoice | None:
    """The cheapest of an offer that has room now and in a year; its cost is the mean of the year.

    One that cannot grow in place is bought at its later size.
    """
    later = offer.smallest(bytes_per_s, room_later)
    if later is None or room_later <= room:
        return later
    now = offer.smallest(bytes_per_s, room)
    growth = None if now is None else _between(now, later)
    if now is None or growth is None:
        return later
    if growth.in_place:
        return replace(now, growth=growth, usd_per_hour=growth.mean_usd)
    pair = offer.growing(bytes_per_s, room, room_later) if isinstance(offer, GrowingOffer) else None
    other = None if pair is None else _between(*pair)
    if pair is not None and other is not None and other.in_place:
        return replace(pair[0], growth=other, usd_per_hour=other.mean_usd)
    return replace(later, growth=growth, usd_per_hour=growth.mean_usd)


def _between(now: SharedChoice, later: SharedChoice) -> Growth | None:
    if now.plain != later.plain and now.fixed_because:
        usd, plain = later.usd_per_hour, later.plain
        return Growth(later.title, usd, usd, in_place=False, because=now.fixed_because, plain=plain)
    return _growth(now.plain, later.plain, now.usd_per_hour, later.usd_per_hour, later.title)


def _growth(
    now: Mapping[str, Any], later: Mapping[str, Any], usd_now: float, usd_later: float, title: str
) -> Growth | None:
    """How one section of a file system becomes another; None where they are the same."""
    changed = changed_fields(now, later)
    if not changed:
        return None
    hindering = [each for each in changed if each[1].change not in IN_PLACE]
    because = "; ".join(f"{name}: {update.because}" for name, update in hindering or changed)
    begins = usd_later if hindering else usd_now
    return Growth(title, begins, usd_later, not hindering, because, later)


def _growing_volumes(
    market: VolumeMarket, bytes_per_s: float, room: float, room_later: float, most: int
) -> VolumeSet | None:
    """The cheapest volumes of a machine for its room in a year; it begins with as many that are smaller."""
    later = market.cheapest(bytes_per_s, room_later, most)
    if later is None or room_later <= room:
        return later
    now = market.smaller(later, bytes_per_s, room)
    sections = [on_node_disks(each.plain()) for each in (now, later)]
    growth = _growth(sections[0], sections[1], now.usd_per_hour, later.usd_per_hour, str(later))
    return later if growth is None else replace(now, growth=growth, usd_per_hour=growth.mean_usd)


def on_node_disks(disks: Mapping[str, Any]) -> dict[str, Any]:
    """The file system of the first kind that can be on disks of each node."""
    return dict(next(kind for _, kind in all_kinds() if isinstance(kind, NodeDisks)).on_node_disks(disks))


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
    existing: dict[str, tuple[Place, str]] = {
        name: ("kept-local" if filesystem.is_node_local else "kept", name)
        for name, filesystem in given.filesystems.items()
    }
    if library in given.homes:
        return [existing[given.homes[library]]]
    if library == "data":
        return [("shared", ""), *(each for each in existing.values() if each[0] == "kept")]
    own: list[Place] = ["shared", "scratch", "volumes"]
    if losses.lose_work_with_node and not given.is_on_instance_stores:
        own.append("instance-store")
    return [*((place, "") for place in own), *existing.values()]


def volumes_on_sale(catalog: Catalog, spec: GridSpec, region: str) -> tuple[VolumeMarket, VolumeMarket]:
    """Types for one machine, and types that two attach at once: none where the grid cannot have these."""
    kind = spec.provider_kind
    alone = volume_market(catalog, kind.market.planned_volumes, region)
    shared = kind.shared_volumes
    if shared is None or shared.settings(spec) is None:
        return alone, VolumeMarket(())
    return alone, volume_market(catalog, shared.types, region) if shared.types else alone


LEVELS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of the required rates that are planned for: the dearer ones can be on the Pareto front."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A grid in few words. Rates are lasting, in bytes per second per core; the smallest of all libraries.

    `usd_per_hour` is what designs are ranked by: the mean of 12 months where libraries grow.
    """

    instance: InstanceType
    count: int
    places: Mapping[str, Place]
    shared: SharedChoice | None
    scratch: SharedChoice | None
    volumes: VolumeSet | None
    usd_per_hour: float
    bytes_per_s_per_core: float
    resilience: int
    level: float
    cloud_usd_per_hour: float = 0.0
    """What the cloud asks for beside nodes and file systems; a part of `usd_per_hour`."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """The kept file system of each library that lives on one."""
    existing_usd_per_hour: float = 0.0
    """What kept file systems cost; a part of `usd_per_hour`."""
    data_points: int = 0
    """What of `resilience` is for data."""
    lost_with_node: tuple[str, ...] = ()
    """The libraries that are lost with a node."""

    @property
    def cores(self) -> int:
        """Physical cores of all nodes."""
        return self.instance.cores * self.count

    @property
    def growths(self) -> dict[Place, tuple[Growth, int]]:
        """What becomes of new storage in 12 months, by its place, and how often the grid has it."""
        found: tuple[tuple[Place, Growth | None, int], ...] = (
            ("shared", self.shared.growth if self.shared else None, 1),
            ("scratch", self.scratch.growth if self.scratch else None, 1),
            ("volumes", self.volumes.growth if self.volumes else None, self.count),
        )
        return {place: (growth, times) for place, growth, times in found if growth is not None}

    @property
    def later_usd_per_hour(self) -> float:
        """What it costs after the growth of its libraries: never less than before."""
        more = sum((growth.usd_later - growth.mean_usd) * times for growth, times in self.growths.values())
        return self.usd_per_hour + more


@dataclass(frozen=True)
class Market:
    """What the provider sells in the region, prepared for the search.

    `volumes` are those for nodes; `offers` are of all kinds of file systems, with the kind's name.
    `without_price` are the provider's types without a price in the region, and `basis` what prices rest on.
    """

    instances: list[tuple[InstanceType, float]]
    volumes: VolumeMarket
    offers: list[tuple[str, Offer]]
    catalog: Catalog
    without_price: tuple[InstanceType, ...] = ()
    basis: PriceBasis | None = None

    @cached_property
    def prices(self) -> dict[str, float]:
        """USD per hour of each instance type."""
        return {one.name: usd for one, usd in self.instances}


def market(catalog: Catalog, needs: Needs) -> Market:
    """Everything on sale for this provider, region and architecture, whatever the nodes must have."""
    provider = needs.spec.provider
    described = pricing_provider(needs.spec).described_node(needs.spec)
    region = default_region(catalog, needs.spec)
    known = _known_types(catalog, needs, region) if described is None else []
    priced = [(one, usd) for one, usd in known if usd is not None] if described is None else [described]
    forbid, architecture = needs.requirements.families.forbid, needs.requirements.architecture
    servers = [
        (one, usd)
        for one, usd in priced
        if not one.accelerators
        and one.ebs is not None
        and not one.burstable_cpu
        and one.family not in forbid
        and architecture in (None, one.architecture)
    ]
    volumes, shared = volumes_on_sale(catalog, needs.spec, region)
    on_sale = OnSale(
        catalog,
        region,
        servers,
        volumes,
        provider=provider,
        shared_volumes=shared,
        services_of=provider if described else "",
    )
    offers = [
        (name, offer)
        for name, kind in all_kinds()
        if isinstance(kind, Offers)
        for offer in kind.offers(on_sale)
    ]
    if not volumes.volumes and not offers:
        raise _no_storage(catalog, needs)
    unpriced = tuple(one for one, usd in known if usd is None)
    basis = (
        offers_basis(catalog, provider, region)
        if described
        else price_basis(catalog, provider, region, (one for one, _ in priced))
    )
    return Market(priced, volumes.not_sequential(), offers, catalog, unpriced, basis)


def _known_types(catalog: Catalog, needs: Needs, region: str) -> list[tuple[InstanceType, float | None]]:
    """The provider's types in the catalogue, each with its USD per hour in the region, where one is known."""
    provider = needs.spec.provider
    try:
        catalog.check_region(region, cast("Provider", provider))
    except GridwrightError as error:
        (problem,) = error.problems
        raise GridwrightError(
            problem_at(needs.spec, ("region",), problem.what, problem.remedy or "")
        ) from None
    return [
        (one, _price(catalog, one, region)) for one in catalog.instances.values() if one.provider == provider
    ]


def _no_storage(catalog: Catalog, needs: Needs) -> GridwrightError:
    """Why nothing can be planned in a region without prices of storage, and where it could."""
    priced = sorted(
        {region for volume in catalog.volumes.values() for region in volume.prices.regions()}
        | {region for deployment in catalog.managed.values() for region in deployment.prices.regions()}
    )
    near = nearest(needs.region, priced) or priced[0]
    return GridwrightError(
        problem_at(
            needs.spec,
            ("region",),
            f"no price of storage is known in {needs.region}",
            f"the nearest region with prices is {near}; or write those of {needs.region} into catalog.yaml "
            "beside the grid spec (gridwright help catalogue says how)",
        )
    )


def _price(catalog: Catalog, instance: InstanceType, region: str) -> float | None:
    try:
        return catalog.instance_usd_per_hour(instance.name, region)
    except GridwrightError:
        return None


@dataclass(frozen=True, slots=True)
class PlacedNodes:
    """So many nodes of one type, at this price each, with the libraries placed, and what is kept."""

    side: NodeSide
    usd: float
    count: int
    placement: Placement
    existing: ExistingOnNodes

    @property
    def cores(self) -> int:
        """Physical cores of all nodes."""
        return self.side.instance.cores * self.count


class Search:
    """Costs every candidate of a market; each is the cheapest of its kind, so that none is missed.

    `sizes` are numbers of cores to plan for, by default those that are required.
    """

    def __init__(
        self,
        needs: Needs,
        on_sale: Market,
        levels: Sequence[float] = LEVELS,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.needs = needs
        self.levels = levels
        self.sizes = sizes or (needs.cores,)
        self.market = on_sale
        self._shared: dict[tuple[float, int, int], list[SharedChoice]] = {}
        self._scratch: dict[tuple[float, int, int], SharedChoice | None] = {}
        self._volumes: dict[tuple[float, float, float, int], VolumeSet | None] = {}
        self._cloud: dict[tuple[int, bool], float] = {}
        self._served = needs.given.servers, needs.given.is_served
        self.existing = ExistingStorage(needs, on_sale.catalog)
        self._placed = list(placements(needs))

    def candidates(self, instance: InstanceType, usd: float) -> Iterator[Candidate]:
        """All candidates with nodes of one type, of every size, at every level of the required rates."""
        side = NodeSide(self.needs, self.market.volumes, instance)
        for placement in self._placed:
            room = placement.rooms_later.get("instance-store", 0)
            if not side.passes(placement, self.levels[0]):
                continue
            # Two sizes often take the same number of large nodes.
            counts = {cores: side.nodes_for(room, cores) for cores in self.sizes}
            allowed = (count for cores, count in counts.items() if side.allows(count, room, cores))
            for count in dict.fromkeys(allowed):
                existing = self.existing.on(instance, count)
                if existing is not None:
                    yield from self._at_levels(PlacedNodes(side, usd, count, placement, existing))

    def _at_levels(self, nodes: PlacedNodes) -> Iterator[Candidate]:
        """The candidates of placed nodes, at every level of the required rates that it passes."""
        most = nodes.existing.most_level(nodes.placement)
        seen: set[tuple[int, ...]] = set()
        for level in self.levels:
            candidates = list(self._at_level(nodes, level)) if level <= most else []
            for one in candidates:
                # What was bought for a lower level is often enough for the next.
                key = (id(one.shared), id(one.scratch), id(one.volumes))
                if key not in seen:
                    seen.add(key)
                    yield one
            if not candidates:
                break

    def _at_level(self, nodes: PlacedNodes, level: float) -> Iterator[Candidate]:
        """The candidates of placed nodes at one level: one for each kind of shared file system."""
        placement, cores = nodes.placement, nodes.cores
        if not nodes.side.passes(placement, level):
            return
        rates, rooms, later = placement.rates, placement.rooms, placement.rooms_later
        volumes: VolumeSet | None = None
        if "volumes" in rates:
            volumes = self._node_volumes(nodes, level)
            if volumes is None:
                return
        scratch: SharedChoice | None = None
        if "scratch" in rates:
            scratch = self._scratch_choice(
                rates["scratch"] * cores * level, rooms["scratch"], later["scratch"]
            )
            if scratch is None:
                return
        shared_choices: list[SharedChoice | None] = [None]
        if "shared" in rates:
            rate = rates["shared"] * cores * level
            shared_choices = [*self._shared_choices(rate, rooms["shared"], later["shared"])]
        for shared in shared_choices:
            yield self._candidate(nodes, shared, scratch, volumes, level)

    def _node_volumes(self, nodes: PlacedNodes, level: float) -> VolumeSet | None:
        instance, placement = nodes.side.instance, nodes.placement
        rate = placement.rates["volumes"] * instance.cores * level
        if instance.ebs is None or rate > (volume_limit(instance) or math.inf):
            return None
        most = most_volumes(instance) - self.needs.given.node_volumes
        now, later = (rooms["volumes"] / nodes.count for rooms in (placement.rooms, placement.rooms_later))
        key = (rate, now, later, most)
        if key not in self._volumes:
            self._volumes[key] = _growing_volumes(self.market.volumes, *key)
        return self._volumes[key]

    def _scratch_choice(self, rate: float, room: int, later: int) -> SharedChoice | None:
        """The cheapest shared scratch file system, whose data may go with a server."""
        key = (rate, room, later)
        if key not in self._scratch:
            found = [
                choice
                for _, offer in self.market.offers
                if not offer.durable and (choice := growing(offer, *key))
            ]
            self._scratch[key] = min(found, key=lambda choice: choice.usd_per_hour, default=None)
        return self._scratch[key]

    def _shared_choices(self, rate: float, room: int, later: int) -> list[SharedChoice]:
        """The cheapest file system of each kind that may hold data, durable ones apart from others."""
        key = (rate, room, later)
        if key not in self._shared:
            best: dict[tuple[str, bool], SharedChoice] = {}
            may_lose = self.needs.requirements.availability.lose_data_with_server
            # Services first: of two that are as good they come first in a plan.
            for name, offer in sorted(self.market.offers, key=lambda each: not each[1].managed):
                choice = growing(offer, *key)
                kind = (name, offer.durable)
                if choice is None or not (offer.durable or may_lose):
                    continue
                if kind not in best or choice.usd_per_hour < best[kind].usd_per_hour:
                    best[kind] = choice
            self._shared[key] = list(best.values())
        return self._shared[key]

    def _candidate(
        self,
        nodes: PlacedNodes,
        shared: SharedChoice | None,
        scratch: SharedChoice | None,
        volumes: VolumeSet | None,
        level: float,
    ) -> Candidate:
        count, existing, placement = nodes.count, nodes.existing, nodes.placement
        places, homes = placement.places, placement.homes
        cost = nodes.usd * count + existing.usd_per_hour
        cost += shared.usd_per_hour if shared else 0.0
        cost += scratch.usd_per_hour if scratch else 0.0
        cost += volumes.usd_per_hour * count if volumes else 0.0
        beside = self._cloud_usd(count, shared)
        cost += beside
        rates = [
            self._library_rate(nodes.side, count, place, shared, scratch, volumes)
            for place in placement.rates
            if place not in ("kept", "kept-local")
        ]
        rates += [existing.rate(name, home) for name, home in homes.items()]
        lost = [name for name, place in places.items() if place == "instance-store"]
        lost += existing.lost_with_node(homes)
        points = data_points(placement, shared, existing)
        return Candidate(
            nodes.side.instance,
            count,
            places,
            shared,
            scratch,
            volumes,
            cost,
            min(rates),
            points + (not lost),
            level,
            beside,
            homes,
            existing.usd_per_hour,
            points,
            tuple(lost),
        )

    def _cloud_usd(self, nodes: int, shared: SharedChoice | None) -> float:
        """What the cloud asks for beside nodes and file systems; what has no price counts as nothing."""
        existing, is_served = self._served
        servers = (shared.servers if shared else 0) + existing
        key = (nodes + servers, servers > 0 or is_served)
        if key not in self._cloud:
            spec = self.needs.spec
            lines = pricing_provider(spec).costs_of(spec, self.market.catalog, key[0], has_lustre=key[1])
            self._cloud[key] = sum(line.usd_per_hour or 0.0 for line in lines)
        return self._cloud[key]

    @staticmethod
    def _library_rate(
        side: NodeSide,
        count: int,
        place: Place,
        shared: SharedChoice | None,
        scratch: SharedChoice | None,
        volumes: VolumeSet | None,
    ) -> float:
        """What a library there gets alone, lasting, in bytes per second per core."""
        cores = side.instance.cores
        choice = shared if place == "shared" else scratch
        if place in ("shared", "scratch"):
            return min(side.network, choice.bytes_per_s / (cores * count)) if choice else 0.0
        way = side.place_rate(place)
        if place == "volumes" and volumes is not None:
            return min(math.inf if way is None else way, volumes.bytes_per_s / cores)
        return way or 0.0


def data_points(placement: Placement, shared: SharedChoice | None, existing: ExistingOnNodes) -> int:
    """2 where data outlive the loss of a server, 3 where a service replaces it, else 0."""
    if "data" in placement.homes:
        return existing.server_points(placement.homes["data"])
    durable = shared is not None and shared.durable
    return 0 if shared is None or not durable else 3 if shared.managed else 2
