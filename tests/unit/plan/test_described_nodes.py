"""Plans on clouds whose machines no catalogue lists: the spec describes nodes, and offers are searched."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.catalog.managed import offer_price
from gridwright.errors import GridwrightError
from gridwright.filesystems.managed.kind import ManagedFileSystem
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.document import plan_document
from gridwright.plan.grid_spec import spec_document
from gridwright.plan.search import plan_grids
from gridwright.report.designs.words import growth_texts, nodes_text
from gridwright.spec.model import GridSpec

CATALOG = load_catalog()
TIB = 2**40
NODES: dict[str, Any] = {"machine": "E32", "node_price": "2.30 USD/h", "node_network": "2 GB/s"}


def spec(
    provider: str = "azure", nodes: dict[str, Any] | None = None, cores: int = 64, **libraries: dict[str, Any]
) -> GridSpec:
    document = {
        "name": "planned",
        "provider": provider,
        "region": "eastus" if provider == "azure" else "us-central1",
        provider: NODES if nodes is None else nodes,
        "nodes": {"compute": {"cores": 16, "memory": "256 GiB"}},
        "requirements": {"cores": cores, "memory_per_core": "8 GB"},
        "libraries": libraries or {"data": {"requires": "50 MB/s/core", "capacity": "20 TiB"}},
    }
    return GridSpec.model_validate(document, context={"base": Path("/")})


@pytest.mark.parametrize("provider", ["azure", "google"])
def test_every_design_delivers_what_is_required_and_costs_what_predict_says(provider: str) -> None:
    found = plan_grids(spec(provider), CATALOG)
    assert found.designs
    for design in found.designs:
        written = GridSpec.model_validate(spec_document(design.spec), context={"base": Path("/")})
        again = predict(grid_model(written, CATALOG))
        assert again.met
        assert again.usd_per_hour == pytest.approx(design.usd_per_hour)
        assert nodes_text(design) == "4 x E32"


def cheapest_by_hand(provider: str, cores: int, rate: float, room: float) -> float:
    """The cheapest of all sizes of all offers, tried one by one in steps of what is sold."""
    costs = []
    nodes = math.ceil(cores / 16)
    for offer in CATALOG.offers.values():
        price = offer_price(offer, CATALOG.offer_prices[offer.name], "eastus")
        each = offer.figure("by_capacity")
        if offer.provider != provider or price is None or not each:
            continue
        step = offer.figure("capacity_step") or TIB
        size, most = offer.figure("capacity_min") or step, offer.figure("capacity_max") or math.inf
        cap = min(offer.figure("read") or math.inf, offer.figure("write") or math.inf)
        while size <= most:
            if size >= room and min(size * each, cap) >= rate * nodes * 16:
                costs.append(nodes * 2.30 + price.usd_per_hour(size, 0))
                break
            size += step
    return min(costs)


@pytest.mark.parametrize("provider", ["azure", "google"])
@pytest.mark.parametrize("room", [1, 15, 99, 101])
@pytest.mark.parametrize(("cores", "rate"), [(16, 10), (64, 50), (100, 23), (256, 62.5)])
def test_no_size_of_any_offer_is_cheaper(provider: str, room: int, cores: int, rate: float) -> None:
    needed = {"requires": f"{rate} MB/s/core", "capacity": f"{room} TiB"}
    first = plan_grids(spec(provider, cores=cores, data=needed), CATALOG).designs[0]
    assert first.usd_per_hour == pytest.approx(cheapest_by_hand(provider, cores, rate * 1e6, room * TIB))


def test_a_rate_beyond_the_network_of_a_node_is_out_of_reach_and_says_how_far_it_goes() -> None:
    found = plan_grids(spec(data={"requires": "130 MB/s/core", "capacity": "20 TiB"}), CATALOG)
    assert not found.designs
    assert "nearest possible is 12" in found.impossible[0]
    assert found.impossible[-1] == "with E32 as the spec describes them"
    explained = plan_grids(
        spec(data={"requires": "130 MB/s/core", "capacity": "20 TiB"}), CATALOG, explain="E32"
    ).explanation
    assert explained
    assert "data over the network, per core: 125 MB/s/core" in explained.verdict


def test_a_size_that_never_changes_is_bought_as_it_must_be_later() -> None:
    growing = {"requires": "50 MB/s/core", "capacity": "14 TiB", "capacity_in_12_months": "40 TiB"}
    designs = plan_grids(spec(data=growing), CATALOG).designs
    fixed = [each for each in designs if "managed-lustre" in each.title]
    assert fixed
    for design in fixed:
        filesystem = design.spec.filesystems["shared"]
        assert isinstance(filesystem, ManagedFileSystem)
        assert (filesystem.capacity or 0) >= 40 * TIB
    assert any("never changes" in text for each in fixed if each.growth for text in growth_texts(each))
    grows = plan_grids(spec("google", data={**growing, "capacity_in_12_months": "90 TiB"}), CATALOG).designs[
        0
    ]
    assert grows.growth
    assert all(each.in_place for each in grows.growth.filesystems.values())


def test_all_that_a_plan_has_to_know_of_nodes_is_asked_for_at_once() -> None:
    asked = GridSpec.model_validate(
        {
            "name": "planned",
            "provider": "azure",
            "nodes": {"compute": {"cores": 16}},
            "requirements": {"cores": 64, "memory_per_core": "8 GB"},
            "libraries": {"data": {"requires": "50 MB/s/core"}},
        },
        context={"base": Path("/")},
    )
    with pytest.raises(GridwrightError) as raised:
        plan_grids(asked, CATALOG)
    fields = [problem.field for problem in raised.value.problems]
    assert fields == ["azure.node_price", "azure.node_network", "nodes.compute.memory"]


def test_the_age_of_prices_is_said_of_the_offers() -> None:
    found = plan_grids(spec(), CATALOG)
    document = plan_document(found)
    assert document["prices_of"] == "2024"
    assert [each["name"] for each in document["findings"]] == ["old-prices", "estimated-prices"]
