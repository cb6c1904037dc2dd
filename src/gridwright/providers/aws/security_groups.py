"""Security groups by role, with the ports that are needed and no more.

Inwards, a rule names the group that may come and one range of ports; the only rule with a range of addresses
from outside is ssh to the login node, from those of `aws.ssh_from`. The papers' groups, open to all, are not
copied.

Outwards, a machine may reach everything within the network, where the rules inwards of the other side
decide, and the web beyond it: HTTPS for the interfaces of AWS, HTTP and NTP for package repositories and
clocks, where there is no proxy; the proxy's own port where there is one; what `aws.egress` says, but for
servers of file systems. S3 and DynamoDB are reached on
HTTPS, too, and have public addresses though the way to them does not leave AWS. Name service and time of AWS
pass no security group.

Commands that work across nodes (srun, iotest) listen on a port that the kernel gives them: `EPHEMERAL`,
which only machines of the grid can reach.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from troposphere import AWSObject, Output, Ref, Tags, ec2

from gridwright.filesystems import kind_of
from gridwright.filesystems.ports import LNET
from gridwright.providers.aws.disk_pairs import paired_servers
from gridwright.providers.aws.exports import exported
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import Export, logical_id, tags
from gridwright.providers.aws.network import vpc_of
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.shared_disks import shared_disk_file_systems
from gridwright.schedulers import kind_of as kind_of_scheduler
from gridwright.schedulers.network import GridPart
from gridwright.services.ports import EPHEMERAL, Ports
from gridwright.spec.model import GridSpec

_EVERYWHERE = "0.0.0.0/0"


class Group(StrEnum):
    """Security groups, by their logical IDs; all but the last are exported under these names."""

    LOGIN = Export.LOGIN_GROUP
    HEAD = Export.HEAD_GROUP
    COMPUTE = Export.COMPUTE_GROUP
    STORAGE = Export.STORAGE_GROUP
    """Servers of file systems of one's own."""
    FSX = "FsxGroup"
    """FSx for Lustre."""

    @property
    def role(self) -> str:
        """What is in it."""
        return self.removesuffix("Group").lower()


CLIENTS = (Group.LOGIN, Group.HEAD, Group.COMPUTE)
"""Who mounts file systems, beside machines that do."""


SSH = Ports("Ssh", 22, 22)
ALL = Ports("All", -1, -1, "-1")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One rule inwards: who may reach whom on which ports, and why."""

    group: str
    """Logical ID of a security group, as of each of Group."""
    source: str | ipaddress.IPv4Network
    ports: Ports
    why: str

    @property
    def logical_id(self) -> str:
        """Made of what cannot change without another rule, so that an order of rules means nothing."""
        if isinstance(self.source, str):
            source = self.source.removesuffix("Group")
        else:
            source = re.sub(r"\.", "x", f"{self.source.network_address}") + f"p{self.source.prefixlen}"
        return f"{self.group.removesuffix('Group')}From{source}{self.ports.name}"


def security_groups(spec: GridSpec, layout: AwsLayout, filesystems: Iterable[str]) -> Iterator[AWSObject]:
    """Groups and rules, for these file systems of the spec."""
    present = [spec.filesystems[name] for name in filesystems]
    fsx = any(kind_of(each).managed_lustre(each) is not None for each in present)
    roles = {str(group): group.role for group in Group if group is not Group.FSX or fsx}
    for group, role in {**roles, **{machines_group(name): name for name in spec.machines}}.items():
        yield ec2.SecurityGroup(
            group,
            GroupDescription=f"{role} of grid {spec.name}",
            VpcId=vpc_of(layout),
            SecurityGroupEgress=_outwards(spec, layout, group),
            Tags=Tags(tags(spec, role=role) | {"Name": f"{spec.name} {role}"}),
        )
    for rule in once(rules(spec, layout, fsx=fsx)):
        yield _ingress(rule)
    if layout.aws.efa:
        yield ec2.SecurityGroupEgress(
            "ComputeToComputeAll",
            GroupId=Ref(Group.COMPUTE),
            DestinationSecurityGroupId=Ref(Group.COMPUTE),
            IpProtocol=ALL.protocol,
            Description=_EFA,
        )


def group_outputs(spec: GridSpec) -> Iterator[Output]:
    """The groups that machines of the grid stack are in."""
    for group in Group:
        if group is not Group.FSX:
            yield exported(spec, group, Ref(group), f"Security group of role {group.role}.")
    for name in spec.machines:
        own = machines_group(name)
        yield exported(spec, own, Ref(own), f"Security group of machines {name}.")


def groups_of_site(layout: AwsLayout, machine: Machine) -> list[str]:
    """Security groups of the site that a machine is in beside the grid's own."""
    vpc = layout.aws.vpc
    if machine.role.serves_files:
        name = "storage"
    else:
        name = machine.group if machine.role is Role.MACHINE else str(machine.role)
    return list(vpc.security_groups.get(name, ())) if vpc is not None else []


