"""Joins answers to whether something is met; only the standard library is used, since nodes have no more."""

from __future__ import annotations

from collections.abc import Iterable


def all_met(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are met: False if one is missed; None if one is open, or there is none."""
    known = {*answers}
    if False in known:
        return False
    return True if known == {True} else None
