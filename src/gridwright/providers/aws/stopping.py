"""`stop` and `start`: takes the machines of a grid on AWS off the bill for a while, and brings them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.providers.aws.bill import bill, least_usd_per_hour, stopped_bill
from gridwright.providers.aws.deployed_spec import deployed_spec
from gridwright.providers.aws.grid_template import groups_of
from gridwright.providers.aws.head import is_here
from gridwright.providers.aws.instances import instances
from gridwright.providers.aws.launching import machine_id
from gridwright.providers.aws.layout import AwsLayout, Machine, Role, aws_layout
from gridwright.providers.aws.machines_ready import MachinesReady
from gridwright.providers.aws.names import ROLE_TAG, grid_stack, storage_stack
from gridwright.providers.aws.running import ALL, NONE, PARAMETER, SERVERS
from gridwright.providers.aws.scale_in import unprotect
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.site_bucket import SITE_BUCKET
from gridwright.providers.aws.stack_failures import failure_of
from gridwright.providers.aws.stacks import Stack, Stacks
from gridwright.providers.aws.stopping_result import AwsStarted, AwsStopped
from gridwright.providers.aws.tagged import tags_of
from gridwright.providers.aws.user_data import part_of
from gridwright.providers.boot.bundle import Part, pointer
from gridwright.providers.caller import Caller
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE

POLL_S = 5.0
LONGEST_STOP_S = 1800.0
"""So long machines may take to stop."""
_STOPPING = ("stopping", "stopped")


@dataclass
class Deployed:
    """A grid as it is deployed."""

    stacks: Stacks
    spec: GridSpec
    layout: AwsLayout
    grid: Stack
    bucket: str

    @property
    def cloud(self) -> Cloud:
        """How AWS is asked."""
        return self.stacks.cloud

    @property
    def running(self) -> str:
        """What its parameter says. Raises GridwrightError where its release had none."""
        if PARAMETER not in self.grid.parameters:
            raise environment_error(
                f"grid {self.spec.name} was made by a release that could not stop it",
                remedy="run gridwright up once, then gridwright stop",
            )
        return self.grid.parameters[PARAMETER]

    def set_running(self, desired: str) -> None:
        """Set its groups to a size, and wait until AWS has taken that over."""
        if self.running != desired:
            self.grid = self.stacks.set_parameter(self.grid, PARAMETER, desired)


def is_stopped(grid: Stack | None) -> bool:
    """Whether a grid's machines were stopped, or some of them by a `stop` that was interrupted."""
    return grid is not None and grid.parameters.get(PARAMETER, ALL) != ALL


def deployed(spec: GridSpec, caller: Caller) -> Deployed:
    """The grid of a spec as it is deployed. Raises GridwrightError where it is not up, or not whole."""
    stacks = Stacks(Cloud(str(spec.region)), caller)
    storage, grid = stacks.settled(storage_stack(spec)), stacks.settled(grid_stack(spec))
    if storage is None or grid is None:
        raise environment_error(
            f"grid {spec.name} is not up",
            where=str(spec.file) if spec.file else None,
            remedy=f"run gridwright up {spec.file or 'FILE'}",
        )
    if not grid.whole:
        raise failure_of(grid.name, grid.state, stacks.failure(grid) or grid.reason, stacks.cloud.region)
    known = deployed_spec(stacks.template(storage)) or spec
    return Deployed(stacks, known, aws_layout(known), grid, stacks.resources(storage)[SITE_BUCKET])


def stop(spec: GridSpec, caller: Caller) -> AwsStopped:
    """Stop every machine of a grid; what holds data stays. Raises GridwrightError.

    Machines with addresses of their own first, the head node with its scheduler among them: no job begins on
    a node that goes. Servers of file systems last, when nobody has these mounted any more.
    """
    found = deployed(spec, caller)
    refuse_lost_targets(found.spec)
    if is_here(found.layout):
        raise input_error(
            f"this machine is one of grid {found.spec.name}, and would stop before the others",
            remedy="run gridwright stop where gridwright up was run",
        )
    already = found.running == NONE
    _unprotect(found)
    _stop_fixed(found, [each for each in found.layout.machines if not each.pair])
    if found.running == ALL and any(machine.role.serves_files for machine in found.layout.machines):
        found.set_running(SERVERS)
        _until_gone(found, {str(Role.COMPUTE), str(Role.MACHINE)})
    _stop_fixed(found, [each for each in found.layout.machines if each.pair])
    found.set_running(NONE)
    _until_gone(found, {str(role) for role in Role})
    return AwsStopped(
        grid=found.spec.name,
        region=found.cloud.region,
        changed=not already,
        machines=len(found.layout.machines),
        costs_before=bill(found.spec, found.layout, running=True),
        costs=stopped_bill(found.spec, found.layout),
        emptied=tuple(emptied(found.spec, found.layout)),
        file=caller.file,
        least_before=least_usd_per_hour(found.spec),
    )


