"""Names on a Lustre of one's own: released files, of which Lustre itself holds every reader back."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gridwright.errors import environment_error
from gridwright.repository.below import at
from gridwright.repository.copytool.liblustreapi import LustreLibrary, ReleasedFile
from gridwright.repository.known_file import KnownFile

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ReleasedNames:
    """Makes released files of one HSM archive."""

    library: LustreLibrary
    archive_id: int

    @classmethod
    def of(cls, archive_id: int) -> ReleasedNames:
        """Raises GridwrightError where liblustreapi is missing, or who runs this is not root."""
        if os.geteuid() != 0:
            raise environment_error("only root may make released files", remedy="run it as root")
        return cls(LustreLibrary(), archive_id)

    @property
    def how(self) -> str:
        """How such names are read, in one line."""
        return (
            f"names are released files of HSM archive {self.archive_id}: "
            "gridwright repo serve brings what is read"
        )

    def make(self, directory: int, part: bytes, row: KnownFile) -> int:
        """Make a released file under a name that is not the one it will have; its descriptor.

        Opening it for reading brings nothing; only reading does. Raises OSError.
        """
        file = ReleasedFile(row.mode, row.uid, row.gid, row.size, row.atime_ns, row.mtime_ns)
        self.library.import_released(at(directory, part), self.archive_id, file)
        return os.open(part, _OPEN, dir_fd=directory)

    def wait_for(self, descriptor: int) -> None:
        """Have a file restored, if it is released, by reading a byte of it. Raises OSError."""
        os.pread(descriptor, 1, 0)
