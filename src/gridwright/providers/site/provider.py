"""Provider site: a grid whose machines and scheduler are there, and are the site's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from pydantic import Field

from gridwright.errors import input_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition
from gridwright.filesystems.kind import ClusterMachine, NamedServers, SharedDiskCluster
from gridwright.filesystems.provided import requested
from gridwright.providers.filesystem_status import (
    FileSystemStanding,
    client_statuses,
    status_lines,
    status_table,
)
from gridwright.providers.provider import Provider
from gridwright.report.figures import duration
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.report.terminal.frame import text_of
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.job import NodeState
from gridwright.schedulers.scheduler import AccountPolicy, QueuePolicy, SchedulerPolicies
from gridwright.setup.playbook import Hosts, Provided, playbook_yaml
from gridwright.spec.fields import Change, HostName, SpecModel, Update
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import ProviderSection
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.structure import KEY, Refused

if TYPE_CHECKING:
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.rendering import Rendering


# How a site's grid stands: its nodes and the rules of its scheduler, and the tables of these.


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A grid of a site's own."""

    grid: str
    head: str
    nodes: Sequence[NodeState]
    missing: Sequence[str]
    """Nodes of the spec that the scheduler does not know."""
    policies: SchedulerPolicies | None
    filesystems: Sequence[FileSystemStanding] = ()
    state: str = "up"

    @property
    def whole(self) -> bool:
        """Whether its scheduler uses every node, its accounting answers, and no file system fails."""
        told = self.policies is None or self.policies.accounting_silent is None
        serve = all(each.condition is not Condition.BROKEN for each in self.filesystems)
        return told and serve and not self.missing and all(node.up or node.asleep for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "state": self.state,
            "whole": self.whole,
            "head": self.head,
            "nodes": [asdict(node) for node in self.nodes],
            "missing": list(self.missing),
            "policies": None if self.policies is None else asdict(self.policies),
            "filesystems": [asdict(each) for each in self.filesystems],
        }

    def text(self) -> str:
        """Nodes that are alike in one line, then queues, classes of service and accounts."""
        lines = [f"grid {self.grid}: {len(self.nodes)} nodes, head node {self.head}"]
        lines.append(text_of(*_tables(self)).rstrip("\n"))
        lines += status_lines(self.filesystems)
        if self.missing:
            lines.append(f"not known to the scheduler: {fold_hosts(self.missing)}")
        if self.policies is not None and self.policies.accounting_silent is not None:
            lines.append(f"accounts and limits are not known: {self.policies.accounting_silent}")
        elif self.policies is not None and (self.policies.qos or self.policies.accounts):
            kept = ", ".join(self.policies.enforced)
            lines.append(f"jobs are held to: {kept}" if kept else "jobs are held to none of these limits")
        return "\n".join(lines)


def site_status(spec: GridSpec, head: HeadNode) -> SiteStatus:
    """Ask the scheduler, and its head node for file systems, within ANSWER_S.

    Raises GridwrightError (ENVIRONMENT) where the scheduler does not answer.
    """
    filesystems = client_statuses(spec, head.run, head.name)
    if not spec.scheduler.has_queue:
        names = [name for group, each in spec.nodes.items() for name in each.node_names(group)]
        unknown = [_unasked(name) for name in names]
        return SiteStatus(spec.name, head.name, unknown, (), None, filesystems)
    kind = scheduler_kind(spec.scheduler)
    found = kind.nodes(spec, head)
    if not spec.names_hosts:
        return SiteStatus(spec.name, head.name, found, (), kind.policies(spec, head), filesystems)
    desired = {name for group, each in spec.nodes.items() for name in each.node_names(group)}
    own = [node for node in found if node.name in desired]
    missing = sorted(desired - {node.name for node in found})
    return SiteStatus(spec.name, head.name, own, missing, kind.policies(spec, head), filesystems)


def _unasked(name: str) -> NodeState:
    """A node that no scheduler tells of."""
    return NodeState(
        name=name, up=True, state="not asked", cores=0, memory_bytes=0, free_cores=0, free_memory_bytes=0
    )


