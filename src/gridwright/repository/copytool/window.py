"""Which action is carried out next: restores first, since readers wait for them, and so many at a time."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from gridwright.repository.copytool.action_list import HsmAction, HsmVerb

MOST_WAITING = 10_000
"""Actions other than restores that wait here; more are given back to the coordinator."""


@dataclass(slots=True)
class ActionWindow:
    """Actions that wait for a thread. A part of the threads is kept for restores."""

    most_others: int
    """Actions other than restores that are under way at a time; at least 1."""
    _restores: deque[HsmAction] = field(default_factory=deque)
    _others: deque[HsmAction] = field(default_factory=deque)
    _others_under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False

    def put(self, action: HsmAction) -> bool:
        """Have an action wait; False where too many do. A restore always may."""
        with self._changed:
            if action.verb is HsmVerb.RESTORE:
                self._restores.append(action)
            elif len(self._others) >= MOST_WAITING:
                return False
            else:
                self._others.append(action)
            self._changed.notify()
            return True

    def take(self) -> HsmAction | None:
        """The next one, as soon as there is one that may begin; None when closed."""
        with self._changed:
            while not self._is_closed:
                if self._restores:
                    return self._restores.popleft()
                if self._others and self._others_under_way < self.most_others:
                    self._others_under_way += 1
                    return self._others.popleft()
                self._changed.wait()
            return None

    def done(self, action: HsmAction) -> None:
        """One that was taken has ended."""
        if action.verb is not HsmVerb.RESTORE:
            with self._changed:
                self._others_under_way -= 1
                self._changed.notify()

    def withdraw(self, cookie: int) -> HsmAction | None:
        """Take one that still waits out again, for good."""
        with self._changed:
            for queue in (self._restores, self._others):
                for action in queue:
                    if action.cookie == cookie:
                        queue.remove(action)
                        return action
        return None

    def close(self) -> list[HsmAction]:
        """Give no more actions; those that waited."""
        with self._changed:
            self._is_closed = True
            left = [*self._restores, *self._others]
            self._restores.clear()
            self._others.clear()
            self._changed.notify_all()
        return left
