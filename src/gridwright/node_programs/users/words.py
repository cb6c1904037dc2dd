"""Lists in words."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 4


def named(names: Sequence[str]) -> str:
    """`anna, bob and carl`; of many the first ones and how many more."""
    if len(names) > MOST:
        return f"{', '.join(names[:MOST])} and {len(names) - MOST} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
