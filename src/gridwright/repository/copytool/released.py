"""Names on a Lustre of one's own: released files, of which Lustre holds every reader and writer back."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.repository.below import at
from gridwright.repository.changelog.records import fid_of
from gridwright.repository.copytool.liblustreapi import (
    ARCHIVED,
    DIRTY,
    EXISTS,
    LOST,
    NEVER_RELEASE,
    RELEASED,
    LustreLibrary,
    ReleasedFile,
    is_on_mdt,
)
from gridwright.repository.known_file import KnownFile
from gridwright.repository.references import StateError, read_state

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


_WHY_LEFT = {errno.EPERM: "left, as they were changed", errno.EBUSY: "left, as they are open"}


def why_only_copy(directory: Path, row: KnownFile) -> str | None:
    """Why a row's object has to stay though its path has another file, or none; None where it need not.

    It is the only copy of a released file of Lustre, which has another name by now, in the library or not.
    Its own attribute says which object has its content, until an export gives it another. Raises OSError.
    """
    if not (row.is_name_only and row.inode):
        return None
    mount = next(each for each in (directory, *directory.parents) if os.path.ismount(each))
    fid = fid_of(row.inode)
    if fid is not None:
        inodes = mount / ".lustre" / "fid"
        try:
            state = read_state(os.fsencode(inodes / str(fid)))
        except FileNotFoundError:
            inodes.stat()  # Where a part of a Lustre is mounted, this is the error.
            return None
        except StateError:
            state = None
        else:
            if state is None or not state.is_name_only or state.reference.key != row.key:
                return None
    names = "lfs find" if fid is None else f"lfs fid2path {mount} {fid}"
    return (
        "its object is the only copy of a released file that has another name by now, and stays: "
        f"read that file ({names} names it), and export again"
    )


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

    def is_released(self, descriptor: int) -> bool:
        """Whether an open file has no content here. Raises OSError."""
        return bool(self.library.hsm_state(descriptor).flags & RELEASED)

    def why_never(self, descriptor: int) -> str | None:
        """Why Lustre releases an open file never, as it is; None where it may. Raises OSError.

        It gives EPERM for these as for changed ones: mdt_hsm_release of lustre/mdt/mdt_open.c.
        """
        if self.library.hsm_state(descriptor).flags & (NEVER_RELEASE | LOST):
            return "left, as they are marked in Lustre as lost, or never to be released"
        return (
            "left, as they have content on an MDT, which Lustre does not release"
            if is_on_mdt(descriptor)
            else None
        )

    def version(self, descriptor: int) -> int:
        """The version of an open file's content, after all clients have written what they had of it.

        Raises OSError.
        """
        return self.library.data_version(descriptor)

    def release(self, root: bytes, descriptor: int, version: int) -> str | None:
        """Free the content of an open file that is that of its object; why not, where it was not freed.

        `root` is a path on the same Lustre. The metadata server refuses where the content has another version
        than the one given, whichever client has written it; it keeps the inode, so that whoever has the file
        open waits for an agent. Raises OSError.
        """
        before = self.library.hsm_state(descriptor)
        # Who has written to it before, and was archived or exported since, has left it dirty.
        self.library.set_hsm_state(descriptor, EXISTS | ARCHIVED, DIRTY, self.archive_id)
        try:
            self.library.set_archived_version(descriptor, version)
            self.library.request_release(root, descriptor)
        except OSError as error:
            why = _WHY_LEFT.get(error.errno or 0)
            # It is not archived, and who says so next has to prove it again.
            dirty, proof = before.flags & DIRTY, (EXISTS | ARCHIVED) & ~before.flags
            self.library.set_hsm_state(descriptor, dirty, proof, before.archive_id)
            if why is None:
                raise
            return why
        return None
