"""FSx for Lustre as the grid spec describes it, with the types of fields that only it has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from gridwright.errors import nearest
from gridwright.filesystems.lustre_client.fields import (
    MaintenanceWindow,
    RootSquash,
    StripeCount,
    stripe_count,
)
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.spec.repository import DirectoryLink, Repository
from gridwright.units import SIZE_PATTERN, TEBIBYTE_RATE_PATTERN, Bytes, Rate, UnitError
from gridwright.yamltext.fields import FieldError, Written, read_size, read_total_rate
from gridwright.yamltext.source import show

FSX_STEP_GIB = 1200
"""AWS sells FSx for Lustre in multiples of it (CreateFileSystem API reference, StorageCapacity)."""


def _tebibyte_rate(value: object) -> int:
    """Whole bytes per second for each TiB."""
    example = "write what each TiB delivers, such as 200 MB/s/TiB"
    text = value.strip() if isinstance(value, str) else ""
    rate, slash, unit = text.rpartition("/")
    if not slash or unit.strip() != "TiB":
        raise UnitError(f"{show(value)} is not a rate per TiB", example)
    return read_total_rate(rate).bytes_per_s


def _fsx_capacity(value: object) -> Bytes:
    """A size, where `2.4 TiB` is what AWS calls 2400 GiB.

    AWS sells FSx for Lustre in GiB and names sizes in TiB of 1000 GiB; nothing that it sells is a
    whole number of real TiB below 75, so the two are not confused.
    """
    text = value.strip() if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*TiB", text, re.ASCII)
    if found and (Fraction(found[1]) * 1000) % FSX_STEP_GIB == 0 and Fraction(found[1]) > 0:
        return Bytes(Fraction(found[1]) * 1000 * 2**30)
    # What lies between two steps is refused with both of them where the catalogue is known.
    return Bytes(math.ceil(Fraction(found[1]) * 2**40)) if found else read_size(value)


def _capacity_text(size: Bytes) -> str:
    return f"{size // 2**30} GiB" if size % 2**30 == 0 else str(size)


TebibyteRate = Annotated[
    int,
    Written(_tebibyte_rate, TEBIBYTE_RATE_PATTERN, "200 MB/s/TiB", lambda rate: f"{Rate(rate)}/TiB"),
]
"""Bytes per second that each TiB of a file system delivers."""

FsxCapacity = Annotated[Bytes, Written(_fsx_capacity, SIZE_PATTERN, "2400 GiB", _capacity_text)]
"""Storage capacity of FSx for Lustre: 2400 GiB, or 2.4 TiB as AWS calls it."""


ON_OFFER = (1_500, 3_000, 6_000, 12_000)
"""Operations per second, and multiples of the last (FSx API reference, LustreMetadataConfiguration)."""
MOST = 192_000
_WORDS = ("automatic", "none")
_OFFERED = "1500, 3000, 6000, and multiples of 12000 up to 192000"


def nearest_on_offer(iops: int) -> int:
    """The number on offer that is nearest to one; the larger of two as near."""
    step = ON_OFFER[-1]
    whole = min(max((iops + step // 2) // step, 1) * step, MOST)
    return min((*ON_OFFER, whole), key=lambda each: (abs(each - iops), -each))


def _metadata(value: object) -> object:
    if isinstance(value, str) and value in _WORDS:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        near = nearest_on_offer(value)
        if near == value:
            return value
        raise FieldError(
            f"{show(value)} metadata operations are not offered", f"write {near}, the nearest of {_OFFERED}"
        )
    word = nearest(value, _WORDS) if isinstance(value, str) else None
    hint = f"did you mean {word}? " if word else ""
    raise FieldError(
        f"{show(value)} is no number of metadata operations", f"{hint}write automatic, none, or {_OFFERED}"
    )


MetadataOperations = Annotated[
    Literal["automatic", "none"] | int,
    PlainValidator(_metadata),
    WithJsonSchema({"anyOf": [{"enum": list(_WORDS)}, {"type": "integer", "minimum": ON_OFFER[0]}]}),
]
"""Metadata operations per second."""


class FsxLustreFileSystem(FileSystem):
    """Amazon FSx for Lustre."""

    takes_layouts: ClassVar[bool] = True
    most_links: ClassVar[int] = 8
    """Amazon FSx for Lustre User Guide, quotas: data repository associations of one file system."""
    not_with_links: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"backup_days": "a file system that is linked with a bucket has no backups"}
    )
    linked_hosts: ClassVar[tuple[str, ...]] = (".amazonaws.com", ".amazonaws.com.cn")
    """Amazon FSx for Lustre User Guide, linking your file system to an Amazon S3 bucket: S3 alone."""

    type: Annotated[Literal["fsx-lustre"], NEW_KIND] = Field(
        description="The kind of file system: fsx-lustre is Amazon FSx for Lustre."
    )
    deployment: Annotated[
        Literal["scratch-2", "persistent-1", "persistent-2"],
        Update(Change.REBUILD, "a deployment type cannot be changed; data are copied"),
    ] = Field(
        default="persistent-2", description="The deployment type: scratch-2, persistent-1 or persistent-2."
    )
    capacity: Annotated[FsxCapacity, Update(Change.LIVE, "storage can grow, never shrink")] = Field(
        description="Storage capacity: 1200 GiB, 2400 GiB or a multiple of it; also as AWS writes: 2.4 TiB."
    )
    throughput: Annotated[
        TebibyteRate | None, Update(Change.LIVE, "persistent-2 changes it in place; others are rebuilt")
    ] = Field(
        default=None,
        description="Throughput bought for each TiB, such as 200 MB/s/TiB. By default the lowest tier.",
    )
    stripe_count: StripeCount = stripe_count()
    compression: Annotated[
        Literal["lz4", "none"], Update(Change.LIVE, "new data have it; old data keep theirs")
    ] = Field(default="none", description="Whether data are compressed: lz4 or none.")
    metadata: Annotated[
        MetadataOperations,
        Update(Change.LIVE, "operations bought can change; a file system made without any never gets them"),
    ] = Field(
        default="automatic",
        description="Metadata operations per second, of persistent-2: automatic grows with capacity, a number"
        " is bought. It cannot be added later to a file system that was made with none. Other deployment "
        "types have none.",
    )
    repository: Annotated[
        Repository | None, Update(Change.LIVE, "an association is made or ended; files stay")
    ] = Field(
        default=None,
        description="A bucket whose objects are files, and whose files become objects. `repositories` says "
        "the same of a library.",
    )
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. Root of head and "
        "login node stays root. By default root stays root on all.",
    )
    maintenance: Annotated[MaintenanceWindow | None, Update(Change.LIVE, "the next week has it")] = Field(
        default=None,
        description="When AWS may maintain it each week, in UTC, such as sun:03:00. By default AWS chooses.",
    )
    backup_days: Annotated[int, Update(Change.LIVE, "older backups are removed")] = Field(
        default=0,
        ge=0,
        le=90,
        description="For how many days daily backups are kept, of persistent types; 0 makes none.",
    )

    @property
    def own_links(self) -> Mapping[str, DirectoryLink]:
        """The bucket of `repository`."""
        return {} if self.repository is None else {"": self.repository.as_link()}

    @classmethod
    def written_links(cls, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """That of `repository`."""
        if isinstance(link := section.get("repository"), Mapping):
            yield ("repository",), link
