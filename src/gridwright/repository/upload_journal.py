"""Uploads in parts that have not ended: what a kill leaves in a bucket costs until it is aborted.

There is a line for each that is begun, and one more when it has ended. The lines of a command that was killed
say what to abort. Nothing else is aborted: a bucket has uploads of other programs, too. Where these lines are
lost, a rule of the bucket (AbortIncompleteMultipartUpload) has to do.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress

from gridwright.repository.state_directory import UPLOADS
from gridwright.trusted import open_file

_MOST = 64 << 20
"""Bytes of the file that are read: about 300,000 uploads."""


class UploadJournal:
    """The lines of one repository, in an open state directory. Any thread may write."""

    def __init__(self, directory: int) -> None:
        """Open it. Raises GridwrightError, OSError."""
        self._file: int | None = open_file(directory, UPLOADS, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def begin(self, place: str, key: str, upload_id: str) -> None:
        """Note one that was begun, in a bucket of a store (`place`). Raises OSError."""
        self._write([place, key, upload_id])

    def end(self, upload_id: str) -> None:
        """Note that the store has nothing of it any more. Raises OSError."""
        self._write([upload_id])

    def _write(self, line: list[str]) -> None:
        # A kill loses nothing that the kernel has. A thread may be late, and nobody waits for it.
        with self._lock:
            if self._file is not None:
                os.write(self._file, json.dumps(line).encode() + b"\n")

    def left(self, place: str) -> list[tuple[str, str]]:
        """Keys and identifiers of uploads to a bucket of a store that did not end. Raises OSError.

        Another store may have a bucket of that name, and says of these that they are not there.
        """
        return [(key, upload_id) for where, key, upload_id in self._left() if where == place]

    def _left(self) -> list[tuple[str, str, str]]:
        found: dict[str, tuple[str, str, str]] = {}
        for line in os.pread(self._opened, _MOST, 0).splitlines():
            # Of a full disk's last line there may be a part alone.
            with suppress(ValueError, TypeError):
                *where, upload_id = json.loads(line)
                found.pop(upload_id, None)
                if len(where) == 2:
                    found[upload_id] = where[0], where[1], upload_id
        return list(found.values())

    def shorten(self) -> None:
        """Begin anew where nothing is left of any bucket. Raises OSError."""
        if not self._left():
            os.ftruncate(self._opened, 0)

    def close(self) -> None:
        """Close it."""
        with self._lock:
            opened, self._file = self._opened, None
        os.close(opened)

    @property
    def _opened(self) -> int:
        if self._file is None:
            raise ValueError("it is closed")
        return self._file
