"""`up`: makes a grid on AWS, or changes it, and waits until its machines have set themselves up.

It also makes machines anew that no group replaces and whose instance is gone, sets owner and expiry where
launch templates lack them, and refuses what would give machines that stay other addresses.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems.resources import Cost
from gridwright.providers.aws import changes, rolling
from gridwright.providers.aws.changes import (
    Deployment,
    FieldChange,
    ResourceChange,
    deployment,
    least_usd_per_hour,
    storage_body,
)
from gridwright.providers.aws.costs import bill_lines, bill_values
from gridwright.providers.aws.down import lost_machines
from gridwright.providers.aws.grid_template import groups_of
from gridwright.providers.aws.images import GridImage, chosen_images, refuse_unfit_images
from gridwright.providers.aws.instances import (
    GONE,
    MachineStatus,
    claims,
    described_instances,
    instances,
    machines,
    rows,
)
from gridwright.providers.aws.launching import ALL, PARAMETER, machine_id
from gridwright.providers.aws.layout import AwsLayout, Machine, Role, aws_layout, fsx_file_systems, login_user
from gridwright.providers.aws.machine_files import boot_reports
from gridwright.providers.aws.names import SLOT_TAG, grid_stack, logical_id, passing_tags, storage_stack, tags
from gridwright.providers.aws.preflight import preflight
from gridwright.providers.aws.rolling import (
    FixedMachines,
    MachinesReady,
    MachinesReplaced,
    announced,
    fixed_machines,
    replaceable,
    with_images,
    without,
)
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.stacks import (
    LONGEST_BODY,
    NEVER_MADE,
    Body,
    ChangeSet,
    Stack,
    Stacks,
    body_of,
    failure_of,
    of_grid,
    put_changed,
    put_once,
    tags_of,
    text_of,
)
from gridwright.providers.aws.stopping import Shrinking, is_stopped, scaled_in_nodes, start_fixed, unnamed
from gridwright.providers.aws.storage_template import SITE_BUCKET, propose_storage, update_storage
from gridwright.providers.boot.bundle import Part, pointer
from gridwright.providers.provider import Caller
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

# What `up` of a grid on AWS did, and how to go on; nothing here calls AWS.


@dataclass(frozen=True, slots=True)
class AwsUp:
    """What `up` did."""

    grid: str
    region: str
    made: bool
    """Whether it was not there before."""
    fields: tuple[FieldChange, ...]
    resources: tuple[ResourceChange, ...]
    machines: tuple[MachineStatus, ...]
    costs: tuple[Cost, ...]
    kept: tuple[str, ...]
    """What was replaced and is kept, and billed."""
    user: str | None
    """Who logs in by ssh, where a key pair lets administrators in."""
    seconds: float
    images: tuple[GridImage, ...] = ()
    """Those that the spec knows by a name."""
    set_up_again: tuple[str, ...] = ()
    """Parts of the grid, nodes or servers, whose machines were set up anew in place."""
    file: str = ""
    """The grid spec as the user named it."""
    least_usd_per_hour: float | None = None
    """With the nodes alone that are always on; None where all are."""

    @property
    def changed(self) -> bool:
        """Whether anything was made or changed."""
        return self.made or bool(self.resources) or bool(self.set_up_again)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "made": self.made,
            "changed": self.changed,
            "fields": [_field_values(each) for each in self.fields],
            "changes": [_resource_values(each) for each in self.resources],
            "set_up_again": list(self.set_up_again),
            "machines": [asdict(each) for each in self.machines],
            "costs": bill_values(self.costs),
            "images": [asdict(each) for each in self.images],
            "least_usd_per_hour": self.least_usd_per_hour,
            "kept": list(self.kept),
            "seconds": self.seconds,
        }

    def text(self) -> str:
        """What was done, and how to go on."""
        return "\n".join(_lines(self))


def _field_values(change: FieldChange) -> dict[str, Any]:
    """A changed field of the spec in a document."""
    return {
        "field": ".".join(change.path),
        "old": change.old,
        "new": change.new,
        "policy": change.update.change.value,
        "because": change.update.because,
    }


def _resource_values(change: ResourceChange) -> dict[str, Any]:
    """A changed resource in a document."""
    return {
        "stack": change.stack,
        "resource": change.logical_id,
        "type": change.type,
        "action": change.action,
        "properties": list(change.properties),
        "holds_data_of": change.filesystem,
    }


def _lines(result: AwsUp) -> Iterator[str]:
    if result.made:
        yield f"grid {result.grid} is up in {result.region}, after {result.seconds / 60:.1f} min"
    elif result.changed:
        yield f"grid {result.grid} is changed, after {result.seconds / 60:.1f} min"
    else:
        yield f"grid {result.grid} is up already, as the spec has it: nothing is changed"
    if result.set_up_again:
        yield f"set up again in place, replacing nothing: {' and '.join(result.set_up_again)}"
    missing = [each.name for each in result.machines if each.state == "missing"]
    if missing:
        yield f"not there yet: {fold_hosts(missing)}"
    yield from (f"image of {each.text}" for each in result.images)
    for each in result.kept:
        yield f"kept, and billed: {each}"
    yield from bill_lines(result.costs, least=result.least_usd_per_hour)
    yield "Next:"
    yield from _next(result)


def _next(result: AwsUp) -> Iterator[str]:
    login = next((each for each in result.machines if each.role == "login"), None)
    if login is not None and login.instance is not None:
        address = login.public_address or login.address
        if result.user is not None:
            yield f"  ssh {result.user}@{address}"
        yield f"  aws ssm start-session --region {result.region} --target {login.instance}"
    spec = f" {result.file}" if result.file else ""
    yield f"  gridwright status{spec}"
    yield f"  gridwright down{spec}"


# Sets root squash of FSx for Lustre once the stack exists: CloudFormation has no property for it.

OFF = "0:0"
"""Root stays root (FSx API reference, LustreRootSquashConfiguration)."""


def desired_root_squash(spec: GridSpec) -> dict[str, dict[str, Any]]:
    """RootSquash and NoSquashNids of each FSx for Lustre, as the spec wants them."""
    kept = aws_layout(spec).root_nids
    return {
        name: {"RootSquash": each.root_squash, "NoSquashNids": kept}
        if each.root_squash is not None
        else {"RootSquash": OFF, "NoSquashNids": []}
        for name, each in fsx_file_systems(spec).items()
    }


def settle_root_squash(cloud: Cloud, spec: GridSpec, physical: Mapping[str, str]) -> tuple[str, ...]:
    """Bring each file system to what the spec says; the names of those that were changed.

    `physical` has the resources of the storage stack by their logical IDs. Raises CloudError.
    """
    changed = []
    for name, desired in desired_root_squash(spec).items():
        identifier = physical[logical_id(name)]
        (found,) = cloud.call("fsx", "describe_file_systems", FileSystemIds=[identifier])["FileSystems"]
        settings = found.get("LustreConfiguration", {}).get("RootSquashConfiguration") or {}
        squashed, kept = settings.get("RootSquash", OFF), settings.get("NoSquashNids") or []
        if squashed != desired["RootSquash"] or set(kept) != set(desired["NoSquashNids"]):
            cloud.call(
                "fsx",
                "update_file_system",
                FileSystemId=identifier,
                LustreConfiguration={"RootSquashConfiguration": desired},
            )
            changed.append(name)
    return tuple(changed)


def moved_addresses(
    spec: GridSpec, layout: AwsLayout, deployed: Mapping[str, Any], replace: frozenset[str]
) -> Iterator[Problem]:
    """Each group of machines that would move from its deployed addresses, but of file systems made anew.

    An interface that is in use cannot be replaced, and clients know a Lustre server by its address: half-way
    through an update AWS would refuse the one, and the other would be another server.
    """
    had = dict(_addresses(deployed))
    first: dict[str, tuple[Machine, int]] = {}
    for machine in layout.machines:
        if had.get(machine.name, str(machine.address)) != str(machine.address):
            kept, others = first.get(machine.group, (machine, -1))
            first[machine.group] = kept, others + 1
    for group, (machine, others) in first.items():
        if group in replace:
            continue
        more = f", and {others} more of {group} would move, too" if others else ""
        path, remedy = _where(spec, machine, had[machine.name])
        yield problem_at(
            spec,
            path,
            f"{machine.name} is at {had[machine.name]}, and would be at {machine.address} as the spec is now"
            f"{more}: machines that are up keep their addresses",
            remedy,
        )


_NODES = (
    "leave the groups before it as large as they are, and in their order, and add a group behind it for what "
    "is new; or run gridwright down, which keeps data, and then up"
)


def _where(spec: GridSpec, machine: Machine, address: str) -> tuple[tuple[str, ...], str]:
    """The field that decides on its address, and what to write."""
    if machine.role.serves_files:
        return ("filesystems", machine.group), _servers(machine.group)
    if machine.role is Role.MACHINE:
        return ("machines", machine.group), f"write address: {address} for it"
    return (("nodes", machine.group) if machine.group in spec.nodes else ("aws",)), _NODES


def _servers(filesystem: str) -> str:
    return (
        f"leave what stands before it as it is; or run gridwright up with --replace {filesystem}: it begins "
        f"empty then, and what was is kept, and billed, until gridwright down --delete-data {filesystem}"
    )


def _addresses(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names of machines with the addresses of their interfaces."""
    for each in template.get("Resources", {}).values():
        if each.get("Type") != "AWS::EC2::NetworkInterface":
            continue
        properties = each.get("Properties", {})
        tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
        if SLOT_TAG in tags and "PrivateIpAddress" in properties:
            yield tags[SLOT_TAG], properties["PrivateIpAddress"]


