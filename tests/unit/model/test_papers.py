"""The model against the papers: how near it comes, and that nothing it is checked by was used to build it."""

from __future__ import annotations

import csv
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

import gridwright
from gridwright.catalog import Catalog, MeasuredRate, StoreMeasured, load_catalog
from gridwright.model.papers.checks import LIMIT, LIMITS, PaperSummary, check_papers, papers_document
from gridwright.model.papers.figures import PAPERS, published_figures
from tests.unit.model.paper_grids import matrices, papers, row

SOURCE = Path(gridwright.__file__).parent
FACT = re.compile(r"\b[0-9]{3}\.[a-z][a-z0-9_.]*[a-z0-9_]")
DATA_OF_PREDICTIONS = (
    "filesystems/data/efficiency.csv",
    "spec/data/peak_factor.csv",
    "catalog/data/instances.csv",
    "catalog/data/store-rates.csv",
    "catalog/data/managed.csv",
    "catalog/data/volume-facts.csv",
)
"""Every file with a capacity or a factor of the model."""


def cited(name: str) -> set[str]:
    """The facts that the sources in a data file name."""
    with (SOURCE / name).open(encoding="utf-8") as file:
        return {fact for line in csv.DictReader(file) for fact in FACT.findall(line["source"])}


def test_the_table_of_instances_is_predicted_within_five_percent() -> None:
    found = papers().instance_table
    assert found.count > 100
    assert found.median_error is not None
    assert found.median_error <= 0.05 == LIMITS["002"]


def test_all_other_papers_are_predicted_within_fifteen_percent() -> None:
    found = papers().others
    assert found.count >= 12
    assert found.median_error is not None
    assert found.median_error <= 0.15 == LIMIT


def test_no_check_is_a_source_of_the_model() -> None:
    checks = {each.fact_id for each in papers().of("check")}
    for name in DATA_OF_PREDICTIONS:
        assert cited(name) & checks == set(), name


def test_measured_rates_of_the_catalogue_change_no_prediction() -> None:
    catalog = load_catalog()
    assert catalog.instances["m5n.8xlarge"].network.measured is not None
    wrong = {}
    for name, each in catalog.instances.items():
        network = replace(each.network, measured=MeasuredRate(1.0, "wrong"), burst_s=1.0)
        store = each.instance_store
        if store is not None:
            store = replace(store, measured=(StoreMeasured("write", 1.0, False, "wrong"),))
        wrong[name] = replace(each, network=network, instance_store=store)
    other = Catalog(MappingProxyType(wrong), catalog.volumes, catalog.managed, catalog.prices)
    assert check_papers(other).rows == check_papers(catalog).rows


@pytest.mark.parametrize(
    ("instance", "gbit_per_s"),
    [("c5.large", 0.75), ("i3.16xlarge", 25), ("m5n.8xlarge", 25), ("m5a.4xlarge", 5)],
)
def test_a_row_of_the_table_is_the_listed_rate_of_its_instance(instance: str, gbit_per_s: float) -> None:
    fact = f"002.t2.{instance}"
    whole, each_core = row(fact, f"{instance}, consistent write"), row(fact, "consistent write, each core")
    assert whole.predicted == pytest.approx(gbit_per_s * 125e6)
    assert each_core.predicted == pytest.approx(gbit_per_s * 125e6 / load_catalog().instance(instance).cores)
    assert (whole.role, each_core.role) == ("check", "context")


def test_a_faster_network_in_the_catalogue_moves_the_prediction_with_it() -> None:
    catalog = load_catalog()
    each = catalog.instances["m5n.8xlarge"]
    faster = replace(each, network=replace(each.network, baseline_bytes_per_s=4.2e9, peak_bytes_per_s=4.2e9))
    other = replace(catalog, instances=MappingProxyType({**catalog.instances, "m5n.8xlarge": faster}))
    found = [one for one in check_papers(other).rows if one.quantity == "m5n.8xlarge, consistent write"]
    assert [one.predicted for one in found] == [pytest.approx(4.2e9)]
    assert not found[0].missed


