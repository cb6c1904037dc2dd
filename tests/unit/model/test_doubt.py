"""Predictions that rest on a floor, or on a figure that is not verified: a wider band, and why."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import Doubt, doubts_in
from gridwright.model.document import prediction_document
from gridwright.model.doubt import doubt_factor, highest, lowest
from gridwright.model.grid import grid_model
from gridwright.model.margins import KINDS, Kind, margin_of
from gridwright.model.predict import predict
from gridwright.model.prediction import Bound, Prediction, Rates
from gridwright.report.designs.words import doubts, margin_texts
from tests.unit.model.test_predict import spec

CATALOG = load_catalog()
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


def rates(*bounds: Bound) -> Rates:
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
    assert rates(network, far).doubted == ()
    assert rates(network, far).low_bytes_per_s == rates(network).low_bytes_per_s
    assert rates(network, floor).doubted == (), "what is at least more than what binds takes nothing away"
    assert rates(network, near).doubted == (near,), "it may be half of what it says, and then it binds"
    assert rates(network, near).low_bytes_per_s < rates(network).low_bytes_per_s


def test_an_end_that_nobody_knows_is_null_in_json_and_said_in_words() -> None:
    """Scratch on the network alone: nothing but the floor stands on the route."""
    prediction = grid("hpc7a.96xlarge", 25, FSX)
    (library,) = prediction.libraries
    bare = {
        operation: rates(Bound("net", "net", 1e9, "floor: the like, 2026", "network"))
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