def machines_group(name: str) -> str:
    """Logical ID of the security group of a group of machines beside the nodes; it is exported alike."""
    return logical_id(name) + "MachinesGroup"


def group_of(name: str, spec: GridSpec) -> str:
    """Logical ID of the security group by the name that `aws.ingress` has for it, a role or a group."""
    return machines_group(name) if name in spec.machines else f"{name.capitalize()}Group"


_EFA = "Elastic Fabric Adapter: all traffic among nodes"


def rules(spec: GridSpec, layout: AwsLayout, *, fsx: bool) -> Iterator[Allowed]:
    """All rules inwards; `fsx` where there is an FSx for Lustre."""
    for each in dict.fromkeys(layout.aws.ssh_from):
        yield Allowed(Group.LOGIN, ipaddress.IPv4Network(each), SSH, "ssh of users to the login node")
    yield from _administration(spec)
    yield from _scheduler(spec)
    yield from _as_ingress_says(spec, layout)
    if layout.aws.efa:
        yield Allowed(Group.COMPUTE, Group.COMPUTE, ALL, _EFA)
    if built_lustres(spec):
        yield from _lustre(spec, Group.STORAGE)
    if fsx:
        yield from _lustre(spec, Group.FSX)
    yield from _clusters(spec)


def once(found: Iterable[Allowed]) -> Iterator[Allowed]:
    """Rules without those that open what another one opens: AWS refuses the same rule twice.

    ssh is asked for by administrators, and by commands of a cluster.
    """
    seen = set()
    for each in found:
        what = (each.group, each.source, each.ports.protocol, each.ports.first, each.ports.last)
        if what not in seen:
            seen.add(what)
            yield each


def _administration(spec: GridSpec) -> Iterator[Allowed]:
    machines = [machines_group(name) for name in spec.machines]
    for group in (Group.HEAD, Group.COMPUTE, Group.STORAGE, *machines):
        yield Allowed(group, Group.LOGIN, SSH, "ssh from the login node")
    for group in (Group.COMPUTE, Group.STORAGE, *machines):
        yield Allowed(group, Group.HEAD, SSH, "ssh from the head node: setup, doctor and tests")
    why = "answers to commands that work across nodes"
    for group in (Group.LOGIN, Group.HEAD):
        yield Allowed(group, Group.COMPUTE, EPHEMERAL, why)


def _scheduler(spec: GridSpec) -> Iterator[Allowed]:
    groups = {GridPart.LOGIN: Group.LOGIN, GridPart.HEAD: Group.HEAD, GridPart.COMPUTE: Group.COMPUTE}
    for rule in kind_of_scheduler(spec.scheduler).network_rules(spec):
        yield Allowed(groups[rule.target], groups[rule.source], rule.ports, rule.why)


def _as_ingress_says(spec: GridSpec, layout: AwsLayout) -> Iterator[Allowed]:
    for each in layout.aws.ingress:
        first, last = each.bounds
        named = "/" not in each.source
        source = group_of(each.source, spec) if named else ipaddress.IPv4Network(each.source)
        ports = Ports(f"Site{each.protocol.capitalize()}{first}to{last}", first, last, each.protocol)
        yield Allowed(group_of(each.role, spec), source, ports, "as aws.ingress of the grid spec says")