def start(spec: GridSpec, caller: Caller) -> AwsStarted:
    """Start the machines of a grid that was stopped, as it was deployed, and wait until they are set up.

    Raises GridwrightError.
    """
    begun = time.monotonic()
    found = deployed(spec, caller)
    already = found.running == ALL
    # Who stopped a single machine by hand meant that one: a grid that runs is left as it is.
    if not already:
        start_fixed(found.stacks, found.spec, found.layout, found.grid)
        found.set_running(ALL)
    bundles = {part_of(machine.role): "" for machine in found.layout.machines}
    current = {part: _bundle(found, part) for part in bundles}
    MachinesReady(found.cloud, caller, found.spec, found.layout, current, found.bucket).wait()
    return AwsStarted(
        grid=found.spec.name,
        region=found.cloud.region,
        changed=not already,
        machines=len(found.layout.machines),
        costs=bill(found.spec, found.layout, running=True),
        seconds=time.monotonic() - begun,
        file=caller.file,
    )


def _unprotect(found: Deployed) -> None:
    """What an `up` protected that was killed while a group became smaller would be left running."""
    physical = found.stacks.resources(found.grid)
    for title in groups_of(found.layout):
        if title in physical:
            unprotect(found.cloud, physical[title])


def start_fixed(stacks: Stacks, spec: GridSpec, layout: AwsLayout, grid: Stack) -> None:
    """Start the machines that no group replaces and that are stopped."""
    names = _fixed(stacks, layout.machines, grid)
    there = instances(stacks.cloud, spec)
    stopped = [each for each in names if _state(there.get(each)) in _STOPPING]
    if not stopped:
        return
    # EC2 starts nothing that is on its way down.
    _until(stacks, spec, lambda now: [each for each in stopped if _state(now.get(each)) == "stopping"])
    stacks.caller.say(f"{', '.join(names[each] for each in stopped)}: starting")
    stacks.cloud.call("ec2", "start_instances", InstanceIds=stopped)


def _fixed(stacks: Stacks, machines: Iterable[Machine], grid: Stack) -> dict[str, str]:
    """Names, by instance, of machines that no group replaces: those are stopped, and keep their disks."""
    resources = stacks.resources(grid)
    fixed = {resources.get(machine_id(each)): each.name for each in machines if not each.replaced}
    return {instance: name for instance, name in fixed.items() if instance}


def _stop_fixed(found: Deployed, machines: Sequence[Machine]) -> None:
    names = _fixed(found.stacks, machines, found.grid)
    there = instances(found.cloud, found.spec)
    running = [each for each in names if each in there and _state(there[each]) not in _STOPPING]
    if running:
        found.stacks.caller.say(f"{', '.join(names[each] for each in running)}: stopping")
        found.cloud.call("ec2", "stop_instances", InstanceIds=running)
    _until(
        found.stacks,
        found.spec,
        lambda now: [names[each] for each in names if _state(now.get(each)) not in ("stopped", "")],
    )


def _until_gone(found: Deployed, roles: set[str]) -> None:
    """Wait until no machine of a group runs that has one of these roles."""

    def there(now: Mapping[str, Mapping[str, Any]]) -> list[str]:
        running = (name for name, each in now.items() if tags_of(each).get(ROLE_TAG) in roles)
        return [name for name in running if _state(now[name]) != "stopped"]

    _until(found.stacks, found.spec, there)


def _until(
    stacks: Stacks, spec: GridSpec, waiting: Callable[[Mapping[str, Mapping[str, Any]]], list[str]]
) -> None:
    """Look at the machines until none is waited for. Raises GridwrightError after LONGEST_STOP_S."""
    deadline = time.monotonic() + LONGEST_STOP_S
    while left := waiting(instances(stacks.cloud, spec)):
        if time.monotonic() > deadline:
            raise environment_error(
                f"{', '.join(left[:8])}: still not stopped after {LONGEST_STOP_S / 60:.0f} min",
                where=f"grid {spec.name}, AWS, {stacks.cloud.region}",
                remedy="look at them in the console; run the same command again to go on",
            )
        if stacks.caller.stop.wait(POLL_S):
            stacks.caller.say("AWS goes on; gridwright stop --now, or gridwright start, goes on from there")
            stacks.caller.go_on()


def _state(instance: Mapping[str, Any] | None) -> str:
    """The state that EC2 says; empty where there is no such machine."""
    return str(instance["State"]["Name"]) if instance else ""


def _bundle(found: Deployed, part: Part) -> str:
    answer = found.cloud.call("s3", "get_object", Bucket=found.bucket, Key=pointer(part))
    return str(answer["Body"].read().decode().strip())


def refuse_lost_targets(spec: GridSpec) -> None:
    """Raise GridwrightError for a file system whose data are on disks that are gone when its servers stop."""
    problems = [
        problem_at(
            spec,
            ("filesystems", name),
            f"the data of {name} are on disks inside its servers, and lost when these stop",
            "leave the grid running; or copy what is needed and take it down with gridwright down",
        )
        for name, filesystem in spec.filesystems.items()
        if filesystem.is_built
        and any(
            group.disks is not None and group.disks.type == INSTANCE_STORE
            for group in filesystem.server_groups.values()
        )
    ]
    if problems:
        raise GridwrightError(*problems)


def emptied(spec: GridSpec, layout: AwsLayout) -> Iterator[str]:
    """File systems on disks of nodes, which are empty after the next start."""
    replaced = any(each.replaced for each in layout.of_role(Role.COMPUTE))
    for name, group in spec.machines.items():
        if group.replace:
            yield f"machines {name}"
    for name, filesystem in spec.filesystems.items():
        disks = filesystem.node_disks
        if disks is not None and (replaced or disks.type == INSTANCE_STORE):
            yield name
