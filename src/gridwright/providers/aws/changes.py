"""Change sets: what an update of a grid's stacks adds, replaces and removes, and what that costs."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.filesystems.resources import Cost
from gridwright.model import costs
from gridwright.model.grid import check_against_catalogue, grid_model
from gridwright.providers.aws.costs import costs_while_stopped
from gridwright.providers.aws.layout import AwsLayout, Role, aws_layout, fsx_file_systems
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG, logical_id
from gridwright.providers.boot.bundle import MachineFiles
from gridwright.spec.fields import Change, Update
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.structure import field_at
from gridwright.units import Bytes

# The grid spec that a stack was made from, kept in the metadata of its template.

_SECTION = "Gridwright"
SCHEMA = 1


def values(spec: GridSpec) -> dict[str, Any]:
    """A spec as plain values, from which the same spec can be made."""
    found: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return found


def keep(template: dict[str, Any], spec: GridSpec) -> None:
    """Put a spec into the metadata of a template."""
    template["Metadata"] = {
        **template.get("Metadata", {}),
        _SECTION: {"Schema": SCHEMA, "Spec": values(spec)},
    }


def deployed_values(template: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plain values in a template; None where it has none that this release can read."""
    section = template.get("Metadata", {}).get(_SECTION, {})
    found = section.get("Spec") if section.get("Schema") == SCHEMA else None
    return found if isinstance(found, dict) else None


def deployed_spec(template: Mapping[str, Any]) -> GridSpec | None:
    """The spec in a template; None where it has none that this release can read."""
    found = deployed_values(template)
    if found is None:
        return None
    try:
        return GridSpec.model_validate(found, context={"base": "/"})
    except ValidationError:
        return None


_UNKNOWN = Update(Change.REBUILD, "this release does not know the field")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the spec that is not as it was deployed; None where it has no value."""

    path: tuple[str, ...]
    old: Any
    new: Any
    update: Update

    @property
    def text(self) -> str:
        """As `gridwright up` prints it."""
        return (
            f"{'.'.join(self.path)}: {_shown(self.old)} becomes {_shown(self.new)} "
            f"({self.update.change.value}: {self.update.because})"
        )


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource that would be made, changed, replaced or removed."""

    stack: str
    logical_id: str
    type: str
    action: str
    """add, change, replace or remove."""
    properties: tuple[str, ...] = ()
    filesystem: str | None = None
    """The file system whose data the resource holds."""

    @property
    def loses(self) -> bool:
        """Whether data would not be in the grid any more."""
        return self.filesystem is not None and self.action in ("replace", "remove")

    @property
    def text(self) -> str:
        """As `gridwright up` prints it."""
        of = f": {', '.join(self.properties)}" if self.properties else ""
        return f"{self.action} {self.logical_id} ({self.type}){of}"


