"""Which actions an agent has and has not ended, so that the one after it goes on with them.

Lustre hands an action out once. One of an agent that was killed has its reader wait until the coordinator
gives it up (`active_request_timeout`), though whoever knows its cookie may still end it. So its whole item is
kept, on disk before anything is done of it, in a directory that is root's alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gridwright.repository.copytool.action_list import ActionListError, HsmAction, parse_action
from gridwright.trusted import open_directory, open_file

DIRECTORY = Path("/var/lib/gridwright/agents")
_FILE = "actions"
_MOST = 64 << 20
"""Bytes of the file that are read: about 300,000 actions."""
_LONG = 4 << 20
"""Bytes from which the file is written anew."""


class ActionJournal:
    """The actions of the agent of one mount. Any thread may write."""

    def __init__(self, mount: Path) -> None:
        """Open it. Raises GridwrightError where others could write it, and OSError."""
        name = hashlib.sha256(os.fsencode(os.path.realpath(mount))).hexdigest()[:24]
        self._directory = open_directory(DIRECTORY / name, make=0o700)
        self._file = open_file(self._directory, _FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._open = {each.cookie: _line(each) for each in self._read()}

    def left(self) -> list[HsmAction]:
        """Those of the agent before, which did not end them."""
        with self._lock:
            return [_action(json.loads(each)) for each in self._open.values()]

    def note(self, actions: Sequence[HsmAction]) -> None:
        """Have actions on disk. Raises OSError."""
        lines = {each.cookie: _line(each) for each in actions}
        with self._lock:
            self._open.update(lines)
            os.write(self._file, b"".join(lines.values()))
            os.fdatasync(self._file)

    def done(self, cookie: int) -> None:
        """Forget one that has ended. Raises OSError."""
        with self._lock:
            if self._open.pop(cookie, None) is None:
                return
            if not self._open:
                os.ftruncate(self._file, 0)
                return
            # A power cut may lose it: Lustre says of an action that it is over.
            os.write(self._file, json.dumps([cookie]).encode() + b"\n")
            if os.fstat(self._file).st_size > _LONG:
                self._shorten()

    def close(self) -> None:
        """Close it."""
        os.close(self._file)
        os.close(self._directory)

    def _shorten(self) -> None:
        part = f"{_FILE}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=self._directory)
        made = open_file(self._directory, part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        os.write(made, b"".join(self._open.values()))
        os.fsync(made)
        os.rename(part, _FILE, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        os.close(self._file)
        self._file = made

    def _read(self) -> list[HsmAction]:
        found: dict[int, HsmAction] = {}
        for line in os.pread(self._file, _MOST, 0).splitlines():
            # Of the last line there may be a part alone.
            with suppress(ValueError, TypeError, ActionListError):
                values = json.loads(line)
                found.pop(values[0], None)
                if len(values) > 1:
                    action = _action(values)
                    found[action.cookie] = action
        return list(found.values())


def _line(action: HsmAction) -> bytes:
    return json.dumps([action.cookie, action.archive_id, action.item.hex()]).encode() + b"\n"


def _action(values: list[object]) -> HsmAction:
    """Raises ValueError, TypeError, ActionListError."""
    _, archive_id, item = values
    if not isinstance(archive_id, int) or not isinstance(item, str):
        raise TypeError("no action")
    return parse_action(bytes.fromhex(item), archive_id)
