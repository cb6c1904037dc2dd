"""The cheapest new storage that has room now and in 12 months, and how it gets from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gridwright.filesystems import all_kinds
from gridwright.filesystems.kind import NodeDisks
from gridwright.filesystems.offers import (
    IN_PLACE,
    GrowingOffer,
    Growth,
    Offer,
    SharedChoice,
    VolumeMarket,
    VolumeSet,
    changed_fields,
)


def growing(offer: Offer, bytes_per_s: float, room: int, room_later: int) -> SharedChoice | None:
    """The cheapest of an offer that has room now and in a year; its cost is the mean of the year.

    One that cannot grow in place is bought at its later size.
    """
    later = offer.smallest(bytes_per_s, room_later)
    if later is None or room_later <= room:
        return later
    now = offer.smallest(bytes_per_s, room)
    growth = None if now is None else _between(now, later)
    if now is None or growth is None:
        return later
    if growth.in_place:
        return replace(now, growth=growth, usd_per_hour=growth.mean_usd)
    pair = offer.growing(bytes_per_s, room, room_later) if isinstance(offer, GrowingOffer) else None
    other = None if pair is None else _between(*pair)
    if pair is not None and other is not None and other.in_place:
        return replace(pair[0], growth=other, usd_per_hour=other.mean_usd)
    return replace(later, growth=growth, usd_per_hour=growth.mean_usd)


def _between(now: SharedChoice, later: SharedChoice) -> Growth | None:
    if now.plain != later.plain and now.fixed_because:
        usd, plain = later.usd_per_hour, later.plain
        return Growth(later.title, usd, usd, in_place=False, because=now.fixed_because, plain=plain)
    return _growth(now.plain, later.plain, now.usd_per_hour, later.usd_per_hour, later.title)


def _growth(
    now: Mapping[str, Any], later: Mapping[str, Any], usd_now: float, usd_later: float, title: str
) -> Growth | None:
    """How one section of a file system becomes another; None where they are the same."""
    changed = changed_fields(now, later)
    if not changed:
        return None
    hindering = [each for each in changed if each[1].change not in IN_PLACE]
    because = "; ".join(f"{name}: {update.because}" for name, update in hindering or changed)
    begins = usd_later if hindering else usd_now
    return Growth(title, begins, usd_later, not hindering, because, later)


def growing_volumes(
    market: VolumeMarket, bytes_per_s: float, room: float, room_later: float, most: int
) -> VolumeSet | None:
    """The cheapest volumes of a machine for its room in a year; it begins with as many that are smaller."""
    later = market.cheapest(bytes_per_s, room_later, most)
    if later is None or room_later <= room:
        return later
    now = market.smaller(later, bytes_per_s, room)
    sections = [on_node_disks(each.plain()) for each in (now, later)]
    growth = _growth(sections[0], sections[1], now.usd_per_hour, later.usd_per_hour, str(later))
    return later if growth is None else replace(now, growth=growth, usd_per_hour=growth.mean_usd)


def on_node_disks(disks: Mapping[str, Any]) -> dict[str, Any]:
    """The file system of the first kind that can be on disks of each node."""
    return dict(next(kind for _, kind in all_kinds() if isinstance(kind, NodeDisks)).on_node_disks(disks))
