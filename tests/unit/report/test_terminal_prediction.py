"""Predictions on the terminal: all figures, at any width, in any encoding, without colour."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import Finding
from gridwright.filesystems.layout import Component, FileLayout, LayoutChoice
from gridwright.model.prediction import GroupSize, LibraryLayout, PlacedRates, Prediction
from gridwright.report.figures import megabytes
from gridwright.report.terminal.prediction import limit_bar, prediction_text
from gridwright.spec.at_once import PeakFactor
from tests.unit.report import sample_designs


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns that shows no colour."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")


def data_line(prediction: Prediction) -> str:
    """What is said of writing data, whatever the catalogue of the day makes of it."""
    rate = prediction.libraries[0].rates["write"].bytes_per_s_per_core
    assert rate < 20e6
    return f"data, write: {megabytes(rate)} MB/s per core, 20 required: missed"


def row_of(out: str, library: str, operation: str) -> list[str]:
    """The first table row of a library in one direction, by cell."""
    for line in out.splitlines():
        cells = [cell.strip() for cell in line.strip("│|").replace("│", "|").split("|")]
        if cells[:2] == [library, operation]:
            return cells
    raise AssertionError(f"no row of {library} {operation}:\n{out}")


def test_the_first_line_says_what_it_is_and_what_it_costs() -> None:
    prediction = replace(sample_designs.lake(), usd_per_hour=2.5)
    assert prediction_text(prediction).splitlines()[0] == (
        "demo: 4 nodes x 16 cores; 2.50 USD per hour, 1,825 USD per month (730 h)"
    )
    one = GroupSize("compute", 1, 1, None)
    unknown = replace(prediction, usd_per_hour=None, groups=(one,))
    assert prediction_text(unknown).splitlines()[0] == "demo: 1 node x 1 core; cost not known"
    two = replace(unknown, groups=(one, GroupSize("big", 2, 16, "m5n.8xlarge")))
    assert prediction_text(two).startswith("demo: 1 node x 1 core (compute) and 2 nodes x 16 cores (big);")


def test_each_library_and_direction_has_its_rates_and_the_word_for_met() -> None:
    prediction = sample_designs.lake()
    out = prediction_text(prediction)
    data, work = prediction.libraries[0].rates["write"], prediction.libraries[1].rates["read"]
    row = row_of(out, "data", "write")
    assert row[2] == "20"
    assert float(row[3]) == pytest.approx(data.bytes_per_s_per_core / 1e6, rel=0.01)
    assert float(row[4].replace(",", "")) == pytest.approx(data.bytes_per_s_per_node / 1e6, rel=0.01)
    assert float(row[5].replace(",", "")) == pytest.approx(data.bytes_per_s / 1e6, rel=0.01)
    assert row[6] == "no"
    assert row_of(out, "work", "read")[5].replace(",", "") == f"{work.bytes_per_s / 1e6:.0f}"
    assert row_of(out, "work", "read")[6] == "yes"
    assert row_of(out, "util", "read")[2] == row_of(out, "util", "read")[6] == "–"  # noqa: RUF001
    assert "predicted: requirements missed" in out


def test_what_binds_and_how_far_the_next_is() -> None:
    prediction = sample_designs.lake()
    rates = prediction.libraries[0].rates["write"]
    out = prediction_text(prediction)
    assert rates.next_bound is not None
    percent = int((rates.next_bound.bytes_per_s / rates.bytes_per_s - 1) * 100)
    assert rates.bound_by.resource in out
    assert f"{rates.next_bound.resource} (+{percent} %)" in out


def test_bursts_stand_apart_with_how_long_they_last() -> None:
    prediction = sample_designs.lake()
    data = prediction.libraries[0]

    def lasting(seconds: float | None) -> Prediction:
        rates = {
            operation: replace(each, burst=replace(each.burst, seconds=seconds) if each.burst else None)
            for operation, each in data.rates.items()
        }
        return replace(prediction, libraries=(replace(data, rates=rates),))

    assert "for 30 min 0 s" in prediction_text(prediction), "what EC2 promises of its bandwidth to volumes"
    assert "no fact says how long" in prediction_text(lasting(None))
    burst = data.rates["write"].burst
    assert burst is not None
    rate = (
        f"{megabytes(burst.bytes_per_s / prediction.cores)} per core, {megabytes(burst.bytes_per_s)} in all"
    )
    assert f"data write and data read: {rate}, for 20 min 0 s" in prediction_text(lasting(1200.0))
    silent = replace(prediction, libraries=prediction.libraries[1:2])
    assert "Bursts" not in prediction_text(silent)


def test_all_libraries_at_once_with_the_peak_factor_and_its_source() -> None:
    prediction = sample_designs.fsx()
    out = prediction_text(prediction)
    assert "35.7 % must be there: met" in out
    assert "peak factor from paper 4632-2020" in out
    assert prediction.together is not None
    short = replace(prediction, together=replace(prediction.together, peak_factor=PeakFactor(0.9, "")))
    assert "90 % must be there: missed" in prediction_text(short)
    assert "All libraries at once" not in prediction_text(sample_designs.unrequired())


def test_explain_names_every_limit_with_its_source() -> None:
    prediction = sample_designs.lake()
    out = prediction_text(prediction, explain=True)
    words = " ".join(out.split())
    for library in prediction.libraries:
        for rates in library.rates.values():
            for bound in rates.chain:
                assert bound.resource in words
                assert " ".join(bound.what.split()) in words
                assert " ".join(bound.source.split()) in words
    assert data_line(prediction) in out
    util = megabytes(prediction.libraries[2].rates["write"].bytes_per_s_per_core)
    assert f"util, write: {util} MB/s per core, nothing required" in out
    assert all(cost.what in out for cost in prediction.costs)
    assert "source:" not in prediction_text(prediction)


def test_libraries_of_which_the_same_is_said_are_explained_once() -> None:
    out = prediction_text(sample_designs.fsx(), explain=True)
    assert out.count("work and util, write:") == 1
    assert "util, write:" not in out.replace("work and util, write:", "")


def test_explain_names_layouts_with_their_reason_and_what_they_are_worth() -> None:
    choice = LayoutChoice(FileLayout((Component(stripe_count=4),)), "for a reason", stated=False)
    placed = (PlacedRates(4, 1.2e9, 1.4e9, 1.8e9), PlacedRates(1, 0.6e9, 0.9e9, 1.8e9))
    layout = LibraryLayout(choice, 32, 16, placed)
    lake = sample_designs.lake()
    (data, *others) = lake.libraries
    narrow = replace(data.rates["read"].chain[-1], bytes_per_s=8e9, floor_part=0.25)
    rates = replace(data.rates["read"], chain=(*data.rates["read"].chain, narrow))
    libraries = (replace(data, rates={**data.rates, "read": rates}), *others)
    prediction = replace(lake, libraries=libraries, layouts={"data": layout, "work": layout})
    out = " ".join(prediction_text(prediction, explain=True).split())
    assert "data and work: 4 OSTs (for a reason)" in out
    assert "large files over 4 OSTs: 32 streams on 16 OSTs share 1,200 MB/s or more in 95 %" in out
    assert "the same files over 1 OST: 32 streams on 16 OSTs share 600 MB/s or more in 95 %" in out
    assert "in 95 % of placements of files on OSTs 2,000 MB/s or more" in out
    assert "Layouts" not in prediction_text(prediction)


def test_findings_come_with_their_remedies() -> None:
    finding = Finding("warning", "no-price", "no price is known for [x]", "add the price")
    out = prediction_text(replace(sample_designs.fsx(), findings=(finding,)))
    assert "warning no-price: no price is known for [x]" in out
    assert "add the price" in out


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("explain", [False, True])
def test_eighty_columns_hold_everything_uncut(explain: bool) -> None:
    prediction = sample_designs.lake()
    out = prediction_text(prediction, explain)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    for library in prediction.libraries:
        for rates in library.rates.values():
            assert rates.bound_by.resource in out


def test_a_pipe_gets_plain_text_of_a_hundred_and_twenty_columns() -> None:
    out = prediction_text(sample_designs.lake(), explain=True)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_of_another_encoding_gets_all_in_its_own(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding, errors="strict"))
    prediction = sample_designs.lake()
    sys.stdout.write(prediction_text(replace(prediction, grid="Grüße–日本"), explain=True))  # noqa: RUF001
    sys.stdout.flush()
    out = written.getvalue().decode(encoding)
    assert "####" in out
    assert data_line(prediction) in out


@given(st.floats(0, 1e6), st.sampled_from([20, 32]))
def test_a_bar_reaches_its_line_exactly_when_what_is_required_is_reached(part: float, width: int) -> None:
    bar = limit_bar(part, width)
    before, line, after = bar.partition("│")
    assert line == "│"
    assert len(before) + len(after) == width
    if part >= 1:
        assert before == "█" * (width // 4)
    if part < 1 - 1e-6:
        assert before.endswith(" ")
        assert not after.strip()
    assert after.endswith("▶") == (part > 4)
