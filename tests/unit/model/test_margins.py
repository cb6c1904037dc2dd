"""Margins of predictions: what the papers showed of them, and that no figure is met by less than its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.margins import row

from gridwright.model.document import prediction_document
from gridwright.model.grid import grid_model
from gridwright.model.margins import KINDS, Kind, margin_of, margins
from gridwright.model.papers.checks import measured_margins
from gridwright.model.predict import predict
from gridwright.model.prediction import Bound, Prediction, Rates, worst
from gridwright.spec.at_once import PeakFactor
from tests.support.examples import examples
from tests.unit.model.paper_grids import papers
from tests.unit.model.test_predict import CATALOG, predicted, spec


def test_the_data_file_is_what_the_papers_show() -> None:
    """Made anew by python tools/margins.py > src/gridwright/model/data/margins.csv."""
    shown = [row(each) for each in measured_margins(papers())]
    kept = [row(each) for each in margins().values()]
    assert kept == shown


def test_every_check_of_a_rate_counts_once_among_its_kind() -> None:
    check = papers()
    counted = {each.kind: each.count for each in measured_margins(check)}
    checks = [each for each in check.of("check") if each.error is not None]
    assert sum(count for kind, count in counted.items() if kind != "all") == len(checks)
    lasting = sum(count for kind, count in counted.items() if kind not in {"all", "burst", "workload"})
    assert counted["all"] == lasting > 50
    assert counted["network"] > 50
    assert counted["burst"] > 50, "what does not last has a margin of its own"


def test_a_margin_tells_how_many_errors_it_is_of() -> None:
    of_one = replace(papers(), rows=tuple(each for each in papers().rows if each.kind == "workload"))
    (found,) = measured_margins(of_one)
    errors = sorted(abs(each.error) for each in of_one.of("check") if each.error is not None)
    assert (found.kind, found.count, found.p90) == ("workload", len(errors), errors[-1])
    assert measured_margins(replace(papers(), rows=())) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_margin_that_leaves_something_possible(kind: Kind) -> None:
    margin = margin_of(kind)
    assert margin.count > 0
    assert 0 < margin.median <= margin.p90 < 1
    assert margin.low(100) < 100 < margin.high(100)


def disks(delivers: float, requires: float = 100) -> Prediction:
    rate = f"{delivers} MB/s"
    return predict(
        grid_model(
            spec(
                provider="local",
                nodes={"compute": {"count": 1}},
                filesystems={
                    "fsx": {"type": "local", "path": "/d", "delivers": {"write": rate, "read": rate}}
                },
                libraries={"data": {"filesystem": "fsx", "requires": f"{requires} MB/s/core"}},
            ),
            CATALOG,
        )
    )


@pytest.mark.parametrize(
    ("part", "met", "answer"),
    [(1.01, True, "within the margin"), (1.0, True, "within the margin"), (0.99, False, "within the margin"),
     (1.5, True, "yes"), (0.5, False, "no")],
)  # fmt: skip
def test_nothing_is_met_by_less_than_the_margin(part: float, met: bool, answer: str) -> None:
    cores = disks(1).cores
    prediction = disks(round(100 * part * cores, 3))
    assert (prediction.met, prediction.answer) == (met, answer)
    document = prediction_document(prediction)
    assert (document["met"], document["answer"]) == (met, answer)
    (library,) = document["libraries"]
    assert library["answer"] == answer
    write = library["write"]
    assert (
        write["low_bytes_per_s_per_core"] < write["bytes_per_s_per_core"] < write["high_bytes_per_s_per_core"]
    )
    assert write["margin"]["count"] == margin_of("all").count, (
        "nothing is published of disks that a spec states"
    )


def rates(*bounds: tuple[float, Any]) -> Rates:
    chain = sorted((Bound(n, n, rate, "", n) for rate, n in bounds), key=lambda each: each.bytes_per_s)
    return Rates(chain[0].bytes_per_s, chain[0].bytes_per_s, chain[0].bytes_per_s / 4, tuple(chain), None)


def test_a_limit_next_to_the_one_that_binds_counts_with_its_own_margin() -> None:
    """The network binds and is known well; the instance store behind it may bind much earlier."""
    network, store = margin_of("network"), margin_of("instance store")
    both = rates((1e9, "network"), (1.05e9, "instance store"))
    assert both.low_bytes_per_s == store.low(1.05e9) < network.low(1e9)
    assert both.high_bytes_per_s == network.high(1e9)
    required = 0.9e9 / 4
    assert rates((1e9, "network")).answer(required) == "yes"
    assert both.answer(required) == "within the margin"


@settings(max_examples=examples(200))
@given(
    bounds=st.lists(
        st.tuples(
            st.floats(1e6, 1e12), st.sampled_from(["network", "volume", "instance store", "server", "stated"])
        ),
        min_size=1,
        max_size=6,
    ),
    required=st.floats(1e5, 1e12),
    more=st.floats(1.0, 10.0),
)
def test_answers_agree_with_figures_and_fall_as_more_is_required(
    bounds: list[tuple[float, Any]], required: float, more: float
) -> None:
    found = rates(*bounds)
    assert found.low_bytes_per_s <= found.bytes_per_s <= found.high_bytes_per_s
    answer = found.answer(required)
    if answer == "yes":
        assert found.bytes_per_s_per_core >= required * (1 - 1e-9)
    if answer == "no":
        assert found.bytes_per_s_per_core < required
    assert worst([answer, found.answer(required * more)]) == found.answer(required * more)


def test_all_libraries_at_once_have_a_margin_too() -> None:
    together = predicted().together
    assert together is not None
    for operation, share in together.share.items():
        assert together.low[operation] < share < together.high[operation]
    close = replace(together, peak_factor=PeakFactor(min(together.share.values()) * 0.999, ""))
    assert close.met
    assert close.answer == "within the margin"
    assert replace(together, peak_factor=PeakFactor(0.01, "")).answer == "yes"
    assert replace(together, peak_factor=PeakFactor(1.0, "")).answer == "no"


def test_what_is_no_rate_has_no_margin() -> None:
    short = predicted(requirements={"cores": 100_000})
    assert short.answer == "no"
