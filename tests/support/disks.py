"""File systems of the tests' own, on loop devices; needs root."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Reads everything, as the interpreter may lie in root's home; writes only what its user may.
AS_NOBODY = (
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
)


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def leave_mounts_of_others() -> None:
    """What this process mounts from here on, nobody else sees; for a child that a test has made."""
    # CLONE_NEWNS of unshare(2).
    assert ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0, os.strerror(ctypes.get_errno())
    run("mount", "--make-rprivate", "/")


def mount_memory(place: Path, options: str = "mode=755") -> None:
    """Mount an empty file system of memory over a directory; the process that asks ends with it."""
    run("mount", "-t", "tmpfs", "-o", options, "none", place)


@contextmanager
def loop_mount(place: Path, *, mib: int, kind: str = "ext4", options: Sequence[str] = ()) -> Iterator[Path]:
    """Mount an image of `mib` MiB, made with options of mkfs; the mount point has a space in its name."""
    image, mount_point = place / f"{kind}.img", place / f"a {kind} disk"
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(mib << 20)
    if kind == "ext4":
        run("mkfs.ext4", "-q", "-F", "-m", "0", *options, image)
    else:
        run(f"mkfs.{kind}", "-q", "-f", *options, image)
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        run("mount", device, mount_point)
        try:
            yield mount_point
        finally:
            unmount(mount_point)
    finally:
        run("losetup", "--detach", device)


def unmount(mount_point: Path) -> None:
    """Unmount, and give a worker that just died a moment to let go."""
    for _ in range(50):
        done = subprocess.run(["umount", str(mount_point)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(done.stderr)


@contextmanager
def other_mount(mount_point: Path, kind: str, *options: str) -> Iterator[Path]:
    """Mount a file system that needs no device, such as tmpfs."""
    mount_point.mkdir()
    chosen = ("-o", ",".join(options)) if options else ()
    run("mount", "-t", kind, *chosen, kind, mount_point)
    try:
        yield mount_point
    finally:
        unmount(mount_point)


def visible(directory: Path) -> list[str]:
    """What is in a directory, without what mkfs put there."""
    return sorted(path.name for path in directory.iterdir() if path.name != "lost+found")