def _lustre(spec: GridSpec, servers: Group) -> Iterator[Allowed]:
    mounting = [machines_group(name) for name, group in spec.machines.items() if group.mounts]
    for ports in LNET:
        yield Allowed(servers, servers, ports, "Lustre servers among themselves")
        for client in (*CLIENTS, *mounting):
            yield Allowed(servers, client, ports, "Lustre clients to servers")
            yield Allowed(client, servers, ports, "Lustre servers to clients: locks are called back")


def _clusters(spec: GridSpec) -> Iterator[Allowed]:
    """Members of a cluster reach each other: servers, where the grid has them, and clients."""
    members = [*CLIENTS, *(machines_group(name) for name, group in spec.machines.items() if group.mounts)]
    if paired_servers(spec):
        members.append(Group.STORAGE)
    ports = dict.fromkeys(each for one in shared_disk_file_systems(spec).values() for each in one.ports)
    for each in ports:
        for to in members:
            for source in members:
                yield Allowed(to, source, each, "members of a file system's cluster among themselves")


def _ingress(rule: Allowed) -> ec2.SecurityGroupIngress:
    source: dict[str, object]
    if isinstance(rule.source, str):
        source = {"SourceSecurityGroupId": Ref(rule.source)}
    else:
        source = {"CidrIp": str(rule.source)}
    ports = {} if rule.ports is ALL else {"FromPort": rule.ports.first, "ToPort": rule.ports.last}
    return ec2.SecurityGroupIngress(
        rule.logical_id,
        GroupId=Ref(rule.group),
        IpProtocol=rule.ports.protocol,
        Description=rule.why,
        **source,
        **ports,
    )


def _proxy(address: str) -> tuple[str, int]:
    """Host and port; the spec has checked that both are there."""
    host, _, port = address.rstrip("/").rpartition("/")[2].rpartition(":")
    return host, int(port)


def _outwards(spec: GridSpec, layout: AwsLayout, group: str) -> list[ec2.SecurityGroupRule]:
    beyond = [] if group == Group.FSX else [*_web(layout)]
    if group not in (Group.FSX, Group.STORAGE):
        beyond += [*_servers_elsewhere(spec), *_as_the_site_says(layout)]
    # AWS refuses the same rule twice, as of two NFS servers that are given by name.
    once = {
        (each.ports.protocol, each.ports.first, each.ports.last, each.to): each for each in reversed(beyond)
    }
    return [
        *(
            ec2.SecurityGroupRule(
                IpProtocol="-1", CidrIp=str(each), Description="within the network, as others let in"
            )
            for each in layout.networks
        ),
        *(
            ec2.SecurityGroupRule(
                IpProtocol=each.ports.protocol,
                FromPort=each.ports.first,
                ToPort=each.ports.last,
                CidrIp=each.to,
                Description=each.why,
            )
            for each in reversed(once.values())
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Outwards:
    ports: Ports
    why: str
    to: str = _EVERYWHERE


def _web(layout: AwsLayout) -> Iterator[_Outwards]:
    yield _Outwards(Ports("Https", 443, 443), "interfaces of AWS and package repositories")
    if layout.aws.proxy is None:
        yield _Outwards(Ports("Http", 80, 80), "package repositories")
        yield _Outwards(Ports("Ntp", 123, 123, "udp"), "time")
        return
    host, port = _proxy(layout.aws.proxy)
    # The same rule where it is the same port: a group of ports is known by its name, too.
    name = "Https" if port == 443 else "Proxy"
    yield _Outwards(Ports(name, port, port), "the proxy of the site", _only(host))


def _servers_elsewhere(spec: GridSpec) -> Iterator[_Outwards]:
    """File servers that the spec names and the grid does not have; the way there is the site's."""
    for each in spec.filesystems.values():
        for server in kind_of(each).servers_elsewhere(each):
            yield _Outwards(server.ports, server.why, _only(server.host) if server.host else _EVERYWHERE)


def _as_the_site_says(layout: AwsLayout) -> Iterator[_Outwards]:
    for each in layout.aws.egress:
        ports = Ports("Egress", *each.bounds, each.protocol)
        yield _Outwards(ports, "as aws.egress of the grid spec says", each.to)


def _only(host: str) -> str:
    """The one address, where it is one; a name may be any."""
    try:
        return f"{ipaddress.IPv4Address(host)}/32"
    except ValueError:
        return _EVERYWHERE
