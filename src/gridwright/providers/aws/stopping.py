"""How a grid on AWS stands, and `stop` and `start`: takes its machines off the bill for a while."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.errors import GridwrightError, Problem, environment_error, input_error
from gridwright.filesystems.resources import Cost
from gridwright.providers.aws import rolling
from gridwright.providers.aws.changes import bill, deployed_spec, least_usd_per_hour, stopped_bill
from gridwright.providers.aws.costs import bill_lines, bill_values, total
from gridwright.providers.aws.grid_template import groups_of
from gridwright.providers.aws.images import deployed_images
from gridwright.providers.aws.instances import (
    AwsStatus,
    Claim,
    FileSystemStatus,
    MachineStatus,
    StackStatus,
    Standing,
    claims,
    instances,
    machines,
    rows,
)
from gridwright.providers.aws.launching import ALL, NONE, PARAMETER, SERVERS, machine_id
from gridwright.providers.aws.layout import (
    LOGIN,
    AwsLayout,
    Machine,
    Role,
    aws_layout,
    fsx_file_systems,
    login_user,
)
from gridwright.providers.aws.machine_files import boot_reports, part_of, roller
from gridwright.providers.aws.names import ROLE_TAG, grid_stack, logical_id, storage_stack
from gridwright.providers.aws.rolling import MachinesReady, group_rolls
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.session import Cloud, reason_remedy
from gridwright.providers.aws.stacks import Stack, Stacks, failure_of, state_remedy, tags_of
from gridwright.providers.aws.storage_template import SITE_BUCKET
from gridwright.providers.boot.bundle import Part, pointer
from gridwright.providers.cloud import host_keys, is_one_of, not_up
from gridwright.providers.provider import Caller
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

_WELL = "AVAILABLE"
_WORKING = "UPDATING"
_SECONDS_PER_HOUR = 3600.0


def status(spec: GridSpec) -> AwsStatus:
    """Look how the grid stands; nothing is changed. Raises GridwrightError."""
    cloud = Cloud(str(spec.region))
    stacks = Stacks(cloud, Caller())
    storage, grid = stacks.find(storage_stack(spec)), stacks.find(grid_stack(spec))
    resources = stacks.resources(storage) if storage is not None else {}
    kept = tuple(each.text for each in rolling.retired(cloud, spec, resources.values()))
    seen = tuple(
        _stack(stacks, name, stack)
        for name, stack in ((storage_stack(spec), storage), (grid_stack(spec), grid))
    )
    if storage is None:
        return AwsStatus(spec.name, cloud.region, "not-up", seen, kept=kept)
    # What stands is what was deployed, whatever the file says by now.
    deployed = deployed_spec(stacks.template(storage)) or spec
    layout = aws_layout(deployed)
    told = rows(cloud, deployed)
    claimed = claims(told)
    found: tuple[MachineStatus, ...] = ()
    if grid is not None:
        found = machines(
            layout, instances(cloud, deployed), stacks.resources(grid), claimed, boot_reports(told)
        )
    stopped = is_stopped(grid)
    rolls = grid is not None and not stopped and roller(layout) is not None
    costs = stopped_bill(deployed, layout) if stopped else bill(deployed, layout, running=grid is not None)
    hours = _hours(grid or storage)
    hourly = total(costs)
    return AwsStatus(
        grid=spec.name,
        region=cloud.region,
        state=_standing(storage, grid),
        stacks=seen,
        machines=found,
        filesystems=tuple(
            _filesystems(cloud, deployed, layout, resources, claimed, found, grid is not None and not stopped)
        ),
        costs=costs,
        hours=hours,
        # What it cost before it was stopped, or how many nodes were on, is not known here.
        usd_so_far=None if hourly is None or stopped or deployed.powered_nodes() else hourly * hours,
        least_usd_per_hour=None if stopped or grid is None else least_usd_per_hour(deployed),
        images=() if grid is None else deployed_images(cloud, deployed, layout, grid.parameters),
        expires=aws.expires if (aws := deployed.section(Aws)) else None,
        expired=_expired(deployed),
        kept=kept,
        rolling=tuple(
            each for each in (group_rolls(cloud, deployed, layout, told) if rolls else ()) if each.left
        ),
    )


def _stack(stacks: Stacks, name: str, stack: Stack | None) -> StackStatus:
    if stack is None:
        return StackStatus(name, None, None, None)
    if stack.whole:
        return StackStatus(name, stack.state, None, None)
    reason = stacks.failure(stack) or stack.reason or None
    remedy = "; ".join(filter(None, (reason_remedy(reason or ""), state_remedy(name, stack.state))))
    return StackStatus(name, stack.state, reason, remedy)


def _standing(storage: Stack, grid: Stack | None) -> Standing:
    if not storage.whole or (grid is not None and not grid.whole):
        return "half-made"
    if is_stopped(grid):
        return "stopped"
    return "storage-only" if grid is None else "up"


def _hours(stack: Stack) -> float:
    now = datetime.datetime.now(datetime.UTC)
    made = stack.created if stack.created.tzinfo else stack.created.replace(tzinfo=datetime.UTC)
    return max(0.0, (now - made).total_seconds() / _SECONDS_PER_HOUR)


def _expired(spec: GridSpec) -> bool:
    aws = spec.section(Aws)
    if aws is None or aws.expires is None:
        return False
    return datetime.date.fromisoformat(aws.expires) < datetime.datetime.now(datetime.UTC).date()


def _filesystems(
    cloud: Cloud,
    spec: GridSpec,
    layout: AwsLayout,
    resources: Mapping[str, str],
    claimed: Mapping[str, Claim],
    found: tuple[MachineStatus, ...],
    running: bool,
) -> Iterator[FileSystemStatus]:
    running_ids = {each.instance for each in found if each.running}
    managed = fsx_file_systems(spec)
    systems = {}
    if managed:
        systems = {
            each["FileSystemId"]: each for each in cloud.listed("fsx", "describe_file_systems", "FileSystems")
        }
    for name, filesystem in spec.filesystems.items():
        if name in managed:
            identifier = resources.get(logical_id(name))
            yield _fsx(name, filesystem.type, identifier, systems.get(identifier or ""))
        elif pairs := layout.pairs_of(name):
            stands = {each.name: each for each in found}
            yield _pairs(
                name,
                filesystem.type,
                [stands[each.name] for each in pairs if each.name in stands] if running else None,
            )
        elif servers := layout.servers_of(name):
            yield _lustre(
                name,
                filesystem.type,
                {each.name: claimed.get(each.name) for each in servers},
                {each.name: len(each.targets) for each in servers},
                running_ids if running else None,
            )


def _fsx(
    name: str, kind: str, identifier: str | None, found: Mapping[str, object] | None
) -> FileSystemStatus:
    if found is None:
        return FileSystemStatus(name, kind, identifier, "missing", "AWS has no such file system")
    state = str(found.get("Lifecycle") or _WELL)
    lacking = None
    if state not in (_WELL, _WORKING):
        details = found.get("FailureDetails")
        why = details.get("Message") if isinstance(details, Mapping) else None
        lacking = f"it is {state}" + (f": {why}" if why else "")
    return FileSystemStatus(name, kind, identifier, state, lacking)


def _pairs(name: str, kind: str, servers: list[MachineStatus] | None) -> FileSystemStatus:
    """Of servers in pairs EC2 knows which run; whether they serve, `gridwright doctor` asks themselves."""
    if servers is None:
        return FileSystemStatus(name, kind, None, "kept", None)
    lacking = [
        f"{each.name} is {each.state}" + (", gridwright up makes it anew" if each.instance is None else "")
        for each in servers
        if not each.running
    ]
    return FileSystemStatus(
        name, kind, None, "incomplete" if lacking else "running", "; ".join(lacking) or None
    )


def _lustre(
    name: str,
    kind: str,
    claimed: Mapping[str, Claim | None],
    targets: Mapping[str, int],
    running: set[str | None] | None,
) -> FileSystemStatus:
    known = tuple(each for each in claimed.values() if each is not None)
    if running is None:
        return FileSystemStatus(name, kind, None, "kept", None, known)
    lacking = []
    for server, claim in claimed.items():
        if claim is None or claim.owner is None:
            lacking.append(f"{server} has claimed nothing yet")
        elif claim.owner not in running:
            lacking.append(f"{server} was {claim.owner}, which does not run; its successor takes over")
        elif len(claim.volumes) < targets[server]:
            lacking.append(f"{server} has {len(claim.volumes)} of its {targets[server]} volumes")
    state = "incomplete" if lacking else "claimed"
    return FileSystemStatus(name, kind, None, state, "; ".join(lacking) or None, known)


# The head node of the grid, as it is reached from anywhere.

LOGIN_ADDRESS = "LoginPublicAddress"
"""Output of the grid stack; a network behind a proxy has none."""


def aws_head(spec: GridSpec) -> HeadNode:
    """The head node of a grid: this machine where it is one of the grid's, else ssh through the login node.

    Raises GridwrightError: INPUT where the grid cannot be built as it is written, ENVIRONMENT where it is not
    up or AWS does not tell.
    """
    layout = aws_layout(spec)
    if is_one_of(layout.addresses.items()):
        return LocalHeadNode()
    stack = Stacks(Cloud(str(spec.region)), Caller()).find(grid_stack(spec))
    if stack is None or not stack.whole:
        raise not_up(spec)
    login = stack.outputs.get(LOGIN_ADDRESS) or layout.addresses[LOGIN]
    # Without a key pair the site has made accounts, and ssh knows whose is to be taken.
    user = login_user(layout.aws)
    controllers = layout.of_role(Role.HEAD)
    keys = host_keys(spec, f"{stack.id} {stack.updated}")
    if not controllers:
        return SshHead(LOGIN, login, user=user, keys=keys)
    head = controllers[0].name
    return SshHead(head, head, through=login, user=user, keys=keys)


# Nodes that leave a grid whose spec names fewer: those whose names go, and no others.
#
# Auto Scaling chooses by itself which machines of a group that shrinks end. So those that stay are protected
# from that while the group is made smaller, and what leaves is gone before its interface is removed.

AT_ONCE = 50
"""Instances of one call (Amazon EC2 Auto Scaling API Reference, SetInstanceProtection)."""
LONGEST_S = 1800.0
"""So long machines may take to stop, or to end."""
POLL_S = 5.0


def scaled_in_nodes(deployed: AwsLayout, desired: AwsLayout) -> dict[str, tuple[Machine, ...]]:
    """Nodes of the grid as it is deployed that the spec has no more, by group."""
    stay = {each.name for each in desired.machines}
    gone = [each for each in deployed.of_role(Role.COMPUTE) if each.name not in stay]
    return {name: tuple(found) for name, found in itertools.groupby(gone, lambda each: each.group)}


def unnamed(
    spec: GridSpec, gone: Mapping[str, Sequence[Machine]], replace: Collection[str]
) -> Iterator[Problem]:
    """Nodes that would go with the jobs on them, unless --replace names their group."""
    for group, each_gone in gone.items():
        if group in replace:
            continue
        nodes = fold_hosts([each.name for each in each_gone])
        drain = f"scontrol update NodeName={nodes} State=DRAIN Reason=leaves"
        yield problem_at(
            spec,
            ("nodes", group, "count") if group in spec.nodes else ("nodes",),
            f"{nodes} would go, with the jobs on them and what lies on their disks",
            f"drain them first, on the head node: {drain}; when sinfo says drained, run gridwright up with "
            f"--replace {group}; or write it as it was",
        )


@dataclass(frozen=True)
class Shrinking:
    """Groups that become smaller: `deployed` is the grid as it is, `physical` the resources of its stack."""

    cloud: Cloud
    caller: Caller
    spec: GridSpec
    deployed: AwsLayout
    wanted: AwsLayout
    physical: Mapping[str, str]

    def let_go(self) -> None:
        """End machines whose names go, of groups that others stay in. Raises GridwrightError."""
        sizes = {title: len(each) for title, each in groups_of(self.wanted).items()}
        stay = {each.name for each in self.wanted.machines}
        for title, deployed in groups_of(self.deployed).items():
            gone = [each.name for each in deployed if each.name not in stay]
            if gone and title in sizes and title in self.physical:
                kept = {each.name for each in deployed} - {*gone}
                self._shrink(self.physical[title], sizes[title], gone, kept)

    def _shrink(self, group: str, size: int, gone: list[str], stay: Collection[str]) -> None:
        owners = {name: each.owner for name, each in claims(rows(self.cloud, self.spec)).items()}
        kept = {owner for name, owner in owners.items() if name in stay and owner}
        self._protect(group, kept)
        try:
            found = _described(self.cloud, group)
            self.cloud.call(
                "autoscaling",
                "update_auto_scaling_group",
                AutoScalingGroupName=group,
                MinSize=min(found["MinSize"], size),
                DesiredCapacity=min(found["DesiredCapacity"], size),
                MaxSize=size,
            )
            self.caller.say(f"{fold_hosts(gone)}: ending")
            leaving = {owners[name] for name in gone if owners.get(name)}
            names = [fold_hosts(gone)]
            _until(
                self.cloud, self.caller, self.spec, lambda now: names if leaving & now.keys() else [],
                done="ended", again="gridwright up goes on from there",
            )  # fmt: skip
        finally:
            unprotect(self.cloud, group)

    def _protect(self, group: str, kept: Collection[str]) -> None:
        there = {each["InstanceId"] for each in _described(self.cloud, group)["Instances"]}
        _set_protection(self.cloud, group, sorted(there & {*kept}), protected=True)


def _described(cloud: Cloud, group: str) -> dict[str, Any]:
    """An Auto Scaling group as AWS describes it."""
    found = cloud.call("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[group])
    return dict(found["AutoScalingGroups"][0])


def unprotect(cloud: Cloud, group: str) -> None:
    """Let a group end any of its machines again, as `stop` and a replacement have it."""
    kept = [
        each["InstanceId"]
        for each in _described(cloud, group)["Instances"]
        if each.get("ProtectedFromScaleIn")
    ]
    _set_protection(cloud, group, kept, protected=False)


def _set_protection(cloud: Cloud, group: str, found: Sequence[str], *, protected: bool) -> None:
    for start in range(0, len(found), AT_ONCE):
        cloud.call(
            "autoscaling",
            "set_instance_protection",
            AutoScalingGroupName=group,
            InstanceIds=list(found[start : start + AT_ONCE]),
            ProtectedFromScaleIn=protected,
        )


# What `stop` and `start` of a grid on AWS did, and what that saves; nothing here calls AWS.


@dataclass(frozen=True, slots=True)
class AwsStopped:
    """What `stop` did."""

    grid: str
    region: str
    changed: bool
    """Whether anything ran before."""
    machines: int
    costs_before: tuple[Cost, ...]
    costs: tuple[Cost, ...]
    """Of what stays, and is billed."""
    emptied: tuple[str, ...]
    """File systems on disks of nodes, and machines that are replaced: they are empty after the next start."""
    file: str = ""
    least_before: float | None = None
    """What it cost with the nodes alone that are always on; None where all are."""

    @property
    def saved_usd_per_hour(self) -> float | None:
        """What each hour saves; None where a price is missing. Nodes without a job would be off anyway."""
        before = total(self.costs_before) if self.least_before is None else self.least_before
        now = total(self.costs)
        return None if before is None or now is None else before - now

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "changed": self.changed,
            "machines": self.machines,
            "costs": bill_values(self.costs),
            "saved_usd_per_hour": self.saved_usd_per_hour,
            "emptied": list(self.emptied),
        }

    def text(self) -> str:
        """What was done, what it saves, and how to go on."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.changed:
            yield f"grid {self.grid} is stopped: none of its {self.machines} machines runs"
        else:
            yield f"grid {self.grid} was stopped already"
        yield from bill_lines(self.costs, "What stays costs")
        if self.saved_usd_per_hour is not None:
            least = "" if self.least_before is None else "at least "
            yield f"Each hour saves {least}{self.saved_usd_per_hour:.2f} USD"
        if self.emptied:
            names = ", ".join(self.emptied)
            yield f"Empty after the next start, as their disks went with their machines: {names}"
        spec = f" {self.file}" if self.file else ""
        yield f"Next:\n  gridwright start{spec}\n  gridwright status{spec}"


