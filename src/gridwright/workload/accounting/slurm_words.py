"""How Slurm spells states."""

from __future__ import annotations

ENDED_WELL = "COMPLETED"
_UNFINISHED = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "CONFIGURING",
        "COMPLETING",
        "RESIZING",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
    }
)
_STATES = _UNFINISHED | {
    *(ENDED_WELL, "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"),
    *("REQUEUED", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED", "STOPPED", "SIGNALING"),
    *("STAGE_OUT", "RECONFIG_FAIL"),
}


def state_of(text: str) -> str | None:
    """The first word of `CANCELLED by 0`; None if Slurm has no such state."""
    word = text.split(" ", 1)[0].rstrip("+").upper()
    return word if word in _STATES else None


def has_ended(state: str) -> bool:
    """Whether a job in this state does not go on."""
    return state not in _UNFINISHED


def reason_of(state: str, text: str, exit_status: int, signal: int) -> str | None:
    """Why a job failed, in one line; None if it did not."""
    if state == ENDED_WELL:
        return None
    words = " ".join(text.split()) or state
    if exit_status:
        return f"{words}: exit status {exit_status}"
    return f"{words}: signal {signal}" if signal else words
