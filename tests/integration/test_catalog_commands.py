"""`gridwright catalog` as users run it: lists, facts with sources, marks, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command

PUBLISHED = {
    "c5": (False, False),
    "c5n": (True, False),
    "i3": (False, True),
    "i3en": (True, True),
    "m5": (False, True),
    "m5a": (False, True),
    "m5ad": (False, True),
    "m5n": (True, True),
    "m5dn": (True, True),
    "r5": (False, True),
    "r5a": (False, True),
    "r5ad": (False, True),
    "r5n": (True, True),
    "r5dn": (True, True),
}
"""Network and memory marks of paper 4632-2020, table 3, as printed."""


def test_qualify_reproduces_the_published_table(gridwright: Command, tmp_path: Path) -> None:
    document = gridwright("catalog", "qualify", "--json", cwd=tmp_path).json
    assert document["threshold_network_bytes_per_s_per_core"] == 100e6
    assert document["threshold_memory_bytes_per_core"] == 8e9
    assert "every one of its sizes" in document["rule"]
    marks = {each["family"]: (each["network_meets"], each["memory_meets"]) for each in document["families"]}
    assert {family: marks[family] for family in PUBLISHED} == PUBLISHED
    shown = {each["family"]: each["published"] for each in document["families"] if each["published"]}
    assert shown.keys() == PUBLISHED.keys()
    assert shown["m5n"]["fact_id"] == "002.t3.m5n"


def test_qualify_takes_other_thresholds(gridwright: Command, tmp_path: Path) -> None:
    arguments = ("catalog", "qualify", "--network", "300MB/s", "--memory", "16 GB", "--json")
    document = gridwright(*arguments, cwd=tmp_path).json
    assert document["threshold_network_bytes_per_s_per_core"] == 300e6
    marks = {each["family"]: (each["network_meets"], each["memory_meets"]) for each in document["families"]}
    assert marks["m5n"] == (False, False)
    assert marks["r5n"] == (False, True)
    table = gridwright("catalog", "qualify", cwd=tmp_path)
    assert table.status == 0
    assert "100 MB/s and 8 GB" in table.out


def test_qualify_takes_the_requirements_of_a_spec(gridwright: Command, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "requirements-64-cores.yaml"
    ended = gridwright("catalog", "qualify", example, "--json", cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert ended.json["threshold_network_bytes_per_s_per_core"] >= 100e6


def test_list_filters(gridwright: Command, tmp_path: Path) -> None:
    arguments = ("catalog", "list", "--family", "m5n", "--region", "us-west-2", "--json")
    document = gridwright(*arguments, cwd=tmp_path).json
    found = {each["name"]: each for each in document["instances"]}
    assert len(found) == 9
    assert found["m5n.8xlarge"]["usd_per_hour"] == 1.904
    assert found["m5n.8xlarge"]["network"]["baseline_bytes_per_s"] == 3.125e9
    assert found["m5n.8xlarge"]["source"]["date"] == "2026-10"
    oracle = gridwright("catalog", "list", "--provider", "oci", "--json", cwd=tmp_path).json
    assert {each["provider"] for each in oracle["instances"]} == {"oci"}
    assert all(each["usd_per_hour"] and each["price_source"]["date"] for each in oracle["instances"])
    assert {each["provider"] for kind in ("volumes", "offers") for each in oracle[kind]} == {"oci"}
    balanced = next(each for each in oracle["volumes"] if each["name"] == "balanced")
    assert {each["component"]: each["usd"] for each in balanced["prices"]} == {
        "capacity": 0.0255,
        "vpu": 0.0017,
    }
    assert all(each["source"] and each["date"] for each in balanced["prices"])
    azure = gridwright("catalog", "list", "--provider", "azure", "--json", cwd=tmp_path).json
    assert azure["instances"] == []
    assert "azure-netapp-files-ultra" in [each["name"] for each in azure["offers"]]


def test_a_region_lists_only_what_it_has_a_price_of(gridwright: Command, tmp_path: Path) -> None:
    document = gridwright("catalog", "list", "--region", "eu-north-1", "--json", cwd=tmp_path).json
    assert document["instances"]
    assert all(each["usd_per_hour"] for each in document["instances"])
    assert not [each for each in document["instances"] if each["family"] == "m5n"]


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        (
            "m5n.8xlarge",
            "instance type",
            {"physical cores": 16, "network, measured steady rate": 4225551570.0},
        ),
        ("gp2", "volume type", {"iops per gib": 3, "credits": 5_400_000}),
        (
            "persistent-2",
            "managed file system",
            {"tier 125: steady": 125e6, "tier 125: burst of the disks": 500e6},
        ),
        ("BM.Standard2.52", "instance type", {"network cards": 2}),
        ("azure-netapp-files-ultra", "managed offer of azure", {"read": 4500, "mixed write": 600}),
    ],
)
def test_show_gives_every_fact_with_its_source(
    gridwright: Command, tmp_path: Path, name: str, kind: str, facts: dict[str, float]
) -> None:
    document = gridwright("catalog", "show", name, "--json", cwd=tmp_path).json
    assert document["kind"] == kind
    found = {each["fact"]: each for each in document["facts"]}
    for fact, value in facts.items():
        assert found[fact]["value"] == pytest.approx(value)
    assert all(each["source"] and each["date"] for each in document["facts"])
    table = gridwright("catalog", "show", name, cwd=tmp_path)
    assert table.status == 0
    assert name in table.out


def test_own_prices_beside_the_spec_are_used(gridwright: Command, tmp_path: Path) -> None:
    (tmp_path / "catalog.yaml").write_text("prices: {instances: {us-west-2: {m5n.large: 0.01}}}\n")
    arguments = ("catalog", "list", "--family", "m5n", "--region", "us-west-2", "--json")
    document = gridwright(*arguments, "--beside", tmp_path).json
    assert {each["name"]: each["usd_per_hour"] for each in document["instances"]}["m5n.large"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "m5n.8xlarg"), "the nearest is m5n.8xlarge"),
        (("list", "--family", "m5nn"), "the nearest is m5n"),
        (("list", "--region", "us-west2"), "the nearest is us-west-2"),
        (("list", "--provider", "awss"), "the nearest is aws"),
        (("list", "--provider", "aws", "--region", "us-ashburn-1"), "us-ashburn-1 is no region of aws"),
        (("qualify", "--network", "fast", "--memory", "8"), "is not a rate"),
        (("refresh", "--out", "x.csv", "--region", "us-west2"), "the nearest is us-west-2"),
    ],
)
def test_mistakes_are_named_with_the_nearest(
    gridwright: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = gridwright("catalog", *arguments, cwd=tmp_path)
    assert ended.status == 2
    assert said in ended.text
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_refresh_without_credentials_is_an_error_of_the_environment(
    gridwright: Command, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "missing")
    environment = {
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
        "AWS_PROFILE": "default",
        "AWS_CONFIG_FILE": nowhere,
        "AWS_SHARED_CREDENTIALS_FILE": nowhere,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    ended = gridwright("catalog", "refresh", "--out", "catalog.csv", cwd=tmp_path, environment=environment)
    assert ended.status == 3
    assert "credentials" in ended.text
    assert not (tmp_path / "catalog.csv").exists()
