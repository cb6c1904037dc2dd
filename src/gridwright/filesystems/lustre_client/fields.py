"""The field that each kind of Lustre in a grid spec has: over how many targets a file is striped."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Change, Update

StripeCount = Annotated[int, Update(Change.LIVE, "new files have it; old ones keep theirs")]
"""How many targets a file lies on; -1 is all."""


def stripe_count() -> Any:  # noqa: ANN401 - what pydantic takes for a field
    """The field's default, limits and description."""
    return Field(
        default=1,
        ge=-1,
        le=2_000,
        description="Over how many OSTs a file is striped, as `lfs setstripe -c` has it; -1 is all.",
    )
