"""Which instances are to be replaced, by what Auto Scaling says of them and of their group."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.providers.aws.roll.aws import is_outdated


def launched(version: str, template: str = "lt-1") -> dict[str, Any]:
    return {"LaunchTemplateId": template, "LaunchTemplateName": "x", "Version": version}


def mixed(version: str) -> dict[str, Any]:
    return {"MixedInstancesPolicy": {"LaunchTemplate": {"LaunchTemplateSpecification": launched(version)}}}


@pytest.mark.parametrize(
    ("instance", "group", "outdated"),
    [
        ({"LaunchTemplate": launched("1")}, {"LaunchTemplate": launched("1")}, False),
        ({"LaunchTemplate": launched("1")}, {"LaunchTemplate": launched("2")}, True),
        ({"LaunchTemplate": launched("2", "lt-0")}, {"LaunchTemplate": launched("2")}, True),
        ({"LaunchTemplate": launched("3")}, mixed("3"), False),
        ({"LaunchTemplate": launched("3")}, mixed("4"), True),
        ({"LaunchTemplate": launched("3")}, {}, False),
        ({}, {"LaunchTemplate": launched("3")}, False),
    ],
)
def test_what_was_launched_otherwise_is_outdated(
    instance: dict[str, Any], group: dict[str, Any], outdated: bool
) -> None:
    assert is_outdated(instance, group) is outdated
