"""Which sizes of a grid are planned for where jobs and a deadline say what is needed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import ge

from gridwright.catalog import Catalog, InstanceType
from gridwright.filesystems.disks import store_rates
from gridwright.filesystems.site import shares_network, steady_network, volume_limit
from gridwright.filesystems.volume_sets import most_volumes
from gridwright.model.night import Night
from gridwright.plan.candidates import LEVELS, Candidate, market
from gridwright.plan.filters import node_filters
from gridwright.plan.needs import Needs
from gridwright.plan.search import search

CORES = (1, 2, 4)
"""Multiples of the required cores that are planned for: more cores can end the night earlier."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Parts and multiples of what jobs move while they compute at full speed, where a library has no rate."""


def candidates_of(needs: Needs, catalog: Catalog, night: Night, within_s: float) -> list[Candidate]:
    """What the catalogue has for the sizes that jobs can use, within the budget.

    Only grids with too few cores to compute within so many seconds may be missing, so that a shorter time
    finds nothing that a longer one does not.
    """
    on_sale = market(catalog, needs)
    on_sale = replace(on_sale, instances=worthwhile_types(on_sale.instances, needs))
    budget = needs.requirements.budget
    cores = _cores(needs, night, within_s)
    requirements = needs.requirements.model_copy(update={"cores": cores[0]})
    return [
        one
        for asked, levels in _rates(replace(needs, requirements=requirements), night)
        for one in search(asked, catalog, on_sale, levels, cores).candidates
        if budget is None or one.later_usd_per_hour <= budget
    ]


def worthwhile_types(
    instances: Sequence[tuple[InstanceType, float]], needs: Needs
) -> list[tuple[InstanceType, float]]:
    """The types of nodes without those that a type of as many cores outdoes in all else and costs no more.

    Whatever is planned with one of these costs no less, and ends no earlier, than with the other type.
    """
    given = needs.given
    filters = list(node_filters(needs))
    suitable = [(one, usd) for one, usd in instances if all(each.fits(one) for each in filters)]
    if given.instance is not None or any(each.is_node_local for each in given.filesystems.values()):
        return suitable
    kept: dict[Hashable, list[tuple[int, tuple[float, ...]]]] = {}
    found = []
    for one, usd in sorted(suitable, key=lambda each: (each[1], each[0].name)):
        room, figures = _offered(one)
        alike = kept.setdefault((one.cores, shares_network(one)), [])
        if not any(room in (0, more) and all(map(ge, better, figures)) for more, better in alike):
            alike.append((room, figures))
            found.append((one, usd))
    return found


def _offered(one: InstanceType) -> tuple[int, tuple[float, ...]]:
    """The room of a type's instance store, of which the number of nodes depends, and its other capacities."""
    rates = store_rates(one.instance_store) if one.instance_store else None
    volumes = -1.0 if one.ebs is None else volume_limit(one) or math.inf
    figures = (steady_network(one), volumes, float(most_volumes(one)), min(rates.values()) if rates else 0.0)
    return one.instance_store.total_bytes if one.instance_store else 0, figures


def _rates(needs: Needs, night: Night) -> Iterator[tuple[Needs, Sequence[float]]]:
    """Needs whose libraries have rates, and how many times these are planned for."""
    kept = needs.given.homes
    # What is kept delivers what it does: the simulation tells whether that is enough.
    moved = {name: rate for name, rate in night.bytes_per_core_s().items() if name not in kept}
    free = [
        name for name, need in needs.libraries.items() if not need.bytes_per_s_per_core and moved.get(name)
    ]
    stated = [name for name, need in needs.libraries.items() if need.bytes_per_s_per_core]
    if not free:
        yield needs, LEVELS
    elif not stated:
        least = SHARES[0]
        yield _moving(needs, moved, least), [share / least for share in SHARES]
    else:
        # What is stated stays as it is, so that each share is a search of its own.
        for share in SHARES:
            yield _moving(needs, moved, share), (1.0,)


def _cores(needs: Needs, night: Night, within_s: float) -> list[int]:
    """Numbers of cores: from the required ones on, or from one on, doubled as long as jobs can use them.

    Those with which computing alone takes longer than `within_s` are left out, but for the largest.
    """
    stated = needs.requirements.cores
    if stated is not None:
        return [stated * factor for factor in CORES if factor == 1 or stated * factor / 2 < night.most_cores]
    if math.isinf(night.most_cores):
        # Each node runs all of the jobs: another node is another night, and one of any size is enough.
        return [1]
    most = max(0, math.ceil(math.log2(night.most_cores)))
    # More than what the next lower power of two leaves out is left out by the simulation.
    least = min(most, max(0, math.floor(math.log2(max(1.0, night.least_cpu_s / within_s)))))
    return [2**power for power in range(least, most + 1)]


def _moving(needs: Needs, moved: Mapping[str, float], share: float) -> Needs:
    """The same with a share of what the jobs move as the rate of each library that has none."""
    libraries = {
        name: need
        if need.bytes_per_s_per_core
        else replace(need, bytes_per_s_per_core=moved.get(name, 0.0) * share)
        for name, need in needs.libraries.items()
    }
    return replace(needs, libraries=libraries)
