"""Which images a grid keeps, above all one whose stack was made by a release that kept none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from gridwright.catalog import load_catalog
from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.images import GridImage, chosen_images, image_findings, named_images
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.session import Cloud
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX

PARAMETER = "ComputeImageAmd64"
OLD, TODAY = "ami-0aaaaaaaaaaaaaaaa", "ami-0bbbbbbbbbbbbbbbb"
OTHER_TYPE = FSX.replace("aws: {", "aws: {login: {instance: m6i.xlarge}, ")


class Names:
    """What stands for AWS where names stand for an image of today, which `image` describes."""

    region = "us-east-1"

    def __init__(self, **image: str) -> None:
        described = {"State": "available", "Architecture": "x86_64", "RootDeviceName": "/dev/sda1"}
        self.image = {**described, **image}

    def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
        if (service, operation) == ("ssm", "get_parameter"):
            return {"Parameter": {"Value": TODAY}}
        assert (service, operation) == ("ec2", "describe_images")
        return {"Images": [{"ImageId": given["ImageIds"][0], **self.image}]}


def chosen(
    old: Mapping[str, Any], new: str = FSX, *, renew: bool = False, kept: str | None = None
) -> dict[str, str]:
    spec = parse_spec(new)
    layout, template = aws_layout(spec), deployment(spec).grid
    cloud, parameters = cast("Cloud", Names()), {PARAMETER: kept} if kept else {}
    found = chosen_images(cloud, spec, layout, parameters, old, template, renew=renew)
    return {each.parameter: each.value for each in found}


def earlier(text: str) -> dict[str, Any]:
    """A template as releases made it that kept no image: the name stands in each launch template."""
    made: dict[str, Any] = json.loads(json.dumps(deployment(parse_spec(text)).grid))
    named = made["Parameters"].pop(PARAMETER)["Default"]
    changed = json.dumps(made).replace(json.dumps({"Ref": PARAMETER}), json.dumps(named))
    assert PARAMETER not in changed
    return cast("dict[str, Any]", json.loads(changed))


def test_a_stack_of_an_earlier_release_is_not_rolled_for_its_image_alone() -> None:
    assert chosen(earlier(FSX))[PARAMETER].startswith("resolve:ssm:/aws/service/canonical/")
    assert chosen(earlier(FSX), renew=True) == {PARAMETER: TODAY}


def test_one_whose_machines_are_all_replaced_anyway_keeps_the_image_from_then_on() -> None:
    old = earlier(FSX)
    for each in old["Resources"].values():
        if each["Type"] == "AWS::EC2::LaunchTemplate":
            each["Properties"]["LaunchTemplateData"]["KeyName"] = "theirs"
    assert chosen(old) == {PARAMETER: TODAY}


def test_one_of_whose_machines_only_some_are_replaced_leaves_the_others() -> None:
    assert chosen(earlier(FSX), OTHER_TYPE)[PARAMETER].startswith("resolve:ssm:")


def test_an_image_that_is_kept_stays_whatever_else_changes() -> None:
    deployed = deployment(parse_spec(FSX)).grid
    assert chosen(deployed, OTHER_TYPE, kept=OLD) == {PARAMETER: OLD}
    assert chosen(deployed, renew=True, kept=OLD) == {PARAMETER: TODAY}
    named = FSX.replace("owner: ann", "owner: ann, images: {compute: /site/image}")
    assert chosen(deployed, named, kept=OLD) == {PARAMETER: TODAY}


def test_a_spec_that_cannot_be_read_any_more_changes_no_image() -> None:
    deployed = {**deployment(parse_spec(FSX)).grid, "Metadata": {"Gridwright": {"Schema": 0}}}
    assert chosen(deployed, kept=OLD) == {PARAMETER: OLD}


def test_machines_of_two_architectures_keep_an_image_each() -> None:
    spec = parse_spec(FSX.replace("m6i.4xlarge", "m7g.4xlarge"))
    names = {each.parameter: each.name for each in named_images(spec, aws_layout(spec))}
    assert set(names) == {PARAMETER, "ComputeImageArm64"}
    assert "/arm64/" in names["ComputeImageArm64"]


@pytest.mark.parametrize(("until", "names"), [("2024-01-31", ["image-deprecated"]), ("2999-01-31", [])])
def test_an_image_whose_time_is_over_is_named_while_it_still_starts(until: str, names: list[str]) -> None:
    cloud = cast("Cloud", Names(DeprecationTime=f"{until}T00:00:00.000Z"))
    layout = aws_layout(parse_spec(FSX))
    found = list(image_findings(cloud, layout, load_catalog(None), {PARAMETER: OLD}))
    assert [each.name for each in found] == names
    assert all(OLD in each.text and "--new-images" in each.remedy for each in found)


def test_what_is_said_of_an_image_names_what_to_do_only_where_there_is_something() -> None:
    image = GridImage(PARAMETER, "aws.images.compute", "/site/image", OLD, OLD)
    assert image.text == f"aws.images.compute: {OLD} is kept, from /site/image"
