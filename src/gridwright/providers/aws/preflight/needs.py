"""What a whole grid counts against the quotas of an account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gridwright.catalog import Catalog
from gridwright.providers.aws.costs import ROOT_VOLUME
from gridwright.providers.aws.fsx import stored_gib
from gridwright.providers.aws.launching import root_size
from gridwright.providers.aws.layout import DEFAULT_VOLUME, AwsLayout, Machine, Role, fsx_file_systems
from gridwright.providers.aws.preflight.quotas import Amounts, family
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE, Disks

TIB = 2**40


def needs(spec: GridSpec, layout: AwsLayout, catalog: Catalog) -> Amounts:
    """All of a grid: vCPUs, TiB of volumes, GiB and number of FSx, networks, gateways, addresses."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for machine in layout.machines:
        group = spec.nodes.get(machine.group) if machine.role is Role.COMPUTE else None
        # Spot instances count against quotas of their own, which are looked at for their family's kind.
        kind = "spot-vcpus" if group is not None and group.spot else "vcpus"
        found[kind, family(machine.instance)] += catalog.instance(machine.instance, "aws").vcpus
        found["volumes", ROOT_VOLUME] += int(root_size(spec, machine)) / TIB
        for disks, count in _volumes(spec, machine):
            found["volumes", disks.type] += count * int(disks.size or DEFAULT_VOLUME) / TIB
    for volume in layout.volumes:
        found["volumes", volume.disks.type] += int(volume.disks.size or DEFAULT_VOLUME) / TIB
    for managed in fsx_file_systems(spec).values():
        deployment = managed.deployment.upper().replace("-", "_")
        found["fsx-capacity", deployment] += stored_gib(managed, catalog.deployment(managed.deployment))
        found["fsx-count", deployment] += 1
    aws = layout.aws
    for kind, count in (
        ("networks", int(aws.vpc is None)),
        ("gateways", int(aws.makes_way_out)),
        ("addresses", aws.makes_way_out + aws.has_public_login),
    ):
        if count:
            found[kind, ""] += count
    return dict(found)


def _volumes(spec: GridSpec, machine: Machine) -> Iterator[tuple[Disks, int]]:
    """Volumes of a machine beside the one that it starts from, and how many of each."""
    for target in machine.targets:
        yield target.disks, 1
    for each in spec.filesystems.values() if machine.role is Role.COMPUTE else ():
        disks = each.node_disks
        if disks is not None and disks.type != INSTANCE_STORE:
            yield disks, disks.count or 1
