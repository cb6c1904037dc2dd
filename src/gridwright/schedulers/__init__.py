"""Jobs and what starts them: the protocol of schedulers, and one package for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    # The runner of local jobs imports this package, and does without the spec.
    from gridwright.schedulers.kind import SchedulerKind
    from gridwright.spec.scheduler import SchedulerSection


def scheduler_kind(section: SchedulerSection) -> SchedulerKind[Any]:
    """The kind of a grid's scheduler, as in `kind_of(spec.scheduler).open(spec, head)`.

    Raises GridwrightError (status ENVIRONMENT) where the extension that brings it cannot be imported.
    """
    from gridwright.spec.scheduler import SCHEDULERS

    return cast("SchedulerKind[Any]", SCHEDULERS.get(section.type))


def all_kinds() -> Iterator[SchedulerKind[Any]]:
    """Every kind that can be imported."""
    from gridwright.spec.scheduler import SCHEDULERS

    return (cast("SchedulerKind[Any]", kind) for _, kind in SCHEDULERS.kinds())
