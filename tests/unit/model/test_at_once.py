"""What libraries require at once: `check`, `plan` and `predict` say the same of the same spec."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.needs import read_needs, readings
from gridwright.report.designs.tables import together_table
from gridwright.spec.at_once import PeakFactor, peak_factor_of
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec
from gridwright.spec.warnings import warn
from gridwright.units import Rate, format_rate
from tests.support.examples import examples
from tests.support.requirements import spec as planned
from tests.unit.model.test_predict import CATALOG

GRID = """name: shared
provider: local
nodes: {compute: {count: 1, cores: 4, memory: 64 GiB}}
filesystems:
  disk: {type: local, path: /fast, delivers: {write: %(delivers)s, read: %(delivers)s}}
libraries:
  data: {filesystem: disk, requires: %(data)s MB/s/core}
  work: {filesystem: disk, requires: %(work)s MB/s/core}
  util: {filesystem: disk, requires: %(util)s MB/s/core}
requirements: {cores: 4, peak_factor: %(factor)s, availability: {lose_data_with_server: true}}
"""


def shared(rates: tuple[int, int, int], factor: float, delivers_mb: float = 1) -> GridSpec:
    data, work, util = rates
    values = {
        "data": data,
        "work": work,
        "util": util,
        "factor": factor,
        "delivers": f"{delivers_mb:.0f} MB/s",
    }
    return parse_spec(GRID % values, base=Path("/"))


@settings(max_examples=examples(80), deadline=None)
@given(
    rates=st.tuples(*[st.integers(20, 900)] * 3),
    factor=st.sampled_from([0.05, 0.2, 0.357, 0.5, 0.6, 0.71, 0.9, 1.0]),
)
def test_disks_that_deliver_what_check_says_are_enough_for_predict_and_less_is_not(
    rates: tuple[int, int, int], factor: float
) -> None:
    required = peak_factor_of(shared(rates, factor)).required([rate * 1e6 for rate in rates])
    (finding,) = [each for each in warn(shared(rates, factor)) if each.name == "shared-disks"]
    assert f"must deliver {format_rate(required, per_core=True)}," in finding.text
    enough = math.ceil(required * 4 / 1e6)
    assert predict(grid_model(shared(rates, factor, enough), CATALOG)).met is True
    assert (
        predict(grid_model(shared(rates, factor, math.floor(required * 4 / 1e6 * 0.98)), CATALOG)).met
        is False
    )
    libraries = {
        name: {"requires": f"{rate} MB/s/core", "capacity": "1 TiB"}
        for name, rate in zip(("data", "work", "util"), rates, strict=True)
    }
    needs = read_needs(planned(libraries=libraries, requirements={"peak_factor": factor}))
    assert needs.rate(needs.libraries) == required


def test_the_sum_is_required_at_factor_one_alone() -> None:
    """275 MB/s/core is the sum of 75, 100 and 100: it is not required where they do not all peak together."""
    rates = [75e6, 100e6, 100e6]
    assert PeakFactor(1.0, "").required(rates) == 275e6
    assert PeakFactor(0.71, "").required(rates) == pytest.approx(195.25e6)
    assert PeakFactor(0.1, "").required(rates) == 100e6
    assert PeakFactor(0.1, "").required([]) == 0


@pytest.mark.parametrize(
    ("factor", "says"), [(1, "all may peak together"), (0.99, "they do not all peak together")]
)
def test_libraries_that_may_all_peak_together_are_not_said_not_to(factor: float, says: str) -> None:
    other = {"all may peak together", "they do not all peak together"} - {says}
    spoken = [
        next(
            each.value
            for each in readings(read_needs(planned(requirements={"peak_factor": factor})))
            if each.what == "all libraries at once"
        ),
        str(together_table(predict(grid_model(shared((75, 100, 100), factor), CATALOG)).together)),
        str(warn(shared((75, 100, 100), factor))),
    ]
    for text in spoken:
        assert says in text
        assert not any(each in text for each in other)


def test_a_rate_in_a_finding_is_one_that_can_be_written_into_a_spec() -> None:
    (finding,) = [each for each in warn(shared((75, 125, 125), 0.357)) if each.name == "shared-disks"]
    written = finding.remedy.rpartition("delivers ")[2]
    assert Rate.parse(written, per_core=True).bytes_per_s == 125e6