def _tables(status: SiteStatus) -> Iterator[Table]:
    rows = []
    alike: dict[tuple[str, int, int], list[NodeState]] = {}
    for node in status.nodes:
        alike.setdefault((node.standing, node.cores, node.memory_bytes), []).append(node)
    for (standing, cores, memory), group in alike.items():
        free = sum(node.free_cores for node in group)
        names = fold_hosts(node.name for node in group)
        rows.append((names, standing, str(cores), f"{memory / 2**30:.0f} GiB", str(free)))
    yield rows_table("Nodes", columns_of(["nodes", "state"], ["cores", "memory", "free cores"]), rows)
    yield from status_table(status.filesystems)
    if status.policies is not None:
        yield from _rules(status.policies)


def _rules(policies: SchedulerPolicies) -> Iterator[Table]:
    yield rows_table(
        f"Queues of {policies.cluster or 'the site'} ({policies.scheduler})",
        columns_of(["queue", "nodes", "for", "QOS", "limits"], ["cores", "longest", "priority"]),
        map(_queue_row, policies.queues),
    )
    if policies.qos:
        columns = columns_of(["QOS", "limits", "preempts"], ["priority"])
        rows = (
            (qos.name, _in_words(qos.limits), qos.preempts or "", str(qos.priority)) for qos in policies.qos
        )
        yield rows_table("Classes of service", columns, rows)
    if policies.accounts:
        columns = columns_of(["account", "of", "users", "QOS", "limits"], ["share", "used", "level"])
        yield rows_table("Accounts", columns, map(_account_row, policies.accounts))


def _queue_row(queue: QueuePolicy) -> tuple[str, ...]:
    name = f"{queue.name} (default)" if queue.default else queue.name
    return (
        name if queue.open else f"{name}, closed",
        queue.nodes,
        queue.accounts or "all",
        queue.qos or "",
        _in_words(queue.limits),
        str(queue.cores),
        "no limit" if queue.longest_s is None else duration(queue.longest_s),
        "" if queue.priority is None else str(queue.priority),
    )


def _account_row(account: AccountPolicy) -> tuple[str, ...]:
    own = [f"{user}: {_in_words(limits)}" for user, limits in account.user_limits.items()]
    return (
        account.name,
        account.parent or "",
        ", ".join(account.users),
        ", ".join(account.qos),
        "; ".join([*([_in_words(account.limits)] if account.limits else []), *own]),
        account.share or "",
        "" if account.usage is None else f"{account.usage:.0%}",
        "" if account.fair_share is None else f"{account.fair_share:.2f}",
    )


def _in_words(limits: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.items())


_NO_MOUNTS = """\
# Servers of file systems mount no others.
---
"""


def server_names(spec: GridSpec) -> tuple[str, ...]:
    """Machines that serve file systems of the grid, each once."""
    found: dict[str, None] = {}
    for servers in requested(spec, NamedServers).values():
        found |= dict.fromkeys(one.name for one in servers.machines)
    return tuple(found)


def cluster_documents(spec: GridSpec) -> list[dict[str, Any]]:
    """What the role that makes clusters has to know of each: name, the machine that makes it, what it is."""
    found = []
    for name, servers in requested(spec, NamedServers).items():
        filesystem = spec.filesystems[name]
        kind = kind_of(filesystem)
        members = [*servers.machines, *_clients(spec)]
        if members and isinstance(kind, SharedDiskCluster):
            document = kind.cluster_document(spec.name, name, filesystem, members, servers.disks)
            found.append({"name": name, "first": members[0].name, "document": document})
    return found


def _clients(spec: GridSpec) -> Iterator[ClusterMachine]:
    """Nodes that run jobs, and machines beside them that mount what they mount."""
    for name, group in spec.nodes.items():
        memory = None if group.memory is None else int(group.memory)
        for node in group.node_names(name) if group.hosts is not None else ():
            yield ClusterMachine(name=node, address=node, is_server=False, memory_bytes=memory)
    for name, machines in spec.machines.items():
        for node in machines.machine_names(name) if machines.mounts else ():
            yield ClusterMachine(name=node, address=node, is_server=False)


