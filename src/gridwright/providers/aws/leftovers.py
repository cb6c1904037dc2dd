"""Finds what exists of a grid on AWS and is billed, in any stack or none: each service is asked by tag.

The tagging service alone would not do: it lists what was deleted for some time, and leaves some things out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.tagged import of_grid

_GONE = frozenset({"terminated", "shutting-down", "deleted", "deleting", "DELETING", "DELETED"})
_NOT_THERE = ("NotFound", "404", "NoSuchBucket", "ResourceNotFoundException", "LoadBalancerNotFound")


@dataclass(frozen=True, slots=True)
class Left:
    """Something that still exists."""

    kind: str
    id: str
    of: str = ""
    """What it belongs to, such as the file system of a backup."""

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.kind} {self.id}"


def left(cloud: Cloud, grid: str, expected: Collection[str]) -> list[Left]:
    """All that is billed of a grid, but what is expected to be there, by ID."""
    found = [each for look in _LOOKS for each in look(cloud, grid)]
    return [each for each in found if each.id not in expected and each.of not in expected]


def _instances(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("ec2", "describe_instances", "Reservations", Filters=of_grid(grid)):
        for instance in each["Instances"]:
            if instance["State"]["Name"] not in _GONE:
                yield Left("instance", instance["InstanceId"])


def _volumes(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("ec2", "describe_volumes", "Volumes", Filters=of_grid(grid)):
        if each["State"] not in _GONE:
            yield Left("volume", each["VolumeId"])


def _snapshots(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed(
        "ec2", "describe_snapshots", "Snapshots", Filters=of_grid(grid), OwnerIds=["self"]
    ):
        yield Left("snapshot", each["SnapshotId"], str(each.get("VolumeId", "")))


def _addresses(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("ec2", "describe_addresses", "Addresses", Filters=of_grid(grid)):
        yield Left("address", each.get("PublicIp", each["AllocationId"]))


def _nat_gateways(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("ec2", "describe_nat_gateways", "NatGateways", Filters=of_grid(grid)):
        # One of the site's, in its own network, must never be taken for the grid's.
        if each["State"] not in _GONE and _is_of(each, grid):
            yield Left("NAT gateway", each["NatGatewayId"])


def _file_systems(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("fsx", "describe_file_systems", "FileSystems"):
        if _is_of(each, grid) and each.get("Lifecycle") not in _GONE:
            yield Left("FSx file system", each["FileSystemId"])


def _backups(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in cloud.listed("fsx", "describe_backups", "Backups"):
        if _is_of(each, grid) and each.get("Lifecycle") not in _GONE:
            of = each.get("FileSystem", {}).get("FileSystemId", "")
            yield Left("FSx backup", each["BackupId"], of)


def _table(cloud: Cloud, grid: str) -> Iterator[Left]:
    name = f"gridwright-{grid}-claims"
    if is_there(cloud, "dynamodb", "describe_table", TableName=name):
        yield Left("table", name)


def _tagged(cloud: Cloud, grid: str) -> Iterator[Left]:
    """What is billed, and cannot be listed by tag at its own service: found by tag, then looked at."""
    chosen = [{"Key": GRID_TAG, "Values": [grid]}]
    for each in cloud.listed(
        "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", TagFilters=chosen
    ):
        arn = str(each["ResourceARN"])
        service = arn.split(":")[2]
        if service == "s3" and is_there(cloud, "s3", "head_bucket", Bucket=arn.rpartition(":")[2]):
            yield Left("bucket", arn.rpartition(":")[2])
        elif ":loadbalancer/" in arn and is_there(
            cloud, "elbv2", "describe_load_balancers", LoadBalancerArns=[arn]
        ):
            yield Left("load balancer", arn)
        elif service == "secretsmanager" and _secret_is_there(cloud, arn):
            yield Left("secret", arn)
        elif ":alarm:" in arn:
            name = arn.rpartition(":alarm:")[2]
            found = cloud.call("cloudwatch", "describe_alarms", AlarmNames=[name])
            if found.get("MetricAlarms"):
                yield Left("alarm", name)


def _secret_is_there(cloud: Cloud, arn: str) -> bool:
    try:
        return "DeletedDate" not in cloud.call("secretsmanager", "describe_secret", SecretId=arn)
    except CloudError as error:
        if _is_gone(error):
            return False
        raise


def is_there(cloud: Cloud, service: str, operation: str, **arguments: object) -> bool:
    """Whether a resource that an operation names is there."""
    try:
        cloud.call(service, operation, **arguments)
    except CloudError as error:
        if _is_gone(error):
            return False
        raise
    return True


def _is_gone(error: CloudError) -> bool:
    return any(each in error.code for each in _NOT_THERE)


def _is_of(resource: Mapping[str, Any], grid: str) -> bool:
    return any(each["Key"] == GRID_TAG and each["Value"] == grid for each in resource.get("Tags") or ())


_LOOKS: tuple[Callable[[Cloud, str], Iterator[Left]], ...] = (
    _instances,
    _volumes,
    _snapshots,
    _addresses,
    _nat_gateways,
    _file_systems,
    _backups,
    _table,
    _tagged,
)
