"""What will hurt in a valid spec of a grid on AWS."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from gridwright.errors import Finding
from gridwright.providers.aws.distribution import DEFAULT, distribution_of_nodes
from gridwright.providers.aws.layout import fsx_file_systems
from gridwright.providers.aws.section import Aws
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.no_scheduler import nodes_without_jobs, scheduler_not_packaged
from gridwright.spec.filesystem import FILESYSTEMS
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE


def aws_findings(spec: GridSpec) -> Iterator[Finding]:
    """All findings about a grid on AWS."""
    for check in _CHECKS:
        yield from check(spec)


def _warning(name: str, text: str, remedy: str) -> Finding:
    return Finding("warning", name, text, remedy)


def _of_kinds(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        yield from FILESYSTEMS.get(each.type).cloud_findings(name, each, spec)


def _key_not_used(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    for name, each in fsx_file_systems(spec).items():
        if aws is not None and aws.kms_key and each.deployment == "scratch-2":
            yield _warning(
                "key-not-used",
                f"{name} is a scratch-2, which AWS encrypts with a key of its own: aws.kms_key is not for it",
                "Write deployment: persistent-2, if it must be your key",
            )


def _no_storage_image(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.images.storage is not None:
        return
    for name in built_lustres(spec):
        yield _warning(
            "no-server-image",
            f"Lustre {name} is built, and no image is named whose kernel has the server packages of Lustre: "
            "its servers do not come up",
            "Add images: {storage: ami-...} to aws; gridwright help aws says how to make one",
        )


def _distribution_without_image(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.images.compute is not None or aws.images.distribution in (None, DEFAULT):
        return
    yield _warning(
        "distribution-without-image",
        f"aws.images says {aws.images.distribution} and names no image: nodes start from the default one, "
        f"{DEFAULT}",
        "Add compute: ami-... to aws.images; gridwright render --image builds one from what the "
        "distribution publishes",
    )


def _no_scheduler_repository(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    return scheduler_not_packaged(spec, distribution_of_nodes(aws) if aws is not None else None)


def _volumes_not_made(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        disks = each.node_disks
        if spec.section(Aws) is not None and disks is not None and disks.type != INSTANCE_STORE:
            yield _warning(
                "volumes-not-made",
                f"{name} lies on {disks.type} volumes of each node, and set-up stripes and mounts disks "
                f"of an instance store only: {each.path} would be on the root volume",
                "Use nodes with an instance store, or put the libraries on a shared file system",
            )


def _no_owner(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None:
        return
    missing = [name for name in ("owner", "expires") if getattr(aws, name) is None]
    if missing:
        yield Finding(
            "info",
            "no-owner",
            f"aws has no {' and no '.join(missing)}: nobody can tell from the tags "
            "whose grid it is and until when it is needed",
            f"Add {' and '.join(missing)} to aws",
        )


def _local_scheduler(spec: GridSpec) -> Iterator[Finding]:
    if spec.section(Aws) is not None:
        yield from nodes_without_jobs(spec, "AWS")


def _proxy_outside(spec: GridSpec) -> Iterator[Finding]:
    aws = spec.section(Aws)
    if aws is None or aws.proxy is None:
        return
    try:
        host = ipaddress.IPv4Address(urlsplit(aws.proxy).hostname or "")
    except ValueError:
        inside = False
    else:
        inside = any(host in each for each in aws.networks)
    # A VPC of the site's has the site's own ways.
    if not inside and aws.vpc is None:
        yield _warning(
            "proxy-outside",
            f"machines reach the outside through {aws.proxy} alone, and Gridwright does not connect "
            f"the grid's network {aws.network} with it",
            "Connect the two, by peering or a transit gateway, when the storage stack is there: "
            "gridwright help aws",
        )


_CHECKS: tuple[Callable[[GridSpec], Iterator[Finding]], ...] = (
    _of_kinds,
    _key_not_used,
    _no_storage_image,
    _distribution_without_image,
    _no_scheduler_repository,
    _volumes_not_made,
    _no_owner,
    _local_scheduler,
    _proxy_outside,
)
