"""Nothing that a search without any knowledge of the planner comes to is cheaper than the first design."""

from __future__ import annotations

import random

import pytest

from gridwright.catalog import load_catalog
from gridwright.plan.candidates import market
from gridwright.plan.filters import node_filters
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan
from gridwright.spec.model import GridSpec
from tests.support.local_search import LocalSearch
from tests.support.requirements import spec

FILES, MOVES = 40, 500
CATALOG = load_catalog()


def random_requirements(seed: int) -> GridSpec:
    chance = random.Random(seed)  # noqa: S311 - requirements of a test
    rooms = {"data": chance.uniform(1, 200), "work": chance.uniform(0.2, 60), "util": chance.uniform(0.2, 60)}
    return spec(
        requirements={
            "cores": round(2 ** chance.uniform(3, 9.5)),
            "memory_per_core": f"{chance.choice((4, 8, 16))} GB",
            "availability": {"lose_work_with_node": chance.random() < 0.5},
        },
        libraries={
            name: {"requires": f"{chance.randint(10, 200)} MB/s/core", "capacity": f"{room:.1f} TiB"}
            for name, room in rooms.items()
        },
    )


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, FILES))]
)
def test_no_local_search_beats_the_first_design(seed: int) -> None:
    wanted = random_requirements(seed)
    needs = read_needs(wanted)
    best = plan(wanted, CATALOG).designs[0]
    on_sale = market(CATALOG, needs)
    filters = list(node_filters(needs))
    nodes = [one for one, _ in on_sale.instances if all(each.fits(one) for each in filters)]
    servers = [
        one
        for one, _ in on_sale.instances
        if one.ebs is not None and not one.accelerators and not one.burstable_cpu
    ]
    found = LocalSearch(best.spec, CATALOG, nodes, servers, seed)
    assert found.lowest == pytest.approx(best.usd_per_hour)
    assert found.run(MOVES if seed else 60) >= best.usd_per_hour * (1 - 1e-6), found.best
