"""Nothing that a search without any knowledge of the planner comes to is cheaper than the first design."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gridwright.catalog import load_catalog
from gridwright.plan.candidates import market
from gridwright.plan.fits import node_filters
from gridwright.plan.grid_spec import spec_document
from gridwright.plan.needs import Needs, read_needs
from gridwright.plan.search import plan_grids
from gridwright.spec.model import GridSpec
from tests.support.local_search import LocalSearch
from tests.support.requirements import spec

FILES, MOVES = 40, 500
CATALOG = load_catalog()


def random_requirements(seed: int, most: int) -> GridSpec:
    """Of rates up to `most` MB/s/core."""
    chance = random.Random(seed)  # noqa: S311 - requirements of a test
    rooms = {name: round(chance.uniform(200, 60_000)) for name in ("data", "work", "util")}
    return spec(
        requirements={
            "cores": round(2 ** chance.uniform(3, 9.5)),
            "memory_per_core": f"{chance.choice((4, 8, 16))} GB",
            "availability": {"lose_work_with_node": chance.random() < 0.5},
        },
        libraries={
            name: {
                "requires": f"{chance.randint(10, most)} MB/s/core",
                "capacity": f"{room} GiB",
            }
            for name, room in rooms.items()
        },
    )


def local_search(design: GridSpec, needs: Needs, seed: int) -> LocalSearch:
    on_sale = market(CATALOG, needs)
    filters = list(node_filters(needs))
    nodes = [one for one, _ in on_sale.instances if all(each.fits(one) for each in filters)]
    servers = [
        one
        for one, _ in on_sale.instances
        if one.ebs is not None and not one.accelerators and not one.burstable_cpu
    ]
    return LocalSearch(design, CATALOG, nodes, servers, seed)


def test_the_local_search_finds_what_a_design_wastes() -> None:
    """The design that the planner's former list of sizes led to, which could be beaten by hand."""
    document = spec_document(spec())
    document["nodes"] = {"compute": {"instance": "m6in.2xlarge", "count": 16}}
    document["filesystems"] = {
        "shared": {
            "type": "fsx-lustre",
            "path": "/shared",
            "deployment": "persistent-2",
            "capacity": "26400 GiB",
            "throughput": "250 MB/s/TiB",
            "stripe_count": -1,
        },
        "volumes": {
            "type": "local",
            "path": "/volumes",
            "disks": {"type": "gp3", "count": 12, "size": "100 GiB"},
        },
    }
    for name, place in {"data": "shared", "work": "volumes", "util": "volumes"}.items():
        document["libraries"][name]["filesystem"] = place
    listed = GridSpec.model_validate(document, context={"base": Path("/")})
    found = local_search(listed, read_needs(spec()), 1)
    before = found.lowest
    assert found.run(400) < before * 0.99


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, FILES))]
)
def test_no_local_search_beats_the_first_design(seed: int) -> None:
    # Some rates are beyond all that is on sale.
    asked = (random_requirements(seed, most) for most in (200, 100, 50))
    wanted, planned = next((each, made) for each in asked if (made := plan_grids(each, CATALOG)).designs)
    needs, best = read_needs(wanted), planned.designs[0]
    found = local_search(best.spec, needs, seed)
    assert found.lowest == pytest.approx(best.usd_per_hour)
    assert found.run(MOVES if seed else 60) >= best.usd_per_hour * (1 - 1e-6), found.best
