"""The same grid, bought otherwise: factors touch instances, and spot nodes that may be taken away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.catalog.instances import PURCHASE_OPTIONS, purchase_factors
from gridwright.cli.plan.predict import PredictFlags, run_predict, workload_matrix
from gridwright.filesystems.resources import Cost
from gridwright.model.costs import Purchase, core_prices, purchases, useful_cost
from gridwright.model.document import workload_document
from gridwright.model.grid import grid_model
from gridwright.model.workload import Replay, default_profiles, simulate_workload
from gridwright.report.designs.page import workload_prediction_page
from gridwright.report.terminal.prediction import workload_prediction_text
from gridwright.spec.load import load_spec, parse_spec

EXAMPLE = Path(__file__).parents[3] / "examples" / "aws-lustre.yaml"


def by_option(*costs: Cost) -> dict[str, Purchase]:
    return {each.option: each for each in purchases(costs)}


def test_factors_are_parts_of_the_price_on_demand_and_longer_terms_are_cheaper() -> None:
    found = purchase_factors()
    # EC2's list of 2025-05-28, us-east-1: 1.904 on demand, 1.200 for a year, 0.734 for three.
    factors = found["m5n.8xlarge"].factors
    assert factors["one-year"] == pytest.approx(1.2 / 1.904, abs=1e-4)
    assert factors["three-years"] == pytest.approx(0.734 / 1.904, abs=1e-4)
    for name, each in found.items():
        assert set(each.factors) <= set(PURCHASE_OPTIONS), name
        assert all(0 < factor <= 1 for factor in each.factors.values()), name
        assert each.factors.get("three-years", 0) < each.factors.get("one-year", 1), name
        assert each.source.date, name


def test_only_hours_of_instances_get_cheaper() -> None:
    factors = purchase_factors()["m5n.8xlarge"].factors
    bill = (Cost("nodes", 10.0, "m5n.8xlarge"), Cost("volumes", 5.0), Cost("OSS", 2.0, "of-nobody"))
    year = by_option(*bill)["one-year"]
    assert year.usd_per_hour == pytest.approx(10 * factors["one-year"] + 7)
    assert year.part == pytest.approx(year.usd_per_hour / 17)
    assert (year.instances, year.at_list_price) == (("m5n.8xlarge",), ("of-nobody",))
    assert purchases((Cost("volumes", 5.0),)) == ()
    assert purchases((*bill, Cost("unpriced", None))) == (), "no sum is known"


def test_spot_is_for_nodes_that_may_be_taken_away_alone() -> None:
    assert "spot" not in by_option(Cost("nodes", 10.0, "m5n.8xlarge"))
    bill = (Cost("nodes", 10.0, "m5n.8xlarge", may_be_spot=True), Cost("OSS", 4.0, "c6in.8xlarge"))
    spot = by_option(*bill)["spot"]
    assert spot.usd_per_hour == pytest.approx(10 * purchase_factors()["m5n.8xlarge"].factors["spot"] + 4)
    assert spot.at_list_price == ("c6in.8xlarge",)
    assert spot.interrupted == ("m5n.8xlarge >20%",)


def test_the_spec_says_whether_nodes_may_be_taken_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def options(text: str) -> list[str]:
        file = tmp_path / "grid.yaml"
        file.write_text(text)
        run_predict(PredictFlags(file=file, json=True))
        return [each["option"] for each in json.loads(capsys.readouterr().out)["purchases"]]

    text = EXAMPLE.read_text()
    years = ["one-year", "one-year-upfront", "three-years", "three-years-upfront"]
    assert options(text) == years
    allowed = text.replace("  cores: 60\n", "  cores: 60\n  availability: {interrupt_nodes: true}\n")
    assert options(allowed) == [*years, "spot"]
    run_predict(PredictFlags(file=tmp_path / "grid.yaml", explain=True))
    printed = capsys.readouterr().out
    assert "The same grid bought otherwise" in printed
    assert "taken away within a month: i3en.6xlarge" in printed


# What an hour of a core costs on the nodes of a grid.

TWO_GROUPS = """
provider: aws
region: us-east-1
nodes:
  compute: {count: 4, instance: m5n.8xlarge}
  wide: {count: 1, instance: r5n.16xlarge}
filesystems: {shared: {type: fsx-lustre, path: /shared, capacity: 12 TiB, throughput: 250 MB/s/TiB}}
scheduler: {type: slurm}
"""


def test_a_core_costs_its_part_of_its_node_as_in_a_prediction() -> None:
    spec = parse_spec(TWO_GROUPS)
    price = core_prices(spec)
    assert price is not None
    bill = {cost.what: cost.usd_per_hour for cost in grid_model(spec).costs}
    compute, wide = price("compute3"), price("wide1")
    assert compute is not None and wide is not None
    assert compute * 4 * 16 == pytest.approx(bill["4 nodes m5n.8xlarge"])
    assert wide * 32 == pytest.approx(bill["1 node r5n.16xlarge"])
    assert price("elsewhere") is None


def test_nodes_of_ones_own_have_no_price() -> None:
    spec = parse_spec("provider: local\nfilesystems: {disk: {type: local, path: /d}}\n")
    assert core_prices(spec) is None


# A useful core-hour is dearer than one that is paid for by as much as cores wait.

PAPER_EXAMPLE = Path(__file__).parents[3] / "examples" / "papers" / "003-spectrum-scale.yaml"


def test_the_price_of_a_core_hour_is_divided_by_the_part_that_computes() -> None:
    model = replace(grid_model(load_spec(PAPER_EXAMPLE)), costs=(Cost("all", 144.0),))
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
