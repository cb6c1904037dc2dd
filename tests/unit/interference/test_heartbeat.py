"""A heartbeat ends with the run that it announces, whatever state it is in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

BEGINS = """
import sys
from pathlib import Path
from gridwright.interference.heartbeat import announcement
from gridwright.interference.presence import Presence
presence, place = Presence(), Path(sys.argv[1])
presence.begin(announcement("a" * 16, "run", "iotest"), scratch=[place], libraries=[place])
presence.wait()
print(presence.pid, flush=True)
sys.stdin.read()
"""


def test_a_heartbeat_that_was_stopped_ends_when_its_run_is_killed(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", BEGINS, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    heartbeat = psutil.Process(int(run.stdout.readline()))
    try:
        os.kill(heartbeat.pid, signal.SIGSTOP)
        run.kill()
        run.communicate()
        deadline = time.monotonic() + 60
        while heartbeat.is_running() and heartbeat.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, heartbeat.status()
            time.sleep(0.05)
        assert list(tmp_path.iterdir()) == [], "its marker goes, too"
    except psutil.NoSuchProcess:
        pass
    finally:
        if heartbeat.is_running():
            heartbeat.kill()
