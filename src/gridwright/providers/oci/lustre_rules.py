"""What cannot be built on OCI of a Lustre on servers of the grid's own, each with the nearest right value."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.filesystems.site import Site
from gridwright.providers.lustre_servers import (
    ServerExamples,
    WrongField,
    built_lustres,
    lustre_problems,
    server_roles,
)
from gridwright.providers.oci.section import Oci
from gridwright.spec.model import GridSpec

MOST_VOLUMES = 32
"""Volumes that one instance attaches (OCI, Block Volume, limits; facts oci-scale)."""
_EXAMPLES = ServerExamples(
    mds="{instance: VM.Standard.E5.Flex(8), disks: {type: higher-performance, size: 1 TiB}}",
    disks="{type: balanced, count: 8, size: 1 TiB}",
    volume="balanced",
)


def lustre_rules(spec: GridSpec) -> Iterator[WrongField]:
    """Fields that are wrong, whatever the catalogue knows of shapes and volumes."""
    yield from lustre_problems(spec, _EXAMPLES)
    yield from _too_many_volumes(spec)


def report_lustre_rules(site: Site) -> None:
    """Note them for `check`; one that is only predicted, without section oci, may lack what is built."""
    rules = _too_many_volumes if site.spec.section(Oci) is None else lustre_rules
    for each in rules(site.spec):
        site.report(*each)


def _too_many_volumes(spec: GridSpec) -> Iterator[WrongField]:
    for name, lustre in built_lustres(spec).items():
        for role, servers in server_roles(lustre):
            count = 1 if servers.disks is None else servers.disks.count or 1
            if count > MOST_VOLUMES:
                yield (
                    ("filesystems", name, role, "disks", "count"),
                    f"an instance attaches {MOST_VOLUMES} volumes at most, and each {role.upper()} of {name} "
                    f"would have {count}",
                    f"write {MOST_VOLUMES}, or more servers",
                )
