"""A plan for libraries that grow: what it costs now and in 12 months, and whether it gets there in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from gridwright.catalog import load_catalog
from gridwright.filesystems.offers import IN_PLACE, SharedChoice, changed_fields
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.candidates import growing, market
from gridwright.plan.document import plan_document
from gridwright.plan.fits import search_market
from gridwright.plan.grid_spec import design_growth, design_spec, spec_document
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan_grids
from gridwright.report.designs.words import growth_texts
from gridwright.spec.model import GridSpec
from tests.support.requirements import BASE, spec

WHOLE = load_catalog()
NAMES = ("m6in.2xlarge", "m5dn.4xlarge", "r8gb.2xlarge", "c5n.9xlarge", "c8gb.12xlarge", "m5.4xlarge")
CATALOG = replace(WHOLE, instances=MappingProxyType({name: WHOLE.instances[name] for name in NAMES}))
LATER = {"data": "45 TiB", "work": "9 TiB", "util": "8 TiB"}
TIB = 2**40


def growing_spec(**sections: Any) -> GridSpec:
    libraries = {
        name: {**library, "capacity_in_12_months": LATER[name]} for name, library in BASE["libraries"].items()
    }
    return spec(libraries=libraries, **sections)


def test_each_design_holds_what_it_says_of_today_and_of_in_12_months() -> None:
    needs = read_needs(growing_spec())
    candidates = search_market(needs, market(CATALOG, needs)).candidates
    assert len(candidates) > 100
    grown = 0
    for one in candidates[:: len(candidates) // 40]:
        design, growth = design_spec(one, needs), design_growth(one, needs)
        assert growth is not None
        now = predict(grid_model(design, CATALOG))
        assert now.met is True
        document = spec_document(design)
        for name, each in growth.filesystems.items():
            changed = changed_fields(document["filesystems"][name], {**each.plain, "path": f"/{name}"})
            if each.in_place:
                assert changed
                assert {update.change for _, update in changed} <= IN_PLACE
                grown += 1
            document["filesystems"][name] = {**each.plain, "path": f"/{name}"}
        for name, library in document["libraries"].items():
            library["capacity"] = LATER[name]
        later = predict(grid_model(GridSpec.model_validate(document, context={"base": Path("/")}), CATALOG))
        assert later.met is True, later.findings
        assert later.usd_per_hour == pytest.approx(growth.usd_per_hour_later)
        assert now.usd_per_hour is not None
        assert later.usd_per_hour is not None
        assert (now.usd_per_hour + later.usd_per_hour) / 2 == pytest.approx(one.usd_per_hour)
        assert growth.usd_per_hour_mean == one.usd_per_hour
    assert grown > 20


def test_designs_are_ranked_by_the_mean_of_the_year_and_say_both_costs() -> None:
    found = plan_grids(growing_spec(), CATALOG)
    means = [design.growth.usd_per_hour_mean for design in found.designs if design.growth]
    assert means == sorted(means)
    assert len(means) == len(found.designs)
    first = plan_document(found)["designs"][0]
    assert first["cost_usd_per_hour"] < first["growth"]["cost_usd_per_hour_later"]
    assert "in 12 months" in growth_texts(found.designs[0])[0]
    assert any("growing evenly" in reading.value for reading in found.readings)


def test_without_growth_nothing_is_said_of_it_and_nothing_costs_more() -> None:
    plain, same = plan_grids(spec(), CATALOG), {"capacity_in_12_months": "20 TiB"}
    again = plan_grids(spec(libraries={"data": {**BASE["libraries"]["data"], **same}}), CATALOG)
    assert all(design.growth is None for design in (*plain.designs, *again.designs))
    assert [design.title for design in plain.designs] == [design.title for design in again.designs]
    assert plan_grids(growing_spec(), CATALOG).designs[0].usd_per_hour >= plain.designs[0].usd_per_hour


def test_the_budget_has_to_be_enough_after_the_growth() -> None:
    first = plan_grids(growing_spec(), CATALOG).designs[0]
    assert first.growth is not None
    between = (first.usd_per_hour + first.growth.usd_per_hour_later) / 2
    assert plan_grids(growing_spec(requirements={"budget": f"{between:.2f} USD/h"}), CATALOG).designs == ()


@dataclass(frozen=True)
class Servers:
    """An offer that has more servers for more room, and cannot begin with the later number of them."""

    managed: bool = False
    durable: bool = True
    most: str = "many"

    def smallest(self, bytes_per_s: float, capacity_bytes: int) -> SharedChoice | None:
        count = -(-capacity_bytes // (10 * TIB))
        plain = {"type": "lustre", "oss": {"instance": "c5n.9xlarge", "count": count}}
        return SharedChoice(
            "lustre", f"{count} servers", bytes_per_s, capacity_bytes, float(count), False, True, plain
        )


def test_what_would_have_to_be_rebuilt_is_never_said_to_grow_in_place() -> None:
    found = growing(Servers(), 1e9, 10 * TIB, 30 * TIB)
    assert found is not None
    assert found.growth is not None
    assert not found.growth.in_place
    assert "oss.count: targets are added or emptied by hand" in found.growth.because
    assert found.title == "3 servers", "it is bought at its later size"
    assert found.usd_per_hour == found.growth.usd_now == found.growth.usd_later == 3.0


def test_lustre_begins_with_the_servers_and_volumes_that_it_will_have() -> None:
    on_sale = market(CATALOG, read_needs(spec()))
    (offer,) = (offer for name, offer in on_sale.offers if name == "lustre")
    for rate, room, later in ((1e9, 5, 400), (6e9, 20, 40), (4e9, 100, 2000)):
        found = growing(offer, rate, room * TIB, later * TIB)
        whole = offer.smallest(rate, later * TIB)
        assert found is not None
        assert whole is not None
        assert found.growth is not None
        assert found.growth.in_place
        assert found.growth.usd_later == whole.usd_per_hour, "the later size is the cheapest there is"
        assert found.capacity_bytes >= room * TIB
        assert found.bytes_per_s >= rate * (1 - 1e-9)
        assert found.plain["oss"]["count"] == found.growth.plain["oss"]["count"]


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ({"capacity": "20 TiB", "capacity_in_12_months": "2 TiB"}, "no growth"),
        ({"capacity_in_12_months": "2 TiB"}, "nothing says what it needs now"),
    ],
)
def test_a_library_that_shrinks_is_refused(library: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        spec(libraries={"data": library})


def test_a_kept_file_system_must_have_the_room_of_in_12_months() -> None:
    fsx = {"type": "fsx-lustre", "path": "/d", "capacity": "26400 GiB", "throughput": "250 MB/s/TiB"}
    data = {**BASE["libraries"]["data"], "capacity_in_12_months": "45 TiB", "filesystem": "big"}
    found = plan_grids(
        spec(filesystems={"big": {**fsx, "stripe_count": -1}}, libraries={"data": data}), CATALOG
    )
    assert found.designs == ()
    assert "it holds 25.8 TiB of 45 TiB required in 12 months for data" in found.impossible[0]
