"""File systems of a grid that Oracle runs, and the subnet that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from gridwright.errors import Problem
from gridwright.filesystems import kind_of
from gridwright.filesystems.provided import FileStorage, TieredLustre
from gridwright.providers.oci.section import SERVICES, Oci
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


def tiered_lustres(spec: GridSpec) -> dict[str, TieredLustre]:
    """Those that Oracle runs as Lustre, by name."""
    return {
        name: service
        for name, each in spec.filesystems.items()
        if (service := kind_of(each).tiered_lustre(each)) is not None
    }


def file_storages(spec: GridSpec) -> dict[str, FileStorage]:
    """Those that Oracle exports by NFS, by name."""
    return {
        name: service
        for name, each in spec.filesystems.items()
        if (service := kind_of(each).file_storage(each)) is not None
    }


def services(spec: GridSpec) -> tuple[str, ...]:
    """The names of all of them."""
    return (*tiered_lustres(spec), *file_storages(spec))


def services_problems(spec: GridSpec, oci: Oci, subnets: Mapping[str, IPv4Network]) -> Iterator[Problem]:
    """Services choose addresses by themselves, and could take those that machines have in the same subnet."""
    names = " and ".join(services(spec))
    if not names:
        return
    if oci.vcn is not None and oci.vcn.subnets.services is None:
        yield problem_at(
            spec,
            ("oci", "vcn", "subnets"),
            f"Oracle runs {names}, which takes addresses of its own choice, and no subnet is named for that",
            "add services: with the OCID of a subnet, and its range under ranges",
        )
    elif SERVICES not in subnets:
        yield problem_at(
            spec,
            ("oci", "subnets") if oci.vcn is None else ("oci", "vcn", "ranges"),
            f"Oracle runs {names}, which needs a subnet of its own, and the others leave no eighth of the "
            "network",
            "write smaller subnets, or services: with a range that is free",
        )
