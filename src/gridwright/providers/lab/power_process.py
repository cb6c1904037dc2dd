"""Starts and ends the process that powers nodes of a lab for its scheduler."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

from gridwright.providers.lab.record import LabRecord, Places, write
from gridwright.providers.lab.syscalls import identify, kill
from gridwright.spec.model import GridSpec

_END_S = 5.0
_MODULE = "gridwright.providers.lab.power"


def start_power(record: LabRecord, spec: GridSpec) -> LabRecord:
    """Start it where the lab has nodes that are powered on and off; the record has it. Raises OSError.

    To be called with the lab's lock held: it waits for the lock before it does anything.
    """
    if not spec.powered_nodes():
        return record
    with Places(record.lab).power_log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, record.lab],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    record = replace(record, power=identify(process.pid))
    write(record)
    return record


def end_power(record: LabRecord) -> None:
    """End it, before its nodes are: it would power them on again."""
    if record.power is None:
        return
    kill(record.power)
    deadline = time.monotonic() + _END_S
    while record.power.alive and time.monotonic() < deadline:
        time.sleep(0.01)
