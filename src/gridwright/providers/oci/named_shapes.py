"""Shapes that a spec names for a grid on OCI, and what is wrong with those that only section oci has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gridwright.catalog import InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems.site import Site
from gridwright.providers.oci.section import Oci
from gridwright.spec.model import GridSpec


class NamedShape(NamedTuple):
    """A shape that a spec names: where, for what, and its name."""

    path: tuple[str, ...]
    what: str
    name: str


def named_shapes(spec: GridSpec) -> Iterator[NamedShape]:
    """Shapes of nodes, servers and machines beside the nodes, and those of section oci."""
    for name, group in spec.nodes.items():
        if group.instance is not None:
            yield NamedShape(("nodes", name, "instance"), f"nodes {name}", group.instance)
    for name, filesystem in spec.filesystems.items():
        for role, servers in filesystem.server_groups.items():
            path = ("filesystems", name, role, "instance")
            yield NamedShape(path, f"{role.upper()} servers of {name}", servers.instance)
    for name, machines in spec.machines.items():
        if machines.instance is not None:
            yield NamedShape(("machines", name, "instance"), f"machines {name}", machines.instance)
    yield from _of_section(spec)


def report_wrong_shapes(site: Site) -> None:
    """Note shapes of section oci that the catalogue lacks, and one image for two kinds of processor."""
    for each in _of_section(site.spec):
        try:
            site.catalog.instance(each.name, site.spec.provider)
        except GridwrightError as error:
            for problem in error.problems:
                site.report(each.path, problem.what, problem.remedy or "")
    oci = site.spec.section(Oci)
    if oci is None:
        return
    every = [*named_shapes(site.spec)]
    servers = [each for each in every if each.path[0] == "filesystems"] if oci.server_image else []
    if oci.image is not None:
        _report_two_kinds(site, "image", [each for each in every if each not in servers])
    _report_two_kinds(site, "server_image", servers)


def _report_two_kinds(site: Site, field: str, shapes: Sequence[NamedShape]) -> None:
    """Note where machines that one image starts have two kinds of processor."""
    first: dict[str, NamedShape] = {}
    for each in shapes:
        if (instance := _known(site, each)) is not None:
            first.setdefault(instance.architecture, each)
    if len(first) > 1:
        kinds = ", and ".join(f"{each.what} ({each.name}) {kind}" for kind, each in first.items())
        site.report(
            ("oci", field),
            f"one image starts machines of one kind of processor, and the grid has two: {kinds}",
            f"remove {field}, so that each shape has a platform image of its own, or write shapes of one "
            "kind",
        )


def _of_section(spec: GridSpec) -> Iterator[NamedShape]:
    oci = spec.section(Oci)
    if oci is None:
        return
    if oci.bastion == "host":
        yield NamedShape(("oci", "login"), "the bastion host", oci.login)
    if spec.scheduler.needs_head_node:
        yield NamedShape(("oci", "head"), "the grid control server", oci.head)


def _known(site: Site, each: NamedShape) -> InstanceType | None:
    try:
        return site.catalog.instance(each.name, site.spec.provider)
    except GridwrightError:
        return None
