"""Which process made a directory, and whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil


def boot_id() -> str:
    """Identify this boot of this kernel; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_facts() -> dict[str, object]:
    """Identify this process, so that a reader can see later whether it still runs."""
    return {
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
    }


def is_alive(process: dict[str, object]) -> bool | None:
    """Say whether a process described by `process_facts` still runs; None if on another host."""
    if process.get("host") != socket.gethostname():
        return None
    if process.get("boot_id") != boot_id():
        return False
    pid, started = process.get("pid"), process.get("started")
    if not isinstance(pid, int) or not isinstance(started, int | float):
        return False
    try:
        return abs(psutil.Process(pid).create_time() - started) < 1.0
    except (psutil.Error, ValueError, OverflowError):
        return False
