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

    `shared`: every network interface beyond the first takes the place of one volume.
    """

    volumes: int
    shared: bool
    source: Source


def free_attachments(name: str) -> int | None:
    """Return how many volumes `name` takes beside the one it starts from; None where no limit is known."""
    limit = attachment_limits().get(name)
    return None if limit is None else limit.volumes - 1


@cache
def attachment_limits() -> dict[str, AttachmentLimit]:
    """Return the limit of each EC2 type, as EC2 lists it."""
    return {
        name: AttachmentLimit(int(volumes), shared == "1", source(text, date))
        for name, volumes, shared, text, date in rows("attachments.csv", ATTACHMENT_COLUMNS)
    }
