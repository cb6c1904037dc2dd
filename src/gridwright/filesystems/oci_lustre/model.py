"""Oracle's managed Lustre as the grid spec describes it: name, size and tier, and links with buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.filesystems.lustre_client.fields import (
    MaintenanceWindow,
    RootSquash,
    StripeCount,
    stripe_count,
)
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.spec.repository import NAMESPACED_SCHEME, DirectoryLink, NamespacedBucket, NamespacedPlace
from gridwright.units import SIZE_PATTERN, Bytes
from gridwright.yamltext.fields import FieldError, Written, read_size
from gridwright.yamltext.source import show

GB = 10**9
TIERS = (125, 250, 500, 1000)
"""MB/s for each TB (OCI API, CreateLustreFileSystemDetails.performanceTier)."""
LONGEST_NAME = 8
DEFAULT_NAME = "lustre"
"""Oracle's own (OCI API, LustreFileSystem.fileSystemName)."""
NAME_PATTERN = rf"^[A-Za-z0-9_]{{1,{LONGEST_NAME}}}$"
"""OCI API, CreateLustreFileSystemDetails.fileSystemName."""
TIER_PATTERN = r"^[0-9]{1,5} ?MB/s/TB$"


def _name(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if re.fullmatch(NAME_PATTERN, text, re.ASCII):
        return text
    near = re.sub(r"[^A-Za-z0-9_]", "_", text, flags=re.ASCII)[:LONGEST_NAME] or DEFAULT_NAME
    raise FieldError(
        f"{show(value)} is no name of Oracle's Lustre, which has at most {LONGEST_NAME} of a to z, A to Z, "
        "0 to 9 and _",
        f"write {near}",
    )


def _tier(value: object) -> int:
    text = str(value).strip()
    number = re.fullmatch(r"([0-9]{1,5}) ?MB/s/TB", text, re.ASCII)
    if number and int(number[1]) in TIERS:
        return int(number[1])
    sold = ", ".join(map(str, TIERS[:-1])) + f" and {TIERS[-1]}"
    if number is None:
        raise FieldError(
            f"{show(value)} is no rate for each TB", f"write one of {sold}, such as {TIERS[0]} MB/s/TB"
        )
    near = min(TIERS, key=lambda each: abs(each - int(number[1])))
    raise FieldError(f"Oracle sells {sold} MB/s for each TB, not {number[1]}", f"write {near} MB/s/TB")


def _capacity(value: object) -> Bytes:
    """A size; what Oracle's pages call 31.2 TiB is 31200 GB in its API, and counts as that."""
    text = value.strip() if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*TiB", text, re.ASCII)
    if found and Fraction(found[1]) * 10 % 104 == 0 and Fraction(found[1]) > 0:
        return Bytes(Fraction(found[1]) * 1000 * GB)
    return read_size(value)


def _capacity_text(size: Bytes) -> str:
    return f"{size // GB} GB" if size % GB == 0 else str(size)


LustreName = Annotated[str, Written(_name, NAME_PATTERN, DEFAULT_NAME)]
"""What clients mount it by, after the address of its management service."""
LustreTier = Annotated[int, Written(_tier, TIER_PATTERN, "250 MB/s/TB", lambda tier: f"{tier} MB/s/TB")]
"""MB/s (10^6 bytes per second) that each TB delivers."""
LustreCapacity = Annotated[Bytes, Written(_capacity, SIZE_PATTERN, "31.2 TB", _capacity_text)]
"""Bytes; a size that Oracle sells is a whole number of GB (10^9 bytes)."""

_LINK = Update(Change.REBUILD, "the link is made anew; files and objects stay")
_JOB = Update(Change.LIVE, "a larger number starts one job; the same number starts none")


class ObjectStorageLink(SpecModel):
    """A directory that is linked with a bucket; the service copies between them when it is told to."""

    bucket: Annotated[
        NamespacedBucket, Update(Change.REBUILD, "the link is made anew; files and objects stay")
    ] = Field(
        description="The bucket, with its namespace: oci://bucket@namespace/prefix. It has to be there, "
        "in the region and the tenancy of the grid."
    )
    directory: Annotated[str, _LINK] = Field(
        default="/",
        pattern=r"^/[A-Za-z0-9._/-]{0,1000}$",
        description="The directory of the file system that its objects are files of.",
    )
    overwrite: Annotated[bool, Update(Change.LIVE, "later jobs have it")] = Field(
        default=False,
        description="Whether a job replaces what is there already. Without it, what is there is passed over, "
        "even where the other side is newer.",
    )
    imports: Annotated[int, _JOB] = Field(
        default=0, ge=0, le=1_000_000, description="Raise it by one to have objects copied to files once."
    )
    exports: Annotated[int, _JOB] = Field(
        default=0, ge=0, le=1_000_000, description="Raise it by one to have files copied to objects once."
    )

    @property
    def object_storage_prefix(self) -> str:
        """As the service writes it: namespace:/bucket/prefix."""
        return NamespacedPlace.parse(self.bucket).of_service

    @property
    def file_system_path(self) -> str:
        """The directory as the service takes it, absolute within the file system."""
        return "/" + self.directory.strip("/")


_NEW = Update(Change.REBUILD, "Oracle makes a new file system; data are copied")


class OciLustreFileSystem(FileSystem):
    """OCI File Storage with Lustre."""

    takes_layouts: ClassVar[bool] = True
    most_links: ClassVar[int] = 1000
    """More than anybody writes: Oracle publishes no largest number."""
    link_scheme: ClassVar[str] = NAMESPACED_SCHEME
    links_by_job: ClassVar[bool] = True

    type: Annotated[Literal["oci-lustre"], NEW_KIND] = Field(
        description="The kind of file system: oci-lustre is OCI File Storage with Lustre."
    )
    name: Annotated[LustreName, _NEW] = Field(
        default=DEFAULT_NAME,
        description="The name that nodes mount it by, of at most 8 characters. Two on one grid have "
        "two names.",
    )
    capacity: Annotated[LustreCapacity, Update(Change.LIVE, "storage can grow, never shrink")] = Field(
        description="Storage capacity: 31.2 TB, more in steps of 10.4 TB up to 124.8 TB, and of 41.6 TB from "
        "there on. What Oracle's pages call 31.2 TiB is the same."
    )
    throughput: Annotated[LustreTier, _NEW] = Field(
        default=TIERS[0],
        description="What each TB delivers: 125, 250, 500 or 1000 MB/s/TB.",
    )
    stripe_count: StripeCount = stripe_count()
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. By default root stays "
        "root.",
    )
    maintenance: Annotated[MaintenanceWindow | None, Update(Change.LIVE, "the next week has it")] = Field(
        default=None,
        description="When Oracle may maintain it each week, in UTC, such as sun:03:00. By default Oracle "
        "chooses.",
    )
    links: Annotated[
        list[ObjectStorageLink], Update(Change.LIVE, "a link is made or ended; files and objects stay")
    ] = Field(
        default_factory=list,
        description="Directories that are linked with buckets of Object Storage; the service itself copies "
        "between them, when a number is raised, or when gridwright repo starts a job. `repositories` says "
        "the same of a library.",
    )

    @property
    def own_links(self) -> Mapping[str, DirectoryLink]:
        """Those of `links`, by their directories; that of the whole file system by nothing."""
        return {
            each.file_system_path.rstrip("/"): DirectoryLink(
                each.bucket, each.file_system_path, overwrite=each.overwrite
            )
            for each in self.links
        }

    @classmethod
    def written_links(cls, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """Those of `links`."""
        links = section.get("links")
        for number, link in enumerate(links if isinstance(links, list) else ()):
            if isinstance(link, Mapping):
                yield ("links", str(number)), link

    @property
    def capacity_gb(self) -> int:
        """Its capacity as Oracle's API takes it, in GB."""
        return self.capacity // GB

    @property
    def tier(self) -> str:
        """Its performance tier as Oracle's API takes it."""
        return f"MBPS_PER_TB_{self.throughput}"
