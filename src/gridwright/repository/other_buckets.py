"""What is known of the same directory with other buckets: a file that was released to one is not removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from gridwright.repository.known import Known
from gridwright.repository.state_directory import OF_BUCKETS
from gridwright.repository.state_failures import state_failure

_BUSY_S = 30.0


class OtherBuckets:
    """The files of the state directory beside that of this bucket. One thread uses it."""

    def __init__(self, known: Known) -> None:
        found = known.state.path.glob(OF_BUCKETS)
        self._files = [each for each in sorted(found) if each != known.file]

    def have_released(self, path: bytes) -> bool:
        """Whether one of them says that a file is in its bucket alone. Raises GridwrightError."""
        return any(_has_released(each, path) for each in self._files)


def _has_released(file: Path, path: bytes) -> bool:
    query = "SELECT 1 FROM files WHERE path = ? AND inode = 0 AND is_name_only <> 0"
    try:
        # A journal that a kill has left is played back, so that it is not opened for reading alone.
        url = f"file:{quote(str(file))}?mode=rw"
        with closing(sqlite3.connect(url, uri=True, timeout=_BUSY_S)) as database:
            return database.execute(query, (path,)).fetchone() is not None
    except sqlite3.Error as error:
        with suppress(FileNotFoundError):
            file.stat()
            raise state_failure(error, file) from error
        return False
