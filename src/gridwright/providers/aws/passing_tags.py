"""Sets owner and expiry on machines and on what they brought with them, whose launch templates lack them."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.providers.aws.instances import instances
from gridwright.providers.aws.names import passing_tags
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.tagged import of_grid, tags_of
from gridwright.spec.model import GridSpec

AT_ONCE = 500
"""Resources of one call: EC2 takes up to 1000 (EC2 API reference, CreateTags)."""


def settle_passing_tags(cloud: Cloud, spec: GridSpec) -> None:
    """Bring owner and expiry of instances, volumes and interfaces to what the spec says.

    An Auto Scaling group gives its tags to machines that it starts from then on, never to those that run
    (EC2 Auto Scaling User Guide, tag groups and instances). Raises CloudError.
    """
    found = dict(_tags(cloud, spec))
    for name, wanted in passing_tags(spec).items():
        _set(cloud, name, wanted, [each for each, tags in found.items() if tags.get(name) != wanted])


def _tags(cloud: Cloud, spec: GridSpec) -> Iterator[tuple[str, dict[str, str]]]:
    """Each resource of the grid that is there, with its tags."""
    chosen = of_grid(spec.name)
    for name, instance in instances(cloud, spec).items():
        yield name, tags_of(instance)
    for each in cloud.listed("ec2", "describe_volumes", "Volumes", Filters=chosen):
        yield each["VolumeId"], tags_of(each)
    for each in cloud.listed("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=chosen):
        yield each["NetworkInterfaceId"], tags_of(each)


def _set(cloud: Cloud, name: str, value: str | None, resources: list[str]) -> None:
    operation = "delete_tags" if value is None else "create_tags"
    tag = {"Key": name} if value is None else {"Key": name, "Value": value}
    for first in range(0, len(resources), AT_ONCE):
        cloud.call("ec2", operation, Resources=resources[first : first + AT_ONCE], Tags=[tag])
