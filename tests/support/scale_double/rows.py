"""What commands that list print with -Y; columns are those of real output (looked up 2026-11-27)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gridwright.filesystems.scale.administration.observed import encoded
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.files import FileSystem
from tests.support.scale_double.nfs import ces_tables
from tests.support.scale_double.words import Refused

_Row = Mapping[str, str]
PLAIN = ("mmlspolicy", "mmlscallback")
"""Commands whose rows of -Y nobody has published; what they print for people is in IBM's manual."""
LISTING = (
    *("mmlscluster", "mmgetstate", "mmlslicense", "mmlsnodeclass", "mmlsnsd", "mmlsconfig", "mmlsmount"),
    *("mmlsdisk", "mmlsfileset", "mmlsfs", *PLAIN),
)


def listed(cluster: Cluster, command: str, words: Sequence[str]) -> tuple[int, str]:
    """The exit status, and what a command prints. Raises Refused."""
    if words[-1] != "-Y":
        raise Refused(f"the double knows {command} with -Y alone")
    if not cluster.name or not cluster.cluster_at(cluster.node_here):
        raise Refused(f"{command}: This node does not belong to a GPFS cluster.")
    cluster.refuse_without_configuration(command)
    made = {
        "mmlscluster": _cluster,
        "mmgetstate": _states,
        "mmlslicense": _licences,
        "mmlsnodeclass": _classes,
        "mmlsnsd": _nsds,
        "mmlsconfig": _settings,
        "mmlsmount": _mounts,
        "mmlsdisk": _disks,
        "mmlsfileset": _filesets,
        "mmlsfs": _made_with,
    }[command]
    text = "".join(_rows(command, kind, rows) for kind, rows in made(cluster, words))
    # As mmdsh has it: a silent node is a failure, and the others are told all the same.
    silent = command == "mmgetstate" and any(not each.alive for each in cluster.nodes.values())
    return (1 if silent else 0), text


def _rows(command: str, kind: str, rows: Iterable[_Row]) -> str:
    known = list(rows)
    if not known:
        return ""
    head = f"{command}:{kind}:HEADER:version:reserved:reserved:{':'.join(known[0])}:\n"
    return head + "".join(
        f"{command}:{kind}:0:1:::{':'.join(map(encoded, each.values()))}:\n" for each in known
    )


_Tables = Iterable[tuple[str, Iterable[_Row]]]


def _full(name: str) -> str:
    """Some commands print names with their domain."""
    return f"{name}.example.com"


def _cluster(cluster: Cluster, words: Sequence[str]) -> _Tables:
    if "--ces" in words:
        yield from ces_tables(cluster)
        return
    yield "clusterSummary", [{"clusterName": cluster.full_name, "clusterId": "1", "repositoryType": "CCR"}]
    rows = []
    for number, (name, node) in enumerate(cluster.nodes.items(), start=1):
        roles = ["quorum"] if node.quorum else []
        roles += ["manager"] if node.manager else []
        designation = {"quorummanager": "quorumManager"}.get("".join(roles), "".join(roles))
        row = {"nodeNumber": str(number), "daemonNodeName": _full(name), "ipAddress": ""}
        rows.append({**row, "adminNodeName": _full(name), "designation": designation, "otherNodeRoles": "Z"})
    yield "clusterNode", rows


