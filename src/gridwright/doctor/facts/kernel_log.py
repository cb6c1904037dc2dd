"""Finds trouble in the kernel's log since the start of a node, or as far back as the log reaches."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator

from gridwright.doctor.facts.node_facts import Trouble

_MOST_RECORDS = 200_000
_LONGEST_S = 2.5
_RECORD = 8192
"""A record is never longer: CONSOLE_EXT_LOG_MAX of kernel/printk."""

TROUBLE: dict[str, re.Pattern[str]] = {
    "memory-killed": re.compile(r"^Out of memory: Kill"),
    "machine-check": re.compile(r"\bmce: \[Hardware Error\]|Machine Check Exception|EDAC .*\bUE\b"),
    "disk-error": re.compile(
        r"(critical medium|critical target|blk_update_request: I/O|Buffer I/O|\bI/O) error[,: ]"
        r"|EXT4-fs error|XFS \(.*\): (metadata I/O error|Corruption|log I/O error|Filesystem has been shut)"
        r"|Remounting filesystem read-only"
    ),
    "nvme-timeout": re.compile(r"nvme nvme\d+: (I/O .*timeout|controller is down|Device not ready)"),
    "task-hung": re.compile(r"task \S+:\d+ blocked for more than \d+ seconds"),
    "server-silent": re.compile(r"nfs: server \S+ not responding|LustreError: .*(Connection to|evicted)"),
}
"""Kinds of trouble, and the kernel's words for each; a job that is killed at its own limit is none.

mm/oom_kill.c, arch/x86/kernel/cpu/mce, block/blk-core.c, fs/ext4/super.c, fs/xfs, drivers/nvme/host/pci.c,
kernel/hung_task.c, net/sunrpc/clnt.c, lustre/ptlrpc.
"""


_OF_FILES = re.compile(r"\bloop\d")
"""Disks that are files: what uses them, such as an installer or a test, has its own word for it."""


def kernel_log() -> dict[str, Trouble]:
    """How often each kind of trouble is there, and the last line of it. Raises OSError: it may be secret."""
    return digest(_records())


def digest(lines: Iterable[str]) -> dict[str, Trouble]:
    """Count the kinds of trouble; only text of the kernel counts, not what a process wrote into its log."""
    found: dict[str, Trouble] = {}
    for line in lines:
        if _OF_FILES.search(line):
            continue
        for kind, pattern in TROUBLE.items():
            if pattern.search(line):
                before = found[kind].count if kind in found else 0
                found[kind] = Trouble(before + 1, line[:200])
    return found


def _records() -> Iterator[str]:
    """The text of each record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg of the kernel)."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    deadline = time.monotonic() + _LONGEST_S
    with contextlib.closing(os.fdopen(log, "rb", buffering=0)):
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(log, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # The record was overwritten while it was read: the next one follows.
                continue
            if not record or time.monotonic() > deadline:
                return
            if (text := kernel_text(record.decode(errors="replace"))) is not None:
                yield text


def kernel_text(record: str) -> str | None:
    """The text of `priority,number,microseconds,flags;text`; None of what did not come from the kernel.

    The lowest three bits of the priority are the level, the others the facility, 0 for the kernel.
    """
    head, _, rest = record.partition(";")
    priority = head.split(",", 1)[0]
    if not priority.isdigit() or int(priority) >> 3:
        return None
    return rest.split("\n", 1)[0]
