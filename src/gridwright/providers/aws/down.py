"""`down`: removes a grid from AWS, keeps what holds data unless it is named, and looks for what is left.

What `down` of a grid on AWS would do, and what it did; nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.errors import GridwrightError, Problem, environment_error, nearest
from gridwright.providers.aws import leftovers, retired
from gridwright.providers.aws.bill import retained_costs, retained_file_systems
from gridwright.providers.aws.cost_lines import CostLine, retained_cost_lines, total
from gridwright.providers.aws.deployed_spec import deployed_spec
from gridwright.providers.aws.deployment import storage_body
from gridwright.providers.aws.layout import AwsLayout, aws_layout
from gridwright.providers.aws.names import grid_stack, storage_stack
from gridwright.providers.aws.persistent_machines import persistent_machines
from gridwright.providers.aws.retired import Retired
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.site_bucket import SITE_BUCKET
from gridwright.providers.aws.site_objects import empty
from gridwright.providers.aws.stack_failures import NEVER_MADE
from gridwright.providers.aws.stacks import Stack, Stacks
from gridwright.providers.aws.storage_update import update_storage
from gridwright.providers.caller import Caller
from gridwright.spec.model import GridSpec


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
    def costs(self) -> tuple[CostLine, ...]:
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
    old = retired.retired(cloud, spec, stored.values())
    found = Going(stacks, of, aws_layout(of), storage, grid, old, delete_data)
    _check_names(spec, found, delete_data)
    return found


def _check_names(spec: GridSpec, found: Going, delete_data: frozenset[str]) -> None:
    known = found.holding | {each.filesystem for each in found.retired}
    # A second run, after an interrupted one, may name what is gone by now.
    known |= retained_file_systems(spec, aws_layout(spec))
    problems = []
    for name in sorted(delete_data - known):
        near = nearest(name, known)
        names = ", ".join(sorted(known)) or "none"
        hint = f"did you mean {near}?" if near else f"file systems that hold data: {names}"
        problems.append(
            Problem(
                f"grid {spec.name} has no file system {name} that holds data", "--delete-data", None, hint
            )
        )
    if problems:
        raise GridwrightError(*problems)


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
            retired.delete(cloud, each)
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
        retired.forget(stacks.cloud, spec, slots)
        return
    stacks.caller.go_on()
    bucket = stacks.resources(storage).get(SITE_BUCKET)
    if bucket and (count := _emptied(stacks.cloud, bucket)):
        stacks.caller.say(f"removed {count} versions of objects from bucket {bucket}")
    stacks.protect(storage, protected=False)
    stacks.delete(storage)


def _emptied(cloud: Cloud, bucket: str) -> int:
    if not leftovers.is_there(cloud, "s3", "head_bucket", Bucket=bucket):
        return 0
    return empty(cloud, bucket)


def _prove(found: Going) -> None:
    cloud, spec = found.stacks.cloud, found.spec
    storage = found.stacks.find(storage_stack(spec))
    expected = set(found.stacks.resources(storage).values()) if storage is not None else set()
    expected |= {each.id for each in found.old_staying}
    if left := leftovers.left(cloud, spec.name, expected):
        raise environment_error(
            f"left of grid {spec.name}, and maybe billed: " + "; ".join(each.text for each in left),
            where=f"AWS, {cloud.region}",
            remedy="run gridwright down again in some minutes; what is still there then, remove by hand",
        )
