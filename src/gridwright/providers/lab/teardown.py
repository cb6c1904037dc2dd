"""Ends a lab, or what a killed command left of one, removes it, and checks that nothing is left.

The process that powers its nodes is started here, too, and ended before they are: it would power them on.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab import namespaces
from gridwright.providers.lab.boot import hardware_address
from gridwright.providers.lab.namespaces import ProcessId, end_all, identify, kill
from gridwright.providers.lab.record import LABS, LabRecord, Places, detach_all, write
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


PATIENCE_S = 15.0
"""How long the kernel may take to end processes: one that waits for a dead disk does not end."""

DISK_PATIENCE_S = 5.0


def take_down(record: LabRecord) -> list[str]:
    """End all processes of a lab and remove all that it made; what is left, in words.

    To be called with the lab's lock held. The node image stays. Where something is left, so does the
    record, and it can be called again. Files go only when nothing runs any more.
    """
    record = replace(record, phase="stopping", was_up=record.has_data)
    write(record)
    if left := [*end(record), *_mounts(record.lab)]:
        return left
    write(replace(record, phase="removing"))
    return remove_directories(record.lab)


def end(record: LabRecord) -> list[str]:
    """End all that runs of a lab, as a power failure does, and leave its files; what does not end, in words.

    To be called with the lab's lock held.
    """
    end_power(record)
    home = Places(record.lab).home
    tops = [Path(top) for top in record.group_tops]
    left = _end_processes(record.processes(), tops)
    detach_all(*Places(record.lab).disks.glob("*.img"))
    left += [f"block device {name}" for name in _busy_disks(home)]
    left += [f"control group {group}" for group in namespaces.remove(tops)]
    left += [f"network interface {name}" for name in _interfaces(record)]
    return left


def leftovers(lab: str, left: list[str], verb: str = "down") -> GridwrightError:
    """The error that names what could not be ended or removed; `verb` is the command that tries again."""
    return environment_error(
        f"left of lab {lab}: " + "; ".join(left), remedy=f"end it, then run gridwright {verb} for {lab} again"
    )


def _end_processes(processes: list[ProcessId], tops: list[Path]) -> list[str]:
    """Kill everything in the namespaces and control groups of a lab; what does not end, in words.

    In its control groups, but not in its PID namespaces, is what is just entering.
    """

    def members() -> set[int]:
        return {pid for top in tops for pid in namespaces.processes(top)}

    left = end_all(processes, seconds=PATIENCE_S, more=members)
    return [f"process {_describe(pid)}" for pid in sorted(left)]


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    return f"{pid} ({words.strip() or 'no command line'})"


def _mounts(lab: str) -> list[str]:
    return [f"mount {place}" for place in mounts_below(Places(lab).home)]


def mounts_below(directory: Path) -> list[str]:
    """Mount points on this machine in or below a directory."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [str(point) for point in points if point.is_relative_to(directory)]


def _interfaces(record: LabRecord) -> list[str]:
    """Interfaces of this machine that belong to the lab, which only a fault of ours could bring there."""
    ours = {hardware_address(node.plan) for node in record.nodes}
    found = []
    for path in Path("/sys/class/net").glob("*/address"):
        with suppress(OSError):
            if path.read_text().strip() in ours:
                found.append(path.parent.name)
    return found


def _busy_disks(directory: Path) -> list[str]:
    """Loop devices with a file below a directory; they go a moment after the namespace that mounts them."""
    deadline = time.monotonic() + DISK_PATIENCE_S
    while (found := _loop_devices(directory)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _loop_devices(directory: Path) -> list[str]:
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if Path(path.read_text().strip()).is_relative_to(directory):
                found.append(f"/dev/{path.parents[1].name}")
    return found


def remove_directories(lab: str) -> list[str]:
    """Remove the directory of a lab; what cannot be removed, in words.

    Nothing goes where something else is mounted in it, whose files would go, too.
    """
    home = Places(lab).home
    if not home.exists():
        return []
    if left := _mounts(lab):
        return left
    failed: list[str] = []
    # The record goes last: without it nobody would know of the rest.
    for entry in sorted(home.iterdir(), key=lambda path: path == Places(lab).record):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, onerror=lambda _call, path, error: failed.append(f"{path}: {error[1]}"))
        elif not failed:
            entry.unlink()
    if failed:
        return [f"file {each}" for each in failed[:5]]
    # It may be a link to another disk.
    (home.unlink if home.is_symlink() else home.rmdir)()
    return []


def remove_empty_places() -> None:
    """Remove the directory of all labs when there is none any more."""
    for directory in (LABS, LABS.parent):
        with suppress(OSError):
            directory.rmdir()


def ignore_signals() -> None:
    """Let nothing interrupt what must be finished."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
