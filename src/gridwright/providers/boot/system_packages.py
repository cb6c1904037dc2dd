"""Runs commands of a machine's set-up, and installs what the set-up itself is run by.

set_up.py and bake.py, beside it in the bundle, use it. It needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
BUNDLE = Path(__file__).resolve().parent.parent
PAUSE_S = float(os.environ.get("GRIDWRIGHT_BOOT_PAUSE_S", "15"))
TRIES = 8
INSTALL_S = 1200
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
"""The environment in which packages ask nothing, and nothing restarts services for them."""
APT = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq"]
CONFIGURE = ["dpkg", "--force-confold", "--configure", "-a"]
LAST: collections.deque[str] = collections.deque(maxlen=40)
"""The end of the log."""


class Failed(Exception):
    """A step that did not succeed, in words for who reads them at `gridwright up`."""


def log(line: str) -> None:
    """A line of the log as it is."""
    LAST.append(line)
    print(line, flush=True)  # noqa: T201 - the log


def say(text: str) -> None:
    """A line of the log, with its time."""
    log(f"{time.strftime('%H:%M:%SZ', time.gmtime())} {text}")


def run(command: Sequence[str | Path], limit_s: float, **environment: str) -> tuple[int, list[str]]:
    """Run a command with a limit of time, its output into the log; returns status and the last lines."""
    say("+ " + " ".join(map(str, command)))
    process = subprocess.Popen(
        [str(each) for each in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
        text=True,
        errors="replace",
    )
    expired: list[bool] = []

    def end() -> None:
        expired.append(True)
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s, end)
    timer.start()
    lines: collections.deque[str] = collections.deque(maxlen=60)
    try:
        for line in process.stdout or ():
            log(line.rstrip())
            lines.append(line.rstrip())
        status = process.wait()
    finally:
        timer.cancel()
    if expired:
        lines.append(f"it had not ended after {limit_s:.0f} s")
    return status, [line for line in lines if line.strip()]


def reason_of(lines: Sequence[str]) -> str:
    """What of a command's last lines says why: from the first line on that reports an error."""
    marks = ("fatal:", "ERROR", "Error", "E: ")
    first = next((at for at, line in enumerate(lines) if line.startswith(marks)), max(0, len(lines) - 5))
    return " | ".join(lines[first:])


def install() -> None:
    """Ansible, as packages of the system that Gridwright's table names. Raises Failed for systems without.

    What a power cut left half installed is finished first.
    """
    system = os_release()
    known = json.loads((BUNDLE / "boot/distributions.json").read_text())
    row = next((each for each in known if is_of(each, system)), None)
    if row is None or row["refused"]:
        title = system.get("PRETTY_NAME") or "this system"
        why = row["refused"] if row else "it is not in the table of distributions"
        raise Failed(f"{title} is not supported: {why} (gridwright help setup)")
    lines: list[str] = []
    for attempt in range(TRIES):
        time.sleep(PAUSE_S if attempt else 0)
        for step in missing(row["ansible"]):
            status, lines = run(step, INSTALL_S, **QUIET)
            # Where another dpkg is at work, apt-get waits for it after this.
            if status and step != CONFIGURE:
                break
        else:
            return
    raise Failed(f"ansible-core cannot be installed: {reason_of(lines)}")


def missing(packages: list[str]) -> list[list[str]]:
    """The commands that install what is missing, and mend what is there in part: none, as a rule."""
    is_there = shutil.which("ansible-playbook") is not None
    if not shutil.which("apt-get"):
        return [] if is_there else [["dnf", "-y", "-q", "install", *packages]]
    is_mess = any(run(["dpkg", "--audit"], INSTALL_S)[1])
    steps = [CONFIGURE, [*APT, "update"], [*APT, "-y", "-f", "install"]] if is_mess else []
    if not is_there:
        steps += [[*APT, "update"], [*APT, "-y", "--no-install-recommends", "install", *packages]]
    return steps


def os_release() -> dict[str, str]:
    """What os-release(5) says of this machine."""
    lines = (ROOT / "etc/os-release").read_text("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def is_of(row: dict[str, Any], system: dict[str, str]) -> bool:
    """Whether a row of the table is for this system: its version is that of the row, or a later minor one."""
    version = system.get("VERSION_ID", "")
    return row["id"] == system.get("ID") and (version + ".").startswith(row["version"] + ".")
