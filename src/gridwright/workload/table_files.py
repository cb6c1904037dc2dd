"""Tables on disk as a launch reads and writes them: uncompressed Arrow, streamed in large blocks."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gridwright.workload.traffic import LaunchTraffic, blocked_time

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_MAGIC = b"ARROW1\0\0"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Ends an Arrow stream (Arrow columnar format, "IPC Streaming Format")."""


class CountedFile(io.RawIOBase):
    """An unbuffered file of a library, each call counted and timed."""

    def __init__(self, path: Path, mode: str, library: str, traffic: LaunchTraffic) -> None:
        """Open for reading (`r`), writing anew (`w`) or at the end (`a`). Raises OSError."""
        super().__init__()
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "a": os.O_WRONLY}[mode]
        self._library = library
        self._traffic = traffic
        self._mode = mode
        with blocked_time() as blocked:
            self._fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._count(0, blocked[0])

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._mode == "r"

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._mode != "r"

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As os.lseek."""
        return os.lseek(self._fd, offset, whence)

    def tell(self) -> int:
        """Where the next call reads or writes."""
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file to `size` bytes, or to where it stands."""
        size = self.tell() if size is None else size
        os.ftruncate(self._fd, size)
        return size

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the file goes; returns how many bytes."""
        view = memoryview(buffer).cast("B")
        done = 0
        with blocked_time() as blocked:
            while done < len(view) and (got := os.readv(self._fd, [view[done:]])):
                done += got
        self._count(done, blocked[0])
        return done

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, or fewer at the end; all that is left if negative."""
        if size < 0:
            return self.readall()
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.readinto(buffer)])

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all of it."""
        view = memoryview(data).cast("B")
        with blocked_time() as blocked:
            done = 0
            while done < len(view):
                done += os.write(self._fd, view[done:])
        self._count(len(view), blocked[0])
        return len(view)

    def close(self) -> None:
        """Close it: a network file system may write back, and wait, here."""
        if not self.closed:
            with blocked_time() as blocked:
                os.close(self._fd)
            self._count(0, blocked[0])
        super().close()

    def _count(self, moved: int, blocked_ns: int) -> None:
        self._traffic.add(self._library, "read" if self._mode == "r" else "write", moved, blocked_ns)


class TableReader:
    """Reads a table from its beginning, block by block; iterate over it."""

    def __init__(self, path: Path, library: str, traffic: LaunchTraffic) -> None:
        """Open the table. Raises OSError, and ValueError if it is no Arrow table."""
        import pyarrow as pa

        from gridwright.workload.datasets.checksum import Checksum

        self.path = path
        self.checksum = Checksum()
        """Of the rows read so far."""
        self._file = CountedFile(path, "r", library, traffic)
        if self._file.read(len(_FILE_MAGIC)) != _FILE_MAGIC:
            self._file.seek(0)
        self._source = pa.PythonFile(self._file, mode="r")
        try:
            self._stream = pa.ipc.open_stream(self._source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is no Arrow table: {error}") from error

    @property
    def schema(self) -> pa.Schema:
        """The schema of every block."""
        return self._stream.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the blocks that are left, and count them into `checksum`; closes the file at the end."""
        for batch in self._stream:
            self.checksum.add_batch(batch)
            yield batch
        self.close()

    def to_arrow(self) -> pa.RecordBatchReader:
        """The blocks that are left, for an engine that reads Arrow streams."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TableWriter:
    """Writes a table block by block, as an Arrow stream, and can add to one."""

    def __init__(
        self, path: Path, schema: pa.Schema, library: str, traffic: LaunchTraffic, *, append: bool = False
    ) -> None:
        """Begin the table, or go on at the end of the one that is there. Raises OSError."""
        from gridwright.workload.datasets.checksum import Checksum

        self.path = path
        self.schema = schema
        self.checksum = Checksum()
        """Of the rows written here."""
        self._file = CountedFile(path, "a" if append else "w", library, traffic)
        if append:
            self._file.seek(-len(END_OF_STREAM), os.SEEK_END)
        else:
            self._file.write(schema.serialize())

    def write(self, batch: pa.RecordBatch, *, check: bool = True) -> None:
        """Write a block; `check` counts it into `checksum`."""
        if check:
            self.checksum.add_batch(batch)
        self._file.write(batch.serialize())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(END_OF_STREAM)
        self._file.close()
