"""Machines beside the nodes: in the same network with the same mounts, without the scheduler."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.errors import nearest
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.hosts import HostSet, expand_hosts, group_names
from gridwright.spec.provider import ProviderKind
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.spec.site_setup import GROUPS
from gridwright.units import Bytes
from gridwright.yamltext.fields import FieldError, Size
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import KEY, Refused

MOST_MACHINES = 16
"""In a group: each has so many addresses of its own, and one machine more moves no other."""
SMALLEST_DISK, LARGEST_DISK = Bytes(30 * 2**30), Bytes(16 * 2**40)
"""Room for a system, and the largest volume of type gp3 (Amazon EBS User Guide)."""
_RESERVED = (*GROUPS, "all", "ungrouped", "localhost", "login", "controller")
"""Groups of the inventory, of Ansible itself, and machines that other parts of a grid have."""
_MADE_ONCE = Update(Change.NEVER, "a machine keeps what it was made with; name a new group beside it")


def _address(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise FieldError(f"{show(value)} is no IPv4 address", "write one, such as 10.20.200.10") from None


def _disk(size: Bytes) -> Bytes:
    if not SMALLEST_DISK <= size <= LARGEST_DISK:
        near = min(max(size, SMALLEST_DISK), LARGEST_DISK)
        raise FieldError(f"{size} is no size for the disk of a machine", f"write {near}")
    return size


class MachineGroup(SpecModel):
    """Machines that are alike, and run no jobs."""

    count: Annotated[int, Update(Change.ROLLING, "machines are made or removed; no other is touched")] = (
        Field(
            default=1,
            ge=1,
            le=MOST_MACHINES,
            description="How many machines the group has. By default those that hosts names, or 1.",
        )
    )
    hosts: Annotated[HostSet | None, Update(Change.ROLLING, "machines join or leave one at a time")] = Field(
        default=None,
        description="Host names of a site's own machines, as ssh reaches them. With providers local and "
        "site only; others name machines by the group and a number.",
    )
    instance: Annotated[
        str | None,
        Update(Change.ROLLING, "a machine stops and starts with its disk; with replace it is replaced"),
    ] = Field(
        default=None,
        description="The instance type (aws) of each machine, such as r6i.2xlarge. Providers local and lab "
        "have none.",
    )
    mounts: Annotated[bool, Update(Change.REMOUNT, "what is mounted stays until it is unmounted by hand")] = (
        Field(
            default=True,
            description="Whether the machines mount the grid's shared file systems, as nodes do.",
        )
    )
    replace: Annotated[bool, _MADE_ONCE] = Field(
        default=False,
        description="Whether a machine that died is replaced by itself, as nodes are, with an empty disk "
        "(aws). By default it stays what it is: it stops and starts with its disk, and an alarm tells when "
        "it fails.",
    )
    disk: Annotated[
        Annotated[Size, AfterValidator(_disk)] | None,
        _MADE_ONCE,
    ] = Field(
        default=None,
        description="The size of the disk that a machine starts from (aws), such as 200 GiB: what it keeps "
        "lies there. By default 50 GiB.",
    )
    address: Annotated[
        Annotated[str, AfterValidator(_address), WithJsonSchema({"type": "string", "format": "ipv4"})] | None,
        _MADE_ONCE,
    ] = Field(
        default=None,
        description="The address of the first machine (aws), in the range of the nodes; the others follow. "
        f"By default each group has {MOST_MACHINES} addresses from the upper end of that range, in the order "
        "of the spec.",
    )

    def machine_names(self, group: str) -> list[str]:
        """The names of its machines: hosts as they are given, else the group's name and a number."""
        return group_names(group, self.hosts, self.count)


def counted(groups: Any) -> Any:  # noqa: ANN401 - plain data
    """Groups whose hosts are named have as many machines as that."""
    if not isinstance(groups, Mapping):
        return groups
    return {
        name: {**group, "count": len(names)}
        if isinstance(group, Mapping) and "count" not in group and (names := _hosts(group)) is not None
        else group
        for name, group in groups.items()
    }


