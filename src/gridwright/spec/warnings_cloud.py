"""What will hurt in a valid spec of a grid on AWS."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from gridwright.errors import Finding
from gridwright.spec.filesystems import FsxLustreFileSystem, LocalFileSystem, LustreFileSystem
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE, Servers

OST_BYTES = 1200 * 2**30
"""Capacity of one OST of FSx for Lustre (002.fs.ost_size)."""
_ON_CREDITS = re.compile(r"t[0-9]")


def cloud_findings(spec: GridSpec) -> list[Finding]:
    """All findings about a grid on AWS."""
    if spec.provider != "aws":
        return []
    return [finding for check in _CHECKS for finding in check(spec)]


def _warning(name: str, text: str, remedy: str) -> Finding:
    return Finding("warning", name, text, remedy)


def _metadata_none(spec: GridSpec) -> Iterator[Finding]:
    for name, each in _fsx(spec):
        if each.deployment == "persistent-2" and each.metadata == "none":
            yield _warning(
                "metadata-none",
                f"FSx for Lustre {name} is made without metadata operations of its own: they cannot be added "
                "later, and many small files are slow",
                "Write metadata: automatic",
            )


def _data_on_scratch(spec: GridSpec) -> Iterator[Finding]:
    data = spec.libraries.get("data")
    for name, each in _fsx(spec):
        if each.deployment == "scratch-2" and data is not None and data.filesystem == name:
            yield _warning(
                "data-on-scratch",
                f"library data lives on {name}, a scratch-2: when one of its servers fails, the data on it "
                "are lost",
                "Write deployment: persistent-2; or link a repository that new files are exported to",
            )


def _key_not_used(spec: GridSpec) -> Iterator[Finding]:
    for name, each in _fsx(spec):
        if spec.aws is not None and spec.aws.kms_key and each.deployment == "scratch-2":
            yield _warning(
                "key-not-used",
                f"{name} is a scratch-2, which AWS encrypts with a key of its own: aws.kms_key is not for it",
                "Write deployment: persistent-2, if it must be your key",
            )


def _stripes(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        targets = 0
        if isinstance(each, FsxLustreFileSystem):
            targets = max(each.capacity // OST_BYTES, 1)
        elif isinstance(each, LustreFileSystem) and each.oss is not None and each.oss.disks is not None:
            targets = each.oss.count * (each.oss.disks.count or 1)
        if isinstance(each, FsxLustreFileSystem | LustreFileSystem) and 0 < targets < each.stripe_count:
            yield _warning(
                "stripes-beyond-targets",
                f"files of {name} are to have {each.stripe_count} stripes, and it has {targets} targets",
                "Write stripe_count: -1 for all targets",
            )


def _no_storage_image(spec: GridSpec) -> Iterator[Finding]:
    if spec.aws is None or spec.aws.images.storage is not None:
        return
    for name, _ in _built(spec):
        yield _warning(
            "no-server-image",
            f"Lustre {name} is built, and no image is named whose kernel has the server packages of Lustre: "
            "its servers do not come up",
            "Add images: {storage: ami-...} to aws; docs/aws.md says how to make one",
        )


def _servers_on_credits(spec: GridSpec) -> Iterator[Finding]:
    for name, lustre in _built(spec):
        for role, servers in _roles(lustre):
            if _ON_CREDITS.match(servers.instance):
                yield _warning(
                    "server-on-credits",
                    f"the {role.upper()} of {name} are {servers.instance}: processor, network and volumes "
                    "are slow once their credits are spent",
                    "Choose a type without credits, such as one of m6i",
                )


def _volumes_not_made(spec: GridSpec) -> Iterator[Finding]:
    for name, each in spec.filesystems.items():
        if (
            spec.aws is not None
            and isinstance(each, LocalFileSystem)
            and each.disks is not None
            and each.disks.type != INSTANCE_STORE
        ):
            yield _warning(
                "volumes-not-made",
                f"{name} lies on {each.disks.type} volumes of each node, and set-up stripes and mounts disks "
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


def _fsx(spec: GridSpec) -> Iterator[tuple[str, FsxLustreFileSystem]]:
    for name, each in spec.filesystems.items():
        if isinstance(each, FsxLustreFileSystem):
            yield name, each


def _built(spec: GridSpec) -> Iterator[tuple[str, LustreFileSystem]]:
    for name, each in spec.filesystems.items():
        if isinstance(each, LustreFileSystem) and each.source is None:
            yield name, each


def _roles(lustre: LustreFileSystem) -> Iterator[tuple[str, Servers]]:
    for role, servers in (("oss", lustre.oss), ("mds", lustre.mds), ("mgs", lustre.mgs)):
        if servers is not None:
            yield role, servers


_CHECKS: tuple[Callable[[GridSpec], Iterator[Finding]], ...] = (
    _metadata_none,
    _data_on_scratch,
    _key_not_used,
    _stripes,
    _no_storage_image,
    _servers_on_credits,
    _volumes_not_made,
    _no_owner,
    _local_scheduler,
    _proxy_outside,
)
