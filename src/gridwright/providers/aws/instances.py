"""`status`: shows the state of a grid on AWS, and what it has cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gridwright.filesystems.resources import Cost
from gridwright.providers.aws.costs import bill_lines, bill_values, total
from gridwright.providers.aws.images import GridImage
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.machine_files import BOOT
from gridwright.providers.aws.names import ROLE_TAG, claims_table, logical_id
from gridwright.providers.aws.roll.aws import ROW
from gridwright.providers.aws.roll.deciding import Standing as RollStanding
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.stacks import of_grid, tags_of
from gridwright.providers.boot.bundle import BootReport
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.terminal.frame import text_of
from gridwright.spec.model import GridSpec

# How a grid on AWS stands: plain values, and the tables that `status` prints; nothing here calls AWS.

Standing = Literal["up", "not-up", "stopped", "storage-only", "half-made"]
"""stopped: by `gridwright stop`, for a while; storage-only: file systems are kept, and there is no machine;
half-made: a stack is not whole."""


OFF = "powered-down"
"""State of a node that is off until its scheduler wants it on."""


@dataclass(frozen=True, slots=True)
class MachineStatus:
    """A machine of the layout, and the instance that is it."""

    name: str
    role: str
    type: str
    address: str
    instance: str | None
    state: str
    """EC2's state, or missing, or powered-down."""
    public_address: str | None = None
    set_up: str = ""
    """How far it has set itself up, in words; empty where it is not there."""
    powered: bool = False
    """Whether its scheduler has it on and off, or may have it, so that it is often just coming or going."""

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class Claim:
    """Which instance is a server or node, by the table of claims."""

    name: str
    owner: str | None
    volumes: tuple[str, ...]
    token: int


@dataclass(frozen=True, slots=True)
class FileSystemStatus:
    """A file system."""

    name: str
    type: str
    id: str | None
    state: str
    lacking: str | None
    """What is wrong with it; None where nothing is."""
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class StackStatus:
    """A stack; state is None where there is none."""

    name: str
    state: str | None
    reason: str | None
    remedy: str | None
    """What to do where it is not whole."""


class GroupRoll(RollStanding):
    """How far machines of a group are that were launched with other data than now, and are replaced.

    `group` is the tag Name of its Auto Scaling group, the rest is what the head node says.
    """

    @property
    def text(self) -> str:
        """In one line."""
        waits = f"; {'; '.join(self.waits)}" if self.waits else ""
        halted = f"; halted: {self.halted}" if self.halted else ""
        return f"{self.group}: {self.total - self.left} of {self.total} machines are replaced{halted}{waits}"


@dataclass(frozen=True, slots=True)
class AwsStatus:
    """A grid on AWS."""

    grid: str
    region: str
    state: Standing
    stacks: tuple[StackStatus, ...] = ()
    machines: tuple[MachineStatus, ...] = ()
    filesystems: tuple[FileSystemStatus, ...] = ()
    costs: tuple[Cost, ...] = ()
    """Of what is there now."""
    hours: float = 0.0
    """Since the grid stack was made."""
    usd_so_far: float | None = None
    expires: str | None = None
    expired: bool = False
    images: tuple[GridImage, ...] = ()
    """Those that the spec knows by a name."""
    kept: tuple[str, ...] = ()
    """What was replaced and is kept, and billed."""
    least_usd_per_hour: float | None = None
    """With the nodes alone that are always on; None where all are."""
    rolling: tuple[GroupRoll, ...] = ()
    """Groups whose machines are being replaced."""

    @property
    def whole(self) -> bool:
        """Whether everything is there and well."""
        return (
            self.state in ("up", "stopped", "storage-only")
            and all(each.remedy is None for each in self.stacks)
            and not any(_machine_lacks(self, each) for each in self.machines)
            and all(each.lacking is None for each in self.filesystems)
            and not any(each.halted for each in self.rolling)
        )

    @property
    def usd_per_hour(self) -> float | None:
        """The sum of the lines; None where a price is missing."""
        return total(self.costs)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {"whole": self.whole, **asdict(self), "costs": bill_values(self.costs)}

    def text(self) -> str:
        """Tables of stacks, machines, file systems and costs, then all that is lacking."""
        parts = _status_parts(self)
        return "".join(f"{each}\n" if isinstance(each, str) else text_of(each) for each in parts)


