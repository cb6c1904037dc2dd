"""A useful core-hour is dearer than one that is paid for by as much as cores wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.cli.plan.predict import workload_matrix
from gridwright.filesystems.resources import Cost
from gridwright.model.document import workload_document
from gridwright.model.grid import grid_model
from gridwright.model.useful_cost import useful_cost
from gridwright.model.workload import Replay, default_profiles, simulate_workload
from gridwright.report.designs.workload_page import workload_prediction_page
from gridwright.report.terminal.workload_prediction import workload_prediction_text
from gridwright.spec.load import load_spec

EXAMPLE = Path(__file__).parents[3] / "examples" / "papers" / "003-spectrum-scale.yaml"


def test_the_price_of_a_core_hour_is_divided_by_the_part_that_computes() -> None:
    model = replace(grid_model(load_spec(EXAMPLE)), costs=(Cost("all", 144.0),))
    matrix = workload_matrix("quick")
    found = simulate_workload(model, matrix, default_profiles(), Replay(scale="paper"), where="here")
    cost = useful_cost(model, found)
    assert found.ratio_of_sums is not None
    assert cost.usd_per_core_hour == pytest.approx(144.0 / 72), "three nodes of 24 cores"
    assert cost.usd_per_useful_core_hour == pytest.approx(2.0 * found.real_s / found.cpu_s)
    assert cost.usd_per_cpu_hour == pytest.approx(144.0 * found.elapsed_s / found.cpu_s)
    document = workload_document(model, matrix, found)
    assert document["cost"]["usd_per_useful_core_hour"] == cost.usd_per_useful_core_hour
    assert "144.00 USD/h" in workload_prediction_text(model.name, matrix.name, found, cost)
    page = workload_prediction_page(model.name, matrix.name, found, cost)
    assert f"A useful core-hour costs {cost.usd_per_useful_core_hour:.4f} USD" in page
    assert "What work costs, in USD" in page
    unpriced = useful_cost(replace(model, costs=(Cost("all", None),)), found)
    assert unpriced.usd_per_useful_core_hour is None
    assert "USD" not in workload_prediction_text(model.name, matrix.name, found, unpriced)
    assert "USD" not in workload_prediction_page(model.name, matrix.name, found, unpriced)
