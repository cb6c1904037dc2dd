"""Margins of predictions: what the papers showed of them, and that no figure is met by less than its own."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.margins import row

from gridwright.catalog.facts import Doubt, doubts_in
from gridwright.model.document import prediction_document
from gridwright.model.grid import grid_model
from gridwright.model.papers import measured_margins
from gridwright.model.predict import predict
from gridwright.model.prediction import (
    KINDS,
    Bound,
    Kind,
    Prediction,
    Rates,
    doubt_factor,
    highest,
    lowest,
    margin_of,
    margins,
    worst,
)
from gridwright.report.designs.words import doubts, margin_texts
from gridwright.spec.warnings import PeakFactor
from tests.support.examples import examples
from tests.unit.model.test_papers import papers
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


# Predictions that rest on a floor, or on a figure that is not verified: a wider band, and why.

STORE: dict[str, Any] = {"type": "local", "path": "/own", "disks": {"type": "instance-store"}}
FSX: dict[str, Any] = {"type": "fsx-lustre", "path": "/fsx", "capacity": "48000 GiB"}
FSX |= {"deployment": "persistent-2", "throughput": "1000 MB/s/TiB"}


def grid(instance: str, requires: float, filesystem: dict[str, Any]) -> Prediction:
    sections = {
        "nodes": {"compute": {"instance": instance, "count": 2}},
        "filesystems": {"own": filesystem},
        "libraries": {"work": {"filesystem": "own", "requires": f"{requires} MB/s/core"}},
    }
    return predict(grid_model(spec(**sections), CATALOG))


def rates_of(*bounds: Bound) -> Rates:
    chain = tuple(sorted(bounds, key=lambda bound: bound.bytes_per_s))
    return Rates(chain[0].bytes_per_s, chain[0].bytes_per_s, chain[0].bytes_per_s / 4, chain, None)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("floor: what the like is listed with, 2026", ("floor",)),
        ("EC2 pages; floor: the like, 2026", ("floor",)),
        ("price list (not verified against a page), 2016", ("not verified",)),
        ("floor: told, not verified, 2020", ("floor", "not verified")),
        ("measured on the second floor: rack 3", ()),
        ("flooring, verified, 2026", ()),
        ("", ()),
    ],
)
def test_only_what_a_source_marks_is_doubted(source: str, found: tuple[Doubt, ...]) -> None:
    assert doubts_in(source) == found


def test_a_network_known_as_a_floor_alone_is_not_denied_more() -> None:
    """hpc7a is listed by the adapter's rate: 25 Gbit/s over TCP is that of hpc6a, which is listed."""
    floor, listed = grid("hpc7a.96xlarge", 25, FSX), grid("hpc6a.48xlarge", 50, FSX)
    assert (floor.met, floor.answer) == (False, "within the margin")
    assert (listed.met, listed.answer) == (False, "no")
    (why,) = [text for text in margin_texts(floor) if "floor" in text]
    assert why.startswith("node.network-out and node.network-in: wider, as its figure is a floor")
    assert not [text for text in margin_texts(listed) if "wider" in text]


def test_a_floor_promises_no_more_than_the_margin_leaves_of_it() -> None:
    figure = grid("hpc7a.96xlarge", 1, FSX).libraries[0].rates["write"]
    low = margin_of("network").low(figure.bytes_per_s)
    assert figure.low_bytes_per_s == pytest.approx(low)
    per_core = low / figure.bytes_per_s * figure.bytes_per_s_per_core / 1e6
    assert grid("hpc7a.96xlarge", round(per_core * 0.999, 3), FSX).answer == "yes"
    assert grid("hpc7a.96xlarge", round(per_core * 1.001, 3), FSX).answer == "within the margin"


def test_a_figure_that_is_not_verified_may_be_off_both_ways() -> None:
    """Both are read in operations of 4 KiB: those of i2 no page was found for."""
    unsure = grid("i2.8xlarge", 80, STORE).libraries[0].rates["write"]
    sure = grid("i3.8xlarge", 80, STORE).libraries[0].rates["write"]
    margin = margin_of("instance store")
    assert sure.low_bytes_per_s == pytest.approx(margin.low(sure.bytes_per_s))
    assert unsure.low_bytes_per_s == pytest.approx(margin.low(unsure.bytes_per_s) / doubt_factor())
    assert unsure.high_bytes_per_s == pytest.approx(margin.high(unsure.bytes_per_s) * doubt_factor())
    assert [bound.resource for bound in unsure.doubted] == ["own.disks-write"]
    assert sure.doubted == ()


def test_the_factor_is_that_of_sources_that_differ() -> None:
    """Ten types: the next to largest factor is that of i7ie.48xlarge, 200 Gbit/s against 100."""
    assert doubt_factor() == pytest.approx(2.0)


def test_a_doubtful_limit_out_of_reach_of_the_one_that_binds_is_not_blamed() -> None:
    """A decoy: the source is marked, and nothing of the band comes from it."""
    network = Bound("net", "net", 1e9, "listed, 2026", "network")
    far = Bound("far", "far", 1e11, "told, not verified, 2016", "network")
    near = Bound("near", "near", 1.5e9, "told, not verified, 2016", "network")
    floor = Bound("floor", "floor", 1.5e9, "floor: the like, 2016", "network")
    assert rates_of(network, far).doubted == ()
    assert rates_of(network, far).low_bytes_per_s == rates_of(network).low_bytes_per_s
    assert rates_of(network, floor).doubted == (), "what is at least more than what binds takes nothing away"
    assert rates_of(network, near).doubted == (near,), "it may be half of what it says, and then it binds"
    assert rates_of(network, near).low_bytes_per_s < rates_of(network).low_bytes_per_s


def test_an_end_that_nobody_knows_is_null_in_json_and_said_in_words() -> None:
    """Scratch on the network alone: nothing but the floor stands on the route."""
    prediction = grid("hpc7a.96xlarge", 25, FSX)
    (library,) = prediction.libraries
    bare = {
        operation: rates_of(Bound("net", "net", 1e9, "floor: the like, 2026", "network"))
        for operation in library.rates
    }
    (one,) = (type(library)("work", "own", 300e6, bare, met=False),)
    bare_prediction = type(prediction)("g", 1, 4, 4, (one,), None, (), None, (), met=False, answer=one.answer)
    document = prediction_document(bare_prediction)
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text)["libraries"][0]["write"]["high_bytes_per_s_per_core"] is None
    assert one.answer == "within the margin"
    assert all("MB/s or more per core" in said for said in doubts(bare_prediction))


@given(
    rate=st.floats(1e3, 1e13),
    kind=st.sampled_from(KINDS),
    marks=st.lists(st.sampled_from(["floor", "not verified"]), unique=True),
)
def test_doubt_never_narrows_a_band(rate: float, kind: Kind, marks: list[Doubt]) -> None:
    margin = margin_of(kind)
    low, high = lowest(rate, margin, marks), highest(rate, margin, marks)
    assert low <= margin.low(rate) <= rate <= margin.high(rate) <= high
    assert (low < margin.low(rate)) == ("not verified" in marks)
    assert (high > margin.high(rate)) == bool(marks)
    assert math.isinf(high) == ("floor" in marks)
