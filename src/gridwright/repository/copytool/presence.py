"""Whether the metadata servers still ask this agent: it has them ask, of files that nobody else sees.

A copytool that registers where the servers know another one of this client is told of no error, and is sent
nothing (Lustre 2.17). Nor is one of archives that the one before it had not, if that was killed, until it has
left once. So the agent asks for the removal of an archived file without a name, and waits for it.
An agent on another node may be sent it, and ends it, too: then there is one.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from gridwright.repository.copytool.action_list import Fid, HsmAction, HsmVerb
from gridwright.repository.copytool.liblustreapi import ARCHIVED, PING, CopytoolHandle

ANSWER_S = 30.0
"""What the servers have to answer in; idle ones of Lustre 2.17 take a second."""
EVERY_S = 300.0
"""How often an agent that is sent nothing asks."""
_LOOK_S = 0.5


@dataclass(slots=True)
class AgentPresence:
    """What is known of an agent's standing with the servers. `heard` may come from another thread."""

    handle: CopytoolHandle
    heard_at: float = 0.0
    """When the servers last sent something, in seconds since 1970; 0 for never."""
    _own: deque[Fid] = field(default_factory=lambda: deque(maxlen=100))
    """Of this agent's last pings, whose files may be gone."""
    _heard: threading.Event = field(default_factory=threading.Event)

    def heard(self) -> None:
        """Note that the servers have sent something, whatever it is."""
        self.heard_at = time.time()
        self._heard.set()

    def is_ping(self, action: HsmAction) -> bool:
        """Whether an action is of a file by which some agent looks whether it is asked."""
        if action.verb is not HsmVerb.REMOVE:
            return False
        if action.fid in self._own:
            return True
        try:
            return os.getxattr(self.handle.fid_path(action.fid), PING) == b"1"
        except OSError:
            return False

    def ask(self, stop: threading.Event, answer_s: float) -> str | None:
        """Have the servers send something for each archive; why nothing came, or None.

        For a thread of its own: it waits as long as a server that is away takes to come back.
        """
        for archive_id in self.handle.archive_ids:
            self._heard.clear()
            try:
                if not self._is_answered(archive_id, stop, answer_s):
                    return f"nothing came for archive {archive_id} within {answer_s:g} s"
            except OSError as error:
                return error.strerror or str(error)
        return None

    def _is_answered(self, archive_id: int, stop: threading.Event, answer_s: float) -> bool:
        library = self.handle.library
        descriptor = library.open_ping(self.handle.mount, archive_id)
        try:
            self._own.append(library.fid_of(descriptor))
            library.request_removal(self.handle.mount, descriptor, archive_id)
            end = time.monotonic() + answer_s
            while not self._heard.wait(_LOOK_S) and not stop.is_set():
                # Another agent may have been asked, and then the file is archived no more.
                if not library.hsm_state(descriptor).flags & ARCHIVED:
                    return True
                if time.monotonic() > end:
                    return False
            return True
        finally:
            os.close(descriptor)
