"""Which sizes of a grid are planned for where jobs and a deadline say what is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gridwright.catalog import Catalog
from gridwright.model.night import Night
from gridwright.plan.candidates import LEVELS, Candidate, market
from gridwright.plan.needs import Need, Needs
from gridwright.plan.search import search

CORES = (1, 2, 4)
"""Multiples of the required cores that are planned for: more cores can end the night earlier."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Parts and multiples of what jobs move while they compute at full speed, where a library has no rate."""


def candidates_of(needs: Needs, catalog: Catalog, night: Night) -> list[Candidate]:
    """What the catalogue has for the sizes that jobs can use, within the budget.

    They are the same for every deadline, so that a shorter one finds nothing that a longer one does not.
    """
    on_sale = market(catalog, needs)
    budget = needs.requirements.budget
    return [
        one
        for asked, levels in _sizes(needs, night)
        for one in search(asked, catalog, on_sale, levels).candidates
        if budget is None or one.later_usd_per_hour <= budget
    ]


def _sizes(needs: Needs, night: Night) -> Iterator[tuple[Needs, Sequence[float]]]:
    """Needs, and how many times their rates are planned for."""
    moved = night.bytes_per_core_s()
    for cores in _cores(needs, night):
        requirements = needs.requirements.model_copy(update={"cores": cores})
        asked = replace(needs, requirements=requirements)
        if all(need.bytes_per_s_per_core or not moved.get(name) for name, need in needs.libraries.items()):
            yield asked, LEVELS
        else:
            for share in SHARES:
                yield replace(asked, libraries=_rates(needs, moved, share)), (1.0,)


def _cores(needs: Needs, night: Night) -> list[int]:
    """Numbers of cores: from the required ones on, or from one on, doubled as long as jobs can use them."""
    stated = needs.requirements.cores
    if stated is not None:
        return [stated * factor for factor in CORES if factor == 1 or stated * factor / 2 < night.most_cores]
    if math.isinf(night.most_cores):
        # Each node runs all of the jobs: another node is another night, and one of any size is enough.
        return [1]
    return [2**power for power in range(max(0, math.ceil(math.log2(night.most_cores))) + 1)]


def _rates(needs: Needs, moved: Mapping[str, float], share: float) -> dict[str, Need]:
    """The rates of the libraries: those required, or a share of what the jobs move."""
    return {
        name: need
        if need.bytes_per_s_per_core
        else replace(need, bytes_per_s_per_core=moved.get(name, 0.0) * share)
        for name, need in needs.libraries.items()
    }
