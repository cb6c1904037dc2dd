"""The model against SimGrid, an independent simulator: rates and completion times on random scenarios."""

from __future__ import annotations

import pytest

from gridwright.model.chains import solve
from gridwright.model.simulate import TOLERANCE, simulate
from tests.support.examples import examples
from tests.support.simgrid_scenarios import (
    ask_simgrid,
    capacities,
    course,
    flow,
    moment,
    require_simgrid,
    scenario,
)

SCENARIOS = examples(500)
WITHIN = 0.01


@pytest.fixture(scope="module", autouse=True)
def simgrid() -> None:
    require_simgrid()


def test_rates_are_those_of_simgrid() -> None:
    documents = [moment(seed) for seed in range(SCENARIOS)]
    worst, compared = 0.0, 0
    for document, answer in zip(documents, ask_simgrid(documents), strict=True):
        flows = [flow(document, stream["phases"][0][0]) for stream in document["streams"]]
        rates = solve(capacities(document), flows).rates
        for rate, (theirs,) in zip(rates, answer["rates"], strict=True):
            worst = max(worst, abs(rate - theirs) / theirs)
            compared += 1
    assert compared > 5 * SCENARIOS
    assert worst <= WITHIN


@pytest.mark.parametrize("tolerance", [0.0, TOLERANCE])
def test_completion_times_are_those_of_simgrid(tolerance: float) -> None:
    documents = [course(seed) for seed in range(SCENARIOS)]
    worst, compared = 0.0, 0
    for document, answer in zip(documents, ask_simgrid(documents), strict=True):
        asked, phases = scenario(document)
        outcome = simulate(asked, tolerance=tolerance)
        for launches, theirs in zip(phases, answer["ends"], strict=True):
            for launch, end_s in zip(launches, theirs, strict=True):
                worst = max(worst, abs(outcome.launches.end_s[launch] - end_s) / end_s)
                compared += 1
    assert compared > 10 * SCENARIOS
    assert worst <= WITHIN
