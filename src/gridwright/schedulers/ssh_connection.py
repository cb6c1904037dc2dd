"""One ssh connection to a machine, shared by all that goes to it or through it while this process lives."""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gridwright.beneath import remove_tree
from gridwright.own_directories import held_directory
from gridwright.schedulers.remote_shell import for_remote_shell

OPEN_S = 20.0
"""For the machine to let us in: ssh tries to connect half as long."""
_LEAVE_S = 5.0
_OPEN = b"gridwright: connected"
_STAYS = ("sh", "-c", f"echo; echo '{_OPEN.decode()}'; exec cat >/dev/null")
"""Ends when its input does, which this process holds: even a killed one leaves no connection behind."""
_LONGEST_PLACE = 56
"""Bytes of the path of the temporary directory: that of a socket has at most 107 (unix(7)), of which our
names take 31, and ssh 17 more while it makes the socket."""


class SharedConnection:
    """See the module. It is opened again where it has ended, as by a network that was gone for a while.

    Without it, each ssh would connect by itself: sshd takes few new ones at a time (MaxStartups).
    """

    def __init__(self, ssh: Callable[[], Sequence[str]], machine: str) -> None:
        """`ssh` gives its command line with options, each time anew; `machine` is where it connects to."""
        self._ssh = ssh
        self._machine = machine
        self._made: Path | None = None
        self._held: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> Path:
        """A directory of its own for as long as this process lives."""
        if self._made is None:
            usual = tempfile.gettempdir()
            place = usual if len(os.fsencode(usual)) <= _LONGEST_PLACE else "/tmp"  # noqa: S108 - a random name in it
            # No hyphen before what is random: older releases hold none of theirs.
            self._made, self._held = held_directory("gridwright-ssh.", place)
            atexit.register(self.close)
        return self._made

    @property
    def options(self) -> list[str]:
        """Options of an ssh that takes it where it is there, and connects by itself where it is not."""
        return ["-oControlMaster=no", f"-oControlPath={self.place}/shared"]

    def open(self) -> str | None:
        """Have it open; returns in the words of ssh why it cannot be."""
        if self._process is not None and self._process.poll() is None:
            return None
        sharing = ["-oControlMaster=yes", f"-oControlPath={self.place}/shared", "-oControlPersist=no"]
        said = self.place / "said"
        # One that was killed leaves its socket, and ssh takes no path that is there.
        (self.place / "shared").unlink(missing_ok=True)
        try:
            with said.open("wb") as stderr:
                self._process = subprocess.Popen(
                    [*self._ssh(), *sharing, "--", self._machine, for_remote_shell(_STAYS)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    # A terminal's interrupt is for the command, which may still have to tell the grid.
                    start_new_session=True,
                )
        except OSError as error:
            return f"ssh cannot be started: {error.strerror}"
        if self._answers(self._process):
            return None
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(0.5)
        self._end(self._process)
        if status is None:
            return f"no answer within {OPEN_S:.0f} s"
        return said.read_text(errors="replace").strip() or f"it runs no command (exit status {status})"

    @staticmethod
    def _answers(process: subprocess.Popen[bytes]) -> bool:
        """Whether the other side says that it is connected, whatever a login prints before."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        deadline = time.monotonic() + OPEN_S
        heard = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                heard += chunk
                if _OPEN in heard:
                    return True
                if not chunk:
                    return False
        return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for order in (process.terminate, process.kill):
            order()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVE_S)
                break
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """End it, and take away its directory."""
        if self._process is not None:
            self._end(self._process)
        if self._made is not None:
            remove_tree(self._made)
        if self._held is not None:
            os.close(self._held)
            self._held = None
