"""Reads what the kernel said of disks while a command ran: mkfs says that writing failed, it says where."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

KERNEL_LOG = Path("/dev/kmsg")
_MOST_LINES = 5
_SLACK_S = 1.0
"""The clock of the log is not quite the monotonic one (Documentation/ABI/testing/dev-kmsg)."""
_RECORD = 8192
_BAD = re.compile(r"error|fail|timeout|reset|offline|abort", re.IGNORECASE)


def disk_errors(names: Iterable[str], since: float, log: Path = KERNEL_LOG) -> tuple[str, ...]:
    """The last lines of the kernel since `since` (time.monotonic) that name one of the disks and a failure.

    Nothing where the log cannot be read.
    """
    desired = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in names)})\b")
    found = []
    for stamp, text in _records(log):
        if stamp >= since - _SLACK_S and desired.search(text) and _BAD.search(text):
            found.append(text)
    return tuple(found[-_MOST_LINES:])


def _records(log: Path) -> list[tuple[float, str]]:
    """Seconds and text of each record; one read gives one record."""
    try:
        opened = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    records = []
    try:
        while True:
            try:
                data = os.read(opened, _RECORD)
            except OSError as error:
                # EPIPE: records were overwritten meanwhile; reading goes on behind them.
                if error.errno == errno.EPIPE:
                    continue
                break
            if not data:
                break
            records += [
                each for line in data.decode("utf-8", "replace").splitlines() if (each := _parsed(line))
            ]
    finally:
        os.close(opened)
    return records


def _parsed(line: str) -> tuple[float, str] | None:
    """`priority,sequence,microseconds,flags;text`."""
    head, mark, text = line.partition(";")
    fields = head.split(",")
    if not mark or len(fields) < 3 or not fields[2].isdigit():
        return None
    return int(fields[2]) / 1e6, text
