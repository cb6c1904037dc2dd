"""The agent: takes actions from the coordinator, has them carried out, and ends every one of them.

An action that nobody ends has its reader wait until the coordinator gives it up, an hour by default.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.copytool.action_list import ActionListError, HsmAction, HsmVerb
from gridwright.repository.copytool.carrying import ActionRefused, Carrier, Underway
from gridwright.repository.copytool.window import ActionWindow
from gridwright.repository.keys import shown

THREADS = 16
"""Actions under way at a time; a quarter of them is kept for restores."""
_STOP_S = 0.6
"""What actions under way have to end in when the agent ends."""


@dataclass(slots=True)
class CopytoolAgent:
    """One copytool at work. `log` takes lines for the journal."""

    carrier: Carrier
    log: Callable[[str], None]
    threads: int = THREADS
    _underway: dict[int, Underway] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _window: ActionWindow = field(init=False)

    def __post_init__(self) -> None:
        self._window = ActionWindow(max(1, self.threads - max(1, self.threads // 4)))

    def run(self, stop: int) -> None:
        """Work until the descriptor `stop` can be read. Raises GridwrightError where Lustre goes away."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        poll = select.poll()
        for descriptor in (stop, self.carrier.handle.descriptor):
            poll.register(descriptor, select.POLLIN)
        try:
            while stop not in (ready := dict(poll.poll())):
                if ready:
                    self._receive()
        finally:
            self._end(threads)

    def _receive(self) -> None:
        try:
            actions = self.carrier.handle.receive()
        except ActionListError as error:
            self.log(f"a list of actions is not understood, and its readers wait for another agent: {error}")
            return
        except OSError as error:
            raise environment_error(
                f"Lustre sends nothing any more: {error.strerror}",
                where=str(self.carrier.handle.mount),
                remedy="mount it again; the unit starts the copytool again by itself",
            ) from error
        for action in actions:
            self._take(action)

    def _take(self, action: HsmAction) -> None:
        if action.verb is HsmVerb.CANCEL:
            self._cancel(action.cookie)
        elif action.verb is HsmVerb.NONE:
            return
        elif action.cookie in self._underway:
            self.log(f"{self._name(action)}: it is under way already")
        elif not self._window.put(action):
            self._refuse(action, errno.EBUSY, may_retry=True)

    def _cancel(self, cookie: int) -> None:
        waiting = self._window.withdraw(cookie)
        if waiting is not None:
            self._refuse(waiting, errno.ECANCELED)
            return
        with self._lock:
            if underway := self._underway.get(cookie):
                underway.wanted = False

    def _work(self) -> None:
        while (action := self._window.take()) is not None:
            try:
                self._carry_out(action)
            finally:
                self._window.done(action)

    def _carry_out(self, action: HsmAction) -> None:
        try:
            begun = self.carrier.handle.begin(action)
        except OSError as error:
            self.log(f"{self._name(action)}: Lustre does not let it begin: {error.strerror}")
            # The file may be gone, or the action have been cancelled.
            self._refuse(action, error.errno or errno.EIO)
            return
        underway = Underway(begun)
        with self._lock:
            self._underway[action.cookie] = underway
        size, number = 0, errno.EIO
        try:
            size = self._carry(underway)
            number = 0
        except ActionRefused as refused:
            number = refused.errno
            self._say(action, str(refused))
        except GridwrightError as error:
            self._say(action, error.problems[0].what)
        except OSError as error:
            number = error.errno or errno.EIO
            self._say(action, error.strerror or str(error))
        except Exception as error:  # Whatever went wrong, the reader must not wait for ever.
            self._say(action, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                del self._underway[action.cookie]
            self._finish(underway, size, number)

    def _carry(self, underway: Underway) -> int:
        verb = underway.begun.action.verb
        if verb is HsmVerb.RESTORE:
            return self.carrier.restore(underway)
        if verb is HsmVerb.ARCHIVE:
            return self.carrier.archive(underway)
        return self.carrier.remove(underway)

    def _finish(self, underway: Underway, size: int, number: int) -> None:
        action = underway.begun.action
        try:
            underway.begun.end(size, number, may_retry=number in (errno.EINTR, errno.EAGAIN))
            if number == 0 and action.verb is HsmVerb.RESTORE:
                self.carrier.note_restored(underway)
        except (OSError, ActionRefused) as error:
            self._say(action, f"Lustre did not take its end: {error}")

    def _refuse(self, action: HsmAction, number: int, *, may_retry: bool = False) -> None:
        """End an action that was not begun."""
        try:
            self.carrier.handle.begin(action, only_to_refuse=True).end(0, number, may_retry=may_retry)
        except OSError as error:
            self._say(action, f"Lustre did not take its end: {error.strerror}")

    def _say(self, action: HsmAction, why: str) -> None:
        what = action.verb.name.lower()
        self.log(f"{self._name(action)}: {what} of action {action.cookie:#x}: {why}")

    def _name(self, action: HsmAction) -> str:
        """A path of the file, or its FID where it has none any more."""
        with suppress(OSError):
            path = self.carrier.handle.path_of(action.fid)
            return shown(os.path.join(os.fsencode(self.carrier.handle.mount), path))  # noqa: PTH118 - bytes
        return f"[{action.fid}]"

    def _end(self, threads: list[threading.Thread]) -> None:
        """End all actions, those under way by their own threads."""
        self.carrier.stop.set()
        for action in self._window.close():
            self._refuse(action, errno.EINTR, may_retry=True)
        end = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            left = len(self._underway)
        if left:
            self.log(f"{left} actions did not end in time; the coordinator gives them up by itself")
