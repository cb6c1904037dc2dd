"""A file of a library as a launch reads and writes it: in blocks of one size, each call counted and timed."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from gridwright.workload.launches.traffic import LaunchTraffic, blocked_time

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 64 << 10
"""What a call moves unless the matrix or the user says otherwise: the buffer of a SAS data set, and the block
that the published iotest.sh has (003.iot.block_kib)."""


class CountedFile(io.RawIOBase):
    """Reads or writes whole blocks that begin at multiples of their size, whatever size is asked for.

    What is left of a block is kept: a few bytes are no call of their own, and a long piece is many.
    """

    def __init__(
        self, path: Path, mode: str, library: str, traffic: LaunchTraffic, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """Open for reading (`r`), writing anew (`w`) or after what is there (`a`). Raises OSError."""
        super().__init__()
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "a": os.O_WRONLY}[mode]
        self._library = library
        self._traffic = traffic
        self._mode = mode
        self._block = block_bytes
        self._buffer = memoryview(bytearray(block_bytes))
        self._filled = 0
        """Bytes in the buffer: read and not all given out, or not written yet."""
        self._given = 0
        """Of these, how many were given out."""
        self._at = 0
        """Where the next call reads or writes."""
        with blocked_time() as blocked:
            self._fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._count(0, 0, blocked[0])

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._mode == "r"

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._mode != "r"

    def fileno(self) -> int:
        """The file descriptor, which stays this object's."""
        return self._fd

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As os.lseek; what is in the buffer is written, or dropped if the place is not in it."""
        self.flush()
        from_ = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell()}
        place = offset + (from_[whence] if whence in from_ else os.fstat(self._fd).st_size)
        if self._mode == "r" and self._at - self._filled <= place <= self._at:
            self._given = self._filled - (self._at - place)
        else:
            self._at = os.lseek(self._fd, place, os.SEEK_SET)
            self._filled = self._given = 0
        return place

    def tell(self) -> int:
        """Where the caller reads or writes next."""
        return self._at - (self._filled - self._given) if self._mode == "r" else self._at + self._filled

    def truncate(self, size: int | None = None) -> int:
        """Cut the file to `size` bytes, or to where it stands."""
        self.flush()
        size = self.tell() if size is None else size
        os.ftruncate(self._fd, size)
        return size

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the file goes; returns how many bytes."""
        view = memoryview(buffer).cast("B")
        done = self._give(view)
        if done == len(view):
            return done
        moved = calls = 0
        with blocked_time() as blocked:
            while done < len(view):
                room = self._room()
                kept = len(view) - done < room
                target = self._buffer[:room] if kept else view[done : done + room]
                got = os.readv(self._fd, [target])
                calls += 1
                if not got:
                    break
                moved += got
                self._at += got
                if kept:
                    self._filled, self._given = got, 0
                    done += self._give(view[done:])
                else:
                    # What the buffer held lies no longer just before the place of the next call.
                    self._filled = self._given = 0
                    done += got
        self._count(moved, calls, blocked[0])
        return done

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, or fewer at the end; all that is left if negative."""
        if size < 0:
            return self.readall()
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.readinto(buffer)])

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all of it, but for what begins a block that is not full: `flush` writes that."""
        view = memoryview(data).cast("B")
        if self._filled + len(view) < self._room():
            self._keep(view)
            return len(view)
        done = moved = calls = 0
        with blocked_time() as blocked:
            while done < len(view):
                missing = self._room() - self._filled
                if len(view) - done < missing:
                    self._keep(view[done:])
                    break
                if self._filled:
                    self._keep(view[done : done + missing])
                    moved, calls = moved + self._filled, calls + self._write_out(self._buffer[: self._filled])
                    self._filled = 0
                else:
                    moved, calls = moved + missing, calls + self._write_out(view[done : done + missing])
                done += missing
        self._count(moved, calls, blocked[0])
        return len(view)

    def flush(self) -> None:
        """Write what is in the buffer. Raises OSError, and has lost it then."""
        if self._mode == "r" or not self._filled:
            return
        size, self._filled = self._filled, 0
        with blocked_time() as blocked:
            calls = self._write_out(self._buffer[:size])
        self._count(size, calls, blocked[0])

    def close(self) -> None:
        """Write what is left and close it: a network file system may write back, and wait, here."""
        if self.closed:
            return
        try:
            self.flush()
        finally:
            with blocked_time() as blocked:
                os.close(self._fd)
            self._count(0, 0, blocked[0])
            super().close()

    def _room(self) -> int:
        """Bytes from the place of the next call to the end of its block."""
        return self._block - self._at % self._block

    def _give(self, view: memoryview) -> int:
        """Give out what is in the buffer; returns how many bytes."""
        step = min(len(view), self._filled - self._given)
        view[:step] = self._buffer[self._given : self._given + step]
        self._given += step
        return step

    def _keep(self, view: memoryview) -> None:
        self._buffer[self._filled : self._filled + len(view)] = view
        self._filled += len(view)

    def _write_out(self, view: memoryview) -> int:
        """Write all of it; returns in how many calls."""
        calls = done = 0
        while done < len(view):
            done += os.write(self._fd, view[done:])
            calls += 1
        self._at += len(view)
        return calls

    def _count(self, moved: int, calls: int, blocked_ns: int) -> None:
        self._traffic.add(self._library, "read" if self._mode == "r" else "write", moved, blocked_ns, calls)
