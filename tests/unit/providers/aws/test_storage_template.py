"""The storage template as a whole: clean, the same each time, tagged, within CloudFormation's limits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.names import GRID_TAG, Export, storage_stack
from gridwright.providers.aws.stacks import LONGEST_BODY, template_problems
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec.model import GridSpec
from tests.unit.providers.aws.storage_specs import (
    DISKS,
    FSX,
    KEY,
    LINTED,
    SPECS,
    lustre,
    resources,
    spec,
    tags_of,
    template,
    text,
)

UNTAGGED = {
    "AWS::EC2::Route",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::S3::BucketPolicy",
    "AWS::Scheduler::Schedule",
}
"""Types that AWS has no tags for."""
HOLD_DATA = ("AWS::FSx::FileSystem", "AWS::EC2::Volume")
"""Together they have every kind of resource, with every property."""

_PRINTS_TEMPLATE = """
from tests.unit.providers.aws.storage_specs import LINTED, SPECS, text
print(text(SPECS["both-proxy-efa"]), end="")
"""

every_spec = pytest.mark.parametrize("grid", SPECS.values(), ids=SPECS)


def test_the_linted_templates_have_every_property_that_any_has() -> None:
    def used(names: Iterable[str]) -> set[tuple[str, str]]:
        found = [each for name in names for each in template(SPECS[name])["Resources"].values()]
        return {(each["Type"], name) for each in found for name in each["Properties"]}

    assert used(LINTED) == used(SPECS)


@pytest.mark.thorough
def test_another_process_with_other_hashes_writes_the_same_bytes() -> None:
    written = [
        subprocess.run(
            [sys.executable, "-c", _PRINTS_TEMPLATE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[4])},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]

    assert written[0] == written[1] == text(SPECS["both-proxy-efa"]).encode()


@every_spec
def test_everything_that_can_have_tags_says_which_grid_it_is_of(grid: GridSpec) -> None:
    found = template(grid)["Resources"]

    assert {each["Type"] for each in found.values() if "Tags" not in each["Properties"]} <= UNTAGGED
    for each in found.values():
        if each["Type"] not in UNTAGGED:
            marks = tags_of(each["Properties"])
            assert marks[GRID_TAG] == "demo"
            assert marks["gridwright:role"]


def test_owner_and_expiry_are_tags_of_everything() -> None:
    for each in template(SPECS["persistent-2-full"])["Resources"].values():
        if each["Type"] not in UNTAGGED:
            marks = tags_of(each["Properties"])
            assert (marks["gridwright:owner"], marks["gridwright:expires"]) == ("a@example.com", "2027-01-31")


@every_spec
def test_the_grid_stack_finds_all_that_it_imports(grid: GridSpec) -> None:
    names = {each["Export"]["Name"] for each in template(grid)["Outputs"].values()}

    assert {f"{storage_stack(grid)}-{each}" for each in Export} <= names


@every_spec
def test_what_holds_data_stays_when_the_stack_lets_go_of_it(grid: GridSpec) -> None:
    found = template(grid)["Resources"].values()

    for each in found:
        if each["Type"] in HOLD_DATA:
            assert (each["DeletionPolicy"], each["UpdateReplacePolicy"]) == ("Retain", "Retain")
        elif each["Type"] != "AWS::DynamoDB::Table":
            assert each.get("DeletionPolicy", "Delete") == "Delete"


def test_only_what_is_named_is_deletable() -> None:
    grid = SPECS["both-proxy-efa"]
    before, after = template(grid), template(grid, deletable=frozenset({"fsx"}))

    changed = {name for name in before["Resources"] if before["Resources"][name] != after["Resources"][name]}

    assert changed == {"Fsx"}
    assert after["Resources"]["Fsx"]["DeletionPolicy"] == "Delete"
    assert after["Resources"]["Fsx"]["Properties"] == before["Resources"]["Fsx"]["Properties"]
    assert after["Resources"]["Fsx"]["Metadata"] != before["Resources"]["Fsx"]["Metadata"]


def test_what_is_left_out_is_gone_with_all_that_belongs_to_it() -> None:
    grid = spec(shared=FSX, built=lustre(2) | {"path": "/built"})

    left = template(grid, without=frozenset({"shared"}))
    assert not [name for name in left["Resources"] if name.startswith("Shared")]
    assert not [name for name in left["Outputs"] if name.startswith("Shared")]
    assert resources(left, "AWS::EC2::Volume") == resources(template(grid), "AWS::EC2::Volume")

    left = template(grid, without=frozenset({"built"}))
    assert not [name for name in left["Resources"] if name.startswith("Built")]
    assert "Shared" in left["Resources"]


def test_without_file_systems_a_large_grid_fits_into_a_request() -> None:
    grid = spec(shared=lustre(40, disks=DISKS | {"count": 8}))
    whole = storage_template(grid, aws_layout(grid)).to_json(indent=None)
    small = storage_template(grid, aws_layout(grid), without=frozenset({"shared"})).to_json(indent=None)

    assert len(small) < LONGEST_BODY < len(whole)


def test_more_than_cloudformation_takes_is_refused_with_what_to_do() -> None:
    grid = spec(shared=lustre(60, disks=DISKS | {"count": 8}))

    with pytest.raises(GridwrightError) as caught:
        storage_template(grid, aws_layout(grid))

    (problem,) = caught.value.problems
    assert "resources, and CloudFormation takes 500" in problem.what
    assert "larger volumes" in (problem.remedy or "")


def test_a_template_within_the_limits_has_no_problem() -> None:
    grid = SPECS["lustre-many"]

    assert [*template_problems(storage_template(grid, aws_layout(grid)))] == []


def test_all_that_aws_would_refuse_is_told_at_once_and_at_its_place() -> None:
    grid = spec(
        shared=FSX | {"capacity": "3000 GiB"},
        fast=FSX | {"path": "/fast", "throughput": "300 MB/s/TiB"},
        built=lustre(disks=DISKS | {"iops": 99_999, "throughput": "9 GB/s"}) | {"path": "/built"},
    )

    with pytest.raises(GridwrightError) as caught:
        storage_template(grid, aws_layout(grid))

    assert [each.field for each in caught.value.problems] == [
        "filesystems.shared.capacity",
        "filesystems.fast.throughput",
        "filesystems.built.oss.disks.iops",
        "filesystems.built.oss.disks.throughput",
    ]
    assert all(each.remedy for each in caught.value.problems)


def bucket(found: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = found["Resources"]["SiteBucket"]["Properties"]
    return values


def test_the_site_bucket_is_private_versioned_and_encrypted_and_goes_with_the_stack() -> None:
    found = template(SPECS["lustre"])
    values = bucket(found)

    assert set(values["PublicAccessBlockConfiguration"].values()) == {True}
    assert values["VersioningConfiguration"] == {"Status": "Enabled"}
    rule, logs = values["LifecycleConfiguration"]["Rules"]
    # A bundle in use is as old as the grid: only what was replaced or deleted may go.
    assert "NoncurrentVersionExpiration" in rule
    assert not {"Expiration", "ExpirationInDays", "ExpirationDate"} & set(rule)
    assert (logs["Prefix"], logs["ExpirationInDays"]) == ("boot-logs/", 30)
    assert found["Resources"]["SiteBucket"]["DeletionPolicy"] == "Delete"
    statements = found["Resources"]["SiteBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert {each["Effect"] for each in statements} == {"Deny"}
    assert {"Bool": {"aws:SecureTransport": "false"}} in [each["Condition"] for each in statements]


def test_the_key_of_the_spec_encrypts_all_that_can_have_one() -> None:
    found = template(SPECS["lustre-many"])

    volumes = resources(found, "AWS::EC2::Volume").values()
    assert {each["Properties"]["KmsKeyId"] for each in volumes} == {KEY}
    (rule,) = bucket(found)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == KEY
    assert found["Resources"]["ClaimsTable"]["Properties"]["SSESpecification"]["KMSMasterKeyId"] == KEY