def provided(spec: GridSpec) -> Provided:
    """What the playbook has beside that of nodes, where the spec names servers."""
    clusters = cluster_documents(spec)
    if not clusters:
        return Provided()
    files: Mapping[str, str | bytes] = {
        "group_vars/storage.yml": _NO_MOUNTS + playbook_yaml({"gridwright_mounts": []})
    }
    return Provided(files=files, variables={"gridwright_clusters": clusters})


_REACHED = Update(Change.LIVE, "the next command goes there")
UserName = Annotated[
    str, matching(r"^[a-z_][a-z0-9_.@-]{0,62}\$?$", "the name of an account", "one, such as admin")
]


class SiteSection(SpecModel):
    """How the machines of a site are reached."""

    head: Annotated[HostName | None, _REACHED] = Field(
        default=None,
        description="The machine that has the scheduler's commands, as ssh reaches it. By default the one "
        "that Gridwright runs on, such as a login node.",
    )
    login: Annotated[HostName | None, _REACHED] = Field(
        default=None,
        description="The machine that ssh goes through to head and nodes, where these are out of reach.",
    )
    user: Annotated[UserName | None, _REACHED] = Field(
        default=None, description="The account that ssh logs in as, everywhere. By default whoever ssh takes."
    )


class SiteProvider(Provider):
    """See Provider. Its scheduler is looked at and given jobs; it is never set up or changed."""

    name = "site"
    section = ProviderSection(
        SiteSection, "What only provider site has.", Update(Change.LIVE, "the next command goes there")
    )
    metadata_service = None
    """Its machines are the site's: where they are in a cloud, it gives the variable `gridwright_metadata`."""
    has_machines = True
    names_its_nodes = False
    names_servers = True

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """Nodes have names or are counted, and something knows them."""
        scheduler = scheduler_kind_in(data)
        if scheduler is not None and scheduler.spec_model.runs_on_one_machine:
            at = ("scheduler",) if "scheduler" in data else ("provider",)
            yield (
                at,
                FieldError(
                    "the local scheduler is for the machine that Gridwright runs on",
                    "write scheduler: {type: slurm}, or {type: ssh} where there is none",
                ),
            )
        groups = data.get("nodes")
        for name, group in groups.items() if isinstance(groups, Mapping) else ():
            if isinstance(group, Mapping) and not {"hosts", "count"} & group.keys():
                yield ("nodes", name, KEY), FieldError("nobody says which nodes these are", _NAMES)
        section = data.get("site")
        if isinstance(section, Mapping) and "login" in section and "head" not in section:
            yield (
                ("site", "login"),
                FieldError("a login node leads to a head node, and none is named", "write head, too"),
            )

    def head_node(self, spec: GridSpec) -> HeadNode:
        """The machine that the spec names, by ssh; else the one that a command runs on."""
        from gridwright.schedulers.ssh_head import SshHead

        site = spec.section(SiteSection) or SiteSection()
        if site.head is None or site.head in ("localhost", socket.gethostname(), _short_name()):
            return LocalHeadNode()
        return SshHead(site.head, site.head, through=site.login, user=site.user)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """Its nodes, and the servers of file systems that the spec names."""
        own, servers = super().hosts(spec, machine), server_names(spec)
        return Hosts(groups={**own.groups, "storage": {name: {} for name in servers}}) if servers else own

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """The playbook for nodes and servers, without anything of the scheduler: that one is the site's."""
        from gridwright.providers.rendering import render_playbook
        from gridwright.schedulers.machines import SchedulerSetup

        setup = SchedulerSetup()
        hosts = self.hosts(spec, machine.hardware.name)
        return render_playbook(spec, setup, hosts, self.notes(spec, setup), provided(spec))

    def status(self, spec: GridSpec) -> SiteStatus:
        """Its nodes, and the rules of its scheduler, as they are now."""
        return site_status(spec, self.head_node(spec))

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): its machines are neither made nor removed."""
        raise input_error(
            f"the machines of grid {spec.name} are the site's: {verb} is for grids that up makes",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright status, setup, doctor and prove work as it is",
        )


_NAMES = "write hosts, such as c[001-016], or count, and the scheduler is asked for as many"


def _short_name() -> str:
    return socket.gethostname().partition(".")[0]


SITE = SiteProvider()