def _machine_lacks(status: AwsStatus, machine: MachineStatus) -> bool:
    """Whether a machine is not as it should be: set up, or away where the grid is stopped."""
    if status.state == "stopped":
        return machine.state not in ("stopped", "missing", OFF)
    if machine.powered:
        return machine.set_up.startswith("failed")
    return not machine.running or machine.set_up != "done"


_STANDING = {
    "up": "is up",
    "stopped": "is stopped",
    "not-up": "is not up",
    "storage-only": "has its file systems, and no machine",
    "half-made": "is not whole",
}


def _status_parts(status: AwsStatus) -> Iterator[str | Table]:
    yield f"grid {status.grid} {_STANDING[status.state]} in {status.region}"
    yield from (f"kept, and billed: {each}" for each in status.kept)
    if status.state == "not-up":
        return
    stacks = ((stack.name, stack.state or "not there") for stack in status.stacks)
    yield rows_table("Stacks", columns_of(["stack", "state"]), stacks)
    if status.machines:
        yield _machines(status)
    yield from (f"image of {each.text}" for each in status.images)
    if status.filesystems:
        columns = columns_of(["name", "type", "id", "state", "servers"])
        rows = (
            (
                each.name,
                each.type,
                each.id or "",
                each.state,
                ", ".join(f"{one.name} {one.owner or '-'}" for one in each.claims),
            )
            for each in status.filesystems
        )
        yield rows_table("File systems", columns, rows)
    if status.costs:
        bill = (
            (line.what, "?" if line.usd_per_hour is None else f"{line.usd_per_hour:.4f}")
            for line in status.costs
        )
        yield rows_table("Costs", columns_of(["what"], ["USD/h"]), bill)
    yield from bill_lines(status.costs, least=status.least_usd_per_hour)
    if status.usd_so_far is not None:
        so_far = f"So far {status.usd_so_far:.2f} USD, by list prices, in {status.hours:.1f} h"
        yield f"{so_far}; less where it was stopped meanwhile"
    yield from _lacking(status)


def _machines(status: AwsStatus) -> Table:
    columns = columns_of(["machine", "role", "type", "address", "instance", "state", "setup"])
    rows = []
    for each in status.machines:
        address = f"{each.address} ({each.public_address})" if each.public_address else each.address
        row = (each.name, each.role, each.type, address, each.instance or "", each.state, each.set_up)
        rows.append(row)
    return rows_table("Machines", columns, rows)


def _lacking(status: AwsStatus) -> Iterator[str]:
    for stack in status.stacks:
        if stack.remedy is not None:
            yield f"{stack.name} is in {stack.state}: {stack.reason or 'AWS names no reason'}"
            yield f"  {stack.remedy}"
    for machine in status.machines:
        if not _machine_lacks(status, machine):
            continue
        if status.state == "stopped":
            yield f"{machine.name}: still {machine.state}; run gridwright stop again to go on"
        elif not machine.running:
            yield f"{machine.name}: {machine.state}"
        else:
            yield f"{machine.name}: setting itself up: {machine.set_up}"
    for filesystem in status.filesystems:
        if filesystem.lacking is not None:
            yield f"file system {filesystem.name}: {filesystem.lacking}"
    yield from (each.text for each in status.rolling)
    if status.expired:
        yield (
            f"warning: the grid was needed until {status.expires}: take it down, or write a later aws.expires"
        )


# Which instance is which machine of the layout: by the stack's resources, and by the table of claims.

GONE = ("terminated", "shutting-down")
"""States of an instance that never runs again."""
_OF_ROLE = {Role.LOGIN: "Login", Role.HEAD: "Head"}


