"""Clusters of a site's own machines: servers that the spec names, and the nodes that mount from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.filesystems import kind_of
from gridwright.filesystems.shared_disks import ClusterMachine
from gridwright.setup.playbook import Provided
from gridwright.setup.playbook_yaml import playbook_yaml
from gridwright.spec.model import GridSpec

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
