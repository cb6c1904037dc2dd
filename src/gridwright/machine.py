"""What this machine has to run jobs with: physical cores and memory."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")


@cache
def physical_cores() -> int:
    """Count the physical cores that this process may use.

    A core is never a hyperthread: logical CPUs that name the same siblings in
    `topology/core_cpus_list` (https://docs.kernel.org/admin-guide/cputopology.html) are one core.
    """
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = _CPUS / f"cpu{cpu}" / "topology"
        for name in ("core_cpus_list", "thread_siblings_list"):
            try:
                cores.add((topology / name).read_text().strip())
                break
            except OSError:
                continue
        else:
            cores.add(str(cpu))
    return max(1, len(cores))


def memory_bytes() -> int:
    """All memory of this machine, in bytes (sysconf(3))."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
