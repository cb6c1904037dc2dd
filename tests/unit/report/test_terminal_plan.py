"""Plans on the terminal: readings, designs, the front, neighbours and why an instance fits or not."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from gridwright.report.designs.words import answer_word, binding, dollars, homes
from gridwright.report.figures import megabytes
from gridwright.report.terminal.plan import explanation_text, plan_text
from tests.unit.report import sample_designs


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
