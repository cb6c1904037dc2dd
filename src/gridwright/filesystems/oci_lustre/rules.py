"""What is wrong with Oracle's Lustre in a spec, and what will hurt about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gridwright.catalog.managed import managed_offers
from gridwright.errors import Finding
from gridwright.filesystems.oci_lustre.fields import GB, TIERS, LustreCapacity
from gridwright.filesystems.oci_lustre.model import OciLustreFileSystem
from gridwright.filesystems.oci_lustre.sizes import nearest_sizes, offer_of
from gridwright.spec.model import GridSpec
from gridwright.yamltext.fields import FieldError

_Problem = tuple[tuple[str, ...], FieldError]
_CAPACITY: TypeAdapter[int] = TypeAdapter(LustreCapacity)


def oci_lustre_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    yield from _size(fields)
    yield from _links(fields)


def _size(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    try:
        size = _CAPACITY.validate_python(fields.get("capacity"))
    except ValidationError:
        return
    # All tiers have the same sizes.
    near = list(nearest_sizes(offer_of(managed_offers(), TIERS[0]), size))
    if near != [size]:
        yield (
            ("capacity",),
            FieldError(
                f"{fields['capacity']} of Oracle's Lustre is not on sale",
                f"the nearest is {' or '.join(f'{each / GB / 1000:g} TB' for each in near)}",
            ),
        )


def _links(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """The service runs one job of a file system at a time, and refuses links that overlap."""
    links = fields.get("links")
    if not isinstance(links, list):
        return
    seen: list[str] = []
    for number, link in enumerate(links):
        directory = link.get("directory", "/") if isinstance(link, Mapping) else None
        if not isinstance(directory, str):
            continue
        path = "/" + directory.strip("/")
        inside = [each for each in seen if _overlap(each, path)]
        if inside:
            yield (
                ("links", str(number), "directory"),
                FieldError(
                    f"{path} is inside of {inside[0]}, or around it, which another link has: two jobs would "
                    "copy the same files",
                    "write directories of which none holds another",
                ),
            )
        seen.append(path)


def _overlap(one: str, other: str) -> bool:
    first, second = (each.rstrip("/") + "/" for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def oci_lustre_findings(name: str, filesystem: OciLustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
    """What is paid after it is gone, what mounts cannot tell apart, and what links do not copy."""
    yield Finding(
        "info",
        "billed-for-30-days",
        f"Oracle bills {name} in cycles of 30 days: one that is removed earlier costs until its cycle ends "
        "(OCI API, LustreFileSystem.timeBillingCycleEnd)",
        "For a trial of a day, take a file system on servers of the grid: nsd or oss",
    )
    twins = [
        each
        for each, other in spec.filesystems.items()
        if isinstance(other, OciLustreFileSystem) and each != name and other.name == filesystem.name
    ]
    if twins and name > min(twins):
        yield Finding(
            "warning",
            "same-lustre-name",
            f"{name} and {twins[0]} are both called {filesystem.name}: in what nodes tell of their targets "
            "nobody can tell them apart",
            "Write another name, of at most 8 characters",
        )
    if spec.links_of(name):
        yield Finding(
            "warning",
            "link-copies-only",
            f"the links of {name} with Object Storage copy and no more: what is deleted on one side stays on "
            "the other, a changed owner or mode alone is not copied, hard links become files of their own, "
            "and one job runs at a time",
            "Keep what is deleted in mind when you export, or write s3:// in repositories, whose files "
            "Gridwright carries itself",
        )
