"""`status`: shows the state of a grid on AWS, and what it has cost; also the way to its head node."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping

from gridwright.providers.aws import rolling
from gridwright.providers.aws.changes import bill, deployed_spec, least_usd_per_hour, stopped_bill
from gridwright.providers.aws.costs import total
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
from gridwright.providers.aws.layout import LOGIN, AwsLayout, Role, aws_layout, fsx_file_systems, login_user
from gridwright.providers.aws.machine_files import roller
from gridwright.providers.aws.names import grid_stack, logical_id, storage_stack
from gridwright.providers.aws.rolling import group_rolls
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.session import Cloud, reason_remedy
from gridwright.providers.aws.stacks import Stack, Stacks, state_remedy
from gridwright.providers.aws.stopping import is_stopped
from gridwright.providers.aws.user_data import boot_reports
from gridwright.providers.cloud_head import host_keys, is_one_of, not_up
from gridwright.providers.provider import Caller
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
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