def rows(cloud: Cloud, spec: GridSpec) -> list[Mapping[str, Any]]:
    """All of the table of claims, as DynamoDB has it; empty where there is no table."""
    try:
        return list(cloud.listed("dynamodb", "scan", "Items", TableName=claims_table(spec)))
    except CloudError as error:
        if error.code == "ResourceNotFoundException":
            return []
        raise


def claims(items: Iterable[Mapping[str, Any]]) -> dict[str, Claim]:
    """The claims among the rows of the table, by machine."""
    found = {}
    for item in items:
        name = item["slot"]["S"]
        if name.startswith(BOOT) or name == ROW:
            continue
        volumes = item.get("volumes", {}).get("M", {})
        owner = item.get("owner", {}).get("S")
        found[name] = Claim(name, owner, tuple(sorted(volumes)), int(item.get("token", {}).get("N", 0)))
    return found


def described_instances(cloud: Cloud, filters: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Instances as EC2 describes them, also those that are gone. Raises CloudError."""
    for each in cloud.listed("ec2", "describe_instances", "Reservations", Filters=filters):
        yield from each["Instances"]


def instances(cloud: Cloud, spec: GridSpec) -> dict[str, Mapping[str, Any]]:
    """Instances of a grid that are not gone, by ID."""
    found = described_instances(cloud, of_grid(spec.name))
    return {each["InstanceId"]: each for each in found if each["State"]["Name"] not in GONE}


def machines(
    layout: AwsLayout,
    found: Mapping[str, Mapping[str, Any]],
    resources: Mapping[str, str],
    claimed: Mapping[str, Claim],
    boots: Mapping[str, BootReport],
) -> tuple[MachineStatus, ...]:
    """Every machine of a grid in the order of the layout, then instances that are none of them yet."""
    owners = {each.name: _instance_of(each, resources, claimed) for each in layout.machines}
    powers = any(each.powered for each in layout.machines)
    return (
        *_of_layout(layout, found, owners, boots),
        *_unclaimed(found, set(owners.values()), boots, powers=powers),
    )


def _of_layout(
    layout: AwsLayout,
    found: Mapping[str, Mapping[str, Any]],
    owners: Mapping[str, str | None],
    boots: Mapping[str, BootReport],
) -> Iterator[MachineStatus]:
    for machine in layout.machines:
        owner = owners[machine.name]
        instance = found.get(owner or "")
        yield MachineStatus(
            name=machine.name,
            role=machine.role.value,
            type=str(instance["InstanceType"]) if instance else machine.instance,
            address=str(machine.address),
            instance=owner if instance else None,
            state=str(instance["State"]["Name"]) if instance else OFF if machine.powered else "missing",
            public_address=instance.get("PublicIpAddress") if instance else None,
            set_up=_set_up(boots.get(owner or "")) if instance else "",
            powered=machine.powered,
        )


def _unclaimed(
    found: Mapping[str, Mapping[str, Any]],
    known: set[str | None],
    boots: Mapping[str, BootReport],
    *,
    powers: bool,
) -> Iterator[MachineStatus]:
    for name, instance in found.items():
        if name not in known:
            state = str(instance["State"]["Name"])
            yield MachineStatus(
                name="(no name yet)",
                role=tags_of(instance).get(ROLE_TAG, ""),
                type=str(instance["InstanceType"]),
                address=str(instance.get("PrivateIpAddress", "")),
                instance=name,
                state="booting" if state == "running" else state,
                set_up=_set_up(boots.get(name)),
                powered=powers and tags_of(instance).get(ROLE_TAG) == Role.COMPUTE,
            )


def _set_up(report: BootReport | None) -> str:
    return report.text if report else "nothing told yet"


def _instance_of(machine: Machine, resources: Mapping[str, str], claimed: Mapping[str, Claim]) -> str | None:
    if machine.replaced:
        claim = claimed.get(machine.name)
        return claim.owner if claim else None
    return resources.get(_OF_ROLE.get(machine.role) or logical_id(machine.name))
