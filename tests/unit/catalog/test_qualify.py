"""Marks of families: equal to the published ones of paper 4632-2020, at the thresholds stated."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import DATA
from gridwright.catalog.qualify import FamilyMarks, qualify

INSTANCES = load_catalog().instances
FOURTEEN = {"c5", "c5n", "i3", "i3en", "m5", "m5a", "m5ad", "m5n", "m5dn", "r5", "r5a", "r5ad", "r5n", "r5dn"}


@pytest.fixture(scope="module")
def marks() -> dict[str, FamilyMarks]:
    return {each.family: each for each in qualify(INSTANCES.values())}


def published() -> list[dict[str, str]]:
    with (DATA / "published-marks.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_published_table_has_its_14_families() -> None:
    assert {row["family"] for row in published()} == FOURTEEN


@pytest.mark.parametrize("row", published(), ids=lambda row: row["family"])
def test_every_mark_equals_the_published_one(marks: dict[str, FamilyMarks], row: dict[str, str]) -> None:
    found = marks[row["family"]]
    assert found.network_meets == (row["network_meets"] == "1")
    assert found.memory_meets == (row["memory_meets"] == "1")
    assert found.published
    assert found.published.fact == f"002.t3.{row['family']}"


def test_at_75_mb_the_marks_would_not_fit_the_paper() -> None:
    """Why it is 100: at the low end for SASDATA, i3 would pass, which the paper marks as failing."""
    found = {each.family: each for each in qualify(INSTANCES.values(), network=75e6)}
    assert found["i3"].network_meets
    assert not found["i3"].published.network_meets  # type: ignore[union-attr]


def test_all_other_families_are_marked_too(marks: dict[str, FamilyMarks]) -> None:
    assert len(marks) > 150
    assert marks["m6in"].network_meets
    assert marks["m6in"].published is None
    assert marks["VM.Standard2"].provider == "oci"


def test_accelerated_types_are_left_out(marks: dict[str, FamilyMarks]) -> None:
    assert not {"p5", "g6f", "trn2u"} & set(marks)


def test_one_size_that_misses_marks_the_family_as_missing() -> None:
    types = [INSTANCES["m5n.large"], replace(INSTANCES["m5n.xlarge"], cores=8)]
    (found,) = qualify(types)
    assert (found.network_meets, found.memory_meets) == (False, False)
    assert found.network_misses == found.memory_misses == ("m5n.xlarge",)


def test_a_type_at_the_threshold_meets_it() -> None:
    instance = INSTANCES["m5n.large"]
    at = {
        "network": instance.network_bytes_per_s_per_core,
        "memory": instance.memory_bytes_per_core,
    }
    (found,) = qualify([instance], **at)
    assert (found.network_meets, found.memory_meets) == (True, True)
    (found,) = qualify([instance], at["network"] + 1, at["memory"] + 1)
    assert (found.network_meets, found.memory_meets) == (False, False)


def test_measured_rates_do_not_count() -> None:
    """m5n.8xlarge is measured at 264 MB/s per core and listed at 195: 200 is missed."""
    (found,) = qualify([INSTANCES["m5n.8xlarge"]], network=200e6)
    assert not found.network_meets
