"""The one judge of whether a setting is right: the doctor imports it, and the playbook brings it along.

A site's own Ansible loads this file, so that it needs the standard library and Jinja only, and Python 3.9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

NEEDS_SCHEDULER = "nr_requests"
"""The setting of a disk's queue that means nothing without an I/O scheduler (Linux block/queue-sysfs.rst)."""
OF_STACKED_DISKS = "read_ahead_kb"
"""The setting of a queue that disks made of others have: the rest of theirs follow those of their members."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNLIMITED = ("unlimited", "infinity")


def worked_out(formula: str, *, memory_bytes: int, cores: int, cpus: int) -> Any:  # noqa: ANN401
    """What a formula of the tuning table gives for a node; `cores` are physical, `cpus` logical.

    Raises ValueError where it gives nothing.
    """
    value = _compiled(formula)(
        memory_bytes=memory_bytes, memory_kib=memory_bytes // 1024, cores=cores, cpus=cpus
    )
    if value is None:
        raise ValueError(f"the formula {formula} gives nothing")
    return value


@cache
def _compiled(formula: str) -> Any:  # noqa: ANN401 - Jinja's expression
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment().compile_expression(formula)


def is_right(
    found: str, value: int | str | Sequence[int | str], compare: str, bound: str | None = None
) -> bool:
    """Whether what was found is what the table wants, by the way of comparing that its row names.

    Numbers are compared one by one, with their units. Where several places differ (`performance, powersave`),
    each must be right. `bound` is how far this disk can go, where something bounds it.
    """
    if bound is not None and not isinstance(value, (list, tuple)):
        value = min(int(str(value)), int(bound))
    return all(_is_right(each, value, compare) for each in found.split(", "))


def shown(value: int | str | Sequence[int | str]) -> str:
    """A value as people read it."""
    return " or ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def is_for_disk(key: str, media: Sequence[str] | None, medium: str, *, is_stacked: bool) -> bool:
    """Whether a setting of queues is for a disk; `media` None is all, `is_stacked`: it is made of disks."""
    if is_stacked and key != OF_STACKED_DISKS:
        return False
    return not media or medium in media


def _is_right(found: str, value: int | str | Sequence[int | str], compare: str) -> bool:
    listed = [str(each) for each in value] if isinstance(value, (list, tuple)) else [str(value)]
    if compare in ("one-of", "absent"):
        return any(_same(found, each) for each in listed) is (compare == "one-of")
    desired = " ".join(listed)
    has, bounds = _numbers(found), _numbers(desired)
    if compare == "equal" or has is None or bounds is None or len(has) != len(bounds):
        return _same(found, desired)
    pairs = zip(has, bounds)  # noqa: B905 - Python 3.9 has no strict=, and the lengths are equal
    return all(one >= two if compare == "at-least" else one <= two for one, two in pairs)


def _same(found: str, desired: str) -> bool:
    if found.split() == desired.split():
        return True
    numbers = _numbers(found)
    return numbers is not None and numbers == _numbers(desired)


def _numbers(text: str) -> list[float] | None:
    """The numbers of `4096 131072 16777216`, of `256k` or `16M`, of `unlimited`; None where one is none."""
    numbers = []
    for word in text.split():
        match = re.fullmatch(r"(-?\d{1,30})([kKmMgGtT]?)", word)
        if word in _UNLIMITED:
            numbers.append(math.inf)
        elif match:
            numbers.append(float(int(match[1]) * _UNITS[match[2].upper()]))
        else:
            return None
    return numbers or None
