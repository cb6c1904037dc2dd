"""What the mixed workload of a grid must reach: the section `workload` of the grid spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import Duration

_JUDGED = Update(Change.LIVE, "only proofs read it")
Ratio = Annotated[float, Field(gt=0, le=1)]
"""CPU time over real time: 1 where a core was never kept waiting."""


class WorkloadRequires(SpecModel):
    """What launches of the workload must reach, beside right answers."""

    ratio: Annotated[Ratio | None, _JUDGED] = Field(
        default=None,
        description="The CPU/real ratio of all launches, such as 0.9: both the mean of single launches and "
        "that of the sums must reach it. A launch on several cores counts as 1 at most.",
    )
    tests: Annotated[Mapping[str, Ratio], _JUDGED] = Field(
        default_factory=dict,
        description="The CPU/real ratio of single tests, by their names, such as regression: 0.95.",
    )
    real_time: Annotated[Duration | None, _JUDGED] = Field(
        default=None,
        description="The time from the start of the first launch of the matrix to the end of the last, at "
        "most, such as 4h.",
    )


class Workload(SpecModel):
    """The mixed workload of a grid."""

    requires: Annotated[WorkloadRequires | None, _JUDGED] = Field(
        default=None,
        description="What the workload must reach. Without it a run of it says how far it came, and "
        "nothing is proven of it.",
    )
