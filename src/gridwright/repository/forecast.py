"""How long an export, a warm-up and a full restore take at least, and what their requests cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gridwright.repository.request_prices import cost

PART_BYTES = 8 << 20
"""Of objects that are sent in parts (s3/transfers.py); a test holds both to each other."""
RANGE_BYTES = 32 << 20
"""Of one request for a part of a large object (s3/ranges.py); held to each other, too."""
PER_LISTING = 1000
"""Keys that one listing has at most (Amazon S3 API Reference, ListObjectsV2)."""
REQUESTS_PER_S = {"put": 3500.0, "get": 5500.0}
"""What S3 promises of a prefix before it splits it (AWS Knowledge Center, s3-object-key-naming-pattern)."""
NOT_IN_IT = (
    "One node carries all. Names, latency and other load come on top; S3 may split a busy prefix.",
    "Requests at list prices of S3 Standard in us-east-1, of November 2025; traffic is left out.",
    "No price of storage is on file: what the bucket costs a month is unknown.",
)


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
class RepositoryForecast:
    """All transfers of a repository."""

    repository: str
    bytes: int
    objects: int | None
    transfers: Sequence[TransferForecast]
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
        # A restore lists the bucket and reads the manifest before it brings contents.
        listed = {"get": got["get"] + 1, "list": math.ceil(objects / PER_LISTING)}
    return RepositoryForecast(
        repository,
        size,
        objects,
        (
            _transfer("export of all files", size, sent, "put", out),
            _transfer("warm-up: contents of names that are there", size, got, "get", back),
            _transfer("full restore: names and contents", size, listed, "get", back),
        ),
    )


def _transfer(
    what: str, size: int, requests: Mapping[str, int] | None, kind: str, limits: Sequence[TransferLimit]
) -> TransferForecast:
    slowest = min(limits, key=lambda limit: limit.bytes_per_s)
    seconds, bound_by = size / slowest.bytes_per_s, slowest.what
    if requests is not None and (wait := requests[kind] / REQUESTS_PER_S[kind]) > seconds:
        seconds, bound_by = wait, f"{REQUESTS_PER_S[kind]:.0f} requests a second, S3's promise of one prefix"
    return TransferForecast(what, seconds, bound_by, requests, None if requests is None else cost(requests))
