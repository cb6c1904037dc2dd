"""The agent: takes actions from the coordinator, has them carried out, and ends every one of them.

An action that nobody ends has its reader wait until the coordinator gives it up, an hour by default. So an
agent goes on with those that the one before it on this node has not ended.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.copytool.action_journal import ActionJournal
from gridwright.repository.copytool.action_list import ActionListError, HsmAction, HsmVerb
from gridwright.repository.copytool.carrying import ActionRefused, Carrier, Underway
from gridwright.repository.copytool.liblustreapi import CopytoolHandle
from gridwright.repository.copytool.presence import AgentPresence
from gridwright.repository.copytool.window import ActionWindow
from gridwright.repository.keys import shown

THREADS = 16
"""Actions under way at a time; a quarter of them is kept for restores."""
_GIVEN_BACK = (HsmVerb.ARCHIVE, HsmVerb.RESTORE, HsmVerb.REMOVE)
_STOP_S = 0.6
"""What actions under way have to end in when the agent ends."""


@dataclass(slots=True)
class CopytoolAgent:
    """One copytool at work, with the carrier of each archive. `log` takes lines for systemd's journal."""

    handle: CopytoolHandle
    carriers: Mapping[int, Carrier]
    journal: ActionJournal
    presence: AgentPresence
    log: Callable[[str], None]
    stopping: threading.Event
    threads: int = THREADS
    _underway: dict[int, Underway] = field(default_factory=dict)
    _given_back: list[HsmAction] = field(default_factory=list)
    _trouble: GridwrightError | None = None
    _troubled: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _window: ActionWindow = field(init=False)

    def __post_init__(self) -> None:
        self._window = ActionWindow(max(1, self.threads - max(1, self.threads // 4)))

    def run(self, stop: int) -> None:
        """Work until the descriptor `stop` can be read.

        Raises GridwrightError where Lustre goes away, and what `give_up` was told.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for action in self.journal.left():
            self._go_on_with(action)
        poll = select.poll()
        for descriptor in (stop, self._troubled, self.handle.descriptor):
            poll.register(descriptor, select.POLLIN)
        try:
            while stop not in (ready := dict(poll.poll())):
                if self._trouble is not None:
                    raise self._trouble
                if ready:
                    self._receive()
        finally:
            self._end(threads)

    def give_up(self, trouble: GridwrightError) -> None:
        """Have the agent end with an error."""
        self._trouble = trouble
        os.eventfd_write(self._troubled, 1)

    @property
    def is_idle(self) -> bool:
        """Whether no action is under way."""
        return not self._underway

    def _go_on_with(self, action: HsmAction) -> None:
        """Take an action that the agent before has not ended, unless it is over."""
        try:
            self.handle.progress(action)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                self._forget(action)
                return
        self.log(f"{self._name(action)}: {action.verb.name.lower()} of action {action.cookie:#x} goes on")
        self._take(action)

    def _receive(self) -> None:
        try:
            actions = self.handle.receive()
        except ActionListError as error:
            self.log(f"a list of actions is not understood, and its readers wait for another agent: {error}")
            return
        except OSError as error:
            raise environment_error(
                f"Lustre sends nothing any more: {error.strerror}",
                where=str(self.handle.mount),
                remedy="mount it again; the unit starts the copytool again by itself",
            ) from error
        wanted = []
        for action in actions:
            if self.presence.is_ping(action):
                self._refuse(action, 0)
            else:
                wanted.append(action)
        if actions:
            self.presence.heard()
        try:
            self.journal.note([each for each in wanted if each.verb in _GIVEN_BACK])
        except OSError as error:
            self.log(f"an agent after this one will not know of its actions: {error.strerror}")
        for action in wanted:
            self._take(action)

    def _take(self, action: HsmAction) -> None:
        if action.verb is HsmVerb.CANCEL:
            self._cancel(action.cookie)
        elif action.verb is HsmVerb.NONE:
            return
        elif action.archive_id not in self.carriers:
            self._say(action, f"nothing is known here of archive {action.archive_id}")
            self._refuse(action, errno.EINVAL)
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
            begun = self.handle.begin(action)
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
        action = underway.begun.action
        carrier = self.carriers[action.archive_id]
        if action.verb is HsmVerb.RESTORE:
            return carrier.restore(underway)
        if action.verb is HsmVerb.ARCHIVE:
            return carrier.archive(underway)
        return carrier.remove(underway)

    def _finish(self, underway: Underway, size: int, number: int) -> None:
        action = underway.begun.action
        if number == errno.EINTR and self.stopping.is_set():
            self._given_back.append(action)
            return
        try:
            underway.begun.end(size, number, may_retry=number == errno.EAGAIN)
            if number == 0 and action.verb is HsmVerb.RESTORE:
                self.carriers[action.archive_id].note_restored(underway)
        except (OSError, ActionRefused) as error:
            self._say(action, f"Lustre did not take its end: {error}")
        self._forget(action)

    def _refuse(self, action: HsmAction, number: int, *, may_retry: bool = False) -> None:
        """End an action that was not begun; with 0 there is nothing to do."""
        try:
            self.handle.begin(action, only_to_refuse=True).end(0, number, may_retry=may_retry)
        except OSError as error:
            self._say(action, f"Lustre did not take its end: {error.strerror}")
        self._forget(action)

    def _forget(self, action: HsmAction) -> None:
        with suppress(OSError):
            self.journal.done(action.cookie)

    def _say(self, action: HsmAction, why: str) -> None:
        what = action.verb.name.lower()
        self.log(f"{self._name(action)}: {what} of action {action.cookie:#x}: {why}")

    def _name(self, action: HsmAction) -> str:
        """A path of the file, or its FID where it has none any more."""
        with suppress(OSError):
            path = self.handle.path_of(action.fid)
            return shown(os.path.join(os.fsencode(self.handle.mount), path))  # noqa: PTH118 - bytes
        return f"[{action.fid}]"

    def _end(self, threads: list[threading.Thread]) -> None:
        """End all actions, those under way by their own threads; what is left of them is given back.

        Not before this agent is known no more: it would be handed them again.
        """
        self.stopping.set()
        self._given_back += self._window.close()
        end = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            left = len(self._underway)
        if left:
            self.log(f"{left} actions did not end in time; the next agent of this node goes on with them")
        with suppress(OSError, ActionListError):
            self._given_back += [each for each in self.handle.receive() if each.verb in _GIVEN_BACK]
        self.handle.unregister()
        for action in self._given_back:
            try:
                self.handle.give_back(action)
            except OSError as error:
                self._say(action, f"Lustre did not take it back: {error.strerror}")
            self._forget(action)
