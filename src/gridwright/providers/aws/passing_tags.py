"""Sets owner and expiry on machines and on what they brought with them, whose launch templates lack them."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.providers.aws.names import GRID_TAG, passing_tags
from gridwright.providers.aws.session import Cloud
from gridwright.spec.model import GridSpec

AT_ONCE = 500
"""Resources of one call: EC2 takes up to 1000 (EC2 API reference, CreateTags)."""
_THERE = ("pending", "running", "stopping", "stopped")
"""States of instances that can be tagged."""


def settle_passing_tags(cloud: Cloud, spec: GridSpec) -> int:
    """Bring owner and expiry of instances, volumes and interfaces to what the spec says; how many changed.

    An Auto Scaling group gives its tags to machines that it starts from then on, never to those that run
    (EC2 Auto Scaling User Guide, tag groups and instances). Raises CloudError.
    """
    found = dict(_tags(cloud, spec.name))
    changed: set[str] = set()
    for name, wanted in passing_tags(spec).items():
        wrong = [each for each, tags in found.items() if tags.get(name) != wanted]
        _set(cloud, name, wanted, wrong)
        changed.update(wrong)
    return len(changed)


def _tags(cloud: Cloud, grid: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each resource of the grid that is there, with its tags."""
    chosen = [{"Name": f"tag:{GRID_TAG}", "Values": [grid]}]
    running = [*chosen, {"Name": "instance-state-name", "Values": list(_THERE)}]
    for each in cloud.listed("ec2", "describe_instances", "Reservations", Filters=running):
        for instance in each["Instances"]:
            yield instance["InstanceId"], _plain(instance.get("Tags"))
    for each in cloud.listed("ec2", "describe_volumes", "Volumes", Filters=chosen):
        yield each["VolumeId"], _plain(each.get("Tags"))
    for each in cloud.listed("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=chosen):
        yield each["NetworkInterfaceId"], _plain(each.get("TagSet"))


def _plain(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in tags or ()}


def _set(cloud: Cloud, name: str, value: str | None, resources: list[str]) -> None:
    operation = "delete_tags" if value is None else "create_tags"
    tag = {"Key": name} if value is None else {"Key": name, "Value": value}
    for first in range(0, len(resources), AT_ONCE):
        cloud.call("ec2", operation, Resources=resources[first : first + AT_ONCE], Tags=[tag])