AT_ONCE = 500
"""Resources of one call: EC2 takes up to 1000 (EC2 API reference, CreateTags)."""


def settle_passing_tags(cloud: Cloud, spec: GridSpec) -> None:
    """Bring owner and expiry of instances, volumes and interfaces to what the spec says.

    An Auto Scaling group gives its tags to machines that it starts from then on, never to those that run
    (EC2 Auto Scaling User Guide, tag groups and instances). Raises CloudError.
    """
    found = dict(_tags(cloud, spec))
    for name, desired in passing_tags(spec).items():
        _set(cloud, name, desired, [each for each, tags in found.items() if tags.get(name) != desired])


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


_MOST_VALUES = 200
"""Of one filter (Amazon EC2 API Reference, DescribeInstances)."""


def gone_machines(cloud: Cloud, layout: AwsLayout, resources: Mapping[str, str]) -> frozenset[str]:
    """Names of machines that a stack made and EC2 ended, or ends; `resources` are the stack's, by logical ID.

    They are asked for by their IDs: who has lost its tags is there all the same, and is never taken for gone.
    """
    made = {
        resources[machine_id(each)]: each.name
        for each in layout.machines
        if not each.replaced and resources.get(machine_id(each))
    }
    there: set[str] = set()
    for start in range(0, len(made), _MOST_VALUES):
        asked = [{"Name": "instance-id", "Values": list(made)[start : start + _MOST_VALUES]}]
        found = described_instances(cloud, asked)
        there |= {each["InstanceId"] for each in found if each["State"]["Name"] not in GONE}
    return frozenset(name for instance, name in made.items() if instance not in there)


