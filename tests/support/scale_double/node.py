"""What a node of a lab has of the double: its copy of the configuration, a daemon, mounts, disks with IDs.

`python -m tests.support.scale_double.node WHAT …`, which other nodes run by ssh.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HOME = Path("/var/mmfs")
CONFIGURATION, STATE, PID = HOME / "gen/mmsdrfs", HOME / "state", HOME / "mmfsd.pid"
PORT = 1191
ID_BYTES = 4096
"""At the end of a disk; the file system of the double ends before it."""


def configuration() -> dict[str, Any]:
    """This node's copy; empty where it has none."""
    return json.loads(CONFIGURATION.read_text()) if CONFIGURATION.exists() else {}


def replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def look() -> dict[str, Any]:
    """All that other nodes ask about."""
    points = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}
    there = configuration()
    running = daemon() is not None
    return {
        "configuration": there,
        "state": STATE.read_text() if running and STATE.exists() else "arbitrating" if running else "down",
        "mounted": [
            name
            for name, each in there.get("state", {}).get("filesystems", {}).items()
            if each["mount_point"] in points
        ],
    }


def daemon() -> int | None:
    """The process of the daemon, where it runs."""
    try:
        number = int(PID.read_text())
        return number if b"scale_double.node" in Path(f"/proc/{number}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def start() -> None:
    if daemon() is None:
        STATE.unlink(missing_ok=True)
        begun = subprocess.Popen(
            [sys.executable, "-m", "tests.support.scale_double.node", "daemon"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        replace(PID, str(begun.pid))


def stop() -> None:
    number = daemon()
    if number is not None:
        os.kill(number, 9)
    PID.unlink(missing_ok=True)


def unmount(points: Iterable[str]) -> None:
    for point in points:
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def mount(name: str) -> None:
    each = configuration()["state"]["filesystems"][name]
    device = Path("/dev", name)
    if not device.exists():
        os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(*each["device"]))
    Path(each["mount_point"]).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "ext4", device, each["mount_point"]], check=True)


def identity(device: str) -> None:
    """What is written at the end of a disk."""
    with Path(device).open("rb") as file:
        file.seek(-ID_BYTES, os.SEEK_END)
        sys.stdout.write(file.read(ID_BYTES).rstrip(b"\0").decode(errors="replace"))


def identify(device: str) -> None:
    text = sys.stdin.buffer.read()
    with Path(device).open("r+b") as file:
        file.seek(-ID_BYTES, os.SEEK_END)
        file.write(text.ljust(ID_BYTES, b"\0"))


def make_filesystem(device: str) -> None:
    """Make it on a disk but for its end; prints the numbers of the device."""
    with Path(device).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
    blocks = (size - ID_BYTES) // 4096
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", device, str(blocks)], check=True)
    number = Path(device).stat().st_rdev
    sys.stdout.write(json.dumps([os.major(number), os.minor(number)]))


def run_daemon() -> None:
    """Listen, look who else does, and unmount what has no quorum or no server."""
    listening = socket.create_server(("", PORT), backlog=64)
    threading.Thread(target=_accept, args=(listening,), daemon=True).start()
    while True:
        state = configuration().get("state")
        if state is not None:
            active, served = _judge(state)
            replace(STATE, "active" if active else "arbitrating")
            unmount(each["mount_point"] for name, each in state["filesystems"].items() if name not in served)
        time.sleep(0.3)


def _accept(listening: socket.socket) -> None:
    while True:
        listening.accept()[0].close()


def _judge(state: Mapping[str, Any]) -> tuple[bool, set[str]]:
    """Whether there is quorum, and the file systems that are served."""
    asked = {name for name, each in state["nodes"].items() if each["quorum"]}
    asked |= {name for each in state["nsds"].values() for name in each["servers"]}
    up = {name for name in asked if _listens(name)}
    voters = {name for name, each in state["nodes"].items() if each["quorum"]}
    ties = [
        each for each in state["settings"].get("tiebreakerDisks@", "no").split(";") if each in state["nsds"]
    ]
    decided = any(voters & up & set(state["nsds"][name]["servers"]) for name in ties)
    active = len(voters & up) * 2 > len(voters) or decided
    served = {
        name
        for name in state["filesystems"]
        if active
        and all(up & set(each["servers"]) for each in state["nsds"].values() if each["filesystem"] == name)
    }
    return active, served


def _listens(name: str) -> bool:
    try:
        socket.create_connection((name, PORT), timeout=1.0).close()
    except OSError:
        return False
    return True


def put(*more: str) -> None:
    """Take a new configuration, and do what else is asked for: start, stop, mount=NAME, umount=NAME."""
    replace(CONFIGURATION, sys.stdin.read())
    for each in more:
        what, _, name = each.partition("=")
        if what == "umount":
            unmount([configuration()["state"]["filesystems"][name]["mount_point"]])
        elif what == "mount":
            mount(name)
        else:
            {"start": start, "stop": stop}[what]()


def main(what: str, *words: str) -> None:
    """Do one thing that another node asks for."""
    if what == "look":
        sys.stdout.write(json.dumps(look()))
    else:
        {
            "put": put,
            "identity": identity,
            "identify": identify,
            "mkfs": make_filesystem,
            "daemon": run_daemon,
        }[what](*words)  # type: ignore[operator]


if __name__ == "__main__":
    main(*sys.argv[1:])
