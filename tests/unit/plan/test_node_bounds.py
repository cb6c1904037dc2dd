"""Bounds on nodes: designs hold them, lose nothing else by them, and what they forbid is said of them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gridwright.catalog import load_catalog
from gridwright.plan.candidates import Candidate, market
from gridwright.plan.fits import search_market
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan_grids
from tests.support.examples import examples
from tests.support.requirements import spec

TYPES = ("m6in.2xlarge", "m6in.4xlarge", "m5dn.4xlarge", "r8gb.xlarge", "r8gb.4xlarge", "m5n.24xlarge")
WHOLE = load_catalog()
CATALOG = replace(
    WHOLE,
    instances=MappingProxyType(
        {name: WHOLE.instances[name] for name in (*TYPES, "c5n.9xlarge", "c8gb.12xlarge", "m5.4xlarge")}
    ),
)
MARKET = market(CATALOG, read_needs(spec()))
GIB = 2**30


def searched(nodes: dict[str, Any]) -> list[Candidate]:
    return search_market(read_needs(spec(requirements={"nodes": nodes})), MARKET).candidates


FREE = searched({})


@settings(max_examples=examples(200))
@given(
    st.sampled_from(("count", "cores", "memory")),
    st.sampled_from((None, 2, 4, 8, 16, 32)),
    st.sampled_from((None, 16, 32, 64, 128)),
)
def test_the_cheapest_within_bounds_is_the_cheapest_of_all_that_hold_them(
    field: str, least: int | None, most: int | None
) -> None:
    unit = " GiB" if field == "memory" else 0
    ends = {name: end for name, end in (("least", least), ("most", most)) if end is not None}
    if least is not None and most is not None and least > most:
        return
    found = searched({field: {name: f"{end}{unit}" if unit else end for name, end in ends.items()}})

    def size(one: Candidate) -> int:
        return {
            "count": one.count,
            "cores": one.instance.cores,
            "memory": one.instance.memory_bytes // GIB,
        }[field]

    holds = [one for one in FREE if size(one) <= (most or size(one))]
    if field != "count":
        holds = [one for one in holds if size(one) >= (least or 0)]
    assert all((least or 0) <= size(one) <= (most or size(one)) for one in found)
    assert bool(found) is bool(holds)
    if found and not (field == "count" and least):
        assert min(one.usd_per_hour for one in found) == min(one.usd_per_hour for one in holds)


def test_at_least_so_many_nodes_are_planned_even_where_fewer_have_the_cores() -> None:
    found = searched({"count": {"least": 20}})
    assert {one.count for one in found if one.instance.name == "m6in.4xlarge"} == {20}


@pytest.mark.parametrize(
    ("requirements", "says"),
    [
        ({"nodes": {"count": {"most": 1}}}, "requirements.nodes.count.most: 1 node is too few"),
        ({"nodes": {"cores": {"least": 64}}}, "requirements.nodes.cores.least: no"),
        ({"nodes": {"memory": {"most": "1 GiB"}}}, "requirements.nodes.memory.most: no"),
    ],
)
def test_a_bound_that_forbids_every_grid_is_named(requirements: dict[str, Any], says: str) -> None:
    found = plan_grids(spec(requirements=requirements), CATALOG)
    assert found.designs == ()
    assert any(says in line and "the nearest possible is" in line for line in found.impossible), (
        found.impossible
    )


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"requirements": {"nodes": {"count": {"least": 5, "most": 2}}}}, "leave nothing"),
        ({"requirements": {"nodes": {"memory": {"least": "64 GiB", "most": "2 GiB"}}}}, "leave nothing"),
        (
            {"requirements": {"nodes": {"count": {"most": 2}, "cores": {"most": 8}}}},
            "2 nodes of at most 8 cores have 16 of the 64 cores required",
        ),
        (
            {
                "requirements": {"nodes": {"count": {"most": 2}}},
                "nodes": {"compute": {"instance": "m5n.large", "count": 9}},
            },
            "the groups have 9 nodes",
        ),
    ],
)
def test_bounds_that_contradict_each_other_are_refused(sections: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        spec(**sections)
