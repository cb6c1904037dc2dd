"""What to do about a stack that did not come to where it should."""

from __future__ import annotations

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.aws.session import reason_remedy

NEVER_MADE = "REVIEW_IN_PROGRESS"
"""State of a stack that was proposed, and never made."""
UNFINISHED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", NEVER_MADE})
"""States of a stack whose creation came to nothing: it can only be deleted."""


def failure_of(name: str, state: str, reason: str, region: str) -> GridwrightError:
    """The error of a stack that did not come to where it should, with what to do from its state."""
    because = reason or "AWS names no resource that failed"
    return environment_error(
        f"stack {name} is in {state}: {because}",
        where=f"AWS, {region}",
        remedy="; ".join(filter(None, (reason_remedy(reason), state_remedy(name, state)))),
    )


def state_remedy(name: str, state: str) -> str:
    """What to do about a stack that is in a state which is not whole."""
    if state in UNFINISHED:
        return "then run gridwright down, which removes what is left of the stack, and gridwright up again"
    if state == "UPDATE_ROLLBACK_FAILED":
        return (
            "mend what the reason names, run aws cloudformation continue-update-rollback --stack-name "
            f"{name}, then gridwright up again"
        )
    if state == "DELETE_FAILED":
        return "mend what the reason names, then run gridwright down again"
    if state.endswith("_IN_PROGRESS"):
        return "wait for its end: gridwright up and down do"
    return "the stack is as it was before; mend what the reason names, then run the same command again"