_NAMED = ("filesystems", "machines", "nodes")
"""Sections of the spec whose names --replace takes, of what is deployed, too."""


def up(
    spec: GridSpec, caller: Caller, replace: frozenset[str] = frozenset(), *, new_images: bool = False
) -> AwsUp:
    """Make the grid, or bring what is there to what the spec says. Raises GridwrightError.

    `replace` names file systems that may be made anew, empty; what was stays, outside of the stacks.
    `new_images`: machines start from what names of images stand for today.
    """
    started = time.monotonic()
    desired = deployment(spec)
    cloud = Cloud(str(spec.region))
    work = _Up(desired, Stacks(cloud, caller), replace, new_images)
    storage = work.ready(storage_stack(spec))
    grid = work.ready(grid_stack(spec))
    made = grid is None
    work.note_deployed(grid)
    if storage is None or made:
        preflight(spec, desired.layout, cloud).refuse()
    if storage is None:
        _check_names(spec, replace, [*spec.filesystems, *spec.machines, *replaceable(desired.layout)])
        rolling.mark(cloud, spec, ())
        storage = work.make_storage()
    else:
        grid, storage = work.change_storage(storage, grid)
    work.stacks.protect(storage, protected=True)
    stored = work.stacks.resources(storage)
    settle_root_squash(cloud, spec, stored)
    grid = work.bring_grid(grid, stored[SITE_BUCKET])
    settle_passing_tags(cloud, spec)
    bundles = {part: each.key for part, each in desired.machines.bundles.items()}
    ready = MachinesReady(cloud, caller, spec, desired.layout, bundles, stored[SITE_BUCKET])
    ready.wait()
    MachinesReplaced(cloud, caller, spec, desired.layout).wait()
    ready.wait()
    resources = work.stacks.resources(grid)
    told = rows(cloud, spec)
    return AwsUp(
        grid=spec.name,
        region=cloud.region,
        made=made,
        fields=tuple(work.fields),
        resources=tuple(work.resources),
        machines=machines(
            desired.layout, instances(cloud, spec), resources, claims(told), boot_reports(told)
        ),
        set_up_again=() if made else tuple(work.brought),
        costs=desired.costs,
        images=work.images,
        least_usd_per_hour=least_usd_per_hour(spec),
        kept=tuple(each.text for each in rolling.retired(cloud, spec, stored.values())),
        user=_user(spec),
        seconds=time.monotonic() - started,
    )


