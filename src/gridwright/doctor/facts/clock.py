"""Looks up whether a node's clock is kept right, and by which service."""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path

from gridwright.commands import CommandError, run_here
from gridwright.doctor.facts.node_facts import ClockFacts
from gridwright.kernel_files import text_of

_UNSYNCHRONISED = 0x0040
"""STA_UNSYNC, include/uapi/linux/timex.h."""
_KEEPERS = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd", "ntpsec")
"""Services that keep the time, as /proc/PID/comm names them: its first 15 characters."""
_ANSWER_S = 2.0


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2), up to what is read here, with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock() -> ClockFacts:
    """Whether the kernel holds the clock for synchronised (adjtimex(2)), and which service keeps it."""
    keepers = _running()
    synchronised = _kernel_says()
    if not synchronised and "chronyd" in keepers:
        # Without rtcsync in its configuration, chronyd leaves the kernel's flag alone (chrony.conf(5)).
        synchronised = _chrony_says()
    return ClockFacts(synchronised, keepers)


def _kernel_says() -> bool:
    """Raises OSError where the call is not allowed."""
    timex = _Timex()
    library = ctypes.CDLL(None, use_errno=True)
    if library.adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex is refused")
    return not timex.status & _UNSYNCHRONISED


def _chrony_says() -> bool:
    """The last field of `chronyc -c tracking` is `Normal` where it is synchronised (chronyc(1))."""
    try:
        done = run_here(["chronyc", "-n", "-c", "tracking"], timeout_s=_ANSWER_S)
    except CommandError:
        return False
    return done.stdout.decode(errors="replace").strip().rpartition(",")[2] == "Normal"


def _running() -> list[str]:
    found = {text_of(path / "comm") for path in Path("/proc").glob("[0-9]*")}
    return sorted(name for name in _KEEPERS if name in found)
