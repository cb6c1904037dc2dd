"""The rates of flows through Python: what the model relies on, on random flows."""

from __future__ import annotations

from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.model.solver import Flow, Solution, solve

EXACT = 1e-9

magnitudes = st.floats(0.01, 100.0) | st.sampled_from([1e-6, 1.0, 125e6, 1e12])
comparable = st.floats(0.01, 100.0) | st.just(1.0)
"""Where flows that share a resource differ by more than the digits of a float can tell, the smaller one's
rate is what rounding leaves of the resource: no order of sums makes it the same."""
Scenario = tuple[list[float], list[Flow]]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Capacities and caps of any size, weights and coefficients that can be compared."""
    capacities = draw(st.lists(magnitudes, min_size=1, max_size=6))
    uses = st.tuples(st.integers(0, len(capacities) - 1), comparable)
    flows = st.builds(
        Flow, st.lists(uses, min_size=1, max_size=4).map(tuple), comparable, magnitudes | st.just(inf)
    )
    return capacities, draw(st.lists(flows, min_size=1, max_size=12))


def used(scenario: Scenario, solution: Solution) -> list[float]:
    capacities, flows = scenario
    total = [0.0] * len(capacities)
    for flow, rate in zip(flows, solution.rates, strict=True):
        for resource, coefficient in flow.uses:
            total[resource] += coefficient * rate
    return total


@given(scenarios())
def test_no_capacity_and_no_cap_is_exceeded(scenario: Scenario) -> None:
    capacities, flows = scenario
    solution = solve(*scenario)
    assert all(u <= c * (1 + EXACT) for u, c in zip(used(scenario, solution), capacities, strict=True))
    assert all(0 < rate <= flow.cap for rate, flow in zip(solution.rates, flows, strict=True))


@given(scenarios())
def test_no_flow_can_grow_without_one_of_lower_or_equal_rate_shrinking(scenario: Scenario) -> None:
    capacities, flows = scenario
    solution = solve(*scenario)
    total = used(scenario, solution)
    levels = [rate / flow.weight for rate, flow in zip(solution.rates, flows, strict=True)]
    for flow, rate, level, bound in zip(flows, solution.rates, levels, solution.bound_by, strict=True):
        if bound is None:
            assert isclose(rate, flow.cap, rel_tol=EXACT)
            continue
        assert bound in {resource for resource, _ in flow.uses}
        assert total[bound] >= capacities[bound] * (1 - EXACT)
        sharing = [
            its
            for other, its in zip(flows, levels, strict=True)
            if bound in {resource for resource, _ in other.uses}
        ]
        assert max(sharing) <= level * (1 + EXACT)


@given(scenarios(), st.randoms(use_true_random=False))
def test_order_does_not_matter(scenario: Scenario, random: object) -> None:
    capacities, flows = scenario
    order = sorted(range(len(flows)), key=lambda _: random.random())  # type: ignore[attr-defined]
    places = sorted(range(len(capacities)), key=lambda _: random.random())  # type: ignore[attr-defined]
    moved = [
        Flow(
            tuple((places.index(resource), c) for resource, c in flows[n].uses), flows[n].weight, flows[n].cap
        )
        for n in order
    ]
    rates = solve(*scenario).rates
    again = solve([capacities[place] for place in places], moved).rates
    assert all(isclose(rates[n], rate, rel_tol=EXACT) for n, rate in zip(order, again, strict=True))


@given(scenarios(), st.integers(0, 5), st.floats(1.0, 10.0))
def test_more_capacity_never_lowers_the_least_rate(scenario: Scenario, which: int, factor: float) -> None:
    capacities, flows = scenario
    more = list(capacities)
    more[which % len(more)] *= factor

    def least(capacities: list[float]) -> float:
        rates = solve(capacities, flows).rates
        return min(rate / flow.weight for rate, flow in zip(rates, flows, strict=True))

    assert least(more) >= least(capacities) * (1 - EXACT)


def test_three_streams_share_a_nic_and_one_is_limited_by_itself() -> None:
    flows = [Flow(((0, 1.0),), cap=100e6), Flow(((0, 1.0),)), Flow(((0, 1.0), (1, 0.5)))]
    assert solve([1250e6, 200e6], flows) == Solution((100e6, 750e6, 400e6), (None, 0, 1))


@pytest.mark.parametrize(
    ("capacities", "flow", "text"),
    [
        ([0.0], Flow(((0, 1.0),)), "capacity of resource 0 is 0"),
        ([-5.0], Flow(((0, 1.0),)), "capacity of resource 0 is -5"),
        ([float("nan")], Flow(((0, 1.0),)), "capacity of resource 0 is NaN"),
        ([1.0], Flow(((2, 1.0),)), "flow 0 uses resource 2, but there are 1"),
        ([1.0], Flow(((-1, 1.0),)), "flow 0 uses resource -1: 0 is the first"),
        ([1.0], Flow(((0, 0.0),)), "coefficient of flow 0 on resource 0 is 0"),
        ([1.0], Flow(((0, 1.0),), weight=inf), "weight of flow 0 is inf"),
        ([1.0], Flow(((0, 1.0),), cap=0.0), "cap of flow 0 is 0"),
        ([inf], Flow(((0, 1.0),)), "nothing bounds flow 0"),
        ([], Flow(()), "nothing bounds flow 0"),
    ],
)
def test_wrong_numbers_are_named(capacities: list[float], flow: Flow, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        solve(capacities, [flow])
