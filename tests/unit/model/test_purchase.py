"""The same grid, bought otherwise: factors touch instances, and spot nodes that may be taken away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridwright.catalog.purchase import PURCHASE_OPTIONS, purchase_factors
from gridwright.cli.plan.predict import PredictFlags, run_predict
from gridwright.filesystems.resources import Cost
from gridwright.model.purchase import Purchase, purchases

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