def field_changes(deployed: Mapping[str, Any], desired: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Fields that differ between two specs as plain values, each with its policy, in the spec's order."""
    return tuple(_differing(deployed, desired, (), deployed, desired, None))


def _differing(
    old: Any,  # noqa: ANN401 - plain values
    new: Any,  # noqa: ANN401
    path: tuple[str, ...],
    deployed: Mapping[str, Any],
    desired: Mapping[str, Any],
    above: Update | None,
) -> Iterator[FieldChange]:
    if old == new:
        return
    info = (field_at(path, desired) or field_at(path, deployed)) if path else None
    # A name that the user chose has no policy of its own: that of the section it stands in holds.
    declared = next((each for each in info.metadata if isinstance(each, Update)), None) if info else None
    update = declared or above
    # Two kinds of file system have nothing to compare but that they are two.
    other_kind = len(path) == 2 and path[0] == "filesystems" and _kind(old) != _kind(new)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not other_kind:
        for name in dict.fromkeys((*new, *old)):
            yield from _differing(old.get(name), new.get(name), (*path, name), deployed, desired, update)
        return
    yield FieldChange(path, old, new, update or _UNKNOWN)


def _kind(value: object) -> object:
    return value.get("type") if isinstance(value, Mapping) else None


def holders(spec: GridSpec, layout: AwsLayout) -> dict[str, str]:
    """Logical IDs of the resources that hold data, with the file system whose data they are."""
    found = {logical_id(name): name for name in fsx_file_systems(spec)}
    for machine in layout.machines:
        for target in machine.targets:
            found[logical_id(machine.name, target.name)] = target.filesystem
    found |= {each.logical_id: each.filesystem for each in layout.volumes}
    return found


def holders_by_tags(template: Mapping[str, Any], grid: str) -> dict[str, str]:
    """The same by the tags in a template alone: for one whose spec this release cannot read."""
    found = {}
    for name, each in template.get("Resources", {}).items():
        tags = {tag["Key"]: tag["Value"] for tag in each.get("Properties", {}).get("Tags", ())}
        if each.get("Type") == "AWS::FSx::FileSystem":
            found[name] = str(tags.get("Name", name)).removeprefix(f"{grid} ")
        elif each.get("Type") == "AWS::EC2::Volume" and TARGET_TAG in tags:
            found[name] = str(tags[SLOT_TAG]).rpartition("-")[0]
    return found


def resource_changes(
    stack: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    proposed: Iterable[Mapping[str, Any]],
    held: Mapping[str, str],
) -> tuple[ResourceChange, ...]:
    """What would happen to the resources of a stack, between two templates.

    AWS's own change set says it; a replacement is also taken from the list of properties that only a new
    resource can have, since AWS leaves open (Conditional) what depends on values.
    """
    before, after = old.get("Resources", {}), new.get("Resources", {})
    says = {each["LogicalResourceId"]: each for each in proposed}
    found = []
    for name in dict.fromkeys((*before, *after)):
        was, is_now = before.get(name), after.get(name)
        kind = str((is_now or was or {}).get("Type", ""))
        if was is None or is_now is None:
            action = "add" if was is None else "remove"
            found.append(ResourceChange(stack, name, kind, action, (), held.get(name)))
            continue
        differing = tuple(differences(was.get("Properties", {}), is_now.get("Properties", {})))
        replaced = was.get("Type") != kind or _only_new(kind, differing)
        if name in says:
            replaced = replaced or says[name].get("Replacement") == "True" or _follows(says[name], says)
        elif not differing:
            continue
        found.append(
            ResourceChange(stack, name, kind, "replace" if replaced else "change", differing, held.get(name))
        )
    return tuple(found)


def _follows(change: Mapping[str, Any], says: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a resource would be replaced since one that it refers to may be: AWS calls that Conditional."""
    for each in change.get("Details", ()):
        if each.get("Target", {}).get("RequiresRecreation", "Never") == "Never":
            continue
        cause = str(each.get("CausingEntity") or "").partition(".")[0]
        if says.get(cause, {}).get("Replacement") in ("True", "Conditional"):
            return True
    return False


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - plain values
    """Dotted paths of properties that differ."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not any(_is_function(e) for e in (old, new)):
        for name in dict.fromkeys((*old, *new)):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}" if path else str(name))
        return
    yield path


def _is_function(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


@cache
def create_only() -> Mapping[str, frozenset[str]]:
    """Properties that only a new resource can have, by type of resource."""
    text = files("gridwright.providers.aws").joinpath("data", "create-only.csv").read_text()
    found: dict[str, set[str]] = {}
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    for row in csv.DictReader(lines):
        found.setdefault(row["type"], set()).add(row["property"])
    return {kind: frozenset(names) for kind, names in found.items()}


def _only_new(kind: str, differing: Iterable[str]) -> bool:
    """Whether only a new resource can have one of these properties, or something in it or around it."""
    fixed = create_only().get(kind, frozenset())
    return any(
        name == each or name.startswith(f"{each}.") or each.startswith(f"{name}.")
        for name in differing
        for each in fixed
    )


def refusals(
    spec: GridSpec,
    fields: Iterable[FieldChange],
    resources: Iterable[ResourceChange],
    replace: frozenset[str],
) -> list[Problem]:
    """Why an update cannot be carried out as it is: what never changes, and data that would be lost."""
    fields = list(fields)
    problems = [_never(spec, each) for each in fields if each.update.change is Change.NEVER]
    problems += [each for each in _impossible(spec, fields, replace) if not problems]
    lost: dict[str, list[ResourceChange]] = {}
    for each in resources:
        if each.loses and each.filesystem not in replace:
            lost.setdefault(str(each.filesystem), []).append(each)
    named = {each.field for each in problems}
    for filesystem, changes in lost.items():
        blamed = _blamed(filesystem, fields)
        if not blamed:
            problems.append(
                Problem(
                    what=f"{_what(changes)}, which holds data of file system {filesystem}",
                    where=str(spec.file) if spec.file else None,
                    remedy=_either(filesystem),
                )
            )
        problems += [
            problem_at(
                spec,
                each.path,
                f"{_what(changes)}, which holds data of file system {filesystem}: "
                f"{'.'.join(each.path)} was {_shown(each.old)} and is {_shown(each.new)} "
                f"({each.update.change.value}: {each.update.because})",
                _either(filesystem),
            )
            for each in blamed
            if ".".join(each.path) not in named
        ]
    return problems


def _never(spec: GridSpec, change: FieldChange) -> Problem:
    return problem_at(
        spec,
        change.path,
        f"{'.'.join(change.path)} of a grid that is up cannot change: it was {_shown(change.old)} and is "
        f"{_shown(change.new)} ({change.update.change.value}: {change.update.because})",
        f"write {_shown(change.old)} again, or give the new grid another name",
    )


def _impossible(spec: GridSpec, fields: list[FieldChange], replace: frozenset[str]) -> Iterator[Problem]:
    """What AWS itself would refuse half-way through an update, though its policy is to change in place."""
    for each in fields:
        why = not_in_place(each)
        if why and each.path[1] not in replace:
            yield problem_at(
                spec,
                each.path,
                f"{'.'.join(each.path)} cannot go from {_shown(each.old)} to {_shown(each.new)}: {why}",
                _either(each.path[1]),
            )


def not_in_place(change: FieldChange) -> str | None:
    """Why AWS cannot make this change of a file system, though the field changes in place as a rule."""
    if change.path[0] != "filesystems" or len(change.path) < 3:
        return None
    last = change.path[-1]
    if last in ("capacity", "size") and change.old is not None and change.new is not None:
        shrinks = Bytes.parse(change.new) < Bytes.parse(change.old)
        return "storage can grow, never shrink" if shrinks else None
    if last == "metadata" and change.old == "none":
        return "metadata operations cannot be added to a file system that was made with none"
    return None


def lost_filesystems(fields: Iterable[FieldChange], resources: Iterable[ResourceChange]) -> frozenset[str]:
    """File systems that an update would empty."""
    lost = {each.filesystem for each in resources if each.loses and each.filesystem is not None}
    return frozenset(lost | {each.path[1] for each in fields if not_in_place(each)})


def _what(changes: list[ResourceChange]) -> str:
    verb = "remove" if changes[0].action == "remove" else "replace"
    first = f"this would {verb} {changes[0].logical_id} ({changes[0].type})"
    return first if len(changes) == 1 else f"{first} and {len(changes) - 1} more"


def _either(filesystem: str) -> str:
    return (
        f"write it as it was; or run gridwright up with --replace {filesystem}: what is new begins empty, "
        f"and what was is kept, and billed, until gridwright down --delete-data {filesystem}"
    )


def _blamed(filesystem: str, fields: Iterable[FieldChange]) -> list[FieldChange]:
    """Fields that may be why something of a file system is replaced."""
    own = [each for each in fields if each.path[:2] == ("filesystems", filesystem)]
    return own or [
        each
        for each in fields
        if each.update.change in (Change.REBUILD, Change.NEVER) and each.path[0] != "filesystems"
    ]


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


# What a grid on AWS costs by the hour: the whole grid, or what remains while no machine runs.


def bill(spec: GridSpec, layout: AwsLayout, *, running: bool) -> tuple[Cost, ...]:
    """The bill of a grid: all of it where machines run, else that of the file systems that are kept."""
    if running:
        return tuple(grid_model(spec).costs)
    names = sorted(retained_file_systems(spec, layout))
    return tuple(line for name in names for line in retained_costs(spec, name))


def least_usd_per_hour(spec: GridSpec) -> float | None:
    """What the whole grid costs with the nodes alone that are always on; None where all are."""
    return costs.least_usd_per_hour(grid_model(spec)) if spec.powered_nodes() else None


def retained_file_systems(spec: GridSpec, layout: AwsLayout) -> frozenset[str]:
    """File systems that hold data and outlive machines."""
    return frozenset(holders(spec, layout).values())


def retained_costs(spec: GridSpec, name: str) -> tuple[Cost, ...]:
    """Costs of a file system while no machine runs: FSx as ever, of a Lustre its volumes alone."""
    costs = grid_model(spec).contributions[name].costs
    managed = name in fsx_file_systems(spec)
    return tuple(each for each in costs if managed or " at each " in each.what)


def stopped_bill(spec: GridSpec, layout: AwsLayout) -> tuple[Cost, ...]:
    """The bill of a grid that is stopped: file systems, disks of machines that are kept, and the network."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    # Machines beside the nodes have lines of their own.
    retained_machines = [
        each for each in layout.machines if not each.replaced and each.role is not Role.MACHINE
    ]
    plain_nodes = [each for each in retained_machines if each.role is Role.COMPUTE]
    nodes = (
        each
        for name, filesystem in spec.filesystems.items()
        if plain_nodes and filesystem.node_disks is not None
        for each in grid_model(spec).contributions[name].costs
    )
    beside = costs_while_stopped(spec, catalog, len(retained_machines))
    return (*bill(spec, layout, running=False), *nodes, *beside)


# What `up` deploys to AWS, made from the spec alone: the two templates, and the bundle of machines.


@dataclass(frozen=True)
class Deployment:
    """Everything that is known of a grid before AWS is asked."""

    spec: GridSpec
    layout: AwsLayout
    storage: Mapping[str, Any]
    """The template of the storage stack, in the long form of its functions."""
    grid: Mapping[str, Any]
    machines: MachineFiles
    nested: Mapping[str, str]
    """Templates that the grid stack reads from the site bucket, by their keys."""

    @property
    def held(self) -> dict[str, str]:
        """Resources that hold data, with their file systems."""
        return holders(self.spec, self.layout)

    @property
    def filesystems(self) -> frozenset[str]:
        """File systems that hold data on AWS, and outlive machines."""
        return frozenset(self.held.values())

    @property
    def costs(self) -> tuple[Cost, ...]:
        """The bill of the whole grid."""
        return bill(self.spec, self.layout, running=True)


def deployment(spec: GridSpec) -> Deployment:
    """Make it. Raises GridwrightError (INPUT) with everything that is wrong with the spec."""
    from gridwright.providers.aws.grid_template import grid_template
    from gridwright.providers.aws.machine_files import machine_files

    layout = aws_layout(spec)
    check_against_catalogue(spec)
    made = grid_template(spec, layout)
    grid = made.to_dict()
    keep(grid, spec)
    return Deployment(
        spec,
        layout,
        storage_body(spec, layout),
        _plain(grid),
        machine_files(spec, layout, None),
        {each.key: each.text for each in made.nested},
    )


def storage_body(
    spec: GridSpec,
    layout: AwsLayout,
    *,
    deletable: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The template of the storage stack, which carries the spec that it is made from."""
    from gridwright.providers.aws.storage_template import storage_template

    template = storage_template(spec, layout, deletable=deletable, without=without).to_dict()
    keep(template, spec)
    return _plain(template)


def _plain(template: Mapping[str, Any]) -> dict[str, Any]:
    """Without the classes of troposphere."""
    found: dict[str, Any] = json.loads(json.dumps(template))
    return found


def refuse_unknown(
    names: Collection[str], known: Collection[str], flag: str, what: str, otherwise: str
) -> None:
    """Raise GridwrightError for names that a flag gives and nothing has; `what` is said before each."""
    problems = [
        Problem(f"{what.format(name)}", flag, None, f"did you mean {near}?" if near else otherwise)
        for name in sorted(set(names) - set(known))
        for near in (nearest(name, known),)
    ]
    if problems:
        raise GridwrightError(*problems)
