"""What the sections of a node's facts cost the node that tells them, and which checks are cheap by that.

`python bench/doctor_cost.py [LIBRARY]` prints the wall time and the CPU time of each section, of this process
and of what it starts, and how many programs it starts. LIBRARY is a directory that stands for a library.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from unittest import mock

from gridwright.doctor.checks import all_checks
from gridwright.doctor.checks.tuning import requested_commands, requested_settings
from gridwright.doctor.facts import filesystems, gather
from gridwright.doctor.messages import FactsRequest

TIMES = 5
SECTIONS = {"library": "libraries", "locks": "libraries", "left": "libraries", "mount": "mounts"}
"""Names of looks before the colon, where sections have others."""


def _used_s() -> float:
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def cost(look: Callable[[], object]) -> tuple[float, float, int]:
    """Wall and CPU time of a look in ms, and the programs it starts."""
    with mock.patch("subprocess.Popen", wraps=subprocess.Popen) as begun:
        used, began = _used_s(), time.monotonic()
        for _ in range(TIMES):
            with contextlib.suppress(OSError):
                look()
        took = time.monotonic() - began
    return 1000 * took / TIMES, 1000 * (_used_s() - used) / TIMES, begun.call_count // TIMES


def main() -> None:
    """Print what each section costs."""
    cheap = frozenset[str]().union(*(check.reads or () for check in all_checks()))
    with tempfile.TemporaryDirectory() as made:
        library = sys.argv[1] if len(sys.argv) > 1 else made
        request = FactsRequest({"data": library}, requested_settings(), requested_commands(), {})
        print(f"{'section':<28} {'wall ms':>8} {'CPU ms':>8} {'programs':>8}  each minute")
        for name, look in gather._lookers(request, filesystems.mounted()).items():
            wall, used, programs = cost(look)
            mark = "yes" if SECTIONS.get(name.partition(":")[0], name) in cheap else ""
            print(f"{name[:28]:<28} {wall:8.2f} {used:8.2f} {programs:8}  {mark}")
    print(f"{sum(check.is_cheap for check in all_checks())} of {len(all_checks())} checks are cheap")


if __name__ == "__main__":
    main()
