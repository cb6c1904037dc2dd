"""Carries a plan out, step by step as it was printed, and checks afterwards that it took effect.

Where a command fails it adds what the kernel said of the disks: mkfs says that writing failed, the kernel
where.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.node_programs.scratch.commands import run
from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray, DesiredDirectory
from gridwright.node_programs.scratch.disks import END_BYTES, BlockDevices, Disk
from gridwright.node_programs.scratch.machine import Roots, identity
from gridwright.node_programs.scratch.plans import ArrayPlan, Step
from gridwright.node_programs.scratch.problems import ScratchError, Trouble
from gridwright.node_programs.scratch.state import State, write_state

_TRIES = 4
"""udev looks at every device that was just written to; what it holds is busy for a moment."""
_PAUSE_S = 1.0
_LOCK_S = 10.0
_BLKRRPART = 0x125F
"""Read the partition table again (include/uapi/linux/fs.h)."""
_GOES_ON = "mend what it says, then start again: systemctl restart gridwright-scratch; it goes on from there"


@dataclass
class Hands:
    """What carries out steps on this machine."""

    configuration: Configuration
    state: State
    roots: Roots = field(default_factory=Roots)

    def array(self, plan: ArrayPlan, tell: Callable[[Step, float], None]) -> None:
        """All steps of one array; `tell` hears of each that is done, and its seconds. Raises ScratchError."""
        with contextlib.ExitStack() as locks:
            locked: set[str] = set()
            for number, step in enumerate(plan.steps, 1):
                begun = time.monotonic()
                if not step.quiet and locked:
                    locks.close()
                    locked.clear()
                for path in step.quiet:
                    if path not in locked:
                        locks.enter_context(_udev_lock(path))
                        locked.add(path)
                self._step(plan.desired, step, f"step {number} of {len(plan.steps)}")
                tell(step, time.monotonic() - begun)

    def _step(self, desired: DesiredArray, step: Step, which: str) -> None:
        try:
            self._guard(step)
            if step.argv:
                _command(step)
            else:
                self._own(desired, step)
        except OSError as error:
            disks = ", ".join(f"{disk.path} (serial {disk.serial})" for disk in step.destroys)
            where = disks or step.device or str(self.configuration.state_file)
            reason = error.strerror or str(error)
            what = f"array {desired.name}: {which}, {step.text()}: {where}: {reason}"
            raise ScratchError(Trouble(what, _GOES_ON)) from None
        except ScratchError as error:
            troubles = [
                Trouble(f"array {desired.name}: {which}, {trouble.what}", trouble.remedy)
                for trouble in error.troubles
            ]
            raise ScratchError(*troubles) from None

    def _guard(self, step: Step) -> None:
        """The disks are still those that were planned with: names move when disks come and go."""
        if not step.destroys:
            return
        now = {disk.path: disk for disk in BlockDevices(self.roots.sysfs, self.roots.proc).disks()}
        for disk in step.destroys:
            found = now.get(disk.path)
            if found is None or (found.serial, found.bytes) != (disk.serial, disk.bytes):
                raise ScratchError(Trouble(f"{disk.path} is another disk now", _GOES_ON))
            if found.used:
                raise ScratchError(Trouble(f"{disk.path} is {found.used} now", "unmount it"))

    def _own(self, desired: DesiredArray, step: Step) -> None:
        """What is no command. Raises OSError."""
        if step.action in ("intend", "record") and step.build is not None:
            keep = self.state.with_intent if step.action == "intend" else self.state.with_made
            state = keep(step.build)
            write_state(self.configuration.state_file, state)
            self.state = state
        elif step.action == "wipe":
            wipe_ends(step.destroys[0])
        elif step.action == "tune":
            # What a kernel has no place for is slower, not wrong.
            with contextlib.suppress(OSError):
                Path(step.device).write_text(step.value)
        elif step.action == "mount-point":
            make_mount_point(Path(step.device))
        elif step.action == "directories":
            make_directories(desired)


def _command(step: Step) -> None:
    """Run it, again for a few seconds while a device is busy. Raises ScratchError."""
    begun = time.monotonic()
    for attempt in range(_TRIES):
        ended = run(step.argv, step.limit_s)
        if ended.well:
            return
        if ended.status is None or "busy" not in ended.output.lower() or attempt == _TRIES - 1:
            break
        time.sleep(_PAUSE_S)
    said = "".join(f"; kernel: {line}" for line in disk_errors((disk.name for disk in step.destroys), begun))
    disks = "".join(f"; {disk.path} has serial {disk.serial}" for disk in step.destroys)
    hint = {
        "mount": "if its file system is damaged: it is scratch, make it anew with --wipe for each disk",
        "create": _GOES_ON,
        "format": "see dmesg for the disk that failed; " + _GOES_ON,
    }
    raise ScratchError(Trouble(f"{ended}{said}{disks}", hint.get(step.action, _GOES_ON)))


@contextlib.contextmanager
def _udev_lock(path: str) -> Iterator[None]:
    """Locks a disk, which udev then leaves alone (systemd, Locking Block Device Access)."""
    disk = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(disk, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                # It only spares a race: without the lock, a busy disk is tried again.
                if error.errno != errno.EWOULDBLOCK or time.monotonic() > deadline:
                    break
            time.sleep(0.1)
        yield
    finally:
        os.close(disk)


def wipe_ends(disk: Disk) -> None:
    """Overwrite both ends with zeros, the tail first: a half wiped disk is still known as somebody's.

    An exclusive open fails while anything uses the disk. Raises OSError.
    """
    opened = os.open(disk.path, os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC)
    try:
        size = os.lseek(opened, 0, os.SEEK_END)
        length = min(END_BYTES, size)
        places = [size - length, 0]
        if disk.content.md is not None and disk.content.md.data_offset < size - length:
            places.insert(0, disk.content.md.data_offset)
        for place in places:
            _zero(opened, place, length)
        os.fsync(opened)
        with contextlib.suppress(OSError):
            fcntl.ioctl(opened, _BLKRRPART)
    finally:
        os.close(opened)


def _zero(opened: int, start: int, length: int) -> None:
    piece = bytes(1 << 20)
    at = start
    while at < start + length:
        at += os.pwrite(opened, piece[: start + length - at], at)


def make_mount_point(path: Path) -> None:
    """Make the directory without any permission, so that only a mount makes it usable. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_dir():
        path.mkdir(mode=0)


