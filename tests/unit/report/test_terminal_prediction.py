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
from gridwright.report.designs.words import answer_word, binding, dollars, homes
from gridwright.report.figures import megabytes
from gridwright.report.terminal.plan import explanation_text, plan_text
from gridwright.report.terminal.prediction import limit_bar, prediction_text
from gridwright.report.terminal.run import workload_text
from gridwright.spec.warnings import PeakFactor
from tests.support.records import launch_record, workload_record
from tests.unit.report import sample_designs, workload_runs


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


# Plans on the terminal: readings, designs, the front, neighbours and why an instance fits or not.


def flat(out: str) -> str:
    """All words on one line, without the frames of tables."""
    return " ".join(out.replace("│", " ").split())


def test_readings_come_with_their_sources() -> None:
    plan = sample_designs.plan()
    out = flat(plan_text(plan))
    for reading in plan.readings:
        assert f"{reading.what} {reading.value} {reading.source}" in out


def test_designs_are_ranked_with_cost_rate_resilience_and_what_binds() -> None:
    plan = sample_designs.plan()
    out = flat(plan_text(plan, limit=20))
    first, second = plan.designs[:2]
    cost, month = f"{first.usd_per_hour:.2f}", f"{first.usd_per_hour * 730:,.0f}"
    assert out.startswith(
        f"demo: 12 designs meet the requirements, from {cost} USD per hour, {month} per month on"
    )
    assert "184,302 candidates in 0.840 s" in out
    rate = megabytes(first.bytes_per_s_per_core)
    met = answer_word(first.prediction.answer)
    assert f"1* 4 x m5n.8xlarge {met} {cost} {month} {rate} 4 of 4" in out
    assert f"1. {first.title} binds: fsx.throughput (work write)" in out
    assert f"2 2 x m5n.16xlarge {answer_word(second.prediction.answer)} {second.usd_per_hour:.2f}" in out
    for rank, design in enumerate(plan.designs, start=1):
        assert f"{rank}. {design.title}" in out
        assert binding(design) in out


def test_where_libraries_live_is_said_in_the_terms_of_the_spec() -> None:
    first, lake = sample_designs.designs()[0], sample_designs.on_disks()
    assert homes(first) == [
        ("data, work and util", "fsx: FSx for Lustre persistent-2, 24000 GiB at 125 MB/s/TiB")
    ]
    assert homes(lake) == [
        ("data and util", "lake: Lustre on 9 OSS m5.2xlarge with 4 x 500 GiB gp2 each"),
        ("work", "scratch: instance store of each node"),
    ]


def test_what_binds_is_of_the_library_with_the_least_room() -> None:
    design = sample_designs.on_disks()
    data, work = design.prediction.libraries[:2]
    assert data.rates["write"].bytes_per_s_per_core / 20e6 < work.rates["write"].bytes_per_s_per_core / 25e6
    assert binding(design) == "lake.oss.volume-bandwidth (data write)"


def test_a_limit_leaves_out_the_dearest_but_never_one_of_the_front() -> None:
    plan = sample_designs.plan()
    out = plan_text(plan, limit=2)
    assert "3. " not in out
    assert "10 more designs" in out
    front = out[out.index("Pareto front:") : out.index("Neighbours")]
    for rank, design in enumerate(plan.designs, start=1):
        assert (f"│ {rank} " in front) == design.front


def test_neighbours_say_why_they_are_no_better() -> None:
    plan = sample_designs.plan()
    out = flat(plan_text(plan))
    assert plan.neighbours
    for each in plan.neighbours:
        cost = f"{dollars(each.usd_per_hour)} USD/h"
        assert f"{each.change}: {each.title}, {cost} {each.why}" in out


def test_an_explanation_says_of_each_requirement_whether_it_fits() -> None:
    explanation = sample_designs.explanation(None)
    out = flat(explanation_text(explanation))
    assert "memory per core 8 GiB 8 GB yes" in out
    assert "network per core 78.1 MB/s 125 MB/s no" in out
    assert "no instance store depends on where work lives open" in out
    assert "work on volumes 66.0 MB/s 125 MB/s not needed" in out
    assert explanation.verdict in out
    assert "the cheapest design with it: –" in out  # noqa: RUF001
    second = explanation_text(sample_designs.explanation(sample_designs.designs()[1]))
    assert "with it: 2 x m5n.16xlarge, FSx persistent-2 of 24 TiB, " in second


def test_an_impossible_plan_names_what_binds_and_the_nearest_value() -> None:
    plan = sample_designs.impossible()
    out = flat(plan_text(plan))
    assert "demo: no design meets the requirements (9,000 candidates" in out
    assert f"impossible: {plan.impossible[0]}" in out
    assert "Pareto" not in out


def test_one_design_is_no_plural() -> None:
    plan = sample_designs.plan()
    assert "1 design meets the requirements" in plan_text(replace(plan, designs=plan.designs[:1]))


def test_eighty_columns_hold_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    out = plan_text(sample_designs.plan())
    assert max(map(len, out.splitlines())) <= 80
    assert "4 x m5dn.8xlarge" in out
    assert "binds: lake.oss.volume-bandwidth (data write)" in out


def test_markup_of_others_is_text() -> None:
    out = flat(plan_text(sample_designs.hostile()))
    assert out.count("[red]x[/red]") >= 10


def test_an_ascii_terminal_gets_all_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii", errors="strict"))
    sys.stdout.write(plan_text(replace(sample_designs.plan(), grid="Größe–…")))  # noqa: RUF001
    sys.stdout.flush()
    assert written.getvalue().decode("ascii").startswith("Gr??e-...: 12 designs meet")


# The mixed workload on the terminal.


def printed(name: str) -> str:
    workload = workload_runs.RUNS[name]().workload
    assert workload is not None
    return workload_text(workload)


@pytest.mark.parametrize("name", list(workload_runs.RUNS))
def test_nothing_is_wider_than_a_page_of_a_pipe(name: str) -> None:
    assert max(map(len, printed(name).splitlines())) <= 120


def test_tests_sums_extent_and_diagnosis_are_printed() -> None:
    out = printed("workload")
    for words in (
        "compute_mixed_model",
        "ratio mean",
        "of sums",
        "matrix mixed, scale small, seed 7, streams 16",
    ):
        assert words in out
    assert "The cores waited for work" in out
    assert "failed:" not in out


def test_the_first_failures_are_named_and_the_rest_counted() -> None:
    out = printed("workload-failing")
    assert out.count("failed: ") == 5
    assert "3 more failed; the report names them" in out


def test_what_is_not_known_is_left_out() -> None:
    out = printed("workload-imported")
    assert "matrix" not in out
    assert "None" not in out
    assert "None" not in printed("workload-absent")


def test_markup_in_a_workload_is_text() -> None:
    launch = launch_record(1, "[bold]x[/nonsense]", ok=False, reason="[red]y[/oops]", log="[z]")
    out = workload_text(workload_record([launch], matrix="[m]", summary={"diagnosis": "[/d]"}))
    for words in ("[bold]x[/nonsense]", "[red]y[/oops]", "(log: [z])", "matrix [m]", "[/d]"):
        assert words in out
