"""Tables on disk as a launch reads and writes them: uncompressed Arrow, streamed in record batches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gridwright.workload.counted_file import BLOCK_BYTES, CountedFile
from gridwright.workload.launches.traffic import LaunchTraffic

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_MAGIC = b"ARROW1\0\0"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Ends an Arrow stream (Arrow columnar format, "IPC Streaming Format")."""


class TableReader:
    """Reads a table from its beginning, block by block; iterate over it."""

    def __init__(
        self, path: Path, library: str, traffic: LaunchTraffic, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """Open the table. Raises OSError, and ValueError if it is no Arrow table."""
        import pyarrow as pa

        from gridwright.workload.datasets.checksum import Checksum

        self.path = path
        self.checksum = Checksum()
        """Of the rows read so far."""
        self._file = CountedFile(path, "r", library, traffic, block_bytes)
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
        self,
        path: Path,
        schema: pa.Schema,
        library: str,
        traffic: LaunchTraffic,
        block_bytes: int = BLOCK_BYTES,
        *,
        append: bool = False,
    ) -> None:
        """Begin the table, or go on at the end of the one that is there. Raises OSError."""
        from gridwright.workload.datasets.checksum import Checksum

        self.path = path
        self.schema = schema
        self.checksum = Checksum()
        """Of the rows written here."""
        self._file = CountedFile(path, "a" if append else "w", library, traffic, block_bytes)
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
            return
        # What went wrong before is to be told, not that the rest cannot be written either.
        with contextlib.suppress(OSError):
            self._file.close()
