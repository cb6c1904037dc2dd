"""What other things in the account count against its quotas; a grid's own are left out by their tag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.catalog import Catalog
from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.preflight.quotas import Amounts, family
from gridwright.providers.aws.session import Cloud

GIB_PER_TIB = 2**10


@dataclass(frozen=True)
class AccountUsage:
    """What others use; each method raises CloudError."""

    cloud: Cloud
    catalog: Catalog
    grid: str
    zone: str
    _counted: dict[str, Amounts] = field(default_factory=dict)

    def of(self, kind: str) -> Amounts:
        """What counts against quotas of a kind, and of others that are counted with it: asked for once."""
        asked = kind.partition("-")[0]
        if asked not in self._counted:
            self._counted[asked] = getattr(self, f"_{asked}")()
        return self._counted[asked]

    def _others(self, service: str, operation: str, key: str, **arguments: object) -> Iterator[Any]:
        for each in self.cloud.listed(service, operation, key, **arguments):
            if not self._is_ours(each):
                yield each

    def _is_ours(self, resource: Mapping[str, Any]) -> bool:
        tags = {tag["Key"]: tag["Value"] for tag in resource.get("Tags") or ()}
        return tags.get(GRID_TAG) == self.grid

    def _vcpus(self) -> Amounts:
        """Instances on demand that run, by family: spot and capacity blocks have quotas of their own."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        for reservation in self.cloud.listed("ec2", "describe_instances", "Reservations", Filters=states):
            for each in reservation["Instances"]:
                if not self._is_ours(each) and not each.get("InstanceLifecycle"):
                    found["vcpus", family(each["InstanceType"])] += self._vcpus_of(each)
        return found

    def _vcpus_of(self, instance: Mapping[str, Any]) -> int:
        known = self.catalog.instances.get(instance["InstanceType"])
        if known is not None:
            # What the type has, also where fewer threads are switched on.
            return known.vcpus
        options = instance.get("CpuOptions") or {}
        return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))

    def _volumes(self) -> Amounts:
        found: dict[tuple[str, str], float] = defaultdict(float)
        for each in self._others("ec2", "describe_volumes", "Volumes"):
            found["volumes", each["VolumeType"]] += each["Size"] / GIB_PER_TIB
        return found

    def _fsx(self) -> Amounts:
        found: dict[tuple[str, str], float] = defaultdict(float)
        for each in self._others("fsx", "describe_file_systems", "FileSystems"):
            if each["FileSystemType"] == "LUSTRE":
                deployment = each.get("LustreConfiguration", {}).get("DeploymentType", "")
                found["fsx-capacity", deployment] += each["StorageCapacity"]
                found["fsx-count", deployment] += 1
        return found

    def _networks(self) -> Amounts:
        return {("networks", ""): sum(1 for _ in self._others("ec2", "describe_vpcs", "Vpcs"))}

    def _addresses(self) -> Amounts:
        return {("addresses", ""): sum(1 for _ in self._others("ec2", "describe_addresses", "Addresses"))}

    def _gateways(self) -> Amounts:
        here = [{"Name": "availability-zone", "Values": [self.zone]}]
        subnets = {
            each["SubnetId"] for each in self.cloud.listed("ec2", "describe_subnets", "Subnets", Filters=here)
        }
        states = [{"Name": "state", "Values": ["pending", "available"]}]
        found = self._others("ec2", "describe_nat_gateways", "NatGateways", Filters=states)
        return {("gateways", ""): sum(each.get("SubnetId") in subnets for each in found)}
