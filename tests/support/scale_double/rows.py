"""What commands that list print with -Y."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gridwright.filesystems.scale.administration.y_format import encoded
from tests.support.scale_double.cluster import Cluster, Refused

_Row = Mapping[str, str]


def listed(cluster: Cluster, command: str, words: Sequence[str]) -> str:
    """What a command prints. Raises Refused."""
    if "-Y" not in words:
        raise Refused(f"the double knows {command} with -Y alone")
    if not cluster.name:
        raise Refused(f"{command}: This node does not belong to a GPFS cluster.")
    made = {
        "mmlscluster": _cluster,
        "mmgetstate": _states,
        "mmlslicense": _licences,
        "mmlsnodeclass": _classes,
        "mmlsnsd": _nsds,
        "mmlsconfig": _settings,
        "mmlsmount": _mounts,
    }[command]
    return "".join(_rows(command, kind, rows) for kind, rows in made(cluster, words))


def _rows(command: str, kind: str, rows: Iterable[_Row]) -> str:
    known = list(rows)
    if not known:
        return ""
    head = f"{command}:{kind}:HEADER:version:reserved:reserved:{':'.join(known[0])}:\n"
    return head + "".join(
        f"{command}:{kind}:0:1:::{':'.join(map(encoded, each.values()))}:\n" for each in known
    )


_Tables = Iterable[tuple[str, Iterable[_Row]]]


def _cluster(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield "clusterSummary", [{"clusterName": f"{cluster.name}.example.com", "clusterId": "1"}]
    rows = []
    for number, (name, node) in enumerate(cluster.nodes.items(), start=1):
        roles = ["quorum"] if node.quorum else []
        roles += ["manager"] if node.manager else []
        designation = {"quorummanager": "quorumManager"}.get("".join(roles), "".join(roles))
        row = {"nodeNumber": str(number), "daemonNodeName": name, "adminNodeName": name}
        rows.append({**row, "designation": designation})
    yield "clusterNode", rows


def _states(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield "", [{"nodeName": name, "state": cluster.state_of(name)} for name in cluster.nodes]


def _licences(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield "", [{"nodeName": name, "designatedLicense": each.licence} for name, each in cluster.nodes.items()]


def _classes(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield "", [{"nodeClass": name, "memberNodes": ",".join(each)} for name, each in cluster.classes.items()]


def _nsds(cluster: Cluster, _: Sequence[str]) -> _Tables:
    yield (
        "nsd",
        [
            {"fileSystem": each.filesystem, "diskName": name, "serverList": ",".join(each.servers)}
            for name, each in cluster.nsds.items()
        ],
    )


def _settings(cluster: Cluster, _: Sequence[str]) -> _Tables:
    rows = []
    for key, value in cluster.settings.items():
        name, _, where = key.partition("@")
        rows.append({"configParameter": name, "value": value, "nodeList": where})
    yield "", rows


def _mounts(cluster: Cluster, words: Sequence[str]) -> _Tables:
    there = cluster.filesystems.get(words[0])
    if there is None:
        raise Refused(f"mmlsmount: File system {words[0]} is not known.")
    yield "", [{"localDevName": words[0], "nodeName": name} for name in there.mounted]
