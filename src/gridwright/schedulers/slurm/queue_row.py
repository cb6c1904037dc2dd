"""One line of Slurm's queue, in whichever form squeue printed it."""

from __future__ import annotations

from dataclasses import dataclass

HIGHEST_SIGNAL = 64
"""Linux has signals 1 to 64; Slurm puts numbers of its own above, such as 125 for out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A job, or those elements of an array that Slurm keeps together while they wait."""

    job_id: int
    """Of the whole array, where it is one."""
    indices: tuple[int, ...] | None
    """Elements that it stands for; None where it is no array."""
    name: str
    words: tuple[str, ...]
    """Slurm's words for the state: the base state, then flags."""
    reason: str
    partition: str
    user: str
    node: str | None
    submitted: float | None
    started: float | None
    """Seconds since 1970; a time to come is an estimate, and is None here."""
    ended: float | None
    exit_status: int | None
    signal: int | None
    restarts: int


def decode_end(exit_status: int, signal: int) -> tuple[int | None, int | None]:
    """Exit status and signal of the command, out of those of our script.

    The script ends with the status that the shell gives: 128 + n where signal n ended the command.
    """
    if signal:
        return None, signal if signal <= HIGHEST_SIGNAL else None
    if 128 < exit_status <= 128 + HIGHEST_SIGNAL:
        return None, exit_status - 128
    return exit_status, None


def decode_wait_status(status: int) -> tuple[int | None, int | None]:
    """The same out of a status as wait(2) gives it, which squeue shows."""
    return decode_end(status >> 8 & 0xFF, status & 0x7F)
