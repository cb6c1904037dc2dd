"""Serving a directory: from the first mark to the last, with nobody reading what is not here in between."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.keys import shown
from gridwright.repository.lazy import fanotify, gate, systemd
from gridwright.repository.lazy.control import (
    Controlled,
    give_lock_back,
    remove_left_behind,
    take_lock,
    take_place,
)
from gridwright.repository.lazy.holder import MOST_DESCRIPTORS, EventHolder, end_forgotten
from gridwright.repository.lazy.journal import log
from gridwright.repository.lazy.names import names_below
from gridwright.repository.lazy.open_files import is_open_elsewhere
from gridwright.repository.lazy.process import descriptor_of_orders_to_stop, have_descriptors

PATIENCE_S = 60.0
"""How long a reader waits while nothing comes from the store."""
_LINGER_LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class LazyService:
    """What to serve, and how."""

    directory: str
    patience_s: float = PATIENCE_S
    endpoint_url: str | None = None
    profile: str | None = None

    def arguments(self) -> list[str]:
        """As the command line of this module has it."""
        more = [f"--patience={self.patience_s}"]
        more += [f"--endpoint-url={self.endpoint_url}"] if self.endpoint_url else []
        more += [f"--profile={self.profile}"] if self.profile else []
        return [*more, self.directory]


def serve(service: LazyService) -> None:
    """Load what is read in a directory until SIGTERM or SIGINT. Raises GridwrightError where that cannot be.

    The group of events is systemd's, where it kept one for us, that of a holder which gives its place, or a
    new one.
    """
    lock, group = take_place(service.directory)
    remove_left_behind()
    if group is None:
        group = systemd.kept_descriptor()
    is_adopted = group is not None
    _serve(service, lock, group if group is not None else _new_group(service.directory), is_adopted)


def close_directory(directory: str) -> int:
    """Close a directory with names to users, and count them: when a machine starts, before anybody reads.

    Raises GridwrightError, also for one that is being served.
    """
    give_lock_back(directory, take_lock(directory))
    names = sum(1 for _ in _names(directory))
    if names:
        with _opened(directory) as opened:
            gate.close(opened)
    return names


def _serve(service: LazyService, lock: int, group: int, is_adopted: bool) -> None:
    have_descriptors(MOST_DESCRIPTORS)
    if is_adopted and (forgotten := end_forgotten(group)):
        log(f"{forgotten} readers that the process before had not answered get an input/output error")
    stop = descriptor_of_orders_to_stop(signal.SIGTERM, signal.SIGINT)
    control = Controlled.open(service.directory, group, lock)
    holder = EventHolder(
        group, service.patience_s, lambda *ends: _loader_command(service, lock, *ends), control, log
    )
    started = time.monotonic()
    with _opened(service.directory) as opened:
        # A kill, or a loss of power, may have left it open with nobody to load.
        if not is_adopted:
            gate.close(opened)
        names = _mark_names(service.directory, group)

        def open_gate() -> None:
            gate.open_again(opened)
            log(f"{shown(service.directory)}: {names} names, {time.monotonic() - started:.1f} s; serving")
            systemd.keep(group)
            systemd.tell("READY=1")

        holder.run(stop, started=open_gate)
        systemd.tell("STOPPING=1")
        names_are_left = any(True for _ in _names(service.directory))
        if names_are_left:
            gate.close(opened)
            log(f"{shown(service.directory)}: closed to users, as it has names that nobody loads now")
        holder.release(errno.EIO)
        control.gives_place = True
        if names_are_left and not systemd.keeps_descriptors():
            _linger(service.directory, holder, control)
        else:
            control.close(service.directory)


def _linger(directory: str, holder: EventHolder, control: Controlled) -> None:
    """Stay in the background as long as somebody has a name open: without this he would read zeros."""
    if os.fork():
        return
    try:
        os.setsid()
        _refuse_until_closed(directory, holder, control)
        control.close(directory)
    except BaseException as error:
        log(f"{shown(directory)}: {error}")
        raise
    finally:
        os._exit(0)


def _refuse_until_closed(directory: str, holder: EventHolder, control: Controlled) -> None:
    look_at = 0.0
    while not control.was_taken_over:
        if time.monotonic() > look_at:
            if not _open_names(directory):
                return
            if not look_at:
                log(f"{shown(directory)}: files without content are open; a process stays until they are not")
            look_at = time.monotonic() + _LINGER_LOOK_S
        holder.refuse(0.1)


def _mark_names(directory: str, group: int) -> int:
    count = 0
    try:
        for descriptor in names_below(directory):
            fanotify.mark(group, descriptor)
            count += 1
    except OSError as error:
        raise environment_error(f"not all files were marked: {error}", where=shown(directory)) from error
    return count


def _names(directory: str) -> Iterator[int]:
    try:
        yield from names_below(directory)
    except OSError as error:
        raise environment_error(f"it cannot be searched: {error}", where=shown(directory)) from error


def _open_names(directory: str) -> bool:
    return any(is_open_elsewhere(descriptor) for descriptor in _names(directory))


def _new_group(directory: str) -> int:
    from gridwright.repository.lazy.support import why_not

    if reason := why_not(directory):
        raise environment_error(
            f"contents cannot be loaded when they are read: {reason}",
            where=shown(directory),
            remedy="load them beforehand: gridwright repo import --contents",
        )
    return fanotify.new_group()


def _loader_command(service: LazyService, lock: int, end: int, group: int, follows: bool) -> Sequence[str]:
    python = [sys.executable, "-P", "-m"]
    heir = [*python, __name__, f"--lock={lock}", f"--group={group}", *service.arguments()]
    more = service.arguments()[:-1] + (["--nobody-wrote"] if follows else [])
    module = "gridwright.repository.lazy.loader_process"
    return [*python, module, f"--socket={end}", f"--group={group}", *more, "--", *heir]


@contextlib.contextmanager
def _opened(directory: str) -> Iterator[int]:
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise environment_error(f"it cannot be opened: {error.strerror}", where=shown(directory)) from error
    try:
        yield opened
    finally:
        os.close(opened)


def main() -> None:
    """Go on as the holder in the place of one that was killed, with its lock and its group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", type=int, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--patience", type=float, required=True)
    parser.add_argument("--endpoint-url")
    parser.add_argument("--profile")
    parser.add_argument("directory")
    options = parser.parse_args()
    log("the process that held the events was killed; its loader takes its place")
    service = LazyService(options.directory, options.patience, options.endpoint_url, options.profile)
    for descriptor in (options.lock, options.group):
        os.set_inheritable(descriptor, False)
    try:
        _serve(service, options.lock, options.group, is_adopted=True)
    except GridwrightError as error:
        log(str(error))
        raise SystemExit(int(error.status)) from None


if __name__ == "__main__":
    main()
