"""Why a job failed, in words, from the exit status or the signal of its command."""

from __future__ import annotations

import signal

_BY_SHELLS = {
    126: "as where a program cannot be executed",
    127: "as where a program is not found",
}
"""POSIX, Shell Command Language, 2.8.2."""


def exit_reason(exit_status: int | None, number: int | None) -> str | None:
    """Such as "exit status 42" or "ended by signal 11 (SIGSEGV)"; None for what completed or is not known."""
    if number:
        return f"ended by signal {number} ({signal_name(number)})"
    if not exit_status:
        return None
    meant = _BY_SHELLS.get(exit_status)
    return f"exit status {exit_status}{f', {meant}' if meant else ''}"


def signal_name(number: int) -> str:
    """The name of a signal of Linux, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
