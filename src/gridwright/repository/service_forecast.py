"""The same forecasts for a repository that a service carries, of which less is known: FSx for Lustre.

How fast its tasks work, and into how many parts it cuts large objects, AWS's pages do not say. What is
reckoned is what it cannot do without: a request that sends or gets each object, one that asks for the owner,
mode and times of each (listings have none of these), and listings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gridwright.repository.forecast import (
    PER_LISTING,
    MonthForecast,
    RepositoryForecast,
    TransferForecast,
    TransferLimit,
    transfer_forecast,
)

NOTES = (
    "The file system carries all by itself. How fast its tasks work is not on file: its throughput "
    "that lasts bounds them, without bursts, and so does what S3 promises of a prefix.",
    "One request sends or gets an object at least; into how many parts large ones are cut is not known.",
    "Requests at list prices of S3 Standard in us-east-1, of November 2025. Tasks cost nothing.",
    "A month is what S3 Standard asks for keeping all of it, what imports by time ask for listings, and what "
    "is changed, where --changed says how much.",
)
RESTORE = "full restore: names and contents"


def service_forecast(
    repository: str,
    size: int,
    objects: int | None,
    out: Sequence[TransferLimit],
    back: Sequence[TransferLimit],
    month: MonthForecast | None = None,
    notes: Sequence[str] = (),
) -> RepositoryForecast:
    """Forecast of `size` bytes in so many objects; None where nobody says how many, and names are left out.

    `out` are the limits of the file system when it is read, `back` those when it is written to.
    """
    sent = None if objects is None else {"put": objects}
    got = None if objects is None else {"get": objects}
    names = (
        ()
        if objects is None
        else (transfer_forecast("import of names", 0, names_requests(objects), "get", ()),)
    )
    return RepositoryForecast(
        repository,
        size,
        objects,
        (
            transfer_forecast("export of all files", size, sent, "put", out),
            *names,
            transfer_forecast("warm-up: contents of names that are there", size, got, "get", back),
            service_restore(size, objects, back),
        ),
        month,
        (*notes, *NOTES),
    )


def service_restore(size: int, objects: int | None, back: Sequence[TransferLimit]) -> TransferForecast:
    """Forecast of a full restore by the service; without limits S3 alone bounds it."""
    requests = None if objects is None else {**names_requests(objects), "get": objects}
    return transfer_forecast(RESTORE, size, requests, "get", back)


def names_requests(objects: int) -> Mapping[str, int]:
    """What names, owners and times of so many objects ask for at least."""
    return {"head": objects, "list": math.ceil(objects / PER_LISTING)}
