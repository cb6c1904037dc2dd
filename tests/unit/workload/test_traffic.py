"""The counters of a launch: another process sees them live, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from gridwright.runs.launch_record import LibraryTraffic
from gridwright.workload.launches.traffic import LaunchTraffic, blocked_time

COUNTS = """
import sys, time
from gridwright.runs.launch_record import LibraryTraffic
from gridwright.workload.launches.traffic import LaunchTraffic
traffic = LaunchTraffic(int(sys.argv[1]))
traffic.add("data", "read", 1 << 40, 1_500_000_000)
traffic.add("work", "write", 7, 0)
traffic.add("work", "write", 5, 250_000_000, 4)
traffic.add("util", "read", 3, -20)
print("counted", flush=True)
time.sleep(60)
"""


def test_counts_are_seen_by_another_process_also_after_it_is_killed() -> None:
    fd = LaunchTraffic.create()
    seen = LaunchTraffic(fd)
    nothing = LibraryTraffic(0, 0, 0.0, 0.0)
    assert seen.totals() == {"data": nothing, "work": nothing, "util": nothing}
    with subprocess.Popen(
        [sys.executable, "-c", COUNTS, str(fd)], stdout=subprocess.PIPE, pass_fds=[fd]
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        live = seen.totals()
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert live == seen.totals()
    assert live == {
        "data": LibraryTraffic(1 << 40, 0, 1.5, 0.0, 1, 0),
        "work": LibraryTraffic(0, 12, 0.0, 0.25, 0, 5),
        "util": LibraryTraffic(3, 0, 0.0, 0.0, 1, 0),
    }
    assert seen.waited_ns() == 1_750_000_000
    seen.close()
    os.close(fd)


def test_the_counters_are_not_left_to_programs_that_they_were_not_given_to() -> None:
    fd = LaunchTraffic.create()
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_sleeping_is_blocked_time_and_computing_is_not() -> None:
    with blocked_time() as slept:
        time.sleep(0.2)
    with blocked_time() as computed:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
    assert slept[0] >= 150_000_000
    assert computed[0] < slept[0] / 2