def make_directories(desired: DesiredArray) -> None:
    """Owner and mode of root and directories, made where they are missing; no symbolic link is followed."""
    root = os.open(desired.mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _own_directory(root, desired.root)
        for directory in desired.directories:
            opened = _opened_below(root, Path(directory.path).parts)
            try:
                _own_directory(opened, directory)
            finally:
                os.close(opened)
    finally:
        os.close(root)


def _opened_below(root: int, parts: Sequence[str]) -> int:
    """Go down one name at a time, so that nobody can lead root elsewhere."""
    current = os.dup(root)
    for part in parts:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=current)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            following = os.open(part, flags, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _own_directory(opened: int, desired: DesiredDirectory) -> None:
    owner, group = identity(desired.owner), identity(desired.group, group=True)
    os.fchown(opened, -1 if owner is None else owner, -1 if group is None else group)
    os.fchmod(opened, desired.mode)


KERNEL_LOG = Path("/dev/kmsg")
_MOST_LINES = 5
_SLACK_S = 1.0
"""The clock of the log is not quite the monotonic one (Documentation/ABI/testing/dev-kmsg)."""
_RECORD = 8192
_BAD = re.compile(r"error|fail|timeout|reset|offline|abort", re.IGNORECASE)


def disk_errors(names: Iterable[str], since: float, log: Path = KERNEL_LOG) -> tuple[str, ...]:
    """The last lines of the kernel since `since` (time.monotonic) that name one of the disks and a failure.

    Nothing where the log cannot be read.
    """
    desired = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in names)})\b")
    found = []
    for stamp, text in _records(log):
        if stamp >= since - _SLACK_S and desired.search(text) and _BAD.search(text):
            found.append(text)
    return tuple(found[-_MOST_LINES:])


def _records(log: Path) -> list[tuple[float, str]]:
    """Seconds and text of each record; one read gives one record."""
    try:
        opened = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    records = []
    try:
        while True:
            try:
                data = os.read(opened, _RECORD)
            except OSError as error:
                # EPIPE: records were overwritten meanwhile; reading goes on behind them.
                if error.errno == errno.EPIPE:
                    continue
                break
            if not data:
                break
            records += [
                each for line in data.decode("utf-8", "replace").splitlines() if (each := _parsed(line))
            ]
    finally:
        os.close(opened)
    return records


def _parsed(line: str) -> tuple[float, str] | None:
    """`priority,sequence,microseconds,flags;text`."""
    head, mark, text = line.partition(";")
    fields = head.split(",")
    if not mark or len(fields) < 3 or not fields[2].isdigit():
        return None
    return int(fields[2]) / 1e6, text
