"""Auto Scaling groups and machines of moto, changed by CloudFormation in place, as AWS does it.

moto makes a group anew for any change, and forgets which version of a template its instances came from. AWS
leaves the instances of a group alone that has no update policy; a machine whose launch template changes it
makes anew first, which an interface in use does not allow. What refers to the version of a template follows.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from moto.autoscaling.models import FakeAutoScalingGroup, InstanceState
from moto.cloudformation.exceptions import ValidationError
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.ec2.utils import parse_user_data

from tests.support import aws_resources


def register(patch: pytest.MonkeyPatch) -> None:
    """Have moto do so."""
    patch.setattr(InstanceState, "__init__", _remembering(InstanceState.__init__))
    patch.setattr(InstanceState, "launch_template", property(_launched_with))
    patch.setattr(FakeAutoScalingGroup, "update_from_cloudformation_json", classmethod(_update_group))
    in_place: Any = classmethod(_update_template(LaunchTemplate.update_from_cloudformation_json))
    patch.setattr(LaunchTemplate, "update_from_cloudformation_json", in_place)
    patch.setattr(
        aws_resources.Machine, "update_from_cloudformation_json", classmethod(_update_machine), raising=False
    )


def _update_template(original: Any) -> Any:
    """A launch template whose values are what they were has no new version, however the text names them."""

    def update(cls: Any, original_resource: Any, cloudformation_json: dict[str, Any], **more: Any) -> Any:
        data = copy.deepcopy(cloudformation_json["Properties"]["LaunchTemplateData"])
        data["UserData"] = parse_user_data(data.get("UserData"))
        if data == original_resource.latest_version().data:
            return original_resource
        return original(original_resource=original_resource, cloudformation_json=cloudformation_json, **more)

    return update


def _remembering(original: Any) -> Any:
    def begin(self: InstanceState, *more: Any, **named: Any) -> None:
        original(self, *more, **named)
        group = self.auto_scaling_group
        self.version = str(getattr(group, "launch_template_version", ""))  # type: ignore[attr-defined]

    return begin


def _launched_with(self: Any) -> dict[str, Any] | None:
    template = self.auto_scaling_group.ec2_launch_template
    if template is None:
        return None
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Version": self.version,
    }


def _update_group(
    cls: Any,
    original_resource: Any,
    new_resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
) -> Any:
    given = cloudformation_json["Properties"]
    assert "UpdatePolicy" not in cloudformation_json, "a rolling update would end the jobs of nodes"
    original_resource.update(
        [],
        int(given["DesiredCapacity"]),
        int(given["MaxSize"]),
        int(given["MinSize"]),
        None,
        {name: str(value) for name, value in given["LaunchTemplate"].items()},
        ",".join(given["VPCZoneIdentifier"]),
        given["HealthCheckGracePeriod"],
        given["HealthCheckType"],
    )
    original_resource.tags = given["Tags"]
    return original_resource


def _update_machine(
    cls: Any,
    original_resource: Any,
    new_resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
) -> Any:
    given = cloudformation_json["Properties"]
    if str(given["LaunchTemplate"]["Version"]) != original_resource.version:
        (interface,) = (each["NetworkInterfaceId"] for each in given["NetworkInterfaces"])
        raise ValidationError(message=f"Interface: [{interface}] in use.")
    original_resource.instance_type = given["InstanceType"]
    return original_resource


def follow_templates(stack: Any, resources: dict[str, Any]) -> None:
    """Have groups and machines of a stack that was changed follow the versions of their launch templates."""
    for name, resource in resources.items():
        if resource["Type"] not in ("AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::Instance"):
            continue
        template = resource["Properties"]["LaunchTemplate"]["LaunchTemplateId"]["Ref"]
        latest = stack.resource_map[template].latest_version_number
        there = stack.resource_map[name]
        if isinstance(there, FakeAutoScalingGroup):
            given = {"LaunchTemplateId": stack.resource_map[template].id, "Version": str(latest)}
            there._set_launch_configuration("", given, None)
        elif there.version != str(latest):
            raise ValidationError(message=f"{name}: its interface is in use.")