@dataclass(frozen=True, slots=True)
class AwsStarted:
    """What `start` did."""

    grid: str
    region: str
    changed: bool
    """Whether it was stopped."""
    machines: int
    costs: tuple[Cost, ...]
    seconds: float
    file: str = ""

    def document(self) -> dict[str, Any]:
        """See Result."""
        values = {**asdict(self), "costs": bill_values(self.costs)}
        del values["file"]
        return values

    def text(self) -> str:
        """What was done, and how to go on."""
        spec = f" {self.file}" if self.file else ""
        first = (
            f"grid {self.grid} runs again, all {self.machines} machines, after {self.seconds / 60:.1f} min"
            if self.changed
            else f"grid {self.grid} was running already"
        )
        return "\n".join([first, *bill_lines(self.costs), "Next:", f"  gridwright status{spec}"])


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
    if is_one_of(found.layout.addresses.items()):
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
    current: dict[Part, str] = {}
    for part in dict.fromkeys(part_of(machine.role) for machine in found.layout.machines):
        answer = found.cloud.call("s3", "get_object", Bucket=found.bucket, Key=pointer(part))
        current[part] = str(answer["Body"].read().decode().strip())
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
    _until(
        stacks.cloud,
        stacks.caller,
        spec,
        lambda now: [each for each in stopped if _state(now.get(each)) == "stopping"],
    )
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
        found.cloud,
        found.stacks.caller,
        found.spec,
        lambda now: [names[each] for each in names if _state(now.get(each)) not in ("stopped", "")],
    )