def _states(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield (
        "",
        [
            {"nodeName": name, "nodeNumber": str(number), "state": cluster.state_of(name), "quorum": "1"}
            for number, name in enumerate(cluster.nodes, start=1)
        ],
    )


def _licences(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield (
        "",
        [
            {"nodeName": _full(name), "requiredLicense": "client", "designatedLicense": each.licence}
            for name, each in cluster.nodes.items()
        ],
    )


def _classes(cluster: Cluster, _: Sequence[str]) -> _Tables:
    if not cluster.classes:
        raise Refused("mmlsnodeclass: No user-defined node classes were found.")
    yield (
        "nodeClasses",
        [
            {"nodeClass": name, "memberClasses": "", "memberNodes": ",".join(map(_full, each))}
            for name, each in cluster.classes.items()
        ],
    )


def _nsds(cluster: Cluster, words: Sequence[str]) -> _Tables:
    if not cluster.nsds:
        raise Refused("mmlsnsd: No disks were found.")
    if "-X" in words:
        yield "nsd", list(_paths(cluster))
        return
    yield (
        "nsd",
        [
            {
                "fileSystem": each.filesystem or "(free disk)",
                "diskName": name,
                "volumeId": f"0A0A{number:012X}",
                "serverList": ",".join(map(_full, each.servers)),
            }
            for number, (name, each) in enumerate(cluster.nsds.items(), start=1)
        ],
    )


def _paths(cluster: Cluster) -> Iterable[_Row]:
    """What each server that answers sees of its disks."""
    for name, each in cluster.nsds.items():
        for server in each.servers:
            if cluster.nodes[server].alive:
                there = cluster.read_device(server, each.device) is not None
                yield {
                    "fileSystem": each.filesystem or "(free disk)",
                    "diskName": name,
                    "volumeId": "0A0A",
                    "serverList": _full(server),
                    "deviceType": "generic" if there else "-",
                    "localDiskName": each.device if there else "-",
                    "remarks": "server node" if there else "(not found) server node",
                }


def _settings(cluster: Cluster, _: Sequence[str]) -> _Tables:
    rows = [{"configParameter": "clusterName", "value": cluster.full_name, "nodeList": ""}]
    for key, value in cluster.settings.items():
        name, _, where = key.partition("@")
        rows.append({"configParameter": name, "value": value, "nodeList": where})
    yield "", rows


def _mounts(cluster: Cluster, words: Sequence[str]) -> _Tables:
    there = cluster.filesystems.get(words[0])
    if words[0] in cluster.remote_filesystems:
        there = FileSystem("", 0, mounted=[*cluster.remote_mounted, "nsd1.of-another"])
    if there is None:
        raise Refused(f"mmlsmount: File system {words[0]} is not known.")
    yield (
        "",
        [
            {"localDevName": words[0], "totalNodes": str(len(there.mounted)), "nodeName": name, "mode": "RW"}
            for name in there.mounted or [""]
        ],
    )


def _disks(cluster: Cluster, words: Sequence[str]) -> _Tables:
    yield (
        "",
        [
            {
                "nsdName": name,
                "metadata": "yes" if "etadata" in each.usage else "no",
                "data": "yes" if each.usage.startswith("data") else "no",
                "storagePool": each.pool,
                "status": "ready",
                "availability": "up" if _has_server(cluster, name) else "down",
            }
            for name, each in cluster.nsds.items()
            if each.filesystem == words[0]
        ],
    )


def _filesets(cluster: Cluster, words: Sequence[str]) -> _Tables:
    names = ["root", *cluster.filesets]
    yield "", [{"filesystemName": words[0], "filesetName": each, "status": "Linked"} for each in names]


def _made_with(cluster: Cluster, words: Sequence[str]) -> _Tables:
    if words[0] not in cluster.filesystems or list(words[1:]) != ["-k", "-Y"]:
        raise Refused(f"mmlsfs: Incorrect option or file system: {words}")
    acls = cluster.filesystems[words[0]].acls
    yield "", [{"deviceName": words[0], "fieldName": "ACLSemantics", "data": acls, "remarks": ""}]


def _has_server(cluster: Cluster, nsd: str) -> bool:
    return any(cluster.state_of(name) == "active" for name in cluster.nsds[nsd].servers)


def shown(cluster: Cluster, command: str) -> str:
    """What `mmremotecluster show all` and `mmremotefs show all` print for people. Raises Refused."""
    if command == "mmremotecluster":
        told = [
            f"Cluster name:    {name}\nContact nodes:   {','.join(each)}\nSHA digest:      00aa\n"
            for name, each in cluster.remote_clusters.items()
        ]
    else:
        told = [
            f"{name}  {'  '.join(each)}  rw  yes  -  0\n" for name, each in cluster.remote_filesystems.items()
        ]
        told = (
            ["Local Name  Remote Name  Cluster name  Mount Point  Mount Options  Automount\n", *told]
            if told
            else []
        )
    if not told:
        raise Refused(f"{command}: There are no remote definitions.")
    return "".join(told)


def printed_plain(cluster: Cluster, command: str, words: Sequence[str]) -> str:
    """What commands print for people. Raises Refused."""
    if not cluster.name or not cluster.cluster_at(cluster.node_here):
        raise Refused(f"{command}: This node does not belong to a GPFS cluster.")
    if command == "mmlscallback":
        if not cluster.callbacks:
            raise Refused("mmlscallback: No callback identifiers were found.")
        return "".join(
            f"{name}\n" + "".join(f"        {word:10} = {value}\n" for word, value in each.items())
            for name, each in cluster.callbacks.items()
        )
    there = cluster.filesystems.get(words[0])
    if there is None or list(words[1:]) != ["-L"]:
        raise Refused(f"mmlspolicy: File system {words[0]} is not known.")
    pool = cluster.pool_of_new_files(words[0])
    return there.policy or (
        f"No policy file was installed for file system '{words[0]}'.\nData will be stored in pool '{pool}'.\n"
    )