@dataclass
class _Up:
    """One `up`, with what it found out on its way."""

    wanted: Deployment
    stacks: Stacks
    replace: frozenset[str]
    new_images: bool = False
    images: tuple[GridImage, ...] = ()
    deployed: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the grid stack as it was found; those that it is to have, and its template, below."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    old: Mapping[str, Any] = field(default_factory=dict)
    before: AwsLayout | None = None
    """The machines of the grid that is up; None where nothing tells."""
    fields: list[FieldChange] = field(default_factory=list)
    resources: list[ResourceChange] = field(default_factory=list)
    brought: list[Part] = field(default_factory=list)
    """Parts whose machines set themselves up with another bundle."""

    @property
    def spec(self) -> GridSpec:
        return self.wanted.spec

    @property
    def cloud(self) -> Cloud:
        return self.stacks.cloud

    def ready(self, name: str) -> Stack | None:
        """A stack that can be changed; None where it is to be made.

        Raises GridwrightError for one whose creation failed: what is left of it is there to be looked at, and
        removed by `down`. One that was proposed and never made holds nothing, and is removed.
        """
        stack = self.stacks.settled(name)
        if stack is None or stack.whole:
            return stack
        if stack.state == NEVER_MADE:
            self.stacks.protect(stack, protected=False)
            self.stacks.delete(stack)
            return None
        failure = self.stacks.failure(stack)
        raise failure_of(name, stack.state, failure or stack.reason, self.cloud.region)

    def note_deployed(self, grid: Stack | None) -> None:
        """Remember how the grid stack is, since it goes where storage that machines use is made anew."""
        if grid is not None:
            self.deployed, self.old = grid.parameters, self.stacks.template(grid)

    def make_storage(self) -> Stack:
        """The storage stack, where there is none."""
        name = storage_stack(self.spec)
        template = self.wanted.storage
        if len(text_of(template)) <= LONGEST_BODY:
            return self._create(name, Body(text_of(template)), {}, protected=True)
        # A request cannot carry it, and the bucket that a large one is read from is in the stack itself.
        self.stacks.caller.say(f"{name}: the network and the bucket first, since the template is large")
        small = storage_body(self.spec, self.wanted.layout, without=self.wanted.filesystems)
        stack = self._create(name, Body(text_of(small)), {}, protected=True)
        return update_storage(self.stacks, stack, template, self.spec)

    def _create(self, name: str, body: Body, parameters: dict[str, str], *, protected: bool) -> Stack:
        return self.stacks.create(
            name, body, parameters=parameters, tags=tags(self.spec), protected=protected
        )

    def change_storage(self, storage: Stack, grid: Stack | None) -> tuple[Stack | None, Stack]:
        """Bring the storage stack to what the spec says, where that loses no data that was not named."""
        old = self.stacks.template(storage)
        kept = changes.deployed_values(old)
        known = [*self.spec.filesystems, *self.spec.machines, *self.spec.nodes]
        known += replaceable(self.wanted.layout)
        known += [name for each in _NAMED for name in (kept or {}).get(each, {})]
        _check_names(self.spec, self.replace, known)
        if kept is None:
            say = self.stacks.caller.say
            say(f"{storage.name}: this release cannot read the spec in it; fields that differ are not named")
        # An up that stopped in the middle of a replacement may have left some without its mark.
        rolling.mark(self.cloud, self.spec, self.stacks.resources(storage).values())
        self.fields = list(changes.field_changes(kept, changes.values(self.spec))) if kept else []
        proposed = propose_storage(self.stacks, storage, self.wanted.storage, self.spec)
        held = self._held(old)
        found = self._resources(storage.name, old, self.wanted.storage, proposed, held)
        # A stack keeps the spec that it was changed for last: that of machines is the grid stack's.
        deployed = changes.deployed_spec(self.old) if grid is not None else None
        self.before = None if deployed is None else aws_layout(deployed)
        gone = scaled_in_nodes(self.before, self.wanted.layout) if self.before is not None else {}
        problems = [
            *changes.refusals(self.spec, self.fields, found, self.replace),
            *lost_machines(deployed, self.spec, self.replace),
            *unnamed(self.spec, gone, self.replace),
            *self._moved(old, self.old if grid is not None else {}),
        ]
        if problems:
            if proposed is not None:
                self.stacks.discard(proposed)
            raise GridwrightError(*problems)
        lost = changes.lost_filesystems(self.fields, found)
        self._tell(storage.name, found)
        self.resources += found
        if not lost:
            return grid, storage if proposed is None else self.stacks.execute(proposed)
        if proposed is not None:
            self.stacks.discard(proposed)
        if grid is not None:
            self.stacks.caller.say(f"{grid.name}: its machines are made anew, since {_names(lost)} is")
            self.stacks.delete(grid)
        return None, self._replace(storage, old, lost)

    def _moved(self, *templates: Mapping[str, Any]) -> Iterator[Problem]:
        for each in templates:
            yield from moved_addresses(self.spec, self.wanted.layout, each, self.replace)

    def _replace(self, storage: Stack, old: dict[str, Any], lost: frozenset[str]) -> Stack:
        """Let go of what is lost, mark it as kept, and make it anew."""
        before = changes.deployed_spec(old) or self.spec
        layout = aws_layout(before)
        template = storage_body(before, layout, without=lost)
        storage = update_storage(self.stacks, storage, template, self.spec)
        rolling.mark(self.cloud, self.spec, self.stacks.resources(storage).values())
        return update_storage(self.stacks, storage, self.wanted.storage, self.spec)

    def _held(self, old: dict[str, Any]) -> dict[str, str]:
        """What holds data: of the spec that is deployed, and of the new one."""
        deployed = changes.deployed_spec(old)
        before = (
            changes.holders_by_tags(old, self.spec.name)
            if deployed is None
            else changes.holders(deployed, aws_layout(deployed))
        )
        return {**self.wanted.held, **before}

    def bring_grid(self, grid: Stack | None, bucket: str) -> Stack:
        """Make or change the grid stack, whose machines read their bundles from the bucket.

        Machines that run are brought what is new as they are. Those that are to be replaced are known as
        such before they are told of it: slurm.conf keeps what it says of them.
        """
        desired, name = self.wanted, grid_stack(self.spec)
        for made in desired.machines.bundles.values():
            put_once(self.cloud, bucket, made.key, made.content)
        for key, text in desired.nested.items():
            put_once(self.cloud, bucket, key, text.encode())
        if grid is None:
            self._point(bucket)
            body = body_of(self.cloud, bucket, desired.grid)
            return self._create(name, body, self._parameters(None), protected=False)
        if is_stopped(grid):
            self.stacks.caller.say(f"{name}: the grid was stopped, and is started again")
            start_fixed(self.stacks, self.spec, desired.layout, grid)
        grid = self._change_grid(grid, bucket)
        self._point(bucket)
        return grid

    def _point(self, bucket: str) -> None:
        """Name the bundles that machines set themselves up from now on."""
        for part, made in self.wanted.machines.bundles.items():
            if put_changed(self.cloud, bucket, pointer(part), f"{made.key}\n".encode()):
                self.stacks.caller.say(f"bucket {bucket}: {part} set themselves up with {made.key}")
                self.brought.append(part)

    def _change_grid(self, grid: Stack, bucket: str) -> Stack:
        old = self.stacks.template(grid)
        self.parameters = self._parameters(grid)
        launched = with_images(self.wanted.layout, old, self.deployed, self.parameters)
        layout = self.before or self.wanted.layout
        gone = gone_machines(self.cloud, layout, self.stacks.resources(grid))
        fixed = fixed_machines(self.spec, self.wanted.layout, launched, self.wanted.grid, self.replace, gone)
        if fixed.problems:
            raise GridwrightError(*fixed.problems)
        proposed = self._propose(grid, bucket, fixed.template)
        if proposed is None and fixed.first is None:
            return grid
        # Of machines that are gone the template tells nothing: they, and what goes with them, are added.
        ids = frozenset(machine_id(each) for each in layout.machines if each.name in fixed.gone)
        seen = () if proposed is None else proposed.changes
        found = changes.resource_changes(grid.name, without(old, ids), fixed.template, seen, {})
        self._tell(grid.name, found)
        for line in announced(self.spec, self.wanted.layout, groups_of(self.wanted.layout), found):
            self.stacks.caller.say(line)
        self._tell_fixed(fixed)
        self.resources += found
        self._shrink(grid)
        if fixed.first is None:
            return grid if proposed is None else self.stacks.execute(proposed)
        if proposed is not None:
            self.stacks.discard(proposed)
        first = self._propose(grid, bucket, fixed.first)
        grid = grid if first is None else self.stacks.execute(first)
        proposed = self._propose(grid, bucket, fixed.template)
        return grid if proposed is None else self.stacks.execute(proposed)

    def _shrink(self, grid: Stack) -> None:
        """End what the spec has no more before its interfaces are removed with the stack."""
        if self.before is not None:
            desired, physical = self.wanted, self.stacks.resources(grid)
            caller = self.stacks.caller
            Shrinking(self.cloud, caller, self.spec, self.before, desired.layout, physical).let_go()

    def _propose(self, grid: Stack, bucket: str, template: Mapping[str, Any]) -> ChangeSet | None:
        body = body_of(self.cloud, bucket, template)
        return self.stacks.propose(grid, body, parameters=self.parameters, tags=tags(self.spec))

    def _tell_fixed(self, fixed: FixedMachines) -> None:
        """What becomes of machines that no group replaces."""
        say = self.stacks.caller.say
        for name in fixed.kept:
            say(f"{name} stays as it was launched, with its image; --replace {name} has it made anew")
        for name in fixed.restarted:
            say(f"{name} is stopped and started: who is logged in there is cut off, jobs on nodes go on")
        for name in fixed.gone:
            say(f"{name} is gone from EC2, and is made anew with an empty disk")
        for name in fixed.anew:
            say(f"{name} is made anew: what is on its disk is lost, on the head node the queue and its jobs")

    def _parameters(self, grid: Stack | None) -> dict[str, str]:
        """Of the grid stack: all machines are wanted, and which images they start from."""
        return {PARAMETER: ALL, **self._choose_images(grid)}

    def _choose_images(self, grid: Stack | None) -> dict[str, str]:
        """Values of the parameters of images; what is not as it should be of them is said.

        Raises GridwrightError where machines would be replaced by those that cannot start.
        """
        old = self.old if grid is not None else {**self.old, "Resources": {}}
        spec, layout = self.spec, self.wanted.layout
        self.images = chosen_images(
            self.cloud, spec, layout, self.deployed, old, self.wanted.grid, renew=self.new_images
        )
        found = {each.parameter: each.value for each in self.images}
        if found and grid is not None:
            is_new = any(self.deployed.get(name) != value for name, value in found.items())
            refuse_unfit_images(self.stacks, spec, layout, found, raising=is_new)
        return found

    def _resources(
        self,
        stack: str,
        old: Mapping[str, Any],
        new: Any,  # noqa: ANN401
        proposed: ChangeSet | None,
        held: dict[str, str],
    ) -> tuple[ResourceChange, ...]:
        if proposed is None:
            return ()
        return changes.resource_changes(stack, old, new, proposed.changes, held)

    def _tell(self, stack: str, found: tuple[ResourceChange, ...]) -> None:
        if not found:
            return
        say = self.stacks.caller.say
        say(f"{stack}: what changes:")
        for each in self.fields if not self.resources else ():
            say(f"  {each.text}")
        for change in found:
            say(f"  {change.text}")


def _check_names(spec: GridSpec, replace: frozenset[str], known: Iterable[str]) -> None:
    """Names that --replace gives are file systems, or machines, of the spec or of the grid as it is."""
    names = frozenset(known)
    what = f"grid {spec.name} has no file system and no machines {{}}"
    changes.refuse_unknown(replace, names, "--replace", what, f"write one of {_names(names)}")


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _user(spec: GridSpec) -> str | None:
    """Who a key pair lets in; None where there is no key pair."""
    aws = spec.section(Aws)
    if aws is None or aws.key is None:
        return None
    return login_user(aws) or "USER"
