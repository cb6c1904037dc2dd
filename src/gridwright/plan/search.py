"""The search: every instance type of the catalogue, every placement, ranked."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.catalog.basis import age_findings, estimate_findings
from gridwright.errors import Finding
from gridwright.filesystems.site import default_region
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.model.seller import seller_of
from gridwright.plan.candidates import LEVELS, Candidate, Market, market
from gridwright.plan.design import Design, Plan
from gridwright.plan.explain import explain_type, neighbours
from gridwright.plan.filters import check_families
from gridwright.plan.found import Found, search_market, survives, title
from gridwright.plan.grid_spec import design_growth, design_spec
from gridwright.plan.impossible import impossible
from gridwright.plan.kept import check_kept_nodes
from gridwright.plan.needs import Needs, read_needs, readings
from gridwright.plan.price_dates import price_dates
from gridwright.spec.findings import unsilenced
from gridwright.spec.model import GridSpec

CHEAPEST = 10
"""Designs listed for their cost."""
SAME_FAMILY = 1
"""Most of these with nodes of one family: others only vary their size, or where work lives."""
FRONT = 12
"""Most designs listed for being on the Pareto front."""


def plan(spec: GridSpec, catalog: Catalog | None = None, *, explain: str | None = None) -> Plan:
    """Find the cheapest grids that meet the requirements of a spec, and those worth their price.

    `explain` names an instance type to hold against every requirement. Raises GridwrightError for a
    spec without requirements, a region without prices, or a type that does not exist.
    """
    needs = read_needs(spec)
    catalog = catalog or load_catalog(spec.file.parent if spec.file else None)
    check_families(needs, catalog)
    explained = _explained(explain, spec, catalog) if explain else None
    found = search(needs, catalog)
    budget = needs.requirements.budget
    within = [one for one in found.candidates if budget is None or one.later_usd_per_hour <= budget]
    front = pareto_front(within)
    # Designs whose nodes are given differ in their storage alone.
    alike = CHEAPEST if needs.given.instance else SAME_FAMILY
    chosen = {id(one): one for one in [*cheapest_designs(within, alike), *spread(front, FRONT)]}
    on_front = {id(one) for one in front}
    ranked = sorted(chosen.values(), key=order)
    made = [(one, _design(one, needs, catalog, front=id(one) in on_front)) for one in ranked]
    # What is kept is the user's: predict has the last word on it.
    ranked = [one for one, design in made if design.prediction.met is not False or not needs.given.parts]
    designs = tuple(design for one, design in made if one in ranked)
    region = default_region(catalog, spec)
    return Plan(
        spec.name,
        readings(needs),
        designs,
        neighbours(found, ranked[0]) if ranked else (),
        considered=len(found.candidates),
        seconds=found.seconds,
        impossible=() if designs else impossible(found),
        explanation=explain_type(
            found,
            explained,
            lambda one: _design(one, needs, catalog, front=id(one) in on_front),
        )
        if explained
        else None,
        region=region,
        prices_of=_prices_of(found, ranked),
        without_price=found.without_price,
        basis=found.market.basis,
        findings=_price_findings(found),
        kept=tuple(needs.given.parts),
    )


def _explained(name: str, spec: GridSpec, catalog: Catalog) -> InstanceType:
    """The type to explain: one of the catalogue, or the nodes that the spec describes."""
    described = seller_of(spec).described_node(spec)
    if described is not None and described[0].name == name:
        return described[0]
    return catalog.instance(name, spec.provider)


def _prices_of(found: Found, designs: Sequence[Candidate]) -> str:
    """When the prices of these designs were listed; those of managed offers where no type has one."""
    catalog, basis = found.market.catalog, found.market.basis
    region = default_region(catalog, found.needs.spec)
    types = price_dates(catalog, (one.instance.name for one in designs), region)
    return types or " to ".join(dict.fromkeys(basis.storage if basis else ()))


def _price_findings(found: Found) -> tuple[Finding, ...]:
    basis = found.market.basis
    if basis is None:
        return ()
    region = default_region(found.market.catalog, found.needs.spec)
    spec = found.needs.spec
    return tuple(unsilenced((*age_findings(basis), *estimate_findings(basis, region)), spec.silence))


def search(
    needs: Needs,
    catalog: Catalog,
    on_sale: Market | None = None,
    levels: Sequence[float] = LEVELS,
    sizes: Sequence[int] | None = None,
) -> Found:
    """Cost every candidate of the catalogue at so many times the rates.

    `on_sale` is its market for the same spec, if that was made. `sizes` are numbers of cores to plan for, by
    default those that are required.
    """
    started = time.perf_counter()
    check_kept_nodes(needs, catalog)
    found = search_market(needs, on_sale or market(catalog, needs), levels, sizes)
    found.seconds = time.perf_counter() - started
    return found


def order(candidate: Candidate) -> tuple[float, float, int, str]:
    """Cheapest first; among equals the faster and more resilient, then by name, so that ranks are stable."""
    return (
        candidate.usd_per_hour,
        -candidate.bytes_per_s_per_core,
        -candidate.resilience,
        candidate.instance.name,
    )


def cheapest_designs(candidates: Sequence[Candidate], same_family: int = SAME_FAMILY) -> list[Candidate]:
    """The cheapest candidates, at most `same_family` of each family."""
    kept: list[Candidate] = []
    seen: dict[str, int] = {}
    for one in sorted(candidates, key=order):
        if seen.get(one.instance.family, 0) < same_family:
            seen[one.instance.family] = seen.get(one.instance.family, 0) + 1
            kept.append(one)
        if len(kept) == CHEAPEST:
            break
    return kept


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other matches in cost, rate and resilience while being better in one; cheapest first."""
    best: dict[int, float] = {}
    front: list[Candidate] = []
    for one in sorted(candidates, key=order):
        highest = max((rate for level, rate in best.items() if level >= one.resilience), default=-1.0)
        if one.bytes_per_s_per_core > highest:
            front.append(one)
            best[one.resilience] = one.bytes_per_s_per_core
    return front


def spread(front: Sequence[Candidate], limit: int) -> list[Candidate]:
    """At most `limit` of the front: both ends, and the others evenly between them."""
    if len(front) <= limit:
        return list(front)
    step = (len(front) - 1) / (limit - 1)
    return [front[round(step * index)] for index in range(limit)]


def _design(candidate: Candidate, needs: Needs, catalog: Catalog, *, front: bool) -> Design:
    """The candidate as a design, with what predict says of its spec."""
    spec = design_spec(candidate, needs)
    prediction = predict(grid_model(spec, catalog))
    return Design(
        title(candidate),
        spec,
        prediction,
        prediction.usd_per_hour if prediction.usd_per_hour is not None else candidate.usd_per_hour,
        min(rates.bytes_per_s_per_core for each in prediction.libraries for rates in each.rates.values()),
        candidate.resilience,
        survives(candidate),
        front,
        design_growth(candidate, needs),
    )
