"""How long an export, a warm-up and a full restore take at least, and what their requests cost.

Of a repository that a service carries (FSx for Lustre) less is known. AWS's pages do not say how fast its
tasks work, nor into how many parts it cuts large objects. What is reckoned is what it cannot do without: a
request that sends or gets each object, one that asks for the owner, mode and times of each, which listings
have not, and listings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_PER_1000 = {
    "put": 0.005,
    "copy": 0.005,
    "list": 0.005,
    "get": 0.0004,
    "head": 0.0004,
    "delete": 0.0,
    "probe": 0.005,
}


def cost(requests: Mapping[str, int]) -> float:
    """USD for so many requests of each kind; what is not listed there costs nothing."""
    return sum(_PER_1000.get(kind, 0.0) * count / 1000 for kind, count in requests.items())


PART_BYTES = 8 << 20
"""Of objects that are sent in parts (s3/parts.py); a test holds both to each other."""
RANGE_BYTES = 16 << 20
"""Of one request for a part of a large object (s3/ranges.py); held to each other, too."""
PER_LISTING = 1000
"""Keys that one listing has at most (Amazon S3 API Reference, ListObjectsV2)."""
REQUESTS_PER_S = {"put": 3500.0, "get": 5500.0}
"""What S3 promises of a prefix before it splits it (AWS Knowledge Center, s3-object-key-naming-pattern); HEAD
counts as GET."""
RESTORE = "full restore: names and contents"
NOT_IN_IT = (
    "One node carries all. Names, latency and other load come on top; S3 may split a busy prefix.",
    "Requests at list prices of S3 Standard in us-east-1, of November 2025; traffic is left out.",
    "A month is what S3 Standard asks for keeping all of it, what imports and exports by time ask for "
    "listings, and what is changed, where --changed says how much.",
)
MONTH_S = 730 * 3600
"""As in bills of AWS: 730 hours."""
_MONTH_DAYS = MONTH_S / 86_400


@dataclass(frozen=True, slots=True)
class TransferLimit:
    """What one transfer passes, in bytes per second."""

    what: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class TransferForecast:
    """One transfer of all files. None for what is not known."""

    transfer: str
    seconds: float
    bound_by: str
    requests: Mapping[str, int] | None
    requests_usd: float | None


@dataclass(frozen=True, slots=True)
class MonthForecast:
    """A month of a repository in which nothing changes. None for what is not known."""

    storage_usd: float | None
    exports: int
    """How often files are looked at by time."""
    imports: int
    """How often the bucket is listed by time."""
    listings: int | None
    listings_usd: float | None
    changed_usd: float | None = None
    """For sending what is changed, at a request for each file and change at least."""


@dataclass(frozen=True, slots=True)
class RepositoryForecast:
    """All transfers of a repository."""

    repository: str
    bytes: int
    objects: int | None
    transfers: Sequence[TransferForecast]
    month: MonthForecast | None = None
    notes: Sequence[str] = field(default=NOT_IN_IT)

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        return asdict(self)


def forecast(
    repository: str,
    size: int,
    objects: int | None,
    out: Sequence[TransferLimit],
    back: Sequence[TransferLimit],
    month: MonthForecast | None = None,
) -> RepositoryForecast:
    """Forecast of `size` bytes in so many objects; None where nobody says how many.

    `out` are the limits from the library to the store, `back` those the other way; at least one each.
    """
    if objects is None:
        sent = got = listed = None
    else:
        mean = size / max(1, objects)
        # An object in parts has a request for each, and two that begin and end it.
        each = 1 if mean <= PART_BYTES else math.ceil(mean / PART_BYTES) + 2
        sent = {"put": objects * each}
        got = {"get": objects * max(1, math.ceil(mean / RANGE_BYTES))}
        listed = _restore_requests(size, objects)
    return RepositoryForecast(
        repository,
        size,
        objects,
        (
            transfer_forecast("export of all files", size, sent, "put", out),
            transfer_forecast("warm-up: contents of names that are there", size, got, "get", back),
            transfer_forecast(RESTORE, size, listed, "get", back),
        ),
        month,
    )


def month_forecast(
    size: int,
    objects: int | None,
    usd_per_gib: float | None,
    export_s: float | None,
    import_s: float | None,
    changed_a_day: int | None = None,
    *,
    exports_list: bool = True,
) -> MonthForecast:
    """A month at this price; exports and imports come so many seconds after each other, None for never.

    `changed_a_day` files are changed each day, and each has one request; 0 seconds means exports at once.
    """
    imports, exports = (int(MONTH_S // each) if each else 0 for each in (import_s, export_s))
    # Each lists the bucket, an import for what is new, an export for what is gone; those of a service do not.
    lists = imports + exports * exports_list
    listings = None if objects is None else lists * math.ceil(objects / PER_LISTING)
    return MonthForecast(
        None if usd_per_gib is None else size / 2**30 * usd_per_gib,
        exports,
        imports,
        listings,
        None if listings is None else cost({"list": listings}),
        _changed_usd(export_s, changed_a_day),
    )


def _changed_usd(export_s: float | None, changed_a_day: int | None) -> float | None:
    if export_s is None:
        return 0.0
    return None if changed_a_day is None else cost({"put": round(changed_a_day * _MONTH_DAYS)})


def restore_forecast(size: int, objects: int, back: Sequence[TransferLimit] = ()) -> TransferForecast:
    """Forecast of a full restore; without limits the store alone bounds it, and it takes longer in fact."""
    return transfer_forecast(RESTORE, size, _restore_requests(size, objects), "get", back)


def _restore_requests(size: int, objects: int) -> Mapping[str, int]:
    """A restore lists the bucket and reads the manifest before it brings contents."""
    parts = max(1, math.ceil(size / max(1, objects) / RANGE_BYTES))
    return {"get": objects * parts + 1, "list": math.ceil(objects / PER_LISTING)}


def transfer_forecast(
    what: str, size: int, requests: Mapping[str, int] | None, kind: str, limits: Sequence[TransferLimit]
) -> TransferForecast:
    """Forecast of `size` bytes past these limits, where S3 takes so many requests of `kind` a second."""
    slowest = min(limits, key=lambda limit: limit.bytes_per_s, default=None)
    seconds, bound_by = (
        (0.0, "nothing known") if slowest is None else (size / slowest.bytes_per_s, slowest.what)
    )
    if requests is not None and (wait := _of_kind(requests, kind) / REQUESTS_PER_S[kind]) > seconds:
        seconds, bound_by = wait, f"{REQUESTS_PER_S[kind]:.0f} requests a second, S3's promise of one prefix"
    return TransferForecast(what, seconds, bound_by, requests, None if requests is None else cost(requests))


def _of_kind(requests: Mapping[str, int], kind: str) -> int:
    return requests.get(kind, 0) + (requests.get("head", 0) if kind == "get" else 0)


NOTES = (
    "The file system carries all by itself. How fast its tasks work is not on file: its throughput "
    "that lasts bounds them, without bursts, and so does what S3 promises of a prefix.",
    "One request sends or gets an object at least; into how many parts large ones are cut is not known.",
    "Requests at list prices of S3 Standard in us-east-1, of November 2025. Tasks cost nothing.",
    "A month is what S3 Standard asks for keeping all of it, what imports by time ask for listings, and what "
    "is changed, where --changed says how much.",
)


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