def machine_problems(data: Mapping[str, Any], provider: ProviderKind | None) -> Iterator[Refused]:
    """What is wrong between groups of machines and the rest of a spec."""
    groups = data.get("machines")
    if not isinstance(groups, Mapping) or not groups or provider is None:
        return
    if not provider.has_machines:
        yield (
            ("machines", KEY),
            FieldError(
                f"provider {provider.name} has no machines beside its nodes",
                "remove the section, or write provider: aws",
            ),
        )
        return
    scheduler = scheduler_kind_in(data)
    if provider.is_this_machine and scheduler is not None and scheduler.spec_model.runs_on_one_machine:
        yield (
            ("machines", KEY),
            FieldError(
                "the grid is this machine alone, and jobs of the local scheduler run on no other",
                "remove the section, or name nodes under hosts, with scheduler: {type: slurm} or {type: ssh}",
            ),
        )
        return
    others = dict.fromkeys(_names(data, "nodes"), "nodes")
    others |= dict.fromkeys(_names(data, "filesystems"), "file systems")
    taken = _node_names(data)
    for name, group in groups.items():
        if name in _RESERVED:
            yield (
                ("machines", name, KEY),
                FieldError(f"{name} has a meaning of its own", "give the group another name, such as meta"),
            )
        elif name in others:
            yield (
                ("machines", name, KEY),
                FieldError(f"{name} is a name among {others[name]}, too", "give the group another name"),
            )
        if not isinstance(group, Mapping):
            continue
        yield from _of_provider(str(name), group, provider)
        if name not in (*_RESERVED, *others):
            yield from _double(str(name), group, taken)


def _of_provider(name: str, group: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    """Fields that a provider needs, and those that it has no use for."""
    path = ("machines", name)
    if provider.is_cloud and "instance" not in group:
        yield path, "instance"
    for field in () if provider.is_cloud else ("instance", "replace", "disk", "address"):
        # A spec that is kept has defaults in it, and false is one.
        if group.get(field) not in (None, False):
            yield (
                (*path, field),
                FieldError(f"provider {provider.name} makes no such machines", "remove the line"),
            )
    if "hosts" in group and provider.names_its_nodes:
        yield (
            (*path, "hosts"),
            FieldError(f"provider {provider.name} names its machines itself", "remove the line"),
        )
    named = _hosts(group)
    if named is None and not provider.names_its_nodes:
        yield path, "hosts"
    if named is not None and isinstance(group.get("count"), int) and group["count"] != len(named):
        yield (
            (*path, "count"),
            FieldError(f"hosts names {len(named)} machines, and count is {group['count']}", "remove it"),
        )


def _double(name: str, group: Mapping[str, Any], taken: dict[str, str]) -> Iterator[Refused]:
    count = group.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_MACHINES:
        return
    names = _hosts(group) or [f"{name}{number}" for number in range(1, count + 1)]
    twice = next((each for each in names if taken.setdefault(each, name) != name), None)
    if twice is not None:
        path = ("machines", name, "hosts") if "hosts" in group else ("machines", name, KEY)
        yield path, FieldError(f"{twice} is a machine of {taken[twice]}, too", "give each a name of its own")


def only_on_problems(data: Mapping[str, Any]) -> Iterator[Refused]:
    """Groups, of the site's roles, that the grid does not have."""
    section = data.get("setup")
    only_on = section.get("only_on") if isinstance(section, Mapping) else None
    known = [*GROUPS, *_names(data, "machines")]
    for role, groups in only_on.items() if isinstance(only_on, Mapping) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            if isinstance(group, str) and group not in known:
                near = nearest(group, known)
                hint = f"did you mean {near}? " if near else ""
                yield (
                    ("setup", "only_on", str(role), str(number)),
                    FieldError(f"{show(group)} is no group of machines", f"{hint}groups: {', '.join(known)}"),
                )


def inventory_group(group: str) -> str:
    """The name of a group in an inventory of Ansible, which takes no hyphen."""
    return re.sub("-", "_", group)


def _names(data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key)
    return [str(name) for name in value] if isinstance(value, Mapping) else []


def _node_names(data: Mapping[str, Any]) -> dict[str, str]:
    """Names of nodes, with their group."""
    nodes = data.get("nodes")
    node_names: dict[str, str] = {}
    for name, group in nodes.items() if isinstance(nodes, Mapping) else ():
        if isinstance(group, Mapping):
            count = group.get("count", 1)
            number = count if isinstance(count, int) and 0 < count < 10_000 else 0
            for host in _hosts(group) or [f"{name}{one}" for one in range(1, number + 1)]:
                node_names[host] = f"nodes {name}"
    return node_names


def _hosts(group: Mapping[str, Any]) -> list[str] | None:
    """The hosts that a group names; None where it names none, or none that can be read."""
    hosts = group.get("hosts")
    if not isinstance(hosts, str):
        return None
    try:
        return expand_hosts(hosts.strip())
    except FieldError:
        return None
