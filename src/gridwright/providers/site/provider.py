"""Provider site: a grid whose machines and scheduler are there, and are the site's own.

What only a site's own grid has: where its head node is, and who logs in.

Clusters of a site's own machines: servers that the spec names, and the nodes that mount from them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from pydantic import Field

from gridwright.errors import input_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.shared_disks import ClusterMachine
from gridwright.providers.provider import Provider
from gridwright.setup.playbook import Provided
from gridwright.setup.playbook_yaml import playbook_yaml
from gridwright.spec.fields import Change, HostName, SpecModel, Update
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import ProviderSection
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.together import KEY, Refused

if TYPE_CHECKING:
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.rendering import Rendering
    from gridwright.providers.site.status import SiteStatus
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.setup.playbook import Hosts


_NO_MOUNTS = """\
# Servers of file systems mount no others.
---
"""


def server_names(spec: GridSpec) -> tuple[str, ...]:
    """Machines that serve file systems of the grid, each once."""
    found: dict[str, None] = {}
    for each in spec.filesystems.values():
        servers = kind_of(each).named_servers(each)
        found |= dict.fromkeys(one.name for one in servers.machines) if servers else {}
    return tuple(found)


def cluster_documents(spec: GridSpec) -> list[dict[str, Any]]:
    """What the role that makes clusters has to know of each: name, the machine that makes it, what it is."""
    found = []
    for name, each in spec.filesystems.items():
        kind = kind_of(each)
        servers = kind.named_servers(each)
        if servers is None:
            continue
        members = [*servers.machines, *_clients(spec)]
        if not members:
            continue
        document = kind.cluster_document(spec.name, name, each, members, servers.disks)
        if document is not None:
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
        from gridwright.schedulers.head_node import LocalHeadNode
        from gridwright.schedulers.ssh_head import SshHead

        site = spec.section(SiteSection) or SiteSection()
        if site.head is None or site.head in ("localhost", socket.gethostname(), _short_name()):
            return LocalHeadNode()
        return SshHead(site.head, site.head, through=site.login, user=site.user)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """Its nodes, and the servers of file systems that the spec names."""
        from gridwright.setup.playbook import Hosts

        own, servers = super().hosts(spec, machine), server_names(spec)
        return Hosts(groups={**own.groups, "storage": {name: {} for name in servers}}) if servers else own

    def render(self, spec: GridSpec, machine: HostMachine, release: str | None) -> Rendering:
        """The playbook for nodes and servers, without anything of the scheduler: that one is the site's."""
        from gridwright.providers.rendering import render_playbook
        from gridwright.schedulers.set_up import SchedulerSetup

        setup = SchedulerSetup()
        hosts = self.hosts(spec, machine.hardware.name)
        return render_playbook(spec, setup, hosts, self.notes(spec, setup), provided(spec))

    def status(self, spec: GridSpec) -> SiteStatus:
        """Its nodes, and the rules of its scheduler, as they are now."""
        from gridwright.providers.site.status import site_status

        return site_status(spec, self.head_node(spec))

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): its machines are neither made nor removed."""
        raise input_error(
            f"the machines of grid {spec.name} are the site's: nothing is for {verb} to do",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright status, setup, doctor and prove work as it is",
        )


_NAMES = "write hosts, such as c[001-016], or count, and the scheduler is asked for as many"


def _short_name() -> str:
    return socket.gethostname().partition(".")[0]


SITE = SiteProvider()
