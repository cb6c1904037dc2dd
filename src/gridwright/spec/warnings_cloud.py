"""What will hurt in a valid spec of a grid on AWS."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from gridwright.errors import Finding
from gridwright.spec.filesystem import FILESYSTEMS
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE


def cloud_findings(spec: GridSpec) -> list[Finding]:
    """All findings about a grid on AWS."""
    if spec.provider != "aws":
        return []
    return [finding for check in _CHECKS for finding in check(spec)]


def _warning(name: str, text: str, remedy: str) -> Finding:
    return Finding("warning", name, text, remedy)


def _of_kinds(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        yield from FILESYSTEMS.get(each.type).cloud_findings(name, each, spec)


def _volumes_not_made(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        disks = each.node_disks
        if spec.aws is not None and disks is not None and disks.type != INSTANCE_STORE:
            yield _warning(
                "volumes-not-made",
                f"{name} lies on {disks.type} volumes of each node, and set-up stripes and mounts disks "
                f"of an instance store only: {each.path} would be on the root volume",
                "Use nodes with an instance store, or put the libraries on a shared file system",
            )


def _no_owner(spec: GridSpec) -> Iterator[Finding]:
    if spec.aws is None:
        return
    missing = [name for name in ("owner", "expires") if getattr(spec.aws, name) is None]
    if missing:
        yield Finding(
            "info",
            "no-owner",
            f"aws has no {' and no '.join(missing)}: nobody can tell from the tags "
            "whose grid it is and until when it is needed",
            f"Add {' and '.join(missing)} to aws",
        )


def _local_scheduler(spec: GridSpec) -> Iterator[Finding]:
    if spec.aws is not None and spec.scheduler.runs_on_one_machine:
        yield _warning(
            "no-scheduler",
            "the local scheduler is of the machine that Gridwright runs on: nodes on AWS get no jobs from it",
            "Write scheduler: {type: slurm}",
        )


def _proxy_outside(spec: GridSpec) -> Iterator[Finding]:
    if spec.aws is None or spec.aws.proxy is None:
        return
    try:
        host = ipaddress.IPv4Address(urlsplit(spec.aws.proxy).hostname or "")
    except ValueError:
        inside = False
    else:
        inside = host in ipaddress.IPv4Network(spec.aws.network)
    if not inside:
        yield _warning(
            "proxy-outside",
            f"machines reach the outside through {spec.aws.proxy} alone, and Gridwright does not connect "
            f"the grid's network {spec.aws.network} with it",
            "Connect the two, by peering or a transit gateway, when the storage stack is there; docs/aws.md",
        )


_CHECKS: tuple[Callable[[GridSpec], Iterator[Finding]], ...] = (
    _of_kinds,
    _volumes_not_made,
    _no_owner,
    _local_scheduler,
    _proxy_outside,
)
