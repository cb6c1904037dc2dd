"""How many volumes a machine can have attached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gridwright.catalog.facts import Source
from gridwright.catalog.tables import rows, source

ATTACHMENT_COLUMNS = ("name", "volumes", "shared", "source", "date")


@dataclass(frozen=True, slots=True)
class AttachmentLimit:
    """Most volumes of one instance, the one it starts from among them.

    `shared`: every network interface beyond the first takes the place of one volume. The first one, NVMe
    disks of an instance store and accelerators share the limit, too, and are taken off `volumes` already:
    an m5d.24xlarge with four disks has 28 places (Amazon EBS User Guide, volume limits), and EC2 lists 23.
    """

    volumes: int
    shared: bool
    source: Source


def free_attachments(name: str, interfaces: int = 0) -> int | None:
    """Return how many volumes `name` takes beside the one it starts from; None where no limit is known.

    `interfaces`: how many network interfaces it has beyond the first. An Elastic Fabric Adapter that is the
    first one takes no place of its own.
    """
    limit = attachment_limits().get(name)
    return None if limit is None else limit.volumes - 1 - (interfaces if limit.shared else 0)


@cache
def attachment_limits() -> dict[str, AttachmentLimit]:
    """Return the limit of each EC2 type, as EC2 lists it."""
    return {
        name: AttachmentLimit(int(volumes), shared == "1", source(text, date))
        for name, volumes, shared, text, date in rows("attachments.csv", ATTACHMENT_COLUMNS)
    }