def _until_gone(found: Deployed, roles: set[str]) -> None:
    """Wait until no machine of a group runs that has one of these roles."""

    def there(now: Mapping[str, Mapping[str, Any]]) -> list[str]:
        running = (name for name, each in now.items() if tags_of(each).get(ROLE_TAG) in roles)
        return [name for name in running if _state(now[name]) != "stopped"]

    _until(found.cloud, found.stacks.caller, found.spec, there)


def _until(
    cloud: Cloud,
    caller: Caller,
    spec: GridSpec,
    waiting: Callable[[Mapping[str, Mapping[str, Any]]], list[str]],
    *,
    done: str = "stopped",
    again: str = "gridwright stop --now, or gridwright start, goes on from there",
) -> None:
    """Look at the machines until none is waited for. Raises GridwrightError after LONGEST_S."""
    deadline = time.monotonic() + LONGEST_S
    while left := waiting(instances(cloud, spec)):
        if time.monotonic() > deadline:
            raise environment_error(
                f"{', '.join(left[:8])}: still not {done} after {LONGEST_S / 60:.0f} min",
                where=f"grid {spec.name}, AWS, {cloud.region}",
                remedy="look at them in the console; run the same command again to go on",
            )
        caller.pause(POLL_S, f"AWS goes on; {again}")


def _state(instance: Mapping[str, Any] | None) -> str:
    """The state that EC2 says; empty where there is no such machine."""
    return str(instance["State"]["Name"]) if instance else ""


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
