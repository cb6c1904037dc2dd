"""Why a type does not do, and why the neighbours of the cheapest design are no better."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.filesystems.offers import most_volumes
from gridwright.plan.candidates import Candidate, Search, market
from gridwright.plan.design import DesignExplanation, Fit
from gridwright.plan.fits import SearchResult, held, title
from gridwright.plan.needs import read_needs
from gridwright.plan.node_side import NodeSide, Place
from gridwright.plan.search import bill, difference, plan_grids, search
from tests.support.requirements import spec

CATALOG = load_catalog()
STORAGE = "storage for the libraries"
BUDGET = "budget for the cheapest grid with it"
SPECS: list[dict[str, Any]] = [
    {},
    {"requirements": {"availability": {"lose_work_with_node": False}}},
    {"libraries": {"work": {"requires": "300 MB/s/core", "capacity": "60 TiB"}}},
    {
        "requirements": {"cores": 100_000, "architecture": "arm64"},
        "libraries": {name: {"requires": "5 MB/s/core"} for name in ("data", "work", "util")},
    },
    {"provider": "oci", "region": "us-ashburn-1"},
]


@cache
def base() -> SearchResult:
    return search(read_needs(spec()), CATALOG)


def explained(instance: str, **sections: Any) -> tuple[DesignExplanation, dict[str, Fit]]:
    explanation = plan_grids(spec(**sections), CATALOG, explain=instance).explanation
    assert explanation is not None
    rows = {fit.requirement: fit for fit in explanation.fits}
    assert len(rows) == len(explanation.fits)
    return explanation, rows


def cheapest_of(found: SearchResult, instance: str = "") -> Candidate:
    return min(
        (one for one in found.candidates if instance in ("", one.instance.name)),
        key=lambda one: one.usd_per_hour,
    )


def test_a_place_that_misses_excludes_nothing_while_another_fits() -> None:
    explanation, rows = explained("c5n.18xlarge")
    assert rows["work and util over the network beside data, per core"].fits == "yes"
    assert rows["work and util on volumes, per core"].fits == "alternative"
    assert rows["work and util on its instance store, per core"].fits == "alternative"
    assert rows["a place for work and util"].provided == "over the network"
    assert [row.requirement for row in explanation.fits if row.fits == "no"] == ["memory per core"]
    what = "no grid with c5n.18xlarge meets the requirements: memory per core: 5.33 GiB, 8 GB required"
    assert explanation.verdict == what


def test_a_type_that_takes_one_volume_beside_its_claim_is_planned_with_no_more() -> None:
    needs = read_needs(
        spec(
            requirements={"cores": 16},
            libraries={
                "data": {"requires": "1 MB/s/core"},
                **{name: {"requires": "1 MB/s/core", "capacity": "50 TiB"} for name in ("work", "util")},
            },
        )
    )
    on_sale = market(CATALOG, needs)
    instance = CATALOG.instances["d3.8xlarge"]
    assert most_volumes(instance) == 1
    largest = on_sale.volumes.largest_bytes
    assert needs.capacity(["work"]) < largest < needs.capacity(["work", "util"])
    side = NodeSide(needs, on_sale.volumes, instance)
    one: dict[str, Place] = {"data": "shared", "work": "volumes", "util": "shared"}
    both: dict[str, Place] = {**one, "util": "volumes"}
    assert side.local_obstacle(one) is None
    assert (side.local_obstacle(both) or "").startswith("no volumes on sale, of at most 1, bring ")
    roomy = NodeSide(needs, on_sale.volumes, CATALOG.instances["d3.4xlarge"])
    assert roomy.local_obstacle(both) is None
    usd = on_sale.prices[instance.name]
    found = list(Search(needs, on_sale).candidates(instance, usd))
    assert {one.volumes.count for one in found if one.volumes} == {1}
    assert not [one for one in found if one.places["work"] == one.places["util"] == "volumes"]


def test_without_any_place_every_place_says_what_it_passes() -> None:
    explanation, rows = explained("m5.8xlarge", libraries={"data": {"requires": "50 MB/s/core"}})
    assert rows["data over the network, per core"].fits == "yes"
    assert rows["a place for work and util"].fits == "no"
    assert rows["work and util on volumes, per core"].fits == "no"
    assert explanation.verdict == (
        "no grid with m5.8xlarge meets the requirements: no place for work and util: its network passes "
        "78.1 MB/s/core of 125 MB/s/core required for data, work and util; it has no instance store; its way "
        "to volumes passes 53.1 MB/s/core of 125 MB/s/core required for work and util"
    )


def test_the_network_carries_at_once_what_cannot_live_on_the_node() -> None:
    _, stored = explained("i3.8xlarge")
    assert stored["data over the network, per core"].fits == "no"
    assert stored["all at once over the network (data), per core"].required == "100 MB/s/core"
    assert stored["a place for work and util"].provided == "on its instance store"
    _, kept = explained("i3.8xlarge", requirements={"availability": {"lose_work_with_node": False}})
    assert kept["a place for work and util"].fits == "no"
    assert kept["all at once over the network (data, work and util), per core"].required == "125 MB/s/core"


def test_work_that_must_outlive_a_node_has_no_place_on_its_instance_store() -> None:
    losses = {"availability": {"lose_work_with_node": False}}
    libraries = {"data": {"requires": "50 MB/s/core"}}
    explanation, rows = explained("i3.8xlarge", requirements=losses, libraries=libraries)
    assert rows["work and util on its instance store, per core"].provided == (
        "its instance store is lost with a node"
    )
    assert rows["work and util after the loss of a node"].required == "must be kept"
    assert "its instance store is lost with a node" in explanation.verdict
    allowed, rows = explained("i3.8xlarge", libraries=libraries)
    assert allowed.cheapest is not None
    assert rows["work and util after the loss of a node"].required == "may be lost"


def test_room_on_instance_stores_can_take_more_nodes_than_the_cores() -> None:
    libraries = {"data": {"requires": "50 MB/s/core"}, "work": {"requires": "125 MB/s/core"}}
    libraries["work"]["capacity"] = "40 TiB"
    explanation, rows = explained("i3.8xlarge", libraries=libraries)
    row = rows["room for work and util on its instance store"]
    assert row == Fit(row.requirement, "7 x 6.91 TiB (4 for the cores)", "48 TiB", "yes")
    assert explanation.cheapest is not None
    assert explanation.cheapest.prediction.nodes == 7


def test_every_stated_requirement_has_its_row() -> None:
    wanted = {
        "memory_per_core": "8 GB",
        "architecture": "x86_64",
        "families": {"forbid": ["m5"]},
        "budget": "90 USD/h",
    }
    _, rows = explained("m5n.8xlarge", requirements=wanted)
    for requirement in (
        "cores",
        "memory per core",
        "architecture",
        "forbidden families",
        "price in us-east-1",
        STORAGE,
        BUDGET,
    ):
        assert rows[requirement].fits == "yes", rows
    assert rows["cores"].provided == "4 x 16 = 64"
    assert rows[BUDGET].required == "at most 90.00 USD/h"
    assert rows[STORAGE].required == "8 GB/s at once and 36 TiB in all"
    assert explained("m5.8xlarge", requirements=wanted)[1]["forbidden families"].fits == "no"


def test_a_budget_that_the_cheapest_grid_with_a_type_exceeds_is_said() -> None:
    best, other = cheapest_of(base()), cheapest_of(base(), "m5n.16xlarge")
    between = (best.usd_per_hour + other.usd_per_hour) / 2
    assert best.usd_per_hour < between < other.usd_per_hour
    budget = {"budget": f"{between:.4f} USD/h"}
    explanation, rows = explained("m5n.16xlarge", requirements=budget)
    assert rows[BUDGET].fits == "no"
    assert rows[BUDGET].provided == f"{other.usd_per_hour:.2f} USD/h"
    assert explanation.verdict.startswith(
        f"the cheapest grid with m5n.16xlarge costs {other.usd_per_hour:.2f} USD/h, "
        f"over the budget of {between:.2f} USD/h; against the cheapest of all, with {best.instance.name}, it"
    )
    within, rows = explained(best.instance.name, requirements=budget)
    assert rows[BUDGET].fits == "yes"
    assert within.verdict == f"{best.instance.name} makes the cheapest grid"
    none, rows = explained(best.instance.name, requirements={"budget": "1 USD/h"})
    assert rows[BUDGET].fits == "no"
    assert none.verdict.endswith("over the budget of 1.00 USD/h: no type makes one within it")


def test_a_budget_missed_by_less_than_a_cent_does_not_look_met() -> None:
    usd = cheapest_of(base()).usd_per_hour
    _, rows = explained(
        cheapest_of(base()).instance.name, requirements={"budget": f"{usd - 0.0002:.6f} USD/h"}
    )
    assert rows[BUDGET].fits == "no"
    assert rows[BUDGET].provided != rows[BUDGET].required.removeprefix("at most ")


@pytest.mark.parametrize("sections", SPECS)
def test_rows_exclude_exactly_the_types_that_make_no_grid(sections: dict[str, Any]) -> None:
    found = search(read_needs(spec(**sections)), CATALOG)
    assert found.candidates
    provider = found.needs.spec.provider
    outcomes = set()
    for instance in (one for one in CATALOG.instances.values() if one.provider == provider):
        against = held(found, instance)
        fits = {fit.requirement: fit.fits for fit in against.rows}
        outcomes.add(against.cheapest is None)
        assert (against.cheapest is None) == bool(against.excluded_by), (instance.name, against)
        # The search knows no reason that a row does not name.
        assert fits[STORAGE] != "no", (instance.name, against)
        assert bool(against.excluded_by) == ("no" in fits.values()), (instance.name, against)
    assert outcomes == {True, False}


def test_rates_that_nothing_on_sale_delivers_are_named() -> None:
    libraries = {name: {"requires": "20 MB/s/core", "capacity": "900000 TiB"} for name in ("data", "work")}
    explanation, rows = explained("m5n.8xlarge", libraries=libraries)
    assert rows[STORAGE].fits == "no"
    assert STORAGE in explanation.verdict


def test_the_parts_of_a_bill_add_up_and_their_difference_is_printed() -> None:
    best = cheapest_of(base())
    for one in base().candidates[::211]:
        parts = bill(one)
        prices = {each.name: usd for each, usd in base().market.instances}
        assert parts["nodes"] == pytest.approx(prices[one.instance.name] * one.count)
        assert sum(parts.values()) == pytest.approx(one.usd_per_hour)
        why = difference(base(), one, best)
        for part, usd in parts.items():
            stated = re.search(rf"{part} ([\d.]+) against ([\d.]+)", why)
            if stated:
                assert stated.groups() == (f"{usd:.2f}", f"{bill(best)[part]:.2f}")
            else:
                assert usd == pytest.approx(bill(best)[part], abs=0.011)


def test_neighbours_say_what_forces_their_cost() -> None:
    x86 = spec(requirements={"architecture": "x86_64"})
    result = plan_grids(x86, CATALOG)
    whys = {each.title: each.why for each in result.neighbours}
    assert len(whys) == len(result.neighbours) >= 5
    assert all(":" in why or ";" in why for why in whys.values()), whys
    assert "data+work+util on Lustre" in result.designs[0].title
    moved = next(each for each in result.neighbours if each.change == "nodes m6in.2xlarge")
    assert "must bring 6.40 GB/s and 20 TiB in place of 8 GB/s and 36 TiB" in moved.why
    assert "passes" not in moved.why


def test_a_library_that_moves_because_its_old_place_is_too_slow_says_so() -> None:
    own, shared = cheapest_of(base(), "m6in.2xlarge"), cheapest_of(base(), "m5n.16xlarge")
    assert "work+util on 4 gp3 of 256 GiB at each node" in title(own)
    why = difference(base(), shared, own)
    assert "its way to volumes passes 53.1 MB/s/core of 125 MB/s/core required for work and util" in why
    assert "so it takes room on the shared file system for work and util in place of volumes at each" in why


def test_a_neighbour_of_the_same_cost_is_called_no_worse() -> None:
    best, same = cheapest_of(base(), "m6in.2xlarge"), cheapest_of(base(), "m6in.4xlarge")
    assert same.usd_per_hour == pytest.approx(best.usd_per_hour)
    assert difference(base(), same, best) == (
        "costs the same and is no worse; 8 nodes of 8 cores in place of 16 nodes of 4 cores"
    )


def test_cores_that_nobody_asked_for_and_stores_that_nobody_uses_are_named() -> None:
    best = cheapest_of(base())
    spare = min(
        (one for one in base().candidates if one.cores == 72 and one.count == 2),
        key=lambda one: one.usd_per_hour,
    )
    assert "more cores than required: 72 for 64" in difference(base(), spare, best)
    stored = cheapest_of(base(), "m6idn.2xlarge")
    assert "its instance store is paid for and not used" in difference(base(), stored, best)


def test_a_neighbour_of_a_type_that_makes_no_grid_says_what_excludes_it() -> None:
    libraries = {"data": {"requires": "93 MB/s/core", "capacity": "20 TiB"}}
    result = plan_grids(spec(requirements={"families": {"allow": ["i3"]}}, libraries=libraries), CATALOG)
    why = {each.change: each.why for each in result.neighbours if each.usd_per_hour is None}
    assert why == {"nodes i3.metal": "data over the network, per core: 86.8 MB/s/core, 93 MB/s/core required"}


def test_a_neighbour_over_the_budget_says_so() -> None:
    budget = f"{cheapest_of(base()).usd_per_hour * 1.01:.4f} USD/h"
    result = plan_grids(spec(requirements={"budget": budget}), CATALOG)
    assert result.neighbours
    for each in result.neighbours:
        over = (each.usd_per_hour or 0) > cheapest_of(base()).usd_per_hour * 1.01
        assert each.why.startswith("over the budget of") == over
