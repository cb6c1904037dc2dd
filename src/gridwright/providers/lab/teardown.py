"""Takes a lab down, or what a killed command left of one, and looks that nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gridwright.grid.state_directory import LABS
from gridwright.providers.lab import cgroups
from gridwright.providers.lab.disk import detach_all
from gridwright.providers.lab.network import hardware_address
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.processes import (
    HeldNamespaces,
    ProcessId,
    identify,
    kill,
    wait_until_gone,
)
from gridwright.providers.lab.record import LabRecord, boot_id, write

PATIENCE_S = 15.0
"""How long the kernel may take to end processes: one that waits for a dead disk does not end."""


def take_down(record: LabRecord) -> list[str]:
    """End all processes of a lab and remove all that it made; what is left, in words.

    To be called with the lab's lock held. The node image stays. Where something is left, so does the
    record, and it can be called again.
    """
    write(replace(record, phase="stopping"))
    same_boot = record.boot == boot_id()
    processes = record.processes() if same_boot else []
    held = HeldNamespaces(processes)
    try:
        # The end of the anchor is the end of all that is in its PID namespace.
        for process in processes:
            kill(process)
        wait_until_gone(processes, seconds=PATIENCE_S)
        tops = [Path(top) for top in record.group_tops]
        if same_boot:
            _kill_members(tops)
        left = [f"process {_describe(pid)}" for pid in held.members()]
    finally:
        held.close()
    left += [f"process {_describe(process.pid)}" for process in processes if process.alive]
    left += [f"control group {group}" for group in cgroups.remove(tops)]
    left += [f"mount {place}" for place in mounts_below(Places(record.lab).home)]
    left += [f"network interface {name}" for name in _interfaces(record)]
    left = list(dict.fromkeys(left))
    if not left:
        detach_all(Places(record.lab).disks)
        left = remove_directories(record.lab)
    return left


def _kill_members(tops: list[Path]) -> None:
    """Kill what is in the lab's control groups but not in its PID namespaces, such as what is entering."""
    members: list[ProcessId] = []
    for pid in {pid for top in tops for pid in cgroups.processes(top)} - {os.getpid()}:
        with suppress(ProcessLookupError):
            members.append(identify(pid))
    for process in members:
        kill(process)
    wait_until_gone(members, seconds=PATIENCE_S)


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    return f"{pid} ({words.strip() or 'no command line'})"


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


def remove_directories(lab: str) -> list[str]:
    """Remove the directory of a lab; what cannot be removed, in words."""
    home = Places(lab).home
    if not home.exists():
        return []
    failed: list[str] = []
    # The record goes last: without it nobody would know of the rest.
    for entry in sorted(home.iterdir(), key=lambda path: path == Places(lab).record):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, onerror=lambda _call, path, error: failed.append(f"{path}: {error[1]}"))
        elif not failed:
            entry.unlink()
    if failed:
        return [f"file {each}" for each in failed[:5]]
    home.rmdir()
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
