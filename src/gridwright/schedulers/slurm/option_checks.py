"""Holds the options of a job against what this Slurm has, so that all that is wrong is told at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gridwright.errors import Problem, nearest
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.slurm.cluster import Cluster

_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""One feature; anything else is an expression, which Slurm judges."""


def option_check_problems(request: JobRequest, label: str, cluster: Cluster) -> Iterator[Problem]:
    """Resources, licences and features that no node and no line of slurm.conf has.

    Licences that slurmdbd keeps are not in slurm.conf, and accounts, qualities of service and reservations
    need a question of their own: these Slurm refuses by itself.
    """
    options = request.options
    kinds = [name.strip() for name in _listed(cluster, "GresTypes")]
    for each in options.gres:
        yield from _unknown(f"{label}: Slurm has no resource", each.partition(":")[0], kinds, "gres")
    if "slurmdbd" not in cluster.config.get("AccountingStorageType", ""):
        licences = [name.partition(":")[0].partition("*")[0] for name in _listed(cluster, "Licenses")]
        for each in options.licences:
            name = re.split(r"[:*=]", each, maxsplit=1)[0]
            yield from _unknown(f"{label}: Slurm has no licence", name, licences, "licences")
    wanted = options.constraint
    if wanted is not None and _PLAIN.fullmatch(wanted):
        features = sorted({name for node in cluster.nodes.values() for name in node.features})
        yield from _unknown(f"{label}: no node has the feature", wanted, features, "constraint")


def _listed(cluster: Cluster, key: str) -> list[str]:
    text = cluster.config.get(key, "")
    return [] if text in ("", "(null)") else text.split(",")


def _unknown(what: str, name: str, known: list[str], where: str) -> Iterator[Problem]:
    if name in known:
        return
    near = nearest(name, known)
    remedy = (
        f"did you mean {near}?" if near else f"there are {', '.join(known)}" if known else "there is none"
    )
    yield Problem(what=f"{what} {name}", where=where, remedy=remedy)
