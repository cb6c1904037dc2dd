"""`down`: removes a grid from AWS, keeps what holds data unless it is named, and looks for what is left.

What `down` of a grid on AWS would do, and what it did; nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Problem, environment_error
from gridwright.filesystems.resources import Cost
from gridwright.providers.aws import rolling
from gridwright.providers.aws.changes import (
    deployed_spec,
    refuse_unknown,
    retained_costs,
    retained_file_systems,
    storage_body,
)
from gridwright.providers.aws.costs import retained_cost_lines, total
from gridwright.providers.aws.instances import described_instances
from gridwright.providers.aws.layout import AwsLayout, aws_layout
from gridwright.providers.aws.names import GRID_TAG, grid_stack, storage_stack
from gridwright.providers.aws.rolling import Retired
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.stacks import NEVER_MADE, Stack, Stacks, empty, of_grid, tags_of
from gridwright.providers.aws.storage_template import SITE_BUCKET, update_storage
from gridwright.providers.provider import Caller
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

# Finds what exists of a grid on AWS and is billed, in any stack or none: each service is asked by tag.
#
# The tagging service alone would not do: it lists what was deleted for some time, and leaves some things out.

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
    found = [each for look in (_of_ec2, _of_fsx, _table, _tagged) for each in look(cloud, grid)]
    return [each for each in found if each.id not in expected and each.of not in expected]


_OF_EC2: tuple[tuple[str, str, str, str, dict[str, object]], ...] = (
    ("volume", "describe_volumes", "Volumes", "VolumeId", {}),
    ("snapshot", "describe_snapshots", "Snapshots", "SnapshotId", {"OwnerIds": ["self"]}),
    ("address", "describe_addresses", "Addresses", "PublicIp", {}),
    ("NAT gateway", "describe_nat_gateways", "NatGateways", "NatGatewayId", {}),
)
"""What it is called, and how EC2 lists it: operation, key of the list, key of the ID, further arguments."""
_OF_FSX = (
    ("FSx file system", "describe_file_systems", "FileSystems", "FileSystemId"),
    ("FSx backup", "describe_backups", "Backups", "BackupId"),
)


def _of_ec2(cloud: Cloud, grid: str) -> Iterator[Left]:
    for each in described_instances(cloud, of_grid(grid)):
        if each["State"]["Name"] not in _GONE:
            yield Left("instance", each["InstanceId"])
    for kind, operation, key, name, more in _OF_EC2:
        for each in cloud.listed("ec2", operation, key, Filters=of_grid(grid), **more):
            # One of the site's, in its own network, must never be taken for the grid's.
            if each.get("State") not in _GONE and tags_of(each).get(GRID_TAG) == grid:
                of = str(each.get("VolumeId", ""))
                yield Left(kind, str(each.get(name) or each["AllocationId"]), of)


def _of_fsx(cloud: Cloud, grid: str) -> Iterator[Left]:
    for kind, operation, key, name in _OF_FSX:
        for each in cloud.listed("fsx", operation, key):
            if tags_of(each).get(GRID_TAG) == grid and each.get("Lifecycle") not in _GONE:
                yield Left(kind, each[name], each.get("FileSystem", {}).get("FileSystemId", ""))


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


# Persistent machines keep what lies on their disks: an update never takes one away by itself.


def persistent_machines(spec: GridSpec) -> dict[str, str]:
    """Names of machines beside the nodes that are never replaced, with their group."""
    return {
        name: group
        for group, machines in spec.machines.items()
        if not machines.replace
        for name in machines.machine_names(group)
    }


def lost_machines(deployed: GridSpec | None, desired: GridSpec, replace: frozenset[str]) -> Iterator[Problem]:
    """Those of the grid as it is deployed that the spec has no more; `replace` names groups that may go."""
    if deployed is None:
        return
    staying = persistent_machines(desired)
    gone = {name: group for name, group in persistent_machines(deployed).items() if name not in staying}
    for group in dict.fromkeys(gone.values()):
        if group in replace:
            continue
        names = [name for name, each in gone.items() if each == group]
        disks = "its disk" if len(names) == 1 else "their disks"
        what = f"{', '.join(names)} would go, with what lies on {disks}"
        place = ("machines", group, "count") if group in desired.machines else ("machines",)
        yield problem_at(
            desired,
            place,
            what,
            f"write it as it was; or save what is needed, and run gridwright up with --replace {group}",
        )


@dataclass(frozen=True, slots=True)
class DownPlan:
    """What `down` would remove, and what it would keep."""

    grid: str
    there: bool
    """Whether there is anything."""
    goes: tuple[str, ...]
    stays: tuple[str, ...]
    staying_usd_per_hour: float | None

    def question(self) -> Iterator[str]:
        """What is told before it is asked; nothing where there is nothing to ask."""
        if not self.goes:
            return
        yield f"gridwright down of grid {self.grid} removes:"
        yield from (f"  {each}" for each in self.goes)
        if self.stays:
            yield "and keeps:"
            yield from (f"  {each}" for each in self.stays)
            yield from retained_cost_lines(self.staying_usd_per_hour)


@dataclass(frozen=True, slots=True)
class AwsDown:
    """What `down` did."""

    grid: str
    region: str
    was_up: bool
    removed: tuple[str, ...]
    retained: tuple[str, ...]
    retained_usd_per_hour: float | None

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "was_up": self.was_up,
            "removed": list(self.removed),
            "kept": list(self.retained),
            "kept_usd_per_hour": self.retained_usd_per_hour if self.retained else 0.0,
            "left": [],
        }

    def text(self) -> str:
        """See Result."""
        return "\n".join(_lines(self))


def _lines(result: AwsDown) -> Iterator[str]:
    if not result.was_up:
        yield f"grid {result.grid} was not up: nothing of it is in {result.region}"
    elif not result.retained:
        yield f"grid {result.grid} is down: nothing of it is left in {result.region}"
    else:
        yield f"grid {result.grid} is down; kept, and billed:"
        yield from (f"  {each}" for each in result.retained)
        yield from retained_cost_lines(result.retained_usd_per_hour)
        yield "  gridwright down --delete-data NAME removes one with all its data"


@dataclass
class Going:
    """What exists of a grid, and what of it is to be removed."""

    stacks: Stacks
    spec: GridSpec
    """As it was deployed; as the file has it where nothing is deployed."""
    layout: AwsLayout
    storage: Stack | None
    grid: Stack | None
    retired: list[Retired]
    named: frozenset[str]
    """File systems whose data are to be deleted."""

    @property
    def holding(self) -> frozenset[str]:
        """File systems in the storage stack that hold data."""
        if self.storage is None or self.storage.unfinished:
            return frozenset()
        return retained_file_systems(self.spec, self.layout)

    @property
    def staying(self) -> frozenset[str]:
        """Those of them that stay."""
        return self.holding - self.named

    @property
    def old_staying(self) -> list[Retired]:
        """What was replaced before, and stays."""
        return [each for each in self.retired if each.filesystem not in self.named]

    @property
    def costs(self) -> tuple[Cost, ...]:
        """The bill of what stays in the stack."""
        return tuple(line for name in sorted(self.staying) for line in retained_costs(self.spec, name))

    @property
    def retained(self) -> tuple[str, ...]:
        """File systems, volumes and backups that stay, in words."""
        systems = [f"file system {name}, with all its data" for name in sorted(self.staying)]
        return (*systems, *(each.text for each in self.old_staying))

    @property
    def retained_usd_per_hour(self) -> float | None:
        """None where a price is not known; volumes and file systems that were replaced have none here."""
        return None if self.old_staying else total(self.costs)


def look(spec: GridSpec, delete_data: frozenset[str]) -> Going:
    """Find out what there is. Raises GridwrightError, also where a name of --delete-data is wrong."""
    cloud = Cloud(str(spec.region))
    stacks = Stacks(cloud, Caller())
    storage, grid = stacks.find(storage_stack(spec)), stacks.find(grid_stack(spec))
    deployed = None
    if storage is not None and storage.state != NEVER_MADE:
        deployed = deployed_spec(stacks.template(storage))
    of = deployed or spec
    stored = stacks.resources(storage) if storage is not None else {}
    old = rolling.retired(cloud, spec, stored.values())
    found = Going(stacks, of, aws_layout(of), storage, grid, old, delete_data)
    _check_names(spec, found, delete_data)
    return found


def _check_names(spec: GridSpec, found: Going, delete_data: frozenset[str]) -> None:
    known = found.holding | {each.filesystem for each in found.retired}
    # A second run, after an interrupted one, may name what is gone by now.
    known |= retained_file_systems(spec, aws_layout(spec))
    refuse_unknown(
        delete_data,
        known,
        "--delete-data",
        f"grid {spec.name} has no file system {{}} that holds data",
        f"file systems that hold data: {', '.join(sorted(known)) or 'none'}",
    )


def plan(found: Going) -> DownPlan:
    """What would go and what would stay, in words."""
    goes = []
    if found.grid is not None:
        count = len(found.layout.machines)
        keepers = ", ".join(persistent_machines(found.spec))
        disks = f", {keepers} WITH ALL THAT LIES ON THEIR DISKS" if keepers else ""
        goes.append(f"stack {found.grid.name}: {count} machines{disks}, and all else that runs")
    goes += [f"file system {name}, WITH ALL ITS DATA" for name in sorted(found.holding & found.named)]
    goes += [f"{each.text}, WITH ALL ITS DATA" for each in found.retired if each.filesystem in found.named]
    if found.storage is not None and not found.staying:
        network = "network" if found.layout.aws.vpc is None else "security groups"
        goes.append(f"stack {found.storage.name}: {network}, bucket of bundles, table of claims")
    there = bool(found.grid or found.storage or found.retired)
    return DownPlan(found.spec.name, there, tuple(goes), found.retained, found.retained_usd_per_hour)


def down(found: Going, caller: Caller) -> AwsDown:
    """Carry it out, and prove that nothing else is left. Raises GridwrightError."""
    found.stacks.caller = caller
    cloud, spec = found.stacks.cloud, found.spec
    going = plan(found)
    grid = found.stacks.settled(grid_stack(spec))
    if grid is not None:
        found.stacks.delete(grid)
    storage = found.stacks.settled(storage_stack(spec))
    if storage is not None:
        _storage(found, storage)
    for each in found.retired:
        if each.filesystem in found.named:
            found.stacks.caller.go_on()
            found.stacks.caller.say(f"deleting {each.text}")
            rolling.delete(cloud, each)
    _prove(found)
    return AwsDown(
        grid=spec.name,
        region=cloud.region,
        was_up=going.there,
        removed=going.goes,
        retained=going.stays,
        retained_usd_per_hour=going.staying_usd_per_hour,
    )


def _storage(found: Going, storage: Stack) -> None:
    """The storage stack as a whole, or the file systems that are named."""
    stacks, spec, layout = found.stacks, found.spec, found.layout
    named = found.holding & found.named
    if found.staying and not named:
        return
    if named and not storage.state.startswith("DELETE"):
        # AWS keeps what holds data until a template says that it may go.
        storage = update_storage(stacks, storage, storage_body(spec, layout, deletable=named), spec)
    if found.staying:
        update_storage(stacks, storage, storage_body(spec, layout, without=named), spec)
        slots = [machine.name for name in named for machine in layout.servers_of(name)]
        rolling.forget(stacks.cloud, spec, slots)
        return
    stacks.caller.go_on()
    bucket = stacks.resources(storage).get(SITE_BUCKET)
    if bucket and (count := _emptied(stacks.cloud, bucket)):
        stacks.caller.say(f"removed {count} versions of objects from bucket {bucket}")
    stacks.protect(storage, protected=False)
    stacks.delete(storage)


def _emptied(cloud: Cloud, bucket: str) -> int:
    if not is_there(cloud, "s3", "head_bucket", Bucket=bucket):
        return 0
    return empty(cloud, bucket)


def _prove(found: Going) -> None:
    cloud, spec = found.stacks.cloud, found.spec
    storage = found.stacks.find(storage_stack(spec))
    expected = set(found.stacks.resources(storage).values()) if storage is not None else set()
    expected |= {each.id for each in found.old_staying}
    if remaining := left(cloud, spec.name, expected):
        raise environment_error(
            f"left of grid {spec.name}, and maybe billed: " + "; ".join(each.text for each in remaining),
            where=f"AWS, {cloud.region}",
            remedy="run gridwright down again in some minutes; what is still there then, remove by hand",
        )