def test_a_miss_is_larger_than_its_limit_and_has_a_reason() -> None:
    missed = {each.quantity: each for each in papers().missed}
    assert "33.8" in missed["m5n.8xlarge, consistent write"].why
    assert "m5.8xlarge, consistent write" not in missed
    for each in missed.values():
        assert each.error is not None
        assert abs(each.error) > (0.05 if each.paper == "002" else 0.15)
        assert each.why, each.quantity


def test_what_is_not_predicted_says_why() -> None:
    without = [each for each in papers().rows if each.predicted is None]
    assert without
    assert all(each.why and each.error is None and not each.missed for each in without)
    assert "not described" in row("000.ratio.ext4", "mean of launches").why


def test_each_error_is_that_of_its_row() -> None:
    for each in papers().rows:
        if each.predicted is not None:
            assert each.predicted == pytest.approx(each.published * (1 + (each.error or 0.0)))


@pytest.mark.parametrize("paper", PAPERS)
def test_summaries_are_of_the_checks_alone(paper: str) -> None:
    (found,) = [each for each in papers().papers if each.paper == paper]
    checks = [each for each in papers().of("check") if each.paper == paper]
    errors = [abs(each.error) for each in checks if each.error is not None]
    assert found.count == len(errors)
    assert found.not_predicted == len(checks) - len(errors)
    assert found.median_error == statistics.median(errors)
    assert found.worst_error == max(errors)
    assert_ninth(found, errors)


def assert_ninth(found: PaperSummary, errors: list[float]) -> None:
    """Nine tenths do not exceed it, and fewer than that are below it."""
    assert found.p90_error is not None
    assert sum(each <= found.p90_error for each in errors) >= 0.9 * len(errors)
    assert sum(each < found.p90_error for each in errors) < 0.9 * len(errors)


def test_rates_of_oracle_are_mebibytes_for_each_stream() -> None:
    found = row("003.io.gpfs_fs1_test3", "data, read, each of 24 streams")
    assert found.published == pytest.approx(115.14 * 2**20)
    # Three nodes at once: the network of each node binds, 24.6 Gbit/s for 24 streams.
    assert found.predicted == pytest.approx(24.6e9 / 8 / 24)


def test_the_terabytes_of_aws_explain_the_printed_aggregate() -> None:
    found = row("002.fs.throughput")
    assert found.predicted == pytest.approx(100800 / 1024 * 200e6)
    assert found.predicted == pytest.approx(found.published, rel=5e-5)


def test_servers_of_lustre_deliver_alike_whether_three_or_six() -> None:
    three, six = row("001.meas.shared").predicted, row("001.meas.scale_tp").predicted
    assert three and six == pytest.approx(2 * three)
    assert row("000.oss.expected").predicted == pytest.approx(three / 3)


def test_ratios_come_from_the_simulation_and_need_the_matrices() -> None:
    for fact, near in (("000.ratio.lustre", 0.95), ("003.res.3node", 1.10)):
        with_matrix, without = row(fact, "mean of launches"), row(fact, "mean of launches", load_catalog())
        assert with_matrix.unit == "ratio"
        assert with_matrix.predicted == pytest.approx(near, rel=0.2)
        assert without.predicted is None
        assert "mixed" in without.why


def test_the_document_holds_the_contract() -> None:
    document = json.loads(json.dumps(papers_document(papers()), allow_nan=False))
    assert [each["paper"] for each in document["papers"]] == list(PAPERS)
    keys = {"paper", "median_error", "p90_error", "worst_error", "count"}
    assert all(keys <= each.keys() for each in document["papers"])
    assert len(document["rows"]) == len(published_figures())
    names = "paper configuration fact_id quantity unit predicted published error role note"
    assert all(each.keys() == set(names.split()) for each in document["rows"])
    assert [each["at_most"] for each in document["reach"]] == [0.05, 0.15]


def test_matrices_are_those_of_the_papers() -> None:
    given = matrices()
    assert sum(len(stream) for stream in given["mixed-30"].streams) == 101
    assert sum(len(stream) for stream in given["mixed-20"].streams) == 77
