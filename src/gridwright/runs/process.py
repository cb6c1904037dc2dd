"""Tells which process made a directory, and whether it still runs."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import psutil

from gridwright.kernel_files import boot_id, text_of


def machine() -> str:
    """Identify this machine and process namespace: two may share a host name, and a file system.

    /etc/machine-id is hashed, as machine-id(5) asks of whoever writes it down.
    """
    name = text_of(Path("/etc/machine-id")) or ""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return hashlib.sha256(f"gridwright {name} {namespace}".encode()).hexdigest()[:16]


def process_facts() -> dict[str, object]:
    """Identify this process, so that a reader can see later whether it still runs."""
    return {
        "host": socket.gethostname(),
        "machine": machine(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
    }


def is_alive(process: dict[str, object]) -> bool | None:
    """Say whether a process described by `process_facts` still runs; None if on another host."""
    if process.get("host") != socket.gethostname() or process.get("machine") != machine():
        return None
    if process.get("boot_id") != boot_id():
        return False
    pid, started = process.get("pid"), process.get("started")
    if not isinstance(pid, int) or not isinstance(started, int | float):
        return False
    try:
        found = psutil.Process(pid)
        # A zombie is dead; in a container there may be nobody to reap it.
        return abs(found.create_time() - started) < 1.0 and found.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False
